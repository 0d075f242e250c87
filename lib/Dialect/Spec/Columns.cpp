// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements primitive stages that clear rows, and that move or add columns, and the width of rows
// side by side.
#include "Columns.h"
#include "Boundaries.h"
#include "StageChecks.h"

#include "VerifyStage.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

FailureOr<int64_t> spec::computeStackedWidth(ShortenOp op) {
  int64_t width = getStream(op.getInput()).getWidth();
  if (!op.getSegments()) {
    return op.getRows() * width;
  }
  BoundariesOp cut = getCut(op.getSegments());
  int64_t columns = op.getWidth().value_or(cut ? cut.getLongestSegment() * width : 0);
  if (columns >= 2 * width && columns % width == 0) {
    return columns;
  }
  if (columns == 0) {
    return emitMissingKey(op, "width",
                          "the columns of as many rows as a segment may have, or give the "
                          "boundaries a \"longest\"");
  }
  return emitKeyError(op, "width")
         << "expected the columns of at least two rows of " << width << " for \"method\": "
         << "\"stack\", found " << columns << "; write a multiple of " << width
         << (op.getWidth() ? "" : ", or a greater \"longest\" of the boundaries");
}

/// Verifies that one of "segments" and "block" chooses the rows that become zeros.
LogicalResult ClearOp::verify() {
  if (getSegments()) {
    for (StringRef key : {"block", "start"}) {
      if (isWritten(*this, key)) {
        return emitKeyError(*this, key)
               << "expected no " << quote(key)
               << " where \"segments\" chooses the rows, found both; leave one out";
      }
    }
    return failure(
        failed(verifyAxis(*this, getInput())) ||
        failed(verifyCutScale(*this, getInput(), cast<SegmentationType>(getSegments().getType()))));
  }
  if (!getBlock()) {
    return emitMissingKey(*this, "block");
  }
  if (int64_t start = getStart(), block = *getBlock(); start >= block) {
    return emitKeyError(*this, "start")
           << "expected a row below " << block
           << " for \"start\", as blocks of so many rows follow one another, found " << start
           << "; " << start % block << " is equivalent";
  }
  return verifyAxis(*this, getInput());
}
Type ClearOp::computeResultType() { return getInput().getType(); }
void ClearOp::setDerivedDefaults() {}

LogicalResult FitOp::verify() {
  if (getAt() >= getWidth()) {
    return emitKeyError(*this, "at")
           << "expected a column of the result, which has " << static_cast<int64_t>(getWidth())
           << ", for \"at\", found " << static_cast<int64_t>(getAt())
           << "; write a smaller one, or a greater \"width\"";
  }
  return verifyAxis(*this, getInput());
}
Type FitOp::computeResultType() {
  return withWidth(getStream(getInput()), static_cast<int64_t>(getWidth()));
}
void FitOp::setDerivedDefaults() {}

LogicalResult PositionsOp::verify() {
  int64_t width = getStream(getInput()).getWidth();
  if (getColumns() && *getColumns() > width) {
    return emitKeyError(*this, "columns")
           << "expected at most the width of " << width << " for \"columns\", found "
           << *getColumns() << "; write fewer, or fit the stream";
  }
  return verifyAxis(*this, getInput());
}
Type PositionsOp::computeResultType() { return getInput().getType(); }
void PositionsOp::setDerivedDefaults() {}
