// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds reads that a pass added.
#include "sluice/Analysis/LoweredCausality.h"

#include "sluice/Analysis/LoweredAnyLength.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Dialect/Sluice/ValueNames.h"
#include "sluice/Proof/SegmentBounds.h"
#include "sluice/Support/WorkBudget.h"

using namespace mlir;
using namespace sluice;

/// Maximum length at which all paths are followed: the cost of closures grows with its square.
static constexpr int64_t longestWalk = 28;

/// Returns lengths up to the longest: all short ones, then every fifth, which has every remainder
/// modulo 2 to 4. With segments, the lengths grow geometrically, because even short texts are
/// walked at a longer length.
static SmallVector<int64_t> lengthsUpTo(int64_t longest, bool hasSegments) {
  constexpr int64_t each = 13, step = 5, share = 2;
  SmallVector<int64_t> lengths;
  for (int64_t length = 1; length < longest;) {
    lengths.push_back(length);
    length += hasSegments ? 1 + length / share : length < each ? 1 : step;
  }
  lengths.push_back(longest);
  return lengths;
}

//===----------------------------------------------------------------------===//
// Comparison at short lengths
//===----------------------------------------------------------------------===//

namespace {

/// Compares two graphs; `before` defines the columns.
class ReadComparison {
public:
  ReadComparison(const ReadGraph &before, const ReadGraph &after)
      : before(before), after(after),
        longest(std::max(before.lengthsToWalk(longestWalk), after.lengthsToWalk(longestWalk))),
        columns(before, longest) {}

  std::optional<AddedRead> run();

private:
  std::optional<AddedRead> runAt(int64_t length);
  bool isOfSameOp(size_t promised, int64_t p, unsigned column) const;
  std::optional<AddedRead> compareRow(size_t index, size_t promised, int64_t p);
  AddedRead describe(size_t index, int64_t p, size_t column) const;
  std::optional<std::pair<int64_t, int64_t>> addedToken() const;

  const ReadGraph &before, &after;
  int64_t longest, length = 0;
  ReadGraph::SegmentLayout beforeSetting, afterSetting;
  RowColumns columns;
  RowSets beforeSets, afterSets;
};

AddedRead ReadComparison::describe(size_t index, int64_t p, size_t column) const {
  const ReadGraph::GraphValue &value = after.getValues()[index];
  auto [source, q] = columns.at(column);
  AddedRead added{AddedRead::Kind::Row, "", value.op, "", value.place, value.place, length, p, q};
  if (source == ReadGraph::length) {
    added.kind = AddedRead::Kind::Length;
    return added;
  }
  const ReadGraph::GraphValue &read = before.getValues()[source];
  added.source = read.op;
  added.sourcePlace = read.place;
  if (q >= ReadGraph::pastEnd(read, beforeSetting)) {
    added.kind = AddedRead::Kind::PastEnd;
  }
  return added;
}

/// Returns an output row and a token that the row depends on only after the pass, for the first
/// output.
std::optional<std::pair<int64_t, int64_t>> ReadComparison::addedToken() const {
  auto old = before.find("output 0"), now = after.find("output 0");
  if (!old || !now) {
    return std::nullopt;
  }
  int64_t rows = ReadGraph::countValidRows(after.getValues()[*now], afterSetting);
  for (int64_t p = 0; p < rows; ++p) {
    llvm::BitVector added = afterSets[*now][static_cast<size_t>(p)];
    added.reset(beforeSets[*old][static_cast<size_t>(p)]);
    for (unsigned column : added.set_bits()) {
      auto [source, q] = columns.at(column);
      if (before.getValues()[source].isTokens) {
        return std::pair(p, q);
      }
    }
  }
  return std::nullopt;
}

/// Returns true if the row belongs to another result of the same op, such as the log-sum-exp of
/// attention, and the same row of some result was read before: the read then adds no dependence.
bool ReadComparison::isOfSameOp(size_t promised, int64_t p, unsigned column) const {
  auto [source, q] = columns.at(column);
  const std::vector<ReadGraph::GraphValue> &values = before.getValues();
  const ReadGraph::GraphValue &read = values[source];
  for (size_t index = 0; index < values.size(); ++index) {
    const ReadGraph::GraphValue &other = values[index];
    if (index == source || other.op != read.op || other.place != read.place ||
        other.factor != read.factor) {
      continue;
    }
    std::optional<size_t> known = columns.find(other.name, q);
    bool wasRead =
        (index == promised && q == p) ||
        (known && beforeSets[promised][static_cast<size_t>(p)].test(static_cast<unsigned>(*known)));
    llvm::BitVector more = beforeSets[source][static_cast<size_t>(q)];
    more.reset(beforeSets[index][static_cast<size_t>(q)]);
    more.reset(column);
    if (wasRead && more.none()) {
      return true;
    }
  }
  return false;
}

std::optional<AddedRead> ReadComparison::compareRow(size_t index, size_t promised, int64_t p) {
  const llvm::BitVector &now = afterSets[index][static_cast<size_t>(p)];
  const llvm::BitVector &old = beforeSets[promised][static_cast<size_t>(p)];
  llvm::BitVector difference = now;
  difference.reset(old);
  for (unsigned column : difference.set_bits()) {
    if (isOfSameOp(promised, p, column)) {
      difference.reset(column);
    }
  }
  if (difference.any()) {
    AddedRead added = describe(index, p, static_cast<size_t>(difference.find_first()));
    added.token = addedToken();
    return added;
  }
  return std::nullopt;
}

std::optional<AddedRead> ReadComparison::runAt(int64_t at) {
  length = at;
  beforeSetting = before.at(length);
  afterSetting = after.at(length);
  beforeSets = computeClosure(before, length, columns);
  afterSets = computeClosure(after, length, columns);
  const std::vector<ReadGraph::GraphValue> &values = after.getValues();
  for (size_t index = 0; index < values.size(); ++index) {
    std::optional<size_t> promised = before.find(values[index].name);
    if (values[index].name.empty() || !promised) {
      continue;
    }
    int64_t rows =
        std::min(ReadGraph::countValidRows(values[index], afterSetting),
                 ReadGraph::countValidRows(before.getValues()[*promised], beforeSetting));
    for (int64_t p = 0; p < rows; ++p) {
      if (auto added = compareRow(index, *promised, p)) {
        return added;
      }
    }
  }
  return std::nullopt;
}

std::optional<AddedRead> ReadComparison::run() {
  for (int64_t at : lengthsUpTo(longest, before.hasSegments())) {
    if (auto added = runAt(at)) {
      return added;
    }
  }
  return std::nullopt;
}

} // namespace

/// Finds a row that this read treats as null although the source has the row, if their axis is that
/// long.
static std::optional<AddedRead> findNullAt(const ReadGraph &after,
                                           const ReadGraph::GraphValue &value,
                                           const ReadGraph::GraphRead &read, int64_t length) {
  const ReadGraph::GraphValue &source = after.getValues()[read.source];
  auto countValidRows = [&](int64_t factor) {
    return factor == 0 ? 1 : (length + factor - 1) / factor;
  };
  int64_t valid = countValidRows(*read.factor);
  for (int64_t p = 0; p < countValidRows(value.factor); ++p) {
    for (int64_t i = 0; i < read.group; ++i) {
      int64_t q = reference::evaluateAffine(read.map.getResult(0), p, i, valid);
      if (q >= valid && q < countValidRows(source.factor)) {
        return AddedRead{AddedRead::Kind::Null, "",     value.op, source.op, value.place,
                         source.place,          length, p,        q};
      }
    }
  }
  return std::nullopt;
}

/// Checks that the null range of a map ends where its source ends: if it ended earlier, a row would
/// change as the sequence grows.
static std::optional<AddedRead> findNull(const ReadGraph &after) {
  constexpr int64_t margin = 256; // maximum delay of a shift in tokens
  for (const ReadGraph::GraphValue &value : after.getValues()) {
    for (const ReadGraph::GraphRead &read : value.reads) {
      const ReadGraph::GraphValue &source = after.getValues()[read.source];
      bool endsSooner = read.kind == dispatch::RowRead::Kind::Map && read.factor &&
                        source.axis == value.measuredBy && value.axis == source.axis &&
                        source.factor > 0 && *read.factor > source.factor;
      for (int64_t length = 1; endsSooner && length <= 2 * *read.factor + margin; ++length) {
        if (auto added = findNullAt(after, value, read, length)) {
          return added;
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<AddedRead> sluice::findAddedRead(const ReadGraph &before, const ReadGraph &after) {
  if (auto added = ReadComparison(before, after).run()) {
    return added;
  }
  if (auto added = findNull(after)) {
    return added;
  }
  return findAddedAtAnyLength(before, after);
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

namespace {

/// A gradient function, and the forward function from which it is derived.
class Transposition {
public:
  Transposition(const ReadGraph &forward, const ReadGraph &gradient)
      : forward(forward), gradient(gradient),
        longest(std::max(forward.lengthsToWalk(longestWalk), gradient.lengthsToWalk(longestWalk))),
        forwardColumns(forward, longest), gradientColumns(gradient, longest),
        isGradient(gradientColumns.size()) {
    for (const ReadGraph::GraphValue &value : gradient.getValues()) {
      original.push_back(forward.find(value.gradientOf));
    }
    for (size_t column = 0; column < gradientColumns.size(); ++column) {
      size_t source = gradientColumns.at(column).first;
      if (!gradient.getValues()[source].gradientOf.empty()) {
        isGradient.set(static_cast<unsigned>(column));
      }
    }
  }

  std::optional<AddedRead> run();

private:
  bool isAllowed(size_t reads, int64_t p, std::optional<size_t> column,
                 const RowSets &forwardSets) const;
  std::optional<AddedRead> runAt(int64_t length);

  const ReadGraph &forward, &gradient;
  int64_t longest;
  RowColumns forwardColumns, gradientColumns;
  /// Forward value of each value of the gradient function.
  std::vector<std::optional<size_t>> original;
  llvm::BitVector isGradient; ///< columns of rows of gradients
};

/// Returns true if row p of the value whose gradient is `reads` depends on the row of `column`.
bool Transposition::isAllowed(size_t reads, int64_t p, std::optional<size_t> column,
                              const RowSets &forwardSets) const {
  std::optional<size_t> later = original[reads];
  return later && column && p < static_cast<int64_t>(forwardSets[*later].size()) &&
         forwardSets[*later][static_cast<size_t>(p)].test(static_cast<unsigned>(*column));
}

std::optional<AddedRead> Transposition::runAt(int64_t length) {
  RowSets forwardSets = computeClosure(forward, length, forwardColumns);
  RowSets gradientSets = computeClosure(gradient, length, gradientColumns);
  ReadGraph::SegmentLayout setting = gradient.at(length);
  const std::vector<ReadGraph::GraphValue> &values = gradient.getValues();
  for (size_t index = 0; index < values.size(); ++index) {
    const ReadGraph::GraphValue &value = values[index];
    if (value.gradientOf.empty() || !original[index]) {
      continue;
    }
    for (int64_t q = 0; q < ReadGraph::countValidRows(value, setting); ++q) {
      std::optional<size_t> own = forwardColumns.find(value.gradientOf, q);
      llvm::BitVector &reads = gradientSets[index][static_cast<size_t>(q)];
      reads &= isGradient;
      for (unsigned column : reads.set_bits()) {
        auto [source, p] = gradientColumns.at(column);
        if (isAllowed(source, p, own, forwardSets)) {
          continue;
        }
        return AddedRead{AddedRead::Kind::Transposed,
                         "",
                         value.op,
                         values[source].op,
                         value.place,
                         values[source].place,
                         length,
                         q,
                         p};
      }
    }
  }
  return std::nullopt;
}

std::optional<AddedRead> Transposition::run() {
  for (int64_t length : lengthsUpTo(longest, forward.hasSegments())) {
    if (auto added = runAt(length)) {
      return added;
    }
  }
  return std::nullopt;
}

} // namespace

std::optional<AddedRead> sluice::findUntransposed(const ReadGraph &forward,
                                                  const ReadGraph &gradient) {
  return Transposition(forward, gradient).run();
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

static std::string placeToString(Location place) {
  spec::SourceLocation location = getSourceLocation(place);
  return location.file.empty() ? "an unknown place" : spec::toString(location);
}

std::string AddedRead::format() const {
  std::string text = op + " of " + placeToString(place) + " in @" + function + ": of " +
                     std::to_string(length) + " tokens, row " + std::to_string(row) + " ";
  std::string what =
      "row " + std::to_string(read) + " of " + source + " of " + placeToString(sourcePlace);
  switch (kind) {
  case Kind::Row:
    text += "reads " + what + ", which it did not before";
    break;
  case Kind::PastEnd:
    text += "reads past the end of " + source + " of " + placeToString(sourcePlace) +
            ", which was null before";
    break;
  case Kind::Length:
    text += "reads the length itself, which it did not before";
    break;
  case Kind::Null:
    text += "reads null instead of " + what + " until the sequence is longer";
    break;
  case Kind::Transposed:
    text += "reads the gradient of row " + std::to_string(read) + " of " + source + " of " +
            placeToString(sourcePlace) + ", which does not depend on it";
    break;
  }
  if (token) {
    text += "; row " + std::to_string(token->first) + " then depends on token " +
            std::to_string(token->second);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Watch
//===----------------------------------------------------------------------===//

/// Names the sequences of model IR that have no name yet.
static void nameValues(func::FuncOp function, int64_t &next) {
  for (Operation &op : function.getBody().front()) {
    for (Value result : op.getResults()) {
      if (isa<SequenceType>(result.getType()) && getDisplayName(result).empty()) {
        setName(result, std::to_string(next++));
      }
    }
  }
}

LoweringWatch::LoweringWatch(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    nameValues(function, names);
    std::string name = function.getSymName().str();
    promises[name] = {name, std::make_unique<ReadGraph>(function)};
  }
}

/// Returns the dependences that a function must preserve. A function that a pass created must
/// preserve the dependences of its original, the function with the same value names.
const LoweringWatch::Promise *LoweringWatch::findPromise(func::FuncOp function) const {
  if (auto found = promises.find(function.getSymName().str()); found != promises.end()) {
    return &found->second;
  }
  for (Operation &op : function.getBody().front()) {
    for (Value result : op.getResults()) {
      for (auto &[name, promise] : promises) {
        if (!getDisplayName(result).empty() && promise.graph->find(getDisplayName(result))) {
          return &promise;
        }
      }
    }
  }
  return nullptr;
}

/// Returns true if the pass only added values. Their dependences must be preserved from then on;
/// otherwise nothing could be compared with their gradients.
static bool keepsAll(const ReadGraph &before, const ReadGraph &after) {
  return llvm::all_of(before.getValues(), [&](const ReadGraph::GraphValue &value) {
    return value.name.empty() || after.find(value.name);
  });
}

/// Checks at short lengths only the maps and masks that exceed the operations of one pass, or that
/// cannot be compared directly.
std::optional<std::string> LoweringWatch::find(ModuleOp module, StringRef pass, Location *place) {
  WorkBudget budget;
  WorkScope scope(budget);
  for (auto function : module.getOps<func::FuncOp>()) {
    const Promise *promise = findPromise(function);
    if (!promise) {
      continue;
    }
    nameValues(function, names);
    auto now = std::make_unique<ReadGraph>(function, /*byMember=*/false, promise->graph.get());
    std::string name = function.getSymName().str();
    std::optional<AddedRead> added = findAddedRead(*promise->graph, *now);
    bool isNew = promise->name != name;
    if (!added && isNew) {
      added = findUntransposed(*promise->graph, ReadGraph(function, /*byMember=*/true));
    }
    if (added) {
      added->function = name;
      if (place) {
        *place = added->place;
      }
      return "the pass " + pass.str() + " added a dependence: " + added->format();
    }
    if (isNew || keepsAll(*promise->graph, *now)) {
      promises[name] = {name, std::move(now)};
    }
  }
  return std::nullopt;
}

void LoweringWatch::finish(ModuleOp module) { eraseNames(module); }
