// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row and scatter kernels of the CUDA target on the emulator, from the text of a dispatch op.
#pragma once

#include "RowsText.h"
#include "sluice/Emulator/Emulator.h"
#include "sluice/Target/CUDA/Kernel.h"

namespace sluice::test {

/// A CUDA kernel as the module that its backend is fed. Its launches run with their buffers apart
/// and their blocks in a random order, and must break no rule.
class EmulatedRows {
public:
  /// `edit` may plant a fault; then `reports` say what came of it.
  using Edit = void (*)(llvm::Module &);
  explicit EmulatedRows(const std::string &text, Edit edit = nullptr);
  bool made() const { return !emulators.empty(); }

  /// Results, dense row-major; what is not written reads 1e30 (f32) or about that (bf16).
  /// Operands of bf16 are rounded as they are stored.
  std::vector<Floats> run(const Launch &launch);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  cuda::Kernel kernel;
  std::vector<emulator::Report> reports; ///< of the last run, one a launch

  /// Bytes of whole sectors that vector accesses of global memory moved in the last run, and those
  /// that side by side would have been enough for.
  struct Traffic {
    double bytes = 0, least = 0;
  };
  Traffic rowTraffic() const;

private:
  struct Slot {
    int64_t rows = 1, width = 1, stride = 1, bytes = 4;
    bool floats = true;
    int64_t size() const { return rows * stride * bytes; }
  };
  void make(const std::string &text);
  void put(uint8_t *at, const Slot &slot, float value) const;
  float get(const uint8_t *at, const Slot &slot) const;

  Edit edit;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> source;
  mlir::Operation *dispatch = nullptr;
  std::vector<std::unique_ptr<emulator::Emulator>> emulators; ///< one a launch
  std::vector<Slot> slots;                                    ///< operands, then results
  uint64_t runs = 0;
};

/// A context with every dialect that dispatches may hold.
std::unique_ptr<mlir::MLIRContext> makeDispatchContext();
/// The kernel of a rows or scatter_rows op.
mlir::FailureOr<cuda::Kernel> generateRowsOrScatter(mlir::Operation *op, mlir::ModuleOp module);

/// PTX of both architectures, which calls nothing; where there is a ptxas, cubins without spills or
/// stack. Gives the most registers of a launch; 0 without ptxas.
int64_t checkAssembly(mlir::ModuleOp module, const std::string &what);

float roundedToBf16(float value);

} // namespace sluice::test
