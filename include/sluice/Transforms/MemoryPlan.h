// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layout of the tensors of all entry points in the arena.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "sluice/Transforms/PackMemory.h"
#include "sluice/Transforms/ParameterLayout.h"
#include "llvm/ADT/StringSet.h"
#include <map>
#include <optional>
#include <string>

namespace sluice {

/// Kind of a temporary: a forward result that the backward pass reads, one that the backward pass
/// rematerializes (sluice-recompute), a gradient, or a short-lived result.
enum class TemporaryKind { Kept, Recomputed, Gradient, Transient };
llvm::StringRef toString(TemporaryKind kind);

/// A named range of the arena that outlives an entry point.
struct MemoryPlace {
  int64_t offset = 0;
  int64_t bytes = 0;
  mlir::Type type; ///< bound tensor type, null for flat regions
};

/// A temporary of one entry point, for the memory table.
struct Temporary {
  std::string entry;
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t factor = 0; ///< factor of its scale; 0: none
  size_t firstLaunch = 0, lastLaunch = 0;
  TemporaryKind kind = TemporaryKind::Transient;
};

/// Alternative packing of the temporaries, for batches whose texts have few segments: kernels of an
/// axis of segments write at most `rows` rows of it per text, so tensors can be interleaved.
/// Results are the same bit for bit.
struct MemoryBucket {
  int64_t rows = 0;
  /// Offsets of the temporaries in entries that differ from the plan.
  llvm::DenseMap<mlir::Value, int64_t> offsets;
  llvm::DenseMap<mlir::Value, Runs> runs; ///< runs of temporaries with fewer rows
  llvm::StringSet<> entries;              ///< entries that differ from the plan
  int64_t temporariesBytes = 0, arenaBytes = 0;
};

/// Peak usage of the region of temporaries.
struct MemoryPeak {
  std::string entry;
  size_t launch = 0; ///< index of the launch in the entry
  std::optional<mlir::Location> place;
  std::map<std::pair<int64_t, TemporaryKind>, int64_t> bytes; ///< live bytes, by factor and kind
};

/// The value of --memory-budget and the recomputation that it required.
struct MemoryBudget {
  int64_t bytes = 0;     ///< requested bytes
  int64_t fullBytes = 0; ///< size of the arena without recomputation
  int64_t launches = 0;  ///< recomputing launches of a training step
  double operations = 0; ///< operations of these launches
};

/// Scalars, constants, inputs, outputs, flat regions (parameters, gradients, moments, and bf16
/// copies of parameters if kernels read them), then temporaries, which entries share.
struct MemoryPlan {
  std::map<std::string, MemoryPlace> places; ///< named places, by `class:name`
  std::vector<Temporary> temporaries;
  llvm::DenseMap<mlir::Value, int64_t> offsets; ///< offset of every tensor value of every entry
  int64_t constantsOffset = 0, constantsBytes = 0;
  int64_t workspaceOffset = 0, workspaceBytes = 0; ///< one region that launches share
  int64_t counterBytes = 0; ///< counters before the workspace, likewise shared; zero between
                            ///< launches
  int64_t arenaBytes = 0;
  std::map<int64_t, int64_t> bytesByFactor; ///< temporaries live at peak usage
  MemoryPeak peak;
  int64_t temporariesOffset = 0, temporariesBytes = 0; ///< region of temporaries
  /// Sorted by increasing number of rows; batches with more rows use this plan.
  std::vector<MemoryBucket> buckets;
  std::optional<MemoryBudget> budget;
  /// Bytes of the arena that entries of "training" and of "generation" touch; shared bytes count
  /// for each.
  std::map<std::string, int64_t> bytesByUse;

  /// Returns the byte offset of a value, in a bucket or, if it is null, in the plan itself.
  int64_t offset(mlir::Value value, const MemoryBucket *bucket) const {
    auto found = bucket ? bucket->offsets.find(value) : offsets.end();
    return bucket && found != bucket->offsets.end() ? found->second : offsets.lookup(value);
  }
  /// Returns the byte offset of `scalar:NAME`.
  int64_t scalar(llvm::StringRef name) const { return places.at("scalar:" + name.str()).offset; }
};

/// Plans `module`, whose functions consist of dispatches (after sluice-build-entries). Temporaries
/// are packed by size, largest first, at the lowest offset free during their live range; and again
/// for each number of rows in `buckets`, which increase. Fails with a diagnostic if two
/// values must alias and cannot, or if a dispatch would read memory that another one has
/// overwritten. `workspaceBytes` and `counterBytes` are the maximum over launches.
mlir::FailureOr<MemoryPlan> planMemory(mlir::ModuleOp module, int64_t workspaceBytes = 0,
                                       int64_t counterBytes = 0,
                                       llvm::ArrayRef<int64_t> buckets = {});

/// Analysis that passes of one pipeline share: the workspaces that kernel generation needs, then
/// the plan that `sluice-plan-memory` computes. Cached until a pass does not preserve it.
struct MemoryAnalysis {
  explicit MemoryAnalysis(mlir::Operation *) {}
  int64_t workspaceBytes = 0, counterBytes = 0;
  std::optional<MemoryPlan> plan;
};

/// Returns the rows of buckets to plan for, in increasing order: a quarter, a third and half of the
/// maximum rows of an axis of segments, as multiples of its groups. Empty without such axes.
llvm::SmallVector<int64_t> chooseBuckets(mlir::ModuleOp module);

/// Returns the bytes of a tensor in the arena, including the padding of its rows and at its end.
int64_t storedBytes(mlir::Value tensor);

/// Appends a `plan.buffer` for every named place to `module`, and sets the size of the arena.
/// Replaces the buffers of an earlier plan.
void emitBuffers(mlir::ModuleOp module, const MemoryPlan &memory);

} // namespace sluice
