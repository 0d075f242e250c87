// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Rows of tables, by token and by position.
#include "Reference.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

/// y[p] = table[token[p]]
template <typename T> static void evaluate(EmbedOp op, Evaluator<T> &evaluator) {
  const std::vector<T> &table = evaluator.getTensor(op.getTable());
  int64_t columns = reference::getColumns(op.getResult());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    const T *row = table.data() + evaluator.tokenAt(op.getTokens(), b, p) * columns;
    return std::vector<T>(row, row + columns);
  });
}

/// dtable[v] = init[v] + sum of dy[p] over the p with token[p] = v
template <typename T> static void evaluate(EmbedBackwardOp op, Evaluator<T> &evaluator) {
  int64_t columns = reference::getColumns(op.getGradient());
  std::vector<T> table(cast<RankedTensorType>(op.getTable().getType()).getNumElements());
  if (op.getInit()) {
    table = evaluator.getTensor(op.getInit());
  }
  evaluator.forEachPosition(op.getGradient(), [&](int64_t b, int64_t p) {
    int64_t token = evaluator.tokenAt(op.getTokens(), b, p);
    for (int64_t c = 0; c < columns; ++c) {
      table[token * columns + c] += evaluator.at(op.getGradient(), b, p, c);
    }
  });
  evaluator.setTensor(op.getTable(), std::move(table));
}

/// y[p] = table[p]
template <typename T> static void evaluate(PositionOp op, Evaluator<T> &evaluator) {
  const std::vector<T> &table = evaluator.getTensor(op.getTable());
  int64_t columns = reference::getColumns(op.getResult());
  evaluator.define(op.getResult(), [&](int64_t, int64_t p) {
    return std::vector<T>(table.data() + p * columns, table.data() + (p + 1) * columns);
  });
}

/// dtable[p] = sum of dy[b, p] over the batch
template <typename T> static void evaluate(PositionBackwardOp op, Evaluator<T> &evaluator) {
  int64_t columns = reference::getColumns(op.getGradient());
  std::vector<T> table(cast<RankedTensorType>(op.getTable().getType()).getNumElements());
  evaluator.forEachPosition(op.getGradient(), [&](int64_t b, int64_t p) {
    for (int64_t c = 0; c < columns; ++c) {
      table[p * columns + c] += evaluator.at(op.getGradient(), b, p, c);
    }
  });
  evaluator.setTensor(op.getTable(), std::move(table));
}

SLUICE_REFERENCE(EmbedOp)
SLUICE_REFERENCE(EmbedBackwardOp)
SLUICE_REFERENCE(PositionOp)
SLUICE_REFERENCE(PositionBackwardOp)
