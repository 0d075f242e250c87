// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors in memory, whose elements an import moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::runtime {

using Shape = std::vector<int64_t>;

struct DenseTensor {
  Shape shape;
  std::vector<float> data; ///< row-major
};

size_t countElements(std::span<const int64_t> extents);

DenseTensor transpose(const DenseTensor &matrix);

/// Returns the part of `extent` from `begin` on along `axis`.
DenseTensor cut(const DenseTensor &tensor, size_t axis, int64_t begin, int64_t extent);

/// Joins tensors along `axis`; their other extents are equal.
DenseTensor concatenate(const std::vector<DenseTensor> &tensors, size_t axis);

/// Reorders the rows of each head: rows i and i + size / 2, which rotate together, become rows 2 i
/// and 2 i + 1. `size` is even and divides the rows.
DenseTensor interleaveHalves(const DenseTensor &tensor, int64_t size);

} // namespace sluice::runtime
