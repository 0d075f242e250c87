// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "MemoryStorage.h"
#include "sluice/Dialect/Dispatch/ResultDomain.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Transforms/Recompute.h"

using namespace mlir;
using namespace sluice;

/// Unites results that must alias an operand.
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
  Class &storage = getStorageClass(value);
  if (!storage.place.empty() && storage.place != place) {
    return emitError(value.getLoc()) << "internal error: one value must live both in "
                                     << storage.place << " and in " << place;
  }
  storage.place = place;
  return success();
}

/// Rejects a read of memory that has been overwritten: values do not model memory, so a pass that
/// moves or merges ops can create such a read.
LogicalResult Storage::checkOrder() {
  struct Writes {
    unsigned count = 0;
    bool isStorePending = false; // a dispatch wrote the place and its plan.store comes later
  };
  std::map<std::string, Writes> ofPlaces;
  std::map<const Class *, Writes> ofClasses; // writes by class of temporaries
  auto getWrites = [&](Value value) -> Writes & {
    Class &storage = getStorageClass(value);
    return storage.place.empty() ? ofClasses[&storage] : ofPlaces[storage.place];
  };
  llvm::DenseMap<Value, unsigned> counts; // number of writes when the value was defined
  for (Operation &op : func.getBody().front()) {
    if (auto bind = dyn_cast<plan::BindOp>(op)) {
      if (getWrites(bind.getValue()).isStorePending) {
        return bind.emitError() << "reads " << bind.getPlace()
                                << " between the dispatch that writes it and its plan.store";
      }
      counts[bind.getValue()] = getWrites(bind.getValue()).count;
    } else if (auto view = dyn_cast<plan::ViewOp>(op)) {
      counts[view.getResult()] = counts.lookup(view.getSource());
    } else if (auto store = dyn_cast<plan::StoreOp>(op)) {
      getWrites(store.getValue()).isStorePending = false;
    } else if (isDispatch(op)) {
      if (dispatch::findSequenceAxis(&op)) {
        std::string length = dispatch::computeLength(&op);
        Writes &writes = ofPlaces["scalar:" + length];
        if (writes.count == 0 || writes.isStorePending) {
          return op.emitError() << "reads scalar:" << length
                                << ", which no dispatch before it stores";
        }
      }
      for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
        if (counts.lookup(operand) != getWrites(operand).count) {
          return op.emitError() << "operand " << i << " lives in memory ("
                                << (getStorageClass(operand).place.empty()
                                        ? "a temporary"
                                        : getStorageClass(operand).place)
                                << ") that another dispatch has written since";
        }
      }
      for (Value result : op.getResults()) {
        Writes &writes = getWrites(result);
        counts[result] = ++writes.count;
        writes.isStorePending = !getStorageClass(result).place.empty();
      }
    }
  }
  return success();
}

/// Returns the kind of a dispatch's results, before their readers are known.
static TemporaryKind getTemporaryKind(Operation *maker) {
  auto kernel = dyn_cast<dispatch::KernelInterface>(maker);
  return kernel && kernel.getRecomputed() ? TemporaryKind::Recomputed
         : kernel && kernel.getBackward() ? TemporaryKind::Gradient
                                          : TemporaryKind::Transient;
}

/// Returns true if the rows of an axis are the segments of a batch. The host specifies the lengths
/// of other axes.
static bool hasSegments(func::FuncOp function, StringAttr name) {
  auto axis = SymbolTable::lookupNearestSymbolFrom<AxisOp>(function, name);
  return !axis || axis.getSegments();
}

/// Returns the domain of a result if its kernel only writes the rows that its axis of segments has
/// in a batch; none for other results.
static std::optional<dispatch::DomainAttr> writtenRows(OpResult result) {
  auto type = cast<RankedTensorType>(result.getType());
  dispatch::DomainAttr domain = dispatch::getRowDomain(result);
  if (!domain || !domain.getAxis() || domain.getFactor() == 0 || domain.getScheduled() ||
      !hasSegments(result.getOwner()->getParentOfType<func::FuncOp>(), domain.getAxis()) ||
      type.getRank() != 3 || type.getDimSize(0) != domain.getBatch() ||
      type.getDimSize(1) != domain.getPositions()) {
    return std::nullopt;
  }
  auto kernel = cast<dispatch::KernelInterface>(result.getOwner());
  return kernel.staysWithinAxis(result.getResultNumber()) ? std::optional(domain) : std::nullopt;
}

void Storage::noteWritten(OpResult result) {
  Class &storage = getStorageClass(result);
  std::optional<dispatch::DomainAttr> domain = writtenRows(result);
  if (!domain) {
    storage.isWhole = true;
    return;
  }
  auto type = cast<RankedTensorType>(result.getType());
  int64_t rowBytes =
      dispatch::paddedWidth(type.getDimSize(2)) * (type.getElementTypeBitWidth() / 8);
  SegmentExtent now{domain->getBatch(), domain->getPositions(), rowBytes, domain->getFactor()};
  auto isLike = [&](const SegmentExtent &other) {
    return other.texts == now.texts && other.rows == now.rows && other.rowBytes == now.rowBytes &&
           other.factor == now.factor;
  };
  storage.isWhole |= storage.segments && !isLike(*storage.segments);
  storage.segments = now;
}

/// Returns the bytes that are written if texts have at most `limit` segments.
Runs Storage::Class::runs(int64_t limit) const {
  if (isWhole || !segments ||
      segments->rows <= int64_t(llvm::divideCeil(limit, segments->factor))) {
    return {1, 0, bytes};
  }
  return {segments->texts, segments->rows * segments->rowBytes,
          int64_t(llvm::divideCeil(limit, segments->factor)) * segments->rowBytes};
}

/// Returns true if a dispatch may read rows of an operand that its axis of segments does not have
/// in a batch, and ignore them: it has no axis itself, and no segment numbers select rows.
static bool readsAllRows(Operation *op, unsigned operand) {
  if (dispatch::findSequenceAxis(op)) {
    return false;
  }
  dispatch::AccessAttr access = cast<dispatch::KernelInterface>(op).getAccess(operand);
  return !access || (access.getIndex() < 0 && access.getLast() < 0);
}

void Storage::collect() {
  size_t launch = 0, touched = 0;
  for (Operation &op : func.getBody().front()) {
    if (!isDispatch(op)) {
      continue;
    }
    auto touch = [&](Value value) {
      Class &storage = getStorageClass(value);
      storage.order = storage.order == 0 ? ++touched : storage.order;
      storage.first = std::min(storage.first, launch);
      storage.last = std::max(storage.last, launch);
      storage.bytes = std::max(storage.bytes, storedBytes(value));
    };
    for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
      touch(operand);
      getStorageClass(operand).isWhole |= readsAllRows(&op, unsigned(i));
      TemporaryKind &kind = getStorageClass(operand).kind;
      bool isKept =
          kind == TemporaryKind::Transient && getTemporaryKind(&op) != TemporaryKind::Transient;
      kind = isKept ? TemporaryKind::Kept : kind;
    }
    for (OpResult result : op.getResults()) {
      touch(result);
      noteWritten(result);
      getStorageClass(result).kind = getTemporaryKind(&op);
      dispatch::DomainAttr domain = dispatch::getRowDomain(result);
      getStorageClass(result).factor =
          std::max(getStorageClass(result).factor, domain.getAxis() ? 0 : domain.getFactor());
    }
    ++launch;
  }
}

/// Packs temporaries, largest first, at the lowest offset that is free during their live range.
/// Returns them in that order.
std::vector<Storage::Class *> Storage::pack(int64_t limit) {
  std::vector<Class *> pending;
  for (auto &[leader, storage] : classes) {
    if (storage.place.empty() && storage.first != SIZE_MAX) {
      pending.push_back(&storage);
    }
  }
  llvm::sort(pending, [&](const Class *a, const Class *b) {
    return std::tuple(-a->runs(limit).total(), a->first, a->last, a->order) <
           std::tuple(-b->runs(limit).total(), b->first, b->last, b->order);
  });
  for (auto [i, storage] : llvm::enumerate(pending)) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (Class *other : ArrayRef(pending).take_front(i)) {
      if (other->first <= storage->last && storage->first <= other->last) {
        Runs runs = other->runs(limit);
        for (int64_t run = 0; run < runs.count; ++run) {
          int64_t begin = other->offset + run * runs.stride;
          taken.push_back({begin, begin + runs.bytes});
        }
      }
    }
    storage->offset = lowestOffset(std::move(taken), storage->runs(limit), lineBytes);
  }
  return pending;
}

void Storage::packFor(MemoryBucket &bucket) {
  auto differs = [&](const auto &entry) {
    const Class &storage = entry.second;
    return storage.place.empty() && storage.runs(bucket.rows).count > 1;
  };
  bool isSame = llvm::none_of(classes, differs);
  if (!isSame) {
    bucket.entries.insert(func.getSymName());
  }
  // The whole tensor must be in the arena, because a kernel may read rows that it ignores.
  for (Class *storage : pack(isSame ? std::numeric_limits<int64_t>::max() : bucket.rows)) {
    bucket.temporariesBytes = std::max(bucket.temporariesBytes, storage->offset + storage->bytes);
  }
  if (isSame) {
    return;
  }
  func.walk([&](Operation *op) {
    for (Value result : op->getResults()) {
      if (op->getParentOp() == func && isTemporary(result)) {
        bucket.offsets[result] = getStorageClass(result).offset;
        if (Runs runs = getStorageClass(result).runs(bucket.rows); runs.count > 1) {
          bucket.runs[result] = runs;
        }
      }
    }
  });
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
  for (Class *storage : pack(std::numeric_limits<int64_t>::max())) {
    plan.temporaries.push_back({func.getSymName().str(), storage->offset, storage->bytes,
                                storage->factor, storage->first, storage->last, storage->kind});
  }
  func.walk([&](Operation *op) {
    for (Value result : op->getResults()) {
      if (isa<RankedTensorType>(result.getType()) && op->getParentOp() == func) {
        Class &storage = getStorageClass(result);
        if (storage.place.empty()) {
          // The offset is relative to the region of temporaries until the start of the region is
          // known.
          plan.offsets[result] = storage.offset;
        } else {
          names[result] = storage.place;
          MemoryPlace &place = plan.places[storage.place];
          // Entries of other batch shapes, which follow, have other shapes of a place. A table of
          // constants must fill the largest one.
          int64_t bytes = storedBytes(result);
          bool isLargest = StringRef(storage.place).starts_with("constant:") && bytes > place.bytes;
          if (!isa<plan::ViewOp>(op) && (!place.type || isLargest)) {
            place.type = result.getType();
          }
          place.bytes = std::max(place.bytes, bytes);
        }
      }
    }
  });
  return success();
}
