// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places that there is one of for each loss or axis of segments. What reads an artifact finds their
// names in its plan's lists.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include <string>

namespace sluice::plan {

/// Scalar, i64 [batch, 1]: rows of an axis of segments that kernels run over, of each text.
inline std::string lengthName(llvm::StringRef axis) { return ("length." + axis).str(); }
/// Scalar, i32 [batch, 2]: rows that each text's segments need, and rows that there are.
inline std::string countsName(llvm::StringRef axis) { return ("segments." + axis).str(); }
/// State, i32 [rows of generation]: segments that have ended.
inline std::string closedName(llvm::StringRef axis) { return ("closed." + axis).str(); }
/// Behind `due.N`: the guard of what runs over the rows of the segments that schedule N makes due.
constexpr llvm::StringLiteral rowsOfSegments = ".rows";
/// Scalar, f32: the mean of one of several losses.
inline std::string meanName(llvm::StringRef loss) { return ("loss." + loss).str(); }
/// Output: the rows of the i-th loss.
inline std::string lossesName(size_t i) {
  return i == 0 ? "losses" : ("losses." + llvm::Twine(i)).str();
}

} // namespace sluice::plan
