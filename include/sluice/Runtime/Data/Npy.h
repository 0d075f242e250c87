// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes f32 and int32 arrays in pieces as .npy files (format 1.0 of NumPy: little-endian, C
// order).
#pragma once

#include "sluice/Support/OutputFile.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Returns the header of an array: the magic, the version, the length of the dictionary, and the
/// dictionary, padded to a multiple of 64 bytes.
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
std::string encodeNpyHeader(const std::vector<int64_t> &shape, std::string_view type);

/// Writes an array to an OutputFile, which appears complete or not at all. Throws UserError if
/// `path` cannot be written, JobError if the disk is full or fails.
class NpyWriter {
public:
  /// The product of `shape` is the number of elements that must be appended. `type` is NumPy's name
  /// of the elements' type: "<f4" or "<i4".
  NpyWriter(const Path &path, const std::vector<int64_t> &shape, std::string_view type = "<f4");

  /// Appends the next elements in row-major order.
  void append(std::span<const float> numbers);
  void append(std::span<const int32_t> numbers);
  /// Completes the file. All elements must have been appended.
  void finish();

private:
  OutputFile file;
  std::string name;
  int64_t missing = 0; ///< elements still to append
};

} // namespace sluice::runtime
