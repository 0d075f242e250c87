// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ProductReference.h"

#include <cmath>

using namespace sluice::test;

ProductSum sluice::test::computeProduct(const std::vector<float> &x,
                                        const std::vector<float> &weight, int64_t inner,
                                        int64_t columns, bool byInput, int64_t row,
                                        int64_t column) {
  const float *left = x.data() + row * inner;
  const float *right = weight.data() + (byInput ? column : column * inner);
  int64_t step = byInput ? columns : 1;
  ProductSum sum;
  for (int64_t k = 0; k < inner; ++k) {
    double term = double(left[k]) * double(right[k * step]);
    sum.value += term;
    sum.magnitude += std::abs(term);
  }
  return sum;
}
