// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses the JSON of a spec, and defines errors in it.

#ifndef SLUICE_LIB_SPEC_JSON_H
#define SLUICE_LIB_SPEC_JSON_H

#include "sluice/Spec/Diagnostic.h"
#include "sluice/Support/PlacedJson.h"
#include "sluice/Support/Text.h"

namespace sluice::spec {

/// Thrown by the reader inside the library; the public functions turn it into a Diagnostic.
struct Failure {
  Diagnostic diagnostic;
};

using Position = TextPosition;
using sluice::describe;
using sluice::JsonKind;
using sluice::JsonMember;
using sluice::JsonValue;
using sluice::quote;

/// Parses one JSON document. Throws Failure at the first error: syntax, a key given twice, nesting
/// deeper than 64, a number out of a double's range, a byte-order mark.
JsonValue parseJson(std::string_view text, const std::string &file);

} // namespace sluice::spec

#endif // SLUICE_LIB_SPEC_JSON_H
