// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// State of a compilation between its stages.
#pragma once

#include "CompileInput.h"
#include "sluice/Analysis/LoweredCausality.h"
#include "sluice/Target/Artifact.h"

#include "mlir/Pass/AnalysisManager.h"

namespace sluice::driver {

/// One compilation: a sequence of stages, each of which may end it.
class Compilation {
public:
  /// With `keepMaps`, stores the inputs of weight gradients; otherwise rematerializes them where
  /// possible.
  Compilation(const CompileRequest &request, bool keepMaps)
      : request(request), keepMaps(keepMaps) {}

  Outcome run();
  /// Returns the size of the smallest possible arena if the budget cannot be met.
  std::optional<int64_t> leastArena() const { return least; }
  /// Returns true if anything of the module is stored as bf16.
  bool hasBf16();

private:
  std::optional<Outcome> checkOutput() const;
  std::optional<Outcome> chooseTargets();
  std::optional<Outcome> checkCausal();
  void prepareReplay();
  std::optional<Outcome> lowerModels();
  std::optional<Outcome> runPipeline(mlir::ModuleOp lowered);
  std::optional<Outcome> finishPass(llvm::StringRef pass, mlir::ModuleOp lowered,
                                    mlir::AnalysisManager analyses);
  std::optional<Outcome> watchPass(llvm::StringRef pass, mlir::ModuleOp lowered);
  std::optional<Outcome> keepToBudget(const KernelSet &generated, const Recomputation &made);
  void chooseLibraries(KernelSet &generated) const;
  Outcome printStage() const;
  Outcome printForPyTorch();
  std::optional<Outcome> lowerKernels(std::vector<std::string> &objects, std::vector<Blob> &blobs);
  Outcome writeArtifact();
  Outcome internalError(const std::string &what = "the compiler failed on a valid spec");
  /// Reports the next activity to the caller.
  void report(const std::string &what, double share = 0) const {
    if (request.report) {
      request.report(what, share);
    }
  }
  bool emits(llvm::StringRef stage) const { return request.emit == stage; }

  const CompileRequest &request;
  const bool keepMaps;
  std::optional<int64_t> least;
  mlir::MLIRContext context;
  CompileInput input;         ///< the module of its first variant is moved to `module` for lowering
  bool trainsOnTokens = true; ///< true if the head trains on tokens, for the plan
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< module of the first variant, later of all variants
  std::string imported;                     ///< the modules as imported, for the reproducer
  std::string diagnostics;
  std::string rejection; ///< message of a pass that rejects the input, for the user
  Targets targets;
  ProofRecord proof;
  std::optional<LoweringWatch> watch;
  std::optional<MemoryBudget> budget;
  std::optional<KernelSet> kernels; ///< with `memory`, results of the pipeline for the artifact
  std::optional<MemoryPlan> memory;
};

} // namespace sluice::driver
