// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a module of dispatches to an artifact: kernels for every target, the plan, constants,
// one ELF file.
#pragma once

#include "sluice/Target/CPU/Kernel.h"
#include "sluice/Target/CUDA/Kernel.h"
#include "sluice/Target/CUDA/PTX/Ptxas.h"
#include "sluice/Target/CUDA/Product.h"
#include "sluice/Transforms/MemoryPlan.h"
#include "sluice/Transforms/Recompute.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace sluice {

/// A kernel that several launches may share, generated once per target.
struct KernelRecord {
  struct Variant {
    std::string target, symbol;
    int64_t items = 0, scratchBytes = 0;
    int64_t workspaceBytes = 0;
    int64_t counters = 0; ///< i32 counters before the workspace
    int64_t phases = 1;   ///< equal runs of items, one after another
  };
  /// One launch of the kernel on a GPU.
  struct StageRecord {
    std::string symbol;
    int64_t blocks = 0, threads = 0;
    int64_t sharedBytes = 0;          ///< dynamic shared memory per block
    std::optional<cuda::Usage> usage; ///< if ptxas is available
  };
  /// cuBLASLt as a replacement of the kernel: the version and the algorithm that were measured, the
  /// latter as stored in the plan.
  struct Library {
    int64_t version = 0;
    std::string algorithm;
  };
  /// Code for a GPU: symbols MODULE_bitcode, MODULE_ptx, MODULE_cubin of the artifact.
  struct DeviceVariant {
    const cuda::Target *target = nullptr;
    size_t source = 0; ///< index into KernelSet::deviceModules
    std::string module;
    std::vector<StageRecord> stages;
    int64_t workspaceBytes = 0;
    int64_t counters = 0;    ///< i32 counters before the workspace
    double plannedBytes = 0; ///< moved by all stages; the workspace is written and read once
    std::optional<Library> library = std::nullopt; ///< only if the kernel is a product
  };
  /// Memory of an operand or result, in the order of launch arguments.
  struct Operand {
    int64_t bytes = 0;
    bool written = false;
  };
  std::string name, kind;
  std::string dispatch; ///< text of the op alone, which the oracle evaluates
  double flops = 0, bytes = 0;
  std::optional<cuda::Product> product; ///< the product at full length and batch, for GPUs
  std::vector<Operand> operands;
  bool drawsByUpdate = false, scheduled = false; ///< properties of the dispatch
  std::vector<Variant> variants;
  std::vector<DeviceVariant> deviceVariants;

  /// Maximum workspace over targets, and maximum counters.
  int64_t workspaceBytes() const;
  int64_t counterBytes() const;
};

/// Targets to generate kernels for.
struct Targets {
  llvm::SmallVector<const cpu::Target *> cpus;
  llvm::SmallVector<const cuda::Target *> gpus;
  /// Bytes of a core's L2 cache that CPU kernels are blocked for; 0: `l2Bytes` of each target. No
  /// result depends on it.
  int64_t l2Bytes = 0;

  /// Maximum number of partial sums over rows. The targets of an artifact share one plan, so this
  /// is the maximum over targets.
  int64_t mostSumParts() const;
  /// Names of the targets, CPUs first.
  std::vector<std::string> getNames() const;
};
constexpr llvm::StringLiteral targetNames =
    "cpu, cpu-amx, cpu-avx512-bf16, cpu-avx512-vnni, cpu-avx512, cpu-avx2, sm_80 or sm_90a";
/// Adds the targets of a name (`cpu`: all CPU targets) that are not in `targets`. Returns false if
/// the name is unknown.
bool addTarget(llvm::StringRef name, Targets &targets);
/// Replaces targets by those without instructions that `module`, of any level, has no use for:
/// cpu-amx and cpu-avx512-bf16 by cpu-avx512-vnni where nothing is bf16, and that by cpu-avx512
/// without weights in whole numbers.
void dropUnusedTargets(mlir::ModuleOp module, bool hasWholeWeights, Targets &targets);

/// All distinct dispatches of a module, generated for every target.
struct KernelSet {
  std::vector<KernelRecord> records;
  llvm::DenseMap<mlir::Operation *, size_t> kernelOf; ///< kernel of every dispatch op
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>>
      modules; ///< generated CPU kernels, one module per target
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>>
      deviceModules; ///< generated GPU kernels, one module per record or variant

  /// Maximum workspace of a launch, and maximum counters.
  int64_t workspaceBytes() const;
  int64_t counterBytes() const;
};

/// Returns the minimum id of the random streams of a dispatch, 0 if it draws none. Kernels use ids
/// relative to it, and the launch passes it as an argument, so that dropout in every layer is one
/// kernel.
int64_t firstStream(mlir::Operation *dispatch);

/// Generates kernels for `targets`. Functions must consist of dispatches. Dispatches that only
/// differ in the values of their operands share a kernel. If a dispatch has no GPU kernel, fails
/// and sets `unsupported` to a message for the user, with the place in the spec.
mlir::FailureOr<KernelSet> generateKernels(mlir::ModuleOp module, const Targets &targets,
                                           std::string &unsupported);

/// Recomputes forward results in @gradient so that the arena takes at most `budgetBytes`, if
/// possible (see Recomputation::arenaBytes). Copies of dispatches share the kernels of their
/// originals, so no kernel is generated.
mlir::FailureOr<Recomputation> recomputeWithin(mlir::ModuleOp module, KernelSet &kernels,
                                               int64_t budgetBytes);

/// Analysis that passes of one pipeline share: the kernels that `sluice-generate-kernels`
/// generated, and the result of `sluice-recompute`. Cached until a pass does not preserve it.
struct KernelAnalysis {
  explicit KernelAnalysis(mlir::Operation *) {}
  std::optional<KernelSet> set;
  std::optional<Recomputation> recomputation;
};

/// A named byte range of an artifact, in addition to plan, constants and CPU code.
struct Blob {
  std::string symbol, bytes;
};

/// Compiles the kernels of every GPU variant, on the context's threads: bitcode of the module that
/// is the input of the backend, PTX and, if ptxas is in PATH, the cubin, whose registers and spills
/// are added to the records. Uses code from `cache`, and stores new code there; the bytes do not
/// depend on the contents of the cache. Fails with a diagnostic.
mlir::FailureOr<std::vector<Blob>> lowerDeviceKernels(KernelSet &kernels, KernelCache &cache);

/// Appends the launches of every entry point as plan IR to the module (stage `plan` of --emit).
void emitPlan(mlir::ModuleOp module, const KernelSet &kernels, const MemoryPlan &memory);

/// Result of the causality proof, as stored in the artifact.
struct ProofRecord {
  std::string verdict; ///< proved, leak-allowed, not-proved
  std::vector<std::string> modes;
  std::string certificate = {}; ///< docs/certificate.md; empty if there is none
};

/// Facts of the spec that an artifact stores.
struct SpecRecord {
  std::string text; ///< text of the spec or of the model IR
  /// True if the head is trained on the tokens of the text itself.
  bool trainsOnTokens = true;
  std::optional<llvm::json::Object> facts = std::nullopt; ///< none for model IR
  int64_t batchTokens = 0;       ///< most tokens of a batch of lines by length; else 0
  llvm::json::Array shapes = {}; ///< of batches of lines by length, without entries; else empty
};

/// Converts plan IR to the plan's JSON form (docs/plan-and-artifact.md).
llvm::json::Value planToJson(mlir::ModuleOp module, const KernelSet &kernels,
                             const MemoryPlan &memory, const SpecRecord &spec,
                             const ProofRecord &proof, const Targets &targets);

/// Computes the bytes of every `constant:` place at its offset in the region of constants: rotary
/// and sinusoidal tables, positions, and values per parameter (decay, initial mean and deviation).
std::vector<char> makeConstants(mlir::ModuleOp module, const MemoryPlan &memory);

/// Returns the bytes of an artifact: one ELF file and its trailer. Throws JobError if the
/// machine has no room for the files of the linker.
llvm::Expected<std::string> linkArtifact(llvm::StringRef planText, llvm::ArrayRef<char> constants,
                                         llvm::ArrayRef<std::string> objects,
                                         llvm::ArrayRef<Blob> blobs = {});

} // namespace sluice
