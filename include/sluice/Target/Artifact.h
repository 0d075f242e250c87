// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a module of dispatches to an artifact: kernels for every target, the plan, constants, one
// ELF file.
#pragma once

#include "sluice/Target/CPU/Kernel.h"
#include "sluice/Transforms/MemoryPlan.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace sluice {

/// A kernel that several launches may share, generated once a target.
struct KernelRecord {
  struct Variant {
    std::string target, symbol;
    int64_t items = 0, scratchBytes = 0;
  };
  std::string name, kind;
  double flops = 0, bytes = 0;
  std::vector<Variant> variants;
};

/// Every distinct dispatch of a module, generated for every target.
struct KernelSet {
  std::vector<KernelRecord> records;
  llvm::DenseMap<mlir::Operation *, size_t> kernelOf; ///< of every dispatch op
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>>
      modules; ///< generated kernels, one module a target
};

/// The least id of the random streams that a dispatch draws from, 0 where it draws none. Kernels
/// hold ids relative to it; it is an argument of the launch, so that dropout in every layer is one
/// kernel.
int64_t firstStream(mlir::Operation *dispatch);

/// Generates kernels for `targets`. Dispatches that differ in their operands' values alone share
/// one.
mlir::FailureOr<KernelSet> generateKernels(mlir::ModuleOp module,
                                           llvm::ArrayRef<const cpu::Target *> targets);

/// Writes the launches of every entry point as plan IR behind the module's functions (stage `plan`
/// of --emit).
void emitPlan(mlir::ModuleOp module, const KernelSet &kernels, const MemoryPlan &memory);

/// What the artifact says of its causality proof.
struct ProofRecord {
  std::string verdict; ///< proved, leak-allowed
  std::vector<std::string> modes;
  std::string certificate = {}; ///< docs/certificate.md; empty where there is none
};

/// The plan as docs/plan-and-artifact.md describes it, from plan IR.
llvm::json::Value planToJson(mlir::ModuleOp module, const KernelSet &kernels,
                             const MemoryPlan &memory, llvm::StringRef spec,
                             const ProofRecord &proof, llvm::ArrayRef<const cpu::Target *> targets);

/// Bytes of every `constant:` place at its offset in the constants' region: rotary and sinusoidal
/// tables, positions, and what differs by parameter (decay, initial mean and deviation).
std::vector<char> makeConstants(mlir::ModuleOp module, const MemoryPlan &memory);

/// Refuses a path that no artifact can be written to: a folder, a device, one in a folder that is
/// not there.
llvm::Error checkArtifactPath(llvm::StringRef path);

/// Writes `bytes` to a temporary name beside `path` and renames it. Nothing is left behind on
/// failure.
llvm::Error replaceFile(llvm::StringRef path, llvm::StringRef bytes);

/// Writes the artifact to a temporary name beside `path` and renames it. Nothing is left behind on
/// failure.
llvm::Error writeArtifact(llvm::StringRef path, llvm::StringRef planText,
                          llvm::ArrayRef<char> constants, llvm::ArrayRef<std::string> objects);

} // namespace sluice
