// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory planning: named places, size of temporaries, and peak usage.
#include "sluice/Transforms/MemoryPlan.h"
#include "MemoryStorage.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Transforms/Levels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"
#include <numeric>

using namespace mlir;
using namespace sluice;

namespace {

constexpr int64_t pageBytes = 4096;

/// Named regions in address order; the places of a class are adjacent.
class ArenaLayout {
public:
  ArenaLayout(ModuleOp module, MemoryPlan &plan)
      : parameters(module), plan(plan), hasSums(batchesOfUpdate(module) > 1) {
    module.walk([&](dispatch::KernelInterface op) {
      if (dispatch::drawsByUpdate(op)) {
        int64_t bytes = op.getDomain().getBatch() * int64_t(sizeof(int64_t));
        drawRowsBytes = std::max(drawRowsBytes, bytes);
      }
    });
  }

  void run() {
    for (StringRef scalar : {"length", "rows", "step", "seed"}) {
      MemoryPlace &place = plan.places[("scalar:" + scalar).str()];
      place.bytes = lineBytes;
    }
    if (hasSums) {
      plan.places["scalar:first_row"].bytes = lineBytes;
    }
    if (drawRowsBytes > 0) {
      plan.places["scalar:draw_rows"].bytes = alignTo(drawRowsBytes, lineBytes);
    }
    layOut("scalar:");
    plan.constantsOffset = cursor = alignTo(cursor, pageBytes);
    layOut("constant:");
    plan.constantsBytes = cursor - plan.constantsOffset;
    layOut("input:");
    layOut("output:");
    layOut("state:");
    int64_t flatBytes = parameters.rows * flatRowElements * 4;
    SmallVector<StringRef> regions{"flat:parameters", "flat:gradients", "flat:adam.m",
                                   "flat:adam.v"};
    if (hasSums) {
      regions.insert(regions.begin() + 2, "flat:gradient_sums");
    }
    for (StringRef region : regions) {
      cursor = alignTo(cursor, pageBytes);
      plan.places[region.str()] = {cursor, flatBytes, Type()};
      cursor += flatBytes;
    }
    for (const ParameterLayout::Entry &entry : parameters.entries) {
      std::string name = ParameterOp(entry.parameter).getSymName().str();
      int64_t offset = entry.row * flatRowElements * 4;
      plan.places["parameter:" + name] = {plan.places["flat:parameters"].offset + offset,
                                          entry.elements * 4, Type()};
      plan.places["gradient:" + name] = {plan.places["flat:gradients"].offset + offset,
                                         entry.elements * 4, Type()};
    }
    cursor = alignTo(cursor, pageBytes);
    layOutCopies();
    layOut("quantized:");
    layOut("scale:");
    cursor = alignTo(cursor, pageBytes);
  }

  int64_t cursor = 0;

private:
  /// Lays out compute copies, if any: one flat bf16 range, like the range of the masters.
  void layOutCopies() {
    auto flat = plan.places.find("flat:compute");
    if (flat == plan.places.end()) {
      return;
    }
    constexpr int64_t bytesEach = 2;
    flat->second = {cursor, parameters.rows * flatRowElements * bytesEach, Type()};
    cursor = alignTo(cursor + flat->second.bytes, pageBytes);
    for (const ParameterLayout::Entry &entry : parameters.entries) {
      auto copy = plan.places.find("compute:" + ParameterOp(entry.parameter).getSymName().str());
      if (copy != plan.places.end()) {
        int64_t offset = flat->second.offset + entry.row * flatRowElements * bytesEach;
        copy->second = {offset, entry.elements * bytesEach, Type()};
      }
    }
  }

  void layOut(StringRef prefix) {
    for (auto &[name, place] : plan.places) {
      if (StringRef(name).starts_with(prefix)) {
        cursor = alignTo(cursor, lineBytes);
        place.offset = cursor;
        cursor += place.bytes;
      }
    }
  }

  ParameterLayout parameters;
  MemoryPlan &plan;
  bool hasSums;              ///< an update sums the gradients of several batches
  int64_t drawRowsBytes = 0; ///< a number for each row of the largest batch, if kernels draw by it
};

/// Records the temporaries that are live at peak usage.
void summarize(ModuleOp module, MemoryPlan &plan) {
  int64_t best = -1;
  for (const Temporary &moment : plan.temporaries) {
    std::map<std::pair<int64_t, TemporaryKind>, int64_t> bytes;
    int64_t total = 0;
    for (const Temporary &other : plan.temporaries) {
      if (other.entry == moment.entry && other.firstLaunch <= moment.firstLaunch &&
          moment.firstLaunch <= other.lastLaunch) {
        bytes[{other.factor, other.kind}] += other.bytes;
        total += other.bytes;
      }
    }
    if (total > best) {
      best = total;
      plan.peak = {moment.entry, moment.firstLaunch, std::nullopt, std::move(bytes)};
    }
  }
  for (auto [which, bytes] : plan.peak.bytes) {
    plan.bytesByFactor[which.first] += bytes;
  }
  if (auto entry = module.lookupSymbol<func::FuncOp>(plan.peak.entry)) {
    auto launches = llvm::make_filter_range(entry.getBody().front(), isDispatch);
    plan.peak.place = std::next(launches.begin(), plan.peak.launch)->getLoc();
  }
}

/// Returns the number of bytes in the union of ranges [begin, end).
int64_t coveredBytes(std::vector<std::pair<int64_t, int64_t>> ranges) {
  llvm::sort(ranges);
  int64_t covered = 0, from = 0;
  for (auto [begin, end] : ranges) {
    covered += std::max<int64_t>(0, end - std::max(begin, from));
    from = std::max(from, end);
  }
  return covered;
}

/// Records the memory that the entries of each use touch, once all offsets are known.
void summarizeUses(ModuleOp module, MemoryPlan &plan) {
  std::map<std::string, std::vector<std::pair<int64_t, int64_t>>> ranges;
  for (auto func : module.getOps<func::FuncOp>()) {
    StringRef name = func.getSymName();
    bool generates = llvm::is_contained({"prefill", "step", "reset"}, name);
    auto &own = ranges[generates ? "generation" : "training"];
    func.walk([&](Operation *op) {
      for (Value result : op->getResults()) {
        if (auto offset = plan.offsets.find(result); offset != plan.offsets.end()) {
          own.push_back({offset->second, offset->second + storedBytes(result)});
        }
      }
    });
  }
  for (auto &[use, touched] : ranges) {
    plan.bytesByUse[use] = coveredBytes(std::move(touched));
  }
}

} // namespace

StringRef sluice::toString(TemporaryKind kind) {
  switch (kind) {
  case TemporaryKind::Kept:
    return "kept";
  case TemporaryKind::Recomputed:
    return "recomputed";
  case TemporaryKind::Gradient:
    return "gradients";
  case TemporaryKind::Transient:
    return "transient";
  }
  llvm_unreachable("a kind of its own");
}

int64_t sluice::storedBytes(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  int64_t elements = dispatch::storageElements(type);
  return alignTo(elements * (type.getElementTypeBitWidth() / 8), lineBytes);
}

/// Chooses numbers of rows that are multiples of all groups, so that a number rounded up to whole
/// groups still fits.
SmallVector<int64_t> sluice::chooseBuckets(ModuleOp module) {
  llvm::StringSet<> axes;
  module.walk([&](dispatch::KernelInterface dispatch) {
    StringAttr name = dispatch.getDomain().getAxis();
    auto axis = name ? module.lookupSymbol<AxisOp>(name) : AxisOp();
    AxisOp root = getRootAxis(axis);
    if (axis && axis.getSegments() && !(root && root.getCapacity())) { // the host bounds no others
      axes.insert(name.getValue());
    }
  });
  int64_t group = 1, most = 0;
  for (auto axis : module.getOps<AxisOp>()) {
    most = axes.contains(axis.getSymName()) ? std::max(most, int64_t(*axis.getRows())) : most;
  }
  for (auto scale : module.getOps<ScaleOp>()) {
    group = axes.contains(scale.getAxis()) ? std::lcm(group, int64_t(scale.getFactor())) : group;
  }
  SmallVector<int64_t> rows;
  for (int64_t parts : {4, 3, 2}) {
    int64_t part = most / parts / group * group;
    if (part > (rows.empty() ? 0 : rows.back())) {
      rows.push_back(part);
    }
  }
  return rows;
}

/// Plans the temporaries again for each bucket. Buckets without differences or savings are dropped.
static void planBuckets(ArrayRef<int64_t> buckets, ArrayRef<std::unique_ptr<Storage>> storages,
                        MemoryPlan &plan) {
  for (int64_t rows : buckets) {
    MemoryBucket bucket;
    bucket.rows = rows;
    for (const std::unique_ptr<Storage> &storage : storages) {
      storage->packFor(bucket);
    }
    if (bucket.entries.empty()) {
      continue;
    }
    bucket.arenaBytes = alignTo(plan.temporariesOffset + bucket.temporariesBytes, pageBytes);
    if (bucket.arenaBytes >= plan.arenaBytes) {
      continue;
    }
    for (auto &[value, offset] : bucket.offsets) {
      offset += plan.temporariesOffset;
    }
    plan.buckets.push_back(std::move(bucket));
  }
}

FailureOr<MemoryPlan> sluice::planMemory(ModuleOp module, int64_t workspaceBytes,
                                         int64_t counterBytes, ArrayRef<int64_t> buckets) {
  MemoryPlan plan;
  std::vector<std::unique_ptr<Storage>> storages;
  Storage::PlaceNames names;
  if (failed(verifyLevel(module, ModuleLevel::Dispatches))) {
    return failure();
  }
  for (auto func : module.getOps<func::FuncOp>()) {
    if (failed(verifyEntry(func))) {
      return failure();
    }
    storages.push_back(std::make_unique<Storage>(func, plan, names));
    if (failed(storages.back()->run())) {
      return failure();
    }
  }
  ArenaLayout layout(module, plan);
  layout.run();
  plan.workspaceBytes = workspaceBytes;
  plan.counterBytes = alignTo(counterBytes, lineBytes);
  // Buckets change the end of the temporaries, so the workspace precedes the temporaries in a plan
  // with buckets, and follows them in a plan without.
  int64_t end = layout.cursor;
  auto placeWorkspace = [&] {
    if (workspaceBytes + counterBytes > 0) { // kernels find counters before the workspace
      plan.workspaceOffset = alignTo(end + plan.counterBytes, pageBytes);
      end = plan.workspaceOffset + workspaceBytes;
    }
  };
  if (!buckets.empty()) {
    placeWorkspace();
    end = alignTo(end, pageBytes);
  }
  plan.temporariesOffset = end;
  for (Temporary &temporary : plan.temporaries) {
    temporary.offset += plan.temporariesOffset;
    end = std::max(end, temporary.offset + temporary.bytes);
  }
  plan.temporariesBytes = end - plan.temporariesOffset;
  if (buckets.empty()) {
    placeWorkspace();
  }
  plan.arenaBytes = alignTo(end, pageBytes);
  for (auto &[value, offset] : plan.offsets) {
    offset += plan.temporariesOffset;
  }
  for (auto &[value, place] : names) {
    plan.offsets[value] = plan.places.at(place).offset;
  }
  planBuckets(buckets, storages, plan);
  summarize(module, plan);
  summarizeUses(module, plan);
  return plan;
}

void sluice::emitBuffers(ModuleOp module, const MemoryPlan &memory) {
  for (auto former : llvm::make_early_inc_range(module.getOps<plan::BufferOp>())) {
    former.erase();
  }
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  setFact<plan::PlanDialect::ArenaBytesAttrHelper>(module, b.getI64IntegerAttr(memory.arenaBytes));
  for (const auto &[name, place] : memory.places) {
    plan::BufferOp::create(b, module.getLoc(), name, place.offset, place.bytes, 0);
  }
}
