// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements KernelInterface, the memory that each dispatch reads and writes, and DrawInterface,
// its random numbers.
#include "sluice/Dialect/Dispatch/Dispatch.h"

using namespace mlir;
using namespace sluice::dispatch;

using Factor = std::optional<int64_t>;

static int64_t getOperandRank(Operation *dispatch, unsigned operand) {
  return cast<RankedTensorType>(dispatch->getOperand(operand).getType()).getRank();
}

Factor sluice::dispatch::findRowFactor(Operation *dispatch, unsigned operand) {
  DomainAttr domain = cast<KernelInterface>(dispatch).getDomain();
  return getOperandRank(dispatch, operand) == 3 ? Factor(domain.getFactor()) : std::nullopt;
}

/// Returns access `number`; null if there are fewer.
static AccessAttr accessAt(ArrayAttr accesses, unsigned number) {
  return number < accesses.size() ? cast<AccessAttr>(accesses[number]) : AccessAttr();
}

AccessAttr RowsOp::getAccess(unsigned operand) { return accessAt(getAccesses(), operand); }

bool RowsOp::followsDomain(unsigned result) {
  return cast<AccessAttr>(getResultAccesses()[result]).getKind() == AccessKind::Row;
}

Factor RowsOp::getRowFactor(unsigned operand) {
  auto access = cast<AccessAttr>(getAccesses()[operand]);
  bool isRow = access.getKind() == AccessKind::Row && getDomain().getFactor() != 0;
  return isRow ? Factor(access.getSourceFactor()) : std::nullopt;
}

AccessAttr ContractOp::getAccess(unsigned operand) {
  constexpr unsigned firstExtra = 2;
  return operand < firstExtra ? AccessAttr() : accessAt(getAccesses(), operand - firstExtra);
}

int64_t ContractOp::getInner() {
  return cast<RankedTensorType>(getInput().getType()).getShape().back();
}

int64_t ContractOp::getColumns() {
  auto weight = cast<RankedTensorType>(getWeight().getType());
  return getGrouped() ? weight.getDimSize(0) / int64_t(llvm::divideCeil(getInner(), groupWeights))
                      : weight.getDimSize(getByInput() ? 1 : 0);
}

bool ContractOp::readsOwnRows(unsigned operand) { return getOperandRank(*this, operand) == 3; }

/// Tiles of 64 columns. If there are few large tiles, the launch has more blocks, of half as many
/// rows.
int64_t ContractOp::getTileRows(int64_t blocks) {
  constexpr int64_t large = 128, small = 64, columns = 64;
  auto type = cast<RankedTensorType>(getOperation()->getResult(0).getType());
  int64_t ofLarge = llvm::divideCeil(type.getDimSize(0) * type.getDimSize(1), large) *
                    llvm::divideCeil(type.getDimSize(2), columns);
  return blocks > ofLarge ? small : large;
}

/// Handles keys and values, rows by distance, and operands with the rows of queries.
template <typename Op> static Factor attentionFactor(Op op, unsigned operand) {
  constexpr unsigned key = 1, value = 2;
  if (operand == key || operand == value) {
    return op.getKeys().getFactor();
  }
  DistanceTerms terms = op.getTerms();
  bool isByDistance = terms.rows && op->getOperand(operand) == terms.rows;
  return isByDistance && !terms.hasRowTable() ? op.getDomain().getFactor() / terms.distance.query
                                              : findRowFactor(op, operand);
}

Factor AttentionOp::getRowFactor(unsigned operand) { return attentionFactor(*this, operand); }
Factor AttentionBackwardOp::getRowFactor(unsigned operand) {
  return attentionFactor(*this, operand);
}

/// Keys and values are shared, and so are the rows by distance, one per key.
std::optional<SharedRead> AttentionOp::getSharedRead(unsigned operand) {
  constexpr unsigned key = 1, value = 2;
  DistanceTerms terms = getTerms();
  bool isByDistance = terms.rows && !terms.hasRowTable() && getOperand(operand) == terms.rows;
  if (operand != key && operand != value && !isByDistance) {
    return std::nullopt;
  }
  auto columns = static_cast<int64_t>((isByDistance ? getHeads() : getKvHeads()) * getHeadSize());
  int64_t factor = getKeyCounts() ? 0 : std::max<int64_t>(1, getKeys().getFactor());
  return SharedRead{getMask(), factor, columns};
}

/// Among gradients of terms, the gradient of Qv has the rows of queries, and the gradient of R one
/// row per step of the distance; all rows of a table exist.
DomainAttr AttentionBackwardOp::getResultDomain(unsigned result) {
  size_t sources = getSourceGradients().size();
  auto rowsOfDistance = [&](int64_t factor) {
    auto type = cast<RankedTensorType>(getResult(result).getType());
    return DomainAttr::get(getContext(), type.getDimSize(0), type.getDimSize(1), factor);
  };
  if (getDistanceBias() && result + 1 == getNumResults()) {
    return rowsOfDistance(0);
  }
  if (result < sources) {
    return result == 0 ? getDomain() : getKeys();
  }
  if (result > sources && getTerms().hasRowTable()) {
    return rowsOfDistance(0);
  }
  return result == sources ? getDomain()
                           : rowsOfDistance(getDomain().getFactor() / getTerms().distance.query);
}

/// The log-sum-exps are one number per row, too.
Factor CrossEntropyWeightGradientOp::getRowFactor(unsigned operand) {
  return getOperand(operand) == getLse() ? Factor(getDomain().getFactor())
                                         : findRowFactor(*this, operand);
}

//===----------------------------------------------------------------------===//
// DrawInterface
//===----------------------------------------------------------------------===//

static bool holdsRandom(Operation *dispatch) {
  return dispatch->walk([](RandomOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

bool RowsOp::drawsNumbers() { return holdsRandom(*this); }
bool ContractOp::drawsNumbers() { return holdsRandom(*this); }
bool AttentionOp::drawsNumbers() { return getDropout().convertToFloat() > 0 || holdsRandom(*this); }
bool AttentionBackwardOp::drawsNumbers() {
  return getDropout().convertToFloat() > 0 || holdsRandom(*this);
}

bool sluice::dispatch::drawsNumbers(Operation *dispatch) {
  auto drawing = dyn_cast<DrawInterface>(dispatch);
  return drawing && drawing.drawsNumbers();
}
bool sluice::dispatch::drawsByUpdate(Operation *dispatch) {
  auto drawing = dyn_cast<DrawInterface>(dispatch);
  return drawing && drawing.getDrawsByUpdate();
}
int64_t sluice::dispatch::getDrawParts(Operation *dispatch) {
  auto drawing = dyn_cast<DrawInterface>(dispatch);
  return drawing ? static_cast<int64_t>(drawing.getDrawParts()) : 1;
}

//===----------------------------------------------------------------------===//
// SharedMemoryInterface
//===----------------------------------------------------------------------===//

using Shared = SmallVector<std::pair<Value, Value>>;

/// Returns the elements of `pairs` that have both parts.
static Shared present(Shared pairs) {
  llvm::erase_if(pairs, [](auto pair) { return !pair.first || !pair.second; });
  return pairs;
}

Shared RowsOp::getShared() {
  Shared shared;
  for (auto [i, operand] : llvm::enumerate(getAliases().value_or(ArrayRef<int64_t>()))) {
    if (operand >= 0) {
      shared.emplace_back(getResult(i), getOperand(operand));
    }
  }
  return shared;
}

Shared WeightGradientOp::getShared() {
  return present({{getWeight(), getInitWeight()}, {getBias(), getInitBias()}});
}

Shared CrossEntropyWeightGradientOp::getShared() {
  return present({{getWeightGradient(), getInitWeight()}, {getBiasGradient(), getInitBias()}});
}

Shared ScatterRowsOp::getShared() { return present({{getTable(), getInit()}}); }
