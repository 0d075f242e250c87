// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Deterministic scatter-add. An item owns a block of table rows and scans all indices in order, so
// no two items write the same row, and the order of every sum is the order of the rows.
#include "../../Common/Storage.h"
#include "Rows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

namespace {

class ScatterEmitter {
public:
  ScatterEmitter(Frame &frame, dispatch::ScatterRowsOp op, int64_t perItem)
      : frame(frame), op(op), b(frame.builder()), lanes(frame.target().lanes), perItem(perItem) {
    auto type = cast<RankedTensorType>(op.getTable().getType());
    tableRows = type.getDimSize(0);
    width = type.getDimSize(1);
    indices = frame.buffer(0);
    values = frame.buffer(1);
    init = op.getInit() ? frame.buffer(2) : Value();
    table = frame.buffer(op.getInit() ? 3 : 2);
  }

  void emit() {
    first = arith::MulIOp::create(b, frame.item(), frame.index(perItem));
    Value end = arith::AddIOp::create(b, first, frame.index(perItem));
    end = arith::MinSIOp::create(b, end, frame.index(tableRows));
    count = arith::SubIOp::create(b, end, first);
    emitInits(end);
    dispatch::DomainAttr domain = op.getDomain();
    Value batch = domain.getFactor() ? frame.rows() : frame.index(domain.getBatch());
    batch = arith::MinSIOp::create(b, batch, frame.index(domain.getBatch()));
    Lengths lengths = frame.lengths(domain.getFactor(), domain.getPositions());
    overRange(frame.index(0), batch, 1, [&](Value row) { emitBatchRow(row, lengths.of(row)); });
  }

private:
  void overRange(Value from, Value to, int64_t step, llvm::function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(b, from, to, frame.index(step));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }

  void when(Value condition, llvm::function_ref<void()> body) {
    auto branch = scf::IfOp::create(b, condition, false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    body();
  }

  VectorType getVectorType(Type element) { return VectorType::get({lanes}, element); }

  /// Runs `body` over the columns of a row: whole vectors, then the remainder under a mask.
  void overColumns(llvm::function_ref<void(Value column, Value mask)> body) {
    int64_t full = width / lanes * lanes;
    if (full > 0) {
      overRange(frame.index(0), frame.index(full), lanes,
                [&](Value column) { body(column, nullptr); });
    }
    if (full < width) {
      SmallVector<bool> bits(lanes, false);
      std::fill(bits.begin(), bits.begin() + (width - full), true);
      Value mask =
          arith::ConstantOp::create(b, DenseElementsAttr::get(getVectorType(b.getI1Type()), bits));
      body(frame.index(full), mask);
    }
  }

  Value zeros() {
    return arith::ConstantOp::create(b, b.getZeroAttr(getVectorType(b.getF32Type())));
  }

  Value load(Value memory, Value row, Value column, Value mask) {
    return loadVector(b, lanes, memory, {row, column}, mask);
  }

  void store(Value value, Value memory, Value row, Value column, Value mask) {
    storeVector(b, value, memory, {row, column}, mask);
  }

  /// Initializes the block's rows with init or zeros. If init aliases the table, rows are copied
  /// onto themselves.
  void emitInits(Value end) {
    overRange(first, end, 1, [&](Value row) {
      overColumns([&](Value column, Value mask) {
        store(init ? load(init, row, column, mask) : zeros(), table, row, column, mask);
      });
    });
  }

  /// Compares a vector of indices at once. Few vectors hold an index of the block; these are
  /// processed in order.
  void emitBatchRow(Value batch, Value length) {
    Value whole =
        arith::SubIOp::create(b, length, arith::RemUIOp::create(b, length, frame.index(lanes)));
    VectorType type = getVectorType(b.getI32Type());
    Value low =
        vector::BroadcastOp::create(b, type, arith::IndexCastOp::create(b, b.getI32Type(), first));
    Value size =
        vector::BroadcastOp::create(b, type, arith::IndexCastOp::create(b, b.getI32Type(), count));
    overRange(frame.index(0), whole, lanes, [&](Value position) {
      Value found = vector::LoadOp::create(b, type, indices, ValueRange{batch, position});
      Value offset = arith::SubIOp::create(b, found, low);
      Value mine = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, offset, size);
      // As one integer: a mask register, or one movmskps.
      Type bits = b.getIntegerType(lanes);
      Value word = vector::BitCastOp::create(b, VectorType::get({1}, bits), mine);
      word = vector::ExtractOp::create(b, word, 0);
      Value none = arith::ConstantOp::create(b, b.getIntegerAttr(bits, 0));
      when(arith::CmpIOp::create(b, arith::CmpIPredicate::ne, word, none), [&] {
        overRange(position, arith::AddIOp::create(b, position, frame.index(lanes)), 1,
                  [&](Value each) { emitRow(batch, each); });
      });
    });
    overRange(whole, length, 1, [&](Value position) { emitRow(batch, position); });
  }

  void emitRow(Value batch, Value position) {
    Value loaded = memref::LoadOp::create(b, indices, ValueRange{batch, position});
    Value row = arith::IndexCastOp::create(b, b.getIndexType(), loaded);
    Value offset = arith::SubIOp::create(b, row, first);
    when(arith::CmpIOp::create(b, arith::CmpIPredicate::ult, offset, count), [&] {
      Value source = arith::MulIOp::create(b, batch, frame.index(op.getDomain().getPositions()));
      source = arith::AddIOp::create(b, source, position);
      overColumns([&](Value column, Value mask) {
        Value sum = load(table, row, column, mask);
        sum = arith::AddFOp::create(b, sum, load(values, source, column, mask));
        store(sum, table, row, column, mask);
      });
    });
  }

  Frame &frame;
  dispatch::ScatterRowsOp op;
  ImplicitLocOpBuilder &b;
  int64_t lanes, perItem, tableRows = 0, width = 0;
  Value indices, values, init, table, first, count;
};

} // namespace

FailureOr<Kernel> cpu::generateScatterRows(dispatch::ScatterRowsOp op, ModuleOp module,
                                           StringRef name, const Target &target) {
  auto type = cast<RankedTensorType>(op.getTable().getType());
  auto values = cast<RankedTensorType>(op.getValues().getType());
  if (values.getShape().back() != type.getDimSize(1)) {
    return op.emitOpError("R-007: expected rows of ")
           << type.getDimSize(1) << " columns, found " << values;
  }
  // Every item reads all indices, so more items cost more reads; 64 items balance the threads.
  int64_t perItem = llvm::divideCeil(type.getDimSize(0), 64);
  Frame frame(op, module, name, target);
  ScatterEmitter(frame, op, perItem).emit();
  frame.finish();

  Kernel kernel;
  kernel.function = frame.function();
  kernel.items = llvm::divideCeil(type.getDimSize(0), perItem);
  kernel.scratchBytes = frame.scratchBytes();
  kernel.kind = "stream";
  kernel.flops = values.getNumElements();
  double valueBytes = values.getElementTypeBitWidth() / 8;
  kernel.bytes =
      valueBytes * values.getNumElements() +
      4.0 * (op.getDomain().getLaunchRows() + (op.getInit() ? 2.0 : 1.0) * type.getNumElements());
  return kernel;
}
