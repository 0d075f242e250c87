// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Addresses of rows and elements of a row kernel. A row outside its source is mapped to the first
// row of the source, and `inside` marks it as zeros or as the value that the access specifies;
// loads need no branch.
#include "Rows.h"

#include "mlir/Dialect/Affine/Utils.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;
using dispatch::AccessAttr;
using dispatch::AccessKind;

Addresses::Addresses(Frame &frame, dispatch::RowsOp op, const Plan &plan)
    : frame(frame), op(op), plan(plan), b(frame.b), e(frame.e) {
  for (unsigned i = 0; i < op.getInputs().size() + op.getOutputs().size(); ++i) {
    bool isResult = i >= op.getInputs().size();
    unsigned argument = isResult ? op->getNumOperands() + i - op.getInputs().size() : i;
    offsets.push_back(frame.buffer(argument).getDefiningOp<memref::ViewOp>().getByteShift());
  }
}

Value Addresses::view(Value byteOffset, int64_t size, Type element) {
  return memref::ViewOp::create(b, MemRefType::get({size}, element), frame.function.getArgument(0),
                                byteOffset, ValueRange{});
}

Value Addresses::validRows(AccessAttr access, int64_t extent, const Row &at) {
  int64_t factor = access.getSourceFactor();
  return factor == 0 ? e.index(extent)
                     : Value(arith::CeilDivUIOp::create(b, at.length, e.index(factor)));
}

Value Addresses::toIndex(Value integer) {
  return arith::IndexCastOp::create(b, b.getIndexType(), integer);
}

/// Applies the map to the position of the row, or to the gathered index.
Addresses::TeamRowPlace Addresses::mapped(AccessAttr access, int64_t extent, const Row &at,
                                          Value member, bool sequence, Value gathered) {
  Value valid = sequence && isEndless(op, access) ? e.index(std::numeric_limits<int64_t>::max())
                                                  : validRows(access, extent, at);
  Value position = emitMappedPosition(b, access, gathered ? gathered : at.position, member, valid);
  Value inside, wanted = position;
  if (gathered || !alwaysInside(op, access, extent)) {
    // The unsigned comparison also excludes positions before the first.
    inside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, position, valid);
    position = e.select(inside, position, e.index(0));
  }
  if (sequence) {
    position = sequenceRow(b, op.getDomain(), extent, at.batch, position);
  }
  return {position, inside, wanted};
}

std::pair<Value, Value> Addresses::range(unsigned i, const Row &at, Value from, Value last) {
  AccessAttr access = getTensorAccess(op, i);
  Value valid = validRows(access, getTensorType(op, i).getDimSize(1), at);
  Value first =
      emitMappedPosition(b, access, from ? toIndex(from) : at.position, e.index(0), valid);
  Value behind =
      emitMappedPosition(b, access, last ? toIndex(last) : at.position, e.index(1), valid);
  Value end = e.min(behind, valid);
  return {e.max(first, e.index(0)), e.select(at.valid, end, e.index(0))};
}

Source Addresses::rangeRow(unsigned i, const Row &at, Value q) {
  RankedTensorType type = getTensorType(op, i);
  return sourceAt(i, {sequenceRow(b, op.getDomain(), type.getDimSize(1), at.batch, q), {}}, at, {});
}

Value Addresses::rangeElement(unsigned i, const Row &at, Value q) {
  RankedTensorType type = getTensorType(op, i);
  Value place = sequenceRow(b, op.getDomain(), type.getDimSize(1), at.batch, q);
  return e.loadScalar(elements(i), place);
}

Addresses::TeamRowPlace Addresses::operandPlace(unsigned i, const Row &at, Value member,
                                                Value gathered) {
  RankedTensorType type = getTensorType(op, i);
  AccessAttr access = getTensorAccess(op, i);
  switch (access.getKind()) {
  case AccessKind::Row: {
    Row from = at;
    from.batch = type.getDimSize(0) == 1 ? e.index(0) : at.batch;
    return mapped(access, type.getDimSize(1), from, member, true);
  }
  case AccessKind::Table:
    return mapped(access, type.getDimSize(0), at, member, false);
  case AccessKind::Flat:
    return access.getGroup() > 1 ? mapped(access, type.getDimSize(0), at, member, false)
                                 : TeamRowPlace{at.global, nullptr};
  case AccessKind::Gather: {
    Value row = toIndex(gathered);
    if (isOfSequence(op, i)) {
      return mapped(access, type.getDimSize(1), at, member, true, row);
    }
    Value inside =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, e.index(type.getDimSize(0)));
    return {e.select(inside, row, e.index(0)), inside};
  }
  default:
    return {e.index(0), nullptr};
  }
}

/// Returns true if vectors at multiples of `vector` columns are aligned to their size.
static bool isAligned(RankedTensorType type, AffineMap column, int64_t vector) {
  uint64_t first = column.getResult(0).getLargestKnownDivisor();
  bool starts = first == 0 || first % uint64_t(vector) == 0;
  bool rows = type.getRank() != 2 || type.getShape().back() % vector == 0;
  return starts && rows;
}

Source Addresses::operandRow(unsigned i, const Row &at, Value member, Value gathered) {
  return sourceAt(i, operandPlace(i, at, member, gathered), at, member);
}

Source Addresses::sourceAt(unsigned i, TeamRowPlace place, const Row &at, Value member) {
  RankedTensorType type = getTensorType(op, i);
  AccessAttr access = getTensorAccess(op, i);
  AffineMap columnMap = access.getColumn().getValue();
  Source source;
  source.inside = place.inside;
  source.outside = access.getOutside();
  source.width = getRowWidth(op.getBody().getArgument(i));
  source.aligned = isAligned(type, columnMap, plan.vector);
  bool whole = columnMap.isSingleConstant() && columnMap.getSingleConstantResult() == 0;
  bool padded = type.getRank() == 3;
  int64_t stride = padded ? dispatch::paddedWidth(type.getShape().back()) : type.getShape().back();
  source.readable = padded && whole ? stride : source.width;
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  Value offset = e.add(offsets[i], e.mul(place.row, stride * bytes));
  if (!whole) {
    Value column =
        affine::expandAffineExpr(b, b.getLoc(), columnMap.getResult(0), {at.position, member}, {});
    if (mayPrecedeColumns(op, access)) {
      Value stands = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, column, e.index(0));
      column = e.select(stands, column, e.index(0));
      source.inside =
          source.inside ? arith::AndIOp::create(b, source.inside, stands).getResult() : stands;
    }
    offset = e.add(offset, e.mul(column, bytes));
  }
  source.memory = view(offset, source.readable, type.getElementType());
  return source;
}

Value Addresses::elements(unsigned tensor) {
  RankedTensorType type = getTensorType(op, tensor);
  return view(offsets[tensor], type.getNumElements(), type.getElementType());
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
  TeamRowPlace place = operandPlace(i, at, e.index(0), gathered);
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
  if (!place.inside) {
    return loaded;
  }
  if (getTensorAccess(op, i).getExtended()) {
    return e.select(place.inside, loaded, goesOn(b, place.position));
  }
  return e.select(place.inside, loaded,
                  emitConstant(b, getTensorAccess(op, i).getOutside(), wanted));
}

Source Addresses::resultRow(unsigned i, const Row &at, int64_t width, Value member, Value part) {
  unsigned tensor = i + op.getInputs().size();
  RankedTensorType type = getTensorType(op, tensor);
  AccessKind kind = getTensorAccess(op, tensor).getKind();
  bool padded = type.getRank() == 3;
  int64_t columns = type.getShape().back();
  int64_t stride = padded ? dispatch::paddedWidth(columns) : columns;
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  Value row = part ? part : e.index(0);
  if (kind == AccessKind::Row) {
    row = sequenceRow(b, op.getDomain(), type.getDimSize(1), at.batch, at.position);
  } else if (kind == AccessKind::Flat) {
    row = at.global;
  }
  Source source;
  source.width = width;
  source.readable = padded && width == columns ? stride : width;
  source.aligned = (type.getRank() != 2 || columns % plan.vector == 0) &&
                   (width == columns || width % plan.vector == 0);
  Value offset = e.add(offsets[tensor], e.mul(row, stride * bytes));
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
  AccessKind kind = getTensorAccess(op, tensor).getKind();
  Value row = e.index(0);
  if (kind == AccessKind::Row) {
    row = sequenceRow(b, op.getDomain(), type.getDimSize(1), at.batch, at.position);
  } else if (kind == AccessKind::Flat) {
    row = at.global;
  }
  if (value.getType() != type.getElementType()) {
    value = arith::TruncFOp::create(b, type.getElementType(), value);
  }
  e.store(value, elements(tensor), row);
}
