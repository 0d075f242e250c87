// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a module of dispatches to an artifact: kernels for every target, the plan, constants, one
// ELF file.
#pragma once

#include "sluice/Target/CPU/Kernel.h"
#include "sluice/Target/CUDA/Kernel.h"
#include "sluice/Target/CUDA/Product.h"
#include "sluice/Transforms/MemoryPlan.h"
#include "sluice/Transforms/Recompute.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace sluice {

/// A kernel that several launches may share, generated once a target.
struct KernelRecord {
  struct Variant {
    std::string target, symbol;
    int64_t items = 0, scratchBytes = 0;
    int64_t workspaceBytes = 0;
    int64_t counters = 0; ///< i32 in front of the workspace
  };
  /// One launch of the kernel on a GPU.
  struct Stage {
    std::string symbol;
    int64_t blocks = 0, threads = 0;
    int64_t sharedBytes = 0;          ///< sized at the launch
    std::optional<cuda::Usage> usage; ///< where ptxas was there
  };
  /// cuBLASLt in the kernel's place: version and algorithm that were measured, the algorithm as the
  /// plan has it.
  struct Library {
    int64_t version = 0;
    std::string algorithm;
  };
  /// Code for a GPU: symbols MODULE_bitcode, MODULE_ptx, MODULE_cubin of the artifact.
  struct DeviceVariant {
    const cuda::Target *target = nullptr;
    size_t source = 0; ///< of KernelSet::deviceModules
    std::string module;
    std::vector<Stage> stages;
    int64_t workspaceBytes = 0;
    int64_t counters = 0;    ///< i32 in front of the workspace
    double plannedBytes = 0; ///< moved by all stages, the workspace written and read once
    std::optional<Library> library = std::nullopt; ///< only where the kernel is a product
  };
  /// Memory of an operand or result, in the order of a launch's arguments.
  struct Operand {
    int64_t bytes = 0;
    bool written = false;
  };
  std::string name, kind;
  std::string dispatch; ///< its op alone, as text: what the oracle evaluates
  double flops = 0, bytes = 0;
  std::optional<cuda::Product> product; ///< what it is at full length and batch, for GPUs
  std::vector<Operand> operands;
  bool drawsByUpdate = false, scheduled = false; ///< of the dispatch
  std::vector<Variant> variants;
  std::vector<DeviceVariant> deviceVariants;

  /// The largest workspace of a target, and the most counters.
  int64_t workspaceBytes() const;
  int64_t counterBytes() const;
};

/// What kernels are generated for.
struct Targets {
  llvm::SmallVector<const cpu::Target *> cpus;
  llvm::SmallVector<const cuda::Target *> gpus;

  /// Parts of a sum over rows: an artifact's targets share one plan, and so the most of any.
  int64_t mostSumParts() const;
};
constexpr llvm::StringLiteral targetNames = "cpu, cpu-avx512, cpu-avx2, sm_80 or sm_90a";
/// Adds the targets of a name (`cpu`: every CPU's) that are not there; whether it is known.
bool addTarget(llvm::StringRef name, Targets &targets);

/// Every distinct dispatch of a module, generated for every target.
struct KernelSet {
  std::vector<KernelRecord> records;
  llvm::DenseMap<mlir::Operation *, size_t> kernelOf; ///< of every dispatch op
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>>
      modules; ///< generated CPU kernels, one module a target
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>>
      deviceModules; ///< generated GPU kernels, one module a record, or a variant

  /// The largest workspace of a launch, and the most counters.
  int64_t workspaceBytes() const;
  int64_t counterBytes() const;
};

/// The least id of the random streams that a dispatch draws from, 0 where it draws none. Kernels
/// hold ids relative to it; it is an argument of the launch, so that dropout in every layer is one
/// kernel.
int64_t firstStream(mlir::Operation *dispatch);

/// Generates kernels for `targets`. Functions hold dispatches alone. Dispatches that differ in
/// their operands' values alone share one. Where a dispatch has no GPU kernel, fails with
/// `unsupported` set: a message for the user, with the place in the spec.
mlir::FailureOr<KernelSet> generateKernels(mlir::ModuleOp module, const Targets &targets,
                                           std::string &unsupported);

/// Computes forward results of @gradient again so that the arena takes at most `budgetBytes`, if
/// that can be (Recomputation::arenaBytes). Copies of dispatches have the kernels of their
/// originals, so none is generated.
mlir::FailureOr<Recomputation> recomputeWithin(mlir::ModuleOp module, KernelSet &kernels,
                                               int64_t budgetBytes);

/// A named range of bytes that an artifact holds besides plan, constants and CPU code.
struct Blob {
  std::string symbol, bytes;
};

/// Compiles the kernels of every GPU variant, on the context's threads: bitcode of the module that
/// feeds the backend, PTX, and where ptxas is in the PATH the cubin, whose registers and spills go
/// into the records. Code that `cache` has is read from it, and other code is stored there; the
/// bytes do not depend on the cache's contents. Fails with a diagnostic.
mlir::FailureOr<std::vector<Blob>> lowerDeviceKernels(KernelSet &kernels, KernelCache &cache);

/// Writes the launches of every entry point as plan IR behind the module's functions (stage `plan`
/// of --emit).
void emitPlan(mlir::ModuleOp module, const KernelSet &kernels, const MemoryPlan &memory);

/// What the artifact says of its causality proof.
struct ProofRecord {
  std::string verdict; ///< proved, leak-allowed, not-proved
  std::vector<std::string> modes;
  std::string certificate = {}; ///< docs/certificate.md; empty where there is none
};

/// Facts of the spec that an artifact stores.
struct SpecRecord {
  std::string text; ///< or that of the model IR
  /// True where the head is trained against the text's own tokens.
  bool trainsOnTokens = true;
  std::optional<llvm::json::Object> facts = std::nullopt; ///< none of model IR
};

/// The plan as docs/plan-and-artifact.md describes it, from plan IR.
llvm::json::Value planToJson(mlir::ModuleOp module, const KernelSet &kernels,
                             const MemoryPlan &memory, const SpecRecord &spec,
                             const ProofRecord &proof, const Targets &targets);

/// Bytes of every `constant:` place at its offset in the constants' region: rotary and sinusoidal
/// tables, positions, and what differs by parameter (decay, initial mean and deviation).
std::vector<char> makeConstants(mlir::ModuleOp module, const MemoryPlan &memory);

/// The bytes of an artifact: one ELF file and its trailer. Throws runtime::JobError where the
/// machine has no room for the linker's files.
llvm::Expected<std::string> linkArtifact(llvm::StringRef planText, llvm::ArrayRef<char> constants,
                                         llvm::ArrayRef<std::string> objects,
                                         llvm::ArrayRef<Blob> blobs = {});

} // namespace sluice
