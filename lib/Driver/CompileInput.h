// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs of a compilation: a spec and its precision, or model IR.
#pragma once

#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Runtime/Plan/Plan.h"
#include "sluice/Target/Artifact.h"

namespace sluice::driver {

inline Outcome badInput(const std::string &message) { return {2, "", message}; }

/// An imported spec or model IR.
struct CompileInput {
  std::string text;
  std::optional<llvm::json::Object> facts; ///< facts of the spec, for the plan
  std::string sizesPlace;                  ///< location of the sizes in the spec
  /// Variants to compile; the variant of generation is first.
  std::vector<ImportedVariant> variants;
  int64_t batchTokens = 0;                 ///< most tokens of a batch of lines by length; else 0
  std::vector<runtime::BatchShape> shapes; ///< of batches of lines by length; else empty
  std::string notice;                      ///< message for the user after a successful compile
};

/// Reads the spec or the model IR of the request. Returns an outcome if the compilation ends here.
std::optional<Outcome> readInput(const CompileRequest &request, const Targets &targets,
                                 mlir::MLIRContext &context, CompileInput &input);

/// Returns an op as text, with locations if the request has them.
std::string printOp(mlir::Operation *op, const CompileRequest &request);

} // namespace sluice::driver
