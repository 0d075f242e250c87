// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs of weight gradients that are rematerialized instead of stored.
#include "RepeatedMaps.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Dialect/Sluice/ValueNames.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sluice;

namespace {

/// Input of one weight gradient, and the ops that rematerialize it.
class Repetition {
public:
  Repetition(LinearWeightGradientOp reader, const DenseSet<Operation *> &backward)
      : reader(reader), value(reader.getInput()), backward(backward) {}

  /// Returns true if the value can be rematerialized, and then need not be stored.
  bool find();
  /// Copies the maps for every weight gradient that reads the value; returns the contraction that
  /// they follow.
  LinearInputGradientOp build(SmallVectorImpl<Operation *> &copies);

private:
  bool findContraction();
  void findReaders();
  bool collect(Value needed);
  bool isBackward(Operation *op) const { return backward.contains(op); }

  LinearWeightGradientOp reader;
  Value value;
  const DenseSet<Operation *> &backward;
  LinearInputGradientOp contraction;
  DenseSet<Value> read; ///< values read by maps of the contraction's results
  llvm::SetVector<Operation *> maps;
};

} // namespace

bool Repetition::findContraction() {
  for (Operation *user : reader.getGradient().getUsers()) {
    auto product = dyn_cast<LinearInputGradientOp>(user);
    auto made = product ? product.getResult().getType() : SequenceType();
    auto needed = cast<SequenceType>(value.getType());
    bool fits = made && made.getScale() == needed.getScale() &&
                made.getWidth() == needed.getWidth() && product->getBlock() == reader->getBlock();
    if (fits) {
      contraction = product;
      return true;
    }
  }
  return false;
}

/// Collects the operands of the maps that differentiate the value; they include its own operands if
/// the derivative depends on them.
void Repetition::findReaders() {
  llvm::SetVector<Operation *> derivatives;
  auto addMaps = [&](Operation *op) {
    for (Operation *user : op->getUsers()) {
      if (isa<MapOp>(user) && isBackward(user)) {
        derivatives.insert(user);
      }
    }
  };
  addMaps(contraction);
  for (size_t i = 0; i < derivatives.size(); ++i) {
    read.insert_range(derivatives[i]->getOperands());
    addMaps(derivatives[i]);
  }
}

/// Collects the maps that compute `needed` from values that are read anyway, operands first.
bool Repetition::collect(Value needed) {
  auto type = cast<SequenceType>(needed.getType()), whole = cast<SequenceType>(value.getType());
  if (type.getScale() != whole.getScale() || type.getWidth() != whole.getWidth()) {
    return false;
  }
  if (needed != value && read.contains(needed)) {
    return !isLazy(needed);
  }
  auto map = needed.getDefiningOp<MapOp>();
  if (!map || isBackward(map) ||
      !llvm::all_of(map.getInputs(), [&](Value input) { return collect(input); })) {
    return false;
  }
  maps.insert(map);
  return true;
}

bool Repetition::find() {
  bool readByWeights = llvm::all_of(value.getUsers(), [&](Operation *user) {
    bool isMap = user->getNumResults() == 1 && isLazy(user->getResult(0));
    return isBackward(user) ? isa<LinearWeightGradientOp>(user) : !isMap;
  });
  if (!readByWeights || !findContraction()) {
    return false;
  }
  findReaders();
  return collect(value);
}

/// Inserts the contraction and the copies before the first weight gradient that reads them.
LinearInputGradientOp Repetition::build(SmallVectorImpl<Operation *> &copies) {
  if (reader->isBeforeInBlock(contraction)) {
    contraction->moveBefore(reader);
  }
  OpBuilder b(contraction);
  b.setInsertionPointAfter(contraction);
  IRMapping mapping;
  for (Operation *map : maps) {
    copies.push_back(b.clone(*map, mapping));
    eraseNames(copies.back()); // names of the forward pass
  }
  value.replaceUsesWithIf(mapping.lookup(value), [](OpOperand &use) {
    return isa<LinearWeightGradientOp>(use.getOwner());
  });
  return contraction;
}

DenseSet<Operation *> sluice::findBackward(func::FuncOp func) {
  DenseSet<Operation *> backward;
  auto begin = func.getOps<BeginBackwardOp>();
  Operation *first = begin.empty() ? nullptr : (*begin.begin()).getOperation();
  for (Operation *op = first; op; op = op->getNextNode()) {
    if (!isa<ObjectiveOp>(op)) {
      backward.insert(op);
    }
  }
  return backward;
}

RepeatedMaps sluice::repeatMaps(func::FuncOp func) {
  RepeatedMaps repeated;
  DenseSet<Operation *> backward = findBackward(func);
  for (auto reader : llvm::to_vector(func.getOps<LinearWeightGradientOp>())) {
    Repetition repetition(reader, backward);
    if (backward.contains(reader) && repetition.find()) {
      SmallVector<Operation *> copies;
      LinearInputGradientOp contraction = repetition.build(copies);
      llvm::append_range(repeated[contraction], copies);
      backward.insert_range(copies);
    }
  }
  return repeated;
}
