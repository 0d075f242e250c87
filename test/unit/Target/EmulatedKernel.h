// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the CUDA kernel of a dispatch op on the emulator: from the op's text to dense results.
#pragma once

#include "GeneratedKernel.h"

#include "sluice/Emulator/Emulator.h"

#include <map>
#include <optional>

namespace sluice::test {

struct KernelInputs;

/// Inputs of one run of a CUDA kernel. Operands are dense row-major, rounded to the tensor's
/// element type.
struct CudaRun {
  std::vector<std::vector<float>> operands = {};
  int64_t length = 0, rows = 0, step = 1, seed = 0, firstStream = 0;
  std::map<unsigned, unsigned> shares = {}; ///< result -> operand whose memory it shares
  /// If false: random block order, with random interleaving of warps and threads.
  std::optional<emulator::Options> options = {};
  std::vector<int64_t> lengths = {}; ///< of an axis of segments, replaces `length`
};

/// Converts the run for a CPU kernel.
CudaRun getRun(const KernelInputs &launch);

/// A dispatch op's CUDA kernel, as the backend's input module.
class EmulatedKernel : public GeneratedKernel {
public:
  /// `edit` may inject a fault; then `reports` has the outcome, and violations are no failure.
  using Edit = void (*)(llvm::Module &);
  explicit EmulatedKernel(const std::string &text, Edit edit = nullptr,
                          const cuda::Target &target = cuda::Target::sm80());

  /// Runs every launch and gives the results, dense row-major, widened to f32; `isUntouched`
  /// identifies unwritten elements. Padding, the workspace and guards around every buffer hold NaN
  /// before the run. Test failures: a violation; a write outside a result and the workspace, or in
  /// the workspace by a launch after the first; a byte there that attention's first launch leaves
  /// out.
  std::vector<std::vector<float>> run(const CudaRun &run);

  std::vector<emulator::Report> reports; ///< of the last run, one a launch

private:
  struct Slot {
    int64_t rows = 1, width = 1, stride = 1, bytes = 4;
    bool floats = true;
    int64_t size() const { return rows * stride * bytes; }
  };
  struct Arena;
  int64_t counterBytes() const { return generated.counters * cuda::Kernel::counterBytes; }
  void describe();
  void load();
  void put(uint8_t *at, const Slot &slot, float value) const;
  float get(const uint8_t *at, const Slot &slot) const;
  void lay(Arena &arena, const CudaRun &run) const;
  void fill(Arena &arena, const CudaRun &run) const;
  void launch(Arena &arena, const emulator::Options &options);

  const Edit edit;
  std::vector<std::unique_ptr<emulator::Emulator>> emulators; ///< one a launch
  std::vector<Slot> slots;                                    ///< operands, then results
  uint64_t runs = 0;
};

/// Returns true if a result's number, of f32 or bf16, is unchanged by the run: 1e30.
bool isUntouched(float value);

/// To nearest, ties to even.
float roundedToBf16(float value);
/// Numbers in [-1, 1), rounded to bf16.
std::vector<float> bf16Numbers(int64_t count, unsigned seed);
/// Small integers from -most to most.
std::vector<float> smallIntegers(int64_t count, unsigned seed, int most);

} // namespace sluice::test
