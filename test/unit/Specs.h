// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads specs that must be valid.
#pragma once

#include "sluice/Conversion/ImportSpec.h"

#include "llvm/Support/ErrorHandling.h"

namespace sluice::test {

/// Reads a spec from memory; aborts with the error if it is invalid.
inline ParsedSpec parseValidSpec(mlir::MLIRContext &context, const std::string &text,
                                 const std::string &file = "test.json") {
  spec::Diagnostic error;
  std::optional<ParsedSpec> spec = parseSpec(context, text, file, error);
  if (!spec) {
    llvm::report_fatal_error(llvm::Twine(error.format() + "\n" + text));
  }
  return std::move(*spec);
}

/// Reads a spec from a file; aborts with the error if it is invalid.
inline ParsedSpec parseValidFile(mlir::MLIRContext &context, const std::string &path) {
  spec::Diagnostic error;
  std::optional<ParsedSpec> spec = parseSpecFile(context, path, error);
  if (!spec) {
    llvm::report_fatal_error(llvm::Twine(error.format()));
  }
  return std::move(*spec);
}

} // namespace sluice::test
