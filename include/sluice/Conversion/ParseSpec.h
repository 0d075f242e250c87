// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses a model spec with settings, and finds places in it.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "sluice/Dialect/Spec/Spec.h"
#include "sluice/Spec/Diagnostic.h"
#include "sluice/Spec/Override.h"

#include <optional>

namespace sluice {

/// Returns the place of a location in a spec; none for an op that no spec has.
spec::SourceLocation getSourceLocation(mlir::Location location);
/// Returns the place of the value of a key of a spec's op, or the place of the op if the key is
/// absent.
spec::SourceLocation getKeyPlace(mlir::Operation *op, llvm::StringRef key);

/// A valid spec: its text and its IR.
struct ParsedSpec {
  std::string file;                         ///< file of every location
  std::string text;                         ///< text with settings applied
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< holds one `spec.model`

  spec::ModelOp getModel() const;
  /// Returns the factors from which each training step draws one, in increasing order; none for a
  /// model with one factor per level.
  llvm::SmallVector<int64_t> getFactors() const;
  /// Returns a copy whose levels have one of these factors; 0 chooses the smallest one, and has no
  /// effect on a model that draws none.
  ParsedSpec withFactor(int64_t factor) const;
  /// Returns a copy at a factor that has only primitive stages, and its weights.
  ParsedSpec expand(int64_t factor) const;
  /// Returns the number of elements of all trained tensors.
  int64_t countParameters() const;
  /// Returns the place of the value of one of the model's keys, or the place of the model if the
  /// key is absent.
  spec::SourceLocation getPlace(llvm::StringRef key) const;
};

/// Reads a spec from memory, with `settings` applied in order. Returns nothing and sets `error` if
/// the result is not a valid spec; an error that a setting causes names its flag.
std::optional<ParsedSpec> parseSpec(mlir::MLIRContext &context, const std::string &text,
                                    const std::string &file, spec::Diagnostic &error,
                                    const std::vector<spec::SpecOverride> &settings = {});

/// Reads a spec from a file. Throws JobError if the file cannot be read.
std::optional<ParsedSpec> parseSpecFile(mlir::MLIRContext &context, const std::string &path,
                                        spec::Diagnostic &error,
                                        const std::vector<spec::SpecOverride> &settings = {});

} // namespace sluice
