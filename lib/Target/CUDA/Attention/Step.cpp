// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of a decode step: one block per query and head, or several if there are few queries and
// long rings. A team of lanes holds the columns of a head and processes every n-th key with its own
// online softmax, where n is the number of teams of the query. The order of every sum depends on
// absolute positions of keys and on shapes, not on their slots in the ring.
#include "../Frame/Arrival.h"
#include "../Frame/Lanes.h"
#include "../TensorCore/TensorCore.h"
#include "Attention.h"
#include "sluice/Target/Common/Score.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

namespace {

constexpr int64_t threads = 256;
constexpr int64_t keysAtOnce = 4; ///< keys of a team whose loads overlap
constexpr float infinity = std::numeric_limits<float>::infinity();

RankedTensorType getRowType(Value value) { return cast<RankedTensorType>(value.getType()); }

Value exponential(Emitter &e, Value x) { return math::ExpOp::create(e.b, x); }

Value f32(Emitter &e, float value) {
  return arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(value));
}

Value isEqual(Emitter &e, Value x, float value) {
  return arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, x, f32(e, value));
}

Value isZero(Emitter &e, Value index) {
  return arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, index, e.index(0));
}

class StepAttention {
public:
  StepAttention(dispatch::AttentionOp op, ModuleOp module, StringRef name);
  FailureOr<Kernel> generate();
  Frame &kernelFrame() { return frame; }

private:
  /// Maximum, sum and output columns of a team, in the order of loop-carried values.
  using StepState = Values;
  Value findKeyBatch();
  Value countKeys(const Row &row);
  void emitQuery();
  Values loadColumns(Value memory, Value row, int64_t first, Value head);
  Values loadOwnColumns(Value memory, Value row, int64_t first);
  Value distanceRow(Value key, Value rows, int64_t first);
  /// Adds the lane's contribution to the dot product with a row to `dot`.
  Value computeDotProduct(const Values &factor, const Values &columns, Value dot);
  std::pair<Value, Value> computeProducts(Value memory, Value key);
  Value computeBias(Value key); ///< null if there are no biases
  StepState addKeys(Value q0, ValueRange before);
  /// Returns number `i` of part `part`.
  using LoadPart = llvm::function_ref<Value(Value part, Value i)>;
  void storeTeam(const StepState &state);
  void merge(int64_t parts, LoadPart load,
             llvm::function_ref<void(Value column, const StepState &)> body);
  void storeResult(Value column, const StepState &found);
  void emitMerge(const StepState &state);
  Value ringRow(Value tensor, Value position) { return ringRow(tensor, position, batch); }
  Value ringRow(Value tensor, Value position, Value batchRow) {
    Row row;
    row.batch = batchRow;
    row.position = position;
    return frame.memoryRow(getRowType(tensor).getDimSize(1), row);
  }
  /// Address in shared memory of number `i` of the state of team `team`.
  Value partAt(Value team, Value i) {
    return core->shared(e.mul(e.add(e.mul(team, partNumbers), i), 4));
  }

  dispatch::AttentionOp op;
  dispatch::DomainAttr domain;
  const dispatch::DistanceTerms terms;
  Frame frame;
  Emitter &e;
  const int64_t head, heads, kvHeads;
  const int64_t vector;      ///< columns per load of a lane
  const int64_t team;        ///< lanes of a team, a power of two
  const int64_t chunks;      ///< loads of a lane per key
  const int64_t teams;       ///< per block
  const int64_t partNumbers; ///< floats that a team stores: odd, to avoid bank conflicts between
                             ///< teams
  const int64_t splits;      ///< blocks per query
  std::unique_ptr<TensorCore> core;
  Value thread, laneOfTeam, teamOfBlock;
  Value batch, position, headNumber, keyHead;
  Value keyBatch;              ///< row of the batch whose keys the row reads
  Value length, distances;     ///< number of keys and of rows by distance
  Value queryNumber, split;    ///< among all rows and heads; among the blocks of the query
  Values query, positionQuery; ///< the latter is empty without rows by distance
};

int64_t vectorOfHeads(dispatch::AttentionOp op) {
  return getVectorElements(getRowType(op.getKey()).getElementType(),
                           {int64_t(op.getHeadSize()), int64_t(op.getQueryColumn()),
                            int64_t(op.getKeyColumn()), int64_t(op.getValueColumn())});
}

int64_t getLaneCount(int64_t vectors) {
  return std::min<int64_t>(threadsPerWarp, int64_t(llvm::PowerOf2Ceil(uint64_t(vectors))));
}

/// Returns the number of blocks that share the keys of a query: enough for the multiprocessors of a
/// large GPU, as long as each has at least two iterations over the ring.
int64_t countSplits(dispatch::AttentionOp op, int64_t turn) {
  constexpr int64_t wanted = 132;
  int64_t queries = op.getDomain().getLaunchRows() * int64_t(op.getHeads());
  int64_t turns = llvm::divideCeil(getRowType(op.getKey()).getDimSize(1), turn);
  return std::max<int64_t>(std::min<int64_t>(wanted / queries, turns / 2), 1);
}

} // namespace

StepAttention::StepAttention(dispatch::AttentionOp op, ModuleOp module, StringRef name)
    : op(op), domain(op.getDomain()), terms(op.getTerms()),
      frame(op, domain, module, name, threads), e(frame.e), head(op.getHeadSize()),
      heads(op.getHeads()), kvHeads(op.getKvHeads()), vector(vectorOfHeads(op)),
      team(getLaneCount(head / vector)), chunks(llvm::divideCeil(head / vector, team)),
      teams(threads / team), partNumbers((head + 2) | 1),
      splits(countSplits(op, teams * keysAtOnce)) {}

/// Loads this lane's columns of a head's row; columns past the last repeat it.
Values StepAttention::loadColumns(Value memory, Value row, int64_t first, Value number) {
  Values columns;
  Value start = e.add(e.mul(number, head), first);
  for (int64_t i = 0; i < chunks; ++i) {
    Value column = e.mul(e.add(laneOfTeam, i * team), vector);
    column = e.add(start, e.min(column, e.index(head - vector)));
    llvm::append_range(columns, loadElements(frame, memory, row, column, vector));
  }
  return columns;
}

/// Loads this lane's columns of a row of the query's head, with zeros for repeated columns.
Values StepAttention::loadOwnColumns(Value memory, Value row, int64_t first) {
  Values columns = loadColumns(memory, row, first, headNumber);
  for (int64_t i = 0; i < chunks; ++i) {
    Value isOwn = e.less(e.mul(e.add(laneOfTeam, i * team), vector), e.index(head));
    for (int64_t j = 0; j < vector; ++j) {
      Value &column = columns[i * vector + j];
      column = e.select(isOwn, column, f32(e, 0));
    }
  }
  return columns;
}

/// Returns the index of the row by distance, or bias, of `key` among `rows` of them; the first one
/// is for distance `first`.
Value StepAttention::distanceRow(Value key, Value rows, int64_t first) {
  Value distance = emitDistance(e, terms.distance, position, key);
  return emitDistanceRow(e, first == 0 ? distance : e.add(distance, -first), rows);
}

Value StepAttention::computeDotProduct(const Values &factor, const Values &columns, Value dot) {
  for (auto [x, y] : llvm::zip_equal(factor, columns)) {
    dot = e.fma(x, y, dot);
  }
  return dot;
}

/// Returns the arguments of the score region for `key`: the product with its row, and the product
/// with the row of its distance (null without such rows). Both are the sum if the region adds the
/// two.
std::pair<Value, Value> StepAttention::computeProducts(Value memory, Value key) {
  Values columns =
      loadColumns(memory, ringRow(op.getKey(), key, keyBatch), int64_t(op.getKeyColumn()), keyHead);
  Value raw = computeDotProduct(query, columns, f32(e, 0));
  if (!terms.rows) {
    return {sumOfLanes(frame, raw, team), Value()};
  }
  if (terms.hasRowTable()) {
    int64_t rows = getRowType(terms.rows).getDimSize(0);
    Value row = distanceRow(key, e.index(rows), terms.firstDistance(rows));
    columns = loadColumns(frame.buffer(4), row, 0, e.index(0));
  } else {
    Value row = ringRow(terms.rows, distanceRow(key, distances, 0));
    columns = loadColumns(frame.buffer(4), row, 0, headNumber);
  }
  if (sumOfProducts(op.getScore())) {
    Value sum = sumOfLanes(frame, computeDotProduct(positionQuery, columns, raw), team);
    return {sum, sum};
  }
  Value byDistance = computeDotProduct(positionQuery, columns, f32(e, 0));
  return {sumOfLanes(frame, raw, team), sumOfLanes(frame, byDistance, team)};
}

Value StepAttention::computeBias(Value key) {
  if (!terms.bias) {
    return {};
  }
  int64_t rows = getRowType(terms.bias).getDimSize(0);
  Value row = distanceRow(key, e.index(rows), terms.firstDistance(rows));
  Value table = frame.buffer(terms.rows ? 5 : 3);
  return e.loadScalar(table, {row, headNumber});
}

/// Processes the keys from `q0` that the teams take in one iteration. A masked key counts with
/// e^-inf, and its value as zero, for any contents of its slot.
StepAttention::StepState StepAttention::addKeys(Value q0, ValueRange before) {
  Value key = frame.buffer(1), value = frame.buffer(2);
  Value p = e.toInteger(position), n = e.toInteger(length);
  Values scores, seen, numbers;
  for (int64_t u = 0; u < keysAtOnce; ++u) {
    Value q = e.add(q0, e.add(teamOfBlock, u * teams));
    numbers.push_back(e.min(q, e.add(length, -1)));
    auto [raw, byDistance] = computeProducts(key, numbers.back());
    seen.push_back(emitRelation(e, op.getMask(), p, e.toInteger(q), n));
    Value place[] = {raw, p, e.toInteger(q), e.toInteger(headNumber)};
    Value given[] = {byDistance, computeBias(numbers.back())};
    Value sum = raw == byDistance ? raw : Value();
    Value score = emitAll(e, op.getScore(), withTerms(place, given), sum).front();
    scores.push_back(e.select(seen.back(), score, f32(e, -infinity)));
  }
  Value most = before[0];
  for (Value score : scores) {
    most = LLVM::MaxNumOp::create(e.b, most, score);
  }
  // A team without any key so far has maximum -inf; subtracting 0 instead makes its terms e^-inf =
  // 0.
  Value shift = e.select(isEqual(e, most, -infinity), f32(e, 0), most);
  Value factor = exponential(e, e.subf(before[0], shift));
  StepState after{most, e.mulf(before[1], factor)};
  for (Value column : before.drop_front(2)) {
    after.push_back(e.mulf(column, factor));
  }
  for (auto [u, score] : llvm::enumerate(scores)) {
    Value chance = exponential(e, e.subf(score, shift));
    after[1] = e.addf(after[1], chance);
    Values columns = loadColumns(value, ringRow(op.getValue(), numbers[u], keyBatch),
                                 int64_t(op.getValueColumn()), keyHead);
    for (auto [i, column] : llvm::enumerate(columns)) {
      Value counted = e.select(seen[u], column, f32(e, 0));
      after[2 + i] = e.fma(chance, counted, after[2 + i]);
    }
  }
  return after;
}

/// Stores the state of this team in shared memory.
void StepAttention::storeTeam(const StepState &state) {
  e.when(isZero(e, laneOfTeam), [&] {
    core->store(state[0], partAt(teamOfBlock, e.index(0)), 4);
    core->store(state[1], partAt(teamOfBlock, e.index(1)), 4);
  });
  for (int64_t i = 0; i < chunks; ++i) {
    Value column = e.mul(e.add(laneOfTeam, i * team), vector);
    e.when(e.less(column, e.index(head)), [&] {
      for (int64_t j = 0; j < vector; ++j) {
        core->store(state[2 + i * vector + j], partAt(teamOfBlock, e.add(column, 2 + j)), 4);
      }
    });
  }
}

/// Merges parts in order, one column of the head per thread at a time. `body` gets the maximum
/// score, the sum and the sum of the column.
void StepAttention::merge(int64_t parts, LoadPart load,
                          llvm::function_ref<void(Value column, const StepState &)> body) {
  auto most = [&](Value part, ValueRange so) {
    return Values{LLVM::MaxNumOp::create(e.b, so[0], load(part, e.index(0)))};
  };
  Value greatest =
      e.loop(e.index(0), e.index(parts), 1, ValueRange{f32(e, -infinity)}, most).front();
  Value shift = e.select(isEqual(e, greatest, -infinity), f32(e, 0), greatest);
  e.loop(thread, e.index(head), threads, [&](Value column) {
    auto add = [&](Value part, ValueRange so) {
      Value factor = exponential(e, e.subf(load(part, e.index(0)), shift));
      return Values{e.fma(load(part, e.index(1)), factor, so[0]),
                    e.fma(load(part, e.add(column, 2)), factor, so[1])};
    };
    Values sums = e.loop(e.index(0), e.index(parts), 1, ValueRange{f32(e, 0), f32(e, 0)}, add);
    body(column, {greatest, sums[0], sums[1]});
  });
}

void StepAttention::storeResult(Value column, const StepState &found) {
  Value output = frame.buffer(op->getNumOperands()), lse = frame.buffer(op->getNumOperands() + 1);
  Value isNone = isEqual(e, found[1], 0);
  Value divisor = e.select(isNone, f32(e, 1), found[1]);
  Value result = arith::DivFOp::create(e.b, found[2], divisor);
  Type element = cast<MemRefType>(output.getType()).getElementType();
  if (!element.isF32()) {
    result = arith::TruncFOp::create(e.b, element, result);
  }
  Value line = ringRow(op.getOutput(), position);
  memref::StoreOp::create(e.b, result, output,
                          ValueRange{line, e.add(e.mul(headNumber, head), column)});
  e.when(isZero(e, column), [&] {
    Value logarithm = e.addf(found[0], math::LogOp::create(e.b, divisor));
    logarithm = e.select(isNone, f32(e, -infinity), logarithm);
    e.store(logarithm, lse, {ringRow(op.getLse(), position), headNumber});
  });
}

/// Merges the states of teams to the result, through the workspace if several blocks share a query.
void StepAttention::emitMerge(const StepState &state) {
  storeTeam(state);
  core->barrier();
  auto ofTeam = [&](Value part, Value i) -> Value {
    return core->load(e.b.getF32Type(), partAt(part, i), 4);
  };
  auto storeAll = [&](Value column, const StepState &found) { storeResult(column, found); };
  if (splits == 1) {
    merge(teams, ofTeam, storeAll);
    return;
  }
  auto type =
      MemRefType::get({domain.getLaunchRows() * heads * splits, head + 2}, e.b.getF32Type());
  Value parts = frame.workspaceView(type);
  Value first = e.mul(queryNumber, splits), own = e.add(first, split);
  merge(teams, ofTeam, [&](Value column, const StepState &found) {
    e.store(found[2], parts, {own, e.add(column, 2)});
    e.when(isZero(e, column), [&] {
      e.store(found[0], parts, {own, e.index(0)});
      e.store(found[1], parts, {own, e.index(1)});
    });
  });
  Value slot = core->shared(e.index(teams * partNumbers * 4));
  e.when(isLastToArrive(frame, queryNumber, splits, slot), [&] {
    auto ofBlock = [&](Value part, Value i) {
      return e.loadScalar(parts, {e.add(first, part), i});
    };
    merge(splits, ofBlock, storeAll);
  });
}

/// Returns the row of the batch whose keys this row reads.
Value StepAttention::findKeyBatch() {
  Value keyRows = op.getKeyRows();
  if (!keyRows) {
    return batch;
  }
  auto operand = static_cast<unsigned>(llvm::find(op->getOperands(), keyRows).getIndex());
  Value row = e.loadScalar(frame.buffer(operand), {batch});
  return arith::IndexCastOp::create(e.b, e.b.getIndexType(), row);
}

/// Returns the number of valid keys of the row of the batch.
Value StepAttention::countKeys(const Row &row) {
  if (Value counts = op.getKeyCounts()) {
    auto operand = static_cast<unsigned>(llvm::find(op->getOperands(), counts).getIndex());
    Value count = e.loadScalar(frame.buffer(operand), {keyBatch});
    return arith::IndexCastOp::create(e.b, e.b.getIndexType(), count);
  }
  return arith::CeilDivUIOp::create(e.b, row.length, e.index(op.getKeys().getFactor()));
}

void StepAttention::emitQuery() {
  query = loadOwnColumns(frame.buffer(0), ringRow(op.getQuery(), position),
                         int64_t(op.getQueryColumn()));
  if (terms.rows) {
    positionQuery = loadOwnColumns(frame.buffer(3), ringRow(terms.query, position), 0);
  }
  StepState state(2 + chunks * vector, f32(e, 0));
  state[0] = f32(e, -infinity);
  int64_t turn = teams * keysAtOnce;
  state =
      e.loop(e.mul(split, turn), length, turn * splits, state, [&](Value q0, ValueRange before) {
        Value some =
            classifyBlock(e, op.getMask(), position, 1, q0, turn, {e.add(position, 1), length})
                .some;
        auto branch = scf::IfOp::create(e.b, before.getTypes(), some, /*withElseRegion=*/true);
        OpBuilder::InsertionGuard guard(e.b);
        e.b.setInsertionPointToStart(branch.thenBlock());
        scf::YieldOp::create(e.b, addKeys(q0, before));
        e.b.setInsertionPointToStart(branch.elseBlock());
        scf::YieldOp::create(e.b, before);
        return Values(branch.getResults());
      });
  emitMerge(state);
}

FailureOr<Kernel> StepAttention::generate() {
  core = std::make_unique<TensorCore>(frame);
  ImplicitLocOpBuilder &b = frame.b;
  thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  laneOfTeam = arith::RemUIOp::create(b, thread, e.index(team));
  teamOfBlock = arith::DivUIOp::create(b, thread, e.index(team));
  split = arith::RemUIOp::create(b, frame.block, e.index(splits));
  queryNumber = arith::DivUIOp::create(b, frame.block, e.index(splits));
  headNumber = arith::RemUIOp::create(b, queryNumber, e.index(heads));
  keyHead = arith::DivUIOp::create(b, headNumber, e.index(heads / kvHeads));
  Row row = frame.row(arith::DivUIOp::create(b, queryNumber, e.index(heads)));
  batch = row.batch;
  position = row.position;
  keyBatch = findKeyBatch();
  length = countKeys(row);
  distances = arith::CeilDivUIOp::create(b, row.length, e.index(distanceStep(op)));
  e.when(row.valid, [&] { emitQuery(); });
  int64_t rows = domain.getLaunchRows();
  double keys = double(getRowType(op.getKey()).getDimSize(1) * domain.getBatch());
  Kernel kernel =
      frame.kernel(rows * heads * splits, "attention",
                   (terms.rows ? 6.0 : 4.0) * double(heads * head * domain.getPositions()) * keys,
                   (teams * partNumbers + 1) * 4);
  kernel.workspaceBytes = splits > 1 ? rows * heads * splits * (head + 2) * 4 : 0;
  kernel.counters = splits > 1 ? rows * heads : 0;
  double bytes = getRowType(op.getKey()).getElementTypeBitWidth() / 8;
  kernel.bytes = 2 * double(kvHeads * head) * bytes * keys + 2 * double(kernel.workspaceBytes) +
                 double(rows * heads * head) *
                     (bytes + getRowType(op.getOutput()).getElementTypeBitWidth() / 8) +
                 (terms.rows ? double(heads * head) * bytes * (keys + double(rows)) : 0) +
                 (terms.bias ? double(getRowType(terms.bias).getNumElements()) * sizeof(float) : 0);
  return kernel;
}

FailureOr<Kernel> cuda::generateStepAttention(dispatch::AttentionOp op, ModuleOp module,
                                              StringRef name) {
  StepAttention attention(op, module, name);
  return attention.kernelFrame().finish(attention.generate());
}
