// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects dependences from IR, and follows them at one length.
#include "sluice/Analysis/ReadGraph.h"
#include "SegmentReads.h"
#include "sluice/Dialect/Dispatch/ResultDomain.h"
#include "sluice/Dialect/Dispatch/RowConditions.h"
#include "sluice/Dialect/Plan/Names.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Dialect/Sluice/ValueNames.h"
#include "sluice/Proof/SegmentBounds.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace sluice;
using dispatch::RowRead;

/// Maximum number of rows of targets past the last token.
static constexpr int64_t mostLookahead = 64;

//===----------------------------------------------------------------------===//
// From IR
//===----------------------------------------------------------------------===//

/// Adds the reads of a map: its own row of each operand, restricted to the rows at which a select
/// by position chooses the operand.
static void addMapReads(MapOp op, SmallVector<RowRead> &reads) {
  Value yielded = op.getBody().front().getTerminator()->getOperand(0);
  for (const dispatch::ArgumentUse &use : dispatch::findArgumentUses(yielded)) {
    if (isa<SequenceType>(op->getOperand(use.argument).getType())) {
      reads.push_back(RowRead::itself(use.argument, op.getContext()));
      reads.back().relation = use.rows;
    }
  }
}

/// Returns the reads of a forward op: its relations, and the targets, which relations omit. The
/// relation of an operand is the same for every result.
static SmallVector<RowRead> flowReads(CausalFlowInterface op) {
  SmallVector<RowRead> reads;
  if (auto map = dyn_cast<MapOp>(*op)) {
    addMapReads(map, reads);
    return reads;
  }
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    if (!isa<SequenceType>(operand.get().getType())) {
      continue;
    }
    if (std::optional<IntegerSet> relation = op.getRelation(number)) {
      reads.push_back(RowRead::related(number, *relation));
    }
  }
  llvm::append_range(reads, op.getTargetReads());
  return reads;
}

/// Returns the axis of a value's rows if they are segments, and the distance of its rows on that
/// axis; 0 if the rows are counted neither in tokens nor in segments. Given values count as one
/// row, and so do rows of their segments.
static std::pair<std::string, int64_t> getRowDomain(OpResult value) {
  Operation *op = value.getOwner();
  if (auto sequence = dyn_cast<SequenceType>(value.getType())) {
    bool isNamed = isSegmented(op, sequence) && !isGiven(op, sequence);
    std::string axis = isNamed ? getAxisName(op, sequence) : "";
    return {axis, getDomainFactor(op, sequence, axis)};
  }
  dispatch::DomainAttr domain = dispatch::getRowDomain(value);
  if (!domain) {
    return {"", 0};
  }
  if (!domain.getAxis()) {
    return {"", domain.getFactor()};
  }
  auto axis = SymbolTable::lookupNearestSymbolFrom<AxisOp>(op, domain.getAxis());
  AxisOp root = getRootAxis(axis); // each text has its own number of tokens, or of given rows
  if (root && (root == axis || root.getCapacity())) {
    return {"", root.getCapacity() ? 0 : domain.getFactor()};
  }
  return {domain.getAxis().str(), domain.getFactor()};
}

/// Returns the scan that computes the stored number of segments of an axis; null if it is in
/// another function.
static dispatch::SegmentScanOp scanBehind(mlir::Value stored) {
  Operation *op = stored.getDefiningOp();
  while (isa_and_nonnull<dispatch::RowsOp>(op)) { // a dispatch that adds spare rows
    op = op->getOperand(0).getDefiningOp();
  }
  return dyn_cast_or_null<dispatch::SegmentScanOp>(op);
}

void ReadGraph::addSegmentations(func::FuncOp function) {
  auto add = [&](OpResult counts, OpResult ends) {
    numbers[counts] = {segmentations.size(), false};
    numbers[ends] = {segmentations.size(), true};
    auto [axis, factor] = getRowDomain(counts);
    segmentations.push_back({getDisplayName(counts).str(), axes.lookup(axis), factor});
  };
  llvm::DenseMap<Operation *, std::string> axisOfScan;
  for (auto store : function.getOps<plan::StoreOp>()) {
    StringRef place = store.getPlace();
    if (place.consume_front("scalar:") && place.consume_front(plan::countsName(""))) {
      axisOfScan[scanBehind(store.getValue())] = place.str();
    }
  }
  for (Operation &op : function.getBody().front()) {
    // Segments of a given axis have no numbers here, so that their rows are read whole; the host
    // needs no count of them.
    if (auto segment = dyn_cast<SegmentOp>(op)) {
      if (isGiven(segment, segment.getEnds().getType())) {
        continue;
      }
      add(cast<OpResult>(segment.getCounts()), cast<OpResult>(segment.getEnds()));
      axes[getAxisName(&op, segment.getEnds().getType())] = segmentations.size();
    } else if (auto scan = dyn_cast<dispatch::SegmentScanOp>(op);
               scan && axisOfScan.contains(scan)) {
      add(cast<OpResult>(scan.getCounts()), cast<OpResult>(scan.getEnds()));
      axes[axisOfScan.lookup(scan)] = segmentations.size();
    }
  }
}

ReadGraph::ReadGraph(func::FuncOp function, bool byMember, const ReadGraph *before)
    : byMember(byMember), before(before) {
  add({}, {"length", "", "length", function.getLoc(), 0});
  addSegmentations(function);
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

void ReadGraph::add(mlir::Value value, GraphValue description) {
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
      values.back().isWhole = isGiven(function, type);
    }
  }
}

void ReadGraph::addOutput(mlir::Value value, size_t number) {
  auto source = indices.find(value);
  if (source == indices.end()) {
    return;
  }
  GraphValue output = values[source->second];
  output.name = "output " + std::to_string(number);
  output.lazy = output.isTokens = false;
  output.gradientOf.clear();
  GraphRead read;
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
               bind.getPlace().starts_with(
                   numbersInput)) { // labels and numbers may depend on any token
      GraphRead all;
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

/// The op that stores the rows of a group, for a reader that takes only its own row of the group,
/// and the read of that row.
using MemberRead = std::pair<Operation *, std::optional<RowRead>>;
static MemberRead memberRead(Operation &op) {
  auto flow = dyn_cast<CausalFlowInterface>(op);
  Operation *maker = flow && flow.readsMember() ? op.getOperand(0).getDefiningOp() : nullptr;
  auto group = dyn_cast_or_null<dispatch::RowReadsInterface>(maker);
  std::optional<RowRead> read = group ? group.getMemberRead() : std::nullopt;
  return {read ? maker : nullptr, read};
}

static std::optional<SmallVector<SegmentRead>> allReads(Operation &op, unsigned result,
                                                        bool exact) {
  if (auto found = collectSegmentReads(&op, result, exact)) {
    return found;
  }
  std::optional<SmallVector<RowRead>> reads;
  if (auto flow = dyn_cast<CausalFlowInterface>(op)) {
    if (isa<SequenceType>(op.getResult(result).getType())) {
      reads = flowReads(flow);
    }
  } else if (auto rows = dyn_cast<dispatch::RowReadsInterface>(op)) {
    reads = rows.getRowReads(result);
  }
  if (!reads) {
    return std::nullopt;
  }
  return llvm::map_to_vector(*reads, [](RowRead &read) { return SegmentRead{std::move(read)}; });
}

/// Returns a value on the same rows: the value of the same name, else a value that is read row by
/// row.
const ReadGraph::GraphValue *ReadGraph::findAxis(const GraphValue &like, Operation *op,
                                                 ArrayRef<SegmentRead> reads) const {
  auto known = before ? before->find(like.name) : std::nullopt;
  if (known && before->values[*known].axis > 0) {
    return &before->values[*known];
  }
  for (const SegmentRead &read : reads) {
    auto source = indices.find(op->getOperand(read.read.operand));
    bool isOneByOne = read.read.kind == RowRead::Kind::Map &&
                      read.read.map.getResult(0) == getAffineDimExpr(0, op->getContext());
    if (isOneByOne && source != indices.end() && values[source->second].axis > 0) {
      return &values[source->second];
    }
  }
  return nullptr;
}

/// Sets the axis and factor of a value. A domain of all rows of an axis of segments, whatever their
/// number, does not name the axis; a value on the same rows then provides it. Without such a value,
/// the rows count as one row.
void ReadGraph::setAxis(GraphValue &description, OpResult value,
                        ArrayRef<SegmentRead> reads) const {
  auto [axis, factor] = getRowDomain(value);
  description.measuredBy = axis.empty() ? 0 : axes.lookup(axis);
  if (auto number = numbers.find(value); number != numbers.end() && number->second.second) {
    description.isEnds = true;
    description.axis = 1 + number->second.first;
  } else if (factor != 0 && (axis.empty() || description.measuredBy > 0)) {
    description.axis = description.measuredBy;
    description.factor = factor;
  } else if (const GraphValue *other = findAxis(description, value.getOwner(), reads)) {
    description.axis = other->axis;
    description.factor = other->factor;
  } else {
    description.factor = 0;
    auto sequence = dyn_cast<SequenceType>(value.getType());
    dispatch::DomainAttr domain = dispatch::getRowDomain(value);
    description.isWhole =
        sequence ? isGiven(value.getOwner(), sequence) : domain && domain.getPositions() > 1;
  }
}

void ReadGraph::addResult(Operation &op, unsigned result) {
  OpResult value = op.getResult(result);
  if (auto reads = allReads(op, result, byMember)) {
    std::string name = op.getName().stripDialect().str();
    auto [reader, read] = byMember ? memberRead(op) : MemberRead();
    GraphValue description = {getDisplayName(value).str(),
                              getGradientName(value).str(),
                              name,
                              op.getLoc(),
                              1,
                              isLazy(&op)};
    setAxis(description, value, *reads);
    description.reads =
        reader ? collectOpReads(*reader, SegmentRead{*read}) : collectOpReads(op, *reads);
    add(value, std::move(description));
    // Training minimizes means over valid positions.
    auto rows = dyn_cast<dispatch::RowReadsInterface>(op);
    if (rows && rows.readsLength(result)) {
      values.back().reads.emplace_back();
    }
  }
}

/// Returns true if data selects the rows that rows of this op's function read.
static bool isAmongSegments(Operation &op) {
  auto function = op.getParentOfType<func::FuncOp>();
  return llvm::any_of(function.getBody().front(), [](Operation &other) {
    auto kernel = dyn_cast<dispatch::KernelInterface>(other);
    return isa<SegmentsInterface>(other) || (kernel && kernel.makesSegments());
  });
}

/// Returns the read of an operand; none if the operand has no rows of sequences (parameters,
/// tables). Returns a read of the whole operand if it has no numbered rows, or if numbers other
/// than counts or ends select its rows.
std::optional<ReadGraph::GraphRead> ReadGraph::buildRead(Operation &op,
                                                         const SegmentRead &read) const {
  auto source = indices.find(op.getOperand(read.read.operand));
  if (source == indices.end()) {
    return std::nullopt;
  }
  GraphRead known;
  static_cast<RowRead &>(known) = read.read;
  known.source = source->second;
  const GraphValue &of = values[known.source];
  bool isKnown = of.factor != 0 || !(of.isWhole || isAmongSegments(op));
  for (const SegmentRead::Term &term : read.terms) {
    auto number = numbers.find(term.of);
    if (number != numbers.end()) {
      known.terms.push_back({number->second.first, number->second.second, term.at});
    }
    isKnown &= number != numbers.end();
  }
  if (!isKnown) {
    static_cast<RowRead &>(known) = RowRead::whole(read.read.operand);
    known.terms.clear();
  } else if (known.kind == RowRead::Kind::Relation && known.terms.empty()) {
    known.bounds = solveMask(known.relation);
  }
  return known;
}

std::vector<ReadGraph::GraphRead> ReadGraph::collectOpReads(Operation &op,
                                                            ArrayRef<SegmentRead> reads) const {
  std::vector<GraphRead> result;
  for (const SegmentRead &read : reads) {
    if (std::optional<GraphRead> known = buildRead(op, read)) {
      result.push_back(std::move(*known));
    }
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

/// Sets about half of the bits that may be set.
ReadGraph::SegmentLayout ReadGraph::at(int64_t length) const {
  SegmentLayout setting{length, {}, {length}};
  for (const Segmentation &segmentation : segmentations) {
    size_t axis = segmentation.axis;
    int64_t ended = axis == 0 ? length : static_cast<int64_t>(setting.bits[axis - 1].size());
    setting.rows.push_back(ceilDivided(setting.rows[axis], segmentation.factor) + 1);
    std::vector<int64_t> bits;
    for (int64_t row = 0; row < ceilDivided(ended, segmentation.factor); ++row) {
      std::string place =
          segmentation.name + " " + std::to_string(length) + " " + std::to_string(row);
      if (llvm::xxh3_64bits(place) % 2 == 1) {
        bits.push_back(row);
      }
    }
    setting.bits.push_back(std::move(bits));
  }
  return setting;
}

int64_t ReadGraph::countValidRows(const GraphValue &value, const SegmentLayout &setting) {
  return ceilDivided(setting.rows[value.axis], value.factor);
}

int64_t ReadGraph::pastEnd(const GraphValue &value, const SegmentLayout &setting) {
  return countValidRows(value, setting) + (value.isTokens ? mostLookahead : 0);
}

/// Visits row q of a source. Reads through a lazy value past its ends; any other value is null
/// there or, for a read of memory, has the contents of that memory. `valid` is the number of rows
/// that the read treats as existing.
void ReadGraph::visitRow(size_t source, int64_t q, const GraphRead &read, int64_t valid,
                         const SegmentLayout &setting,
                         function_ref<void(size_t, int64_t)> visit) const {
  const GraphValue &value = values[source];
  int64_t rows = countValidRows(value, setting);
  if (value.isEnds && q >= rows) {
    q = rows - 1;
  }
  bool isValid = q >= 0 && q < rows;
  if (value.lazy && !isValid) {
    forEachRead(value, q, setting, visit);
    return;
  }
  // No memory precedes the first row: a read there gives zeros, for every factor. All rows that
  // segments can have exist, and zeros follow them.
  bool isAll = value.axis > 0 && !isValid;
  bool readsMemory = read.factor && q >= 0 && (*read.factor == 0 ? !isAll : q < valid);
  if (read.factor ? readsMemory : isValid) {
    int64_t end = pastEnd(value, setting);
    visit(source, q >= 0 && q < end ? q : end);
  }
}

/// Returns the first and last q that a row of a relation may contain; lazy sources extend beyond
/// [0, n).
static std::pair<int64_t, int64_t> computeRange(const MaskBounds &bounds, int64_t p, int64_t n) {
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

/// A position after every row: the end of a segment that has not ended.
static constexpr int64_t noEnd = int64_t{1} << 40;

/// Evaluates a term, with e(x) = x below 0.
static int64_t evaluateTerm(const ReadGraph::Term &term, int64_t at,
                            const std::vector<int64_t> &bits) {
  auto segments = static_cast<int64_t>(bits.size());
  if (term.isEnd) {
    return at < 0 ? at : at < segments ? bits[static_cast<size_t>(at)] : noEnd;
  }
  return llvm::upper_bound(bits, at) - bits.begin();
}

/// Substitutes the values of terms for row p in a relation; also returns whether all of these
/// segments have ended.
static std::pair<IntegerSet, bool> withNumbers(const ReadGraph::GraphRead &read, int64_t p,
                                               const ReadGraph::SegmentLayout &setting) {
  MLIRContext *context = read.relation.getContext();
  AffineExpr d0 = getAffineDimExpr(0, context), d1 = getAffineDimExpr(1, context);
  SmallVector<AffineExpr> numbers = {getAffineSymbolExpr(0, context)};
  bool haveEnded = true;
  for (const ReadGraph::Term &term : read.terms) {
    AffineExpr at = term.at.replaceDimsAndSymbols({d0}, numbers);
    int64_t number =
        evaluateTerm(term, reference::evaluateAffine(at, p, 0, 0), setting.bits[term.segmentation]);
    haveEnded &= number != noEnd;
    numbers.push_back(getAffineConstantExpr(number, context));
  }
  IntegerSet relation = read.relation;
  return {relation.replaceDimsAndSymbols({d0, d1}, numbers, 2, 1), haveEnded};
}

/// Visits only existing rows of the open segment: a kernel that reads further ignores the others.
void ReadGraph::visitFound(const GraphValue &value, const GraphRead &read, int64_t p,
                           const SegmentLayout &setting,
                           function_ref<void(size_t, int64_t)> visit) const {
  constexpr int64_t beyond = 8; // number of rows past the end that are checked
  auto [relation, haveEnded] = withNumbers(read, p, setting);
  int64_t rows = countValidRows(values[read.source], setting);
  int64_t valid = ceilDivided(setting.rows[value.measuredBy], read.factor.value_or(0));
  int64_t n = read.factor.value_or(0) > 0 ? valid : rows;
  for (int64_t q = 0; q < (haveEnded ? rows + beyond : rows); ++q) {
    if (reference::contains(relation, p, q, n)) {
      visitRow(read.source, q, read, valid, setting, visit);
    }
  }
}

void ReadGraph::forEachRead(const GraphValue &value, int64_t p, const SegmentLayout &setting,
                            function_ref<void(size_t, int64_t)> visit) const {
  for (const GraphRead &read : value.reads) {
    IntegerSet rows = read.kind == RowRead::Kind::Relation ? IntegerSet() : read.relation;
    if (rows && !reference::contains(rows, p, 0, 0)) {
      continue;
    }
    int64_t n = countValidRows(values[read.source], setting);
    int64_t valid = read.factor && *read.factor > 0
                        ? ceilDivided(setting.rows[value.measuredBy], *read.factor)
                        : n;
    if (!read.terms.empty()) {
      visitFound(value, read, p, setting, visit);
      continue;
    }
    switch (read.kind) {
    case RowRead::Kind::Whole:
      for (int64_t q = 0; q < n; ++q) {
        visit(read.source, q);
      }
      break;
    case RowRead::Kind::Map:
      for (int64_t i = 0; i < read.group; ++i) {
        int64_t q = reference::evaluateAffine(read.map.getResult(0), p, i, valid);
        visitRow(read.source, q, read, valid, setting, visit);
      }
      break;
    case RowRead::Kind::Relation: {
      auto [first, last] = computeRange(read.bounds, p, n);
      bool isRange = read.bounds.exact && read.bounds.conditions.empty();
      for (int64_t q = first; q <= last; ++q) {
        if (isRange || reference::contains(read.relation, p, q, n)) {
          visitRow(read.source, q, read, valid, setting, visit);
        }
      }
      break;
    }
    }
  }
}

int64_t ReadGraph::lengthsToWalk(int64_t most) const {
  int64_t coarsest = 1, shift = 0;
  for (const GraphValue &value : values) {
    coarsest = std::max(coarsest, value.factor);
    for (const GraphRead &read : value.reads) {
      if (read.kind == RowRead::Kind::Map && value.factor < most) {
        int64_t origin = reference::evaluateAffine(read.map.getResult(0), 0, 0, 0);
        shift = std::max(shift, value.factor * std::min(std::abs(origin), most));
      }
      // The shift is the bound at row 0 for a row of an affine relation.
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
  constexpr int64_t forSegments =
      12; // half of them end a segment, and a quarter end a segment of segments
  int64_t least = hasSegments() ? forSegments : 0;
  return std::min(most, std::max(least, 2 * std::min(coarsest, most) + shift + 2));
}

RowColumns::RowColumns(const ReadGraph &graph, int64_t longest) {
  const std::vector<ReadGraph::GraphValue> &values = graph.getValues();
  for (size_t index = 0; index < values.size(); ++index) {
    const ReadGraph::GraphValue &value = values[index];
    if (value.name.empty()) {
      continue;
    }
    first[value.name] = rows.size();
    // Closed segments are at most as many as earlier rows, and one segment is open.
    int64_t last = value.axis == 0 ? ReadGraph::pastEnd(value, {longest, {}, {longest}})
                                   : longest + static_cast<int64_t>(value.axis);
    for (int64_t row = 0; row <= last; ++row) {
      rows.emplace_back(index, row);
    }
  }
}

std::optional<size_t> RowColumns::find(StringRef name, int64_t q) const {
  auto found = first.find(name);
  return found == first.end() ? std::nullopt
                              : std::optional(found->second + static_cast<size_t>(q));
}

RowSets sluice::computeClosure(const ReadGraph &graph, int64_t length, const RowColumns &columns) {
  const std::vector<ReadGraph::GraphValue> &values = graph.getValues();
  ReadGraph::SegmentLayout setting = graph.at(length);
  RowSets sets(values.size());
  for (size_t index = 0; index < values.size(); ++index) {
    const ReadGraph::GraphValue &value = values[index];
    int64_t last = ReadGraph::pastEnd(value, setting),
            rows = ReadGraph::countValidRows(value, setting);
    auto first = value.name.empty() ? std::nullopt : columns.find(value.name, 0);
    sets[index].reserve(static_cast<size_t>(last + 1));
    for (int64_t p = 0; p <= last; ++p) {
      llvm::BitVector &set = sets[index].emplace_back(columns.size());
      if (first) {
        set.set(static_cast<unsigned>(*first + static_cast<size_t>(p)));
      }
      if (p < rows) {
        graph.forEachRead(value, p, setting, [&](size_t source, int64_t q) {
          set |= sets[source][static_cast<size_t>(q)];
        });
      }
    }
  }
  return sets;
}
