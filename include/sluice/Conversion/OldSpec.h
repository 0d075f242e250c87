// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between a parsed spec and the structs that the spec dialect replaces.
#pragma once

#include "sluice/Conversion/ReadSpec.h"
#include "sluice/Spec/Spec.h"

namespace sluice {

/// Reads a valid spec into structs.
inline spec::Model toOldSpec(const ParsedSpec &spec) {
  spec::Diagnostic ignored;
  return *spec::readText(spec.text, spec.file, ignored);
}

/// Reads a valid spec into the spec dialect.
inline ParsedSpec fromOldSpec(mlir::MLIRContext &context, const spec::Model &model) {
  spec::Diagnostic ignored;
  return std::move(*parseSpec(context, model.text, model.location.file, ignored));
}

} // namespace sluice
