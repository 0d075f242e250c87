// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Addresses of rows and elements of a row kernel. A row outside its source is a row of zeros (or of
// the value that the access specifies) in scratch. It is selected by pointer, so that the loops
// over columns have no branch.
#include "../../Common/Storage.h"
#include "Rows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::rows;
using dispatch::AccessAttr;
using dispatch::AccessKind;

bool Addresses::mayBeOutside(unsigned i) {
  AccessAttr access = getTensorAccess(op, i);
  if (!isRow(op.getBody().getArgument(i))) {
    return false;
  }
  switch (access.getKind()) {
  case AccessKind::Gather:
    return true;
  case AccessKind::Range:
    return access.isListed();
  case AccessKind::Flat:
    return access.getGroup() > 1 &&
           !alwaysInside(op, access, getMappedExtent(getTensorType(op, i), access));
  case AccessKind::Row:
  case AccessKind::Table:
    return !alwaysInside(op, access, getMappedExtent(getTensorType(op, i), access)) ||
           mayPrecedeColumns(op, access);
  default:
    return false;
  }
}

Addresses::Addresses(Frame &frame, dispatch::RowsOp op)
    : frame(frame), op(op), b(frame.builder()), rows{b, op, /*clamps=*/false, {}} {
  rows.computeLength = [this](int64_t factor, const RowPosition &at) {
    return at.length ? Value(arith::CeilDivUIOp::create(b, at.length, this->frame.index(factor)))
                     : validLengths.lookup(factor);
  };
  unsigned operands = op.getInputs().size();
  llvm::SetVector<std::pair<Type, Attribute>> outside;
  for (unsigned i = 0; i < operands + op.getOutputs().size(); ++i) {
    unsigned argument = i < operands ? i : op->getNumOperands() + i - operands;
    rows.offsets.push_back(frame.buffer(argument).getDefiningOp<memref::ViewOp>().getByteShift());
    RankedTensorType type = getTensorType(op, i);
    AccessAttr access = getTensorAccess(op, i);
    if (type.getRank() > 0) {
      bool whole = access.getKind() == AccessKind::Vector;
      widest = std::max(widest, whole ? type.getNumElements() : type.getShape().back());
    }
    if (readsOutsideColumns(op, i)) {
      widest = std::max(widest, getRowWidth(op.getBody().getArgument(i)));
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
  for (unsigned i = 0; i < operands; ++i) {
    if (readsOutsideColumns(op, i)) {
      paddedRows[i] =
          outsideRow(getTensorType(op, i).getElementType(), getTensorAccess(op, i).getOutside());
    }
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

std::pair<Value, Value> Addresses::range(unsigned i, const RowPosition &at, Value from,
                                         Value last) {
  RangeBounds range = computeRange(rows, i, at, from, last);
  return {arith::MaxSIOp::create(b, range.first, frame.index(0)),
          arith::MinSIOp::create(b, range.end, range.valid)};
}

Value Addresses::rangeRow(unsigned i, const RowPosition &at, Value q) {
  RankedTensorType type = getTensorType(op, i);
  RowPlace place = rangePlace(i, at, q);
  Value row = rowView(i, type, /*padded=*/true, place.row, nullptr);
  return place.inside
             ? arith::SelectOp::create(b, place.inside, row,
                                       outsideRows.lookup({type.getElementType(), Attribute()}))
             : row;
}

RowPlace Addresses::rangePlace(unsigned i, const RowPosition &at, Value q) {
  AccessAttr access = getTensorAccess(op, i);
  if (!access.isListed()) {
    return {computeRangePlace(rows, i, at, q), {}};
  }
  auto list = unsigned(access.getList());
  Value entry =
      loadElement(b, elements(list, getTensorType(op, list)), computeRangePlace(rows, list, at, q));
  return computeListedPlace(rows, i, at, entry);
}

Value Addresses::rangeWeight(unsigned i, const RowPosition &at, Value q,
                             const BodyScalars &scalars) {
  AccessAttr access = getTensorAccess(op, i);
  if (access.getWeight() < 0 && !access.getSoftmax()) {
    return {};
  }
  RowPlace place = rangePlace(i, at, q);
  Value row = place.inside
                  ? Value(arith::SelectOp::create(b, place.inside, place.row, frame.index(0)))
                  : place.row;
  auto load = [&](unsigned weights) {
    return loadElement(b, elements(weights, getTensorType(op, weights)), row);
  };
  if (dispatch::SoftmaxAttr softmax = access.getSoftmax()) {
    auto own = [&](unsigned argument) { return getIndexValue(op, scalars, argument); };
    return emitSoftmaxWeight(b, softmax, own, load);
  }
  return load(unsigned(access.getWeight()));
}

Value Addresses::drawNumber(unsigned i, const RowPosition &at, Value q) {
  auto drawn = unsigned(getTensorAccess(op, i).getDrawn());
  return loadElement(b, elements(drawn, getTensorType(op, drawn)),
                     computeRangePlace(rows, drawn, at, q));
}

Value Addresses::rangeElement(unsigned i, const RowPosition &at, Value q) {
  RowPlace place = rangePlace(i, at, q);
  Value memory = elements(i, getTensorType(op, i));
  if (!place.inside) {
    return loadElement(b, memory, place.row);
  }
  Value row = arith::SelectOp::create(b, place.inside, place.row, frame.index(0));
  return emitOutsideElement(rows, i, place, loadElement(b, memory, row));
}

Value Addresses::rowView(unsigned tensor, RankedTensorType type, bool padded, Value row,
                         Value column) {
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  int64_t width = type.getShape().back();
  int64_t stride = (padded ? dispatch::paddedWidth(width) : width) * bytes;
  Value offset = arith::AddIOp::create(b, rows.offsets[tensor],
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
  RowPlace place = computePlace(rows, i, at, member, gathered);
  bool isPadded = readsOutsideColumns(op, i);
  Value column =
      isPadded || startsAtFirstColumn(op, i) ? Value() : computeColumn(rows, i, at, member, place);
  Value row = rowView(i, type, type.getRank() == 3, place.row, column);
  if (place.inside) {
    Value outside =
        outsideRows.lookup({type.getElementType(), getTensorAccess(op, i).getOutside()});
    row = arith::SelectOp::create(b, place.inside, row, outside);
  }
  return isPadded ? padRow(i, row) : row;
}

Value Addresses::padRow(unsigned i, Value row) {
  int64_t first = getTensorAccess(op, i).getColumn().getValue().getSingleConstantResult();
  int64_t begin = std::max<int64_t>(first, 0);
  int64_t end = std::min(first + getRowWidth(op.getBody().getArgument(i)),
                         getTensorType(op, i).getDimSize(2));
  Value padded = paddedRows.lookup(i);
  scf::ForOp::create(b, frame.index(begin), frame.index(std::max(begin, end)), frame.index(1),
                     ValueRange{}, [&](OpBuilder &inner, Location loc, Value column, ValueRange) {
                       Value number = memref::LoadOp::create(inner, loc, row, column);
                       Value at = arith::SubIOp::create(inner, loc, column, frame.index(first));
                       memref::StoreOp::create(inner, loc, number, padded, at);
                       scf::YieldOp::create(inner, loc);
                     });
  return padded;
}

Value Addresses::elements(unsigned tensor, RankedTensorType type) {
  auto view = MemRefType::get({type.getNumElements()}, getMemoryType(type.getElementType()));
  return memref::ViewOp::create(b, view, frame.function().getArgument(0), rows.offsets[tensor],
                                ValueRange{});
}

Value Addresses::operandElement(unsigned i, const RowPosition &at, Value gathered) {
  RowPlace place = computePlace(rows, i, at, frame.index(0), gathered);
  Value memory = elements(i, getTensorType(op, i));
  if (!place.inside) {
    return loadElement(b, memory, place.row);
  }
  Value row = arith::SelectOp::create(b, place.inside, place.row, frame.index(0));
  return emitOutsideElement(rows, i, place, loadElement(b, memory, row));
}

Value Addresses::resultRow(unsigned i, const RowPosition &at) {
  unsigned tensor = i + op.getInputs().size();
  RankedTensorType type = getTensorType(op, tensor);
  return rowView(tensor, type, type.getRank() == 3, computeResultPlace(rows, i, at), nullptr);
}

void Addresses::storeElement(unsigned i, const RowPosition &at, Value value) {
  unsigned tensor = i + op.getInputs().size();
  cpu::storeElement(b, value, elements(tensor, getTensorType(op, tensor)),
                    computeResultPlace(rows, i, at));
}
