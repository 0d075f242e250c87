// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs one generated CUDA kernel on the emulator: from the text of a dispatch op, whose tensors may
// be bf16 or f32, to dense results. All launches of the kernel, with their workspace.
#pragma once

#include "sluice/Emulator/Emulator.h"
#include "sluice/Target/CUDA/Kernel.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice::test {

using CudaGenerator = std::function<mlir::FailureOr<cuda::Kernel>(
    mlir::Operation *dispatch, mlir::ModuleOp module, llvm::StringRef name)>;

struct CudaRun {
  std::vector<std::vector<float>> operands; ///< dense row-major; rounded to the tensor's type
  int64_t length = 0, rows = 0, step = 1, seed = 0, firstStream = 0;
  emulator::Options options = {};
};

/// A kernel as MLIR. Records a test failure when a step fails; `made` says whether none did.
class GeneratedKernel {
public:
  GeneratedKernel(llvm::StringRef text, const CudaGenerator &generator);

  bool made() const { return ready; }
  const cuda::Kernel &kernel() const { return kernel_; }
  mlir::ModuleOp module() const { return *kernels; }
  mlir::Operation *dispatch() const { return dispatch_; }

protected:
  void generate(llvm::StringRef text, const CudaGenerator &generator);

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> source, kernels;
  mlir::Operation *dispatch_ = nullptr;
  cuda::Kernel kernel_;
  bool ready = false;
};

class EmulatedKernel : public GeneratedKernel {
public:
  EmulatedKernel(llvm::StringRef text, const CudaGenerator &generator);
  ~EmulatedKernel();

  /// Results, dense row-major, widened to f32; what no kernel wrote is `untouched`. Everything that
  /// is not an operand holds that value. A violation is recorded as a test failure; so is a byte of
  /// the workspace that the first launch leaves out, or that a later one writes.
  std::vector<std::vector<float>> run(const CudaRun &run);
  static constexpr float untouched = 1.00000002e30f; ///< 0x7149f2ca; bf16 finds 0x7149 or 0xf2ca
  static bool isUntouched(float value, bool bf16);

  std::vector<emulator::Report> reports; ///< of the last run, a launch each

private:
  struct Slot {
    int64_t rows, width, stride; ///< in elements
    bool bf16;
    int64_t bytes() const { return rows * stride * (bf16 ? 2 : 4); }
  };
  void describe();
  void load();
  void write(uint8_t *to, const Slot &slot, const std::vector<float> &values) const;
  std::vector<float> read(const uint8_t *from, const Slot &slot) const;

  std::vector<std::unique_ptr<emulator::Emulator>> stages;
  std::vector<Slot> slots;
  size_t operandCount = 0;
};

/// To nearest, ties to even.
float roundedToBf16(float value);

} // namespace sluice::test
