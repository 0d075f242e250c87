// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weight gradients: left^T times right, summed over rows. The sum's index is outermost in both
// factors, so their fragments are transposed as they are loaded. Invalid rows are copied as zeros;
// where sequences have lengths of their own, steps without a valid row are left out. Rows are split
// among blocks so that the blocks fill the GPU in whole waves; the last block of a tile adds all
// partial sums in order. Bias sums are products with ones, from the same tiles.
#include "../TensorCore/Columns.h"
#include "../TensorCore/SumTile.h"
#include "Contract.h"
#include "ValidSteps.h"
#include "sluice/Target/CUDA/Chip.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

namespace {

constexpr int64_t leastRows = 256; ///< per block: with fewer, prologue and epilogue dominate

Tiling chooseTiling(int64_t height, int64_t width, bool warpgroups) {
  if (height <= 64) {
    return {{2, 2, 32, 32}};
  }
  if (width <= 64) {
    return {{2, 2, 64, 32}};
  }
  return warpgroups && width > 128 ? warpgroupTiling : Tiling{{2, 2, 64, 64}};
}

/// Returns the number of blocks that certainly fit on a multiprocessor at a time: a thread has at
/// most 255 registers, and shared memory also fits this number.
int64_t countResidentBlocks(const WarpGrid &grid) { return grid.warpgroups ? 1 : 2; }

/// Chooses the number of splits of the rows. The cost of a launch is measured in steps of a block:
/// the number of waves of resident blocks, each with its prologue and epilogue, plus about one step
/// for each partial sum that the last block of a tile adds (64 KB of a tile from L2 against 16 KB
/// for products of twice as many blocks). More splits must save at least 3%, because they cost
/// memory.
int64_t chooseSplits(int64_t tiles, int64_t steps, int64_t leastSteps, int64_t slots) {
  constexpr int64_t startAndEnd = 8;
  int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t splits = 1; splits <= std::max<int64_t>(1, steps / leastSteps); ++splits) {
    int64_t waves = llvm::divideCeil(tiles * splits, slots);
    auto cost =
        double(waves * (llvm::divideCeil(steps, splits) + startAndEnd) + (splits > 1 ? splits : 0));
    if (cost < 0.97 * least) {
      least = cost;
      best = splits;
    }
  }
  // Avoids empty blocks at the end.
  return llvm::divideCeil(steps, llvm::divideCeil(steps, best));
}

class WeightGradient {
public:
  WeightGradient(dispatch::WeightGradientOp op, ModuleOp module, StringRef name, int64_t height,
                 int64_t width, Tiling tiling);
  Kernel generate();

private:
  Factor factor(unsigned operand, int64_t width, int64_t extent);
  void place();
  bool listsSteps() { return ValidSteps::apply(op.getDomain(), tiling.step, parts.splits); }
  std::pair<Value, Value> takeSteps();
  Values addBias(Pipeline &pipeline, Value tile, ArrayRef<Values> left, ValueRange carried);
  void storeMatrix(const Values &sums, Pipeline &pipeline);
  void storeBias(ArrayRef<Value> sums, Pipeline &pipeline);

  dispatch::WeightGradientOp op;
  Frame frame;
  Emitter &e;
  const Tiling tiling;
  const WarpGrid grid;
  int64_t rows, height, width, rowBlocks, columnBlocks, totalSteps;
  PartialSums parts;
  SumTargets targets;
  std::unique_ptr<TensorCore> core;
  std::unique_ptr<ValidSteps> validSteps; ///< if listsSteps()
  int64_t sharedBytes = 0;
  Value split, tileNumber, columnBlock, firstRow, firstColumn, ownsBias;
};

} // namespace

WeightGradient::WeightGradient(dispatch::WeightGradientOp op, ModuleOp module, StringRef name,
                               int64_t height, int64_t width, Tiling tiling)
    : op(op), frame(op, op.getDomain(), module, name, tiling.grid.threads()), e(frame.e),
      tiling(tiling), grid(tiling.grid), rows(op.getDomain().getLaunchRows()), height(height),
      width(width), rowBlocks(llvm::divideCeil(height, grid.blockRows())),
      columnBlocks(std::max<int64_t>(1, llvm::divideCeil(width, grid.blockColumns()))),
      totalSteps(llvm::divideCeil(rows, tiling.step)) {
  int64_t slots = getMultiprocessorCount(module) * countResidentBlocks(grid);
  int64_t splits =
      chooseSplits(rowBlocks * columnBlocks, totalSteps, leastRows / tiling.step, slots);
  parts = {splits, height, width};
  int next = 2;
  targets.initMatrix = op.getInitWeight() ? next++ : -1;
  targets.initVector = op.getInitBias() ? next++ : -1;
  targets.matrix = op.getWeight() ? next++ : -1;
  targets.vector = op.getBias() ? next++ : -1;
}

Factor WeightGradient::factor(unsigned operand, int64_t width, int64_t extent) {
  Factor result{frame.buffer(operand), rows, width, /*linesAreInner=*/true, extent};
  if (op.getDomain().getFactor() > 0) {
    result.isValid = [this](Value row) { return frame.isValid(row); };
    result.isPartial = bool(op.getDomain().getAxis());
    if (listsSteps() || op.getDomain().getPositions() % tiling.step == 0) {
      result.validEnd = [this](Value first) { return frame.validEnd(first); };
    }
    if (listsSteps()) {
      result.stepStart = [this](Value number) { return validSteps->firstRow(number); };
    }
  }
  return result;
}

void WeightGradient::place() {
  int64_t tiles = rowBlocks * columnBlocks;
  auto divide = [&](Value a, int64_t c) -> Value {
    return arith::DivUIOp::create(e.b, a, e.index(c));
  };
  auto rest = [&](Value a, int64_t c) -> Value {
    return arith::RemUIOp::create(e.b, a, e.index(c));
  };
  split = divide(frame.block, tiles);
  tileNumber = rest(frame.block, tiles);
  firstRow = e.mul(divide(tileNumber, columnBlocks), grid.blockRows());
  columnBlock = rest(tileNumber, columnBlocks);
  firstColumn = e.mul(columnBlock, grid.blockColumns());
  Value first = arith::AddIOp::create(e.b, columnBlock, rest(frame.warp, grid.columns));
  ownsBias = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, first, e.index(0));
}

/// Computes carried += the left factor times ones; every column of a fragment is the sum. Uses
/// `left`, or the whole tile if there are no products.
Values WeightGradient::addBias(Pipeline &pipeline, Value tile, ArrayRef<Values> left,
                               ValueRange carried) {
  auto branch = scf::IfOp::create(e.b, carried.getTypes(), ownsBias, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToStart(branch.thenBlock());
  constexpr int64_t onesOfBf16 = 0x3f803f80;
  Values ones{e.integer(onesOfBf16), e.integer(onesOfBf16)}, next(carried);
  if (!left.empty()) {
    next = multiplyFragments(*core, left, {ones}, next);
  }
  for (int64_t inner = 0; left.empty() && inner < tiling.step; inner += fragmentInner) {
    SmallVector<Values> ofTile;
    for (int64_t i = 0; i < grid.rowFragments(); ++i) {
      ofTile.push_back(pipeline.leftTile().left(tile, pipeline.warpRow(), i * grid.fragmentStride(),
                                                e.index(inner)));
    }
    next = multiplyFragments(*core, ofTile, {ones}, next);
  }
  scf::YieldOp::create(e.b, next);
  e.b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(e.b, carried);
  return Values(branch.getResults());
}

void WeightGradient::storeMatrix(const Values &sums, Pipeline &pipeline) {
  SumTile tile(frame, *core, grid);
  sharedBytes = std::max(sharedBytes, tile.bytes());
  core->barrier();
  tile.store(sums, pipeline.warpRow(), pipeline.warpColumn());
  core->barrier();
  Value column = e.add(firstColumn, tile.column());
  Value memory = parts.splits > 1 ? parts.matrix(frame) : frame.buffer(targets.matrix);
  bool adds = parts.splits == 1 && targets.initMatrix >= 0;
  Value init = adds ? frame.buffer(targets.initMatrix) : Value();
  e.when(e.less(column, e.index(width)), [&] {
    tile.eachLines(4, [&](ArrayRef<Value> lines) {
      for (Value line : lines) {
        Value row = e.add(firstRow, line);
        e.when(e.less(row, e.index(height)), [&] {
          Value value = tile.load(line);
          if (init) {
            value = e.addf(loadColumns(*core, e, init, {row, column}), value);
          }
          Value to = parts.splits > 1 ? e.add(e.mul(split, height), row) : row;
          storeColumns(*core, e, value, memory, {to, column});
        });
      }
    });
  });
}

/// The lanes of the first columns hold the sums of the rows.
void WeightGradient::storeBias(ArrayRef<Value> sums, Pipeline &pipeline) {
  Value group = arith::DivUIOp::create(e.b, frame.lane, e.index(4));
  Value pair = arith::RemUIOp::create(e.b, frame.lane, e.index(4));
  Value first = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, pair, e.index(0));
  Value memory = parts.splits > 1 ? parts.vector(frame) : frame.buffer(targets.vector);
  bool adds = parts.splits == 1 && targets.initVector >= 0;
  Value init = adds ? frame.buffer(targets.initVector) : Value();
  for (size_t i = 0; i < sums.size(); i += 2) {
    int64_t down =
        int64_t(i) / sumsPerFragment * grid.fragmentStride() + int64_t(i) % sumsPerFragment * 4;
    Value row = e.add(e.add(e.add(firstRow, pipeline.warpRow()), group), down);
    e.when(e.both(e.both(ownsBias, first), e.less(row, e.index(height))), [&] {
      Value value = init ? e.addf(e.loadScalar(init, {row}), sums[i]) : sums[i];
      e.store(value, memory, {parts.splits > 1 ? e.add(e.mul(split, height), row) : row});
    });
  }
}

/// Returns the first step of this block's split and their number.
std::pair<Value, Value> WeightGradient::takeSteps() {
  if (listsSteps()) {
    validSteps = std::make_unique<ValidSteps>(frame, *core, op.getDomain(), tiling.step,
                                              parts.splits, sharedBytes);
    sharedBytes += validSteps->bytes();
    return {e.index(0), validSteps->list(split)};
  }
  int64_t stepsOfSplit = llvm::divideCeil(totalSteps, parts.splits);
  // A constant without splits, which lets LLVM simplify short loops.
  Value firstStep = parts.splits > 1 ? e.mul(split, stepsOfSplit) : e.index(0);
  return {firstStep, e.min(e.index(stepsOfSplit), e.sub(e.index(totalSteps), firstStep))};
}

Kernel WeightGradient::generate() {
  core = std::make_unique<TensorCore>(frame);
  place();
  Factor right;
  if (targets.matrix >= 0) {
    right = factor(1, width, grid.blockColumns());
  }
  Pipeline pipeline(frame, *core, grid, factor(0, height, grid.blockRows()), right, tiling.step,
                    tiling.stages, 0, !grid.warpgroups);
  sharedBytes = pipeline.sharedBytes();
  auto [firstStep, steps] = takeSteps();
  Origin origin{firstRow, firstColumn, e.mul(firstStep, tiling.step)};
  size_t products = targets.matrix >= 0 ? size_t(grid.sums()) : 0;
  int64_t biases = targets.vector >= 0 ? grid.rowFragments() * sumsPerFragment : 0;
  pipeline.fill(origin, steps);
  auto each = [&](Value, Value tile, ArrayRef<Values> left, ValueRange carried) {
    return biases ? addBias(pipeline, tile, left, carried) : Values();
  };
  Values sums = pipeline.run(origin, steps, core->zeros(int64_t(products) + biases), each);
  if (biases) {
    storeBias(ArrayRef<Value>(sums).drop_front(products), pipeline);
  }
  if (targets.matrix >= 0) {
    storeMatrix(Values(ArrayRef<Value>(sums).take_front(products)), pipeline);
  }
  if (parts.splits > 1) {
    Value isFirst = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, columnBlock, e.index(0));
    addPartsInOrder(frame, *core, grid, parts, targets,
                    {tileNumber, firstRow, firstColumn, isFirst});
  }
  func::ReturnOp::create(e.b);
  double flops = 2 * double(rows) * double(height) * double(width);
  Kernel kernel =
      frame.kernel(rowBlocks * columnBlocks * parts.splits, "matmul", flops, sharedBytes);
  if (parts.splits > 1) {
    kernel.workspaceBytes = parts.bytes();
    kernel.counters = rowBlocks * columnBlocks;
  }
  return kernel;
}

FailureOr<Kernel> cuda::generateWeightGradient(dispatch::WeightGradientOp op, ModuleOp module,
                                               StringRef name) {
  if (failed(checkFactors(op, {op.getLeft(), op.getRight()}))) {
    return failure();
  }
  for (Value value : {op.getInitWeight(), op.getInitBias(), op.getWeight(), op.getBias()}) {
    if (value && !cast<RankedTensorType>(value.getType()).getElementType().isF32()) {
      return op.emitOpError("expected gradients of weights and their inits of f32, found ")
             << value.getType();
    }
  }
  int64_t height = cast<RankedTensorType>(op.getLeft().getType()).getShape().back();
  int64_t width =
      op.getWeight() ? cast<RankedTensorType>(op.getRight().getType()).getShape().back() : 0;
  Tiling tiling = chooseTiling(height, width, hasWarpgroups(module));
  return WeightGradient(op, module, name, height, width, tiling).generate();
}
