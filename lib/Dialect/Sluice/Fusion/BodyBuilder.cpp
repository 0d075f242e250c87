// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Access chains and the builder of dispatch bodies.
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace sluice;
using dispatch::AccessAttr;
using dispatch::AccessKind;

static AccessChain follow(AccessChain chain) {
  while (auto op = chain.root.getDefiningOp<FusionInterface>()) {
    if (op.getFusionRole() != FusionRole::Access) {
      break;
    }
    Value next = op.composeAccess(chain);
    if (!next) {
      break;
    }
    chain.root = next;
  }
  return chain;
}

AccessChain sluice::resolveAccess(Value value, RowGroup group) {
  MLIRContext *context = value.getContext();
  AffineExpr position = getAffineDimExpr(0, context) * group.factor + group.first;
  if (group.window > 1) {
    position = position + getAffineDimExpr(1, context);
  }
  return follow({value, position, getAffineConstantExpr(0, context), group.window});
}

AccessChain sluice::resolveMember(Value value, RowGroup group, int64_t member) {
  MLIRContext *context = value.getContext();
  return follow({value, getAffineDimExpr(0, context) * group.factor + group.first + member,
                 getAffineConstantExpr(0, context), 1});
}

bool sluice::readsWholeGroups(Value sequence, RowGroup group) {
  auto root = resolveAccess(sequence, group).root.getDefiningOp<FusionInterface>();
  return !root || root.getFusionRole() != FusionRole::Access;
}

RankedTensorType sluice::getStoredType(Operation *scope, SequenceType type) {
  SmallVector<int64_t> shape{getBatch(scope), getPositions(scope, type)};
  if (type.getWidth() > 0) {
    shape.push_back(type.getWidth());
  }
  return RankedTensorType::get(shape, type.getElement());
}

BodyBuilder::BodyBuilder(Operation *scope, Block &block, bool elementwise, Lowering lowered,
                         StringRef axis)
    : scope(scope), block(block), elementwise(elementwise), lowered(std::move(lowered)), axis(axis),
      b(scope->getLoc(), scope->getContext()) {
  b.setInsertionPointToEnd(&block);
}

/// Adds an operand and its body argument, or returns an existing one.
Value BodyBuilder::load(Value tensor, AccessAttr access, Type bodyType) {
  unsigned first = block.getNumArguments() - operandTensors.size();
  for (size_t i = 0; i < operandTensors.size(); ++i) {
    if (operandTensors[i] == tensor && operandAccesses[i] == access) {
      return block.getArgument(first + i);
    }
  }
  operandTensors.push_back(tensor);
  operandAccesses.push_back(access);
  return block.addArgument(bodyType, b.getLoc());
}

Value BodyBuilder::loadChain(const AccessChain &chain, int64_t width, FloatAttr outside) {
  int64_t group = chain.group;
  Value tensor = lowered(chain.root);
  if (!tensor) {
    return {};
  }
  auto root = cast<SequenceType>(chain.root.getType());
  Type type = dispatch::getBodyType(root.getElement());
  if (!elementwise && width > 0) {
    type = group > 1 ? RankedTensorType::get({group, width}, type)
                     : RankedTensorType::get({width}, type);
  }
  unsigned columnDims = chain.column.isFunctionOfDim(1) ? 2 : 1;
  auto access = AccessAttr::get(
      b.getContext(), AccessKind::Row, AffineMapAttr::get(AffineMap::get(2, 1, chain.position)),
      group, getDomainFactor(scope, root, axis),
      AffineMapAttr::get(AffineMap::get(columnDims, 0, chain.column)), -1, outside);
  return load(tensor, access, type);
}

static int64_t getRowWidth(Value sequence) {
  return cast<SequenceType>(sequence.getType()).getWidth();
}

Value BodyBuilder::get(Value sequence) {
  if (Value known = values.lookup(sequence)) {
    return known;
  }
  return values[sequence] = loadChain(resolveAccess(sequence), getRowWidth(sequence));
}

Value BodyBuilder::getGroup(Value sequence, RowGroup group, FloatAttr outside) {
  return loadChain(resolveAccess(sequence, group), getRowWidth(sequence), outside);
}

Value BodyBuilder::getMember(Value sequence, RowGroup group, int64_t member, FloatAttr outside) {
  return loadChain(resolveMember(sequence, group, member), getRowWidth(sequence), outside);
}

Value BodyBuilder::getStored(Value sequence, AffineExpr position, AffineExpr column, int64_t group,
                             int64_t width) {
  return loadChain({sequence, position, column, group}, width);
}

Value BodyBuilder::getVector(Value parameter) {
  auto type = cast<RankedTensorType>(parameter.getType());
  return load(lowered(parameter), AccessAttr::get(b.getContext(), AccessKind::Vector),
              elementwise ? type.getElementType() : Type(type));
}

Value BodyBuilder::getScalar(StringRef place, Type type) {
  OpBuilder outside(scope);
  type = type ? type : outside.getI64Type();
  Value tensor =
      plan::BindOp::create(outside, scope->getLoc(), RankedTensorType::get({}, type), place);
  return load(tensor, AccessAttr::get(b.getContext(), AccessKind::Scalar), type);
}

Value BodyBuilder::getInput(StringRef place, Value like) {
  auto sequence = cast<SequenceType>(like.getType());
  OpBuilder outside(scope);
  auto width = static_cast<int64_t>(sequence.getWidth());
  SmallVector<int64_t> shape{getBatch(scope), getPositions(scope, sequence)};
  Type row = sequence.getElement();
  if (width > 0) {
    shape.push_back(width);
    row = RankedTensorType::get({width}, row);
  }
  Value tensor = plan::BindOp::create(outside, scope->getLoc(),
                                      RankedTensorType::get(shape, sequence.getElement()), place);
  AffineMap own = AffineMap::get(2, 1, getAffineDimExpr(0, b.getContext()));
  return load(
      tensor,
      AccessAttr::get(b.getContext(), AccessKind::Row, own, 1, getDomainFactor(scope, sequence)),
      row);
}

Value BodyBuilder::getTableRow(Value table) {
  auto type = cast<RankedTensorType>(table.getType());
  return load(lowered(table), AccessAttr::get(b.getContext(), AccessKind::Table),
              RankedTensorType::get({type.getDimSize(1)}, type.getElementType()));
}

Value BodyBuilder::getGatheredRow(Value table, Value token) {
  auto type = cast<RankedTensorType>(table.getType());
  AccessAttr plain = AccessAttr::get(b.getContext(), AccessKind::Gather);
  auto access =
      AccessAttr::get(b.getContext(), AccessKind::Gather, plain.getMap(), 1, 0, plain.getColumn(),
                      cast<BlockArgument>(token).getArgNumber(), FloatAttr());
  return load(lowered(table), access,
              RankedTensorType::get({type.getDimSize(1)}, type.getElementType()));
}

Value BodyBuilder::splat(Value number, Type row) {
  return isa<RankedTensorType>(row)
             ? Value(tensor::SplatOp::create(b, cast<RankedTensorType>(row), number))
             : number;
}

Value BodyBuilder::constant(Type type, double value) {
  auto number = FloatAttr::get(getElementTypeOrSelf(type), value);
  if (auto shaped = dyn_cast<RankedTensorType>(type)) {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(shaped, number));
  }
  return arith::ConstantOp::create(b, number);
}

Value BodyBuilder::sum(Value row) {
  Type element = cast<RankedTensorType>(row.getType()).getElementType();
  return dispatch::ReduceOp::create(b, element, dispatch::ReduceKind::Add, row);
}

/// Returns the integers of a region that are the same for all columns of a row: its position, and
/// values computed from it.
static DenseSet<Value> numbersOfRow(Block &region) {
  DenseSet<Value> known;
  for (Operation &op : region.without_terminator()) {
    bool isWhole = op.getNumResults() == 1 && op.getResult(0).getType().isSignlessInteger();
    bool isMade = isWhole && llvm::any_of(op.getOperands(),
                                          [&](Value operand) { return known.contains(operand); });
    if (isMade || isa<dispatch::PositionOp>(op)) {
      known.insert(op.getResult(0));
    }
    for (Value operand : op.getOperands()) {
      if (isMade && operand.getDefiningOp<arith::ConstantOp>()) {
        known.insert(operand);
      }
    }
  }
  return known;
}

Value BodyBuilder::cloneScalar(Block &region, ValueRange arguments) {
  auto shape = arguments.empty() ? RankedTensorType()
                                 : dyn_cast<RankedTensorType>(arguments.front().getType());
  IRMapping mapping;
  mapping.map(region.getArguments(), arguments);
  DenseSet<Value> ofRow = shape ? numbersOfRow(region) : DenseSet<Value>();
  for (Operation &op : region.without_terminator()) {
    if (auto through = dyn_cast<dispatch::StraightThroughOp>(op)) {
      mapping.map(through.getResult(), mapping.lookup(through.getValue()));
      continue;
    }
    Operation *copy = b.clone(op, mapping);
    if (!shape || (op.getNumResults() == 1 && ofRow.contains(op.getResult(0)))) {
      continue;
    }
    for (Value result : copy->getResults()) {
      result.setType(shape.clone(result.getType()));
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(copy)) {
      auto type = cast<ShapedType>(constant.getType());
      constant.setValueAttr(DenseElementsAttr::get(type, constant.getValue()));
    }
  }
  return mapping.lookup(region.getTerminator()->getOperand(0));
}

std::pair<Value, Value> sluice::getListBounds(BodyBuilder &body, StringRef place, Value like,
                                              int64_t entries) {
  MLIRContext *context = body.b.getContext();
  Type i32 = IntegerType::get(context, 32);
  Value &tensor = body.lists[place];
  if (!tensor) {
    OpBuilder outside(body.scope);
    int64_t rows = getPositions(body.scope, cast<SequenceType>(like.getType()));
    tensor =
        plan::BindOp::create(outside, body.scope->getLoc(),
                             RankedTensorType::get({getBatch(body.scope), rows + entries}, i32),
                             givenPlace(body.scope, place));
  }
  AffineExpr p = getAffineDimExpr(0, context);
  auto loadEnd = [&](AffineExpr row) {
    auto access = AccessAttr::get(context, AccessKind::Row, AffineMap::get(2, 1, row), 1, 0);
    return body.load(tensor, access, i32);
  };
  Value first = loadEnd(p - 1); // 0 before the first row
  return {first, loadEnd(p)};
}

Value sluice::getListSum(BodyBuilder &body, StringRef place, Value sequence, int64_t entries,
                         Value weights) {
  Value tensor = body.lowered(sequence), factors = weights ? body.lowered(weights) : Value();
  if (!tensor || (weights && !factors)) {
    return {};
  }
  auto [first, end] = getListBounds(body, place, sequence, entries);
  MLIRContext *context = body.b.getContext();
  auto type = cast<SequenceType>(sequence.getType());
  int64_t factor = getDomainFactor(body.scope, type, body.axis);
  AffineExpr p = getAffineDimExpr(0, context);
  auto number = [](Value argument) -> int64_t {
    return argument ? int64_t(cast<BlockArgument>(argument).getArgNumber()) : -1;
  };
  Value own;
  if (factors) {
    auto access = AccessAttr::get(context, AccessKind::Row, AffineMap::get(2, 1, p), 1, factor);
    own = body.load(factors, access, Float32Type::get(context));
  }
  AffineMap entry = AffineMap::get(2, 1, p + getPositions(body.scope, type)),
            column = AffineMap::get(1, 0, getAffineConstantExpr(0, context));
  auto access = AccessAttr::get(context, AccessKind::Range, AffineMapAttr::get(entry), 1, factor,
                                AffineMapAttr::get(column), number(first), FloatAttr(), number(end),
                                /*extended=*/false, /*list=*/number(first), number(own),
                                dispatch::SoftmaxAttr());
  Type element = dispatch::getBodyType(type.getElement());
  return body.load(tensor, access,
                   type.getWidth() > 0 ? RankedTensorType::get({type.getWidth()}, element)
                                       : element);
}
