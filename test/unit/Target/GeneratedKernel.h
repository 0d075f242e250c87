// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A dispatch op's CUDA kernel, from the op's text: as MLIR, as PTX and as cubins.
#pragma once

#include "sluice/Target/CUDA/Generate.h"
#include "sluice/Target/CUDA/PTX/Ptxas.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>
#include <vector>

namespace sluice::test {

/// A context with every dialect of dispatches.
std::unique_ptr<mlir::MLIRContext> makeDispatchContext();

/// A kernel as MLIR.
class GeneratedKernel {
public:
  /// `text` is a module whose function contains one dispatch op. Records a test failure when any
  /// step fails; `made` is true if none did.
  explicit GeneratedKernel(const std::string &text,
                           const cuda::Target &target = cuda::Target::sm80());
  bool made() const { return ready; }
  const cuda::Kernel &kernel() const { return generated; }
  mlir::ModuleOp module() const { return *kernels; }

  /// Expects PTX of both architectures, or of sm_90a alone if the kernel was generated for it, to
  /// contain `instructions` and no call and, with ptxas, cubins of all launches without spills,
  /// stack or serialized products that fit on a multiprocessor. Prints their registers, shared
  /// memory and blocks per multiprocessor.
  void checkAssembly(const std::vector<std::string> &instructions = {});
  std::string ptx(const cuda::Target &target) const; ///< of all launches; empty on failure

protected:
  std::unique_ptr<mlir::MLIRContext> context; ///< outlives its results
  mlir::OwningOpRef<mlir::ModuleOp> source, kernels;
  mlir::Operation *dispatch = nullptr;
  cuda::Kernel generated;
  bool ready = false;
  const cuda::Target &target;

private:
  void generate(const std::string &text);
};

/// Blocks of a launch per multiprocessor, by registers, threads and shared memory.
int64_t countLaunchBlocks(const cuda::KernelStage &stage, const cuda::Usage &usage,
                          const cuda::Target &target);

} // namespace sluice::test
