// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward, three launches. The first forms two numbers a query in the workspace. Then
// blocks of 64 keys sum dK and dV over queries that pass by, those of all query heads of a group
// one after another, and blocks of 64 queries sum dQ over keys. Both recompute P from the
// log-sum-exps, seven products in all where one kernel would do five: nothing is summed across
// blocks, so that the order of every sum is fixed.
#include "Attention.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

namespace {

constexpr int64_t fixedRows = fragmentRows * warps;
constexpr int64_t widestKept = 64; ///< heads whose fixed factors stay in registers
constexpr int64_t lanesPerQuery = 8;

enum Operand : unsigned { Query, Key, ValueRows, Output, Lse, OutputGradient, Rotary };

/// What the launches share.
class BackwardStage {
public:
  BackwardStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module,
                StringRef name);

protected:
  /// One head's columns of an operand that holds its rows from `column` on.
  Source source(unsigned operand, Value headIndex, int64_t column, bool rotated);
  Source result(Value headIndex, int64_t column, bool rotated);
  Value statistics(); ///< [2 B heads][T rounded up]: log-sum-exps times log2(e), then deltas
  Value statisticsRow(int64_t which, Value head);
  /// P from raw scores; positions by place.
  using Positions = llvm::function_ref<std::pair<Value, Value>(const Place &)>;
  using Numbers = llvm::function_ref<Value(const Place &)>;
  Values probabilities(const Values &raw, int64_t columns, Value head, Value full,
                       Positions positions, Numbers logSum);
  /// The gradients of raw scores from those of P. With dropout P is marked.
  Values scoreGradients(const Values &raw, const Values &probability, const Values &change,
                        int64_t columns, Value head, Positions positions, Numbers delta);
  Stage finish(int64_t blocks, int64_t sharedBytes);

  dispatch::AttentionBackwardOp op;
  const Shape shape;
  AttentionFrame f;
  cpu::Emitter &e;
  ImplicitLocOpBuilder &b;
  const int64_t roundedPositions;
};

/// Each query's delta = sum over c of dO O and log-sum-exp, by eight lanes.
class RowStage : BackwardStage {
public:
  using BackwardStage::BackwardStage;
  Stage generate();
};

/// dK and dV of 64 keys.
class KeyStage : BackwardStage {
public:
  KeyStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module, StringRef name);
  Stage generate();

private:
  void load(Value number, Value offset);
  Values emitTile(Value number, Value offset, ValueRange carried);
  std::pair<Value, Value> locate(Value number); ///< query head and first query
  Values readStatistics(int64_t which, Value offset);

  const int64_t queries, queryTiles;
  Tile keyTile, valueTile, queryTile, gradientTile;
  int64_t numbersByte, bytes;
  Value keyHead, q0;
  Values rows; ///< i32: the thread's keys
  Fixed keys, values;
};

/// dQ of 64 queries.
class QueryStage : BackwardStage {
public:
  QueryStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module, StringRef name);
  Stage generate();

private:
  Values emitTile(Value number, Value offset, ValueRange carried);

  const int64_t keys;
  Tile queryTile, gradientTile, keyTile, valueTile;
  Value head, p0;
  Values rows, logSums, deltas; ///< of the thread's queries
  Fixed queries, gradients;
};

} // namespace

BackwardStage::BackwardStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module,
                             StringRef name)
    : op(op), shape(shape), f(op, op.getDomain(), op.getMask(), shape, module, name), e(f.e),
      b(f.b), roundedPositions(llvm::alignTo(shape.positions, fixedRows)) {}

Source BackwardStage::source(unsigned operand, Value headIndex, int64_t column, bool rotated) {
  bool aligned = shape.head % chunkElements == 0 && column % chunkElements == 0;
  return {f.frame.buffer(operand), e.add(e.mul(headIndex, shape.head), column), e.index(shape.head),
          aligned, rotated && op.getRotary() ? f.frame.buffer(Rotary) : Value()};
}

Source BackwardStage::result(Value headIndex, int64_t column, bool rotated) {
  Source target = source(op->getNumOperands(), headIndex, column, rotated);
  target.aligned = shape.head % 2 == 0 && column % 2 == 0;
  return target;
}

Value BackwardStage::statistics() {
  auto type = MemRefType::get({2 * shape.batch * shape.heads, roundedPositions}, b.getF32Type());
  Value arena = f.frame.function.getArgument(0);
  return memref::ViewOp::create(b, type, arena, f.frame.workspace(), ValueRange{});
}

Value BackwardStage::statisticsRow(int64_t which, Value head) {
  Value row = e.add(e.mul(f.batchRow, shape.heads), head);
  return e.add(row, which * shape.batch * shape.heads);
}

Stage BackwardStage::finish(int64_t blocks, int64_t sharedBytes) {
  return f.frame.finish(f.frame.kernel(blocks, "attention", 0, sharedBytes))->stages.front();
}

/// Queries that are not valid or have no key get a log-sum-exp of +inf: their P is 2^-inf = 0 with
/// no mask.
Stage RowStage::generate() {
  int64_t perBlock = threadsPerBlock / lanesPerQuery;
  auto [inBlock, lane] = f.split(f.thread, lanesPerQuery);
  auto [rowAndHead, p] = f.split(e.add(e.mul(f.frame.block, perBlock), inBlock), roundedPositions);
  auto [row, head] = f.split(rowAndHead, shape.heads);
  f.enterRow(row);
  Value position = e.add(f.base, e.min(p, e.index(shape.positions - 1)));
  Value output = f.frame.buffer(Output), gradient = f.frame.buffer(OutputGradient);
  Value column = e.mul(head, shape.head), total = f.f32(0);
  auto read = [&](Value memory, Value at) {
    Value number = e.loadScalar(memory, {position, at});
    return number.getType().isF32() ? number
                                    : Value(arith::ExtFOp::create(b, b.getF32Type(), number));
  };
  for (int64_t i = 0; i < shape.head; i += lanesPerQuery) {
    Value at = e.add(lane, i), isColumn = e.less(at, e.index(shape.head));
    at = e.add(column, e.min(at, e.index(shape.head - 1)));
    Value term = e.mulf(read(output, at), read(gradient, at));
    total =
        e.addf(total, i + lanesPerQuery <= shape.head ? term : e.select(isColumn, term, f.f32(0)));
  }
  for (int64_t distance = 1; distance < lanesPerQuery; distance *= 2) {
    total = e.addf(total, NVVM::ShflOp::create(b, b.getF32Type(), e.integer(-1), total,
                                               e.integer(distance), e.integer(threadsPerWarp - 1),
                                               NVVM::ShflKind::bfly, UnitAttr()));
  }
  Value isValid = e.less(p, f.length);
  Value logSum = e.loadScalar(f.frame.buffer(Lse), {position, head});
  Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, logSum, f.f32(-infinity));
  Value usable = e.select(empty, f.f32(infinity), e.mulf(logSum, f.f32(log2e)));
  Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, e.index(0));
  e.when(first, [&, head = head, p = p] {
    e.store(e.select(isValid, usable, f.f32(infinity)), statistics(), {statisticsRow(0, head), p});
    e.store(e.select(isValid, total, f.f32(0)), statistics(), {statisticsRow(1, head), p});
  });
  return finish(shape.batch * shape.heads * roundedPositions / perBlock, 0);
}

Values BackwardStage::probabilities(const Values &raw, int64_t columns, Value head, Value full,
                                    Positions positions, Numbers logSum) {
  Values result = f.each(raw, columns, [&](Value score, const Place &at) {
    auto [p, q] = positions(at);
    score = cpu::attention::emitRegion(e, op.getScore(), {score, p, q, head});
    Value negative = arith::NegFOp::create(b, logSum(at));
    return f.exp2(e.fma(score, f.f32(log2e), negative));
  });
  return f.masked(result, columns, full, 0, [&](const Place &at) {
    auto [p, q] = positions(at);
    return f.holds(p, q);
  });
}

/// The derivative region of g = P (keep dP - delta). Where P is 0 the score is nobody's concern and
/// its derivative may be infinite: 0 it is.
Values BackwardStage::scoreGradients(const Values &raw, const Values &probability,
                                     const Values &change, int64_t columns, Value head,
                                     Positions positions, Numbers delta) {
  size_t i = 0;
  return f.each(raw, columns, [&](Value score, const Place &at) -> Value {
    auto [p, q] = positions(at);
    Value moved = change[i], some = probability[i], none = f.f32(0);
    if (shape.dropout > 0) {
      Value kept = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, some, none);
      moved = e.select(kept, e.mulf(moved, f.f32(1 / (1 - shape.dropout))), none);
      some = math::AbsFOp::create(b, some);
    }
    ++i;
    Value g = e.mulf(some, e.subf(moved, delta(at)));
    Value derived = cpu::attention::emitRegion(e, op.getScoreGradient(), {score, p, q, head, g});
    Value absent = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, some, none);
    return e.select(absent, none, derived);
  });
}

/// Streamed rows that leave registers for the sums beside the scores' two products.
static int64_t chooseRows(const Shape &shape, int64_t sums) {
  if (shape.width <= 64) {
    return 64;
  }
  int64_t rows = sums == 2 || shape.width > 128 ? 32 : 64;
  return shape.heavy ? rows / 2 : rows;
}

KeyStage::KeyStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module,
                   StringRef name)
    : BackwardStage(op, shape, module, name), queries(chooseRows(shape, 2)),
      queryTiles(llvm::divideCeil(shape.positions, queries)), keyTile{fixedRows, shape.width, 0},
      valueTile{fixedRows, shape.width, keyTile.end()},
      queryTile{queries, shape.width, valueTile.end()},
      gradientTile{queries, shape.width, queryTile.end()}, numbersByte(gradientTile.end()),
      bytes(numbersByte - queryTile.byte + 2 * queries * 4) {}

std::pair<Value, Value> KeyStage::locate(Value number) {
  auto [member, tile] = f.split(number, queryTiles);
  return {e.add(e.mul(keyHead, shape.group), member), e.mul(tile, queries)};
}

void KeyStage::load(Value number, Value offset) {
  auto [head, p0] = locate(number);
  f.load(queryTile, offset, source(Query, head, shape.queryColumn, true), p0);
  f.load(gradientTile, offset, source(OutputGradient, head, 0, false), p0);
  // The queries' numbers: log-sum-exps by the first threads, deltas by the next.
  int64_t chunks = queries * 4 / chunkBytes;
  e.when(e.less(f.thread, e.index(2 * chunks)), [&, head = head, p0 = p0] {
    auto [which, chunk] = f.split(f.thread, chunks);
    Value row = e.add(statisticsRow(0, head), e.mul(which, shape.batch * shape.heads));
    Value from = f.core.global(statistics(), {row, e.add(p0, e.mul(chunk, 4))});
    f.core.copy(f.core.shared(e.add(offset, e.mul(f.thread, chunkBytes)), numbersByte), from);
  });
}

/// Of the thread's columns, two by two.
Values KeyStage::readStatistics(int64_t which, Value offset) {
  Value at = e.add(offset, e.mul(f.quad, 8));
  Values numbers;
  for (int64_t i = 0; i < queries; i += fragmentColumns) {
    Value two = f.core.load(VectorType::get({2}, b.getF32Type()),
                            f.core.shared(at, numbersByte + (which * queries + i) * 4), 8);
    for (int64_t j : {0, 1}) {
      numbers.push_back(vector::ExtractOp::create(b, two, ArrayRef<int64_t>{j}));
    }
  }
  return numbers;
}

Values KeyStage::emitTile(Value number, Value offset, ValueRange carried) {
  auto [headIndex, p0] = locate(number);
  Value head = e.toInteger(headIndex), partOffset = e.add(offset, e.mul(f.part, 2));
  Values columns = f.columnNumbers(p0, queries);
  Values logSums = readStatistics(0, offset), deltas = readStatistics(1, offset);
  auto positions = [&](const Place &at) {
    return std::pair<Value, Value>(columns[at.columnOf()], rows[at.row()]);
  };
  Values raw = f.multiplyRows(keys, 1, queryTile, offset);
  Values probability =
      probabilities(raw, queries, head, f.classify(p0, queries, q0, fixedRows).full, positions,
                    [&](const Place &at) { return logSums[at.columnOf()]; });
  Values dropped = probability;
  if (shape.dropout > 0) {
    probability =
        f.marked(probability, queries, /*adjacent=*/false, [&, h = headIndex](const Place &at) {
          return f.elementNumber(h, columns[at.columnOf()], rows[at.row()]);
        });
    dropped = f.positive(probability);
  }
  size_t half = carried.size() / 2;
  Values valueSums = f.multiplyWeights(dropped, 1, gradientTile, partOffset, shape.partWidth,
                                       Values(carried.drop_front(half)));
  Values change = f.multiplyRows(values, 1, gradientTile, offset);
  Values gradient = scoreGradients(raw, probability, change, queries, head, positions,
                                   [&](const Place &at) { return deltas[at.columnOf()]; });
  Values sums = f.multiplyWeights(gradient, 1, queryTile, partOffset, shape.partWidth,
                                  Values(carried.take_front(half)));
  sums.append(valueSums);
  return sums;
}

Stage KeyStage::generate() {
  int64_t tiles = llvm::divideCeil(shape.positions, fixedRows);
  auto [head, tile] = f.place(shape.kvHeads, tiles);
  keyHead = head;
  q0 = e.mul(tile, fixedRows);
  Source key = source(Key, keyHead, shape.keyColumn, true),
         value = source(ValueRows, keyHead, shape.valueColumn, false);
  f.load(keyTile, nullptr, key, q0);
  f.load(valueTile, nullptr, value, q0);
  f.core.commit();
  rows = f.rowNumbers(q0, 1);
  AttentionFrame::Stream stream;
  stream.count = e.index(shape.group * queryTiles);
  stream.bytes = bytes;
  stream.some = [&](Value number) {
    return f.classify(locate(number).second, queries, q0, fixedRows).some;
  };
  stream.load = [&](Value number, Value offset) { load(number, offset); };
  stream.arrived = [&](Value number, Value offset) {
    auto [queryHead, p0] = locate(number);
    f.rotate(queryTile, offset, source(Query, queryHead, shape.queryColumn, true), p0);
  };
  stream.body = [&](Value number, Value offset, ValueRange carried) {
    return emitTile(number, offset, carried);
  };
  int64_t count = shape.partWidth / 2;
  Values sums = f.stream(stream, [&] {
    f.core.wait(1);
    f.rotate(keyTile, nullptr, key, q0);
    f.core.barrier();
    keys = f.keep(keyTile, 1, widestKept);
    values = f.keep(valueTile, 1, widestKept);
    return f.core.zeros(2 * count);
  });
  Values scale(2, f.f32(1 / (1 - shape.dropout)));
  f.store(Values(ArrayRef<Value>(sums).take_front(count)), {},
          result(keyHead, shape.keyColumn, true), q0, 1, /*zeros=*/true);
  f.store(Values(ArrayRef<Value>(sums).drop_front(count)),
          shape.dropout > 0 ? ArrayRef<Value>(scale) : ArrayRef<Value>(),
          result(keyHead, shape.valueColumn, false), q0, 1, /*zeros=*/true);
  return finish(shape.batch * shape.kvHeads * tiles * shape.parts, queryTile.byte + 2 * bytes);
}

QueryStage::QueryStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module,
                       StringRef name)
    : BackwardStage(op, shape, module, name), keys(chooseRows(shape, 1)),
      queryTile{fixedRows, shape.width, 0}, gradientTile{fixedRows, shape.width, queryTile.end()},
      keyTile{keys, shape.width, gradientTile.end()}, valueTile{keys, shape.width, keyTile.end()} {}

Values QueryStage::emitTile(Value number, Value offset, ValueRange carried) {
  Value q0 = e.mul(number, keys), h = e.toInteger(head);
  Values columns = f.columnNumbers(q0, keys);
  auto positions = [&](const Place &at) {
    return std::pair<Value, Value>(rows[at.row()], columns[at.columnOf()]);
  };
  Values raw = f.multiplyRows(queries, 1, keyTile, offset);
  Values probability = probabilities(raw, keys, h, f.classify(p0, fixedRows, q0, keys).full,
                                     positions, [&](const Place &at) { return logSums[at.row()]; });
  if (shape.dropout > 0) {
    probability = f.marked(probability, keys, /*adjacent=*/true, [&](const Place &at) {
      return f.elementNumber(head, rows[at.row()], columns[at.columnOf()]);
    });
  }
  Values change = f.multiplyRows(gradients, 1, valueTile, offset);
  Values gradient = scoreGradients(raw, probability, change, keys, h, positions,
                                   [&](const Place &at) { return deltas[at.row()]; });
  return f.multiplyWeights(gradient, 1, keyTile, e.add(offset, e.mul(f.part, 2)), shape.partWidth,
                           Values(carried));
}

Stage QueryStage::generate() {
  int64_t tiles = llvm::divideCeil(shape.positions, fixedRows);
  auto [headOf, fromEnd] = f.place(shape.heads, tiles);
  head = headOf;
  p0 = e.mul(e.sub(e.index(tiles - 1), fromEnd), fixedRows);
  Value keyHead = e.floorDiv(head, shape.group);
  Source query = source(Query, head, shape.queryColumn, true),
         gradient = source(OutputGradient, head, 0, false),
         key = source(Key, keyHead, shape.keyColumn, true),
         value = source(ValueRows, keyHead, shape.valueColumn, false);
  f.load(queryTile, nullptr, query, p0);
  f.load(gradientTile, nullptr, gradient, p0);
  f.core.commit();
  rows = f.rowNumbers(p0, 1);
  for (auto [which, numbers] : {std::pair(0, &logSums), std::pair(1, &deltas)}) {
    for (Value row : rows) {
      Value position = arith::IndexCastOp::create(b, b.getIndexType(), row);
      numbers->push_back(e.loadScalar(statistics(), {statisticsRow(which, head), position}));
    }
  }
  AttentionFrame::Stream stream;
  stream.count = e.index(llvm::divideCeil(shape.positions, keys));
  stream.bytes = valueTile.end() - keyTile.byte;
  stream.some = [&](Value number) {
    return f.classify(p0, fixedRows, e.mul(number, keys), keys).some;
  };
  stream.load = [&](Value number, Value offset) {
    f.load(keyTile, offset, key, e.mul(number, keys));
    f.load(valueTile, offset, value, e.mul(number, keys));
  };
  stream.arrived = [&](Value number, Value offset) {
    f.rotate(keyTile, offset, key, e.mul(number, keys));
  };
  stream.body = [&](Value number, Value offset, ValueRange carried) {
    return emitTile(number, offset, carried);
  };
  Values sums = f.stream(stream, [&] {
    f.core.wait(1);
    f.rotate(queryTile, nullptr, query, p0);
    f.core.barrier();
    queries = f.keep(queryTile, 1, widestKept);
    gradients = f.keep(gradientTile, 1, widestKept);
    return f.core.zeros(shape.partWidth / 2);
  });
  f.store(sums, {}, result(head, shape.queryColumn, true), p0, 1, /*zeros=*/true);
  return finish(shape.batch * shape.heads * tiles * shape.parts, keyTile.byte + 2 * stream.bytes);
}

FailureOr<Kernel> cuda::generateAttentionBackward(dispatch::AttentionBackwardOp op, ModuleOp module,
                                                  StringRef name) {
  FailureOr<Shape> shape = makeShape(op);
  if (failed(shape) || failed(cpu::attention::checkRegion(op.getScoreGradient()))) {
    return failure();
  }
  Kernel kernel;
  kernel.stages.push_back(RowStage(op, *shape, module, (name + "_rows").str()).generate());
  kernel.stages.push_back(KeyStage(op, *shape, module, (name + "_keys").str()).generate());
  kernel.stages.push_back(QueryStage(op, *shape, module, (name + "_queries").str()).generate());
  kernel.kind = "attention";
  double pairs = cpu::attention::countPairs(shape->positions, op.getMask());
  kernel.flops = 10 * double(shape->head * shape->batch * shape->heads) * pairs;
  kernel.workspaceBytes =
      2 * shape->batch * shape->heads * int64_t(llvm::alignTo(shape->positions, fixedRows)) * 4;
  for (Type type : llvm::concat<const Type>(llvm::to_vector(op->getOperandTypes()),
                                            llvm::to_vector(op->getResultTypes()))) {
    auto tensor = cast<RankedTensorType>(type);
    kernel.bytes += double(tensor.getNumElements()) * tensor.getElementTypeBitWidth() / 8;
  }
  return kernel;
}
