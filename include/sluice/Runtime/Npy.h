// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays of f32 as .npy files (format 1.0 of NumPy: little-endian, C order), written in pieces.
#pragma once

#include "sluice/Runtime/OutputFile.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Writes an OutputFile: it appears whole, or not at all. Throws UserError where `path` cannot be
/// written, JobError where the disk is full or fails.
class NpyWriter {
public:
  /// The array's shape is known before its numbers are; its product is how many are to come.
  NpyWriter(const Path &path, const std::vector<int64_t> &shape);

  /// The next numbers, row-major.
  void append(std::span<const float> numbers);
  /// All numbers were appended.
  void finish();

private:
  OutputFile file;
  std::string name;
  int64_t missing = 0; ///< numbers
};

} // namespace sluice::runtime
