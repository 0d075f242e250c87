// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory planning: storage classes, lives, packing.
#include "sluice/Transforms/MemoryPlan.h"
#include "sluice/Dialect/Dispatch/ResultDomain.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Transforms/Recompute.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace sluice;

namespace {

constexpr int64_t lineBytes = 64;
constexpr int64_t pageBytes = 4096;

int64_t alignTo(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

bool isDispatch(Operation &op) {
  return isa_and_nonnull<dispatch::DispatchDialect>(op.getDialect());
}

/// Values of one entry that share memory, and when that memory is alive.
class Storage {
public:
  using Names = llvm::DenseMap<Value, std::string>;
  Storage(func::FuncOp func, MemoryPlan &plan, Names &names)
      : func(func), plan(plan), names(names) {}

  LogicalResult run();

private:
  struct Class {
    std::string place;
    int64_t bytes = 0;
    int64_t factor = 0;
    int64_t offset = -1;
    size_t first = SIZE_MAX, last = 0;
    TemporaryKind kind = TemporaryKind::Transient;
    size_t order = 0; ///< in which launches name it, from 1: what decides between equals
  };

  void unite();
  LogicalResult checkOrder();
  LogicalResult name(Value value, StringRef place);
  void collect();
  void pack();
  Class &classOf(Value value) {
    return classes[sets.getOrInsertLeaderValue(value.getAsOpaquePointer())];
  }
  void tie(Value a, Value b) { sets.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer()); }

  func::FuncOp func;
  MemoryPlan &plan;
  Names &names; ///< of values that live in a place
  llvm::EquivalenceClasses<const void *> sets;
  std::map<const void *, Class> classes;
};

/// Results that must share an operand's memory.
void Storage::unite() {
  func.walk([&](Operation *op) {
    if (auto view = dyn_cast<plan::ViewOp>(op)) {
      tie(view.getResult(), view.getSource());
    }
    if (auto sharing = dyn_cast<dispatch::SharedMemoryInterface>(op)) {
      for (auto [result, operand] : sharing.getShared()) {
        tie(result, operand);
      }
    }
  });
}

LogicalResult Storage::name(Value value, StringRef place) {
  Class &storage = classOf(value);
  if (!storage.place.empty() && storage.place != place) {
    return emitError(value.getLoc()) << "internal error: one value must live both in "
                                     << storage.place << " and in " << place;
  }
  storage.place = place;
  return success();
}

/// Refuses a read of memory that has been written since: values know no memory, so a pass that
/// moves or merges ops can make one.
LogicalResult Storage::checkOrder() {
  struct Writes {
    unsigned count = 0;
    bool isStorePending = false; // a dispatch wrote the place, its plan.store comes later
  };
  std::map<std::string, Writes> ofPlaces;
  std::map<const Class *, Writes> ofClasses; // of temporaries
  auto writesOf = [&](Value value) -> Writes & {
    Class &storage = classOf(value);
    return storage.place.empty() ? ofClasses[&storage] : ofPlaces[storage.place];
  };
  llvm::DenseMap<Value, unsigned> counts; // when the value came to be
  for (Operation &op : func.getBody().front()) {
    if (auto bind = dyn_cast<plan::BindOp>(op)) {
      if (writesOf(bind.getValue()).isStorePending) {
        return bind.emitError() << "reads " << bind.getPlace()
                                << " between the dispatch that writes it and its plan.store";
      }
      counts[bind.getValue()] = writesOf(bind.getValue()).count;
    } else if (auto view = dyn_cast<plan::ViewOp>(op)) {
      counts[view.getResult()] = counts.lookup(view.getSource());
    } else if (auto store = dyn_cast<plan::StoreOp>(op)) {
      writesOf(store.getValue()).isStorePending = false;
    } else if (isDispatch(op)) {
      if (dispatch::axisOf(&op)) {
        std::string length = dispatch::lengthOf(&op);
        Writes &writes = ofPlaces["scalar:" + length];
        if (writes.count == 0 || writes.isStorePending) {
          return op.emitError() << "reads scalar:" << length
                                << ", which no dispatch before it stores";
        }
      }
      for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
        if (counts.lookup(operand) != writesOf(operand).count) {
          return op.emitError() << "operand " << i << " lives in memory ("
                                << (classOf(operand).place.empty() ? "a temporary"
                                                                   : classOf(operand).place)
                                << ") that another dispatch has written since";
        }
      }
      for (Value result : op.getResults()) {
        Writes &writes = writesOf(result);
        counts[result] = ++writes.count;
        writes.isStorePending = !classOf(result).place.empty();
      }
    }
  }
  return success();
}

/// Of what a dispatch makes, before its readers are known.
TemporaryKind kindOf(Operation *maker) {
  auto phase = maker->getAttrOfType<StringAttr>("plan.phase");
  return maker->hasAttr(recomputedName)            ? TemporaryKind::Recomputed
         : phase && phase.getValue() == "backward" ? TemporaryKind::Gradient
                                                   : TemporaryKind::Transient;
}

void Storage::collect() {
  size_t launch = 0, touched = 0;
  for (Operation &op : func.getBody().front()) {
    if (!isDispatch(op)) {
      continue;
    }
    auto touch = [&](Value value) {
      Class &storage = classOf(value);
      storage.order = storage.order == 0 ? ++touched : storage.order;
      storage.first = std::min(storage.first, launch);
      storage.last = std::max(storage.last, launch);
      storage.bytes = std::max(storage.bytes, storedBytes(value));
    };
    for (Value operand : op.getOperands()) {
      touch(operand);
      TemporaryKind &kind = classOf(operand).kind;
      bool isKept = kind == TemporaryKind::Transient && kindOf(&op) != TemporaryKind::Transient;
      kind = isKept ? TemporaryKind::Kept : kind;
    }
    for (OpResult result : op.getResults()) {
      touch(result);
      classOf(result).kind = kindOf(&op);
      dispatch::DomainAttr domain = dispatch::domainOf(result);
      classOf(result).factor =
          std::max(classOf(result).factor, domain.getAxis() ? 0 : domain.getFactor());
    }
    ++launch;
  }
}

/// Temporaries, largest first, at the lowest offset that is free during their life.
void Storage::pack() {
  std::vector<Class *> pending;
  for (auto &[leader, storage] : classes) {
    if (storage.place.empty() && storage.first != SIZE_MAX) {
      pending.push_back(&storage);
    }
  }
  llvm::sort(pending, [](const Class *a, const Class *b) {
    return std::tuple(-a->bytes, a->first, a->last, a->order) <
           std::tuple(-b->bytes, b->first, b->last, b->order);
  });
  std::vector<Class *> placed;
  for (Class *storage : pending) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (Class *other : placed) {
      if (other->first <= storage->last && storage->first <= other->last) {
        taken.push_back({other->offset, other->offset + other->bytes});
      }
    }
    llvm::sort(taken);
    int64_t offset = 0;
    for (auto [begin, end] : taken) {
      if (offset + storage->bytes <= begin) {
        break;
      }
      offset = std::max(offset, end);
    }
    storage->offset = offset;
    placed.push_back(storage);
    plan.temporaries.push_back({func.getSymName().str(), offset, storage->bytes, storage->factor,
                                storage->first, storage->last, storage->kind});
  }
}

LogicalResult Storage::run() {
  unite();
  for (Operation &op : func.getBody().front()) {
    if (auto bind = dyn_cast<plan::BindOp>(op);
        bind && failed(name(bind.getValue(), bind.getPlace()))) {
      return failure();
    }
    if (auto store = dyn_cast<plan::StoreOp>(op);
        store && failed(name(store.getValue(), store.getPlace()))) {
      return failure();
    }
  }
  if (failed(checkOrder())) {
    return failure();
  }
  collect();
  pack();
  func.walk([&](Operation *op) {
    for (Value result : op->getResults()) {
      if (isa<RankedTensorType>(result.getType()) && op->getParentOp() == func) {
        Class &storage = classOf(result);
        if (storage.place.empty()) {
          // Relative to the temporaries' region until its start is known.
          plan.offsets[result] = storage.offset;
        } else {
          names[result] = storage.place;
          Place &place = plan.places[storage.place];
          if (!isa<plan::ViewOp>(op)) {
            place.type = result.getType();
          }
          place.bytes = std::max(place.bytes, storedBytes(result));
        }
      }
    }
  });
  return success();
}

/// Fixed regions in address order; a class's places are laid out one after the other.
class Layout {
public:
  Layout(ModuleOp module, MemoryPlan &plan) : parameters(module), plan(plan) {}

  void run() {
    for (StringRef scalar : {"length", "rows", "step", "seed"}) {
      Place &place = plan.places[("scalar:" + scalar).str()];
      place.bytes = lineBytes;
    }
    layOut("scalar:");
    plan.constantsOffset = cursor = alignTo(cursor, pageBytes);
    layOut("constant:");
    plan.constantsBytes = cursor - plan.constantsOffset;
    layOut("input:");
    layOut("output:");
    layOut("state:");
    int64_t flatBytes = parameters.rows * flatRowElements * 4;
    for (StringRef region : {"flat:parameters", "flat:gradients", "flat:adam.m", "flat:adam.v"}) {
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
  }

  int64_t cursor = 0;

private:
  /// Compute copies, where there are any: one flat range, like the masters', of bf16.
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
};

/// What is alive at the moment when most bytes of temporaries are.
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

/// Bytes of the union of ranges [begin, end).
int64_t coveredBytes(std::vector<std::pair<int64_t, int64_t>> ranges) {
  llvm::sort(ranges);
  int64_t covered = 0, from = 0;
  for (auto [begin, end] : ranges) {
    covered += std::max<int64_t>(0, end - std::max(begin, from));
    from = std::max(from, end);
  }
  return covered;
}

/// What the entries of each use touch, once all offsets are known.
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

FailureOr<MemoryPlan> sluice::planMemory(ModuleOp module, int64_t workspaceBytes,
                                         int64_t counterBytes) {
  MemoryPlan plan;
  std::vector<func::FuncOp> functions(module.getOps<func::FuncOp>().begin(),
                                      module.getOps<func::FuncOp>().end());
  Storage::Names names;
  for (func::FuncOp func : functions) {
    if (failed(Storage(func, plan, names).run())) {
      return failure();
    }
  }
  Layout layout(module, plan);
  layout.run();
  int64_t end = layout.cursor;
  plan.temporariesOffset = end;
  for (Temporary &temporary : plan.temporaries) {
    temporary.offset += layout.cursor;
    end = std::max(end, temporary.offset + temporary.bytes);
  }
  plan.temporariesBytes = end - plan.temporariesOffset;
  plan.workspaceBytes = workspaceBytes;
  plan.counterBytes = alignTo(counterBytes, lineBytes);
  if (workspaceBytes > 0) {
    plan.workspaceOffset = alignTo(end + plan.counterBytes, pageBytes);
    end = plan.workspaceOffset + workspaceBytes;
  }
  plan.arenaBytes = alignTo(end, pageBytes);
  for (auto &[value, offset] : plan.offsets) {
    offset += layout.cursor;
  }
  for (auto &[value, place] : names) {
    plan.offsets[value] = plan.places.at(place).offset;
  }
  summarize(module, plan);
  summarizeUses(module, plan);
  return plan;
}
