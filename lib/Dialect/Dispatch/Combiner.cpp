// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Combiners of groups: their kinds, their requirements, and the op of dispatches that has one.
#include "sluice/Dialect/Dispatch/Combiner.h"
#include "sluice/Dialect/Dispatch/ScalarOps.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::dispatch;

//===----------------------------------------------------------------------===//
// Kinds
//===----------------------------------------------------------------------===//

/// A later row replaces the result if it is greater or NaN: among equal rows the first one wins.
static Value buildMaximum(OpBuilder &b, Location loc, Value soFar, Value later) {
  if (!isa<FloatType>(soFar.getType())) {
    return arith::MaxSIOp::create(b, loc, soFar, later);
  }
  Value greater = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, later, soFar);
  Value unknown = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, later, later);
  Value takes = arith::OrIOp::create(b, loc, greater, unknown);
  return arith::SelectOp::create(b, loc, takes, later, soFar);
}

void dispatch::buildCombiner(OpBuilder &b, Location loc, Region &combiner, ReduceKind kind,
                             Type element, YieldBuilder yield) {
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&combiner, {}, {element, element}, {loc, loc});
  Value soFar = block->getArgument(0), later = block->getArgument(1), next;
  if (kind == ReduceKind::Max) {
    next = buildMaximum(b, loc, soFar, later);
  } else if (isa<FloatType>(element)) {
    next = arith::AddFOp::create(b, loc, soFar, later);
  } else {
    next = arith::AddIOp::create(b, loc, soFar, later);
  }
  yield(b, loc, next);
}

TypedAttr dispatch::getIdentityValue(ReduceKind kind, Type element) {
  if (auto floats = dyn_cast<FloatType>(element)) {
    const llvm::fltSemantics &semantics = floats.getFloatSemantics();
    return FloatAttr::get(element, kind == ReduceKind::Max ? APFloat::getInf(semantics, true)
                                                           : APFloat::getZero(semantics));
  }
  unsigned bits = element.getIntOrFloatBitWidth();
  return IntegerAttr::get(element, kind == ReduceKind::Max ? APInt::getSignedMinValue(bits)
                                                           : APInt::getZero(bits));
}

static bool isKind(Operation *op, Value left, Value right) {
  return op->getOperand(0) == left && op->getOperand(1) == right;
}

static bool isGreatest(Block &block) {
  Value soFar = block.getArgument(0), later = block.getArgument(1);
  auto select = block.getTerminator()->getOperand(0).getDefiningOp<arith::SelectOp>();
  auto takes = select ? select.getCondition().getDefiningOp<arith::OrIOp>() : arith::OrIOp();
  if (!takes || select.getTrueValue() != later || select.getFalseValue() != soFar) {
    return false;
  }
  auto greater = takes.getLhs().getDefiningOp<arith::CmpFOp>();
  auto unknown = takes.getRhs().getDefiningOp<arith::CmpFOp>();
  return greater && unknown && greater.getPredicate() == arith::CmpFPredicate::OGT &&
         isKind(greater, later, soFar) && unknown.getPredicate() == arith::CmpFPredicate::UNO &&
         isKind(unknown, later, later);
}

std::optional<ReduceKind> dispatch::getReduceKind(Region &combiner) {
  Block &block = combiner.front();
  size_t count = block.getOperations().size() - 1;
  Operation *last = block.getTerminator()->getOperand(0).getDefiningOp();
  Value soFar = block.getArgument(0), later = block.getArgument(1);
  if (count == 1 && last && last->getNumOperands() == 2 && isKind(last, soFar, later)) {
    if (isa<arith::AddFOp, arith::AddIOp>(last)) {
      return ReduceKind::Add;
    }
    if (isa<arith::MaxSIOp>(last)) {
      return ReduceKind::Max;
    }
  }
  return count == 4 && isGreatest(block) ? std::optional(ReduceKind::Max) : std::nullopt;
}

bool dispatch::isMaximum(Region &combiner) {
  Block &block = combiner.front();
  Value next = block.getTerminator()->getOperand(0);
  auto whole = next.getDefiningOp<arith::MaximumFOp>();
  return getReduceKind(combiner) == ReduceKind::Max ||
         (whole && isKind(whole, block.getArgument(0), block.getArgument(1)));
}

int64_t dispatch::countOperations(Region &combiner) {
  if (getReduceKind(combiner)) {
    return 1;
  }
  return llvm::count_if(combiner.front().without_terminator(), [](Operation &op) {
    return !isa<arith::ConstantOp, arith::CmpFOp, arith::SelectOp>(op);
  });
}

//===----------------------------------------------------------------------===//
// Requirements
//===----------------------------------------------------------------------===//

static std::string spell(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// Returns the result of a combiner of known ops for two numbers.
static scalar::Scalar<double> combine(Region &combiner, scalar::Scalar<double> soFar,
                                      scalar::Scalar<double> later) {
  llvm::SmallDenseMap<Value, scalar::Scalar<double>> values;
  values[combiner.getArgument(0)] = soFar;
  values[combiner.getArgument(1)] = later;
  for (Operation &op : combiner.front().without_terminator()) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      values[op.getResult(0)] = scalar::getConstantValue<double>(constant.getValue());
      continue;
    }
    SmallVector<scalar::Scalar<double>> operands;
    for (Value operand : op.getOperands()) {
      operands.push_back(values.lookup(operand));
    }
    values[op.getResult(0)] = scalar::getScalarRule<double>(op)(op, operands);
  }
  return values.lookup(combiner.front().getTerminator()->getOperand(0));
}

static std::string findUnknown(Region &combiner) {
  for (Operation &op : combiner.front().without_terminator()) {
    bool isConstant = isa<arith::ConstantOp>(op) && op.getResult(0).getType().isIntOrFloat();
    bool isKnown = isConstant || (op.getNumResults() == 1 && op.getNumRegions() == 0 &&
                                  OpTrait::hasElementwiseMappableTraits(&op) &&
                                  scalar::getScalarRule<double>(op));
    if (!isKnown) {
      return "expected elementwise arith and math in a combiner, found " +
             op.getName().getStringRef().str();
    }
  }
  return "";
}

/// Finds a number that the combiner changes when it is combined with the identity, on either side,
/// because skipped rows count as the identity.
static std::string findChanged(Region &combiner, Type element, TypedAttr identity) {
  bool isFloat = isa<FloatType>(element);
  scalar::Scalar<double> alone = scalar::getConstantValue<double>(identity);
  auto toDouble = [&](scalar::Scalar<double> x) { return isFloat ? x.real : double(x.integer); };
  for (double x : {1.0, -2.5, 0.75, 0.0, 3.0}) {
    scalar::Scalar<double> number{.real = x, .integer = int64_t(x)};
    for (bool isFirst : {true, false}) {
      double found =
          toDouble(isFirst ? combine(combiner, alone, number) : combine(combiner, number, alone));
      if (!(std::abs(found - toDouble(number)) <= 1e-6)) {
        std::string text;
        llvm::raw_string_ostream(text)
            << "expected an identity that the combiner leaves alone on either side, found "
            << identity << ", which makes " << llvm::format("%g", found) << " of "
            << llvm::format("%g", toDouble(number));
        return text;
      }
    }
  }
  return "";
}

std::string dispatch::findFault(Region &combiner, Type element, TypedAttr identity) {
  Block &block = combiner.front();
  bool fits = block.getNumArguments() == 2 && !block.empty() &&
              block.back().hasTrait<OpTrait::IsTerminator>() &&
              block.back().getNumOperands() == 1 &&
              block.back().getOperand(0).getType() == element &&
              llvm::all_of(block.getArgumentTypes(), [&](Type type) { return type == element; });
  if (!fits || !element.isIntOrFloat()) {
    std::string text = "expected a combiner of two numbers of " + spell(element) +
                       " that yields one, found one of (";
    llvm::interleave(
        block.getArgumentTypes(), [&](Type type) { text += spell(type); }, [&] { text += ", "; });
    return text + ")";
  }
  if (identity.getType() != element) {
    return "expected an identity of " + spell(element) + ", found one of " +
           spell(identity.getType());
  }
  if (auto number = dyn_cast<FloatAttr>(identity)) {
    APFloat narrow = number.getValue();
    bool loses = false;
    narrow.convert(APFloat::BFloat(), APFloat::rmNearestTiesToEven, &loses);
    if (loses || narrow.isNaN()) {
      std::string text;
      llvm::raw_string_ostream(text)
          << "expected an identity that bf16 holds too, found " << identity;
      return text;
    }
  }
  std::string unknown = findUnknown(combiner);
  return unknown.empty() ? findChanged(combiner, element, identity) : unknown;
}

//===----------------------------------------------------------------------===//
// dispatch.reduce_group
//===----------------------------------------------------------------------===//

static void buildNamed(OpBuilder &b, OperationState &state, ReduceKind kind, Type element,
                       Region &combiner) {
  auto yield = [](OpBuilder &inner, Location loc, Value next) {
    YieldOp::create(inner, loc, next);
  };
  buildCombiner(b, state.location, combiner, kind, element, yield);
  state.getOrAddProperties<ReduceGroupOp::Properties>().identity = getIdentityValue(kind, element);
}

void ReduceGroupOp::build(OpBuilder &b, OperationState &state, Type type, ReduceKind kind,
                          Value rows) {
  state.addOperands(rows);
  state.addTypes(type);
  buildNamed(b, state, kind, getElementTypeOrSelf(rows.getType()), *state.addRegion());
}

/// Parses `add %rows`, `max %rows` or `combine %rows identity NUMBER {region}`, then `: type ->
/// type`.
ParseResult ReduceGroupOp::parse(OpAsmParser &parser, OperationState &state) {
  StringRef word;
  SMLoc place = parser.getCurrentLocation();
  OpAsmParser::UnresolvedOperand rows;
  Type from, to;
  Region &combiner = *state.addRegion();
  if (parser.parseKeyword(&word) || parser.parseOperand(rows)) {
    return failure();
  }
  std::optional<ReduceKind> kind = symbolizeReduceKind(word);
  if (!kind && word != "combine") {
    return parser.emitError(place, "expected add, max or combine, found ") << word;
  }
  if (!kind) {
    TypedAttr &identity = state.getOrAddProperties<Properties>().identity;
    if (parser.parseKeyword("identity") || parser.parseAttribute(identity) ||
        parser.parseRegion(combiner)) {
      return failure();
    }
  }
  if (parser.parseOptionalAttrDict(state.attributes) || parser.parseColonType(from) ||
      parser.parseArrow() || parser.parseType(to) ||
      parser.resolveOperand(rows, from, state.operands)) {
    return failure();
  }
  Type element = getElementTypeOrSelf(from);
  if (kind && !element.isIntOrFloat()) {
    return parser.emitError(place, "expected rows of numbers, found ") << from;
  }
  if (kind) {
    OpBuilder b(parser.getContext());
    buildNamed(b, state, *kind, element, combiner);
  }
  state.addTypes(to);
  return success();
}

void ReduceGroupOp::print(OpAsmPrinter &printer) {
  std::optional<ReduceKind> kind = getReduceKind(getCombiner());
  if (kind && getIdentity() == getIdentityValue(*kind, getElementTypeOrSelf(getRows().getType()))) {
    printer << ' ' << stringifyReduceKind(*kind) << ' ' << getRows();
  } else {
    printer << " combine " << getRows() << " identity " << getIdentity() << ' ';
    printer.printRegion(getCombiner());
  }
  printer.printOptionalAttrDict((*this)->getAttrs(), {"identity"});
  printer << " : " << getRows().getType() << " -> " << getResult().getType();
}
