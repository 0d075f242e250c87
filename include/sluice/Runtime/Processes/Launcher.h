// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the launcher that started this process as one of several, and joins the others by MPI.
#pragma once

#include "sluice/Runtime/Processes/ProcessGroup.h"

#include <functional>
#include <optional>

namespace sluice::runtime {

/// A launcher of parallel processes, by the environment that it sets.
struct Launcher {
  std::string name;     ///< "mpirun of Open MPI"
  std::string variable; ///< the environment variable that shows it
  int64_t rank = 0;
  int64_t size = 0;      ///< number of processes; 0: unknown
  int64_t localSize = 0; ///< number of processes on this machine; 0: unknown
  bool isOpenMpi = true; ///< false: a launcher whose MPI has another binary interface

  bool isParallel() const { return size != 1; }
};

/// Returns the launcher; none if this process was started alone. `get` returns the value of an
/// environment variable, or null.
std::optional<Launcher> findLauncher(const std::function<const char *(const char *)> &get);
/// Reads the environment of this process.
std::optional<Launcher> findLauncher();

/// Returns the words that start as many processes again, "mpirun -n 3 " or "srun --mpi=pmix -n 3 ";
/// empty for one process, and in a script of sbatch.
std::string describeLaunch(const std::optional<Launcher> &launcher = findLauncher());

/// Joins the processes of the launcher through libsluice_mpi.so, which is next to the program's
/// libraries, or the library that the environment variable SLUICE_MPI names. Throws UserError if it
/// cannot be loaded, or if it does not find all of the launcher's processes.
std::unique_ptr<Messenger> joinByMpi(const Launcher &launcher);

} // namespace sluice::runtime
