// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of gathered and ranged operands, and of the scan that computes their indices.
#include "IndexOperands.h"

using namespace mlir;
using namespace sluice::dispatch;

SmallVector<unsigned> AccessAttr::getIndices() const {
  SmallVector<unsigned> indices;
  for (int64_t index : {getIndex(), getLast(), getList(), getWeight(), getDrawn()}) {
    if (index >= 0) {
      indices.push_back(static_cast<unsigned>(index));
    }
  }
  if (SoftmaxAttr softmax = getSoftmax()) {
    for (int64_t index : {softmax.getSource(), softmax.getTarget(), softmax.getNorm()}) {
      indices.push_back(static_cast<unsigned>(index));
    }
  }
  return indices;
}

/// Returns true for an i32 argument of lower index with access `row`, or a gathered one.
static bool isIndex(RowsOp op, int64_t argument, bool gathered) {
  if (argument < 0 || argument >= int64_t(op.getInputs().size())) {
    return false;
  }
  AccessKind kind = cast<AccessAttr>(op.getAccesses()[argument]).getKind();
  return op.getBody().getArgument(unsigned(argument)).getType().isInteger(32) &&
         (kind == AccessKind::Row || (gathered && kind == AccessKind::Gather));
}

/// Returns true if argument `i` is one number of `element` per row [batch, T'], of access `row`.
static bool isNumberOfRows(RowsOp op, int64_t i, Type element) {
  if (i < 0 || i >= int64_t(op.getInputs().size())) {
    return false;
  }
  auto type = cast<RankedTensorType>(op.getInputs()[unsigned(i)].getType());
  return cast<AccessAttr>(op.getAccesses()[i]).getKind() == AccessKind::Row &&
         op.getBody().getArgument(unsigned(i)).getType() == element && type.getRank() == 2 &&
         type.getElementType() == element && type.getDimSize(0) == op.getDomain().getBatch();
}

/// Returns true if argument `i` is one number of `element` per row of operand `like`, of access
/// `row`.
static bool isNumberOfEachRow(RowsOp op, int64_t i, unsigned like, Type element) {
  return isNumberOfRows(op, i, element) &&
         cast<RankedTensorType>(op.getInputs()[unsigned(i)].getType()).getDimSize(1) ==
             cast<RankedTensorType>(op.getInputs()[like].getType()).getDimSize(1);
}

/// Verifies the list, the weights and the numbers of draws of operand `i`: entries by row of the
/// batch, and one number per row of the operand.
static LogicalResult verifyList(RowsOp op, unsigned i, AccessAttr access) {
  SoftmaxAttr softmax = access.getSoftmax();
  bool isWeighted = access.getWeight() >= 0;
  if (!access.isListed() && !isWeighted && !access.isDrawn() && !softmax) {
    return success();
  }
  Builder b(op.getContext());
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  bool isSum = !access.getOutside();
  bool fits =
      access.getKind() == AccessKind::Range && !op.getDomain().getScheduled() &&
      (!access.isListed() || isNumberOfRows(op, access.getList(), i32)) &&
      (!isWeighted || (isSum && !softmax && isNumberOfEachRow(op, access.getWeight(), i, f32))) &&
      (!access.isDrawn() || (isSum && !softmax && !access.isListed() &&
                             isNumberOfEachRow(op, access.getDrawn(), i, i32)));
  if (!fits) {
    return op.emitOpError("D-080: expected a list or a number of draws, i32, and f32 weights, "
                          "or fewer of them, for sums of operand ")
           << i << " of " << op.getInputs()[i].getType() << " in a domain that is not scheduled, "
           << "found the arguments " << access.getList() << ", " << access.getDrawn() << " and "
           << access.getWeight();
  }
  if (softmax && (!isSum || !isNumberOfEachRow(op, softmax.getSource(), i, f32) ||
                  !isNumberOfEachRow(op, softmax.getTarget(), i, f32) ||
                  !isNumberOfEachRow(op, softmax.getNorm(), i, f32))) {
    return op.emitOpError("D-081: expected one f32 per row of operand ")
           << i << " in each argument of the weights of its sum, found the arguments "
           << softmax.getSource() << ", " << softmax.getTarget() << " and " << softmax.getNorm();
  }
  return success();
}

/// Verifies the index arguments of an operand, and that the operand has the rows that they select.
LogicalResult sluice::dispatch::detail::verifyIndexOperand(RowsOp op, unsigned i) {
  auto access = cast<AccessAttr>(op.getAccesses()[i]);
  auto type = cast<RankedTensorType>(op.getInputs()[i].getType());
  bool isElement = !isa<RankedTensorType>(op.getBody().getArgument(i).getType());
  bool isRange = access.getKind() == AccessKind::Range;
  bool isGather = access.getKind() == AccessKind::Gather && (type.getRank() == 3 || isElement);
  bool isRow = access.getKind() == AccessKind::Row;
  if (access.getExtended() && (!isElement || !type.getElementType().isInteger(32) ||
                               type.getRank() != 2 || (!isRow && !isGather))) {
    return op.emitOpError("D-027: expected elements of i32, of access row or gathered, to extend "
                          "past their ends, found operand ")
           << i << " of " << type;
  }
  bool isGreatest = isRange && access.getOutside() && access.getOutside().getValue().isInfinity() &&
                    access.getOutside().getValue().isNegative();
  if (access.getOutside() && ((!isRow && !isGreatest) || !isStorageType(type.getElementType()))) {
    return op.emitOpError("D-071: expected rows of f32 or bf16, of access row, to be numbers "
                          "outside, or a range's minus infinity, found operand ")
           << i << " of " << type;
  }
  if (failed(verifyList(op, i, access))) {
    return failure();
  }
  if (!isRange && !isGather) {
    return success();
  }
  bool fits = isRange ? (access.getIndex() == -1 || isIndex(op, access.getIndex(), true)) &&
                            (access.getLast() == -1 || isIndex(op, access.getLast(), true)) &&
                            (isStorageType(type.getElementType()) ||
                             (access.isDrawn() && isElement && type.getElementType().isInteger(32)))
                      : isIndex(op, access.getIndex(), /*gathered=*/false);
  int64_t rank = isElement ? 2 : 3;
  if (!fits || access.getGroup() != 1 || type.getRank() != rank ||
      type.getDimSize(0) != op.getDomain().getBatch()) {
    return op.emitOpError("D-026: expected operand ")
           << i << " to be of rank " << rank
           << ", a row for each of the domain's batch, and found by "
           << "elements of i32, found " << type << " and the indices " << access.getIndex()
           << " and " << access.getLast();
  }
  return success();
}

LogicalResult SegmentScanOp::verify() {
  if (getDomain().getScheduled()) {
    return emitOpError("D-019: expected a domain that is not scheduled, for a scan");
  }
  auto bits = cast<RankedTensorType>(getBits().getType());
  auto ends = cast<RankedTensorType>(getEnds().getType());
  int64_t batch = getDomain().getBatch(), positions = getDomain().getPositions();
  Type i32 = IntegerType::get(getContext(), 32);
  bool isOneBit = bits.getRank() == 2 || (bits.getRank() == 3 && bits.getDimSize(2) == 1);
  if (!isOneBit || !isStorageType(bits.getElementType()) || bits.getDimSize(0) != batch ||
      bits.getDimSize(1) != positions ||
      getCounts().getType() != RankedTensorType::get({batch, positions}, i32) ||
      ends.getRank() != 2 || ends.getDimSize(0) != batch || ends.getElementType() != i32 ||
      getTotals().getType() != RankedTensorType::get({batch, 2}, i32)) {
    return emitOpError("D-028: expected one bit per row of ")
           << getDomain()
           << ", and of i32 a count per row, ends and two totals per batch row, found " << bits
           << ", " << getCounts().getType() << ", " << ends << " and " << getTotals().getType();
  }
  return success();
}
