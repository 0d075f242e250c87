// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads the code of a plan on a GPU.
#pragma once

#include "CudaDriver.h"
#include "sluice/Runtime/Device/Device.h"

namespace sluice::runtime::cuda {

/// The loaded functions of every kernel's stages.
class LoadedFunctions {
public:
  /// Loads cubins if `takesCubin`. Otherwise, and for cubins that the driver rejects, the driver
  /// compiles PTX, which `notice` reports. Throws UserError.
  LoadedFunctions(const Driver &driver, const Artifact &artifact, const std::string &target,
                  bool takesCubin, int64_t mostSharedBytes);

  /// Returns a message to show to the user once; empty: none.
  std::string notice() const;

  /// Runs all stages of a launch, in order, on `stream`.
  void launch(const Launch &launch, Address arena, Address arguments, Stream stream) const;

private:
  struct Loaded {
    const DeviceStage *stage = nullptr;
    Function function = nullptr;
  };
  /// Cubins that the driver rejected, and the cost of the replacement.
  struct Refusal {
    int64_t count = 0;
    std::string why;    // the driver's message for the first
    double seconds = 0; // time to compile PTX in their place
  };
  Owned<Module> loadModule(const std::string &name, bool takesCubin);
  Module compilePtx(const std::string &name) const;
  void reserveShared(const PlanKernel &kernel, const DeviceStage &stage, Function function,
                     int64_t mostSharedBytes) const;

  const Driver &driver;
  const Artifact &artifact;
  const std::string target;
  Refusal refusal;
  std::vector<Owned<Module>> modules;
  std::vector<std::vector<Loaded>> kernels; // by kernel and stage
};

/// Joins two notices, either of which may be empty.
std::string joinNotices(const std::string &first, const std::string &second);

} // namespace sluice::runtime::cuda
