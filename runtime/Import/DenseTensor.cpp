// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "DenseTensor.h"

#include <algorithm>

namespace sluice::runtime {

size_t countElements(std::span<const int64_t> extents) {
  size_t count = 1;
  for (int64_t extent : extents) {
    count *= static_cast<size_t>(extent);
  }
  return count;
}

DenseTensor transpose(const DenseTensor &matrix) {
  constexpr size_t block = 32; // lines of both matrices stay in the first cache
  auto rows = static_cast<size_t>(matrix.shape[0]), columns = static_cast<size_t>(matrix.shape[1]);
  DenseTensor result{{matrix.shape[1], matrix.shape[0]}, std::vector<float>(matrix.data.size())};
  for (size_t top = 0; top < rows; top += block) {
    for (size_t left = 0; left < columns; left += block) {
      for (size_t i = top; i < std::min(rows, top + block); ++i) {
        for (size_t j = left; j < std::min(columns, left + block); ++j) {
          result.data[j * rows + i] = matrix.data[i * columns + j];
        }
      }
    }
  }
  return result;
}

DenseTensor cut(const DenseTensor &tensor, size_t axis, int64_t begin, int64_t extent) {
  std::span<const int64_t> shape = tensor.shape;
  size_t outer = countElements(shape.first(axis)), inner = countElements(shape.subspan(axis + 1));
  auto whole = static_cast<size_t>(shape[axis]) * inner;
  auto first = static_cast<size_t>(begin) * inner, count = static_cast<size_t>(extent) * inner;
  DenseTensor part{tensor.shape, {}};
  part.shape[axis] = extent;
  part.data.reserve(outer * count);
  for (size_t i = 0; i < outer; ++i) {
    auto from = tensor.data.begin() + static_cast<ptrdiff_t>(i * whole + first);
    part.data.insert(part.data.end(), from, from + static_cast<ptrdiff_t>(count));
  }
  return part;
}

DenseTensor concatenate(const std::vector<DenseTensor> &tensors, size_t axis) {
  DenseTensor result{tensors.front().shape, {}};
  size_t outer = countElements(std::span(result.shape).first(axis));
  result.shape[axis] = 0;
  for (const DenseTensor &tensor : tensors) {
    result.shape[axis] += tensor.shape[axis];
  }
  result.data.reserve(countElements(result.shape));
  for (size_t i = 0; i < outer; ++i) {
    for (const DenseTensor &tensor : tensors) {
      size_t count = tensor.data.size() / outer;
      auto from = tensor.data.begin() + static_cast<ptrdiff_t>(i * count);
      result.data.insert(result.data.end(), from, from + static_cast<ptrdiff_t>(count));
    }
  }
  return result;
}

DenseTensor interleaveHalves(const DenseTensor &tensor, int64_t size) {
  size_t inner = countElements(std::span(tensor.shape).subspan(1));
  auto rows = static_cast<size_t>(tensor.shape[0]), head = static_cast<size_t>(size);
  DenseTensor result{tensor.shape, std::vector<float>(tensor.data.size())};
  for (size_t row = 0; row < rows; ++row) {
    size_t at = row % head, source = row - at + at / 2 + (at % 2) * (head / 2);
    std::copy_n(tensor.data.begin() + static_cast<ptrdiff_t>(source * inner), inner,
                result.data.begin() + static_cast<ptrdiff_t>(row * inner));
  }
  return result;
}

} // namespace sluice::runtime
