// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contractions. A block makes one tile of the result: its sums stay in registers over all of K,
// then pass through shared memory, so that every thread holds four columns of a row when the
// epilogue runs and its loads and stores are whole vectors, side by side.
#include "Columns.h"
#include "Pipeline.h"
#include "SumTile.h"
#include "sluice/Target/CPU/Epilogue.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

namespace {

constexpr int64_t innerStep = 32, stageCount = 4;
/// Blocks of rows whose blocks of columns are launched together: what they share stays in the
/// second cache.
constexpr int64_t rowGroup = 8;
constexpr int64_t rowsAtOnce = 4; ///< a thread's, in the epilogue

/// Enough blocks for a large GPU count for more than large tiles.
WarpGrid chooseGrid(int64_t rows, int64_t columns) {
  constexpr int64_t wanted = 132;
  const WarpGrid grids[] = {{2, 2, 64, 64}, {2, 2, 64, 32}, {2, 2, 32, 32}};
  for (const WarpGrid &grid : grids) {
    int64_t blocks =
        llvm::divideCeil(rows, grid.blockRows()) * llvm::divideCeil(columns, grid.blockColumns());
    bool fits = columns > grid.blockColumns() / 2 && rows > grid.blockRows() / 2;
    if (blocks >= wanted && fits) {
      return grid;
    }
  }
  return grids[2];
}

class Contraction {
public:
  Contraction(dispatch::ContractOp op, ModuleOp module, StringRef name, WarpGrid grid);
  FailureOr<Kernel> generate();
  Frame &kernelFrame() { return frame; }

private:
  Factor inputFactor();
  Factor weightFactor();
  void place();
  LogicalResult emitBlock();
  void loadShared();
  LogicalResult emitLines(ArrayRef<Value> lines, SumTile &tile);
  LogicalResult emitRow(Value acc, const Row &row, ArrayRef<Value> extras);
  Value loadRow(Value memory, const Row &row);
  Values loadExtras(const Row &row);
  Value loadAngles(const Row &row);
  Value rotate(Value value, Value angles);
  dispatch::AccessKind kindOf(Attribute access) {
    return cast<dispatch::AccessAttr>(access).getKind();
  }

  dispatch::ContractOp op;
  Frame frame;
  cpu::Emitter &e;
  const WarpGrid grid;
  int64_t rows, inner, columns, rowBlocks, columnBlocks, sharedBytes = 0;
  std::unique_ptr<TensorCore> core;
  std::unique_ptr<cpu::Epilogue> epilogue;
  SmallVector<Value> extras, results; ///< memory
  Values shared;                      ///< extras that all rows share, of this thread's columns
  Value firstRow, firstColumn;        ///< of the block
  Value column;                       ///< first of this thread in the epilogue
};

} // namespace

Contraction::Contraction(dispatch::ContractOp op, ModuleOp module, StringRef name, WarpGrid grid)
    : op(op), frame(op, op.getDomain(), module, name, grid.threads()), e(frame.e), grid(grid),
      rows(op.getDomain().getLaunchRows()) {
  ArrayRef<int64_t> weight = cast<RankedTensorType>(op.getWeight().getType()).getShape();
  inner = weight[op.getByInput() ? 0 : 1];
  columns = weight[op.getByInput() ? 1 : 0];
  rowBlocks = llvm::divideCeil(rows, grid.blockRows());
  columnBlocks = llvm::divideCeil(columns, grid.blockColumns());
}

Factor Contraction::inputFactor() {
  return {frame.buffer(0), rows, inner, /*linesAreInner=*/false, grid.blockRows()};
}

Factor Contraction::weightFactor() {
  bool byInput = op.getByInput();
  return {frame.buffer(1), byInput ? inner : columns, byInput ? columns : inner, byInput,
          grid.blockColumns()};
}

/// Blocks go down a group of rows' blocks before they go on to the next columns.
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

/// This thread's columns of an extra's row. A row past the last is not read in its place: the
/// extra's memory may be a result's, and the last row's own thread stores there.
Value Contraction::loadRow(Value memory, const Row &row) {
  if (rows % grid.blockRows() == 0) {
    return loadColumns(*core, e, memory, {row.global, column});
  }
  auto type = VectorType::get({columnsPerThread}, frame.b.getF32Type());
  auto branch = scf::IfOp::create(frame.b, TypeRange(type), row.exists, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(frame.b);
  frame.b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(frame.b, loadColumns(*core, e, memory, {row.global, column}));
  frame.b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(frame.b,
                       Value(arith::ConstantOp::create(frame.b, frame.b.getZeroAttr(type))));
  return branch.getResult(0);
}

/// Extras of one row, the last of them its angles where results are rotated; null where all rows
/// share them.
Values Contraction::loadExtras(const Row &row) {
  Values values;
  for (auto [memory, access] : llvm::zip_equal(extras, op.getAccesses())) {
    bool isRow = kindOf(access) == dispatch::AccessKind::Row;
    values.push_back(isRow ? loadRow(memory, row) : Value());
  }
  if (op.getRotary()) {
    values.back() = loadAngles(row);
  }
  return values;
}

/// Cosines and sines of this thread's two pairs of columns. The table repeats every head, and all
/// columns have some of its angles.
Value Contraction::loadAngles(const Row &row) {
  Value table = extras.back();
  int64_t head = cast<MemRefType>(table.getType()).getDimSize(1);
  int64_t together = head % columnsPerThread == 0 ? columnsPerThread : 2;
  Type number = frame.b.getF32Type();
  Values angles;
  for (int64_t i = 0; i < columnsPerThread; i += together) {
    Value at = arith::RemUIOp::create(frame.b, e.add(column, i), e.index(head));
    Value some = core->load(VectorType::get({together}, number),
                            core->global(table, {row.position, at}), together * sizeof(float));
    for (int64_t j = 0; j < together; ++j) {
      angles.push_back(vector::ExtractOp::create(frame.b, some, ArrayRef<int64_t>{j}));
    }
  }
  return vector::FromElementsOp::create(frame.b, VectorType::get({columnsPerThread}, number),
                                        angles);
}

/// Pairs of columns that lie below those that are not rotated.
Value Contraction::rotate(Value value, Value angles) {
  Value turned = cpu::emitRotation(frame.b, value, angles, /*back=*/false);
  auto rotated = int64_t(*op.getRotatedColumns());
  Value isFirst = e.less(column, e.index(rotated));
  Value isSecond =
      rotated % columnsPerThread == 0 ? isFirst : e.less(e.add(column, 2), e.index(rotated));
  Values numbers;
  for (int64_t i = 0; i < columnsPerThread; ++i) {
    auto element = [&](Value of) -> Value {
      return vector::ExtractOp::create(frame.b, of, ArrayRef<int64_t>{i});
    };
    numbers.push_back(e.select(i < 2 ? isFirst : isSecond, element(turned), element(value)));
  }
  return vector::FromElementsOp::create(frame.b, value.getType(), numbers);
}

LogicalResult Contraction::emitRow(Value acc, const Row &row, ArrayRef<Value> extras) {
  Values arguments{acc};
  for (auto [own, common] : llvm::zip(extras, shared)) {
    arguments.push_back(own ? own : common);
  }
  FailureOr<SmallVector<Value>> yielded = epilogue->emit(arguments, {row.global, column});
  if (failed(yielded)) {
    return failure();
  }
  if (op.getRotary()) {
    yielded->front() = rotate(yielded->front(), extras.back());
  }
  e.when(row.valid, [&] {
    for (auto [value, memory] : llvm::zip_equal(*yielded, results)) {
      storeColumns(*core, e, value, memory, {row.global, column});
    }
  });
  return success();
}

/// Several rows, so that their loads are under way together.
LogicalResult Contraction::emitLines(ArrayRef<Value> lines, SumTile &tile) {
  SmallVector<Row> places;
  SmallVector<Values> loaded;
  for (Value line : lines) {
    places.push_back(frame.row(e.add(firstRow, line)));
    loaded.push_back(loadExtras(places.back()));
  }
  for (auto [line, row, own] : llvm::zip_equal(lines, places, loaded)) {
    if (failed(emitRow(tile.load(line), row, own))) {
      return failure();
    }
  }
  return success();
}

void Contraction::loadShared() {
  for (auto [memory, access] : llvm::zip(extras, op.getAccesses())) {
    if (kindOf(access) == dispatch::AccessKind::Table) {
      return; // the last, of angles: not an argument
    }
    Value value;
    if (kindOf(access) == dispatch::AccessKind::Vector) {
      value = loadColumns(*core, e, memory, {column});
    } else if (kindOf(access) == dispatch::AccessKind::Scalar) {
      value = broadcastColumns(e, memory);
    }
    shared.push_back(value);
  }
}

LogicalResult Contraction::emitBlock() {
  Pipeline pipeline(frame, *core, grid, inputFactor(), weightFactor(), innerStep, stageCount);
  SumTile tile(frame, *core, grid);
  column = e.add(firstColumn, tile.column());
  Origin origin{firstRow, firstColumn, e.index(0)};
  int64_t steps = llvm::divideCeil(inner, innerStep);
  pipeline.fill(origin, e.index(steps));
  Values sums = pipeline.run(origin, e.index(steps), core->zeros(grid.sums()));
  if (pipeline.firstByteOf(steps - 1) < tile.bytes()) {
    core->barrier(); // a warp may still be reading where sums are stored
  }
  tile.store(sums, pipeline.warpRow(), pipeline.warpColumn());
  core->barrier();
  sharedBytes = std::max(pipeline.sharedBytes(), tile.bytes());
  LogicalResult result = success();
  e.when(e.less(column, e.index(columns)), [&] {
    loadShared();
    tile.eachLines(rowsAtOnce, [&](ArrayRef<Value> lines) { result = emitLines(lines, tile); });
  });
  return result;
}

FailureOr<Kernel> Contraction::generate() {
  core = std::make_unique<TensorCore>(frame);
  epilogue =
      std::make_unique<cpu::Epilogue>(op, frame.b, frame.step, frame.seed, frame.firstStream);
  for (size_t i = 0; i < op.getAccesses().size(); ++i) {
    extras.push_back(frame.buffer(2 + i));
  }
  for (size_t i = 0; i < op.getResultAccesses().size(); ++i) {
    results.push_back(frame.buffer(2 + extras.size() + i));
  }
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

/// The generator handles bf16 factors, and the accesses that the op's description lists.
static LogicalResult check(dispatch::ContractOp op) {
  using dispatch::AccessKind;
  if (failed(checkFactors(op, {op.getInput(), op.getWeight()})) ||
      failed(checkStorage(op, op.getExtras())) || failed(checkStorage(op, op.getOutputs()))) {
    return failure();
  }
  for (Attribute attribute : op.getAccesses()) {
    auto access = cast<dispatch::AccessAttr>(attribute);
    bool isTable = op.getRotary() && attribute == op.getAccesses().getValue().back();
    if (!access.isIdentity() && access.getKind() != AccessKind::Vector &&
        access.getKind() != AccessKind::Scalar && !isTable) {
      return op.emitOpError("expected extra operands of access row (identity map), vector or "
                            "scalar, found ")
             << attribute;
    }
  }
  for (Attribute attribute : op.getResultAccesses()) {
    if (!cast<dispatch::AccessAttr>(attribute).isIdentity()) {
      return op.emitOpError("expected results of access row (identity map), found ") << attribute;
    }
  }
  return success();
}

FailureOr<Kernel> cuda::generateContract(dispatch::ContractOp op, ModuleOp module, StringRef name) {
  if (failed(check(op))) {
    return failure();
  }
  int64_t columns = cast<RankedTensorType>(op.getWeight().getType()).getDimSize(op.getByInput());
  Contraction contraction(op, module, name, chooseGrid(op.getDomain().getLaunchRows(), columns));
  return contraction.kernelFrame().finish(contraction.generate());
}
