// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks an artifact against its trailer, and loads it.
#pragma once

#include "sluice/Runtime/Plan/Plan.h"
#include "sluice/Support/Files.h"
#include "sluice/Support/MemoryFile.h"
#include "sluice/Support/Trailer.h"

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
  int64_t items = 0, scratchBytes = 0, phases = 1;
};

/// Returns the instruction sets that this machine supports, best first, of cpu-amx,
/// cpu-avx512-bf16, cpu-avx512-vnni, cpu-avx512 and cpu-avx2.
std::vector<std::string> machineTargets();

/// A loaded artifact. Its code stays loaded for the lifetime of the object.
class Artifact {
public:
  /// Loads an artifact. `target` selects an instruction set ("cpu-avx2", "cpu-avx512"); if it is
  /// empty, the environment variable SLUICE_CPU_TARGET, or else the best one that both the machine
  /// and the artifact support. Where code with more than AVX-512 is selected, code for fewer of its
  /// instructions runs if the artifact has no other with AVX-512. Throws UserError. If the artifact
  /// has GPU code, missing CPU code is an error only in `requireCpu`.
  static std::shared_ptr<const Artifact> load(const Path &path, const std::string &target = "");
  /// Loads an artifact for inspection on any machine: missing CPU code is an error only in
  /// `requireCpu`.
  static std::shared_ptr<const Artifact> loadForAnyMachine(const Path &path);
  /// Loads an artifact from the bytes of a file; `origin` is its name in messages.
  static std::shared_ptr<const Artifact> fromBytes(std::vector<uint8_t> bytes, std::string origin,
                                                   const std::string &target = "");

  ~Artifact();
  Artifact(const Artifact &) = delete;
  Artifact &operator=(const Artifact &) = delete;

  const Plan &plan() const { return parsedPlan; }
  const std::string &planText() const { return text; }
  const std::string &path() const { return origin; }
  /// Returns the selected CPU target; empty if there is none.
  const std::string &target() const { return chosenTarget; }
  /// Throws UserError unless the artifact has CPU code that this machine can run.
  void requireCpu() const;
  /// Returns the artifact's GPU targets, or only `wanted` if it is given. Throws UserError, which
  /// names `device`, if there is no such target.
  std::vector<std::string> requireGpuTargets(const std::string &device,
                                             const std::string &wanted) const;
  std::span<const uint8_t> constants() const { return constantTable; }
  /// Returns the bytes of the shared object, without the trailer.
  std::span<const uint8_t> elf() const { return {contents.data(), contents.size() - trailerBytes}; }
  /// Returns the bytes at `symbol`, whose number is at `symbol`_size: bitcode, PTX or cubin of a
  /// GPU variant. Empty if the artifact has no such symbol. Throws UserError if the size is wrong.
  std::span<const uint8_t> blob(const std::string &symbol) const;
  /// Returns the CPU kernels of the selected target, by index in the plan.
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
