// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contractions. A block computes one tile of the result. Sums stay in registers over all of K and
// then pass through shared memory, so that every thread has four columns of a row in the epilogue.
#include "Contract.h"
#include "../TensorCore/Pipeline.h"
#include "../TensorCore/SumTile.h"
#include "SumRows.h"
#include "sluice/Target/CUDA/Chip.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

namespace {

/// Row blocks whose column blocks are launched together, so that the data they share stays in L2.
constexpr int64_t rowGroup = 8;
constexpr int64_t rowsAtOnce = 4; ///< rows of a thread in the epilogue

/// Having enough blocks for a large GPU matters more than large tiles.
Tiling chooseTiling(dispatch::ContractOp op, bool warpgroups) {
  constexpr int64_t wanted = 132;
  int64_t rows = op.getDomain().getLaunchRows();
  int64_t columns = cast<RankedTensorType>(op.getWeight().getType()).getDimSize(op.getByInput());
  const Tiling ampere[] = {{{2, 2, 64, 64}}, {{2, 2, 64, 32}}, {{2, 2, 32, 32}}};
  auto suits = [&](const Tiling &tiling) {
    const WarpGrid &grid = tiling.grid;
    int64_t blocks =
        llvm::divideCeil(rows, grid.blockRows()) * llvm::divideCeil(columns, grid.blockColumns());
    bool fits = columns > grid.blockColumns() / 2 && rows > grid.blockRows() / 2;
    return blocks >= wanted && fits;
  };
  if (warpgroups && suits(warpgroupTiling)) {
    return warpgroupTiling;
  }
  for (const Tiling &tiling : ampere) {
    if (suits(tiling)) {
      return tiling;
    }
  }
  return ampere[2];
}

class Contraction {
public:
  Contraction(dispatch::ContractOp op, ModuleOp module, StringRef name, Tiling tiling);
  FailureOr<Kernel> generate();
  Frame &kernelFrame() { return frame; }

private:
  Factor inputFactor();
  Factor weightFactor();
  void place();
  LogicalResult emitBlock();
  LogicalResult emitLines(ArrayRef<Value> lines, SumTile &tile);

  dispatch::ContractOp op;
  Frame frame;
  Emitter &e;
  const Tiling tiling;
  const WarpGrid grid;
  int64_t rows, inner, columns, rowBlocks, columnBlocks, sharedBytes = 0;
  std::unique_ptr<TensorCore> core;
  std::unique_ptr<SumRows> epilogue;
  Value firstRow, firstColumn; ///< first row and column of the block
};

} // namespace

Contraction::Contraction(dispatch::ContractOp op, ModuleOp module, StringRef name, Tiling tiling)
    : op(op), frame(op, op.getDomain(), module, name, tiling.grid.threads()), e(frame.e),
      tiling(tiling), grid(tiling.grid), rows(op.getDomain().getLaunchRows()) {
  ArrayRef<int64_t> weight = cast<RankedTensorType>(op.getWeight().getType()).getShape();
  inner = weight[op.getByInput() ? 0 : 1];
  columns = weight[op.getByInput() ? 1 : 0];
  rowBlocks = llvm::divideCeil(rows, grid.blockRows());
  columnBlocks = llvm::divideCeil(columns, grid.blockColumns());
}

Factor Contraction::inputFactor() {
  Factor factor{frame.buffer(0), rows, inner, /*linesAreInner=*/false, grid.blockRows()};
  dispatch::DomainAttr domain = op.getDomain();
  // Without an axis an invalid row only affects its own sums, and with factor 0 all rows are valid.
  if (domain.getAxis() && domain.getFactor() > 0) {
    factor.isValid = [this](Value row) {
      return e.both(e.less(row, e.index(rows)), frame.isValid(row));
    };
    factor.isPartial = true;
  }
  return factor;
}

Factor Contraction::weightFactor() {
  bool byInput = op.getByInput();
  return {frame.buffer(1), byInput ? inner : columns, byInput ? columns : inner, byInput,
          grid.blockColumns()};
}

/// Block order: all row blocks of a group, then the next column block.
void Contraction::place() {
  ImplicitLocOpBuilder &b = frame.b;
  int64_t groupBlocks = rowGroup * columnBlocks;
  Value group = arith::DivUIOp::create(b, frame.block, e.index(groupBlocks));
  Value within = arith::RemUIOp::create(b, frame.block, e.index(groupBlocks));
  Value first = e.mul(group, rowGroup);
  Value size = e.min(e.index(rowGroup), e.sub(e.index(rowBlocks), first));
  Value row = e.add(first, arith::RemUIOp::create(b, within, size));
  firstRow = e.mul(row, grid.blockRows());
  firstColumn = e.mul(Value(arith::DivUIOp::create(b, within, size)), grid.blockColumns());
}

/// Processes several rows, so that their loads overlap.
LogicalResult Contraction::emitLines(ArrayRef<Value> lines, SumTile &tile) {
  SmallVector<Row> places;
  SmallVector<Values> loaded;
  for (Value line : lines) {
    places.push_back(frame.row(e.add(firstRow, line)));
    loaded.push_back(epilogue->loadExtras(places.back()));
  }
  for (auto [line, row, own] : llvm::zip_equal(lines, places, loaded)) {
    if (failed(epilogue->emit(tile.load(line), row, own))) {
      return failure();
    }
  }
  return success();
}

LogicalResult Contraction::emitBlock() {
  Pipeline pipeline(frame, *core, grid, inputFactor(), weightFactor(), tiling.step, tiling.stages,
                    0, !grid.warpgroups);
  SumTile tile(frame, *core, grid);
  Value column = e.add(firstColumn, tile.column());
  Origin origin{firstRow, firstColumn, e.index(0)};
  int64_t steps = llvm::divideCeil(inner, tiling.step);
  pipeline.fill(origin, e.index(steps));
  Values sums = pipeline.run(origin, e.index(steps), core->zeros(grid.sums()));
  if (grid.warpgroups || pipeline.getFirstByte(steps - 1) < tile.bytes()) {
    core->barrier(); // a warp may still be reading the memory where sums are stored
  }
  tile.store(sums, pipeline.warpRow(), pipeline.warpColumn());
  core->barrier();
  sharedBytes = std::max(pipeline.sharedBytes(), tile.bytes());
  LogicalResult result = success();
  e.when(e.less(column, e.index(columns)), [&] {
    epilogue->setColumn(column);
    tile.eachLines(rowsAtOnce, [&](ArrayRef<Value> lines) { result = emitLines(lines, tile); });
  });
  return result;
}

FailureOr<Kernel> Contraction::generate() {
  core = std::make_unique<TensorCore>(frame);
  epilogue = std::make_unique<SumRows>(op, frame, *core, rows % grid.blockRows() != 0);
  place();
  LogicalResult result = success();
  e.when(anyValid(frame, op.getDomain(), firstRow, grid.blockRows()),
         [&] { result = emitBlock(); });
  if (failed(result)) {
    return failure();
  }
  return frame.kernel(rowBlocks * columnBlocks, "matmul",
                      2 * double(rows) * double(inner) * double(columns), sharedBytes);
}

FailureOr<Kernel> cuda::generateContract(dispatch::ContractOp op, ModuleOp module, StringRef name) {
  bool isStep = op.getDomain().getScheduled(); // the verifier accepts more types of its weight
  Value weight = isStep ? op.getInput() : op.getWeight();
  if (failed(checkFactors(op, {op.getInput(), weight})) || failed(checkSumRows(op))) {
    return failure();
  }
  if (isStep) {
    return generateStepContract(op, module, name);
  }
  Contraction contraction(op, module, name, chooseTiling(op, hasWarpgroups(module)));
  return contraction.kernelFrame().finish(contraction.generate());
}

bool cuda::multipliesByWarpgroup(dispatch::ContractOp op) {
  return !op.getDomain().getScheduled() && chooseTiling(op, true).grid.warpgroups;
}
