// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the CUDA kernel of a dispatch op on the emulator: from the op's text to dense results.
#pragma once

#include "sluice/Emulator/Emulator.h"
#include "sluice/Target/CUDA/Kernel.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>
#include <vector>

namespace sluice::test {

/// What one run of a CUDA kernel is given. Operands are dense row-major, rounded to the tensor's
/// element type.
struct CudaRun {
  std::vector<std::vector<float>> operands = {};
  int64_t length = 0, rows = 0, step = 1, seed = 0, firstStream = 0;
  std::map<unsigned, unsigned> shares = {}; ///< result -> operand whose memory it shares
  emulator::Options options = {};
};

/// A dispatch op's CUDA kernel, as the module that the backend is fed for sm_80.
class EmulatedKernel {
public:
  /// `text` is a module whose function holds one dispatch op. Records a test failure when any step
  /// fails; `made` says whether it can run.
  explicit EmulatedKernel(const std::string &text);
  bool made() const { return !emulators.empty(); }
  const cuda::Kernel &kernel() const { return generated; }
  mlir::ModuleOp kernels() { return *module; }

  /// Runs every stage and gives the results, dense row-major. What is not an operand holds NaN:
  /// padding, results and workspace before the run, guards around every buffer. A violation, and a
  /// write outside a result or the workspace, is a test failure.
  std::vector<std::vector<float>> run(const CudaRun &run);
  /// The counters of each stage of the last run.
  std::vector<emulator::Counters> counters;

  std::string ptx(const cuda::Target &target); ///< of all stages

  /// PTX of both architectures holds `instruction`; where there is a ptxas, cubins of all stages
  /// have neither spills nor stack. Prints registers, shared memory and blocks a multiprocessor.
  void checkAssembly(const std::string &instruction);

private:
  struct Slot {
    int64_t rows = 1, width = 1, stride = 1, bytes = 4;
    char type = 'f'; ///< f: f32, b: bf16, i: i32
    int64_t size() const { return rows * stride * bytes; }
  };
  void make(const std::string &text);
  void describe();
  void put(uint8_t *memory, const Slot &slot, const std::vector<float> &values);
  std::vector<float> get(const uint8_t *memory, const Slot &slot);

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> source, module;
  mlir::Operation *dispatch = nullptr;
  cuda::Kernel generated;
  std::vector<std::unique_ptr<emulator::Emulator>> emulators; ///< one a stage
  std::vector<Slot> slots;                                    ///< operands, then results
};

/// What the generator says of an op that it refuses; the module must stay empty.
std::string cudaRefusal(const std::string &text);

float roundedToBf16(float value);
/// Numbers in [-1, 1), rounded to bf16.
std::vector<float> bf16Numbers(int64_t count, unsigned seed);
/// Small integers from -most to most.
std::vector<float> smallIntegers(int64_t count, unsigned seed, int most);

} // namespace sluice::test
