// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that generation samples from the scored computation: @predict and @evaluate are compared
// op by op.
#include "sluice/Proof/Alignment.h"
#include "mlir/IR/OperationSupport.h"
#include "sluice/Proof/Losses.h"

using namespace mlir;
using namespace sluice;

namespace {

/// Pairs of values, one of each function, that are the same computation of the functions'
/// arguments.
class Counterparts {
public:
  Counterparts(func::FuncOp left, func::FuncOp right) {
    for (auto [x, y] : llvm::zip(left.getArguments(), right.getArguments())) {
      known[x] = y;
    }
  }

  /// Walks both graphs at once, without recursion: models may be thousands of ops deep.
  bool match(Value x, Value y) {
    SmallVector<std::pair<Value, Value>> open{{x, y}};
    while (!open.empty()) {
      auto [left, right] = open.pop_back_val();
      auto [entry, isNew] = known.try_emplace(left, right);
      if (!isNew) {
        if (entry->second != right) {
          return false;
        }
        continue;
      }
      if (!sameOp(left, right)) {
        return false;
      }
      for (auto [x, y] : llvm::zip_equal(left.getDefiningOp()->getOperands(),
                                         right.getDefiningOp()->getOperands())) {
        open.emplace_back(x, y);
      }
    }
    return true;
  }

private:
  static bool sameOp(Value left, Value right) {
    Operation *x = left.getDefiningOp(), *y = right.getDefiningOp();
    constexpr auto flags = OperationEquivalence::IgnoreLocations;
    // Compares values of a body; match() compares operands.
    return x && y &&
           cast<OpResult>(left).getResultNumber() == cast<OpResult>(right).getResultNumber() &&
           OperationEquivalence::isEquivalentTo(x, y, OperationEquivalence::ignoreValueEquivalence,
                                                nullptr, flags) &&
           llvm::all_of(llvm::zip_equal(x->getRegions(), y->getRegions()), [](auto bodies) {
             auto [body, other] = bodies;
             return OperationEquivalence::isRegionEquivalentTo(&body, &other, flags);
           });
  }

  DenseMap<Value, Value> known;
};

/// The head of generation: a linear map of the last row.
struct SampledHead {
  LinearOp linear;
  LastOp last;
};

} // namespace

static std::optional<SampledHead> findHead(func::FuncOp predict) {
  Operation *terminator = predict.getBody().front().getTerminator();
  auto linear = terminator->getNumOperands() == 1
                    ? terminator->getOperand(0).getDefiningOp<LinearOp>()
                    : LinearOp();
  auto last = linear ? linear.getInput().getDefiningOp<LastOp>() : LastOp();
  return last ? std::optional(SampledHead{linear, last}) : std::nullopt;
}

static bool scores(CrossEntropyOp loss, SampledHead head, func::FuncOp evaluate,
                   func::FuncOp predict) {
  if (!loss.getBias() != !head.linear.getBias()) {
    return false;
  }
  Counterparts pairs(evaluate, predict);
  return pairs.match(loss.getInput(), head.last.getInput()) &&
         pairs.match(loss.getWeight(), head.linear.getWeight()) &&
         (!loss.getBias() || pairs.match(loss.getBias(), head.linear.getBias()));
}

Alignment sluice::checkAlignment(func::FuncOp evaluate, func::FuncOp predict) {
  std::optional<SampledHead> head = findHead(predict);
  if (!head) {
    return {Alignment::OtherPrediction, predict, 0};
  }
  Alignment found{Alignment::OtherPrediction, head->linear, 0};
  for (CrossEntropyOp loss : getLossOps(evaluate)) {
    if (!scores(loss, *head, evaluate, predict)) {
      continue;
    }
    // Generation continues the first argument, whatever the others are.
    if (loss.getTokens() != evaluate.getArgument(0)) {
      return {Alignment::OtherPrediction, loss, 0};
    }
    auto offset = static_cast<int64_t>(loss.getOffset());
    if (offset != 1) {
      return {Alignment::OtherTarget, loss, offset};
    }
    found = {Alignment::Aligned, loss, offset};
  }
  return found;
}

static FlatSymbolRefAttr getHead(CrossEntropyOp loss) {
  auto read = loss.getWeight().getDefiningOp<ReadOp>();
  return read ? read.getParameterAttr() : FlatSymbolRefAttr();
}

std::optional<OtherTraining> sluice::findOtherTraining(func::FuncOp evaluate, func::FuncOp train) {
  SmallVector<CrossEntropyOp> scored = getLossOps(evaluate), trained = getLossOps(train);
  for (CrossEntropyOp loss : scored) {
    if (!trained.empty() && llvm::none_of(trained, [&](CrossEntropyOp other) {
          return getHead(other) == getHead(loss);
        })) {
      return OtherTraining{trained.front(), std::nullopt};
    }
  }
  for (CrossEntropyOp loss : trained) {
    for (CrossEntropyOp other : scored) {
      bool isScored = llvm::any_of(scored, [&](CrossEntropyOp same) {
        return getHead(same) == getHead(loss) && same.getOffset() == loss.getOffset();
      });
      if (!isScored && getHead(loss) == getHead(other)) {
        return OtherTraining{loss, static_cast<int64_t>(other.getOffset())};
      }
    }
  }
  return std::nullopt;
}
