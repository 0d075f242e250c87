// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The header of a .npy file, formats 1.0, 2.0 and 3.0 of NumPy.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

struct NpyHeader {
  std::string type;           ///< "descr" as the file spells it, such as "<f4" or "[('a', '<i2')]"
  bool isText = false;        ///< `type` was a string, not a list of fields
  bool fortranOrder = false;  ///< column-major
  std::vector<int64_t> shape; ///< sizes beyond 64 bits become the maximum
  size_t start = 0;           ///< offset of the numbers in the file
  std::string problem;        ///< the reason why NumPy rejects the header; empty: none

  /// Checks for little-endian f32, by any of NumPy's names for it.
  bool isF32() const;
  /// Check for little-endian integers likewise.
  bool isUint16() const;
  bool isInt32() const;
  /// Returns the shape as Python writes it: "(200, 256)".
  std::string showShape() const;
};

/// Checks for the signature of .npy files.
bool isNpy(std::span<const uint8_t> file);

/// Reads the header as `numpy.load` does: a dictionary of Python literals with exactly the keys
/// "descr", "fortran_order" and "shape", in at most 10,000 characters; the last of equal keys
/// counts. Python's rarer literals are rejected (complex numbers, `...`, `set()`, characters by
/// their names, more than 64 brackets), and indented blank lines at the end are accepted in all
/// versions. Throws nothing: `problem` describes an error. `file` may be the start of a file.
NpyHeader parseNpyHeader(std::span<const uint8_t> file);

} // namespace sluice::runtime
