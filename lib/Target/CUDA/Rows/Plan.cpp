// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Distribution of rows and columns over the threads of a row kernel, and unsupported dispatches.
#include "Rows.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;
using dispatch::AccessAttr;
using dispatch::AccessKind;

/// 32-bit registers for columns of rows, out of at most 255 per thread. The rest is for addresses,
/// and one wave of blocks should still hide memory latency.
static constexpr int64_t mostColumnRegisters = 96;
static constexpr int64_t mostThreadsPerRow = 512;
/// Threads per launch that a large GPU holds at once. More blocks would reload the shared rows.
static constexpr int64_t mostThreads = 1 << 17;
/// A block that sums rows waits for memory at each of them. So there is one wave of the blocks that
/// fit on a large GPU at a time, and each sums the same number of rows: at least this many a team,
/// as its sums are traffic too.
static constexpr int64_t leastRowsPerTeam = 5;
static constexpr int64_t registersPerMultiprocessor = 1 << 16;
static constexpr int64_t fewRows = 64;
/// Rows per block that keep the traffic of two shared rows below 5%; fewer if a multiprocessor
/// would get no block.
static constexpr int64_t rowsPerShare = 24, mostMultiprocessors = 132;

bool rows::isShared(dispatch::RowsOp op, unsigned operand) {
  Value argument = op.getBody().getArgument(operand);
  return getTensorAccess(op, operand).getKind() == AccessKind::Vector && isRow(argument) &&
         !argument.use_empty();
}

int64_t Plan::countChunks(int64_t width) const {
  return std::min<int64_t>(chunks, llvm::divideCeil(width, vector * team));
}

/// Returns the value of the body for a tensor: an argument or a yielded value.
static Value getSeenTensor(dispatch::RowsOp op, unsigned tensor) {
  unsigned operands = op.getInputs().size();
  return tensor < operands ? Value(op.getBody().getArgument(tensor))
                           : getYield(op).getValues()[tensor - operands];
}

static int64_t countBytes(Type element) { return element.getIntOrFloatBitWidth() / 8; }

//===----------------------------------------------------------------------===//
// Unsupported dispatches
//===----------------------------------------------------------------------===//

static LogicalResult checkTensor(dispatch::RowsOp op, unsigned i) {
  Value seen = getSeenTensor(op, i);
  Type stored = getTensorType(op, i).getElementType(), body = getElementTypeOrSelf(seen.getType());
  if (body != dispatch::getBodyType(stored)) {
    return op.emitOpError("expected the body to see ")
           << stored << " as " << dispatch::getBodyType(stored) << ", found " << seen.getType();
  }
  bool operand = i < op.getInputs().size();
  AccessAttr access = getTensorAccess(op, i);
  if (operand && std::max<int64_t>(getGroupSize(seen), 1) != access.getGroup()) {
    return op.emitOpError("R-006: expected body argument ")
           << i << " to hold " << access.getGroup() << " rows, found " << seen.getType();
  }
  bool gathered = operand && access.getKind() == AccessKind::Gather;
  if (gathered && (access.getIndex() < 0 || access.getIndex() >= int64_t(op.getInputs().size()) ||
                   isRow(op.getBody().getArgument(access.getIndex())))) {
    return op.emitOpError("R-005: expected operand ")
           << i << " to be gathered by an i32 body argument, found index " << access.getIndex();
  }
  return success();
}

static LogicalResult check(dispatch::RowsOp op) {
  for (unsigned i = 0; i < op.getInputs().size() + op.getOutputs().size(); ++i) {
    if (failed(checkTensor(op, i))) {
      return failure();
    }
  }
  for (auto reduce : op.getBody().front().getOps<dispatch::ReduceOp>()) {
    Type element = getElementTypeOrSelf(reduce.getRow().getType());
    if (!element.isF32() && !element.isInteger(32) && !element.isInteger(64)) {
      return reduce.emitOpError("expected a row of f32, i32 or i64 reduced, found ")
             << reduce.getRow().getType();
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Vectors and teams
//===----------------------------------------------------------------------===//

/// Returns true if a launch reads or writes one row of the tensor per row, so that it constrains
/// the vector width. Operands that all rows share and sums over rows do not.
static bool isRowLike(dispatch::RowsOp op, unsigned i) {
  AccessKind kind = getTensorAccess(op, i).getKind();
  return isRow(getSeenTensor(op, i)) && kind != AccessKind::Vector && kind != AccessKind::Columns;
}

/// Returns the columns per access: 16 bytes of the widest type, if rows are aligned to that.
static int64_t getVectorWidth(dispatch::RowsOp op) {
  int64_t vector = 8;
  bool any = false;
  for (unsigned i = 0; i < op.getInputs().size() + op.getOutputs().size(); ++i) {
    if (!isRowLike(op, i)) {
      continue;
    }
    any = true;
    RankedTensorType type = getTensorType(op, i);
    auto limit = [&](uint64_t multiple) {
      vector = std::min<int64_t>(vector, multiple & (~multiple + 1));
    };
    limit(16 / countBytes(type.getElementType()));
    uint64_t column =
        getTensorAccess(op, i).getColumn().getValue().getResult(0).getLargestKnownDivisor();
    if (column != 0 && column < 8 && !readsOutsideColumns(op, i)) {
      limit(column);
    }
    if (type.getRank() != 3) {
      limit(type.getShape().back());
    } else if (i >= op.getInputs().size() && getGroupSize(getSeenTensor(op, i))) {
      limit(getRowWidth(getSeenTensor(op, i)));
    }
  }
  return any ? vector : 4;
}

/// Returns the maximum number of row values that are live at once. Arguments are live from the
/// start, other values from their definition, each until its last use. A group that is only reduced
/// is read member by member.
static int64_t mostLive(dispatch::RowsOp op) {
  Block &body = op.getBody().front();
  auto weigh = [](Value value) -> int64_t {
    Operation *made = value.getDefiningOp();
    if (!isRow(value) || value.use_empty() ||
        isa_and_nonnull<arith::ConstantOp, tensor::SplatOp>(made)) {
      return 0;
    }
    bool reduced = llvm::all_of(value.getUsers(),
                                [](Operation *user) { return isa<dispatch::ReduceGroupOp>(user); });
    int64_t members = getGroupSize(value);
    return members <= 1 || reduced || members > unrolledGroup ? 1 : members;
  };
  DenseMap<Value, Operation *> last;
  for (Operation &operation : body) {
    for (Value operand : operation.getOperands()) {
      last[operand] = &operation;
    }
  }
  int64_t live = 0, most = 0;
  for (BlockArgument argument : body.getArguments()) {
    live += weigh(argument);
  }
  for (unsigned i = op.getInputs().size(); i < op.getInputs().size() + op.getOutputs().size();
       ++i) {
    live += getTensorAccess(op, i).getKind() == AccessKind::Columns;
  }
  for (Operation &operation : body) {
    for (Value result : operation.getResults()) {
      live += weigh(result);
    }
    most = std::max(most, live);
    llvm::SmallSetVector<Value, 4> operands(operation.operand_begin(), operation.operand_end());
    for (Value operand : operands) {
      auto argument = dyn_cast<BlockArgument>(operand);
      bool stays =
          argument && getTensorAccess(op, argument.getArgNumber()).getKind() == AccessKind::Vector;
      live -= last[operand] == &operation && !stays ? weigh(operand) : 0;
    }
  }
  return std::max<int64_t>(most, 1);
}

/// Returns the widths of the rows that stages iterate over.
static llvm::SmallSetVector<int64_t, 4> getRowWidths(dispatch::RowsOp op) {
  llvm::SmallSetVector<int64_t, 4> widths;
  for (auto reduce : op.getBody().front().getOps<dispatch::ReduceOp>()) {
    widths.insert(getRowWidth(reduce.getRow()));
  }
  for (Value value : getYield(op).getValues()) {
    if (isRow(value)) {
      widths.insert(getRowWidth(value));
    }
  }
  return widths;
}

/// Without reductions and scalars per row, columns are independent of one another.
static bool areColumnsApart(dispatch::RowsOp op, size_t widths) {
  return widths == 1 && op.getBody().front().getOps<dispatch::ReduceOp>().empty() &&
         llvm::all_of(getYield(op).getValues(), isRow) &&
         llvm::none_of(op.getResultAccesses(), [](Attribute access) {
           return cast<AccessAttr>(access).getKind() == AccessKind::Columns;
         });
}

/// Chooses vectors, teams and slices.
static void divideColumns(dispatch::RowsOp op, Plan &plan) {
  auto widths = getRowWidths(op);
  int64_t width = widths.empty() ? 1 : *llvm::max_element(widths);
  int64_t live = mostLive(op);
  bool few = op.getDomain().getLaunchRows() <= fewRows;
  plan.vector = getVectorWidth(op);
  int64_t vectors = llvm::divideCeil(width, plan.vector);
  int64_t mostChunks = std::max<int64_t>(mostColumnRegisters / (live * plan.vector), 1);
  auto power = [](int64_t count) { return int64_t(llvm::PowerOf2Ceil(uint64_t(count))); };
  if (areColumnsApart(op, widths.size())) {
    plan.team = std::min<int64_t>(threadsPerWarp, power(vectors));
    // Philox has ten rounds, so registers suffice for one vector of numbers at a time.
    bool draws = !op.getBody().front().getOps<dispatch::RandomOp>().empty();
    int64_t most = std::min<int64_t>(mostChunks, std::max<int64_t>(8 / plan.vector, 1));
    int64_t wanted = few || draws ? 1 : most;
    plan.chunks = std::min<int64_t>(llvm::divideCeil(vectors, plan.team), wanted);
    plan.slices = llvm::divideCeil(vectors, plan.team * plan.chunks);
    plan.columnRegisters = live * plan.vector * plan.chunks;
    return;
  }
  int64_t most = few ? mostThreadsPerRow : threadsPerWarp;
  plan.team = std::min(most, power(vectors));
  while (int64_t(llvm::divideCeil(vectors, plan.team)) > mostChunks &&
         plan.team < mostThreadsPerRow) {
    plan.team *= 2;
  }
  plan.chunks = llvm::divideCeil(vectors, plan.team);
  plan.whole = plan.chunks <= mostChunks;
  if (!plan.whole) {
    plan.chunks = std::min<int64_t>(mostChunks, 4);
  }
  plan.columnRegisters = live * plan.vector * plan.chunks;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// Returns the number of blocks that a large GPU surely holds at a time. Registers are estimated:
/// ptxas needed at most about so many.
static int64_t countResident(const Plan &plan) {
  int64_t registers = plan.parts > 0 ? 96 + plan.columnRegisters : 48 + plan.columnRegisters / 2;
  int64_t blocks = registersPerMultiprocessor / registers / plan.threads;
  return mostMultiprocessors * std::max<int64_t>(blocks, 1);
}

static void divideRows(dispatch::RowsOp op, Plan &plan) {
  int64_t rows = op.getDomain().getLaunchRows();
  bool shares = plan.whole && plan.slices == 1 &&
                llvm::any_of(llvm::seq<unsigned>(0, op.getInputs().size()),
                             [&](unsigned i) { return isShared(op, i); });
  int64_t usual = plan.parts > 0 || shares ? 2 * threadsPerBlock : threadsPerBlock;
  plan.threads = plan.team > threadsPerWarp ? plan.team : usual;
  if (plan.parts == 0) {
    int64_t needed = llvm::divideCeil(rows * plan.slices, plan.teams());
    int64_t turns = llvm::divideCeil(needed, mostThreads / plan.threads);
    if (shares && plan.teams() > 1 && needed >= mostMultiprocessors) {
      int64_t wanted = std::min<int64_t>(llvm::divideCeil(rowsPerShare, plan.teams()),
                                         needed / mostMultiprocessors);
      turns = std::max({turns, wanted, int64_t(llvm::divideCeil(needed, countResident(plan)))});
    }
    plan.blocks = llvm::divideCeil(needed, turns);
    return;
  }
  int64_t ofPart = llvm::divideCeil(rows, plan.parts);
  int64_t blocks = std::clamp<int64_t>(ofPart / (leastRowsPerTeam * plan.teams()), 1,
                                       std::max<int64_t>(countResident(plan) / plan.parts, 1));
  plan.partRows = llvm::alignTo(llvm::divideCeil(ofPart, blocks), plan.teams());
  plan.partBlocks = llvm::divideCeil(ofPart, plan.partRows);
  plan.blocks = plan.parts * plan.partBlocks;
}

SmallVector<int64_t> rows::sumOffsets(dispatch::RowsOp op, const Plan &plan) {
  SmallVector<int64_t> offsets{0};
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    bool sums = plan.staged() && getResultKind(op, i) == AccessKind::Columns;
    int64_t bytes = sums ? plan.blocks * Addresses::workspaceStride(getRowWidth(value)) * 4 : 0;
    offsets.push_back(offsets.back() + bytes);
  }
  return offsets;
}

/// Returns a lower bound on the bytes of a tensor that are moved: all bytes, or only the rows that
/// the launch can touch.
static double leastBytes(dispatch::RowsOp op, unsigned i) {
  RankedTensorType type = getTensorType(op, i);
  AccessAttr access = getTensorAccess(op, i);
  double elements = double(type.getNumElements());
  AccessKind kind = access.getKind();
  if (kind == AccessKind::Row || kind == AccessKind::Table || kind == AccessKind::Gather) {
    Value seen = getSeenTensor(op, i);
    double each = isRow(seen) ? double(cast<RankedTensorType>(seen.getType()).getNumElements()) : 1;
    elements = std::min(elements, double(op.getDomain().getLaunchRows()) * each);
  }
  return elements * double(countBytes(type.getElementType()));
}

FailureOr<Plan> rows::makePlan(dispatch::RowsOp op) {
  Plan plan;
  FailureOr<int64_t> parts = computeSumParts(op);
  if (failed(parts) || failed(check(op))) {
    return failure();
  }
  plan.parts = *parts;
  divideColumns(op, plan);
  divideRows(op, plan);
  for (unsigned i = 0; i < op.getInputs().size() + op.getOutputs().size(); ++i) {
    plan.bytes += leastBytes(op, i);
  }
  return plan;
}
