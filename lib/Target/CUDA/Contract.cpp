// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contractions with mma.sync. A block of four warps makes 64 x 64 results, a warp 32 x 32 of them:
// two fragments of 16 rows by four of 8 columns. Operands go straight from memory to registers;
// nothing is staged or overlapped.
//
// Thread t of a warp, with g = t / 4 and q = t mod 4, holds of a product 16x8 = 16x16 * 16x8 (PTX
// ISA, mma.m16n8k16):
//   A  rows g, g + 8;          columns 2 q, 2 q + 1, 2 q + 8, 2 q + 9
//   B  rows as A's columns;    column g
//   C  rows g, g + 8;          columns 2 q, 2 q + 1
#include "Frame.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

namespace {

constexpr int64_t blockRows = 64, blockColumns = 64, warpRows = 32, warpColumns = 32;
constexpr int64_t fragmentRows = 16, fragmentColumns = 8, fragmentInner = 16;
constexpr int64_t rowFragments = warpRows / fragmentRows,
                  columnFragments = warpColumns / fragmentColumns;
constexpr int64_t resultsPerFragment = 4;

class Contraction {
public:
  Contraction(dispatch::ContractOp op, ModuleOp module, StringRef name);
  FailureOr<Kernel> generate();
  Frame &kernelFrame() { return frame; }

private:
  void place();
  Values emitStep(Value k0, ValueRange sums, bool ragged);
  Value readInput(const Row &row, Value k);
  Value readWeight(Value n, Value k);
  Value pack(Value low, Value high);
  LogicalResult emitResults(ArrayRef<Value> sums);
  LogicalResult emitElement(Value sum, const Row &row, Value n);
  Value address(unsigned i, dispatch::AccessAttr access, const Row &row, Value n,
                SmallVector<Value> &indices);

  dispatch::ContractOp op;
  Frame frame;
  cpu::Emitter &e;
  int64_t inner, columns, columnBlocks;
  Value input, weight;
  SmallVector<Value> buffers;     ///< extras, then results
  SmallVector<Row> laneRows;      ///< of fragment i: g at 2 i, g + 8 at 2 i + 1
  SmallVector<Value> laneColumns; ///< of fragment i's B: index
  Value pair;                     ///< 2 q
  Value firstColumn;              ///< of the warp
};

} // namespace

Contraction::Contraction(dispatch::ContractOp op, ModuleOp module, StringRef name)
    : op(op), frame(op, op.getDomain(), module, name), e(frame.e) {
  auto type = cast<RankedTensorType>(op.getWeight().getType());
  inner = type.getDimSize(op.getByInput() ? 0 : 1);
  columns = type.getDimSize(op.getByInput() ? 1 : 0);
  columnBlocks = llvm::divideCeil(columns, blockColumns);
  input = frame.buffer(0);
  weight = frame.buffer(1);
  for (size_t i = 0; i < op.getAccesses().size() + op.getResultAccesses().size(); ++i) {
    buffers.push_back(frame.buffer(i + 2));
  }
}

/// Rows and columns beyond the edge read the last one instead; their sums are never stored.
void Contraction::place() {
  ImplicitLocOpBuilder &b = frame.b;
  Value blockRow = arith::DivUIOp::create(b, frame.block, e.index(columnBlocks));
  Value blockColumn = arith::RemUIOp::create(b, frame.block, e.index(columnBlocks));
  Value warpRow = arith::DivUIOp::create(b, frame.warp, e.index(blockColumns / warpColumns));
  Value warpColumn = arith::RemUIOp::create(b, frame.warp, e.index(blockColumns / warpColumns));
  Value firstRow = e.add(e.mul(blockRow, blockRows), e.mul(warpRow, warpRows));
  firstColumn = e.add(e.mul(blockColumn, blockColumns), e.mul(warpColumn, warpColumns));
  Value group = arith::DivUIOp::create(b, frame.lane, e.index(4));
  pair = e.mul(Value(arith::RemUIOp::create(b, frame.lane, e.index(4))), 2);
  for (int64_t i = 0; i < 2 * rowFragments; ++i) {
    laneRows.push_back(frame.row(e.add(e.add(firstRow, group), i * fragmentRows / 2)));
  }
  for (int64_t i = 0; i < columnFragments; ++i) {
    Value n = e.add(e.add(firstColumn, group), i * fragmentColumns);
    laneColumns.push_back(e.min(n, e.index(columns - 1)));
  }
}

Value Contraction::readInput(const Row &row, Value k) {
  return e.loadScalar(input, {row.global, k});
}

Value Contraction::readWeight(Value n, Value k) {
  return op.getByInput() ? e.loadScalar(weight, {k, n}) : e.loadScalar(weight, {n, k});
}

/// Two f32 as bf16 in one register, the first in the low half: one instruction (cvt.rn.bf16x2).
Value Contraction::pack(Value low, Value high) {
  ImplicitLocOpBuilder &b = frame.b;
  Value two = vector::FromElementsOp::create(b, VectorType::get({2}, b.getF32Type()),
                                             ValueRange{low, high});
  Value rounded = arith::TruncFOp::create(b, VectorType::get({2}, b.getBF16Type()), two);
  Value bits = vector::BitCastOp::create(b, VectorType::get({1}, b.getI32Type()), rounded);
  return vector::ExtractOp::create(b, bits, ArrayRef<int64_t>{0});
}

/// sums += columns k0 ... k0 + 15. In a ragged step both operands are zero beyond the last column:
/// padding may hold NaN.
Values Contraction::emitStep(Value k0, ValueRange sums, bool ragged) {
  ImplicitLocOpBuilder &b = frame.b;
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  auto readPair = [&](int64_t half, llvm::function_ref<Value(Value)> read) {
    Value values[2];
    for (int64_t i = 0; i < 2; ++i) {
      Value k = e.add(e.add(k0, pair), half * 8 + i);
      values[i] = read(ragged ? e.min(k, e.index(inner - 1)) : k);
      values[i] = ragged ? e.select(e.less(k, e.index(inner)), values[i], zero) : values[i];
    }
    return pack(values[0], values[1]);
  };
  SmallVector<Values> a(rowFragments), w(columnFragments);
  for (int64_t i = 0; i < rowFragments; ++i) {
    for (int64_t part = 0; part < 4; ++part) {
      const Row &row = laneRows[2 * i + part % 2];
      a[i].push_back(readPair(part / 2, [&](Value k) { return readInput(row, k); }));
    }
  }
  for (int64_t i = 0; i < columnFragments; ++i) {
    for (int64_t half = 0; half < 2; ++half) {
      w[i].push_back(readPair(half, [&](Value k) { return readWeight(laneColumns[i], k); }));
    }
  }
  auto type = LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(resultsPerFragment, b.getF32Type()));
  Values next;
  for (int64_t i = 0; i < rowFragments * columnFragments; ++i) {
    Value product =
        NVVM::MmaOp::create(b, type, a[i / columnFragments], w[i % columnFragments],
                            sums.slice(i * resultsPerFragment, resultsPerFragment),
                            {fragmentRows, fragmentColumns, fragmentInner}, std::nullopt,
                            std::nullopt, std::array{NVVM::MMATypes::bf16, NVVM::MMATypes::bf16},
                            std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
    for (int64_t part = 0; part < resultsPerFragment; ++part) {
      next.push_back(LLVM::ExtractValueOp::create(b, product, part));
    }
  }
  return next;
}

/// Memory and indices of element (row, n) of extra or result `i`.
Value Contraction::address(unsigned i, dispatch::AccessAttr access, const Row &row, Value n,
                           SmallVector<Value> &indices) {
  switch (access.getKind()) {
  case dispatch::AccessKind::Scalar:
    indices = {e.index(0)};
    break;
  case dispatch::AccessKind::Vector:
    indices = {n};
    break;
  default:
    indices = {row.global, n};
  }
  return buffers[i];
}

LogicalResult Contraction::emitElement(Value sum, const Row &row, Value n) {
  Block &epilogue = op.getEpilogue().front();
  Body body(frame, epilogue, row, n);
  body.map(epilogue.getArgument(0), {sum});
  SmallVector<Value> indices;
  unsigned i = 0;
  for (Attribute access : op.getAccesses()) {
    Value memory = address(i, cast<dispatch::AccessAttr>(access), row, n, indices);
    body.map(epilogue.getArgument(++i), {e.loadScalar(memory, indices)});
  }
  if (failed(body.emit())) {
    return failure();
  }
  for (auto [access, value] :
       llvm::zip(op.getResultAccesses(), epilogue.getTerminator()->getOperands())) {
    Value memory = address(i++, cast<dispatch::AccessAttr>(access), row, n, indices);
    e.store(body.get(value)[0], memory, indices);
  }
  return success();
}

LogicalResult Contraction::emitResults(ArrayRef<Value> sums) {
  bool fails = false;
  for (auto [i, sum] : llvm::enumerate(sums)) {
    int64_t part = i % resultsPerFragment, fragment = i / resultsPerFragment;
    const Row &row = laneRows[2 * (fragment / columnFragments) + part / 2];
    Value n =
        e.add(e.add(firstColumn, pair), fragment % columnFragments * fragmentColumns + part % 2);
    e.when(e.both(row.valid, e.less(n, e.index(columns))),
           [&, &sum = sum] { fails |= failed(emitElement(sum, row, n)); });
    if (fails) {
      return failure();
    }
  }
  return success();
}

FailureOr<Kernel> Contraction::generate() {
  ImplicitLocOpBuilder &b = frame.b;
  for (Attribute access : op.getAccesses()) {
    auto kind = cast<dispatch::AccessAttr>(access).getKind();
    if (kind != dispatch::AccessKind::Row && kind != dispatch::AccessKind::Vector &&
        kind != dispatch::AccessKind::Scalar) {
      return op.emitOpError("expected extra operands of access row, vector or scalar, found ")
             << access;
    }
  }
  place();
  Values sums(rowFragments * columnFragments * resultsPerFragment,
              arith::ConstantOp::create(b, b.getF32FloatAttr(0)));
  int64_t whole = inner / fragmentInner * fragmentInner;
  if (whole > 0) {
    sums = e.loop(e.index(0), e.index(whole), fragmentInner, sums,
                  [&](Value k0, ValueRange carried) { return emitStep(k0, carried, false); });
  }
  if (whole < inner) {
    sums = emitStep(e.index(whole), sums, true);
  }
  if (failed(emitResults(sums))) {
    return failure();
  }
  int64_t rowBlocks = llvm::divideCeil(op.getDomain().getLaunchRows(), blockRows);
  double rows = op.getDomain().getLaunchRows();
  return frame.kernel(rowBlocks * columnBlocks, "matmul", 2 * rows * inner * columns);
}

FailureOr<Kernel> cuda::generateContract(dispatch::ContractOp op, ModuleOp module, StringRef name) {
  Contraction contraction(op, module, name);
  return contraction.kernelFrame().finish(contraction.generate());
}
