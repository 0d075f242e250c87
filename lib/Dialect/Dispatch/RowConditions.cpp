// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds selects on the row's position. They are found in the body itself, so a pass that changes a
// select changes the accessed rows.
#include "sluice/Dialect/Dispatch/RowConditions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include <map>
#include <set>
#include <vector>

using namespace mlir;
using namespace sluice;
using namespace sluice::dispatch;

/// Returns the left operand of an op whose right one is a constant; null for other ops.
static Value matchConstant(Operation *op, int64_t &constant) {
  APInt value;
  if (!matchPattern(op->getOperand(1), m_ConstantInt(&value))) {
    return {};
  }
  constant = value.getSExtValue();
  return op->getOperand(0);
}

std::optional<RowCondition> dispatch::findRowCondition(Value condition) {
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  int64_t expected = 0;
  RowCondition result;
  Value number = compare && compare.getPredicate() == arith::CmpIPredicate::eq
                     ? matchConstant(compare, expected)
                     : Value();
  auto remainder = number ? number.getDefiningOp<arith::RemSIOp>() : arith::RemSIOp();
  number = remainder ? matchConstant(remainder, result.every) : Value();
  if (!number || expected != 0 || result.every < 2) {
    return std::nullopt;
  }
  if (auto sum = number.getDefiningOp<arith::AddIOp>()) {
    number = matchConstant(sum, result.ahead);
  }
  bool isPosition = number && number.getDefiningOp<PositionOp>() && result.ahead >= 0;
  return isPosition ? std::optional(result) : std::nullopt;
}

IntegerSet dispatch::getRows(MLIRContext *context, const RowCondition &condition) {
  AffineExpr remainder = (getAffineDimExpr(0, context) + condition.ahead) % condition.every;
  return IntegerSet::get(1, 0, {condition.isOff ? remainder - 1 : remainder}, {!condition.isOff});
}

namespace {
/// Walks from a value back to arguments, with the conditions of the selects on the way.
class UseFinder {
public:
  SmallVector<ArgumentUse> find(Value yielded);

private:
  using Conditions = SmallVector<RowCondition, 2>;
  static constexpr size_t mostConditions = 4; ///< others are ignored: each doubles the walk
  void visit(Value value, const Conditions &conditions);
  void pushChoice(Value value, const Conditions &conditions, RowCondition added);
  static IntegerSet buildRowSet(MLIRContext *context, const Conditions &conditions);

  SmallVector<std::pair<Value, Conditions>> pending;
  std::set<std::pair<const void *, const void *>> seen; ///< values, and sets of rows
  std::map<unsigned, std::vector<IntegerSet>> uses;     ///< rows, by argument
};
} // namespace

IntegerSet UseFinder::buildRowSet(MLIRContext *context, const Conditions &conditions) {
  SmallVector<AffineExpr> constraints;
  SmallVector<bool> equalities;
  for (const RowCondition &condition : conditions) {
    IntegerSet rows = dispatch::getRows(context, condition);
    constraints.append(rows.getConstraints().begin(), rows.getConstraints().end());
    equalities.append(rows.getEqFlags().begin(), rows.getEqFlags().end());
  }
  return constraints.empty() ? IntegerSet() : IntegerSet::get(1, 0, constraints, equalities);
}

/// Skips an operand that a condition on the path excludes.
void UseFinder::pushChoice(Value value, const Conditions &conditions, RowCondition added) {
  Conditions all = conditions;
  const auto *known = llvm::find_if(conditions, [&](const RowCondition &condition) {
    return condition.ahead == added.ahead && condition.every == added.every;
  });
  if (known != conditions.end() && known->isOff != added.isOff) {
    return;
  }
  if (known == conditions.end() && all.size() < mostConditions) {
    all.push_back(added);
  }
  pending.emplace_back(value, std::move(all));
}

void UseFinder::visit(Value value, const Conditions &conditions) {
  IntegerSet rows = buildRowSet(value.getContext(), conditions);
  if (!seen.insert({value.getAsOpaquePointer(), rows.getAsOpaquePointer()}).second) {
    return;
  }
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    uses[argument.getArgNumber()].push_back(rows);
    return;
  }
  auto select = value.getDefiningOp<arith::SelectOp>();
  std::optional<RowCondition> choice =
      select ? findRowCondition(select.getCondition()) : std::nullopt;
  if (choice) {
    pushChoice(select.getTrueValue(), conditions, *choice);
    choice->isOff = true;
    pushChoice(select.getFalseValue(), conditions, *choice);
    return;
  }
  for (Value operand : value.getDefiningOp()->getOperands()) {
    pending.emplace_back(operand, conditions);
  }
}

SmallVector<ArgumentUse> UseFinder::find(Value yielded) {
  pending.emplace_back(yielded, Conditions());
  while (!pending.empty()) {
    auto [value, conditions] = pending.pop_back_val();
    visit(value, conditions);
  }
  SmallVector<ArgumentUse> result;
  for (const auto &[argument, sets] : uses) {
    if (llvm::is_contained(sets, IntegerSet())) { // every row
      result.push_back({argument, {}});
      continue;
    }
    for (IntegerSet rows : sets) {
      result.push_back({argument, rows});
    }
  }
  return result;
}

SmallVector<ArgumentUse> dispatch::findArgumentUses(Value yielded) {
  return UseFinder().find(yielded);
}
