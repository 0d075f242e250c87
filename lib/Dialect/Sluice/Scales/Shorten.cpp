// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements sluice.shorten, and the op for the gradient of its maximum.
#include "../Cost.h"
#include "../Reference/Reference.h"
#include "Windows.h"
#include "sluice/Dialect/Dispatch/Combiner.h"
#include "sluice/Dialect/Sluice/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;
using dispatch::getIdentityValue;
using dispatch::ReduceKind;
using dispatch::RowRead;

//===----------------------------------------------------------------------===//
// Positions, state, cost
//===----------------------------------------------------------------------===//

/// Verifies a mask: one number per row of the input's scale, stored.
static LogicalResult verifyMask(ShortenOp op) {
  auto mask = op.getMask() ? cast<SequenceType>(op.getMask().getType()) : SequenceType();
  if (!mask) {
    return success();
  }
  if (mask.getScale() != op.getInput().getType().getScale() || mask.getWidth() != 0 ||
      !isa<FloatType>(mask.getElement())) {
    return op.emitOpError("S-132: expected a mask of one number per row, f32 or bf16, on scale ")
           << op.getInput().getType().getScale() << ", found " << mask;
  }
  if (isLazy(op.getMask())) {
    return op.emitOpError(
        "S-133: expected a mask that is stored, found that of a map of positions");
  }
  return success();
}

LogicalResult ShortenOp::verify() {
  if (failed(facts::verifyWindow(*this, getRowGroup())) ||
      failed(
          facts::verifyScales(*this, getInput().getType(), getResult().getType(), getFactor())) ||
      failed(verifyMask(*this))) {
    return failure();
  }
  Type f32 = Float32Type::get(getContext());
  std::string fault = dispatch::findFault(getCombiner(), f32, getIdentityAttr());
  if (!fault.empty()) {
    return emitOpError("S-130: ") << fault;
  }
  if (getMean() && (!isSum() || getMask())) {
    return emitOpError("S-131: expected an average to be a sum of all rows, found ")
           << (isSum() ? "a mask" : "another combiner");
  }
  return success();
}

bool ShortenOp::isSum() { return dispatch::getReduceKind(getCombiner()) == ReduceKind::Add; }
bool ShortenOp::isMax() { return dispatch::isMaximum(getCombiner()); }
StringRef ShortenOp::getWord() {
  return getMean() ? "average" : isSum() ? "sum" : isMax() ? "max" : "combination";
}

static void buildNamed(OpBuilder &b, OperationState &state, ReduceKind kind, Region &combiner) {
  auto yield = [](OpBuilder &inner, Location loc, Value next) {
    YieldOp::create(inner, loc, next);
  };
  dispatch::buildCombiner(b, state.location, combiner, kind, b.getF32Type(), yield);
  auto identity = cast<FloatAttr>(dispatch::getIdentityValue(kind, b.getF32Type()));
  state.getOrAddProperties<ShortenOp::Properties>().identity = identity;
}

void ShortenOp::build(OpBuilder &b, OperationState &state, Type type, Value input, int64_t factor,
                      ReduceKind kind, int64_t window, bool mean) {
  state.addOperands(input);
  state.addTypes(type);
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.factor = b.getI64IntegerAttr(factor);
  properties.window = b.getI64IntegerAttr(window);
  properties.mean = mean ? b.getUnitAttr() : UnitAttr();
  buildNamed(b, state, kind, *state.addRegion());
}

/// Parses `average`, which may be omitted, `sum`, `max` or `combine identity NUMBER {region}`.
static ParseResult parseCombiner(OpAsmParser &parser, OperationState &state) {
  ShortenOp::Properties &properties = state.getOrAddProperties<ShortenOp::Properties>();
  Region &combiner = *state.addRegion();
  StringRef word = "average";
  if (failed(parser.parseOptionalKeyword(&word, {"average", "sum", "max", "combine"}))) {
    word = "average";
  }
  if (word == "combine") {
    Type f32 = parser.getBuilder().getF32Type();
    return failure(parser.parseKeyword("identity") ||
                   parser.parseAttribute(properties.identity, f32) || parser.parseRegion(combiner));
  }
  OpBuilder b(parser.getContext());
  properties.mean = word == "average" ? b.getUnitAttr() : UnitAttr();
  buildNamed(b, state, word == "max" ? ReduceKind::Max : ReduceKind::Add, combiner);
  return success();
}

/// Parses `%x factor 4 window 6 mask %bits max : ...`
ParseResult ShortenOp::parse(OpAsmParser &parser, OperationState &state) {
  Properties &properties = state.getOrAddProperties<Properties>();
  SmallVector<OpAsmParser::UnresolvedOperand, 2> operands(1);
  SMLoc place = parser.getCurrentLocation();
  Type i64 = parser.getBuilder().getI64Type();
  FunctionType type;
  if (parser.parseOperand(operands[0]) || parser.parseKeyword("factor") ||
      parser.parseAttribute(properties.factor, i64)) {
    return failure();
  }
  properties.window = parser.getBuilder().getI64IntegerAttr(0);
  if (succeeded(parser.parseOptionalKeyword("window")) &&
      parser.parseAttribute(properties.window, i64)) {
    return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("mask")) &&
      parser.parseOperand(operands.emplace_back())) {
    return failure();
  }
  if (parseCombiner(parser, state) || parser.parseOptionalAttrDict(state.attributes) ||
      parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), place, state.operands)) {
    return failure();
  }
  state.addTypes(type.getResults());
  return success();
}

void ShortenOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getInput() << " factor " << static_cast<int64_t>(getFactor());
  if (static_cast<int64_t>(getWindow()) != 0) {
    printer << " window " << static_cast<int64_t>(getWindow());
  }
  if (getMask()) {
    printer << " mask " << getMask();
  }
  std::optional<ReduceKind> kind = dispatch::getReduceKind(getCombiner());
  SmallVector<StringRef> written{"factor", "window", "identity"};
  if (kind && getIdentityAttr() == getIdentityValue(*kind, Float32Type::get(getContext()))) {
    written.push_back("mean");
    printer << (getMean() ? "" : *kind == ReduceKind::Add ? " sum" : " max");
  } else {
    printer << " combine identity ";
    printer.printAttributeWithoutType(getIdentityAttr());
    printer << ' ';
    printer.printRegion(getCombiner());
  }
  printer.printOptionalAttrDict((*this)->getAttrs(), written);
  printer << " : ";
  printer.printFunctionalType(*this);
}

std::optional<IntegerSet> ShortenOp::getRelation(unsigned) {
  return facts::buildRelation(getContext(), getRowGroup());
}

AffineExpr ShortenOp::getLatest(unsigned) {
  auto k = static_cast<int64_t>(getFactor());
  return getAffineDimExpr(0, getContext()) * k + (k - 1);
}

/// Per element: w - 1 combinations, and an average's division. The backward op of a maximum
/// compares again.
Cost ShortenOp::getCost() {
  auto window = static_cast<double>(getRowGroup().window);
  auto operations = static_cast<double>(dispatch::countOperations(getCombiner()));
  double each = (window - 1) * operations + (getMean() ? 1 : 0);
  bool keeps = !isSum();
  return facts::cost(*this, each * facts::elements(*this, getResult()),
                     keeps ? ValueRange(getInput()) : ValueRange());
}

LogicalResult ShortenMaxBackwardOp::verify() {
  SequenceType fine = getInput().getType(), coarse = getResult().getType();
  if (failed(facts::verifyWindow(*this, getRowGroup())) ||
      failed(facts::verifyScales(*this, fine, coarse, getFactor(), getRowGroup().window))) {
    return failure();
  }
  SequenceType gradient = getGradient().getType();
  if (gradient.getScale() != coarse.getScale() || gradient.getWidth() != fine.getWidth()) {
    return emitOpError("S-038: expected a gradient of ")
           << fine.getWidth() << " columns on scale " << coarse.getScale() << ", found "
           << gradient;
  }
  return success();
}

std::optional<SmallVector<RowRead>> ShortenMaxBackwardOp::getRowReads(unsigned) {
  AffineExpr p = getAffineDimExpr(0, getContext()), i = getAffineDimExpr(1, getContext());
  RowGroup rows = getRowGroup();
  RowRead group = RowRead::through(0, AffineMap::get(2, 1, p * rows.factor + rows.first + i));
  group.group = rows.window;
  return SmallVector<RowRead>{group, RowRead::itself(1, getContext())};
}

/// Per element of a group: comparisons for the maximum, for its first row, and for each column.
Cost ShortenMaxBackwardOp::getCost() {
  return facts::cost(*this, 3 * facts::elements(*this, getResult()));
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// Returns g / w. The division is on the coarse side: a map is defined only on valid positions, and
/// the adjoint of a shift accesses the upsampled gradient past the end of the fine scale.
static Value buildGradientShare(ShortenOp op, OpBuilder &b, Value gradient) {
  OpBuilder::InsertionGuard guard(b);
  Location loc = op.getLoc();
  auto scaled = MapOp::create(b, loc, gradient.getType(), ValueRange{gradient});
  Block &block = scaled.getBody().emplaceBlock();
  Value g = block.addArgument(b.getF32Type(), loc);
  b.setInsertionPointToStart(&block);
  Value share = arith::ConstantOp::create(
      b, loc, b.getF32FloatAttr(1.0f / static_cast<float>(op.getRowGroup().window)));
  YieldOp::create(b, loc, ValueRange{arith::MulFOp::create(b, loc, g, share)});
  return scaled.getResult();
}

/// If windows are an integer number of groups, all rows of a group are in the same windows,
/// starting with the group's own, so one sum serves all of them.
static Value sumOverWindows(ShortenOp op, OpBuilder &b, Value gradient) {
  RowGroup group = op.getRowGroup();
  int64_t count = group.window / group.factor;
  gradient = facts::withinLength(b, op.getLoc(), gradient);
  Value ahead = ShiftOp::create(b, op.getLoc(), gradient.getType(), gradient, 1 - count);
  Type type = group.factor == 1 ? op.getInput().getType() : gradient.getType();
  return ShortenOp::create(b, op.getLoc(), type, ahead, 1, ReduceKind::Add, count);
}

/// The adjoint of a sum is `upsample`, which is lazy, so that the adjoint of a shift may access
/// rows past the end.
static Value gradientOfSum(ShortenOp op, OpBuilder &b, Value gradient) {
  SequenceType type = op.getInput().getType();
  RowGroup group = op.getRowGroup();
  bool isApart = group.window != group.factor;
  Value coarse = op.getMean() ? buildGradientShare(op, b, gradient) : gradient;
  if (group.window % group.factor != 0) {
    return facts::unfoldWindows(b, op.getLoc(), type, coarse, group);
  }
  coarse = isApart ? sumOverWindows(op, b, coarse) : coarse;
  return isApart && group.factor == 1
             ? coarse
             : UpsampleOp::create(b, op.getLoc(), type, coarse, group.factor).getResult();
}

/// The gradient of a choice is `unfold` of groups that have the gradient at the chosen row; it is
/// lazy, too.
static Value gradientOfMax(ShortenOp op, OpBuilder &b, Value input, Value gradient) {
  auto type = cast<SequenceType>(input.getType());
  RowGroup group = op.getRowGroup();
  auto groups = SequenceType::get(b.getContext(), op.getResult().getType().getScale(),
                                  group.window * type.getWidth(), type.getElement());
  Value chosen = ShortenMaxBackwardOp::create(b, op.getLoc(), groups, input, gradient, group.factor,
                                              op.getWindow());
  return facts::unfoldWindows(b, op.getLoc(), type, chosen, group);
}

LogicalResult ShortenOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                       MutableArrayRef<Value> operands) {
  if (getMask()) {
    return emitError("S-134: the group of rows that this op combines has a mask, which has no "
                     "gradient yet; choose between the rows and the identity before, by a map");
  }
  if (!isSum() && !isMax()) {
    return emitError("S-135: the combiner of this group is neither a sum nor a maximum, and has no "
                     "gradient; it runs forward alone");
  }
  operands[0] = isSum() ? gradientOfSum(*this, b, results[0])
                        : gradientOfMax(*this, b, getInput(), results[0]);
  return success();
}

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

template <typename T> constexpr T leastNumber = -std::numeric_limits<T>::infinity();

/// Returns the first row i of window m whose number in column c is the maximum, and that number:
/// minus infinity if there is none, NaN if one of them is NaN.
template <typename T>
static std::pair<int64_t, T> greatest(const Evaluator<T> &evaluator, Value x, RowGroup group,
                                      int64_t b, int64_t m, int64_t c) {
  int64_t first = group.factor * m + group.first;
  std::pair<int64_t, T> found{0, evaluator.at(x, b, first, c, leastNumber<T>)};
  for (int64_t i = 1; i < group.window; ++i) {
    T number = evaluator.at(x, b, first + i, c, leastNumber<T>);
    if (number > found.second || std::isnan(number)) {
      found = {i, number};
    }
  }
  return found;
}

/// y[m] = x[k m + k - w + i], 0 <= i < w, combined in order, without rows outside the sequence or
/// the mask; divided by w for an average
template <typename T> static void evaluate(ShortenOp op, Evaluator<T> &evaluator) {
  RowGroup group = op.getRowGroup();
  const auto identity = static_cast<T>(op.getIdentity().convertToFloat());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t m) {
    std::vector<T> y(reference::getColumns(op.getResult()), identity);
    for (int64_t i = 0; i < group.window; ++i) {
      int64_t q = group.factor * m + group.first + i;
      bool isIn = !op.getMask() || evaluator.at(op.getMask(), b, q, 0) > T(0.5);
      for (size_t c = 0; isIn && c < y.size(); ++c) {
        Scalar<T> soFar{.real = y[c]},
            later{.real = evaluator.at(op.getInput(), b, q, c, identity)};
        y[c] = evaluateScalar<T>(op.getCombiner(), {soFar, later}, ScalarPlace{}).front().real;
      }
    }
    for (T &value : y) {
      value = op.getMean() ? value / static_cast<T>(group.window) : value;
      value = std::isinf(identity) && value == identity ? 0 : value;
    }
    return y;
  });
}

/// z[m, i d + c] = dy[m, c] if row i of window m is the first maximum
template <typename T> static void evaluate(ShortenMaxBackwardOp op, Evaluator<T> &evaluator) {
  int64_t width = reference::getColumns(op.getInput());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t m) {
    std::vector<T> z(reference::getColumns(op.getResult()));
    for (int64_t c = 0; c < width; ++c) {
      auto [i, number] = greatest(evaluator, op.getInput(), op.getRowGroup(), b, m, c);
      if (!std::isnan(number)) {
        z[i * width + c] = evaluator.at(op.getGradient(), b, m, c);
      }
    }
    return z;
  });
}

SLUICE_REFERENCE(ShortenOp)
SLUICE_REFERENCE(ShortenMaxBackwardOp)

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

bool ShortenMaxBackwardOp::yieldsGroup() { return true; }
RowGroup ShortenOp::getRowGroup() {
  return RowGroup::endingWithGroup(static_cast<int64_t>(getFactor()),
                                   static_cast<int64_t>(getWindow()));
}
RowGroup ShortenMaxBackwardOp::getRowGroup() {
  return RowGroup::endingWithGroup(static_cast<int64_t>(getFactor()),
                                   static_cast<int64_t>(getWindow()));
}

/// Returns the type of one row of a group tensor<k x d>.
static RankedTensorType computeRow(RankedTensorType group) {
  return RankedTensorType::get({group.getDimSize(1)}, group.getElementType());
}

static bool isFinite(FloatAttr number) { return number.getValue().isFinite(); }

/// Returns the value for rows outside the sequence; null for zeros.
static FloatAttr getOutsideValue(ShortenOp op) {
  FloatAttr identity = op.getIdentityAttr();
  return identity.getValue().isZero() ? FloatAttr() : identity;
}

/// Combines a group's rows one by one, each with its own access; returns null after a diagnostic.
static Value combineMembers(ShortenOp op, BodyBuilder &body) {
  RowGroup group = op.getRowGroup();
  ImplicitLocOpBuilder &b = body.builder();
  Value soFar;
  for (int64_t i = 0; i < group.window; ++i) {
    Value row =
        body.getMember(op.getInput(), group, i, op.getMask() ? FloatAttr() : getOutsideValue(op));
    Value bit = row && op.getMask() ? body.getMember(op.getMask(), group, i) : Value();
    if (!row || (op.getMask() && !bit)) {
      return {};
    }
    if (bit && !soFar) {
      soFar = body.constant(row.getType(), op.getIdentity().convertToDouble());
    }
    Value next = soFar ? body.cloneScalar(op.getCombiner().front(), ValueRange{soFar, row}) : row;
    if (bit) {
      Value isIn = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, bit,
                                         body.constant(bit.getType(), 0.5));
      next = arith::SelectOp::create(b, isIn, next, soFar);
    }
    soFar = next;
  }
  return soFar;
}

/// Combines a group's rows as a whole; returns null after a diagnostic.
static Value combineGroup(ShortenOp op, BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  Value rows = body.getGroup(op.getInput(), op.getRowGroup(), getOutsideValue(op));
  if (!rows) {
    return {};
  }
  RankedTensorType row = computeRow(cast<RankedTensorType>(rows.getType()));
  auto combined = dispatch::ReduceGroupOp::create(b, row, rows, op.getIdentityAttr());
  IRMapping mapping;
  op.getCombiner().cloneInto(&combined.getCombiner(), mapping);
  Operation *yield = combined.getCombiner().front().getTerminator();
  OpBuilder inner(yield);
  dispatch::YieldOp::create(inner, yield->getLoc(), yield->getOperands());
  yield->erase();
  return combined;
}

/// Returns a group's rows, minus infinity for missing ones; null after a diagnostic.
static Value groupForMax(Operation *op, Value input, RowGroup group, BodyBuilder &body) {
  if (!readsWholeGroups(input, group)) {
    op->emitOpError("S-048: expected a layer or a norm between an unfold and the maximum of its "
                    "groups, found none");
    return {};
  }
  Type f32 = body.builder().getF32Type();
  return body.getGroup(input, group, cast<FloatAttr>(getIdentityValue(ReduceKind::Max, f32)));
}

static Value combined(ShortenOp op, BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  bool isOne = op.getRowGroup().window == 1; // a single row, not a group
  bool isWhole = !isOne && !op.getMask() && readsWholeGroups(op.getInput(), op.getRowGroup());
  if (op.isMax() && !op.getMask() && !isWhole && !isOne) {
    return groupForMax(op, op.getInput(), op.getRowGroup(), body);
  }
  Value found = isWhole ? combineGroup(op, body) : combineMembers(op, body);
  if (!found || isFinite(op.getIdentityAttr())) {
    return found;
  }
  Value identity = body.constant(found.getType(), op.getIdentity().convertToDouble());
  Value isNone = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, found, identity);
  return arith::SelectOp::create(b, isNone, body.constant(found.getType(), 0), found);
}

LogicalResult ShortenOp::emitBody(BodyBuilder &body) {
  if (getInput().getType().getWidth() == 0) {
    return emitOpError("S-053: expected rows of columns, found one number per row");
  }
  Value row = combined(*this, body);
  if (!row) {
    return failure();
  }
  if (getMean()) {
    Value share = body.constant(row.getType(), 1.0 / static_cast<double>(getRowGroup().window));
    row = arith::MulFOp::create(body.builder(), row, share);
  }
  body.set(getResult(), row);
  return success();
}

/// Marks the first row at which `rows` has its maximum: one boolean per element of the group. The
/// column numbers i d + c grow with the row i, so the first maximum has the largest negated number.
static Value firstOfGreatest(ImplicitLocOpBuilder &b, Value rows) {
  auto group = cast<RankedTensorType>(rows.getType());
  auto places = group.clone(b.getI32Type());
  auto number = [&](int64_t value) {
    return arith::ConstantOp::create(b,
                                     DenseElementsAttr::get(places, static_cast<int32_t>(value)));
  };
  auto reachedBy = [&](Value values) {
    auto type = cast<RankedTensorType>(values.getType());
    Value found = dispatch::ReduceGroupOp::create(b, computeRow(type), ReduceKind::Max, values);
    return dispatch::SpreadOp::create(b, type, found);
  };
  Value isGreatest = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rows, reachedBy(rows));
  Value column = dispatch::ColumnOp::create(b, places);
  Value place = arith::SubIOp::create(b, number(0), column);
  Value candidates = arith::SelectOp::create(b, isGreatest, place, number(-group.getNumElements()));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, place, reachedBy(candidates));
}

LogicalResult ShortenMaxBackwardOp::emitBody(BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  if (getRowGroup().window == 1) { // one row is the maximum
    body.set(getResult(), body.get(getGradient()));
    return success();
  }
  Value rows = groupForMax(*this, getInput(), getRowGroup(), body);
  Value gradient = rows ? body.get(getGradient()) : Value();
  if (!gradient) {
    return failure();
  }
  Value everywhere = dispatch::SpreadOp::create(b, rows.getType(), gradient);
  body.set(getResult(), arith::SelectOp::create(b, firstOfGreatest(b, rows), everywhere,
                                                body.constant(rows.getType(), 0)));
  return success();
}
