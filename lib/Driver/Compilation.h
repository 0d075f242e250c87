// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// State of a compilation between its stages.
#pragma once

#include "sluice/Analysis/LoweredCausality.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Target/Artifact.h"

#include "mlir/Pass/Pass.h"

namespace sluice::driver {

inline Outcome badInput(const std::string &message) { return {2, "", message}; }

/// One compilation: stages in order, each able to end it.
class Compilation {
public:
  /// Inputs of weight gradients are kept, or made again where that is possible.
  Compilation(const CompileRequest &request, bool keepMaps)
      : request(request), keepMaps(keepMaps) {}

  Outcome run();
  /// Where the budget cannot be met: the least arena that can.
  std::optional<int64_t> leastArena() const { return least; }
  /// Returns true if anything of the module is stored as bf16.
  bool hasBf16();

private:
  std::optional<Outcome> checkOutput() const;
  std::optional<Outcome> chooseTargets();
  std::optional<Outcome> readModel();
  std::optional<Outcome> checkLimits(const ParsedSpec *spec);
  std::string placeOfPrecision(const ParsedSpec &spec) const;
  std::string explainPrecision(const ParsedSpec &spec, const std::string &asked) const;
  std::string noticeOfPrecision(const ParsedSpec &spec) const;
  std::optional<Outcome> checkCausal();
  void prepareReplay();
  std::optional<Outcome> runPass(std::unique_ptr<mlir::Pass> pass);
  std::optional<Outcome> watchPass(const std::string &name);
  std::optional<Outcome> addStep();
  std::optional<Outcome> lowerModel();
  std::optional<Outcome> lowerVariants();
  std::optional<Outcome> finishDispatches();
  Outcome emitStep();
  std::optional<Outcome> lowerKernels(KernelSet &kernels, std::vector<std::string> &objects,
                                      std::vector<Blob> &blobs);
  void chooseLibraries(KernelSet &kernels) const;
  std::optional<Outcome> keepToBudget(KernelSet &kernels, std::optional<MemoryBudget> &budget);
  Outcome generate();
  Outcome internalError(const std::string &what = "the compiler failed on a valid spec");
  /// Reports the next activity to the caller.
  void report(const std::string &what, double share = 0) const {
    if (request.report) {
      request.report(what, share);
    }
  }
  bool emits(llvm::StringRef stage) const { return request.emit == stage; }
  std::string print(mlir::Operation *op) const;

  const CompileRequest &request;
  const bool keepMaps;
  std::optional<int64_t> least;
  mlir::MLIRContext context;
  std::string text;                         ///< the spec, or the model IR, as it was read
  std::optional<llvm::json::Object> facts;  ///< of the spec, for the plan
  bool trainsOnTokens = true;               ///< of the head, for the plan
  std::string sizesPlace;                   ///< where the spec says its sizes
  std::vector<ImportedVariant> variants;    ///< the one of generation first
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< the one that is lowered, then all together
  std::string imported;                     ///< the modules as imported, for the reproducer
  std::string notice;                       ///< what to tell the user of a compile that succeeds
  std::string diagnostics;
  Targets targets;
  ProofRecord proof;
  std::optional<LoweringWatch> watch;
  bool isOther = false; ///< the lowered variant has another factor than generation
};

} // namespace sluice::driver
