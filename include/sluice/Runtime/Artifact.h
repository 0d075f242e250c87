// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The artifact's file: checked against its trailer, then loaded.
#pragma once

#include "sluice/Runtime/Files.h"
#include "sluice/Runtime/MemoryFile.h"
#include "sluice/Runtime/Plan.h"
#include "sluice/Runtime/Trailer.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

using KernelFunction = void (*)(uint8_t *arena, const int64_t *arguments, int64_t item,
                                uint8_t *scratch);

/// A kernel of the chosen target.
struct LoadedKernel {
  KernelFunction function = nullptr;
  int64_t items = 0, scratchBytes = 0;
};

/// The instruction set that this machine runs, best first: {"cpu-avx512", "cpu-avx2"}, {"cpu-avx2"}
/// or {}.
std::vector<std::string> machineTargets();

/// A loaded artifact. Its code lives as long as the object.
class Artifact {
public:
  /// `target` forces an instruction set ("cpu-avx2", "cpu-avx512"); empty takes the environment's
  /// SLUICE_CPU_TARGET or else the best that the machine and the artifact share. Throws UserError;
  /// that no CPU code fits is said by `requireCpu` where the artifact has code for GPUs.
  static std::shared_ptr<const Artifact> load(const Path &path, const std::string &target = "");
  /// The same for a look at it, on any machine: that no CPU code fits is said by `requireCpu`.
  static std::shared_ptr<const Artifact> loadForAnyMachine(const Path &path);
  /// The same of a file's bytes; `origin` is its name in messages.
  static std::shared_ptr<const Artifact> fromBytes(std::vector<uint8_t> bytes, std::string origin,
                                                   const std::string &target = "");

  ~Artifact();
  Artifact(const Artifact &) = delete;
  Artifact &operator=(const Artifact &) = delete;

  const Plan &plan() const { return parsedPlan; }
  const std::string &planText() const { return text; }
  const std::string &path() const { return origin; }
  /// The chosen CPU target, empty where there is none.
  const std::string &target() const { return chosenTarget; }
  /// Throws UserError unless there is CPU code that this machine runs.
  void requireCpu() const;
  /// Its GPU targets, or the one that `wanted` names, for `device`. Throws UserError where it has
  /// none.
  std::vector<std::string> requireGpuTargets(const std::string &device,
                                             const std::string &wanted) const;
  std::span<const uint8_t> constants() const { return constantTable; }
  /// The bytes of the shared object, without the trailer.
  std::span<const uint8_t> elf() const { return {contents.data(), contents.size() - trailerBytes}; }
  /// Bytes named `symbol` with their number in `symbol`_size: a GPU variant's bitcode, PTX or
  /// cubin. Empty where the artifact has none of this name. Throws UserError where the number is
  /// wrong.
  std::span<const uint8_t> blob(const std::string &symbol) const;
  /// CPU kernels of the chosen target, by index in the plan.
  const std::vector<LoadedKernel> &kernels() const { return functions; }

private:
  Artifact() = default;
  static std::shared_ptr<Artifact> readAll(std::vector<uint8_t> bytes, std::string origin);
  void open();
  void *require(const std::string &symbol) const;
  void readPlan();
  void chooseTarget(const std::string &wanted);

  std::string origin, text, chosenTarget, cpuProblem;
  std::vector<uint8_t> contents;
  std::optional<MemoryFile> memoryFile;
  void *library = nullptr;
  Plan parsedPlan;
  std::span<const uint8_t> constantTable;
  std::vector<LoadedKernel> functions;
};

} // namespace sluice::runtime
