// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of output head and cross-entropy. A block holds 64 rows and streams all tokens, 128 at
// a time (or holds tokens and streams rows). It computes their logits over all of d, turns them
// into g in registers, stores g as bf16 in shared memory, and adds its product with the streamed
// operand to accumulators of up to 512 columns. Wider rows take several blocks, each of which
// recomputes the logits.
#include "../TensorCore/Columns.h"
#include "CrossEntropy.h"

#include <tuple>

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::cross_entropy;

namespace {

constexpr WarpGrid logitGrid{2, 4, 32, 32};
constexpr int64_t heldLines = 64, streamedLines = 128;
constexpr int64_t logitStep = 32, productStep = 16, stageCount = 4;
constexpr int64_t warps = 8, wordBytes = 4;
constexpr int64_t heldPerThread = 2 * logitGrid.rowFragments();

/// Layout of the line data in shared memory: tokens, then numbers, then scales.
constexpr int64_t numberOffset = streamedLines * wordBytes, scaleOffset = 2 * numberOffset;

/// Returns the offset of a thread's i-th row from its first, in fragment order.
constexpr int64_t getDownIndex(int64_t i) { return i / 2 * fragmentRows + i % 2 * 8; }

/// Returns the number of gradient columns that a block sums. Lines of odd width are copied one
/// element at a time through registers, which leaves fewer registers for sums.
int64_t getChunkSize(int64_t width) {
  if (width <= 128 || width % 2 != 0) {
    return 128;
  }
  return width <= 256 ? 256 : 512;
}

Value equal(Emitter &e, Value a, Value c) {
  return arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, a, c);
}

Value divide(Emitter &e, Value a, int64_t c) { return arith::DivUIOp::create(e.b, a, e.index(c)); }

Value rest(Emitter &e, Value a, int64_t c) { return arith::RemUIOp::create(e.b, a, e.index(c)); }

struct LossGradientEmitter {
  LossGradientEmitter(const Head &head, StringRef name, bool holdsRows, const PartialSums &parts);
  KernelStage generate();

  /// Data of a row or a token whose logits a thread holds.
  struct TileLine {
    Value token;  ///< i32: the token itself, or the target of the row
    Value number; ///< f32: log-sum-exp of a row; bias of a token, null if there is none
    Value scale;  ///< f32: incoming gradient of a row if it differs by row, else null
    Value counts; ///< i1: the row is valid or the token exists; null if always true
  };

  int64_t streamed() const { return holdsRows ? head.vocabulary : head.rows; }
  Factor factor(bool ofRows, bool linesAreInner, int64_t extent);
  void place();
  void makePipelines();
  void layOut();
  Values withThreadReadAnew(llvm::function_ref<Values()> body);
  void emitBlock();
  void leave(const TileLine &line, Value number, int64_t byte);
  TileLine find(Value number, int64_t byte, bool isRow);
  void readHeld();
  void readStreamed(Value first);
  void storeGradients(const Values &logits);
  Value gradient(Value logit, const TileLine &held, const TileLine &streamed);
  Values addProducts(Value number, Value tile, ValueRange sums);
  bool sumsBias() const { return head.weightGradients.vector >= 0; }
  /// Returns the slot of a thread's own sum of g over the streamed lines, for its i-th held line.
  Value biasSlot(int64_t i) {
    return e.add(e.mul(thread, wordBytes), biasByte + i * frame.threads * wordBytes);
  }

  TileLine rowLine(Value row);
  TileLine tokenLine(Value token);

  const Head &head;
  const bool holdsRows;
  const PartialSums parts;
  const int64_t chunk, chunks;
  const WarpGrid productGrid;
  Frame frame;
  Emitter &e;
  TensorCore core;
  LossRows rows;
  std::unique_ptr<Pipeline> logits, products;
  std::unique_ptr<Tile> gradients; ///< g in shared memory, 64 held by 128 streamed lines
  int64_t gradientByte = 0, heldByte = 0, streamedByte = 0, threadByte = 0, biasByte = 0;
  int64_t sharedBytes = 0;
  Value thread, split, tile, firstHeld, firstColumn, isFirstChunk, share;
};

} // namespace

LossGradientEmitter::LossGradientEmitter(const Head &head, StringRef name, bool holdsRows,
                                         const PartialSums &parts)
    : head(head), holdsRows(holdsRows), parts(parts), chunk(getChunkSize(head.width)),
      chunks(llvm::divideCeil(head.width, chunk)), productGrid{1, warps, heldLines, chunk / warps},
      frame(head.op, head.domain, head.module, name, warps * threadsPerWarp), e(frame.e),
      core(frame), rows(frame, head) {}

Factor LossGradientEmitter::factor(bool ofRows, bool linesAreInner, int64_t extent) {
  Factor result{frame.buffer(ofRows ? 0 : 1), ofRows ? head.rows : head.vocabulary, head.width,
                linesAreInner, extent};
  if (ofRows && linesAreInner && head.domain.getFactor() > 0) {
    result.isValid = [this](Value row) { return frame.isValid(row); };
    if (head.domain.getPositions() % productStep == 0) {
      result.validEnd = [this](Value first) { return frame.validEnd(first); };
    }
  }
  return result;
}

void LossGradientEmitter::place() {
  int64_t blocks = gradientBlocks(head, holdsRows);
  thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  split = divide(e, frame.block, blocks);
  tile = rest(e, frame.block, blocks);
  firstHeld = e.mul(divide(e, tile, chunks), heldLines);
  Value chunkNumber = rest(e, tile, chunks);
  isFirstChunk = equal(e, chunkNumber, e.index(0));
  firstColumn = e.mul(chunkNumber, chunk);
  // Incoming gradients that differ by row are already part of g.
  share = head.differsByRow() ? Value(arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(1)))
                              : rows.share();
}

LossGradientEmitter::TileLine LossGradientEmitter::rowLine(Value number) {
  Row row = frame.row(number);
  return {rows.getTargetToken(row), e.loadScalar(rows.lse(), {row.batch, row.position}),
          head.differsByRow() ? rows.incoming(row) : Value(), row.valid};
}

LossGradientEmitter::TileLine LossGradientEmitter::tokenLine(Value token) {
  bool whole = head.vocabulary % streamedLines == 0;
  return {e.toInteger(token), rows.bias(token), Value(),
          whole ? Value() : e.less(token, e.index(head.vocabulary))};
}

// Stores line data in shared memory, because registers are scarce. The token of an excluded line is
// -1.
void LossGradientEmitter::leave(const TileLine &line, Value number, int64_t byte) {
  Value token = line.counts ? e.select(line.counts, line.token, e.integer(-1)) : line.token;
  Value at = e.add(e.mul(number, wordBytes), byte);
  core.store(token, core.shared(at), wordBytes);
  if (line.number) {
    core.store(line.number, core.shared(at, numberOffset), wordBytes);
  }
  if (line.scale) {
    core.store(line.scale, core.shared(at, scaleOffset), wordBytes);
  }
}

LossGradientEmitter::TileLine LossGradientEmitter::find(Value number, int64_t byte, bool isRow) {
  Value at = e.add(e.mul(number, wordBytes), byte);
  Value token = core.load(e.b.getI32Type(), core.shared(at), wordBytes);
  auto read = [&](bool has, int64_t offset) {
    return has ? core.load(e.b.getF32Type(), core.shared(at, offset), wordBytes) : Value();
  };
  return {token, read(isRow || head.bias >= 0, numberOffset),
          read(isRow && head.differsByRow(), scaleOffset), e.atLeast(token, e.integer(0))};
}

void LossGradientEmitter::readHeld() {
  e.when(e.less(thread, e.index(heldLines)), [&] {
    Value at = e.add(firstHeld, thread);
    leave(holdsRows ? rowLine(at) : tokenLine(at), thread, heldByte);
  });
}

void LossGradientEmitter::readStreamed(Value first) {
  e.when(e.less(thread, e.index(streamedLines)), [&] {
    Value at = e.add(first, thread);
    leave(holdsRows ? tokenLine(at) : rowLine(at), thread, streamedByte);
  });
}

/// Computes e^(x - lse) - y, times the row's incoming gradient if it differs by row; zero if the
/// streamed line is excluded.
Value LossGradientEmitter::gradient(Value logit, const TileLine &held, const TileLine &streamed) {
  const TileLine &row = holdsRows ? held : streamed, &token = holdsRows ? streamed : held;
  Value one = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(1 - head.smoothing));
  Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
  Value x = token.number ? e.addf(logit, token.number) : logit;
  Value g = rows.exp(e.subf(x, row.number));
  g = e.subf(g, e.select(equal(e, row.token, token.token), one, zero));
  if (head.smoothing > 0) {
    g = e.subf(g, arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(head.evenShare())));
  }
  g = row.scale ? e.mulf(g, row.scale) : g;
  return e.select(streamed.counts, g, zero);
}

/// Stores g of the thread's held line i and its columns j, as bf16.
static void storePair(LossGradientEmitter &g, int64_t i, int64_t j, Value first, Value second) {
  Frame &frame = g.frame;
  Emitter &e = g.e;
  TensorCore &core = g.core;
  Value line = e.add(e.add(g.logits->warpRow(), divide(e, frame.lane, 4)), getDownIndex(i));
  Value chunkAt = e.add(divide(e, g.logits->warpColumn(), chunkElements), j);
  Value byte = core.swizzled(line, chunkAt, streamedLines * 2);
  byte = e.add(e.add(byte, e.mul(rest(e, frame.lane, 4), wordBytes)), g.gradientByte);
  core.store(core.pack(first, second), core.shared(byte), wordBytes);
}

void LossGradientEmitter::storeGradients(const Values &sums) {
  Value line = e.add(logits->warpRow(), divide(e, frame.lane, 4));
  Value column = e.add(logits->warpColumn(), e.mul(rest(e, frame.lane, 4), 2));
  SmallVector<TileLine> held;
  for (int64_t i = 0; i < heldPerThread; ++i) {
    held.push_back(find(e.add(line, getDownIndex(i)), heldByte, holdsRows));
  }
  Values biasSums(heldPerThread);
  for (int64_t j = 0; j < logitGrid.columnFragments(); ++j) {
    TileLine streamed[2];
    for (int64_t p = 0; p < 2; ++p) {
      streamed[p] = find(e.add(column, j * fragmentColumns + p), streamedByte, !holdsRows);
    }
    for (int64_t i = 0; i < heldPerThread; ++i) {
      int64_t fragment = i / 2 * logitGrid.columnFragments() + j;
      const Value *two = &sums[size_t(fragment * sumsPerFragment + i % 2 * 2)];
      Value first = gradient(two[0], held[i], streamed[0]);
      Value second = gradient(two[1], held[i], streamed[1]);
      storePair(*this, i, j, first, second);
      Value both = sumsBias() ? e.addf(first, second) : Value();
      biasSums[i] = biasSums[i] && both ? e.addf(biasSums[i], both) : both;
    }
  }
  for (int64_t i = 0; sumsBias() && i < heldPerThread; ++i) {
    Value at = biasSlot(i);
    Value sum = e.addf(core.load(e.b.getF32Type(), core.shared(at), wordBytes), biasSums[i]);
    core.store(sum, core.shared(at), wordBytes);
  }
}

/// Computes sums += g times one step of the streamed operand.
Values LossGradientEmitter::addProducts(Value number, Value tile, ValueRange sums) {
  SmallVector<Values> left;
  // Swizzling of lines repeats after this number of steps, one round of the unrolled loop.
  constexpr int64_t period = TensorCore::swizzlePeriod * chunkElements / productStep;
  Value at = e.add(e.mul(divide(e, number, period), period * productStep * 2), gradientByte);
  Value inner = e.mul(rest(e, number, period), productStep);
  for (int64_t i = 0; i < productGrid.rowFragments(); ++i) {
    left.push_back(gradients->left(at, products->warpRow(), i * fragmentRows, inner));
  }
  auto right = rightFragments(products->leftTile(), tile, products->warpColumn(),
                              productGrid.columnFragments(), e.index(0));
  return multiplyFragments(core, left, right, sums);
}

void LossGradientEmitter::makePipelines() {
  logits =
      std::make_unique<Pipeline>(frame, core, logitGrid, factor(holdsRows, false, heldLines),
                                 factor(!holdsRows, false, streamedLines), logitStep, stageCount);
  products = std::make_unique<Pipeline>(frame, core, productGrid, factor(!holdsRows, true, chunk),
                                        Factor(), productStep, stageCount, logits->sharedBytes());
}

void LossGradientEmitter::layOut() {
  gradientByte = logits->sharedBytes() + products->sharedBytes();
  heldByte = gradientByte + gradients->bytes();
  int64_t lineBytes = head.differsByRow() ? scaleOffset + numberOffset : scaleOffset;
  streamedByte = heldByte + lineBytes;
  threadByte = streamedByte + lineBytes;
  biasByte = threadByte + frame.threads * wordBytes;
  sharedBytes = biasByte + (sumsBias() ? heldPerThread * frame.threads * wordBytes : 0);
}

/// Emits `body` with the thread number reloaded from shared memory. This keeps LLVM from hoisting
/// address computations out of the surrounding loop, where they would occupy registers that sums
/// need.
Values LossGradientEmitter::withThreadReadAnew(function_ref<Values()> body) {
  Value before[] = {thread, frame.warp, frame.lane};
  auto pipelines = std::make_pair(std::move(logits), std::move(products));
  Value at = e.add(e.mul(thread, wordBytes), threadByte);
  Value number = core.load(e.b.getI32Type(), core.shared(at), wordBytes);
  number = arith::IndexCastOp::create(e.b, e.b.getIndexType(), number);
  thread = arith::AndIOp::create(e.b, number, e.index(frame.threads - 1));
  frame.warp = divide(e, thread, threadsPerWarp);
  frame.lane = rest(e, thread, threadsPerWarp);
  makePipelines();
  Values results = body();
  std::tie(thread, frame.warp, frame.lane) = std::tie(before[0], before[1], before[2]);
  std::tie(logits, products) = std::move(pipelines);
  return results;
}

static void storeMatrix(LossGradientEmitter &g, const Values &sums) {
  const Head &head = g.head;
  Frame &frame = g.frame;
  Emitter &e = g.e;
  TensorCore &core = g.core;
  SumTile tile(frame, core, g.productGrid);
  g.sharedBytes = std::max(g.sharedBytes, tile.bytes());
  core.barrier();
  tile.store(sums, g.products->warpRow(), g.products->warpColumn());
  core.barrier();
  Value column = e.add(g.firstColumn, tile.column());
  const SumTargets &targets = head.weightGradients;
  bool isPart = g.parts.splits > 1;
  int result = g.holdsRows ? head.inputGradient : targets.matrix;
  Value memory = isPart ? g.parts.matrix(frame) : frame.buffer(unsigned(result));
  bool adds = !isPart && targets.initMatrix >= 0;
  Value init = adds ? frame.buffer(unsigned(targets.initMatrix)) : Value();
  Value factor = vector::BroadcastOp::create(
      e.b, VectorType::get({columnsPerThread}, e.b.getF32Type()), g.share);
  e.when(e.less(column, e.index(head.width)), [&] {
    tile.eachLines(2, [&](ArrayRef<Value> lines) {
      for (Value line : lines) {
        Value at = e.add(g.firstHeld, line);
        Value stored = g.holdsRows ? frame.row(at).valid : e.less(at, e.index(head.vocabulary));
        e.when(stored, [&] {
          Value value = e.mulf(tile.load(line), factor);
          if (init) {
            value = e.addf(loadColumns(core, e, init, {at, column}), value);
          }
          Value to = isPart ? e.add(e.mul(g.split, head.vocabulary), at) : at;
          storeColumns(core, e, value, memory, {to, column});
        });
      }
    });
  });
}

static void clearBias(LossGradientEmitter &g) {
  Emitter &e = g.e;
  TensorCore &core = g.core;
  Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
  for (int64_t i = 0; g.sumsBias() && i < heldPerThread; ++i) {
    core.store(zero, core.shared(g.biasSlot(i)), wordBytes);
  }
}

/// Adds the sums of the threads that share a token, in a fixed order.
static void storeBias(LossGradientEmitter &g) {
  const Head &head = g.head;
  Frame &frame = g.frame;
  Emitter &e = g.e;
  TensorCore &core = g.core;
  core.barrier();
  const SumTargets &targets = head.weightGradients;
  Value token = e.add(g.firstHeld, g.thread);
  Value owns = e.both(e.less(g.thread, e.index(heldLines)), g.isFirstChunk);
  e.when(e.both(owns, e.less(token, e.index(head.vocabulary))), [&] {
    // The line of the token is line i of four lanes, in each warp of one row of warps.
    Value warpRow = divide(e, g.thread, logitGrid.tileRows),
          within = rest(e, g.thread, logitGrid.tileRows);
    Value i = e.add(e.mul(divide(e, within, fragmentRows), 2), rest(e, divide(e, within, 8), 2));
    Value first =
        e.add(e.mul(warpRow, logitGrid.columns * threadsPerWarp), e.mul(rest(e, within, 8), 4));
    Value slot = e.add(e.mul(i, frame.threads), first);
    Value sum;
    for (int64_t warp = 0; warp < logitGrid.columns; ++warp) {
      for (int64_t lane = 0; lane < 4; ++lane) {
        Value at = e.mul(e.add(slot, warp * threadsPerWarp + lane), wordBytes);
        Value part = core.load(e.b.getF32Type(), core.shared(at, g.biasByte), wordBytes);
        sum = sum ? e.addf(sum, part) : part;
      }
    }
    sum = e.mulf(sum, g.share);
    if (g.parts.splits > 1) {
      e.store(sum, g.parts.vector(frame), {e.add(e.mul(g.split, head.vocabulary), token)});
      return;
    }
    if (targets.initVector >= 0) {
      sum = e.addf(e.loadScalar(frame.buffer(unsigned(targets.initVector)), {token}), sum);
    }
    e.store(sum, frame.buffer(unsigned(targets.vector)), {token});
  });
}

// A barrier separates two uses of the same shared memory by different warps: the barrier after the
// logits frees their stages; the barriers in the logits' steps free g and the stages of the
// products; the first barrier in the steps of the products publishes g.
void LossGradientEmitter::emitBlock() {
  makePipelines();
  gradients =
      std::make_unique<Tile>(frame, core, Factor{{}, 0, 0, false, heldLines}, streamedLines);
  layOut();
  core.store(e.toInteger(thread), core.shared(e.mul(thread, wordBytes), threadByte), wordBytes);
  readHeld();
  clearBias(*this);
  int64_t total = streamedBlocks(head, holdsRows), perSplit = llvm::divideCeil(total, parts.splits);
  Value firstBlock = e.mul(split, perSplit);
  Value end = e.min(e.index(total), e.add(firstBlock, perSplit));
  Value steps = e.index(llvm::divideCeil(head.width, logitStep));
  auto origin = [&](Value block) -> Origin {
    return {firstHeld, e.mul(block, streamedLines), e.index(0)};
  };
  logits->fill(origin(firstBlock), steps);
  auto emitTurn = [&](Value block, ValueRange carried) {
    Value first = origin(block).column;
    readStreamed(first);
    Values x = logits->run(origin(block), steps, core.zeros(logitGrid.sums()));
    core.barrier();
    Origin place{firstColumn, {}, first};
    Value left = divide(e, e.add(e.sub(e.index(streamed()), first), productStep - 1), productStep);
    Value productSteps = e.min(e.index(streamedLines / productStep), left);
    products->fill(place, productSteps);
    Value following = e.add(block, 1);
    // These copies join the first commit of the eight steps of the products.
    e.when(e.less(following, end),
           [&] { logits->fill(origin(following), steps, /*commits=*/false); });
    storeGradients(x);
    auto add = [&](Value number, Value tile, ArrayRef<Values>, ValueRange own) {
      return addProducts(number, tile, own);
    };
    return products->run(place, productSteps, carried, add);
  };
  Values all = e.loop(firstBlock, end, 1, core.zeros(productGrid.sums()),
                      [&](Value block, ValueRange carried) {
                        return withThreadReadAnew([&] { return emitTurn(block, carried); });
                      });
  if (sumsBias()) {
    storeBias(*this);
  }
  storeMatrix(*this, all);
  if (parts.splits > 1) {
    addPartsInOrder(frame, core, productGrid, parts, head.weightGradients,
                    {tile, firstHeld, firstColumn, isFirstChunk});
  }
}

KernelStage LossGradientEmitter::generate() {
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
  return llvm::divideCeil(held, heldLines) * llvm::divideCeil(head.width, getChunkSize(head.width));
}

int64_t cross_entropy::streamedBlocks(const Head &head, bool holdsRows) {
  return llvm::divideCeil(holdsRows ? head.vocabulary : head.rows, streamedLines);
}

KernelStage cross_entropy::emitGradient(const Head &head, StringRef name, bool holdsRows,
                                        const PartialSums &parts) {
  return LossGradientEmitter(head, name, holdsRows, parts).generate();
}
