// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Formats messages about a leak: names ops as a spec does, and describes witnesses.
#include "LeakWords.h"
#include "Remedy.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Explain/Reach.h"
#include "sluice/Explain/Verdict.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace sluice;

namespace {

/// Names of the stages whose ops a layer, or one of its blocks, has in one function.
class BlockWords {
public:
  explicit BlockWords(Operation *any) : block(any->getBlock()) {}

  /// Returns "layer", "attention" or "feed_forward". A stage "attention" alone has separate maps of
  /// keys and values, and a layer always has attention.
  std::string get(Operation *op) {
    if (words.empty()) {
      collect();
    }
    return words.lookup(getOriginStage(op));
  }

private:
  void collect() {
    for (Operation &op : *block) {
      OriginAttr origin = getOrigin(&op);
      if (!origin) {
        continue;
      }
      std::string &word = words.try_emplace(origin.getStage(), "feed_forward").first->second;
      if (origin.getPart() == "attention.key") {
        word = "attention";
      } else if (origin.getPart().starts_with("attention.") && word != "attention") {
        word = "layer";
      }
    }
  }

  Block *block;
  llvm::StringMap<std::string> words; ///< by stage
};

} // namespace

/// Returns the name of an op in specs; without a spec, the name of the op.
static std::string getWordFor(Operation *op, BlockWords &words) {
  StringRef part = getOriginPart(op);
  if (isa<FoldOp>(op) && part == "fold") {
    return "shorten (linear)";
  }
  if ((isa<UnfoldOp>(op) && !part.empty()) || (isa<FoldOp>(op) && part == "window")) {
    return "upsample (linear)";
  }
  if (isa<StartOp>(op)) {
    return "shift";
  }
  if (isa<EmbedOp, PositionOp>(op) || part == "sum") {
    return "embedding";
  }
  bool isLayer = part.starts_with("attention.") || part.starts_with("feed_forward.");
  if (isa<HashedAttentionOp>(op)) {
    return "attention";
  }
  if (isLayer && !isa<AttentionOp>(op)) {
    return words.get(op);
  }
  return isa<MapOp>(op) && !part.empty() ? part.str() : op->getName().stripDialect().str();
}

/// Describes a position: "position 3 of the shorten at a.json:7:5".
static std::string describeValue(Value value, int64_t position) {
  Operation *op = value.getDefiningOp();
  BlockWords words(op);
  return "position " + std::to_string(position) + " of the " + getWordFor(op, words) + " at " +
         spec::toString(getOpLocation(op));
}

/// Describes positions of the path that exist only after both the token and the row; empty if there
/// are none.
static std::string longerSequence(const FoundLeak &leak) {
  const CausalWitness &witness = leak.witness;
  int64_t most = std::max(witness.token, witness.row);
  const std::pair<Value, int64_t> *last = nullptr;
  for (const auto &step : leak.path) {
    Operation *op = step.first.getDefiningOp();
    int64_t first = op && !isLazy(op)
                        ? getFactor(op, cast<SequenceType>(step.first.getType())) * step.second
                        : -1;
    if (first > most) {
      most = first;
      last = &step;
    }
  }
  return last ? ", through " + describeValue(last->first, last->second) +
                    ", which only sequences of " + std::to_string(most + 1) + " tokens or more have"
              : "";
}

std::string sluice::describe(const FoundLeak &leak) {
  const CausalWitness &witness = leak.witness;
  CrossEntropyOp loss = leak.loss;
  int64_t target = witness.row + static_cast<int64_t>(loss.getOffset());
  std::string row = "row " + std::to_string(witness.row);
  if (witness.token < witness.length) {
    return "of " + std::to_string(witness.length) + " tokens, " + row + ", which predicts token " +
           std::to_string(target) + ", reads token " + std::to_string(witness.token) +
           longerSequence(leak);
  }
  auto [value, position] = leak.path.back();
  std::string through = value.getDefiningOp() ? ": it reads " + describeValue(value, position) +
                                                    ", which does not exist before"
                                              : "";
  return row + " changes when the sequence grows to token " + std::to_string(witness.token) +
         through;
}

std::vector<CausalStep> sluice::getSteps(FoundLeak &leak) {
  std::vector<CausalStep> steps;
  StringRef stage; // stage of the last step
  BlockWords words(leak.loss);
  for (size_t i = leak.path.size() - 1; i-- > 0;) {
    Operation *op = leak.path[i].first.getDefiningOp();
    CausalStep step = {getOpLocation(op), getWordFor(op, words), leak.path[i + 1].second,
                       leak.path[i].second};
    StringRef own = getOriginStage(op);
    bool isSame = !steps.empty() && !own.empty() && own == stage;
    bool stayed = isSame && steps.back().from == steps.back().to;
    stage = own;
    if (isSame && step.from == step.to && !(stayed && steps.back().op == "linear")) {
      continue;
    }
    if (stayed) {
      steps.back() = step;
    } else {
      steps.push_back(step);
    }
  }
  int64_t row = leak.witness.row;
  std::string part = getOriginPart(leak.loss).str();
  bool isOther = part == "loss" || part == "contrast";
  steps.push_back({getOpLocation(leak.loss), isOther ? part : "head", row, row});
  return steps;
}

std::string sluice::describe(const Boundaries &boundaries) {
  std::string text;
  for (const std::vector<int64_t> &ends : boundaries) {
    text += text.empty() ? " where boundaries are at " : ", those of the next segmentation at ";
    for (size_t i = 0; i < ends.size(); ++i) {
      text += (i == 0 ? "" : i + 1 < ends.size() ? ", " : " and ") + std::to_string(ends[i]);
    }
    text += ends.empty() ? "no position" : "";
  }
  return text;
}
