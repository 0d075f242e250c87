// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Temporaries of one entry: storage classes, live ranges, packing.
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Transforms/MemoryPlan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace sluice {

constexpr int64_t lineBytes = 64;
inline int64_t alignTo(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

inline bool isDispatch(mlir::Operation &op) { return mlir::isa<dispatch::KernelInterface>(op); }

/// Values of one entry that share memory, and the live range of that memory.
class Storage {
public:
  using PlaceNames = llvm::DenseMap<mlir::Value, std::string>;
  Storage(mlir::func::FuncOp func, MemoryPlan &plan, PlaceNames &names)
      : func(func), plan(plan), names(names) {}

  mlir::LogicalResult run();
  /// Packs again for at most `bucket.rows` rows on axes of segments. Values of entries without such
  /// rows keep their offsets.
  void packFor(MemoryBucket &bucket);

private:
  /// Rows of a text on an axis of segments, if kernels only write the rows that exist.
  struct SegmentExtent {
    int64_t texts, rows, rowBytes;
    int64_t factor; ///< segments per row
  };
  struct Class {
    std::string place;
    int64_t bytes = 0;
    int64_t factor = 0;
    int64_t offset = -1;
    size_t first = SIZE_MAX, last = 0;
    TemporaryKind kind = TemporaryKind::Transient;
    size_t order = 0; ///< order of first use in launches, from 1: breaks ties
    std::optional<SegmentExtent> segments;
    bool isWhole = false; ///< some launch writes all rows

    Runs runs(int64_t limit) const;
  };

  void unite();
  mlir::LogicalResult checkOrder();
  mlir::LogicalResult name(mlir::Value value, llvm::StringRef place);
  void collect();
  void noteWritten(mlir::OpResult result);
  std::vector<Class *> pack(int64_t limit);
  bool isTemporary(mlir::Value value) {
    return mlir::isa<mlir::RankedTensorType>(value.getType()) &&
           getStorageClass(value).place.empty();
  }
  Class &getStorageClass(mlir::Value value) {
    return classes[sets.getOrInsertLeaderValue(value.getAsOpaquePointer())];
  }
  void tie(mlir::Value a, mlir::Value b) {
    sets.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer());
  }

  mlir::func::FuncOp func;
  MemoryPlan &plan;
  PlaceNames &names; ///< names of the values that are stored in a place
  llvm::EquivalenceClasses<const void *> sets;
  std::map<const void *, Class> classes;
};

} // namespace sluice
