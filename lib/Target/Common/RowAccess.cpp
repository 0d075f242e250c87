// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of memory that the operands of a row kernel read, and its total work.
#include "RowAccess.h"

#include "RowSchedule.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "sluice/Dialect/Dispatch/Combiner.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::target;
using dispatch::AccessAttr;
using dispatch::AccessKind;

AccessAttr target::getTensorAccess(dispatch::RowsOp op, unsigned tensor) {
  unsigned operands = op.getInputs().size();
  return cast<AccessAttr>(tensor < operands ? op.getAccesses()[tensor]
                                            : op.getResultAccesses()[tensor - operands]);
}

RankedTensorType target::getTensorType(dispatch::RowsOp op, unsigned tensor) {
  unsigned operands = op.getInputs().size();
  Value value = tensor < operands ? op.getInputs()[tensor] : op.getOutputs()[tensor - operands];
  return cast<RankedTensorType>(value.getType());
}

AccessKind target::getResultKind(dispatch::RowsOp op, unsigned i) {
  return cast<AccessAttr>(op.getResultAccesses()[i]).getKind();
}

dispatch::YieldOp target::getYield(dispatch::RowsOp op) {
  return cast<dispatch::YieldOp>(op.getBody().front().getTerminator());
}

FailureOr<int64_t> target::computeSumParts(dispatch::RowsOp op) {
  int64_t parts = 0;
  for (unsigned i = op.getInputs().size(); i < op.getInputs().size() + op.getOutputs().size();
       ++i) {
    if (getTensorAccess(op, i).getKind() != AccessKind::Columns) {
      continue;
    }
    int64_t found = getTensorType(op, i).getDimSize(0);
    if (parts != 0 && parts != found) {
      return op.emitOpError("R-004: expected all column sums to have ")
             << parts << " parts, found " << found;
    }
    parts = found;
  }
  return parts;
}

Value target::emitMappedPosition(ImplicitLocOpBuilder &b, AccessAttr access, Value value,
                                 Value member, Value valid) {
  AffineMap map = access.getMap().getValue();
  SmallVector<Value> symbols(map.getNumSymbols(), valid);
  return affine::expandAffineExpr(b, b.getLoc(), map.getResult(0), {value, member}, symbols);
}

/// Returns the minimum and maximum of an index expression over [0, positions) x [0, group); none if
/// it depends on anything else.
static std::optional<std::pair<int64_t, int64_t>> computeBounds(AffineExpr expr, int64_t positions,
                                                                int64_t group) {
  using Bounds = std::optional<std::pair<int64_t, int64_t>>;
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    return Bounds({constant.getValue(), constant.getValue()});
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    return Bounds({0, (dim.getPosition() == 0 ? positions : group) - 1});
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary) {
    return std::nullopt;
  }
  Bounds left = computeBounds(binary.getLHS(), positions, group);
  Bounds right = computeBounds(binary.getRHS(), positions, group);
  if (!left || !right) {
    return std::nullopt;
  }
  if (expr.getKind() == AffineExprKind::Add) {
    return Bounds({left->first + right->first, left->second + right->second});
  }
  auto factor = dyn_cast<AffineConstantExpr>(binary.getRHS());
  bool isMul = expr.getKind() == AffineExprKind::Mul;
  if (!factor || (factor.getValue() <= 0 && !isMul)) {
    return std::nullopt;
  }
  int64_t k = factor.getValue();
  if (k < 0) {
    return Bounds({left->second * k, left->first * k});
  }
  switch (expr.getKind()) {
  case AffineExprKind::Mul:
    return Bounds({left->first * k, left->second * k});
  case AffineExprKind::FloorDiv:
    return Bounds(
        {llvm::divideFloorSigned(left->first, k), llvm::divideFloorSigned(left->second, k)});
  case AffineExprKind::Mod:
    return Bounds({0, k - 1});
  default:
    return std::nullopt;
  }
}

bool target::alwaysInside(dispatch::RowsOp op, AccessAttr access, int64_t extent) {
  AffineExpr expr = access.getMap().getValue().getResult(0);
  dispatch::DomainAttr domain = op.getDomain();
  if (access.getSourceFactor() != 0) {
    // A valid row's own position is valid in a source of the same scale.
    return access.getSourceFactor() == domain.getFactor() &&
           expr == getAffineDimExpr(0, expr.getContext());
  }
  if (domain.getScheduled() && expr.isFunctionOfDim(0)) {
    return false;
  }
  auto bounds = computeBounds(expr, domain.getPositions(), access.getGroup());
  return bounds && bounds->first >= 0 && bounds->second < extent;
}

bool target::isEndless(dispatch::RowsOp op, AccessAttr access) {
  return op.getDomain().getScheduled() && access.getSourceFactor() == 0;
}

bool target::isOfSequence(dispatch::RowsOp op, unsigned i) {
  auto type = cast<RankedTensorType>(op.getInputs()[i].getType());
  return type.getRank() == 3 || !isRow(op.getBody().getArgument(i));
}

Value target::goesOn(ImplicitLocOpBuilder &b, Value position) {
  Type i32 = b.getI32Type();
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value precedes = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, position, zero);
  Value greatest =
      arith::ConstantOp::create(b, b.getIntegerAttr(i32, std::numeric_limits<int32_t>::max()));
  return arith::SelectOp::create(b, precedes, arith::IndexCastOp::create(b, i32, position),
                                 greatest);
}

bool target::mayPrecedeColumns(dispatch::RowsOp op, AccessAttr access) {
  auto bounds = computeBounds(access.getColumn().getValue().getResult(0),
                              op.getDomain().getPositions(), access.getGroup());
  return !bounds || bounds->first < 0;
}

bool target::readsOutsideColumns(dispatch::RowsOp op, unsigned i) {
  AccessAttr access = getTensorAccess(op, i);
  RankedTensorType type = getTensorType(op, i);
  Value argument = i < op.getInputs().size() ? op.getBody().getArgument(i) : Value();
  AffineMap column = access.getColumn().getValue();
  if (!argument || !isRow(argument) || !access.getOutside() || access.getGroup() != 1 ||
      access.getKind() != AccessKind::Row || type.getRank() != 3 || !column.isSingleConstant()) {
    return false;
  }
  int64_t first = column.getSingleConstantResult();
  return first < 0 || first + getRowWidth(argument) > type.getDimSize(2);
}

Value target::sequenceRow(ImplicitLocOpBuilder &b, dispatch::DomainAttr domain, int64_t extent,
                          Value batch, Value position) {
  if (domain.getScheduled()) {
    return ringRow(b, extent, batch, position);
  }
  Value first = arith::MulIOp::create(b, batch, arith::ConstantIndexOp::create(b, extent));
  return arith::AddIOp::create(b, first, position);
}

Value target::ringRow(ImplicitLocOpBuilder &b, int64_t extent, Value batch, Value position) {
  Value rows = arith::ConstantIndexOp::create(b, extent);
  Value first = arith::MulIOp::create(b, batch, rows);
  return arith::AddIOp::create(b, first, arith::RemUIOp::create(b, position, rows));
}

/// Returns a lower bound on the bytes of one operand or result: its size, or only the rows that the
/// launch can touch.
static double countBytes(RankedTensorType type, AccessAttr access, dispatch::DomainAttr domain) {
  double elements = type.getNumElements();
  auto launchRows = domain.getLaunchRows();
  if (domain.getScheduled() && access.getKind() == AccessKind::Row) {
    int64_t width = type.getRank() == 3 ? type.getShape().back() : 1;
    elements = std::min<double>(elements, double(launchRows * access.getGroup() * width));
  }
  if (access.getKind() == AccessKind::Gather) {
    // Counts a gathered element as a row, because ends are few.
    elements = std::min<double>(elements, double(launchRows) * type.getShape().back());
  }
  return elements * type.getElementTypeBitWidth() / 8;
}

/// Returns the additions of a range, at most one per row of the source or entry of the list, and
/// the products with its weights.
static double countRange(dispatch::RowsOp op, RankedTensorType type, AccessAttr access) {
  if (access.getKind() != AccessKind::Range) {
    return 0;
  }
  int64_t width = type.getRank() == 3 ? type.getShape().back() : 1;
  double products = access.getWeight() >= 0 || access.getSoftmax() ? 2 : 1;
  if (access.isDrawn()) { // half of all rows
    return double(op.getDomain().getPositions() * type.getNumElements()) / 2 * products;
  }
  if (!access.isListed()) {
    return double(type.getNumElements()) * products;
  }
  auto list = cast<RankedTensorType>(op.getInputs()[unsigned(access.getList())].getType());
  return double(list.getNumElements() * width) * products;
}

Work target::computeWork(dispatch::RowsOp op) {
  Work work;
  int64_t launchRows = op.getDomain().getLaunchRows();
  bool sequence = false;
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    auto type = cast<RankedTensorType>(input.getType());
    auto access = cast<AccessAttr>(op.getAccesses()[i]);
    work.bytes += countBytes(type, access, op.getDomain());
    work.flops += countRange(op, type, access);
    sequence |= type.getRank() == 3;
  }
  for (auto [i, output] : llvm::enumerate(op.getOutputs())) {
    auto type = cast<RankedTensorType>(output.getType());
    auto access = cast<AccessAttr>(op.getResultAccesses()[i]);
    work.bytes += countBytes(type, access, op.getDomain());
    sequence |= type.getRank() == 3;
  }
  for (Operation &inner : op.getBody().front().without_terminator()) {
    Type widest =
        inner.getNumOperands() ? inner.getOperand(0).getType() : inner.getResult(0).getType();
    bool floats = isa<FloatType>(getElementTypeOrSelf(inner.getResult(0).getType()));
    bool counted =
        isa<dispatch::ReduceOp, dispatch::ReduceGroupOp>(inner) ||
        (floats && OpTrait::hasElementwiseMappableTraits(&inner) && !isa<arith::SelectOp>(inner));
    if (counted) {
      auto tensor = dyn_cast<RankedTensorType>(widest);
      auto group = dyn_cast<dispatch::ReduceGroupOp>(inner);
      int64_t each = group ? dispatch::countOperations(group.getCombiner()) : 1;
      work.flops += double(launchRows) * double((tensor ? tensor.getNumElements() : 1) * each);
    }
  }
  work.kind = sequence ? "row" : "stream";
  return work;
}
