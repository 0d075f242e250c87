// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Emits scalar regions as vector code.
#include "sluice/Target/Common/Epilogue.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::target;

Value target::emitRotation(ImplicitLocOpBuilder &b, Value vector, Value angles, bool back) {
  auto type = cast<VectorType>(vector.getType());
  SmallVector<int64_t> even, odd, swapped;
  SmallVector<float> signs;
  for (int64_t i = 0; i < type.getDimSize(0); ++i) {
    even.push_back(i & ~int64_t(1));
    odd.push_back(i | 1);
    swapped.push_back(i ^ 1);
    signs.push_back(((i & 1) != 0) == back ? -1.0f : 1.0f);
  }
  auto shuffled = [&](Value value, ArrayRef<int64_t> from) -> Value {
    return vector::ShuffleOp::create(b, value, value, from);
  };
  Value sign = arith::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef<float>(signs)));
  Value sine = arith::MulFOp::create(b, shuffled(angles, odd), sign);
  Value other = arith::MulFOp::create(b, shuffled(vector, swapped), sine);
  return math::FmaOp::create(b, vector, shuffled(angles, even), other);
}

Value Epilogue::emitRandom(dispatch::RandomOp random, const EpiloguePlace &place) {
  Value number =
      emitDrawnRow(b, place.row, draw.drawRows, op.getDomain().getPositions(), op.getDrawParts());
  Value row = arith::IndexCastOp::create(b, b.getI64Type(), number);
  Value column = arith::IndexCastOp::create(b, b.getI64Type(), place.column);
  Value width = arith::ConstantIntOp::create(b, b.getI64Type(), random.getWidth());
  Value first = arith::AddIOp::create(b, arith::MulIOp::create(b, row, width), column);
  Value drawStep = draw.step;
  if (random.getFixedStep()) {
    drawStep = arith::ConstantIntOp::create(b, b.getI64Type(), 0);
  }
  if (random.getWidth() % 4 == 0) {
    return emitUniformRun(b, first, lanes, random.getId(), draw.firstStream, drawStep, draw.seed,
                          draw.word);
  }
  SmallVector<int64_t> offsets(lanes);
  std::iota(offsets.begin(), offsets.end(), 0);
  Value ramp = arith::ConstantOp::create(b, b.getI64VectorAttr(offsets));
  Value elements =
      arith::AddIOp::create(b, vector::BroadcastOp::create(b, ramp.getType(), first), ramp);
  return emitUniform(b, elements, random.getId(), draw.firstStream, drawStep, draw.seed, draw.word);
}

/// Emits an elementwise op on vectors of `lanes` elements.
static FailureOr<Operation *> emitElementwise(ImplicitLocOpBuilder &b, Operation *source,
                                              IRMapping &mapping, int64_t lanes) {
  if (auto constant = dyn_cast<arith::ConstantOp>(source)) {
    TypedAttr value = DenseElementsAttr::get(VectorType::get({lanes}, constant.getType()),
                                             Attribute(constant.getValue()));
    return arith::ConstantOp::create(b, value).getOperation();
  }
  if (!OpTrait::hasElementwiseMappableTraits(source) || source->getNumRegions() > 0) {
    return source->emitOpError("expected an elementwise op in an epilogue, found ")
           << source->getName();
  }
  Operation *copy = b.clone(*source, mapping);
  for (OpResult result : copy->getResults()) {
    result.setType(VectorType::get({lanes}, result.getType()));
  }
  return copy;
}

FailureOr<SmallVector<Value>> target::emitScalarBlock(ImplicitLocOpBuilder &b, Block &block,
                                                      ValueRange arguments) {
  IRMapping mapping;
  mapping.map(block.getArguments(), arguments);
  int64_t lanes = cast<VectorType>(arguments[0].getType()).getDimSize(0);
  for (Operation &source : block.without_terminator()) {
    FailureOr<Operation *> copy = emitElementwise(b, &source, mapping, lanes);
    if (failed(copy)) {
      return failure();
    }
    mapping.map(source.getResults(), (*copy)->getResults());
  }
  return llvm::map_to_vector(block.getTerminator()->getOperands(),
                             [&](Value value) { return mapping.lookup(value); });
}

FailureOr<SmallVector<Value>> Epilogue::emit(ValueRange arguments, const EpiloguePlace &place) {
  Block &block = op.getEpilogue().front();
  lanes = cast<VectorType>(arguments[0].getType()).getDimSize(0);
  IRMapping mapping;
  mapping.map(block.getArguments(), arguments);
  for (Operation &source : block.without_terminator()) {
    Value value;
    if (auto random = dyn_cast<dispatch::RandomOp>(source)) {
      value = emitRandom(random, place);
    } else if (isa<dispatch::ColumnOp>(source)) {
      Value first = arith::IndexCastOp::create(b, b.getI32Type(), place.column);
      SmallVector<int32_t> offsets(lanes);
      std::iota(offsets.begin(), offsets.end(), 0);
      Value ramp = arith::ConstantOp::create(
          b, DenseElementsAttr::get(getVectorType(b.getI32Type()), ArrayRef<int32_t>(offsets)));
      value = arith::AddIOp::create(b, vector::BroadcastOp::create(b, ramp.getType(), first), ramp);
    } else if (isa<dispatch::PositionOp>(source)) {
      Value position = place.position;
      if (!position) {
        Value positions = arith::ConstantIndexOp::create(b, op.getDomain().getPositions());
        position = arith::RemUIOp::create(b, place.row, positions);
      }
      value = vector::BroadcastOp::create(b, getVectorType(b.getI32Type()),
                                          arith::IndexCastOp::create(b, b.getI32Type(), position));
    } else {
      FailureOr<Operation *> copy = emitElementwise(b, &source, mapping, lanes);
      if (failed(copy)) {
        return failure();
      }
      mapping.map(source.getResults(), (*copy)->getResults());
      continue;
    }
    mapping.map(source.getResult(0), value);
  }
  SmallVector<Value> yielded;
  for (Value value : block.getTerminator()->getOperands()) {
    yielded.push_back(mapping.lookup(value));
  }
  return yielded;
}
