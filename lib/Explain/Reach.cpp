// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows reads backward from one row. Ops precede their uses, so one pass from the end visits
// every op once, for all its wanted positions.
#include "sluice/Explain/Reach.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/FixedSegments.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Proof/Scales.h"
#include <limits>
#include <numeric>

using namespace mlir;
using namespace sluice;
using RowInterval = std::pair<int64_t, int64_t>;

static bool isIdentity(IntegerSet relation) {
  AffineExpr p = getAffineDimExpr(0, relation.getContext()),
             q = getAffineDimExpr(1, relation.getContext());
  return relation == IntegerSet::get(2, 1, {q - p}, {true});
}

//===----------------------------------------------------------------------===//
// Relations at one length
//===----------------------------------------------------------------------===//

ReachGraph::ReachGraph(func::FuncOp function, int64_t length, std::optional<Boundaries> boundaries)
    : length(length) {
  Scales scales(function);
  if (!boundaries) {
    boundaries = RegularSegments(function).boundariesAt(length);
  }
  segments = std::make_shared<FixedSegments>(function, std::move(*boundaries));
  for (BlockArgument argument : function.getArguments()) {
    if (isa<SequenceType>(argument.getType())) {
      addInfo(scales, argument);
    }
  }
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType())) {
      for (Value result : op.getResults()) {
        addInfo(scales, result);
      }
      indexOf[&op] = nodes.size();
      nodes.push_back(makeNode(&op));
    }
  }
}

void ReachGraph::addInfo(const Scales &scales, Value value) {
  int64_t factor = scales.getScaleFactor(value);
  int64_t rows = factor == 0 ? 1 : (length + factor - 1) / factor;
  infos[value] = {segments->countSegmentRows(value).value_or(rows), isLazy(value.getDefiningOp())};
}

std::optional<int64_t> ReachGraph::getFirstToken(Value value, int64_t row) const {
  return segments->countSegmentRows(value) ? std::optional(segments->getFirstToken(value, row))
                                           : std::nullopt;
}

const ReachGraph::Info &ReachGraph::getNodeInfo(Value value) const {
  return infos.find(value)->second;
}

/// Returns an interval that contains the positions q that row p reads. The interval is larger than
/// necessary if bounds are not exact, and is the whole operand without an upper bound.
RowInterval ReachGraph::computeRange(const SolvedRead &read, int64_t p) const {
  int64_t n = getLength(read.source);
  auto value = [&](AffineExpr e) { return reference::evaluateAffine(e, p, 0, n); };
  if (!llvm::all_of(read.bounds.conditions, [&](AffineExpr e) { return value(e) >= 0; })) {
    return {0, -1};
  }
  constexpr int64_t none = std::numeric_limits<int64_t>::max();
  int64_t first = -none, last = none;
  for (AffineExpr e : read.bounds.lower) {
    first = std::max(first, value(e));
  }
  for (AffineExpr e : read.bounds.upper) {
    last = std::min(last, value(e));
  }
  return {first == -none ? 0 : first, last == none ? std::max(n, length) - 1 : last};
}

/// Builds the solved relation of an operand; none if the op reads no contents of the operand. With
/// segments, stores a range for each row.
std::optional<ReachGraph::SolvedRead> ReachGraph::buildRead(OpOperand &operand, int64_t rows) {
  auto flow = dyn_cast<CausalFlowInterface>(operand.getOwner());
  unsigned number = operand.getOperandNumber();
  if (!flow || !isa<SequenceType>(operand.get().getType()) || isOfBoundaries(operand)) {
    return std::nullopt;
  }
  PositionReads reads = flow.getReads(0, number);
  if (!reads.relation) {
    return std::nullopt;
  }
  if (reads.terms.empty()) {
    return SolvedRead{operand.get(),
                      number,
                      *reads.relation,
                      solveMask(*reads.relation),
                      isIdentity(*reads.relation),
                      nullptr};
  }
  SolvedRead read{operand.get(), number, *reads.relation, {}, false, nullptr};
  auto ranges = std::make_shared<Ranges>();
  for (int64_t p = 0; p < rows; ++p) {
    ranges->push_back(segments->computeRange(flow, number, p, getLength(operand.get())));
  }
  read.bounds.exact = true;
  read.ranges = ranges;
  return read;
}

ReachGraph::Node ReachGraph::makeNode(Operation *op) {
  Node node;
  node.op = op;
  // Other ops read a map past its end: ranges beyond this are computed on demand.
  int64_t rows = isLazy(op) ? 2 * length : getLength(op->getResult(0));
  for (OpOperand &operand : op->getOpOperands()) {
    std::optional<SolvedRead> read = buildRead(operand, rows);
    if (!read || llvm::any_of(node.reads, [&](const SolvedRead &other) {
          return other.source == read->source && other.relation == read->relation;
        })) {
      continue;
    }
    if (!read->ranges && !read->identity && read->bounds.exact) {
      auto &ranges = known[{IntegerSetAttr::get(read->relation), {rows, getLength(operand.get())}}];
      if (!ranges) {
        auto made = std::make_shared<Ranges>();
        for (int64_t p = 0; p < rows; ++p) {
          made->push_back(computeRange(*read, p));
        }
        ranges = made;
      }
      read->ranges = ranges;
    }
    node.reads.push_back(std::move(*read));
  }
  return node;
}

RowInterval ReachGraph::readRange(Operation *op, unsigned operand, int64_t p) const {
  for (const SolvedRead &read : nodes[indexOf.lookup(op)].reads) {
    if (read.operand == operand) {
      bool isKnown = read.ranges && p >= 0 && p < static_cast<int64_t>(read.ranges->size());
      return isKnown ? (*read.ranges)[static_cast<size_t>(p)] : computeRange(read, p);
    }
  }
  return {0, -1};
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

/// One search from one row. `found` has the wanted positions of stored values.
class ReachGraph::Search {
public:
  explicit Search(const ReachGraph &graph) : graph(graph) {}

  void want(Value value, std::vector<int64_t> positions);
  void run();

  ReachSets found;

private:
  void follow(const Node &node, const BitVector &wanted);
  std::vector<int64_t> positionsRead(const SolvedRead &read,
                                     const std::vector<int64_t> &positions) const;

  using BitVector = llvm::BitVector;
  BitVector &getRowBits(Value value) {
    auto [entry, isNew] = found.try_emplace(value);
    if (isNew) {
      entry->second.resize(static_cast<unsigned>(graph.getLength(value)));
    }
    return entry->second;
  }

  const ReachGraph &graph;
};

/// Positions outside a stored sequence are null. A map that is not stored is followed to a stored
/// value, map by map, because chains of them are long.
void ReachGraph::Search::want(Value value, std::vector<int64_t> positions) {
  for (;;) {
    const Info &info = graph.getNodeInfo(value);
    BitVector &set = getRowBits(value);
    for (int64_t position : positions) {
      if (position >= 0 && position < info.length) {
        set.set(static_cast<unsigned>(position));
      }
    }
    if (!info.lazy) {
      return;
    }
    const auto &reads = graph.nodes[graph.indexOf.lookup(value.getDefiningOp())].reads;
    if (reads.empty()) {
      return; // a map has one operand
    }
    positions = positionsRead(reads.front(), positions);
    value = reads.front().source;
  }
}

std::vector<int64_t>
ReachGraph::Search::positionsRead(const SolvedRead &read,
                                  const std::vector<int64_t> &positions) const {
  std::vector<int64_t> result;
  result.reserve(positions.size());
  int64_t n = graph.getLength(read.source);
  for (int64_t p : positions) {
    bool isKnown = read.ranges && p >= 0 && p < static_cast<int64_t>(read.ranges->size());
    auto [first, last] =
        isKnown ? (*read.ranges)[static_cast<size_t>(p)] : graph.computeRange(read, p);
    for (int64_t q = first; q <= last; ++q) {
      // Adjacent positions often read the same position.
      bool isNew = result.empty() || result.back() != q;
      if (isNew && (read.bounds.exact || reference::contains(read.relation, p, q, n))) {
        result.push_back(q);
      }
    }
  }
  return result;
}

static std::vector<int64_t> getList(const llvm::BitVector &set) {
  std::vector<int64_t> list;
  list.reserve(set.count());
  for (unsigned position : set.set_bits()) {
    list.push_back(position);
  }
  return list;
}

/// Returns all positions of the ranges of `wanted`, below `limit`. Adjacent rows of attention read
/// nearly the same, so runs of overlapping ranges are set at once.
static llvm::BitVector join(ArrayRef<RowInterval> ranges, const llvm::BitVector &wanted,
                            int64_t limit) {
  llvm::BitVector joined;
  int64_t low = 0, high = -1;
  auto flush = [&] {
    low = std::max<int64_t>(low, 0);
    high = std::min(high, limit - 1);
    if (low <= high) {
      joined.resize(std::max<unsigned>(joined.size(), static_cast<unsigned>(high + 1)));
      joined.set(static_cast<unsigned>(low), static_cast<unsigned>(high + 1));
    }
  };
  for (int p = wanted.find_last(); p >= 0; p = wanted.find_prev(static_cast<unsigned>(p))) {
    auto [first, last] = ranges[static_cast<size_t>(p)];
    if (first > last) {
      continue;
    }
    if (low <= high && first <= high + 1 && last + 1 >= low) {
      low = std::min(low, first);
      high = std::max(high, last);
      continue;
    }
    flush();
    low = first;
    high = last;
  }
  flush();
  return joined;
}

void ReachGraph::Search::follow(const Node &node, const BitVector &wanted) {
  for (const SolvedRead &read : node.reads) {
    const auto &[n, lazy] = graph.getNodeInfo(read.source);
    if (read.identity && !lazy && static_cast<int64_t>(wanted.size()) == n) {
      getRowBits(read.source) |= wanted;
    } else if (!read.ranges) {
      want(read.source, positionsRead(read, getList(wanted)));
    } else {
      BitVector joined = join(*read.ranges, wanted, lazy ? std::numeric_limits<int>::max() : n);
      if (lazy) {
        want(read.source, getList(joined));
      } else {
        getRowBits(read.source) |= joined; // does not grow: every position is below n
      }
    }
  }
}

void ReachGraph::Search::run() {
  for (const Node &node : llvm::reverse(graph.nodes)) {
    if (graph.getNodeInfo(node.op->getResult(0)).lazy) {
      continue; // followed by want()
    }
    for (Value result : node.op->getResults()) {
      auto wanted = found.find(result);
      if (wanted != found.end()) {
        follow(node, BitVector(wanted->second));
      }
    }
  }
}

ReachSets ReachGraph::sees(Value value, int64_t position) const {
  Search search(*this);
  search.want(value, {position});
  search.run();
  return std::move(search.found);
}

ReachSets ReachGraph::sees(Value value, const llvm::BitVector &positions) const {
  Search search(*this);
  search.want(value, getList(positions));
  search.run();
  return std::move(search.found);
}
