// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verifies launches against their module: kernels, memory, order, and the effect of their guards.
#include "sluice/Dialect/Plan/Names.h"
#include "sluice/Dialect/Plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::plan;

namespace {

struct EntryRange {
  int64_t begin, end;
  bool written = false, isWorkspace = false;

  bool meets(const EntryRange &other) const { return begin < other.end && other.begin < end; }
  bool isWithin(const EntryRange &other) const { return other.begin <= begin && end <= other.end; }
};

/// A launch and the bytes of the arena that it accesses.
struct EntryLaunch {
  LaunchOp op;
  KernelOp kernel;
  SmallVector<EntryRange> ranges; ///< of operands and results, and of its length and workspace

  bool isForbidden() { return op.getGuard() && !isPermission(*op.getGuard()); }
  bool writes(const EntryRange &range) const {
    return llvm::any_of(ranges,
                        [&](const EntryRange &own) { return own.written && own.meets(range); });
  }
  bool conflictsWith(const EntryLaunch &other) const {
    return llvm::any_of(ranges, [&](const EntryRange &a) {
      return llvm::any_of(other.ranges, [&](const EntryRange &b) {
        return (a.written || b.written) && a.meets(b);
      });
    });
  }
};

/// Returns the maximum of `name`, workspace_bytes or counters, over a kernel's targets.
int64_t getMaximum(KernelOp kernel, StringRef name) {
  int64_t most = 0;
  for (NamedAttribute variant : kernel.getVariants()) {
    auto number = cast<DictionaryAttr>(variant.getValue()).getAs<IntegerAttr>(name);
    most = std::max(most, number ? number.getInt() : 0);
  }
  return most;
}

/// An all-reduce and the number of launches before it.
struct EntryExchange {
  AllReduceOp op;
  size_t launches;

  EntryRange getBucket() {
    auto begin = static_cast<int64_t>(op.getOffset());
    return {begin, begin + static_cast<int64_t>(op.getBytes())};
  }
};

class EntryVerifier {
public:
  EntryVerifier(EntryOp entry, SymbolTableCollection &symbols)
      : entry(entry), module(entry->getParentOfType<ModuleOp>()), symbols(symbols) {}
  LogicalResult run();

private:
  LogicalResult collectBuffers();
  LogicalResult collect(LaunchOp op);
  LogicalResult verifyArguments(EntryLaunch &launch);
  LogicalResult verifyScalars(EntryLaunch &launch, ArrayRef<int64_t> offsets);
  LogicalResult verifyWorkspace(EntryLaunch &launch, int64_t arenaBytes);
  LogicalResult verifyOrder(size_t index);
  LogicalResult verifyGuard(size_t index);
  LogicalResult verifyProtected(EntryLaunch &launch);
  LogicalResult addRuns(EntryLaunch &launch, size_t firstWritten);
  LogicalResult verifyBuckets();
  LogicalResult verifyExchange(EntryExchange &exchange);

  EntryOp entry;
  ModuleOp module;
  SymbolTableCollection &symbols;
  llvm::StringMap<EntryRange> buffers;
  std::vector<EntryLaunch> launches;
  std::vector<EntryExchange> exchanges;
  std::vector<llvm::SmallBitVector> ancestors;
};

/// Verifies the kernel ABI (docs/plan-and-artifact.md): operands and results, scalars, the first
/// random stream, the workspace.
LogicalResult EntryVerifier::verifyArguments(EntryLaunch &launch) {
  ArrayRef<int64_t> arguments = launch.op.getArguments();
  ArrayRef<int64_t> bytes = launch.kernel.getOperandBytes();
  size_t scalars = launch.kernel.getDrawsByUpdate() ? 5 : 4;
  size_t expected = bytes.size() + scalars + 2;
  if (arguments.size() != expected) {
    return launch.op.emitOpError("P-009: expected ")
           << expected << " arguments for @" << launch.kernel.getSymName() << ", found "
           << arguments.size();
  }
  auto arena = getFact<PlanDialect::ArenaBytesAttrHelper>(module);
  if (!arena || !arena.getType().isSignlessInteger(64)) {
    return launch.op.emitOpError("P-010: expected the module attribute ")
           << PlanDialect::ArenaBytesAttrHelper::getNameStr() << ", an i64, found "
           << (arena ? "another value" : "none");
  }
  size_t firstWritten = bytes.size() - launch.kernel.getWritten();
  for (auto [i, offset, size] : llvm::enumerate(arguments.take_front(bytes.size()), bytes)) {
    if (offset < 0 || offset > arena.getInt() || size > arena.getInt() - offset) {
      return launch.op.emitOpError("P-010: expected argument ")
             << i << " to have its " << size << " bytes in the arena of " << arena.getInt()
             << " bytes, found it at " << offset;
    }
    launch.ranges.push_back({offset, offset + size, i >= firstWritten});
  }
  if (failed(addRuns(launch, firstWritten)) || failed(verifyWorkspace(launch, arena.getInt()))) {
    return failure();
  }
  return verifyScalars(launch, arguments.slice(bytes.size(), scalars));
}

/// Adds only the runs of bytes of operands that have runs.
LogicalResult EntryVerifier::addRuns(EntryLaunch &launch, size_t firstWritten) {
  ArrayRef<int64_t> bytes = launch.kernel.getOperandBytes();
  ArrayRef<int64_t> runs = launch.op.getRuns().value_or(ArrayRef<int64_t>());
  int64_t next = 0; // first operand that may still have runs
  bool fits = runs.size() % 4 == 0;
  SmallVector<EntryRange> ranges = std::move(launch.ranges);
  launch.ranges.clear();
  for (; fits && !runs.empty(); runs = runs.drop_front(4)) {
    int64_t operand = runs[0], count = runs[1], stride = runs[2], size = runs[3];
    fits = operand >= next && operand < static_cast<int64_t>(bytes.size()) && count >= 1 &&
           size >= 0 && stride >= size && stride <= bytes[operand] / count;
    for (int64_t run = 0; fits && run < count; ++run) {
      int64_t begin = ranges[operand].begin + run * stride;
      launch.ranges.push_back({begin, begin + size, operand >= static_cast<int64_t>(firstWritten)});
    }
    if (fits) {
      ranges[operand].end = ranges[operand].begin; // no other bytes
      next = operand + 1;
    }
  }
  llvm::append_range(launch.ranges, ranges);
  return fits ? success()
              : launch.op.emitOpError(
                    "P-022: expected runs as four numbers for each operand that has some, in "
                    "rising order: its number, how many follow one another in it, how far apart "
                    "they begin, and their bytes; found ")
                    << launch.op.getRunsAttr();
}

/// Verifies the workspace, which is the last argument, and the counters immediately before it.
LogicalResult EntryVerifier::verifyWorkspace(EntryLaunch &launch, int64_t arenaBytes) {
  int64_t size = getMaximum(launch.kernel, workspaceBytesName);
  int64_t counters = getMaximum(launch.kernel, countersName), before = counters * counterBytes;
  int64_t offset = launch.op.getArguments().back();
  if (size == 0 && counters == 0) {
    return success();
  }
  bool isWithin = offset >= before && size <= arenaBytes && offset <= arenaBytes - size;
  if (!isWithin || offset % workspaceAlignment != 0) {
    return launch.op.emitOpError("P-020: expected the workspace's ")
           << size << " bytes, and " << before << " of counters in front of them, in the arena of "
           << arenaBytes << " bytes from a multiple of " << workspaceAlignment
           << " on, found them at " << offset;
  }
  launch.ranges.push_back({offset - before, offset + size, /*written=*/true, /*isWorkspace=*/true});
  return success();
}

LogicalResult EntryVerifier::verifyScalars(EntryLaunch &launch, ArrayRef<int64_t> offsets) {
  std::string length = launch.op.getAxis() ? lengthName(*launch.op.getAxis()) : "length";
  StringRef names[] = {length, "rows", "step", "seed", "draw_rows"};
  for (auto [offset, name] : llvm::zip(offsets, names)) {
    auto buffer = buffers.find(("scalar:" + name).str());
    if (buffer == buffers.end() || buffer->second.begin != offset) {
      InFlightDiagnostic error = launch.op.emitOpError("P-011: expected scalar:") << name << " at ";
      return buffer == buffers.end() ? error << offset << ", found no such buffer"
                                     : error << buffer->second.begin << ", found " << offset;
    }
  }
  EntryRange read = buffers.find("scalar:" + length)->second;
  launch.ranges.push_back(
      {read.begin, launch.op.getAxis() ? read.end : read.begin + int64_t(sizeof(int64_t))});
  return success();
}

LogicalResult EntryVerifier::collectBuffers() {
  for (auto buffer : module.getOps<BufferOp>()) {
    auto begin = static_cast<int64_t>(buffer.getOffset());
    EntryRange range{begin, begin + static_cast<int64_t>(buffer.getBytes())};
    if (!buffers.try_emplace(buffer.getPlace(), range).second) {
      return buffer.emitOpError("P-018: expected one buffer for each place, found two for ")
             << buffer.getPlace();
    }
  }
  return success();
}

LogicalResult EntryVerifier::collect(LaunchOp op) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(entry, op.getKernelAttr());
  if (!kernel) {
    return op.emitOpError("P-008: expected a plan.kernel of the module, found ")
           << op.getKernelAttr();
  }
  launches.push_back({op, kernel, {}});
  return verifyArguments(launches.back());
}

/// Verifies that a launch is ordered after each launch that accesses the same bytes, directly or
/// through its `after` list.
LogicalResult EntryVerifier::verifyOrder(size_t index) {
  LaunchOp op = launches[index].op;
  llvm::SmallBitVector &before = ancestors.emplace_back(launches.size());
  int64_t last = -1;
  for (int64_t named : op.getAfter()) {
    if (named <= last || named >= static_cast<int64_t>(index)) {
      return op.emitOpError("P-012: expected ascending numbers of launches before this one, ")
             << index << ", found " << named;
    }
    last = named;
    before |= ancestors[named];
    before.set(named);
  }
  for (size_t other = index; other-- > 0;) {
    if (!before.test(other) && launches[index].conflictsWith(launches[other])) {
      InFlightDiagnostic error = op.emitOpError("P-013: expected to be after launch ");
      error << other << ", which touches the same bytes, found to be after [";
      llvm::interleaveComma(op.getAfter(), error);
      error << "] alone";
      error.attachNote(launches[other].op.getLoc()) << "launch " << other;
      return error;
    }
  }
  return success();
}

/// Verifies that a guard's scalar is written before, by a launch without a guard.
LogicalResult EntryVerifier::verifyGuard(size_t index) {
  EntryLaunch &launch = launches[index];
  if (!launch.op.getGuard()) {
    return success();
  }
  StringRef guard = *launch.op.getGuard();
  auto buffer = buffers.find(("scalar:" + guard).str());
  if (buffer == buffers.end()) {
    return launch.op.emitOpError("P-014: expected a buffer scalar:") << guard << ", found none";
  }
  bool forbids = launch.isForbidden();
  bool isWritten = false;
  for (size_t other = 0; other < index; ++other) {
    isWritten |= launches[other].writes(buffer->second) && !launches[other].op.getGuard() &&
                 (!forbids || ancestors[index].test(other));
  }
  if (!isWritten) {
    return launch.op.emitOpError(
               "P-014: expected a launch without a guard before this one to write "
               "the guard's scalar ")
           << guard << ", found none";
  }
  if (!forbids && !launch.kernel.getScheduled()) {
    return launch.op.emitOpError("P-015: expected a scheduled kernel, which writes nothing where "
                                 "no row is due, for the guard ")
           << guard << ", found @" << launch.kernel.getSymName();
  }
  return success();
}

/// Verifies that weights change only where they are initialized, or under a guard. Bytes that a
/// guarded launch may leave unwritten must be written before.
LogicalResult EntryVerifier::verifyProtected(EntryLaunch &launch) {
  StringRef name = entry.getSymName().take_until([](char c) { return c == '.'; });
  bool begins = name == "initialize" || name == "prepare" || name == "quantize";
  for (StringRef place : {"flat:parameters", "flat:adam.m", "flat:adam.v", "flat:compute"}) {
    auto buffer = buffers.find(place);
    if (buffer != buffers.end() && !begins && launch.writes(buffer->second) &&
        !launch.isForbidden()) {
      return launch.op.emitOpError("P-016: expected a guard that forbids an update, as this "
                                   "launch writes ")
             << place << ", found "
             << (launch.op.getGuard() ? *launch.op.getGuard() : StringRef("none"));
    }
  }
  for (const EntryRange &range : launch.isForbidden() ? launch.ranges : SmallVector<EntryRange>()) {
    auto isNamed = [&](const auto &buffer) { return range.isWithin(buffer.second); };
    bool isResult = range.written && !range.isWorkspace;
    if (isResult && llvm::none_of(buffers, isNamed)) {
      return launch.op.emitOpError("P-017: expected results in named memory, as the guard ")
             << *launch.op.getGuard() << " may forbid the launch, found " << range.end - range.begin
             << " bytes at " << range.begin;
    }
  }
  return success();
}

/// Verifies that the exchanged buckets are the parts of the gradients, from the last to the first.
LogicalResult EntryVerifier::verifyBuckets() {
  if (exchanges.empty()) {
    return success();
  }
  StringRef name = entry.getSymName().take_until([](char c) { return c == '.' || c == '@'; });
  auto gradients = buffers.find("flat:gradients");
  if (gradients == buffers.end() || entry.getOf().value_or(name) != "gradient") {
    return exchanges.front().op.emitOpError("P-024: expected to be in an entry of gradients, with "
                                            "the buffer flat:gradients, found @")
           << entry.getSymName() << (gradients == buffers.end() ? " without the buffer" : "");
  }
  EntryRange all = gradients->second;
  int64_t end = all.end;
  for (auto [i, exchange] : llvm::enumerate(exchanges)) {
    EntryRange bucket = exchange.getBucket();
    auto bytes = static_cast<int64_t>(exchange.op.getBytes());
    if (bytes <= 0 || bytes % workspaceAlignment != 0 || bucket.begin < all.begin ||
        bucket.begin > all.end - bytes) {
      return exchange.op.emitOpError("P-023: expected a multiple of 64 bytes in flat:gradients, ")
             << all.begin << " to " << all.end << ", found " << bytes << " bytes at "
             << bucket.begin;
    }
    auto expected = static_cast<int64_t>(exchanges.size() - 1 - i);
    bool isLast = expected == 0;
    if (static_cast<int64_t>(exchange.op.getBucket()) != expected || bucket.end != end ||
        (isLast && bucket.begin != all.begin)) {
      InFlightDiagnostic error = exchange.op.emitOpError("P-024: expected bucket ")
                                 << expected << " to end at " << end;
      error << (isLast ? " and to begin at " + std::to_string(all.begin) : "") << ", found bucket "
            << static_cast<int64_t>(exchange.op.getBucket()) << " from " << bucket.begin << " to "
            << bucket.end;
      return error;
    }
    end = bucket.begin;
  }
  return success();
}

/// Verifies that a bucket is complete where its exchange begins, and that the entry does not begin
/// again after it.
LogicalResult EntryVerifier::verifyExchange(EntryExchange &exchange) {
  AllReduceOp op = exchange.op;
  llvm::SmallBitVector before(launches.size());
  int64_t last = -1;
  for (int64_t named : op.getAfter()) {
    if (named <= last || named >= static_cast<int64_t>(exchange.launches)) {
      return op.emitOpError("P-025: expected ascending numbers of launches before this one, of ")
             << exchange.launches << ", found " << named;
    }
    last = named;
    before |= ancestors[named];
    before.set(named);
  }
  for (auto [i, launch] : llvm::enumerate(launches)) {
    bool writes = launch.writes(exchange.getBucket());
    bool restarts =
        i >= exchange.launches && llvm::any_of(buffers, [&](const auto &buffer) {
          return buffer.first().starts_with("scalar:length.") && launch.writes(buffer.second);
        });
    if (i < exchange.launches && writes && !before.test(i)) {
      InFlightDiagnostic error = op.emitOpError("P-025: expected to be after launch ");
      error << i << ", which writes the bucket, found to be after [";
      llvm::interleaveComma(op.getAfter(), error);
      return error << "] alone";
    }
    if (restarts || (i >= exchange.launches && writes)) {
      InFlightDiagnostic error = op.emitOpError("P-026: expected launch ")
                                 << i << ", which writes "
                                 << (writes ? "the bucket" : "the length of an axis")
                                 << ", before this op, found it after";
      error.attachNote(launch.op.getLoc()) << "launch " << i;
      return error;
    }
  }
  return success();
}

LogicalResult EntryVerifier::run() {
  if (failed(collectBuffers())) {
    return failure();
  }
  for (Operation &op : entry.getBody().front()) {
    if (auto exchange = dyn_cast<AllReduceOp>(op)) {
      exchanges.push_back({exchange, launches.size()});
      continue;
    }
    auto launch = dyn_cast<LaunchOp>(op);
    if (!launch) {
      return op.emitOpError("P-007: expected launches and all-reduces alone in a plan.entry");
    }
    if (failed(collect(launch))) {
      return failure();
    }
  }
  ancestors.reserve(launches.size());
  for (size_t i = 0; i < launches.size(); ++i) {
    if (failed(verifyOrder(i)) || failed(verifyGuard(i)) || failed(verifyProtected(launches[i]))) {
      return failure();
    }
  }
  if (failed(verifyBuckets())) {
    return failure();
  }
  return failure(llvm::any_of(
      exchanges, [&](EntryExchange &exchange) { return failed(verifyExchange(exchange)); }));
}

} // namespace

LogicalResult EntryOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return EntryVerifier(*this, symbols).run();
}
