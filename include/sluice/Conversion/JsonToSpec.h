// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a model spec, JSON, into the spec dialect.
#pragma once

#include "mlir/IR/OwningOpRef.h"
#include "sluice/Dialect/Spec/Spec.h"
#include "sluice/Spec/Diagnostic.h"

namespace sluice {

/// Reads the spec `text`; `file` is the file of every location, and its stem the model's name by
/// default. Returns null and sets `error` if the text is not a valid spec.
mlir::OwningOpRef<spec::ModelOp> readSpec(mlir::MLIRContext &context, llvm::StringRef text,
                                          const std::string &file, spec::Diagnostic &error);

} // namespace sluice
