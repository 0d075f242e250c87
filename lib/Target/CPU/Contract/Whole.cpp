// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
#include "Whole.h"

#include "../../Common/Storage.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

/// Greatest magnitude of a row that is rounded to i16.
constexpr float mostWhole = 32767;

WholeProducts::WholeProducts(dispatch::ContractOp op, Emitter &emitter)
    : inner(op.getInner()),
      groups(op.getGrouped() ? llvm::divideCeil(inner, dispatch::groupWeights) : 0),
      stepColumns((groups ? 4 : 2) * emitter.lanes), op(op), e(emitter) {}

void WholeProducts::allocate(Frame &frame, int64_t slots) {
  input = frame.buffer(0);
  weight = frame.buffer(1);
  scales = groups ? frame.buffer(unsigned(1 + op.getExtras().size())) : Value();
  int64_t padded = llvm::alignTo(inner, stepColumns);
  rounded = frame.scratch(MemRefType::get({slots, padded}, e.b.getI16Type()));
  rowScales = frame.scratch(MemRefType::get({slots}, e.b.getF32Type()));
}

Value WholeProducts::getWeightRow(Value output, Value k) {
  return groups ? e.add(e.mul(output, groups), e.floorDiv(k, dispatch::groupWeights)) : output;
}

Values WholeProducts::step(ArrayRef<Value> slots, ArrayRef<Value> outputs, Value k, int64_t valid,
                           ValueRange sums) {
  return groups ? stepGroups(slots, outputs, k, valid, sums)
                : stepBytes(slots, outputs, k, valid, sums);
}

void WholeProducts::roundRow(Value row, Value slot) {
  int64_t whole = inner / e.lanes * e.lanes, padded = llvm::alignTo(inner, stepColumns);
  // Magnitudes are compared as integers, whose order is the order of the numbers: NaN comes last,
  // so a row has it. A maximum of f32 that keeps NaN takes several instructions, one after another.
  Value mask = e.splatInteger(0x7fffffff);
  auto greater = [&](Value k, int64_t valid, Value most) -> Value {
    Value bits = arith::BitcastOp::create(e.b, e.integers, e.load(input, {row, k}, valid));
    return arith::MaxSIOp::create(e.b, most, arith::AndIOp::create(e.b, bits, mask));
  };
  // The least scale is a number whose inverse is finite.
  constexpr int32_t least = (127 - 100) << 23; // 2^-100
  Value most =
      e.loop(e.index(0), e.index(whole), e.lanes, {e.splatInteger(least)},
             [&](Value k, ValueRange so) { return Values{greater(k, e.lanes, so.front())}; })
          .front();
  if (whole < inner) {
    most = greater(e.index(whole), inner - whole, most);
  }
  most = vector::ReductionOp::create(e.b, vector::CombiningKind::MAXSI, most);
  most = arith::BitcastOp::create(e.b, e.b.getF32Type(), most);
  auto number = [&](float value) -> Value {
    return arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(value));
  };
  Value inverse = e.broadcast(arith::DivFOp::create(e.b, number(mostWhole), most));
  e.store(arith::DivFOp::create(e.b, most, number(mostWhole)), rowScales, slot);
  auto round = [&](Value k, int64_t valid) {
    Value scaled = e.mulf(e.load(input, {row, k}, valid), inverse);
    vector::StoreOp::create(e.b, emitRoundToInteger(e.b, scaled, 16), rounded,
                            ValueRange{slot, getPlace(k)});
  };
  e.loop(e.index(0), e.index(whole), e.lanes, [&](Value k) { round(k, e.lanes); });
  if (whole < inner) {
    round(e.index(whole), inner - whole);
  }
  if (whole + e.lanes < padded || whole == inner) {
    Value zeros = arith::ConstantOp::create(
        e.b, e.b.getZeroAttr(VectorType::get({e.lanes}, e.b.getI16Type())));
    for (int64_t k = llvm::alignTo(inner, e.lanes); k < padded; k += e.lanes) {
      vector::StoreOp::create(e.b, zeros, rounded, ValueRange{slot, getPlace(e.index(k))});
    }
  }
}

/// Returns the place in a rounded row of the vector of columns from `k`. A step multiplies the
/// first halves of its groups, then the second ones. With two groups, those are vectors 0 and 2,
/// then 1 and 3.
Value WholeProducts::getPlace(Value k) {
  if (groups == 0 || stepColumns == dispatch::groupWeights) {
    return k;
  }
  auto bit = [&](int64_t divisor) -> Value {
    return arith::AndIOp::create(e.b, e.floorDiv(k, divisor), e.index(1));
  };
  Value isSecond = bit(dispatch::groupBytes), ofSecond = bit(dispatch::groupWeights);
  return e.add(k, e.mul(e.sub(isSecond, ofSecond), dispatch::groupBytes));
}

/// Loads 2 * lanes bytes of the weight as words. Bytes past the first `valid` are zeros.
Value WholeProducts::loadBytes(Value row, Value column, int64_t valid) {
  int64_t count = 2 * e.lanes;
  auto bytes = VectorType::get({count}, e.b.getI8Type());
  Value loaded;
  if (valid >= count) {
    loaded = vector::LoadOp::create(e.b, bytes, weight, ValueRange{row, column});
  } else {
    Value mask = vector::CreateMaskOp::create(e.b, bytes.clone(e.b.getI1Type()), e.index(valid));
    Value zeros = arith::ConstantOp::create(e.b, e.b.getZeroAttr(bytes));
    loaded = vector::MaskedLoadOp::create(e.b, bytes, weight, ValueRange{row, column}, mask, zeros);
  }
  return arith::ExtSIOp::create(e.b, bytes.clone(e.b.getI16Type()), loaded);
}

/// Returns the sums of products of pairs of i16. LLVM merges them with an addition where the target
/// can.
static Value sumPairs(Emitter &e, Value factor, Value column) {
  StringAttr name =
      e.b.getStringAttr(e.lanes == 16 ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd");
  return LLVM::CallIntrinsicOp::create(e.b, e.integers, name, ValueRange{factor, column})
      .getResult(0);
}

static Value loadRounded(Emitter &e, Value rounded, ValueRange at) {
  auto words = VectorType::get({2 * e.lanes}, e.b.getI16Type());
  return vector::LoadOp::create(e.b, words, rounded, at);
}

/// Multiplies i8: 2 * lanes columns.
Values WholeProducts::stepBytes(ArrayRef<Value> slots, ArrayRef<Value> outputs, Value k,
                                int64_t valid, ValueRange sums) {
  Values weights, next(sums);
  for (Value output : outputs) {
    weights.push_back(loadBytes(output, k, valid));
  }
  for (auto [i, slot] : llvm::enumerate(slots)) {
    Value factor = loadRounded(e, rounded, {slot, k});
    for (auto [j, column] : llvm::enumerate(weights)) {
      Value &sum = next[j * slots.size() + i];
      sum = e.add(sum, sumPairs(e, factor, column));
    }
  }
  return next;
}

/// Multiplies one group, with 16 lanes two. A byte is q' + 8 + 16 q'', so a shift of its
/// sign-extended word is q''. The integer sums of a group, in 8 lanes, are exact.
Values WholeProducts::stepGroups(ArrayRef<Value> slots, ArrayRef<Value> outputs, Value k,
                                 int64_t valid, ValueRange sums) {
  constexpr int64_t groupLanes = dispatch::groupBytes / 2;
  int64_t count =
      std::min<int64_t>(e.lanes / groupLanes, llvm::divideCeil(valid, dispatch::groupWeights));
  auto words = VectorType::get({2 * e.lanes}, e.b.getI16Type());
  auto splat = [&](int64_t number) -> Value {
    return arith::ConstantOp::create(
        e.b, DenseElementsAttr::get(words, e.b.getI16IntegerAttr(int16_t(number))));
  };
  SmallVector<int64_t> lanesOf;
  for (int64_t lane = 0; lane < e.lanes; ++lane) {
    lanesOf.push_back(std::min(lane / groupLanes, count - 1));
  }
  Values firsts, seconds, factors, next(sums);
  for (Value output : outputs) {
    Value row = getWeightRow(output, k);
    Value word = loadBytes(row, e.index(0), count * dispatch::groupBytes);
    firsts.push_back(
        arith::SubIOp::create(e.b, arith::AndIOp::create(e.b, word, splat(15)), splat(8)));
    seconds.push_back(arith::ShRSIOp::create(e.b, word, splat(4)));
    Value loaded =
        vector::LoadOp::create(e.b, VectorType::get({count}, e.b.getF32Type()), scales, row);
    factors.push_back(e.shuffle(loaded, loaded, lanesOf));
  }
  for (auto [i, slot] : llvm::enumerate(slots)) {
    Value first = loadRounded(e, rounded, {slot, k}),
          second = loadRounded(e, rounded, {slot, e.add(k, 2 * e.lanes)});
    for (size_t j = 0; j < outputs.size(); ++j) {
      Value whole = e.add(sumPairs(e, first, firsts[j]), sumPairs(e, second, seconds[j]));
      Value &sum = next[j * slots.size() + i];
      sum = e.fma(arith::SIToFPOp::create(e.b, e.floats, whole), factors[j], sum);
    }
  }
  return next;
}
