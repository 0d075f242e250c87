// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where every tensor of every entry point stands in the arena.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "sluice/Transforms/PackMemory.h"
#include "sluice/Transforms/ParameterLayout.h"
#include "llvm/ADT/StringSet.h"
#include <map>
#include <optional>
#include <string>

namespace sluice {

/// Why a temporary is there: a forward result that the backward pass reads, one that it makes again
/// for itself (sluice-recompute), a gradient, or a result that is soon read for the last time.
enum class TemporaryKind { Kept, Recomputed, Gradient, Transient };
llvm::StringRef toString(TemporaryKind kind);

/// One named range of the arena that outlives an entry point.
struct Place {
  int64_t offset = 0;
  int64_t bytes = 0;
  mlir::Type type; ///< tensor type as bound, null for flat regions
};

/// A temporary of one entry point, for the memory table.
struct Temporary {
  std::string entry;
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t factor = 0; ///< of the scale it belongs to; 0: none
  size_t firstLaunch = 0, lastLaunch = 0;
  TemporaryKind kind = TemporaryKind::Transient;
};

/// Another packing of the temporaries, for batches whose texts have few segments: kernels of an
/// axis of segments write at most `rows` rows of it in each text, and tensors lie between each
/// other's rows. Nothing else differs, so whatever is computed is the same bit for bit.
struct MemoryBucket {
  int64_t rows = 0;
  llvm::DenseMap<mlir::Value, int64_t> offsets; ///< of temporaries of entries that differ
  llvm::DenseMap<mlir::Value, Runs> runs;       ///< of those that have fewer rows
  llvm::StringSet<> entries;                    ///< that differ
  int64_t temporariesBytes = 0, arenaBytes = 0;
};

/// Name of the module's attribute with the rows of the buckets to plan, rising.
inline constexpr llvm::StringLiteral bucketsName = "plan.buckets";

/// The fullest moment of the temporaries' region.
struct MemoryPeak {
  std::string entry;
  size_t launch = 0; ///< of the entry
  std::optional<mlir::Location> place;
  std::map<std::pair<int64_t, TemporaryKind>, int64_t> bytes; ///< by factor and kind
};

/// What --memory-budget asked for and what that took.
struct MemoryBudget {
  int64_t bytes = 0;     ///< that were asked for
  int64_t fullBytes = 0; ///< of the arena, were nothing computed again
  int64_t launches = 0;  ///< of a training step that compute again
  double operations = 0; ///< theirs
};

/// Scalars, constants, inputs, outputs, flat regions (parameters, gradients, moments, and bf16
/// copies of parameters where kernels read them), then temporaries, which entries share.
struct MemoryPlan {
  std::map<std::string, Place> places; ///< by `class:name`
  std::vector<Temporary> temporaries;
  llvm::DenseMap<mlir::Value, int64_t> offsets; ///< of every tensor value of every entry
  int64_t constantsOffset = 0, constantsBytes = 0;
  int64_t workspaceOffset = 0, workspaceBytes = 0; ///< one region, which launches share
  int64_t counterBytes = 0; ///< in front of it: counters, likewise, zero between launches
  int64_t arenaBytes = 0;
  std::map<int64_t, int64_t> bytesByFactor; ///< temporaries live at the fullest moment
  MemoryPeak peak;
  int64_t temporariesOffset = 0, temporariesBytes = 0; ///< their region
  std::vector<MemoryBucket> buckets;                   ///< rising; what has more rows has this plan
  std::optional<MemoryBudget> budget;
  /// Of the arena, what entries of training and of generation touch, by "training" and
  /// "generation"; what both touch counts for each.
  std::map<std::string, int64_t> bytesByUse;

  /// Byte offset of a value, in a bucket or, of null, in the plan itself.
  int64_t offset(mlir::Value value, const MemoryBucket *bucket) const {
    auto found = bucket ? bucket->offsets.find(value) : offsets.end();
    return bucket && found != bucket->offsets.end() ? found->second : offsets.lookup(value);
  }
  /// Byte offset of `scalar:NAME`.
  int64_t scalar(llvm::StringRef name) const { return places.at("scalar:" + name.str()).offset; }
};

/// Plans `module`, whose functions hold dispatches (after sluice-build-entries). Temporaries are
/// packed by size, largest first, at the lowest offset free during their life; once more for each
/// of the buckets that the module names and that has fewer rows. Fails with a diagnostic where two
/// values must share memory and cannot, and where a dispatch would read memory that another one has
/// written since. `workspaceBytes` is what the launch with the largest workspace needs,
/// `counterBytes` the one with the most counters.
mlir::FailureOr<MemoryPlan> planMemory(mlir::ModuleOp module, int64_t workspaceBytes = 0,
                                       int64_t counterBytes = 0);

/// Bytes of a tensor in the arena, with the padding of its rows and behind it.
int64_t storedBytes(mlir::Value tensor);

/// Adds a `plan.buffer` for every named place to the end of `module`, which says the arena's bytes.
/// Those of an earlier plan go.
void emitBuffers(mlir::ModuleOp module, const MemoryPlan &memory);

} // namespace sluice
