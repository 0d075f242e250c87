// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements sluice.labels, data in addition to the tokens.
#include "sluice/Dialect/Sluice/Labels.h"
#include "../Cost.h"
#include "../Reference/Numbers.h"
#include "../Reference/Reference.h"
#include "sluice/Dialect/Sluice/Fusion.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/LabelsOps.cpp.inc"

std::string sluice::weightsScalar(StringRef name, int64_t first) {
  return ("scalar:weights." + name + "." + Twine(first)).str();
}

std::string sluice::countedScalar(StringRef name) { return ("scalar:counted." + name).str(); }

LogicalResult LabelsOp::verify() {
  SequenceType tokens = getTokens().getType(), type = getResult().getType();
  if (!isa<BlockArgument>(getTokens()) || tokens.getScale() != type.getScale() ||
      (type.getWidth() != 0 && !getNumbers()) || !type.getElement().isF32()) {
    return emitOpError("S-120: expected tokens as the function is given them, and one f32 for each "
                       "on their scale, found ")
           << tokens << " and " << type;
  }
  return success();
}

/// Relation to every token: a label may depend on later tokens.
std::optional<IntegerSet> LabelsOp::getRelation(unsigned) {
  AffineExpr q = getAffineDimExpr(1, getContext()), n = getAffineSymbolExpr(0, getContext());
  return IntegerSet::get(2, 1, {q, n - 1 - q}, {false, false});
}
AffineExpr LabelsOp::getLatest(unsigned) { return {}; }

OpRemedy LabelsOp::getRemedy() {
  if (getNumbers()) {
    return {"numbers of a named input come from data that may look ahead, so a loss alone may read "
            "them; give them the role \"target\" or \"weight\"",
            "",
            {}};
  }
  return {"labels come from data that may look ahead, so a loss alone may read them; learn them "
          "with a \"predictor\"",
          "",
          {}};
}

Cost LabelsOp::getCost() { return facts::cost(*this, 0); }

/// Tokens are integers and have no gradient.
LogicalResult LabelsOp::buildBackward(OpBuilder &, ArrayRef<Value>, MutableArrayRef<Value>) {
  return success();
}

LogicalResult LabelsOp::emitBody(BodyBuilder &body) {
  body.set(
      getResult(),
      body.getInput(((getNumbers() ? numbersInput : labelsInput) + getLabel()).str(), getResult()));
  return success();
}

/// The reference uses an arbitrary rule that depends on later tokens: the parity of p plus all
/// tokens.
template <typename T> static void evaluate(LabelsOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    if (op.getNumbers()) {
      auto width = static_cast<size_t>(op.getResult().getType().getWidth());
      return width > 0 ? getTargetToken<T>(evaluator, op.getTokens(), b, p, width)
                       : std::vector<T>{weightAt<T>(b, p)};
    }
    int64_t sum = p;
    for (int64_t q = 0; q < evaluator.getPositions(op.getResult()); ++q) {
      sum += evaluator.tokenAt(op.getTokens(), b, q);
    }
    return std::vector<T>{static_cast<T>(sum % 2)};
  });
}

SLUICE_REFERENCE(LabelsOp)
