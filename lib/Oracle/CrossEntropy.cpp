// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Output head and cross-entropy. Logits are computed row by row; their gradient may be rounded to
// bf16 before it is multiplied, if the head's weights are bf16.
#include "CrossEntropy.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::oracle;

namespace {

/// Operands that both ops have.
template <typename Op> struct LossHead {
  LossHead(Op op, const OracleLaunch &launch)
      : launch(launch), rows(op, launch), input(op.getInput(), launch.operands[0]),
        weight(op.getWeight(), launch.operands[1]), tokens(op.getTokens(), launch.operands[2]),
        offset(int64_t(op.getOffset())), first(int64_t(op.getFirst())),
        smoothing(op.getSmoothing().convertToFloat()), factor(op.getFactor().convertToFloat()) {}

  std::vector<Number> logits(int64_t row) const {
    std::vector<Number> result;
    for (int64_t v = 0; v < weight.rows(); ++v) {
      ProductSum sum;
      for (int64_t c = 0; c < weight.width(); ++c) {
        sum.add(input.at(row, c), weight.at(v, c));
      }
      result.push_back(bias ? add(sum.total(launch.splits), bias->at(0, v))
                            : sum.total(launch.splits));
    }
    return result;
  }
  int64_t target(int64_t row) const {
    int64_t at = row % rows.positions() + offset;
    auto token = at < tokens.width() ? int64_t(tokens.at(row / rows.positions(), at).value) : 0;
    return std::clamp<int64_t>(token, 0, weight.rows() - 1); // others are not tokens
  }
  bool isScored(int64_t row) const { return rows.isValid(row) && row % rows.positions() >= first; }
  /// Returns the target probability of token v in row `row`, rounded once.
  Number wanted(int64_t row, int64_t v) const {
    if (smoothing == 0) {
      return {double(v == target(row)), 0};
    }
    Number even = {smoothing / double(weight.rows()), unit * smoothing / double(weight.rows())};
    return v == target(row) ? add({1 - smoothing, unit}, even) : even;
  }
  /// Returns the cross-entropy of a row. With smoothing, kernels may sum logits with or without the
  /// maximum subtracted; the bound allows for both.
  Number loss(int64_t row, const std::vector<Number> &logits, Number lse) const {
    if (smoothing == 0) {
      return subtract(lse, logits[target(row)]);
    }
    ProductSum below, plain;
    for (int64_t v = 0; v < int64_t(logits.size()); ++v) {
      below.add(wanted(row, v), subtract(lse, logits[v]));
      plain.add(wanted(row, v), logits[v]);
    }
    Number total = below.total(int64_t(logits.size()));
    return {total.value, total.error + plain.total().error};
  }
  /// Returns d objective / d loss of a row.
  Number incoming(int64_t row) const {
    if (!isScored(row)) {
      return {};
    }
    if (rowGradient) {
      return rowGradient->at(row / rows.positions(), row % rows.positions());
    }
    int64_t scored = 0;
    for (int64_t other = 0; other < rows.count(); ++other) {
      scored += isScored(other);
    }
    return divide({factor, 0}, {double(scored), 0});
  }
  /// Returns d objective / d logits of a row, from its log-sum-exp.
  std::vector<Number> gradient(int64_t row, const std::vector<Number> &logits, Number lse) const {
    std::vector<Number> result;
    Number share = incoming(row);
    for (int64_t v = 0; v < int64_t(logits.size()); ++v) {
      Number p = monotone(subtract(logits[v], lse), std::exp);
      Number g = multiply(subtract(p, wanted(row, v)), share);
      result.push_back(weight.isBf16() ? roundedToBf16(g) : g);
    }
    return result;
  }

  const OracleLaunch &launch;
  DomainRows rows;
  TensorRows input, weight, tokens;
  std::optional<TensorRows> bias, rowGradient;
  int64_t offset, first;
  double smoothing, factor;
};

/// Returns log sum e^x, where kernels may rescale sums once per block of tokens.
Number logSumExp(const std::vector<Number> &logits) {
  double most = -INFINITY;
  for (Number x : logits) {
    most = std::max(most, x.value);
  }
  ProductSum sum;
  for (Number x : logits) {
    sum.add(monotone(subtract(x, {most, 0}), std::exp));
  }
  Number total = sum.total(int64_t(logits.size()));
  return add({most, unit * std::abs(most)}, monotone(total, std::log));
}

} // namespace

LogicalResult sluice::oracle::judgeCrossEntropy(dispatch::CrossEntropyOp op,
                                                const OracleLaunch &launch, Judgement &judgement) {
  LossHead<dispatch::CrossEntropyOp> head(op, launch);
  size_t operand = 3;
  if (op.getBias()) {
    head.bias.emplace(op.getBias(), launch.operands[operand++]);
  }
  if (op.getRowGradient()) {
    head.rowGradient.emplace(op.getRowGradient(), launch.operands[operand]);
  }
  ValueComparison losses(op, launch, 0, judgement);
  std::optional<ValueComparison> lses, gradients;
  unsigned next = 1;
  if (op.getLse()) {
    lses.emplace(op, launch, next++, judgement);
  }
  if (op.getInputGradient()) {
    gradients.emplace(op, launch, next, judgement);
  }
  for (int64_t row = 0; row < head.rows.count(); ++row) {
    int64_t batch = row / head.rows.positions(), p = row % head.rows.positions();
    if (!head.rows.isValid(row)) {
      losses.check(batch, p, {});
      continue;
    }
    std::vector<Number> logits = head.logits(row);
    Number lse = logSumExp(logits);
    losses.check(batch, p, head.isScored(row) ? head.loss(row, logits, lse) : Number{});
    if (lses) {
      lses->check(batch, p, lse);
    }
    if (!gradients) {
      continue;
    }
    std::vector<Number> g = head.gradient(row, logits, lse);
    for (int64_t c = 0; c < head.input.width(); ++c) {
      ProductSum sum;
      for (size_t v = 0; v < g.size(); ++v) {
        sum.add(g[v], head.weight.at(int64_t(v), c));
      }
      gradients->check(row, c, sum.total(launch.splits));
    }
  }
  return success();
}

LogicalResult
sluice::oracle::judgeCrossEntropyWeightGradient(dispatch::CrossEntropyWeightGradientOp op,
                                                const OracleLaunch &launch, Judgement &judgement) {
  LossHead<dispatch::CrossEntropyWeightGradientOp> head(op, launch);
  TensorRows lse(op.getLse(), launch.operands[3]);
  size_t next = 4;
  auto optional = [&](Value operand) {
    std::optional<TensorRows> stored;
    if (operand) {
      stored.emplace(operand, launch.operands[next++]);
    }
    return stored;
  };
  head.bias = optional(op.getBias());
  head.rowGradient = optional(op.getRowGradient());
  std::optional<TensorRows> initWeight = optional(op.getInitWeight()),
                            initBias = optional(op.getInitBias());
  int64_t tokens = head.weight.rows(), width = head.weight.width();
  std::vector<ProductSum> sums(tokens * width), biasSums(tokens);
  for (int64_t row = 0; row < head.rows.count(); ++row) {
    if (!head.rows.isValid(row)) {
      continue;
    }
    Number own = lse.at(row / head.rows.positions(), row % head.rows.positions());
    std::vector<Number> g = head.gradient(row, head.logits(row), own);
    for (int64_t v = 0; v < tokens; ++v) {
      biasSums[v].add(g[v]);
      for (int64_t c = 0; c < width; ++c) {
        sums[v * width + c].add(g[v], head.input.at(row, c));
      }
    }
  }
  ValueComparison weights(op, launch, 0, judgement);
  for (int64_t i = 0; i < tokens * width; ++i) {
    Number total = sums[i].total(launch.splits);
    weights.check(i / width, i % width,
                  initWeight ? add(initWeight->at(i / width, i % width), total) : total);
  }
  if (op.getBiasGradient()) {
    ValueComparison biases(op, launch, 1, judgement);
    for (int64_t v = 0; v < tokens; ++v) {
      Number total = biasSums[v].total(launch.splits);
      biases.check(0, v, initBias ? add(initBias->at(0, v), total) : total);
    }
  }
  return success();
}
