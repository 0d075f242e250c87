// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of the places of each loss or axis of segments. Readers of an artifact find them in the
// lists of its plan.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include <string>

namespace sluice::plan {

/// Scalar, i64 [batch, 1]: each batch row's number of rows on an axis of segments.
inline std::string lengthName(llvm::StringRef axis) { return ("length." + axis).str(); }
/// Scalar, i32 [batch, 2]: the rows that each batch row's segments need, and the rows of the axis.
inline std::string countsName(llvm::StringRef axis) { return ("segments." + axis).str(); }
/// State, i32 [rows of generation]: number of closed segments.
inline std::string closedName(llvm::StringRef axis) { return ("closed." + axis).str(); }
/// Input, i32 [rows of generation]: the line that each row of a step reads. Results on the axes of
/// named inputs are stored by line.
constexpr llvm::StringLiteral lineOfRow = "input:take.line";
/// Suffix of `due.N`: the guard of dispatches over the rows of the segments that schedule N makes
/// due.
constexpr llvm::StringLiteral rowsOfSegments = ".rows";
/// Scalar, f32: the mean of one of several losses.
inline std::string meanName(llvm::StringRef loss) { return ("loss." + loss).str(); }
/// Output: the rows of the i-th loss.
inline std::string lossesName(size_t i) {
  return i == 0 ? "losses" : ("losses." + llvm::Twine(i)).str();
}

} // namespace sluice::plan
