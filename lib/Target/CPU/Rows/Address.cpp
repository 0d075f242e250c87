// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Addresses of rows and elements of a row kernel. A row outside its source is a row of zeros (or of
// the value that the access specifies) in scratch. It is selected by pointer, so that the loops
// over columns have no branch.
#include "../../Common/Storage.h"
#include "Rows.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::rows;
using dispatch::AccessAttr;
using dispatch::AccessKind;

/// Returns the number of rows that bounds a mapped position: rows of one sequence, or of the whole
/// table.
static int64_t getExtent(RankedTensorType type, AccessAttr access) {
  bool isSequence = access.getKind() == AccessKind::Row || access.getLevel() > 0;
  return type.getDimSize(isSequence ? 1 : 0);
}

bool Addresses::mayBeOutside(unsigned i) {
  AccessAttr access = getTensorAccess(op, i);
  if (!isRow(op.getBody().getArgument(i))) {
    return false;
  }
  switch (access.getKind()) {
  case AccessKind::Gather:
    return true;
  case AccessKind::Flat:
    return access.getGroup() > 1 &&
           !alwaysInside(op, access, getExtent(getTensorType(op, i), access));
  case AccessKind::Row:
  case AccessKind::Table:
    return !alwaysInside(op, access, getExtent(getTensorType(op, i), access)) ||
           mayPrecedeColumns(op, access);
  default:
    return false;
  }
}

Addresses::Addresses(Frame &frame, dispatch::RowsOp op) : frame(frame), op(op), b(frame.builder()) {
  unsigned operands = op.getInputs().size();
  llvm::SetVector<std::pair<Type, Attribute>> outside;
  for (unsigned i = 0; i < operands + op.getOutputs().size(); ++i) {
    unsigned argument = i < operands ? i : op->getNumOperands() + i - operands;
    offsets[i] = frame.buffer(argument).getDefiningOp<memref::ViewOp>().getByteShift();
    RankedTensorType type = getTensorType(op, i);
    AccessAttr access = getTensorAccess(op, i);
    if (type.getRank() > 0) {
      bool whole = access.getKind() == AccessKind::Vector;
      widest = std::max(widest, whole ? type.getNumElements() : type.getShape().back());
    }
    if (i < operands && mayBeOutside(i)) {
      outside.insert({type.getElementType(), access.getOutside()});
    }
    bool isOneLength =
        access.getSourceFactor() > 0 && !op.getDomain().getScheduled() && !op.getDomain().getAxis();
    if (isOneLength && !validLengths.count(access.getSourceFactor())) {
      validLengths[access.getSourceFactor()] = frame.lengths(access.getSourceFactor(), 0).ofAll();
    }
  }
  widest = dispatch::paddedWidth(widest);
  for (auto [element, number] : outside) {
    outsideRows[{element, number}] = outsideRow(element, cast_or_null<FloatAttr>(number));
  }
}

Value Addresses::outsideRow(Type element, FloatAttr number) {
  Type stored = getMemoryType(element);
  Value memory = frame.scratch(MemRefType::get({widest}, stored));
  auto type = VectorType::get({16}, stored);
  Value row = number ? emitConstant(b, number, type.clone(element))
                     : Value(arith::ConstantOp::create(b, b.getZeroAttr(type)));
  if (row.getType() != type) {
    row = arith::BitcastOp::create(b, type, row);
  }
  scf::ForOp::create(b, frame.index(0), frame.index(widest), frame.index(16), ValueRange{},
                     [&](OpBuilder &inner, Location loc, Value column, ValueRange) {
                       vector::StoreOp::create(inner, loc, row, memory, column);
                       scf::YieldOp::create(inner, loc);
                     });
  return memory;
}

Value Addresses::validRows(AccessAttr access, int64_t extent, const RowPosition &at) {
  int64_t factor = access.getSourceFactor();
  if (factor == 0) {
    return frame.index(extent);
  }
  return at.length ? Value(arith::CeilDivUIOp::create(b, at.length, frame.index(factor)))
                   : validLengths.lookup(factor);
}

/// Applies the map to the position of the row, or to the gathered index.
Addresses::VectorRowPlace Addresses::mapped(AccessAttr access, int64_t extent,
                                            const RowPosition &at, Value member, bool sequence,
                                            Value gathered) {
  Value valid = sequence && isEndless(op, access) ? frame.index(std::numeric_limits<int64_t>::max())
                                                  : validRows(access, extent, at);
  Value position = emitMappedPosition(b, access, gathered ? gathered : at.position, member, valid);
  Value inside;
  if (gathered || !alwaysInside(op, access, extent)) {
    // The unsigned comparison also excludes positions before the first.
    inside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, position, valid);
  }
  if (!sequence) {
    return {position, inside, position};
  }
  return {sequenceRow(b, op.getDomain(), extent, at.batch, position), inside, position};
}

static Value toIndex(ImplicitLocOpBuilder &b, Value integer) {
  return arith::IndexCastOp::create(b, b.getIndexType(), integer);
}

std::pair<Value, Value> Addresses::range(unsigned i, const RowPosition &at, Value from,
                                         Value last) {
  AccessAttr access = getTensorAccess(op, i);
  Value valid = validRows(access, getExtent(getTensorType(op, i), access), at);
  Value first =
      emitMappedPosition(b, access, from ? toIndex(b, from) : at.position, frame.index(0), valid);
  Value end =
      emitMappedPosition(b, access, last ? toIndex(b, last) : at.position, frame.index(1), valid);
  return {arith::MaxSIOp::create(b, first, frame.index(0)), arith::MinSIOp::create(b, end, valid)};
}

Value Addresses::rangeRow(unsigned i, const RowPosition &at, Value q) {
  RankedTensorType type = getTensorType(op, i);
  Value row = sequenceRow(b, op.getDomain(), type.getDimSize(1), at.batch, q);
  return rowView(i, type, /*padded=*/true, row, nullptr);
}

Value Addresses::rangeElement(unsigned i, const RowPosition &at, Value q) {
  RankedTensorType type = getTensorType(op, i);
  Value place = sequenceRow(b, op.getDomain(), type.getDimSize(1), at.batch, q);
  return loadElement(b, elements(i, type), place);
}

Addresses::VectorRowPlace Addresses::operandPlace(unsigned i, const RowPosition &at, Value member,
                                                  Value gathered) {
  RankedTensorType type = getTensorType(op, i);
  AccessAttr access = getTensorAccess(op, i);
  switch (access.getKind()) {
  case AccessKind::Row: {
    RowPosition from = at;
    from.batch = type.getDimSize(0) == 1 ? frame.index(0) : at.batch;
    return mapped(access, getExtent(type, access), from, member, true);
  }
  case AccessKind::Table:
    return mapped(access, getExtent(type, access), at, member, false);
  case AccessKind::Flat:
    return access.getGroup() > 1 ? mapped(access, getExtent(type, access), at, member, false)
                                 : VectorRowPlace{at.row, nullptr};
  case AccessKind::Gather: {
    Value row = toIndex(b, gathered);
    if (isOfSequence(op, i)) {
      return mapped(access, getExtent(type, access), at, member, true, row);
    }
    Value inside =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, frame.index(type.getDimSize(0)));
    return {row, inside};
  }
  default:
    return {frame.index(0), nullptr};
  }
}

Value Addresses::rowView(unsigned tensor, RankedTensorType type, bool padded, Value row,
                         Value column) {
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  int64_t width = type.getShape().back();
  int64_t stride = (padded ? dispatch::paddedWidth(width) : width) * bytes;
  Value offset = arith::AddIOp::create(b, offsets.lookup(tensor),
                                       arith::MulIOp::create(b, row, frame.index(stride)));
  if (column) {
    offset = arith::AddIOp::create(b, offset, arith::MulIOp::create(b, column, frame.index(bytes)));
  }
  // All rows have one type, so that a select can choose between a row and the row outside; loads
  // stay within the true width.
  Value arena = frame.function().getArgument(0);
  auto view = MemRefType::get({widest}, getMemoryType(type.getElementType()));
  return memref::ViewOp::create(b, view, arena, offset, ValueRange{});
}

Value Addresses::operandRow(unsigned i, const RowPosition &at, Value member, Value gathered) {
  RankedTensorType type = getTensorType(op, i);
  AccessAttr access = getTensorAccess(op, i);
  VectorRowPlace place = operandPlace(i, at, member, gathered);
  AffineMap columnMap = access.getColumn().getValue();
  Value column;
  if (!columnMap.isSingleConstant() || columnMap.getSingleConstantResult() != 0) {
    column =
        affine::expandAffineExpr(b, b.getLoc(), columnMap.getResult(0), {at.position, member}, {});
  }
  if (column && mayPrecedeColumns(op, access)) {
    Value stands = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, column, frame.index(0));
    place.inside =
        place.inside ? arith::AndIOp::create(b, place.inside, stands).getResult() : stands;
  }
  Value row = rowView(i, type, type.getRank() == 3, place.row, column);
  if (!place.inside) {
    return row;
  }
  return arith::SelectOp::create(b, place.inside, row,
                                 outsideRows.lookup({type.getElementType(), access.getOutside()}));
}

Value Addresses::elements(unsigned tensor, RankedTensorType type) {
  auto view = MemRefType::get({type.getNumElements()}, getMemoryType(type.getElementType()));
  return memref::ViewOp::create(b, view, frame.function().getArgument(0), offsets.lookup(tensor),
                                ValueRange{});
}

Value Addresses::operandElement(unsigned i, const RowPosition &at, Value gathered) {
  RankedTensorType type = getTensorType(op, i);
  VectorRowPlace place = operandPlace(i, at, frame.index(0), gathered);
  Value memory = elements(i, type);
  if (!place.inside) {
    return loadElement(b, memory, place.row);
  }
  Value row = arith::SelectOp::create(b, place.inside, place.row, frame.index(0));
  Value loaded = loadElement(b, memory, row);
  if (getTensorAccess(op, i).getExtended()) {
    return arith::SelectOp::create(b, place.inside, loaded, goesOn(b, place.position));
  }
  Value outside = emitConstant(b, getTensorAccess(op, i).getOutside(), loaded.getType());
  return arith::SelectOp::create(b, place.inside, loaded, outside);
}

Value Addresses::resultIndex(unsigned i, const RowPosition &at) {
  unsigned tensor = i + op.getInputs().size();
  switch (getTensorAccess(op, tensor).getKind()) {
  case AccessKind::Row:
    return sequenceRow(b, op.getDomain(), getTensorType(op, tensor).getDimSize(1), at.batch,
                       at.position);
  case AccessKind::Flat:
  case AccessKind::Columns:
    return at.row;
  default:
    return frame.index(0);
  }
}

Value Addresses::resultRow(unsigned i, const RowPosition &at) {
  unsigned tensor = i + op.getInputs().size();
  RankedTensorType type = getTensorType(op, tensor);
  return rowView(tensor, type, type.getRank() == 3, resultIndex(i, at), nullptr);
}

void Addresses::storeElement(unsigned i, const RowPosition &at, Value value) {
  unsigned tensor = i + op.getInputs().size();
  cpu::storeElement(b, value, elements(tensor, getTensorType(op, tensor)), resultIndex(i, at));
}
