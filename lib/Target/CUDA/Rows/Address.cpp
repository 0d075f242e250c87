// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Addresses of rows and elements of a row kernel. A row outside its source is mapped to the first
// row of the source, and `inside` marks it as zeros or as the value that the access specifies;
// loads need no branch.
#include "Rows.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;
using dispatch::AccessAttr;
using dispatch::AccessKind;

Addresses::Addresses(Frame &frame, dispatch::RowsOp op, const Plan &plan)
    : frame(frame), op(op), plan(plan), b(frame.b), e(frame.e), rows{b, op, /*clamps=*/true, {}} {
  rows.computeLength = [this](int64_t factor, const RowPosition &at) {
    return arith::CeilDivUIOp::create(b, at.length, e.index(factor)).getResult();
  };
  for (unsigned i = 0; i < op.getInputs().size() + op.getOutputs().size(); ++i) {
    bool isResult = i >= op.getInputs().size();
    unsigned argument = isResult ? op->getNumOperands() + i - op.getInputs().size() : i;
    rows.offsets.push_back(frame.buffer(argument).getDefiningOp<memref::ViewOp>().getByteShift());
  }
}

Value Addresses::view(Value byteOffset, int64_t size, Type element) {
  return memref::ViewOp::create(b, MemRefType::get({size}, element), frame.function.getArgument(0),
                                byteOffset, ValueRange{});
}

std::pair<Value, Value> Addresses::range(unsigned i, const Row &at, Value from, Value last) {
  RangeBounds range = computeRange(rows, i, at, from, last);
  Value end = e.min(range.end, range.valid);
  return {e.max(range.first, e.index(0)), e.select(at.valid, end, e.index(0))};
}

Source Addresses::rangeRow(unsigned i, const Row &at, Value q) {
  return sourceAt(i, rangePlace(i, at, q), at, {});
}

RowPlace Addresses::rangePlace(unsigned i, const Row &at, Value q) {
  AccessAttr access = getTensorAccess(op, i);
  if (!access.isListed()) {
    return {computeRangePlace(rows, i, at, q), {}};
  }
  auto list = unsigned(access.getList());
  Value entry = e.loadScalar(elements(list), computeRangePlace(rows, list, at, q));
  return computeListedPlace(rows, i, at, entry);
}

Value Addresses::rangeWeight(unsigned i, const Row &at, Value q, const BodyScalars &scalars) {
  AccessAttr access = getTensorAccess(op, i);
  auto load = [&](unsigned weights) {
    return e.loadScalar(elements(weights), rangePlace(i, at, q).row);
  };
  if (dispatch::SoftmaxAttr softmax = access.getSoftmax()) {
    auto own = [&](unsigned argument) { return getIndexValue(op, scalars, argument); };
    return emitSoftmaxWeight(b, softmax, own, load);
  }
  return access.getWeight() < 0 ? Value() : load(unsigned(access.getWeight()));
}

Value Addresses::drawNumber(unsigned i, const Row &at, Value q) {
  auto drawn = unsigned(getTensorAccess(op, i).getDrawn());
  return e.loadScalar(elements(drawn), computeRangePlace(rows, drawn, at, q));
}

Value Addresses::rangeElement(unsigned i, const Row &at, Value q) {
  RowPlace place = rangePlace(i, at, q);
  Value loaded = e.loadScalar(elements(i), place.row);
  return place.inside ? emitOutsideElement(rows, i, place, loaded) : loaded;
}

/// Returns true if vectors at multiples of `vector` columns are aligned to their size.
static bool isAligned(RankedTensorType type, AffineMap column, int64_t vector) {
  uint64_t first = column.getResult(0).getLargestKnownDivisor();
  bool starts = first == 0 || first % uint64_t(vector) == 0;
  bool rows = type.getRank() != 2 || type.getShape().back() % vector == 0;
  return starts && rows;
}

Source Addresses::operandRow(unsigned i, const Row &at, Value member, Value gathered) {
  return sourceAt(i, computePlace(rows, i, at, member, gathered), at, member);
}

Source Addresses::sourceAt(unsigned i, RowPlace place, const Row &at, Value member) {
  RankedTensorType type = getTensorType(op, i);
  AccessAttr access = getTensorAccess(op, i);
  Source source;
  source.outside = access.getOutside();
  source.width = getRowWidth(op.getBody().getArgument(i));
  source.aligned = isAligned(type, access.getColumn().getValue(), plan.vector);
  bool isPadded = readsOutsideColumns(op, i);
  bool whole = isPadded || startsAtFirstColumn(op, i), padded = type.getRank() == 3;
  if (isPadded) {
    source.first = access.getColumn().getValue().getSingleConstantResult();
    source.columns = type.getDimSize(2);
  }
  int64_t stride = padded ? dispatch::paddedWidth(type.getShape().back()) : type.getShape().back();
  source.readable = padded && whole ? stride : source.width;
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  Value offset = e.add(rows.offsets[i], e.mul(place.row, stride * bytes));
  if (!whole) {
    offset = e.add(offset, e.mul(computeColumn(rows, i, at, member, place), bytes));
  }
  source.inside = place.inside;
  source.memory = view(offset, source.readable, type.getElementType());
  return source;
}

Value Addresses::elements(unsigned tensor) {
  RankedTensorType type = getTensorType(op, tensor);
  return view(rows.offsets[tensor], type.getNumElements(), type.getElementType());
}

Value rows::readWhere(Frame &frame, Value condition, Type type, llvm::function_ref<Value()> read) {
  ImplicitLocOpBuilder &b = frame.b;
  auto branch = scf::IfOp::create(b, TypeRange{type}, condition, true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, read());
  b.setInsertionPointToStart(branch.elseBlock());
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
  scf::YieldOp::create(b, zero);
  return branch.getResult(0);
}

bool rows::computesInvalid(dispatch::RowsOp op, const Plan &plan) {
  return plan.team < threadsPerWarp || op.getZeroInvalid();
}

Value Addresses::operandElement(unsigned i, const Row &at, Value gathered) {
  RowPlace place = computePlace(rows, i, at, e.index(0), gathered);
  Value memory = elements(i);
  auto read = [&] { return e.loadScalar(memory, place.row); };
  bool alike = getTensorAccess(op, i).getKind() == AccessKind::Scalar;
  Value loaded = computesInvalid(op, plan) && !alike
                     ? readWhere(frame, at.valid, getTensorType(op, i).getElementType(), read)
                     : read();
  Type wanted = op.getBody().getArgument(i).getType();
  if (loaded.getType() != wanted) {
    loaded = arith::ExtFOp::create(b, wanted, loaded);
  }
  return place.inside ? emitOutsideElement(rows, i, place, loaded) : loaded;
}

Source Addresses::resultRow(unsigned i, const Row &at, int64_t width, Value member, Value part) {
  unsigned tensor = i + op.getInputs().size();
  RankedTensorType type = getTensorType(op, tensor);
  bool padded = type.getRank() == 3;
  int64_t columns = type.getShape().back();
  int64_t stride = padded ? dispatch::paddedWidth(columns) : columns;
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  Value row = part ? part : computeResultPlace(rows, i, at);
  Source source;
  source.width = width;
  source.readable = padded && width == columns ? stride : width;
  source.aligned = (type.getRank() != 2 || columns % plan.vector == 0) &&
                   (width == columns || width % plan.vector == 0);
  Value offset = e.add(rows.offsets[tensor], e.mul(row, stride * bytes));
  if (member) {
    offset = e.add(offset, e.mul(member, width * bytes));
  }
  source.memory = view(offset, source.readable, type.getElementType());
  return source;
}

Source Addresses::workspaceRow(Value offset, Value row, int64_t width) {
  Source source;
  source.width = width;
  source.readable = workspaceStride(width);
  Value at = e.add(e.add(frame.workspace(), offset), e.mul(row, source.readable * 4));
  source.memory = view(at, source.readable, b.getF32Type());
  return source;
}

void Addresses::storeElement(unsigned i, const Row &at, Value value) {
  unsigned tensor = i + op.getInputs().size();
  RankedTensorType type = getTensorType(op, tensor);
  Value row = computeResultPlace(rows, i, at);
  if (value.getType() != type.getElementType()) {
    value = arith::TruncFOp::create(b, type.getElementType(), value);
  }
  e.store(value, elements(tensor), row);
}
