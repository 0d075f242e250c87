// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Facts of ops over edge lists: verification, the place of the lists, neighbours in the reference.
#pragma once

#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Support/Limits.h"

#include <algorithm>

namespace sluice::edges {
using namespace mlir;

inline StringRef getName(StringRef edges) { return edges; }
inline StringRef getName(std::optional<StringRef> edges) { return *edges; }

/// Returns the place of the lists of `op`: of the result's axis, or of the bits that cut segments.
template <typename Op> std::string getPlace(Op op) {
  auto rows = cast<SequenceType>(op->getResult(0).getType());
  std::string on = op.getBits() ? op.getBits()->str() : getAxisName(op, rows);
  return (edgesInput + on + "." + getName(op.getEdges())).str();
}

/// Returns true for one f32 per position.
inline bool isNumber(SequenceType type) {
  return type.getWidth() == 0 && type.getElement().isF32();
}

/// Returns true if half of all pairs of rows are neighbours, drawn by a number of each row.
template <typename Op> bool isDrawn(Op op) {
  if constexpr (requires { op.getDrawn(); }) {
    return static_cast<bool>(op.getDrawn());
  }
  return false;
}

/// Verifies that rows of the scale are known before the first token, as an edge may connect a row
/// with a later one.
template <typename Op> LogicalResult verifyEdges(Op op) {
  auto scale =
      SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, op.getResult().getType().getScale());
  AxisOp axis =
      scale ? getRootAxis(SymbolTable::lookupNearestSymbolFrom<AxisOp>(op, scale.getAxisAttr()))
            : AxisOp();
  int64_t capacity = op.getEntries() / 2;
  bool fits = isDrawn(op) ? capacity == 0 : capacity >= 1 && capacity <= mostSize / 2;
  if (!axis || !axis.getCapacity() || !fits) {
    return op.emitOpError("S-160: expected rows of a given axis, as an edge may connect a row with "
                          "a later one, and a capacity from 1 to ")
           << mostSize / 2 << " without 'drawn', found " << op.getResult().getType() << " and "
           << capacity;
  }
  bool areSegments = axis.getSymName() != scale.getAxis();
  DictionaryAttr streams = axis.getStreams().value_or(DictionaryAttr());
  if (areSegments != bool(op.getBits()) ||
      (areSegments && (!streams || !streams.contains(*op.getBits())))) {
    return op.emitOpError("S-163: expected 'of' with a stream of the axis of the input where rows "
                          "are its segments, and none elsewhere, found ")
           << op.getResult().getType() << " and " << (op.getBits() ? *op.getBits() : "none");
  }
  return success();
}

/// Returns the positions of the neighbours of a row.
template <typename Op, typename T>
std::vector<int64_t> getNeighbours(Op op, const reference::Evaluator<T> &evaluator, int64_t row,
                                   int64_t position) {
  Value rows = op->getResult(0);
  int64_t count = evaluator.getCount(rows, row);
  std::vector<int64_t> neighbours;
  auto found = evaluator.edges.find(getName(op.getEdges()));
  if (isDrawn(op)) {
    int64_t start = row * getPositions(op, cast<SequenceType>(rows.getType()));
    auto getNumber = [&](int64_t p) {
      return found == evaluator.edges.end() ? 0 : found->second[static_cast<size_t>(start + p)];
    };
    int32_t key = getNumber(position);
    for (int64_t q = 0; q < count; ++q) {
      if (getNumber(q) == key && reference::isDrawnPair(static_cast<uint32_t>(key), position, q)) {
        neighbours.push_back(q);
      }
    }
    return neighbours;
  }
  if (found == evaluator.edges.end()) {
    for (int64_t q = 0; q + 1 < count && position + 1 < count; ++q) {
      auto [first, second] = std::minmax(position, q);
      if (first != second && (first == 0 || first + 1 == second)) {
        neighbours.push_back(q);
      }
    }
    return neighbours;
  }
  int64_t positions = getPositions(op, cast<SequenceType>(rows.getType()));
  ArrayRef<int32_t> lists = found->second;
  lists = lists.slice(static_cast<size_t>(row * (positions + op.getEntries())));
  int64_t first = position > 0 ? lists[static_cast<size_t>(position - 1)] : 0;
  for (int64_t i = first; i < lists[static_cast<size_t>(position)]; ++i) {
    neighbours.push_back(lists[static_cast<size_t>(positions + i)]);
  }
  return neighbours;
}

} // namespace sluice::edges
