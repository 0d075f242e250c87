// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs GPU launches on the emulator, which checks them.
#pragma once

#include "sluice/Runtime/Device/Device.h"

namespace sluice::runtime {

/// The expected value of an element of a launch's result. A result is a matrix whose rows start
/// `stride` elements apart.
struct Expectation {
  size_t result = 0;
  int64_t row = 0, column = 0; ///< row -1: the whole column
  int64_t rows = 0, stride = 0;
  Type type = Type::f32;
  double value = 0, bound = 0;
};
/// Receives the expectation of each checked element after a launch.
using Observer = std::function<void(const Expectation &)>;

/// Creates a device that emulates GPU code on the CPU and checks it: a launch that breaks a rule
/// throws JobError with the kernel's name. `target` selects the code; if it is empty, the
/// artifact's first GPU target is used. Throws UserError if the artifact has no GPU code, or if the
/// plug-in libsluice_emulator_plugin.so is not in the runtime's folder.
std::unique_ptr<Device> makeEmulatorDevice(std::shared_ptr<const Artifact> artifact,
                                           const std::string &target = "", Observer observer = {});

} // namespace sluice::runtime
