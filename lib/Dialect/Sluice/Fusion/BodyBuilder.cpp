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
  // Dispatches precede the terminator: a scalar that one of them stores is read after it.
  Block *dispatches = scope->getBlock();
  bool isStored = llvm::any_of(dispatches->getOps<plan::StoreOp>(),
                               [&](plan::StoreOp store) { return store.getPlace() == place; });
  OpBuilder outside(isStored ? dispatches->getTerminator() : scope);
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

namespace sluice {

/// Loads the host's lists of neighbours, and sums of the rows that they name or that are drawn.
class ListLoader {
public:
  ListLoader(BodyBuilder &body, StringRef place, Value like, int64_t entries)
      : body(body), type(cast<SequenceType>(like.getType())), context(body.b.getContext()),
        p(getAffineDimExpr(0, context)), lists(bindLists(place, entries)) {}

  /// Returns the entries [first, end) of the row's list.
  std::pair<Value, Value> loadBounds() {
    Value first = loadNumber(lists, p - 1, 0); // 0 before the first row
    return {first, loadNumber(lists, p, 0)};
  }
  /// Returns the number of rows that are drawn.
  Value countDrawn() { return loadDrawn(lists, -1, IntegerType::get(context, 32)); }
  /// Returns the sum of the rows of `sequence` that the row's list names or, if `isDrawn`, that are
  /// drawn, times their weights. Null if one of them is not stored.
  Value loadSum(Value sequence, Value weights, bool isDrawn) {
    Value tensor = body.lowered(sequence), factors = weights ? body.lowered(weights) : Value();
    if (!tensor || (weights && !factors)) {
      return {};
    }
    auto [first, end] = isDrawn ? std::pair<Value, Value>() : loadBounds();
    int64_t weight = factors ? getNumber(loadNumber(factors, p, getFactor())) : -1;
    if (isDrawn) {
      return loadDrawn(tensor, weight, getRowType());
    }
    int64_t list = getNumber(first);
    return loadRange(tensor, p + getPositions(body.scope, type), list, getNumber(end), list, weight,
                     /*drawn=*/-1, getRowType());
  }

private:
  static int64_t getNumber(Value argument) {
    return int64_t(cast<BlockArgument>(argument).getArgNumber());
  }
  int64_t getFactor() const { return getDomainFactor(body.scope, type, body.axis); }
  Type getRowType() const {
    Type element = dispatch::getBodyType(type.getElement());
    return type.getWidth() > 0 ? RankedTensorType::get({type.getWidth()}, element) : element;
  }
  Value bindLists(StringRef place, int64_t entries) {
    Value &tensor = body.lists[place];
    if (!tensor) {
      OpBuilder outside(body.scope);
      int64_t rows = getPositions(body.scope, type);
      auto shape =
          RankedTensorType::get({getBatch(body.scope), rows + entries}, outside.getI32Type());
      tensor =
          plan::BindOp::create(outside, body.scope->getLoc(), shape, givenPlace(body.scope, place));
    }
    return tensor;
  }
  Value loadNumber(Value tensor, AffineExpr row, int64_t factor) {
    auto access = AccessAttr::get(context, AccessKind::Row, AffineMap::get(2, 1, row), 1, factor);
    return body.load(tensor, access, cast<RankedTensorType>(tensor.getType()).getElementType());
  }
  Value loadDrawn(Value tensor, int64_t weight, Type result) {
    AffineExpr all = getAffineDimExpr(1, context) * getAffineSymbolExpr(0, context);
    int64_t key = getNumber(loadNumber(lists, p, getFactor()));
    return loadRange(tensor, all, -1, -1, -1, weight, key, result);
  }
  Value loadRange(Value tensor, AffineExpr bounds, int64_t first, int64_t last, int64_t list,
                  int64_t weight, int64_t drawn, Type result) {
    AffineMap column = AffineMap::get(1, 0, getAffineConstantExpr(0, context));
    auto access = AccessAttr::get(context, AccessKind::Range,
                                  AffineMapAttr::get(AffineMap::get(2, 1, bounds)), 1, getFactor(),
                                  AffineMapAttr::get(column), first, FloatAttr(), last,
                                  /*extended=*/false, list, weight, drawn, dispatch::SoftmaxAttr());
    return body.load(tensor, access, result);
  }

  BodyBuilder &body;
  SequenceType type;
  MLIRContext *context;
  AffineExpr p;
  Value lists;
};

} // namespace sluice

std::pair<Value, Value> sluice::getListBounds(BodyBuilder &body, StringRef place, Value like,
                                              int64_t entries) {
  return ListLoader(body, place, like, entries).loadBounds();
}

Value sluice::getListSum(BodyBuilder &body, StringRef place, Value sequence, int64_t entries,
                         Value weights) {
  return ListLoader(body, place, sequence, entries).loadSum(sequence, weights, /*isDrawn=*/false);
}

Value sluice::countDrawnRows(BodyBuilder &body, StringRef place, Value like) {
  return ListLoader(body, place, like, /*entries=*/0).countDrawn();
}

Value sluice::getDrawnSum(BodyBuilder &body, StringRef place, Value sequence, Value weights) {
  return ListLoader(body, place, sequence, /*entries=*/0)
      .loadSum(sequence, weights,
               /*isDrawn=*/true);
}
