// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Deterministic scatter-add. A block owns some rows of the table in some columns. It scans all
// indices, 1,024 at a time, lists the ones that it owns in row order, and adds their values in that
// order. The columns of a thread are private, so no sum is shared and none is atomic.
#include "Rows.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

namespace {

constexpr int64_t staged = 1024;                   ///< indices scanned at a time
constexpr int64_t words = staged / threadsPerWarp; ///< ballots of a warp for these indices: one per
                                                   ///< lane
static_assert(words == threadsPerWarp);
/// Rows of values in flight at a time. The most frequent token of a text has a sixth of all rows,
/// which one block adds up in order: where it has no other token it waits for memory alone.
constexpr int64_t togetherAlone = 32, togetherOthers = 8;
constexpr int64_t sumBytes = 32 << 10, wantedBlocks = 528;

/// Division of the table.
struct Tiles {
  int64_t vector, threads, slices, tokens, blocks;
};

Tiles getTiles(RankedTensorType table) {
  Tiles tiles;
  int64_t rows = table.getDimSize(0), width = table.getDimSize(1);
  tiles.vector = width % 4 == 0 ? 4 : width % 2 == 0 ? 2 : 1;
  int64_t vectors = width / tiles.vector;
  tiles.threads = std::clamp<int64_t>(llvm::PowerOf2Ceil(uint64_t(vectors)), 64, 256);
  tiles.slices = llvm::divideCeil(vectors, tiles.threads);
  int64_t most = sumBytes / 4 / (tiles.threads * tiles.vector);
  tiles.tokens = std::clamp<int64_t>(llvm::divideCeil(rows * tiles.slices, wantedBlocks), 1, most);
  tiles.blocks = llvm::divideCeil(rows, tiles.tokens) * tiles.slices;
  return tiles;
}

class ScatterKernel {
public:
  ScatterKernel(Frame &frame, dispatch::ScatterRowsOp op, const Tiles &tiles)
      : frame(frame), b(frame.b), e(frame.e), op(op), tiles(tiles) {
    table = cast<RankedTensorType>(op.getTable().getType());
    width = table.getDimSize(1);
    perToken = tiles.threads * tiles.vector;
    sums = rows::sharedMemory(frame, "sums", tiles.tokens * perToken, b.getF32Type());
    listedRows = rows::sharedMemory(frame, "rows", staged, b.getI32Type());
    listedTokens = rows::sharedMemory(frame, "tokens", staged, b.getI32Type());
    counts = rows::sharedMemory(frame, "counts", words, b.getI32Type());
    thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
    own = e.mul(thread, tiles.vector);
    Value slices = e.index(tiles.slices);
    first = e.mul(arith::DivUIOp::create(b, frame.block, slices), tiles.tokens);
    count = e.min(e.index(tiles.tokens), e.sub(e.index(table.getDimSize(0)), first));
    column = e.add(e.mul(arith::RemUIOp::create(b, frame.block, slices), perToken), own);
    hasColumns = e.less(column, e.index(width));
  }

  void emit() {
    // The table is viewed row by row, so that the vectors of any row are aligned.
    unsigned results = op->getNumOperands();
    indices = frame.buffer(0);
    values = frame.buffer(1);
    result = frame.buffer(results);
    emitInits(op.getInit() ? frame.buffer(2) : Value());
    int64_t all = op.getDomain().getLaunchRows();
    e.loop(e.index(0), e.index(all), staged, [&](Value base) {
      addListed(list(base));
      if (all > staged) {
        NVVM::BarrierOp::create(b); // the list of the next rows overwrites this one
      }
    });
    e.when(hasColumns, [&] {
      e.loop(e.index(0), count, 1, [&](Value token) {
        Value sum = converted(loadSum(token), table.getElementType());
        vector::StoreOp::create(b, sum, result, ValueRange{e.add(first, token), column}, false,
                                alignment(table.getElementType()));
      });
    });
  }

private:
  llvm::MaybeAlign alignment(Type element) {
    return llvm::Align(uint64_t(tiles.vector) * element.getIntOrFloatBitWidth() / 8);
  }
  VectorType getVectorType(Type element) { return VectorType::get({tiles.vector}, element); }

  Value converted(Value value, Type element) {
    auto type = cast<VectorType>(value.getType());
    if (type.getElementType() == element) {
      return value;
    }
    return element.isF32() ? Value(arith::ExtFOp::create(b, getVectorType(element), value))
                           : Value(arith::TruncFOp::create(b, getVectorType(element), value));
  }

  /// Loads this thread's columns of a row; columns past the last repeat the last vector.
  Value loadRow(Value memory, Value row) {
    Type element = cast<MemRefType>(memory.getType()).getElementType();
    Value within = e.min(column, e.index(width - tiles.vector));
    Value loaded = vector::LoadOp::create(b, getVectorType(element), memory,
                                          ValueRange{row, within}, false, alignment(element));
    return converted(loaded, b.getF32Type());
  }

  Value computeTileAddress(Value token) { return e.add(e.mul(token, perToken), own); }
  Value loadSum(Value token) {
    return vector::LoadOp::create(b, getVectorType(b.getF32Type()), sums,
                                  ValueRange{computeTileAddress(token)}, false,
                                  alignment(b.getF32Type()));
  }
  void storeSum(Value sum, Value token) {
    vector::StoreOp::create(b, sum, sums, ValueRange{computeTileAddress(token)}, false,
                            alignment(b.getF32Type()));
  }

  void emitInits(Value init) {
    e.loop(e.index(0), count, 1, [&](Value token) {
      TypedAttr none = b.getZeroAttr(getVectorType(b.getF32Type()));
      storeSum(init ? loadRow(init, e.add(first, token)) : arith::ConstantOp::create(b, none),
               token);
    });
  }

  Value getMaskBits(Value mask) { return math::CtPopOp::create(b, mask); }

  Value shuffled(Value value, Value lane) {
    return NVVM::ShflOp::create(b, b.getI32Type(), e.integer(-1), value, lane,
                                e.integer(threadsPerWarp - 1), NVVM::ShflKind::idx, UnitAttr());
  }

  /// Computes the inclusive prefix sum over the lanes.
  Value scanned(Value value) {
    for (int64_t distance = 1; distance < threadsPerWarp; distance *= 2) {
      // Below the distance the source lane is arbitrary, since its value is not used.
      Value other = shuffled(value, e.toInteger(e.sub(frame.lane, e.index(distance))));
      Value reaches = e.atLeast(frame.lane, e.index(distance));
      value = e.add(value, e.select(reaches, other, e.integer(0)));
    }
    return value;
  }

  /// Lists the rows from `base` whose token this block owns, in order. Returns their number
  /// (index), uniform in the block.
  Value list(Value base) {
    struct Turn {
      Value row, token, mine, votes;
    };
    int64_t warps = tiles.threads / threadsPerWarp, turns = staged / tiles.threads;
    SmallVector<Turn> all;
    for (int64_t k = 0; k < turns; ++k) {
      Row row = frame.row(e.add(base, e.add(thread, k * tiles.threads)));
      Value found = e.loadScalar(indices, ValueRange{row.batch, row.position});
      Value token = e.sub(arith::IndexCastOp::create(b, b.getIndexType(), found), first);
      Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, token, count);
      all.push_back({row.row, token, e.both(row.valid, inside), nullptr});
    }
    Value leads = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, frame.lane, e.index(0));
    for (auto [k, turn] : llvm::enumerate(all)) {
      turn.votes = NVVM::VoteSyncOp::create(b, b.getI32Type(), e.integer(-1), turn.mine,
                                            NVVM::VoteSyncKind::ballot);
      Value word = e.add(frame.warp, int64_t(k) * warps);
      e.when(leads, [&, &turn = turn] { e.store(getMaskBits(turn.votes), counts, word); });
    }
    NVVM::BarrierOp::create(b);
    Value through = scanned(e.loadScalar(counts, frame.lane));
    Value below = arith::SubIOp::create(
        b, arith::ShLIOp::create(b, e.integer(1), e.toInteger(frame.lane)), e.integer(1));
    for (auto [k, turn] : llvm::enumerate(all)) {
      Value word = e.toInteger(e.add(frame.warp, int64_t(k) * warps));
      Value before = e.sub(shuffled(through, word), getMaskBits(turn.votes));
      Value place = e.add(before, getMaskBits(arith::AndIOp::create(b, turn.votes, below)));
      place = arith::IndexCastOp::create(b, b.getIndexType(), place);
      e.when(turn.mine, [&, &turn = turn] {
        e.store(e.toInteger(turn.row), listedRows, place);
        e.store(e.toInteger(turn.token), listedTokens, place);
      });
    }
    Value total = shuffled(through, e.integer(threadsPerWarp - 1));
    NVVM::BarrierOp::create(b);
    return arith::IndexCastOp::create(b, b.getIndexType(), total);
  }

  /// Issues loads ahead of the dependent sums.
  void addListed(Value total) {
    auto toIndex = [&](Value value) -> Value {
      return arith::IndexCastOp::create(b, b.getIndexType(), value);
    };
    bool single = tiles.tokens == 1; // the sum stays in registers
    int64_t together = single ? togetherAlone : togetherOthers;
    Values initial = single ? Values{loadSum(e.index(0))} : Values{};
    Values sum = e.loop(e.index(0), total, together, initial, [&](Value base, ValueRange carried) {
      Values tokens, loaded, next(carried);
      for (int64_t i = 0; i < together; ++i) {
        Value entry = e.min(e.add(base, i), e.add(total, -1));
        tokens.push_back(single ? Value() : toIndex(e.loadScalar(listedTokens, entry)));
        loaded.push_back(loadRow(values, toIndex(e.loadScalar(listedRows, entry))));
      }
      for (int64_t i = 0; i < together; ++i) {
        Value exists = e.less(e.add(base, i), total);
        if (single) {
          next[0] = e.select(exists, e.addf(next[0], loaded[i]), next[0]);
        } else {
          e.when(exists, [&] { storeSum(e.addf(loadSum(tokens[i]), loaded[i]), tokens[i]); });
        }
      }
      return next;
    });
    if (single) {
      storeSum(sum[0], e.index(0));
    }
  }

  Frame &frame;
  ImplicitLocOpBuilder &b;
  Emitter &e;
  dispatch::ScatterRowsOp op;
  const Tiles &tiles;
  RankedTensorType table;
  int64_t width = 0, perToken = 0;
  Value sums, listedRows, listedTokens, counts; ///< shared memory
  Value indices, values, result;
  Value thread, own, first, count, column, hasColumns;
};

} // namespace

FailureOr<Kernel> cuda::generateScatterRows(dispatch::ScatterRowsOp op, ModuleOp module,
                                            StringRef name) {
  auto table = cast<RankedTensorType>(op.getTable().getType());
  auto values = cast<RankedTensorType>(op.getValues().getType());
  auto isStored = [](Type type) { return type.isF32() || type.isBF16(); };
  bool same = !op.getInit() || op.getInit().getType() == op.getTable().getType();
  if (!isStored(table.getElementType()) || !isStored(values.getElementType()) || !same ||
      values.getShape().back() != table.getDimSize(1)) {
    return op.emitOpError("R-007: expected rows of ")
           << table.getDimSize(1) << " columns of f32 or bf16 and inits like the table, found "
           << values;
  }
  Tiles tiles = getTiles(table);
  Frame frame(op, op.getDomain(), module, name, tiles.threads);
  ScatterKernel(frame, op, tiles).emit();
  func::ReturnOp::create(frame.b);
  Kernel kernel = frame.kernel(tiles.blocks, "stream", double(values.getNumElements()));
  double rows = double(op.getDomain().getLaunchRows());
  kernel.bytes -=
      4 * (double(cast<RankedTensorType>(op.getIndex().getType()).getNumElements()) - rows);
  return kernel;
}
