// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading dependences from IR, and walking them at one length.
#include "sluice/Analysis/ReadGraph.h"
#include "sluice/Analysis/CausalFlow.h"
#include "sluice/Dialect/Dispatch/ResultDomain.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Dialect/Sluice/ValueNames.h"

using namespace mlir;
using namespace sluice;
using dispatch::RowRead;

/// Targets may stand this many rows past the last token.
static constexpr int64_t mostLookahead = 64;

//===----------------------------------------------------------------------===//
// From IR
//===----------------------------------------------------------------------===//

/// A forward op's reads: its relations, and the targets, which these leave out. The relation of an
/// operand is the same for every result; where data decides what is read, it may be any row.
static SmallVector<RowRead> flowReads(CausalFlowInterface op) {
  SmallVector<RowRead> reads;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    if (!isa<SequenceType>(operand.get().getType())) {
      continue;
    }
    if (std::optional<IntegerSet> relation = op.getRelation(number)) {
      bool byData = llvm::any_of(op->getResults(), [&](OpResult result) {
        return !op.getReads(result.getResultNumber(), number).terms.empty();
      });
      reads.push_back(byData ? RowRead::whole(number) : RowRead::related(number, *relation));
    }
  }
  // Rows of a segment are found by the ends or by the counts, which are of the same bits.
  auto segments = dyn_cast<SegmentsInterface>(op.getOperation());
  for (OpOperand &operand : op->getOpOperands()) {
    bool isCounts = segments && operand.get() == segments.getCounts();
    if (isCounts && !op.getRelation(operand.getOperandNumber())) {
      reads.push_back(RowRead::whole(operand.getOperandNumber()));
    }
  }
  llvm::append_range(reads, op.getTargetReads());
  return reads;
}

/// Tokens from one row of a value to the next; 0 where tokens do not count its rows: what is given
/// is walked as one row.
static int64_t factorOf(OpResult value) {
  if (auto sequence = dyn_cast<SequenceType>(value.getType())) {
    return getDomainFactor(value.getOwner(), sequence);
  }
  dispatch::DomainAttr domain = dispatch::domainOf(value);
  return domain && !domain.getAxis() ? domain.getFactor() : 0;
}

ReadGraph::ReadGraph(func::FuncOp function, bool byMember) : byMember(byMember) {
  add({}, {"length", "", "length", function.getLoc(), 0});
  addArguments(function);
  size_t outputs = 0;
  for (Operation &op : function.getBody().front()) {
    ++makers;
    addOp(op);
    if (auto store = dyn_cast<plan::StoreOp>(op);
        store && store.getPlace().starts_with("output:")) {
      addOutput(store.getValue(), outputs++);
    }
    if (auto end = dyn_cast<func::ReturnOp>(op)) {
      for (mlir::Value operand : end.getOperands()) {
        addOutput(operand, outputs++);
      }
    }
  }
}

void ReadGraph::add(mlir::Value value, Value description) {
  if (value) {
    indices[value] = values.size();
  }
  if (!description.name.empty()) {
    byName[description.name] = values.size();
  }
  description.maker = makers;
  values.push_back(std::move(description));
}

void ReadGraph::addArguments(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    if (auto type = dyn_cast<SequenceType>(argument.getType())) {
      unsigned number = argument.getArgNumber();
      std::string name = "tokens" + (number > 0 ? " " + std::to_string(number) : std::string());
      add(argument,
          {name, "", "tokens", function.getLoc(), getDomainFactor(function, type), false, true});
    }
  }
}

void ReadGraph::addOutput(mlir::Value value, size_t number) {
  auto source = indices.find(value);
  if (source == indices.end()) {
    return;
  }
  Value output = values[source->second];
  output.name = "output " + std::to_string(number);
  output.lazy = output.isTokens = false;
  output.gradientOf.clear();
  Read read;
  static_cast<RowRead &>(read) = RowRead::itself(0, value.getContext());
  read.source = source->second;
  output.reads = {read};
  add({}, std::move(output));
}

void ReadGraph::addOp(Operation &op) {
  if (auto bind = dyn_cast<plan::BindOp>(op)) {
    if (bind.getPlace() == "input:tokens") {
      add(bind.getValue(), {"tokens", "", "tokens", op.getLoc(), 1, false, true});
    } else if (bind.getPlace() == "scalar:length") {
      indices[bind.getValue()] = length;
    } else if (bind.getPlace().starts_with(labelsInput) ||
               bind.getPlace().starts_with(numbersInput)) { // either may follow from any token
      Read all;
      static_cast<RowRead &>(all) = RowRead::whole(0);
      all.source = byName.lookup("tokens");
      add(bind.getValue(), {"", "", "labels", op.getLoc(), 1, false, false, {all}});
    }
    return;
  }
  for (unsigned result = 0; result < op.getNumResults(); ++result) {
    addResult(op, result);
  }
}

/// What a row reads through one that holds a group's rows, where it takes its own of these alone.
using MemberRead = std::pair<Operation *, std::optional<RowRead>>;
static MemberRead memberRead(Operation &op) {
  auto flow = dyn_cast<CausalFlowInterface>(op);
  Operation *maker = flow && flow.readsMember() ? op.getOperand(0).getDefiningOp() : nullptr;
  auto group = dyn_cast_or_null<dispatch::RowReadsInterface>(maker);
  std::optional<RowRead> read = group ? group.getMemberRead() : std::nullopt;
  return {read ? maker : nullptr, read};
}

void ReadGraph::addResult(Operation &op, unsigned result) {
  OpResult value = op.getResult(result);
  std::optional<SmallVector<RowRead>> reads;
  if (auto flow = dyn_cast<CausalFlowInterface>(op)) {
    if (isa<SequenceType>(value.getType())) {
      reads = flowReads(flow);
    }
  } else if (auto rows = dyn_cast<dispatch::RowReadsInterface>(op)) {
    reads = rows.getRowReads(result);
  }
  if (reads) {
    std::string name = op.getName().stripDialect().str();
    auto [reader, read] = byMember ? memberRead(op) : MemberRead();
    add(value, {nameOf(value).str(), gradientOf(value).str(), name, op.getLoc(), factorOf(value),
                isLazy(&op), false, reader ? readsOf(*reader, *read) : readsOf(op, *reads)});
    // What training minimizes are means over valid positions.
    auto rows = dyn_cast<dispatch::RowReadsInterface>(op);
    if (rows && rows.readsLength(result)) {
      values.back().reads.emplace_back();
    }
  }
}

/// Whether data decide what rows of this op's function read.
static bool isAmongSegments(Operation &op) {
  auto function = op.getParentOfType<func::FuncOp>();
  return llvm::any_of(function.getBody().front(), [](Operation &other) {
    auto kernel = dyn_cast<dispatch::KernelInterface>(other);
    return isa<SegmentsInterface>(other) || (kernel && kernel.makesSegments());
  });
}

/// Reads of operands that hold no rows of sequences (parameters, tables) are left out.
std::vector<ReadGraph::Read> ReadGraph::readsOf(Operation &op, ArrayRef<RowRead> reads) const {
  std::vector<Read> result;
  auto domain = op.getAttrOfType<dispatch::DomainAttr>("domain");
  bool isOfSegments = domain && domain.getAxis(); // whose lengths tokens do not tell
  for (const RowRead &read : reads) {
    auto source = indices.find(op.getOperand(read.operand));
    if (source == indices.end()) {
      continue;
    }
    Read known;
    static_cast<RowRead &>(known) = read;
    known.source = source->second;
    bool isOneRow = isOfSegments || values[known.source].factor == 0;
    if (isOneRow && isAmongSegments(op)) {
      static_cast<RowRead &>(known) = RowRead::whole(read.operand);
    } else if (isOfSegments && known.factor) {
      known.factor = 0;
    }
    if (read.kind == RowRead::Kind::Relation) {
      known.bounds = solveMask(read.relation);
    }
    result.push_back(std::move(known));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// At one length
//===----------------------------------------------------------------------===//

std::optional<size_t> ReadGraph::find(StringRef name) const {
  auto found = byName.find(name);
  return found == byName.end() ? std::nullopt : std::optional(found->second);
}

static int64_t ceilDivided(int64_t length, int64_t factor) {
  return factor == 0 ? 1 : (length + factor - 1) / factor;
}

int64_t ReadGraph::rowsOf(const Value &value, int64_t length) {
  return ceilDivided(length, value.factor);
}

int64_t ReadGraph::pastEnd(const Value &value, int64_t length) {
  return rowsOf(value, length) + (value.isTokens ? mostLookahead : 0);
}

/// Row q of a source, past whose ends a lazy value is read through, and any other is null, or,
/// where the read says that it reads memory, whatever stands there.
void ReadGraph::visitRow(size_t source, int64_t q, const Read &read, int64_t length,
                         function_ref<void(size_t, int64_t)> visit) const {
  const Value &value = values[source];
  int64_t rows = rowsOf(value, length);
  bool isValid = q >= 0 && q < rows;
  if (value.lazy && !isValid) {
    forEachRead(value, q, length, visit);
    return;
  }
  // Before the first row there is no memory: zeros are read there, whatever the factor.
  bool readsMemory =
      read.factor && q >= 0 && (*read.factor == 0 || q < ceilDivided(length, *read.factor));
  if (read.factor ? readsMemory : isValid) {
    int64_t end = pastEnd(value, length);
    visit(source, q >= 0 && q < end ? q : end);
  }
}

/// First and last q that may be in a relation's row; lazy sources reach past [0, n).
static std::pair<int64_t, int64_t> rangeOf(const MaskBounds &bounds, int64_t p, int64_t n) {
  std::optional<int64_t> first, last;
  for (AffineExpr lower : bounds.lower) {
    int64_t bound = reference::evaluateAffine(lower, p, 0, n);
    first = std::max(first.value_or(bound), bound);
  }
  for (AffineExpr upper : bounds.upper) {
    int64_t bound = reference::evaluateAffine(upper, p, 0, n);
    last = std::min(last.value_or(bound), bound);
  }
  return {first.value_or(0), last.value_or(n - 1)};
}

void ReadGraph::forEachRead(const Value &value, int64_t p, int64_t length,
                            function_ref<void(size_t, int64_t)> visit) const {
  for (const Read &read : value.reads) {
    int64_t n = rowsOf(values[read.source], length);
    switch (read.kind) {
    case RowRead::Kind::Whole:
      for (int64_t q = 0; q < n; ++q) {
        visit(read.source, q);
      }
      break;
    case RowRead::Kind::Map:
      for (int64_t i = 0; i < read.group; ++i) {
        int64_t valid = read.factor && *read.factor > 0 ? ceilDivided(length, *read.factor) : n;
        int64_t q = reference::evaluateAffine(read.map.getResult(0), p, i, valid);
        visitRow(read.source, q, read, length, visit);
      }
      break;
    case RowRead::Kind::Relation: {
      auto [first, last] = rangeOf(read.bounds, p, n);
      for (int64_t q = first; q <= last; ++q) {
        if (reference::contains(read.relation, p, q, n)) {
          visitRow(read.source, q, read, length, visit);
        }
      }
      break;
    }
    }
  }
}

int64_t ReadGraph::lengthsToWalk(int64_t most) const {
  int64_t coarsest = 1, shift = 0;
  for (const Value &value : values) {
    coarsest = std::max(coarsest, value.factor);
    for (const Read &read : value.reads) {
      if (read.kind == RowRead::Kind::Map && value.factor < most) {
        int64_t origin = reference::evaluateAffine(read.map.getResult(0), 0, 0, 0);
        shift = std::max(shift, value.factor * std::min(std::abs(origin), most));
      }
      // A row of an affine relation: where row 0 ends says how far it is shifted.
      for (AffineExpr bound : read.bounds.upper) {
        int64_t origin = reference::evaluateAffine(bound, 0, 0, 0);
        shift = std::max(shift, std::min(value.factor, most) * std::min(std::abs(origin), most));
      }
      for (AffineExpr bound : read.bounds.lower) {
        int64_t origin = reference::evaluateAffine(bound, 0, 0, 0);
        shift = std::max(shift, std::min(value.factor, most) * std::min(std::abs(origin), most));
      }
    }
  }
  return std::min(most, 2 * std::min(coarsest, most) + shift + 2);
}

RowColumns::RowColumns(const ReadGraph &graph, int64_t longest) {
  const std::vector<ReadGraph::Value> &values = graph.getValues();
  for (size_t index = 0; index < values.size(); ++index) {
    const ReadGraph::Value &value = values[index];
    if (value.name.empty()) {
      continue;
    }
    first[value.name] = rows.size();
    for (int64_t row = 0; row <= ReadGraph::pastEnd(value, longest); ++row) {
      rows.emplace_back(index, row);
    }
  }
}

std::optional<size_t> RowColumns::find(StringRef name, int64_t q) const {
  auto found = first.find(name);
  return found == first.end() ? std::nullopt
                              : std::optional(found->second + static_cast<size_t>(q));
}

RowSets sluice::closureOf(const ReadGraph &graph, int64_t length, const RowColumns &columns) {
  const std::vector<ReadGraph::Value> &values = graph.getValues();
  RowSets sets(values.size());
  for (size_t index = 0; index < values.size(); ++index) {
    const ReadGraph::Value &value = values[index];
    for (int64_t p = 0; p <= ReadGraph::pastEnd(value, length); ++p) {
      llvm::BitVector &set = sets[index].emplace_back(columns.size());
      if (auto own = value.name.empty() ? std::nullopt : columns.find(value.name, p)) {
        set.set(*own);
      }
      if (p < ReadGraph::rowsOf(value, length)) {
        graph.forEachRead(value, p, length, [&](size_t source, int64_t q) {
          set |= sets[source][static_cast<size_t>(q)];
        });
      }
    }
  }
  return sets;
}
