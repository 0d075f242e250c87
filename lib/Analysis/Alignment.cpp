// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether generation samples what training scored: @predict and @evaluate are compared op by op.
#include "Refusal.h"
#include "mlir/IR/OperationSupport.h"
#include "sluice/Analysis/Reach.h"

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
    return x && y &&
           cast<OpResult>(left).getResultNumber() == cast<OpResult>(right).getResultNumber() &&
           OperationEquivalence::isEquivalentTo(x, y, OperationEquivalence::ignoreValueEquivalence,
                                                nullptr, OperationEquivalence::IgnoreLocations);
  }

  DenseMap<Value, Value> known;
};

/// The head of generation: a linear map of the last row.
struct SampledHead {
  LinearOp linear;
  LastOp last;
};

} // namespace

static std::optional<SampledHead> headOf(func::FuncOp predict) {
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
  std::optional<SampledHead> head = headOf(predict);
  if (!head) {
    return {Alignment::OtherPrediction, predict, 0};
  }
  Alignment found{Alignment::OtherPrediction, head->linear, 0};
  for (CrossEntropyOp loss : lossesOf(evaluate)) {
    if (!scores(loss, *head, evaluate, predict)) {
      continue;
    }
    // Generation continues the first argument, whatever else stands beside it.
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

//===----------------------------------------------------------------------===//
// Verdict
//===----------------------------------------------------------------------===//

bool sluice::trainsWhatIsEvaluated(ModuleOp module, CausalVerdict &verdict) {
  auto evaluate = module.lookupSymbol<func::FuncOp>("evaluate");
  auto train = module.lookupSymbol<func::FuncOp>("train");
  if (!evaluate || !train) {
    return true;
  }
  auto headOf = [](CrossEntropyOp loss) {
    auto read = loss.getWeight().getDefiningOp<ReadOp>();
    return read ? read.getParameterAttr() : FlatSymbolRefAttr();
  };
  for (CrossEntropyOp evaluated : lossesOf(evaluate)) {
    SmallVector<CrossEntropyOp> losses = lossesOf(train);
    if (!losses.empty() && llvm::none_of(losses, [&](CrossEntropyOp trained) {
          return headOf(trained) == headOf(evaluated);
        })) {
      verdict.kind = CausalVerdict::Kind::Misaligned;
      verdict.refusedMode = "train";
      verdict.place = placeOf(losses.front());
      verdict.message =
          "not aligned: no loss of training has the weights that are evaluated; train "
          "what is evaluated, at " +
          spec::toString(verdict.place);
      return false;
    }
  }
  for (CrossEntropyOp trained : lossesOf(train)) {
    for (CrossEntropyOp evaluated : lossesOf(evaluate)) {
      auto target = static_cast<int64_t>(trained.getOffset());
      auto other = static_cast<int64_t>(evaluated.getOffset());
      bool alike = llvm::any_of(lossesOf(evaluate), [&](CrossEntropyOp loss) {
        return headOf(loss) == headOf(trained) && loss.getOffset() == trained.getOffset();
      });
      if (alike || headOf(trained) != headOf(evaluated)) {
        continue;
      }
      verdict.kind = CausalVerdict::Kind::Misaligned;
      verdict.refusedMode = "train";
      verdict.place = placeOf(trained);
      verdict.message = "not aligned: in training, row t is scored against token t + " +
                        std::to_string(target) + ", but in evaluation against token t + " +
                        std::to_string(other) + "; score it alike, at " +
                        spec::toString(verdict.place);
      return false;
    }
  }
  return true;
}

bool sluice::provesGeneration(ModuleOp module, CausalVerdict &verdict) {
  auto evaluate = module.lookupSymbol<func::FuncOp>("evaluate");
  auto predict = module.lookupSymbol<func::FuncOp>("predict");
  if (!evaluate || !predict) {
    return true;
  }
  Alignment alignment = checkAlignment(evaluate, predict);
  if (alignment.kind == Alignment::Aligned) {
    verdict.modes.push_back("generate");
    return true;
  }
  verdict.refusedMode = "generate";
  verdict.place = placeOf(alignment.op);
  if (alignment.kind == Alignment::OtherPrediction) {
    verdict.message = "not aligned: generation samples a prediction that no loss scores; let "
                      "@predict end in the last row of what a loss reads, under the loss's weights";
  } else {
    verdict.kind = CausalVerdict::Kind::Misaligned;
    verdict.message = "not aligned: row t is scored against token t + " +
                      std::to_string(alignment.offset) +
                      ", but generation appends what it predicts as token t + 1; score it against "
                      "token t + 1, at " +
                      spec::toString(verdict.place);
  }
  return false;
}
