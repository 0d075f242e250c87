// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and its gradients, one head at a time. Tensor cores multiply bf16 if the operands are
// bf16: probabilities and score gradients may be rounded once more, which the bounds include.
#include "Attention.h"

#include "sluice/Dialect/Sluice/Reference.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::oracle;

namespace {

using NumberLines = std::vector<Numbers>; ///< [positions][head size]

/// Returns the row of the batch whose keys row `batch` reads.
template <typename Op> int64_t findKeyBatch(Op op, const OracleLaunch &launch, int64_t batch) {
  Value keyRows = op.getKeyRows();
  if (!keyRows) {
    return batch;
  }
  auto operand = llvm::find(op->getOperands(), keyRows).getIndex();
  return static_cast<const int32_t *>(launch.operands[operand])[batch];
}

/// Returns the row of a tensor that holds position `p` of a row of the batch.
int64_t findRingRow(Value tensor, int64_t batch, int64_t p) {
  int64_t extent = cast<RankedTensorType>(tensor.getType()).getDimSize(1);
  return batch * extent + p % extent;
}

/// The state that both directions share: one row of the batch and one query head.
template <typename Op> class Head {
public:
  Head(Op op, const OracleLaunch &launch, int64_t batch, int64_t head)
      : op(op), launch(launch), rows(op, launch), scoreBody(op.getScore().front(), launch),
        batch(batch), keyBatch(findKeyBatch(op, launch, batch)), head(head),
        size(int64_t(op.getHeadSize())), positions(op.getDomain().getPositions()),
        keyPositions(op.getKeys().getPositions()), queries(getValidRows(op.getDomain())),
        keys(countKeys(op, launch)),
        keyHead(head / (int64_t(op.getHeads()) / int64_t(op.getKvHeads()))) {
    TensorRows query(op.getQuery(), launch.operands[0]), key(op.getKey(), launch.operands[1]),
        value(op.getValue(), launch.operands[2]);
    isBf16 = query.isBf16();
    for (int64_t p = 0; p < queries; ++p) {
      q.push_back(line(op.getQuery(), query, queryColumn(), p));
    }
    for (int64_t p = 0; p < keys; ++p) {
      k.push_back(columns(key, findRingRow(op.getKey(), keyBatch, p), keyColumn()));
      v.push_back(columns(value, findRingRow(op.getValue(), keyBatch, p), valueColumn()));
    }
    for (Value end : op.getRange()) {
      auto operand = llvm::find(op->getOperands(), end).getIndex();
      range.push_back(static_cast<const int32_t *>(launch.operands[operand]));
    }
    addTerms();
  }

  /// Reads Qv, R and the table of biases, which follow the operands that every attention has.
  void addTerms() {
    dispatch::DistanceTerms terms = op.getTerms();
    size_t first = op->getNumOperands() - op.getExtras().size();
    if (terms.rows) {
      TensorRows stored(terms.query, launch.operands[first]),
          termRows(terms.rows, launch.operands[first + 1]);
      for (int64_t p = 0; p < queries; ++p) {
        positionQueries.push_back(line(terms.query, stored, head * size, p));
      }
      int64_t step = op.getDomain().getFactor() / terms.distance.query;
      bool isTable = terms.hasRowTable();
      int64_t all = cast<RankedTensorType>(terms.rows.getType()).getDimSize(isTable ? 0 : 1);
      int64_t valid = isTable ? all : rows.length(batch * positions, step, all);
      for (int64_t d = 0; d < valid; ++d) {
        distances.push_back(isTable ? columns(termRows, d, 0)
                                    : line(terms.rows, termRows, head * size, d));
      }
    }
    if (terms.bias) {
      TensorRows stored(terms.bias, launch.operands[first + terms.count() - 1]);
      int64_t count = cast<RankedTensorType>(terms.bias.getType()).getDimSize(0);
      for (int64_t distance = 0; distance < count; ++distance) {
        biases.push_back(stored.at(distance, head));
      }
    }
  }

  int64_t getValidRows(dispatch::DomainAttr domain) const {
    return rows.length(batch * positions, domain.getFactor(), domain.getPositions());
  }
  int64_t countKeys(Op op, const OracleLaunch &launch) const {
    Value counts = op.getKeyCounts();
    if (!counts) {
      return getValidRows(op.getKeys());
    }
    auto operand = llvm::find(op->getOperands(), counts).getIndex();
    return static_cast<const int64_t *>(launch.operands[operand])[keyBatch];
  }
  int64_t queryColumn() const { return int64_t(op.getQueryColumn()) + head * size; }
  int64_t keyColumn() const { return int64_t(op.getKeyColumn()) + keyHead * size; }
  int64_t valueColumn() const { return int64_t(op.getValueColumn()) + keyHead * size; }
  int64_t row(int64_t p) const { return batch * positions + p; }
  /// Returns the positions [first, second) whose rows are valid.
  std::pair<int64_t, int64_t> run() const {
    int64_t first = rows.position(row(0)), last = first;
    while (last - first < positions && rows.isValid(row(last - first))) {
      ++last;
    }
    return {first, last};
  }
  /// Returns the row in a tensor's memory that holds position `p`. A ring may hold a later position
  /// there, which the mask of a decode step then excludes.
  int64_t inMemory(Value tensor, int64_t p) const { return findRingRow(tensor, batch, p); }

  Numbers columns(const TensorRows &stored, int64_t row, int64_t column) const {
    Numbers numbers;
    for (int64_t c = 0; c < size; ++c) {
      numbers.push_back(stored.at(row, column + c));
    }
    return numbers;
  }
  Numbers line(Value tensor, const TensorRows &stored, int64_t column, int64_t p) const {
    return columns(stored, inMemory(tensor, p), column);
  }
  Number factor(Number number) const { return isBf16 ? roundedToBf16(number) : number; }

  bool isInRange(int64_t p, int64_t j) const {
    return range.empty() || (j >= range[0][row(p)] && j < range[1][row(p)]);
  }
  /// Returns the keys that row p attends to.
  std::vector<int64_t> seen(int64_t p) const {
    std::vector<int64_t> found;
    for (int64_t j = 0; j < keys; ++j) {
      if (isInRange(p, j) && reference::contains(op.getMask(), p, j, keys)) {
        found.push_back(j);
      }
    }
    return found;
  }
  /// Returns the dot product; `more` counts additional roundings besides the ones of its own sum.
  Number dot(const Numbers &a, const Numbers &b, int64_t more = 0) const {
    ProductSum sum;
    for (size_t i = 0; i < a.size(); ++i) {
      sum.add(a[i], b[i]);
    }
    return sum.total(more);
  }
  /// Returns the row by distance, and the row of the table of biases, for two positions.
  int64_t distanceRow(int64_t p, int64_t j) const {
    return op.getTerms().row(p, j, int64_t(distances.size()));
  }
  int64_t biasRow(int64_t p, int64_t j) const {
    return op.getTerms().row(p, j, int64_t(biases.size()));
  }
  /// Returns the score region's arguments. A kernel whose region adds its two products may
  /// accumulate both in one sum.
  Numbers buildPlace(int64_t p, int64_t j) const {
    int64_t more = distances.empty() ? 0 : size;
    Numbers place{dot(q[p], k[j], more), {double(p), 0}, {double(j), 0}, {double(head), 0}};
    if (!distances.empty()) {
      place.push_back(dot(positionQueries[p], distances[distanceRow(p, j)], more));
    }
    if (!biases.empty()) {
      place.push_back(biases[biasRow(p, j)]);
    }
    return place;
  }
  FailureOr<Number> score(const Numbers &place, int64_t p, int64_t j) {
    auto yielded = evaluateScalar(scoreBody, place, {row(p), p});
    if (failed(yielded)) {
      return failure();
    }
    return (*yielded)[0];
  }
  /// Returns 0, or 1 / (1 - dropout).
  Number keep(int64_t p, int64_t j) {
    double rate = op.getDropout().convertToDouble();
    if (rate == 0) {
      return {1, 0};
    }
    int64_t text = launch.drawRows ? launch.drawRows[batch] : batch;
    auto parts = static_cast<int64_t>(op.getDrawParts());
    uint64_t element = uint64_t(((text * int64_t(op.getHeads()) + head) * positions * parts + p) *
                                    keyPositions * parts +
                                j);
    bool dropped = draws(launch, int64_t(op.getRandomId()), element, rate);
    return dropped ? Number{} : divide({1, 0}, subtract({1, 0}, {rate, 0}));
  }

  mutable Op op; ///< accessors of ops are not const
  const OracleLaunch &launch;
  const DomainRows rows;
  Body scoreBody;
  int64_t batch, keyBatch;                     ///< row of the batch, and the row of its keys
  int64_t head, size, positions, keyPositions; ///< number of queries and keys
  int64_t queries, keys, keyHead; ///< valid queries and keys; index of the key/value head
  bool isBf16 = false;
  NumberLines q, k, v;
  NumberLines positionQueries, distances; ///< empty without rows by distance
  Numbers biases;
  std::vector<const int32_t *> range; ///< first keys and ends, by row
};

/// Runs over every row of the batch and every head, in order.
template <typename Op>
LogicalResult eachHead(Op op, const OracleLaunch &launch,
                       function_ref<LogicalResult(Head<Op> &)> body) {
  dispatch::DomainAttr domain = op.getDomain();
  bool isCut = domain.getFactor() != 0 && !domain.getScheduled();
  int64_t batches = isCut ? std::min(domain.getBatch(), launch.rows) : domain.getBatch();
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t head = 0; head < int64_t(op.getHeads()); ++head) {
      Head<Op> one(op, launch, batch, head);
      if (failed(body(one))) {
        return failure();
      }
    }
  }
  return success();
}

LogicalResult judgeForwardRow(Head<dispatch::AttentionOp> &head, int64_t p, ValueComparison &output,
                              ValueComparison &lse) {
  std::vector<int64_t> keys = head.seen(p);
  Numbers scores;
  double most = -INFINITY;
  for (int64_t j : keys) {
    auto score = head.score(head.buildPlace(p, j), p, j);
    if (failed(score)) {
      return failure();
    }
    scores.push_back(*score);
    most = std::max(most, score->value);
  }
  int64_t row = head.inMemory(head.op.getOutput(), p), lseRow = head.inMemory(head.op.getLse(), p);
  if (keys.empty()) {
    lse.check(lseRow, head.head, {-INFINITY, 0});
    for (int64_t c = 0; c < head.size; ++c) {
      output.check(row, head.head * head.size + c, {});
    }
    return success();
  }
  ProductSum total;
  std::vector<ProductSum> sums(head.size);
  for (auto [j, score] : llvm::zip_equal(keys, scores)) {
    Number p0 = monotone(subtract(score, {most, unit * std::abs(most)}), std::exp);
    total.add(p0);
    Number kept = head.factor(multiply(p0, head.keep(p, j)));
    for (int64_t c = 0; c < head.size; ++c) {
      sums[c].add(kept, head.v[j][c]);
    }
  }
  // Every block of keys rescales the previous sums.
  int64_t rescalings = 2 * int64_t(keys.size());
  Number sum = total.total(rescalings);
  for (int64_t c = 0; c < head.size; ++c) {
    output.check(row, head.head * head.size + c, divide(sums[c].total(rescalings), sum));
  }
  lse.check(lseRow, head.head, add({most, 4 * unit * std::abs(most)}, monotone(sum, std::log)));
  return success();
}

/// Gradients of one row of the batch. Gradients of keys and values are summed over their query
/// heads.
class AttentionGradients {
public:
  AttentionGradients(dispatch::AttentionBackwardOp op, const OracleLaunch &launch)
      : op(op), launch(launch), scoreGradient(op.getScoreGradient().front(), launch),
        output(op.getOutput(), launch.operands[3]), lse(op.getLse(), launch.operands[4]),
        outputGradient(op.getOutputGradient(), launch.operands[5]) {
    for (Value gradient : op.getGradients()) {
      sums.emplace_back(cast<RankedTensorType>(gradient.getType()).getNumElements());
    }
    sources = unsigned(op.getSourceGradients().size());
    if (op.getRotary()) {
      rotary.emplace(op.getRotary(),
                     launch.operands[llvm::find(op->getOperands(), op.getRotary()).getIndex()]);
    }
  }

  LogicalResult add(Head<dispatch::AttentionBackwardOp> &head);
  void judge(Judgement &judgement);

private:
  LogicalResult addRow(Head<dispatch::AttentionBackwardOp> &head, int64_t p, NumberLines &dk,
                       NumberLines &dv);
  void addTerms(Head<dispatch::AttentionBackwardOp> &head, int64_t p, int64_t j,
                ArrayRef<Number> gradients);
  bool isNobodys(unsigned result, int64_t row, int64_t positions);
  void put(Head<dispatch::AttentionBackwardOp> &head, unsigned operand, int64_t p, int64_t column,
           const Numbers &line);
  /// Returns the number of the gradient of operand 0, 1 or 2; terms, from 3 on, follow.
  unsigned getLineNumber(unsigned operand) const {
    return operand < 3 ? dispatch::getGradientIndex(operand, sources) : sources + operand - 3;
  }
  RankedTensorType getOperandType(unsigned operand) {
    return cast<RankedTensorType>(op.getGradients()[getLineNumber(operand)].getType());
  }
  Numbers rotatedBack(Numbers line, int64_t p) const;

  dispatch::AttentionBackwardOp op;
  const OracleLaunch &launch;
  Body scoreGradient;
  TensorRows output, lse, outputGradient;
  std::optional<TensorRows> rotary;
  unsigned sources;                          ///< gradients of queries, keys and values
  std::vector<std::vector<ProductSum>> sums; ///< sums by gradient: [rows][width], over heads
};

void AttentionGradients::put(Head<dispatch::AttentionBackwardOp> &head, unsigned operand, int64_t p,
                             int64_t column, const Numbers &line) {
  RankedTensorType type = getOperandType(operand);
  int64_t row = head.batch * type.getDimSize(1) + p;
  for (int64_t c = 0; c < head.size; ++c) {
    sums[getLineNumber(operand)][row * type.getDimSize(2) + column + c].add(line[c]);
  }
}

/// Rotates pairs (2i, 2i + 1) back by the row's angle.
Numbers AttentionGradients::rotatedBack(Numbers line, int64_t p) const {
  for (size_t i = 0; rotary && i < line.size(); i += 2) {
    Number cosine = rotary->at(p, int64_t(i)), sine = rotary->at(p, int64_t(i) + 1);
    Number x = line[i], y = line[i + 1];
    line[i] = oracle::add(multiply(x, cosine), multiply(y, sine));
    line[i + 1] = subtract(multiply(y, cosine), multiply(x, sine));
  }
  return line;
}

/// Adds the gradients of terms. With r the row of p and j, and `gradients` of the region's
/// arguments, dt of the product by distance and then db of the bias: dQv[p] += dt R[r], dR[r] += dt
/// Qv[p], db[r] += db.
void AttentionGradients::addTerms(Head<dispatch::AttentionBackwardOp> &head, int64_t p, int64_t j,
                                  ArrayRef<Number> gradients) {
  constexpr unsigned positionQuery = 3, distanceRow = 4;
  Number ofProduct = head.distances.empty() ? Number() : head.factor(gradients.front());
  dispatch::DistanceTerms terms = head.op.getTerms();
  auto addLine = [&](unsigned operand, int64_t row, const Numbers &line) {
    RankedTensorType type = getOperandType(operand);
    bool isTable = operand == distanceRow && terms.hasRowTable();
    int64_t column = isTable ? 0 : head.head * head.size;
    int64_t first = (head.batch * type.getDimSize(1) + row) * type.getDimSize(2) + column;
    for (int64_t c = 0; c < head.size; ++c) {
      sums[getLineNumber(operand)][first + c].add(ofProduct, line[c]);
    }
  };
  if (!head.distances.empty()) {
    int64_t row = head.distanceRow(p, j);
    addLine(positionQuery, p, head.distances[row]);
    int64_t part = head.head * terms.countDistances(head.positions) + terms.distance.between(p, j);
    addLine(distanceRow, terms.hasRowTable() ? part : row, head.positionQueries[p]);
  }
  if (!head.biases.empty()) {
    auto type = cast<RankedTensorType>(op.getGradients().back().getType());
    int64_t part = terms.isCentered ? terms.distance.between(p, j) : head.biasRow(p, j);
    int64_t row = head.batch * type.getDimSize(1) + part;
    sums.back()[row * type.getDimSize(2) + head.head].add(gradients.back());
  }
}

LogicalResult AttentionGradients::addRow(Head<dispatch::AttentionBackwardOp> &head, int64_t p,
                                         NumberLines &dk, NumberLines &dv) {
  int64_t column = head.head * head.size;
  Numbers o = head.line(op.getOutput(), output, column, p),
          g = head.line(op.getOutputGradient(), outputGradient, column, p);
  Number delta = head.dot(o, g), own = lse.at(head.row(p), head.head);
  std::vector<ProductSum> dq(head.size);
  for (int64_t j : head.seen(p)) {
    Numbers place = head.buildPlace(p, j);
    auto score = head.score(place, p, j);
    if (failed(score)) {
      return failure();
    }
    Number probability = monotone(subtract(*score, own), std::exp), keep = head.keep(p, j);
    Number gradient =
        multiply(probability, subtract(multiply(head.dot(g, head.v[j]), keep), delta));
    place.push_back(gradient);
    auto yielded = evaluateScalar(scoreGradient, place, {head.row(p), p});
    if (failed(yielded)) {
      return failure();
    }
    Number ds = head.factor((*yielded)[0]), kept = head.factor(multiply(probability, keep));
    addTerms(head, p, j, ArrayRef(*yielded).drop_front());
    for (int64_t c = 0; c < head.size; ++c) {
      dq[c].add(ds, head.k[j][c]);
      dk[j][c] = oracle::add(dk[j][c], multiply(ds, head.q[p][c]));
      dv[j][c] = oracle::add(dv[j][c], multiply(kept, g[c]));
    }
  }
  Numbers line;
  for (const ProductSum &sum : dq) {
    line.push_back(sum.total(launch.splits));
  }
  put(head, 0, p, head.queryColumn(), rotatedBack(line, p));
  return success();
}

LogicalResult AttentionGradients::add(Head<dispatch::AttentionBackwardOp> &head) {
  NumberLines dk(head.keys, Numbers(head.size)), dv = dk;
  for (int64_t p = 0; p < head.queries; ++p) {
    if (failed(addRow(head, p, dk, dv))) {
      return failure();
    }
  }
  for (int64_t j = 0; j < head.keys; ++j) {
    put(head, 1, j, head.keyColumn(), rotatedBack(dk[j], j));
    put(head, 2, j, head.valueColumn(), dv[j]);
  }
  return success();
}

/// Returns true for rows of an axis of segments that follow the rows of a text, which are unused.
bool AttentionGradients::isNobodys(unsigned result, int64_t row, int64_t positions) {
  dispatch::DomainAttr domain = op.getResultDomain(result);
  int64_t batch = row / positions, factor = domain ? domain.getFactor() : 0;
  bool isThere =
      batch < launch.rows && row % positions < validLength(launch, batch, factor, positions);
  return op.getDomain().getAxis() && factor != 0 && !isThere;
}

void AttentionGradients::judge(Judgement &judgement) {
  auto judgeColumns = [&](unsigned operand, int64_t first, int64_t count) {
    ValueComparison result(op, launch, getLineNumber(operand), judgement);
    RankedTensorType type = getOperandType(operand);
    for (int64_t row = 0; row < type.getDimSize(0) * type.getDimSize(1); ++row) {
      if (isNobodys(getLineNumber(operand), row, type.getDimSize(1))) {
        continue;
      }
      for (int64_t c = first; c < first + count; ++c) {
        result.check(row, c, sums[getLineNumber(operand)][row * type.getDimSize(2) + c].total());
      }
    }
  };
  int64_t size = int64_t(op.getHeadSize()), keys = int64_t(op.getKvHeads()) * size;
  judgeColumns(0, int64_t(op.getQueryColumn()), int64_t(op.getHeads()) * size);
  judgeColumns(1, int64_t(op.getKeyColumn()), keys);
  judgeColumns(2, int64_t(op.getValueColumn()), keys);
  for (size_t term = 0; term < op.getTerms().count(); ++term) {
    unsigned operand = unsigned(3 + term);
    judgeColumns(operand, 0, getOperandType(operand).getDimSize(2));
  }
}

} // namespace

LogicalResult sluice::oracle::judgeAttention(dispatch::AttentionOp op, const OracleLaunch &launch,
                                             Judgement &judgement) {
  ValueComparison output(op, launch, 0, judgement), lse(op, launch, 1, judgement);
  return eachHead<dispatch::AttentionOp>(op, launch, [&](Head<dispatch::AttentionOp> &head) {
    auto [first, last] = head.run();
    for (int64_t p = first; p < last; ++p) {
      if (failed(judgeForwardRow(head, p, output, lse))) {
        return failure();
      }
    }
    return success();
  });
}

LogicalResult sluice::oracle::judgeAttentionBackward(dispatch::AttentionBackwardOp op,
                                                     const OracleLaunch &launch,
                                                     Judgement &judgement) {
  AttentionGradients gradients(op, launch);
  if (failed(eachHead<dispatch::AttentionBackwardOp>(
          op, launch,
          [&](Head<dispatch::AttentionBackwardOp> &head) { return gradients.add(head); }))) {
    return failure();
  }
  gradients.judge(judgement);
  return success();
}
