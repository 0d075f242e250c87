// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Lanes.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

Value cuda::sumOfLanes(Frame &frame, Value value, int64_t lanes) {
  Emitter &e = frame.e;
  for (int64_t distance = lanes / 2; distance > 0; distance /= 2) {
    Value other =
        NVVM::ShflOp::create(e.b, value.getType(), e.integer(-1), value, e.integer(distance),
                             e.integer(threadsPerWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
    value = e.addf(value, other);
  }
  return value;
}

Values cuda::loadElements(Frame &frame, Value memory, Value row, Value column, int64_t vector) {
  ImplicitLocOpBuilder &b = frame.b;
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  int64_t each = std::min(vector, getVectorElements(element, {vector}));
  auto numbers = VectorType::get({each}, b.getF32Type());
  Values elements;
  for (int64_t first = 0; first < vector; first += each) {
    Value loaded =
        vector::LoadOp::create(b, numbers.clone(element), memory,
                               ValueRange{row, first ? frame.e.add(column, first) : column}, false,
                               llvm::MaybeAlign(each * element.getIntOrFloatBitWidth() / 8));
    if (element.isInteger(8)) {
      loaded = arith::SIToFPOp::create(b, numbers, loaded);
    } else if (!element.isF32()) {
      loaded = arith::ExtFOp::create(b, numbers, loaded);
    }
    for (int64_t i = 0; i < each; ++i) {
      elements.push_back(vector::ExtractOp::create(b, loaded, i));
    }
  }
  return elements;
}

int64_t cuda::getVectorElements(Type element, ArrayRef<int64_t> multiples) {
  int64_t vector = 16 * 8 / element.getIntOrFloatBitWidth();
  for (int64_t multiple : multiples) {
    vector = std::gcd(vector, multiple);
  }
  return vector;
}
