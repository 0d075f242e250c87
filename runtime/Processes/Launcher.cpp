// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Processes/Launcher.h"

#include "MpiInterface.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <string_view>
#include <sys/mman.h>

namespace sluice::runtime {
namespace {

constexpr const char *libraryVariable = "SLUICE_MPI";

std::string getLibraryPath() {
  if (const char *named = std::getenv(libraryVariable); named && *named) {
    return named;
  }
  std::error_code ignored;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (program.parent_path().parent_path() / "lib" / "libsluice_mpi.so").string();
}

/// Returns "mpirun of Open MPI started 3 processes (OMPI_COMM_WORLD_SIZE)".
std::string describe(const Launcher &launcher) {
  return launcher.name + " started " +
         (launcher.size > 0 ? std::to_string(launcher.size) : "several") + " processes (" +
         launcher.variable + ")";
}

const SluiceMpi &openLibrary(const Launcher &launcher) {
  std::string path = getLibraryPath();
  // Open MPI loads parts of itself, which need its symbols.
  void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char *error = ::dlerror();
    throw UserError(describe(launcher) +
                    ": expected libsluice_mpi.so, which joins them, found none that "
                    "loads (" +
                    std::string(error ? error : path) +
                    "); install Open MPI (libopenmpi-dev) and build sluice again, or start sluice "
                    "without a launcher");
  }
  auto *get = reinterpret_cast<SluiceMpiGetter *>(::dlsym(library, sluiceMpiSymbol));
  const SluiceMpi *functions = get ? get() : nullptr;
  if (!functions || functions->version != sluiceMpiVersion) {
    throw UserError(path +
                    ": expected the libsluice_mpi.so of this version of sluice, found another "
                    "library; build sluice again");
  }
  return *functions;
}

/// Throws JobError if little address space is left. Open MPI starts without an error where it
/// cannot map the memory that it shares with other processes, 4 MB for each of a machine. These
/// then send messages that never arrive.
void requireAddressSpace() {
  constexpr size_t megabytes = 16, bytes = megabytes << 20;
  void *memory = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw JobError("out of memory: expected " + std::to_string(megabytes) +
                   " MB of address space after the start of MPI, found less; raise the limit of "
                   "this process (ulimit -v)");
  }
  ::munmap(memory, bytes);
}

class MpiMessenger : public Messenger {
public:
  explicit MpiMessenger(const SluiceMpi &mpi) : mpi(mpi) {
    if (mpi.initialize() < 0) {
      throw UserError("expected MPI to start, found that it failed; its message is above");
    }
    requireAddressSpace();
  }

  int64_t rank() const override { return mpi.rank(); }
  int64_t size() const override { return mpi.size(); }
  void *send(std::span<const uint8_t> bytes, int64_t to, Channel channel) override {
    return require(mpi.send(bytes.data(), std::ssize(bytes), to, static_cast<int64_t>(channel)),
                   "send to", to);
  }
  void *receive(std::span<uint8_t> bytes, int64_t from, Channel channel) override {
    return require(
        mpi.receive(bytes.data(), std::ssize(bytes), from, static_cast<int64_t>(channel)),
        "receive from", from);
  }
  bool test(void *request) override {
    int64_t state = mpi.test(request);
    if (state < 0) {
      throw JobError("MPI failed to exchange data with another rank; look at the network");
    }
    return state == 1;
  }
  void finish() override { mpi.finish(); }

private:
  static void *require(void *request, const char *action, int64_t peer) {
    if (!request) {
      throw LostPeerError("rank " + std::to_string(peer) + ": MPI failed to " + action +
                          " it; look at the network and at free memory");
    }
    return request;
  }

  const SluiceMpi &mpi;
};

} // namespace

std::optional<Launcher> findLauncher(const std::function<const char *(const char *)> &get) {
  auto has = [&](const char *name) { return get(name) && *get(name); };
  auto number = [&](const char *name) {
    std::string_view text = has(name) ? get(name) : "";
    int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return std::max<int64_t>(0, value);
  };
  bool hasSlurm = has("SLURM_PROCID") && has("SLURM_NTASKS");
  if (has("OMPI_COMM_WORLD_SIZE")) {
    return Launcher{"mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", number("OMPI_COMM_WORLD_RANK"),
                    number("OMPI_COMM_WORLD_SIZE"), number("OMPI_COMM_WORLD_LOCAL_SIZE")};
  }
  if (hasSlurm) { // srun sets the first variable, and scripts of sbatch have only the second
    const char *size = has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    return Launcher{"Slurm", size, number("SLURM_PROCID"), number(size)};
  }
  if (has("PMI_SIZE")) { // Slurm's PMI was found above
    return Launcher{"a launcher of MPICH",     "PMI_SIZE",
                    number("PMI_RANK"),        number("PMI_SIZE"),
                    number("MPI_LOCALNRANKS"), /*isOpenMpi=*/false};
  }
  if (has("PMIX_RANK")) {
    return Launcher{"a launcher with PMIx", "PMIX_RANK", number("PMIX_RANK")};
  }
  return std::nullopt;
}

std::optional<Launcher> findLauncher() {
  return findLauncher([](const char *name) -> const char * { return std::getenv(name); });
}

std::string describeLaunch(const std::optional<Launcher> &launcher) {
  if (!launcher || launcher->size <= 1 || launcher->variable == "SLURM_NTASKS") {
    return "";
  }
  return (launcher->name == "Slurm" ? "srun --mpi=pmix -n " : "mpirun -n ") +
         std::to_string(launcher->size) + " ";
}

std::unique_ptr<Messenger> joinByMpi(const Launcher &launcher) {
  if (!launcher.isOpenMpi) {
    throw UserError(describe(launcher) +
                    ": expected Open MPI, found another MPI; start sluice with "
                    "Open MPI's mpirun, or without a launcher");
  }
  auto messenger = std::make_unique<MpiMessenger>(openLibrary(launcher));
  if (launcher.size > 0 && messenger->size() != launcher.size) {
    throw UserError(describe(launcher) + ": expected MPI to find them, found that it has " +
                    std::to_string(messenger->size()) +
                    "; use the launcher of the Open MPI that sluice was built with, or srun "
                    "--mpi=pmix; for one process unset " +
                    launcher.variable);
  }
  return messenger;
}

} // namespace sluice::runtime
