// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays of f32 as .npy files (format 1.0 of NumPy: little-endian, C order), written in pieces.
#pragma once

#include "sluice/Runtime/Files.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Writes a temporary file beside `path`, which takes the place of `path` when all was written:
/// nobody sees a part of it. Throws UserError where `path` cannot be written, JobError where the
/// disk is full or fails.
class NpyWriter {
public:
  /// The array's shape is known before its numbers are; its product is how many are to come.
  NpyWriter(const Path &path, const std::vector<int64_t> &shape);
  /// Leaves nothing behind unless `finish` was called.
  ~NpyWriter();
  NpyWriter(const NpyWriter &) = delete;
  NpyWriter &operator=(const NpyWriter &) = delete;

  /// The next numbers, row-major.
  void append(std::span<const float> numbers);
  /// All numbers were appended.
  void finish();

private:
  [[noreturn]] void fail(int error) const;
  void write(std::span<const uint8_t> bytes);

  Path path, temporary;
  int fd = -1;
  int64_t missing = 0; ///< numbers
};

} // namespace sluice::runtime
