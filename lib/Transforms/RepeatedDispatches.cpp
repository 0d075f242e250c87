// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds forward dispatches that can run again, and copies them.
#include "RepeatedDispatches.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Transforms/MemoryPlan.h"
#include "sluice/Transforms/Recompute.h"

using namespace mlir;
using namespace sluice;

RepeatedDispatches::RepeatedDispatches(func::FuncOp func) {
  bool isBackward = false;
  for (auto op : func.getOps<dispatch::KernelInterface>()) {
    isBackward |= op.getBackward();
    (isBackward ? late : early).push_back(op);
  }
  findRepeatable(func);
  findLives();
}

/// Excludes values that are in a named place or alias one, and dispatches that read memory which
/// another dispatch may write in place.
void RepeatedDispatches::findRepeatable(func::FuncOp func) {
  ValueSet shared, named;
  func.walk([&](Operation *op) {
    if (auto view = dyn_cast<plan::ViewOp>(op)) {
      named.insert_range(ValueRange{view.getResult(), view.getSource()});
    }
    if (auto store = dyn_cast<plan::StoreOp>(op)) {
      named.insert(store.getValue());
    }
    if (auto sharing = dyn_cast<dispatch::SharedMemoryInterface>(op)) {
      for (auto [result, operand] : sharing.getShared()) {
        shared.insert_range(ValueRange{result, operand});
      }
    }
  });
  auto isShared = [&](Value value) { return shared.contains(value); };
  for (Operation *op : early) {
    if (llvm::any_of(op->getOperands(), isShared) || llvm::any_of(op->getResults(), isShared)) {
      continue;
    }
    for (Value result : op->getResults()) {
      if (!named.contains(result)) {
        repeatable.insert(result);
      }
    }
  }
}

void RepeatedDispatches::findLives() {
  for (auto [place, op] : llvm::enumerate(early)) {
    for (Value operand : op->getOperands()) {
      if (auto life = lives.find(operand); life != lives.end()) {
        life->second.last = place;
      }
    }
    for (Value result : op->getResults()) {
      if (isRepeatable(result)) {
        lives[result] = {place, place};
      }
    }
  }
}

std::vector<int64_t> RepeatedDispatches::bytesBetween() const {
  std::vector<int64_t> bytes(early.size());
  for (const auto &[value, life] : lives) {
    for (size_t i = life.first; i < life.last; ++i) {
      bytes[i] += storedBytes(value);
    }
  }
  return bytes;
}

SmallVector<Value> RepeatedDispatches::valuesAcross(size_t i) const {
  SmallVector<Value> values;
  for (const auto &[value, life] : lives) {
    if (life.first <= i && i < life.last) {
      values.push_back(value);
    }
  }
  return values;
}

Value RepeatedDispatches::getCopy(Value value, const ValueSet &dropped, OpBuilder &b) {
  if (!dropped.contains(value) || !isRepeatable(value)) {
    return value;
  }
  auto result = cast<OpResult>(value);
  Operation *original = result.getOwner();
  if (!made.contains(original)) {
    SmallVector<Value> operands;
    for (Value operand : original->getOperands()) {
      operands.push_back(getCopy(operand, dropped, b));
    }
    auto copy = cast<dispatch::KernelInterface>(b.clone(*original));
    copy->setOperands(operands);
    copy.setBackward(true);
    copy.setRecomputed(true);
    made[original] = copy;
  }
  return made[original]->getResult(result.getResultNumber());
}

void RepeatedDispatches::repeat(const ValueSet &dropped) {
  for (Operation *reader : late) {
    OpBuilder b(reader);
    for (OpOperand &operand : reader->getOpOperands()) {
      operand.set(getCopy(operand.get(), dropped, b));
    }
  }
}

void RepeatedDispatches::undo() {
  for (auto [original, copy] : made) {
    copy->replaceAllUsesWith(original->getResults());
  }
  for (auto [original, copy] : made) {
    copy->erase();
  }
  made.clear();
}
