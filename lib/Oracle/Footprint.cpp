// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Oracle/Footprint.h"

#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::oracle;

namespace {

/// Layout of a stored tensor: rank 3 [B, T, d] is B T padded rows of d; rank 2 [B, T] is one number
/// per row if `isNumberARow`.
struct FootprintLayout {
  explicit FootprintLayout(Value value) : type(cast<RankedTensorType>(value.getType())) {
    element = type.getElementTypeBitWidth() / 8;
    width = type.getRank() == 3 ? type.getDimSize(2) : 1;
    stride = type.getRank() == 3 ? dispatch::paddedWidth(width) : 1;
  }
  int64_t sequences() const { return type.getDimSize(0); }
  int64_t positions() const { return type.getDimSize(1); }
  int64_t allBytes() const { return type.getNumElements() * element; }
  Bytes line(int64_t row) const { return {row * stride * element, width * element}; }
  Bytes padding(int64_t row) const {
    return {(row * stride + width) * element, (stride - width) * element};
  }

  RankedTensorType type;
  int64_t element, width, stride;
};

dispatch::DomainAttr getRowDomain(Operation *dispatch) {
  return cast<dispatch::KernelInterface>(dispatch).getDomain();
}

int64_t computeLength(const Extent &extent, int64_t batch, int64_t factor, int64_t all) {
  int64_t length = extent.lengths ? extent.lengths[batch] : extent.length;
  return factor == 0 ? all : std::min(all, (length + factor - 1) / factor);
}

/// Returns true if a row of a tensor of sequences at `factor` is valid.
bool isValid(const Extent &extent, int64_t factor, int64_t positions, int64_t row) {
  return row / positions < extent.rows &&
         row % positions < computeLength(extent, row / positions, factor, positions);
}

/// Returns the rows of a ring that the schedule makes due.
std::vector<int64_t> dueRows(Operation *dispatch, const FootprintLayout &layout,
                             const Extent &extent) {
  std::vector<int64_t> rows;
  for (int64_t b = 0; b < getRowDomain(dispatch).getBatch(); ++b) {
    const int64_t *run = extent.schedule + 3 * b;
    for (int64_t p = run[0]; p < run[0] + run[1]; ++p) {
      rows.push_back(b * layout.positions() + p % layout.positions());
    }
  }
  return rows;
}

/// Returns the valid positions of each valid sequence, or all positions.
std::vector<Bytes> validLines(const FootprintLayout &layout, int64_t factor, const Extent &extent) {
  std::vector<Bytes> lines;
  int64_t sequences = factor == 0 ? layout.sequences() : std::min(layout.sequences(), extent.rows);
  for (int64_t b = 0; b < sequences; ++b) {
    for (int64_t p = 0; p < computeLength(extent, b, factor, layout.positions()); ++p) {
      lines.push_back(layout.line(b * layout.positions() + p));
    }
  }
  return lines;
}

/// Returns the factor of the valid length of an operand whose rows are rows of sequences, or -1.
int64_t getScaleFactor(Operation *dispatch, unsigned operand) {
  return cast<dispatch::KernelInterface>(dispatch).getRowFactor(operand).value_or(-1);
}

} // namespace

std::vector<Bytes> sluice::oracle::readBytes(Operation *dispatch, unsigned operand,
                                             const Extent &extent, int64_t blocks) {
  FootprintLayout layout(dispatch->getOperand(operand));
  auto kernel = cast<dispatch::KernelInterface>(dispatch);
  bool isJudged = kernel.skipsInvalid(operand) && !dispatch::findSchedule(dispatch);
  int64_t factor = layout.type.getRank() == 3 ? getScaleFactor(dispatch, operand) : 0;
  if (!isJudged || layout.type.getRank() != 3 || factor <= 0) {
    return {{0, dispatch::storageElements(layout.type) * layout.element}};
  }
  int64_t rows = layout.sequences() * layout.positions(), tile = kernel.getTileRows(blocks);
  std::vector<Bytes> result;
  for (int64_t first = 0; first < rows; first += tile) {
    int64_t last = std::min(rows, first + tile);
    bool any = llvm::any_of(llvm::seq(first, last), [&](int64_t row) {
      return isValid(extent, factor, layout.positions(), row);
    });
    if (any) {
      int64_t line = layout.stride * layout.element;
      result.push_back({first * line, (last - first) * line});
    }
  }
  return result;
}

std::vector<Bytes> sluice::oracle::writtenBytes(Operation *dispatch, unsigned result,
                                                const Extent &extent) {
  FootprintLayout layout(dispatch->getResult(result));
  auto kernel = cast<dispatch::KernelInterface>(dispatch);
  if (!kernel.followsDomain(result)) {
    return {{0, layout.allBytes()}};
  }
  if (dispatch::findSchedule(dispatch)) {
    std::vector<Bytes> lines;
    for (int64_t row : dueRows(dispatch, layout, extent)) {
      lines.push_back(layout.line(row));
    }
    return lines;
  }
  dispatch::DomainAttr domain = kernel.getResultDomain(result);
  bool leavesOthers = domain.getAxis() && kernel.staysWithinAxis(result);
  bool writesAll = kernel.zeroesInvalid(result) && !leavesOthers;
  int64_t factor = writesAll ? 0 : domain.getFactor();
  return validLines(layout, factor, extent);
}

std::vector<Bytes> sluice::oracle::ignoredBytes(Operation *dispatch, unsigned operand,
                                                const Extent &extent) {
  FootprintLayout layout(dispatch->getOperand(operand));
  std::vector<Bytes> ignored;
  if (!isa<FloatType>(layout.type.getElementType()) || layout.type.getRank() < 2) {
    return ignored;
  }
  bool isScheduled = bool(dispatch::findSchedule(dispatch));
  bool isOwnRow = cast<dispatch::KernelInterface>(dispatch).readsOwnRows(operand);
  std::vector<int64_t> due;
  if (isScheduled && isOwnRow) {
    due = dueRows(dispatch, layout, extent);
  }
  int64_t factor = isScheduled ? 0 : getScaleFactor(dispatch, operand);
  int64_t rows =
      layout.type.getRank() == 3 || factor > 0 ? layout.sequences() * layout.positions() : 0;
  for (int64_t row = 0; row < rows; ++row) {
    bool valid = factor <= 0 || isValid(extent, factor, layout.positions(), row);
    if (isScheduled && isOwnRow) {
      valid = llvm::is_contained(due, row);
    }
    if (!valid) {
      ignored.push_back(layout.line(row));
    }
    if (layout.stride > layout.width) {
      ignored.push_back(layout.padding(row));
    }
  }
  return ignored;
}
