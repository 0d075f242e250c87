// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
// Evaluates attention and its gradient, one query row of one head at a time, with all scores
// stored.
#include "Reference.h"
#include "ScalarProgram.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

/// Parts that forward and backward share: heads' vectors, scores, the mask and dropout.
template <typename T, typename Op> class Heads {
public:
  Heads(Op op, Evaluator<T> &evaluator)
      : op(op), evaluator(evaluator), size(op.getHeadSize()),
        queryCapacity(sluice::getPositions(op, op.getQuery().getType())),
        keyCapacity(sluice::getPositions(op, op.getKey().getType())), terms(op.getTerms()) {}

  int64_t keyHead(int64_t h) { return h / (op.getHeads() / op.getKvHeads()); }
  std::vector<T> query(int64_t b, int64_t p, int64_t h) {
    return rotate(columns(op.getQuery(), b, p, op.getQueryColumn() + h * size), p, 1);
  }
  std::vector<T> key(int64_t b, int64_t q, int64_t h) {
    return rotate(columns(op.getKey(), b, q, op.getKeyColumn() + keyHead(h) * size), q, 1);
  }
  std::vector<T> value(int64_t b, int64_t q, int64_t h) {
    return columns(op.getValue(), b, q, op.getValueColumn() + keyHead(h) * size);
  }
  /// Return Qv and R of the relative position terms.
  std::vector<T> positionQuery(int64_t b, int64_t p, int64_t h) {
    return columns(terms.query, b, p, h * size);
  }
  /// Returns the row of R for a pair.
  int64_t computeRow(int64_t b, int64_t p, int64_t q) {
    return terms.row(p, q, evaluator.getCount(terms.rows, b));
  }
  /// Returns the index in a table of rows, which all heads share, of a pair's row.
  int64_t computeTableIndex(int64_t p, int64_t q) {
    return terms.row(p, q, cast<RankedTensorType>(terms.rows.getType()).getDimSize(0)) * size;
  }
  std::vector<T> distanceRow(int64_t b, int64_t p, int64_t q, int64_t h) {
    if (terms.hasRowTable()) {
      auto first = evaluator.getTensor(terms.rows).begin() + computeTableIndex(p, q);
      return std::vector<T>(first, first + size);
    }
    return columns(terms.rows, b, computeRow(b, p, q), h * size);
  }
  /// Returns the index of the table's bias for a pair.
  int64_t biasIndex(int64_t p, int64_t q, int64_t h) {
    int64_t rows = cast<RankedTensorType>(terms.bias.getType()).getDimSize(0);
    return terms.row(p, q, rows) * op.getHeads() + h;
  }
  /// Products that are arguments of a pair's score region: query times key, and Qv times its row of
  /// R, if there are rows by distance.
  struct ReferenceProducts {
    T raw, byDistance;
  };
  ReferenceProducts products(const std::vector<T> &query, int64_t b, int64_t p, int64_t q,
                             int64_t h) {
    T byDistance = terms.rows ? dot(positionQuery(b, p, h), distanceRow(b, p, q, h)) : 0;
    return {dot(query, key(b, q, h)), byDistance};
  }
  T score(const ReferenceProducts &products, int64_t p, int64_t q, int64_t h) {
    return region(op.getScore(), products, p, q, h).front();
  }
  std::vector<T> columns(Value sequence, int64_t b, int64_t p, int64_t first) {
    std::vector<T> vector(size);
    for (int64_t c = 0; c < size; ++c) {
      vector[c] = evaluator.at(sequence, b, p, first + c);
    }
    return vector;
  }

  /// Rotates each pair (2i, 2i + 1) by row p's angle, or back with direction -1.
  std::vector<T> rotate(std::vector<T> x, int64_t p, int direction) {
    if (!op.getRotary()) {
      return x;
    }
    const T *table = evaluator.getTensor(op.getRotary()).data() + p * size;
    for (int64_t c = 0; c < size; c += 2) {
      T cosine = table[c], sine = direction * table[c + 1];
      T even = x[c] * cosine - x[c + 1] * sine, odd = x[c] * sine + x[c + 1] * cosine;
      x[c] = even;
      x[c + 1] = odd;
    }
    return x;
  }

  /// Returns the keys q that row p may see, in order.
  std::vector<int64_t> visible(int64_t b, int64_t p) {
    std::vector<int64_t> keys;
    int64_t positions = evaluator.getCount(op.getKey(), b);
    for (int64_t q = 0; q < positions; ++q) {
      bool isInRange = op.getRange().empty() || (q >= evaluator.at(op.getRange()[0], b, p, 0) &&
                                                 q < evaluator.at(op.getRange()[1], b, p, 0));
      if (isInRange && contains(op.getMask(), p, q, positions)) {
        keys.push_back(q);
      }
    }
    return keys;
  }

  T dot(const std::vector<T> &x, const std::vector<T> &y) {
    T sum = 0;
    for (size_t c = 0; c < x.size(); ++c) {
      sum += x[c] * y[c];
    }
    return sum;
  }

  /// Returns the result of the score region for a pair's products and its bias; with `gradient`,
  /// the result of the region's derivative.
  std::vector<T> region(Region &code, const ReferenceProducts &products, int64_t p, int64_t q,
                        int64_t h, const T *gradient = nullptr) {
    SmallVector<Scalar<T>> arguments = {
        {.real = products.raw}, {.integer = p}, {.integer = q}, {.integer = h}};
    if (terms.rows) {
      arguments.push_back({.real = products.byDistance});
    }
    if (terms.bias) {
      arguments.push_back({.real = T(evaluator.getTensor(terms.bias)[biasIndex(p, q, h)])});
    }
    if (gradient) {
      arguments.push_back({.real = *gradient});
    }
    std::vector<T> yielded;
    ScalarProgram<T> &program = programs.try_emplace(&code, code).first->second;
    for (Scalar<T> scalar : program.run(arguments, ScalarPlace{})) {
      yielded.push_back(scalar.real);
    }
    return yielded;
  }

  /// Returns the factor of dropout: 0, or 1 / (1 - rate). A draw below the rate drops.
  T keep(int64_t b, int64_t h, int64_t p, int64_t q) {
    double rate = op.getDropout().convertToDouble();
    if (rate == 0) {
      return 1;
    }
    const RuntimeValues &setting = evaluator.getSetting();
    uint64_t element = ((b * op.getHeads() + h) * queryCapacity + p) * keyCapacity + q;
    bool kept = uniform(setting.seed, setting.step, op.getRandomId(), element) >= rate;
    return kept ? static_cast<T>(1 / (1 - rate)) : T(0);
  }

  Op op;
  Evaluator<T> &evaluator;
  std::map<Region *, ScalarProgram<T>> programs = {}; ///< of the regions that ran
  int64_t size;                                       ///< of a head
  int64_t queryCapacity, keyCapacity;
  dispatch::DistanceTerms terms;
};

/// Adds one head's output of row p at out + h D; returns the row's log-sum-exp.
template <typename T>
static T attendRow(Heads<T, AttentionOp> &heads, int64_t b, int64_t p, int64_t h,
                   std::vector<T> &output) {
  std::vector<int64_t> keys = heads.visible(b, p);
  if (keys.empty()) {
    return -std::numeric_limits<T>::infinity();
  }
  std::vector<T> query = heads.query(b, p, h), scores;
  T maximum = -std::numeric_limits<T>::infinity(), sum = 0;
  for (int64_t q : keys) {
    scores.push_back(heads.score(heads.products(query, b, p, q, h), p, q, h));
    maximum = std::max(maximum, scores.back());
  }
  for (T score : scores) {
    sum += std::exp(score - maximum);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    T weight = std::exp(scores[i] - maximum) / sum * heads.keep(b, h, p, keys[i]);
    std::vector<T> value = heads.value(b, keys[i], h);
    for (int64_t c = 0; c < heads.size; ++c) {
      output[h * heads.size + c] += weight * value[c];
    }
  }
  return maximum + std::log(sum);
}

template <typename T> static void evaluate(AttentionOp op, Evaluator<T> &evaluator) {
  Heads<T, AttentionOp> heads(op, evaluator);
  int64_t count = op.getHeads();
  std::vector<std::vector<T>> sums;
  evaluator.define(op.getOutput(), [&](int64_t b, int64_t p) {
    std::vector<T> output(count * heads.size), lse(count);
    for (int64_t h = 0; h < count; ++h) {
      lse[h] = attendRow(heads, b, p, h, output);
    }
    sums.push_back(lse);
    return output;
  });
  auto next = sums.begin(); // both visit the same positions
  evaluator.define(op.getLse(), [&](int64_t, int64_t) { return *next++; });
}

/// Operands 3 and 4 in `add` are Qv and R, 5 the table of biases, whose positions are distances.
constexpr unsigned positionQueries = 3, distanceRows = 4, biases = 5;

/// Adds row p's part of head h to the gradients of operands 0, 1 and 2, and of terms: `add(operand,
/// position, column, vector, factor)`. P = exp(s - lse); dP = (dO . V) keep; dS = P (dP - dO . O);
/// dV += P keep dO; dQ += dX K, dK += dX Q, dQv += dT R, dR += dT Qv, and dT to the bias; (dX, dT,
/// ...) = score_gradient(..., dS).
template <typename T>
static void attendRowBackward(
    Heads<T, AttentionBackwardOp> &heads, int64_t b, int64_t p, int64_t h,
    llvm::function_ref<void(unsigned, int64_t, int64_t, const std::vector<T> &, T)> add) {
  AttentionBackwardOp op = heads.op;
  int64_t size = heads.size, keyHead = heads.keyHead(h);
  std::vector<T> query = heads.query(b, p, h);
  std::vector<T> outputGradient = heads.columns(op.getOutputGradient(), b, p, h * size);
  T delta = heads.dot(outputGradient, heads.columns(op.getOutput(), b, p, h * size));
  T lse = heads.evaluator.at(op.getLse(), b, p, h);
  for (int64_t q : heads.visible(b, p)) {
    std::vector<T> key = heads.key(b, q, h);
    auto products = heads.products(query, b, p, q, h);
    T probability = std::exp(heads.score(products, p, q, h) - lse);
    T keep = heads.keep(b, h, p, q);
    T scoreGradient =
        probability * (heads.dot(outputGradient, heads.value(b, q, h)) * keep - delta);
    std::vector<T> derived = heads.region(op.getScoreGradient(), products, p, q, h, &scoreGradient);
    T rawGradient = derived.front();
    add(2, q, op.getValueColumn() + keyHead * size, outputGradient, probability * keep);
    // The adjoint of a rotation is the inverse rotation, by the angle of the gradient's row.
    add(0, p, op.getQueryColumn() + h * size, heads.rotate(key, p, -1), rawGradient);
    add(1, q, op.getKeyColumn() + keyHead * size, heads.rotate(query, q, -1), rawGradient);
    if (heads.terms.rows) {
      add(positionQueries, p, h * size, heads.distanceRow(b, p, q, h), derived[1]);
      bool isTable = heads.terms.hasRowTable();
      add(distanceRows, isTable ? 0 : heads.computeRow(b, p, q),
          isTable ? heads.computeTableIndex(p, q) : h * size, heads.positionQuery(b, p, h),
          derived[1]);
    }
    if (heads.terms.bias) {
      add(biases, 0, heads.biasIndex(p, q, h), {T(1)}, derived.back());
    }
  }
}

template <typename T> static void evaluate(AttentionBackwardOp op, Evaluator<T> &evaluator) {
  Heads<T, AttentionBackwardOp> heads(op, evaluator);
  std::vector<std::vector<T>> gradients;
  for (Value gradient : op.getGradients()) {
    auto table = dyn_cast<RankedTensorType>(gradient.getType());
    gradients.emplace_back(table ? table.getNumElements()
                                 : evaluator.getSetting().rows * evaluator.getPositions(gradient) *
                                       reference::getColumns(gradient));
  }
  unsigned sources = op.getSourceGradients().size();
  auto add = [&](int64_t b, unsigned operand, int64_t position, int64_t column,
                 const std::vector<T> &vector, T factor) {
    unsigned number = operand < positionQueries ? dispatch::getGradientIndex(operand, sources)
                      : operand == biases       ? gradients.size() - 1
                                                : sources + operand - positionQueries;
    Value gradient = op.getGradients()[number];
    T *target = gradients[number].data() + column;
    if (isa<SequenceType>(gradient.getType())) {
      target += (b * evaluator.getPositions(gradient) + position) * reference::getColumns(gradient);
    }
    for (size_t c = 0; c < vector.size(); ++c) {
      target[c] += factor * vector[c];
    }
  };
  evaluator.forEachPosition(op.getQuery(), [&](int64_t b, int64_t p) {
    for (int64_t h = 0; h < static_cast<int64_t>(op.getHeads()); ++h) {
      attendRowBackward<T>(heads, b, p, h, [&](auto &&...part) { add(b, part...); });
    }
  });
  for (auto [value, numbers] : llvm::zip_equal(op.getGradients(), gradients)) {
    if (isa<SequenceType>(value.getType())) {
      evaluator.setSequence(value, std::move(numbers));
    } else {
      evaluator.setTensor(value, std::move(numbers));
    }
  }
}

SLUICE_REFERENCE(AttentionOp)
SLUICE_REFERENCE(AttentionBackwardOp)
