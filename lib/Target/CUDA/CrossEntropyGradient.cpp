// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of head and cross-entropy. A block holds 64 rows and streams all tokens, 128 at a time
// (or holds tokens and streams rows): it forms their logits from all of d, turns them into g in
// registers, leaves g as bf16 in shared memory, and adds its product with what streams to sums of
// up to 512 columns. Wider rows take several blocks, each of which forms the logits again.
#include "Columns.h"
#include "CrossEntropy.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::cross_entropy;

namespace {

constexpr WarpGrid logitGrid{2, 4, 32, 32};
constexpr int64_t heldLines = 64, streamedLines = 128;
constexpr int64_t logitStep = 32, productStep = 16, stageCount = 4;
constexpr int64_t warps = 8, floatBytes = sizeof(float);

/// Columns of the gradient a block sums up.
int64_t chunkOf(int64_t width) { return width <= 128 ? 128 : width <= 256 ? 256 : 512; }

class Gradient {
public:
  Gradient(const Head &head, StringRef name, bool holdsRows, const PartialSums &parts);
  Stage generate();

private:
  int64_t streamed() const { return holdsRows ? head.vocabulary : head.rows; }
  Factor factor(bool ofRows, bool linesAreInner, int64_t extent);
  void place();
  void emitBlock();
  void readHeld();
  void readStreamed(Value first);
  Values storeGradients(const Values &logits, Value firstStreamed, ValueRange biasSums);
  Value gradient(Value logit, Value shift, Value isTarget, Value counts);
  Values addProducts(Value number, Value tile, ValueRange sums);
  void storeMatrix(const Values &sums);
  void storeBias(ArrayRef<Value> sums);
  Value equal(Value a, Value c) {
    return arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, a, c);
  }
  Value divide(Value a, int64_t c) { return arith::DivUIOp::create(e.b, a, e.index(c)); }
  Value rest(Value a, int64_t c) { return arith::RemUIOp::create(e.b, a, e.index(c)); }

  /// What a thread knows of a row or a token whose logits it holds.
  struct Line {
    Value token;  ///< i32: the token itself, or the row's target
    Value shift;  ///< f32: a row's log-sum-exp
    Value bias;   ///< f32: a token's; null where there is none
    Value counts; ///< i1: valid row or existing token; null where all are
  };
  Line rowLine(Value row);
  Line tokenLine(Value token);

  const Head &head;
  const bool holdsRows;
  const PartialSums parts;
  const int64_t chunk, chunks;
  const WarpGrid productGrid;
  Frame frame;
  cpu::Emitter &e;
  TensorCore core;
  Rows rows;
  std::unique_ptr<Pipeline> logits, products;
  std::unique_ptr<Tile> gradients; ///< g in shared memory, 64 held by 128 streamed
  int64_t gradientByte = 0, lineByte = 0, biasByte = 0, sharedBytes = 0;
  Value thread, split, firstHeld, firstColumn, isFirstChunk, share;
  SmallVector<Line> mine; ///< of the four held lines
};

} // namespace

Gradient::Gradient(const Head &head, StringRef name, bool holdsRows, const PartialSums &parts)
    : head(head), holdsRows(holdsRows), parts(parts), chunk(chunkOf(head.width)),
      chunks(llvm::divideCeil(head.width, chunk)), productGrid{1, warps, heldLines, chunk / warps},
      frame(head.op, head.domain, head.module, name, warps * threadsPerWarp), e(frame.e),
      core(frame), rows(frame, head) {}

Factor Gradient::factor(bool ofRows, bool linesAreInner, int64_t extent) {
  Factor result{frame.buffer(ofRows ? 0 : 1), ofRows ? head.rows : head.vocabulary, head.width,
                linesAreInner, extent};
  if (ofRows && linesAreInner && head.domain.getFactor() > 0) {
    result.isValid = [this](Value row) { return frame.row(row).valid; };
  }
  return result;
}

void Gradient::place() {
  int64_t blocks = gradientBlocks(head, holdsRows);
  thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  split = divide(frame.block, blocks);
  Value block = rest(frame.block, blocks);
  firstHeld = e.mul(divide(block, chunks), heldLines);
  Value chunkNumber = rest(block, chunks);
  isFirstChunk = equal(chunkNumber, e.index(0));
  firstColumn = e.mul(chunkNumber, chunk);
  share = rows.share();
}

Gradient::Line Gradient::rowLine(Value number) {
  Row row = frame.row(number);
  return {rows.targetOf(row), e.loadScalar(rows.lse(), {row.batch, row.position}), {}, row.valid};
}

Gradient::Line Gradient::tokenLine(Value token) {
  bool whole = head.vocabulary % streamedLines == 0;
  return {e.toInteger(token),
          {},
          rows.bias(token),
          whole ? Value() : e.less(token, e.index(head.vocabulary))};
}

void Gradient::readHeld() {
  Value line = e.add(e.add(firstHeld, logits->warpRow()), divide(frame.lane, 4));
  for (int64_t i = 0; i < 2 * logitGrid.rowFragments(); ++i) {
    Value at = e.add(line, i / 2 * fragmentRows + i % 2 * 8);
    mine.push_back(holdsRows ? rowLine(at) : tokenLine(at));
  }
}

/// Rows that stream leave their log-sum-exps and targets (-1 where not valid) in shared memory.
void Gradient::readStreamed(Value first) {
  e.when(e.less(thread, e.index(streamedLines)), [&] {
    Line line = rowLine(e.add(first, thread));
    Value at = e.add(e.mul(thread, floatBytes), lineByte);
    core.store(line.shift, core.shared(at), floatBytes);
    core.store(e.select(line.counts, line.token, e.integer(-1)),
               core.shared(at, streamedLines * floatBytes), floatBytes);
  });
}

/// e^(x - lse) - [target], still to be divided by the number of valid rows.
Value Gradient::gradient(Value logit, Value shift, Value isTarget, Value counts) {
  Value one = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(1));
  Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
  Value g = rows.exp(e.subf(logit, shift));
  g = e.subf(g, e.select(isTarget, one, zero));
  return counts ? e.select(counts, g, zero) : g;
}

/// Gives the sums of g over what streams, for the biases of tokens that are held.
Values Gradient::storeGradients(const Values &sums, Value firstStreamed, ValueRange biasSums) {
  Value pair = e.mul(rest(frame.lane, 4), 2);
  Value column = e.add(logits->warpColumn(), pair);
  SmallVector<Line> across;
  for (int64_t j = 0; j < 2 * logitGrid.columnFragments(); ++j) {
    Value at = e.add(column, j / 2 * fragmentColumns + j % 2);
    if (holdsRows) {
      across.push_back(tokenLine(e.add(firstStreamed, at)));
      continue;
    }
    Value byte = e.add(e.mul(at, floatBytes), lineByte);
    Value target =
        core.load(e.b.getI32Type(), core.shared(byte, streamedLines * floatBytes), floatBytes);
    Value shift = core.load(e.b.getF32Type(), core.shared(byte), floatBytes);
    across.push_back({target, shift, {}, e.atLeast(target, e.integer(0))});
  }
  Value line = e.add(logits->warpRow(), divide(frame.lane, 4));
  Values next(biasSums);
  for (auto [i, own] : llvm::enumerate(mine)) {
    int64_t down = int64_t(i) / 2 * fragmentRows + int64_t(i) % 2 * 8;
    for (int64_t j = 0; j < logitGrid.columnFragments(); ++j) {
      Value pairOf[2];
      for (int64_t p = 0; p < 2; ++p) {
        const Line &other = across[2 * j + p];
        const Line &row = holdsRows ? own : other, &token = holdsRows ? other : own;
        int64_t fragment = int64_t(i) / 2 * logitGrid.columnFragments() + j;
        Value x = sums[fragment * sumsPerFragment + int64_t(i) % 2 * 2 + p];
        x = token.bias ? e.addf(x, token.bias) : x;
        pairOf[p] = gradient(x, row.shift, equal(row.token, token.token), other.counts);
        if (!next.empty()) {
          next[i] = e.addf(next[i], pairOf[p]);
        }
      }
      Value chunkAt = e.add(divide(logits->warpColumn(), chunkElements), j);
      Value byte = core.swizzled(e.add(line, down), chunkAt, streamedLines * 2);
      byte = e.add(e.add(byte, e.mul(pair, 2)), gradientByte);
      core.store(core.pack(pairOf[0], pairOf[1]), core.shared(byte), 4);
    }
  }
  return next;
}

/// sums += g times a step of what streams.
Values Gradient::addProducts(Value number, Value tile, ValueRange sums) {
  SmallVector<Values> left;
  Value inner = e.mul(number, productStep);
  for (int64_t i = 0; i < productGrid.rowFragments(); ++i) {
    left.push_back(
        gradients->left(e.index(gradientByte), products->warpRow(), i * fragmentRows, inner));
  }
  auto right = rightFragments(products->leftTile(), tile, products->warpColumn(),
                              productGrid.columnFragments(), e.index(0));
  return multiplyFragments(core, left, right, sums);
}

// Between two uses of a place in shared memory by different warps there is a barrier: the one
// behind the logits frees their stages, those of the logits' steps free g and the products' stages,
// the first of the products' steps shows g to all.
void Gradient::emitBlock() {
  logits =
      std::make_unique<Pipeline>(frame, core, logitGrid, factor(holdsRows, false, heldLines),
                                 factor(!holdsRows, false, streamedLines), logitStep, stageCount);
  products = std::make_unique<Pipeline>(frame, core, productGrid, factor(!holdsRows, true, chunk),
                                        Factor(), productStep, stageCount, logits->sharedBytes());
  gradients =
      std::make_unique<Tile>(frame, core, Factor{{}, 0, 0, false, heldLines}, streamedLines);
  gradientByte = logits->sharedBytes() + products->sharedBytes();
  lineByte = gradientByte + gradients->bytes();
  biasByte = lineByte + 2 * streamedLines * floatBytes;
  sharedBytes = biasByte + logitGrid.columns * heldLines * floatBytes;
  readHeld();
  int64_t total = streamedBlocks(head, holdsRows), perSplit = llvm::divideCeil(total, parts.splits);
  Value firstBlock = e.mul(split, perSplit);
  Value end = e.min(e.index(total), e.add(firstBlock, perSplit));
  Value steps = e.index(llvm::divideCeil(head.width, logitStep));
  auto origin = [&](Value block) -> Origin {
    return {firstHeld, e.mul(block, streamedLines), e.index(0)};
  };
  size_t sumCount = size_t(productGrid.sums());
  int64_t biasCount = head.weightGradients.vector >= 0 ? 2 * logitGrid.rowFragments() : 0;
  logits->fill(origin(firstBlock), steps);
  Values start = core.zeros(int64_t(sumCount) + biasCount);
  Values all = e.loop(firstBlock, end, 1, start, [&](Value block, ValueRange carried) {
    Value first = origin(block).column;
    if (!holdsRows) {
      readStreamed(first);
    }
    Values x = logits->run(origin(block), steps, core.zeros(logitGrid.sums()));
    core.barrier();
    Origin place{firstColumn, {}, first};
    Value left = divide(e.add(e.sub(e.index(streamed()), first), productStep - 1), productStep);
    Value productSteps = e.min(e.index(streamedLines / productStep), left);
    products->fill(place, productSteps);
    Value following = e.add(block, 1);
    e.when(e.less(following, end), [&] { logits->fill(origin(following), steps); });
    Values biasSums = storeGradients(x, first, carried.drop_front(sumCount));
    Values sums = products->run(
        place, productSteps, carried.take_front(sumCount),
        [&](Value number, Value tile, ValueRange own) { return addProducts(number, tile, own); });
    llvm::append_range(sums, biasSums);
    return sums;
  });
  if (biasCount > 0) {
    storeBias(ArrayRef<Value>(all).drop_front(sumCount));
  }
  storeMatrix(Values(ArrayRef<Value>(all).take_front(sumCount)));
}

void Gradient::storeMatrix(const Values &sums) {
  SumTile tile(frame, core, productGrid);
  sharedBytes = std::max(sharedBytes, tile.bytes());
  core.barrier();
  tile.store(sums, products->warpRow(), products->warpColumn());
  core.barrier();
  Value column = e.add(firstColumn, tile.column());
  const SumTargets &targets = head.weightGradients;
  bool isPart = parts.splits > 1;
  int result = holdsRows ? head.inputGradient : targets.matrix;
  Value memory = isPart ? parts.matrix(frame) : frame.buffer(unsigned(result));
  bool adds = !isPart && targets.initMatrix >= 0;
  Value init = adds ? frame.buffer(unsigned(targets.initMatrix)) : Value();
  Value factor = vector::BroadcastOp::create(
      e.b, VectorType::get({columnsPerThread}, e.b.getF32Type()), share);
  e.when(e.less(column, e.index(head.width)), [&] {
    tile.eachLines(2, [&](ArrayRef<Value> lines) {
      for (Value line : lines) {
        Value at = e.add(firstHeld, line);
        Value stored = holdsRows ? frame.row(at).valid : e.less(at, e.index(head.vocabulary));
        e.when(stored, [&] {
          Value value = e.mulf(tile.load(line), factor);
          if (init) {
            value = e.addf(loadColumns(core, e, init, {at, column}), value);
          }
          Value to = isPart ? e.add(e.mul(split, head.vocabulary), at) : at;
          storeColumns(core, e, value, memory, {to, column});
        });
      }
    });
  });
}

/// Lanes and then warps that share a token add their sums, in a fixed order.
void Gradient::storeBias(ArrayRef<Value> sums) {
  Value line = e.add(logits->warpRow(), divide(frame.lane, 4));
  Value speaks = equal(rest(frame.lane, 4), e.index(0));
  Value warpColumn = rest(frame.warp, logitGrid.columns);
  for (auto [i, part] : llvm::enumerate(sums)) {
    Value sum = part;
    for (int64_t distance : {1, 2}) {
      Value other =
          NVVM::ShflOp::create(e.b, e.b.getF32Type(), e.integer(-1), sum, e.integer(distance),
                               e.integer(threadsPerWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
      sum = e.addf(sum, other);
    }
    int64_t down = int64_t(i) / 2 * fragmentRows + int64_t(i) % 2 * 8;
    Value at = e.add(e.add(e.mul(warpColumn, heldLines), line), down);
    e.when(speaks, [&] {
      core.store(sum, core.shared(e.add(e.mul(at, floatBytes), biasByte)), floatBytes);
    });
  }
  core.barrier();
  const SumTargets &targets = head.weightGradients;
  Value token = e.add(firstHeld, thread);
  Value owns = e.both(e.less(thread, e.index(heldLines)), isFirstChunk);
  e.when(e.both(owns, e.less(token, e.index(head.vocabulary))), [&] {
    Value sum;
    for (int64_t warp = 0; warp < logitGrid.columns; ++warp) {
      Value at = e.add(e.mul(e.add(thread, warp * heldLines), floatBytes), biasByte);
      Value part = core.load(e.b.getF32Type(), core.shared(at), floatBytes);
      sum = sum ? e.addf(sum, part) : part;
    }
    sum = e.mulf(sum, share);
    if (parts.splits > 1) {
      e.store(sum, parts.vector(frame), {e.add(e.mul(split, head.vocabulary), token)});
      return;
    }
    if (targets.initVector >= 0) {
      sum = e.addf(e.loadScalar(frame.buffer(unsigned(targets.initVector)), {token}), sum);
    }
    e.store(sum, frame.buffer(unsigned(targets.vector)), {token});
  });
}

Stage Gradient::generate() {
  place();
  if (holdsRows) {
    e.when(anyValid(frame, head.domain, firstHeld, heldLines), [&] { emitBlock(); });
  } else {
    emitBlock();
  }
  func::ReturnOp::create(e.b);
  int64_t blocks = gradientBlocks(head, holdsRows) * parts.splits;
  return {frame.function, blocks, frame.threads, sharedBytes};
}

int64_t cross_entropy::gradientBlocks(const Head &head, bool holdsRows) {
  int64_t held = holdsRows ? head.rows : head.vocabulary;
  return llvm::divideCeil(held, heldLines) * llvm::divideCeil(head.width, chunkOf(head.width));
}

int64_t cross_entropy::streamedBlocks(const Head &head, bool holdsRows) {
  return llvm::divideCeil(holdsRows ? head.vocabulary : head.rows, streamedLines);
}

Stage cross_entropy::emitGradient(const Head &head, StringRef name, bool holdsRows,
                                  const PartialSums &parts) {
  return Gradient(head, name, holdsRows, parts).generate();
}
