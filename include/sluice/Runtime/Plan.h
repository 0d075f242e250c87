// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plan of an artifact, parsed and validated. docs/plan-and-artifact.md is the format.
#pragma once

#include "sluice/Runtime/SpecFacts.h"

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

enum class Type { f32, bf16, i32, i64 };

/// Bytes of one element.
int64_t sizeOf(Type type);
std::string_view nameOf(Type type);

struct ModelFacts {
  std::string name;
  int64_t vocabulary = 0, context = 0, batch = 0, width = 0, seed = 0, parameters = 0;
  std::string spec;  // the whole text of the spec
  int64_t first = 0; // row of the head's that is scored first: generation needs a token more
  int64_t group = 1; // tokens of a group that the head predicts the next bag of
};

/// Part of what the arena holds when it is fullest.
struct MemoryPart {
  int64_t scale = 0; // tokens a row; 0: of no scale
  std::string kind;
  int64_t bytes = 0;
};

/// Where most temporaries are alive.
struct MemoryPeak {
  std::string entry;
  int64_t launch = 0; // of the entry
  std::string place;  // in the spec; empty where not known
};

/// What --memory-budget asked for and what that took.
struct MemoryBudget {
  int64_t bytes = 0, fullBytes = 0; // asked for; of the arena, were nothing computed again
  int64_t launches = 0, flops = 0;  // of a training step that compute again
};

struct MemoryFacts {
  int64_t arenaBytes = 0, peakBytes = 0, constantBytes = 0;
  std::map<std::string, int64_t> byScale;
  std::map<std::string, int64_t> byUse; // bytes that "training" touches, and "generation"
  std::vector<MemoryPart> contents;     // add up to the arena; empty where the plan does not say
  std::optional<MemoryPeak> peak;
  std::optional<MemoryBudget> budget;
};

struct Scalar {
  int64_t offset = 0;
  Type type = Type::i64;
};

/// An input or output in the arena. Only the last dimension may be padded: rows of shape.back()
/// elements lie rowStride elements apart.
struct Region {
  int64_t offset = 0;
  Type type = Type::f32;
  std::vector<int64_t> shape;
  int64_t rowStride = 0;
};

/// A trained tensor: dense, row-major, f32. Offsets are bytes from the arena's start.
struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0, gradient = 0;
  std::map<std::string, int64_t> states;
  bool decay = false;
  bool frozen = false; ///< training leaves it as it was given

  int64_t elements() const;
};

/// A kernel's code for one target.
struct Variant {
  std::string symbol;
  int64_t items = 0, scratchBytes = 0;
  int64_t workspaceBytes = 0;
  int64_t counters = 0; // i32 in front of the workspace, zero before and after each launch
};

/// One launch of a kernel on a GPU: a one-dimensional grid of `blocks`.
struct Stage {
  std::string symbol;
  int64_t blocks = 0, threads = 0; // threads a block
  int64_t sharedBytes = 0;         // a block, sized at the launch
  /// What ptxas said; -1 where the compiler had none. Registers and bytes are a thread's.
  int64_t registers = -1, spills = -1, stackBytes = -1;
  int64_t staticSharedBytes = 0; // a block
};

/// A kernel that is exactly a matrix product when length and batch are full: `rows` rows of `depth`
/// bf16 times a bf16 weight, summed in f32 and rounded once. A launch's first three arguments are
/// input [rows, depth], weight and result [rows, columns].
struct Product {
  int64_t rows = 0, columns = 0, depth = 0;
  bool byInput = false;  // the weight is [depth, columns], else [columns, depth]
  Type type = Type::f32; // of the result: f32 or bf16
  int64_t inputStride = 0, weightStride = 0, resultStride = 0; // elements from row to row

  bool isSameShape(const Product &other) const {
    return rows == other.rows && columns == other.columns && depth == other.depth &&
           byInput == other.byInput && type == other.type;
  }
};

/// What cuBLASLt calls an algorithm; only the library of the version that made it knows it.
using Algorithm = std::array<uint64_t, 8>;

/// cuBLASLt in place of a kernel that is a product: it was measured to be faster.
struct LibraryChoice {
  int64_t version = 0; // of the library that was measured
  Algorithm algorithm{};
};

/// A kernel's code for one GPU target: stages run in order, all with the launch's arguments.
struct DeviceVariant {
  std::string module; // symbols MODULE_bitcode, MODULE_ptx, MODULE_cubin of the artifact
  std::vector<Stage> stages;
  int64_t workspaceBytes = 0;
  int64_t plannedBytes = 0; // moved by all stages at full length, the workspace with them
  int64_t counters = 0;     // i32 in front of the workspace, zero before and after each stage
  std::optional<LibraryChoice> library; // only where the kernel is a product
};

/// Memory that argument i of a launch is the offset of.
struct Operand {
  int64_t bytes = 0;
  bool written = false;
};

struct Kernel {
  std::string name, kind;
  std::map<std::string, Variant> variants;             // by CPU target
  std::map<std::string, DeviceVariant> deviceVariants; // by GPU target
  std::vector<Operand> operands;  // of the first arguments; empty where the plan does not say
  std::optional<Product> product; // what the kernel is, where it is exactly that
  int64_t flops = 0, bytes = 0;
};

struct Guard {
  std::string scalar;
  int64_t equals = 0;
};

/// The part of an operand that a bucket has memory for: `count` runs of `bytes`, `stride` apart.
/// Other tensors lie between them.
struct Runs {
  size_t operand = 0; // an argument of the launch
  int64_t count = 1, stride = 0, bytes = 0;
};

/// One launch. Calls and collectives are refused while parsing: this runtime has no such routine.
struct Launch {
  int64_t kernel = 0, stream = 0;
  std::vector<int64_t> arguments, after;
  std::vector<Runs> runs; // of operands, rising; of any other all is touched
  std::optional<Guard> guard;
  std::string phase;
  std::string axis; // of `Plan::segments`, whose rows it runs over; empty: the tokens' length says
};

/// What the incremental step keeps of each row of the batch.
struct State {
  Region region;     // [rows of generation, rows that are kept, ...]
  int64_t scale = 0; // tokens a row; 0: not a sequence

  /// Of one row of generation, padding included.
  int64_t rowBytes() const;
};

/// Generation step by step: entries `prefill`, `step` and `reset`. Absent where the model has no
/// step.
struct Generation {
  int64_t rows = 1;   // texts that generate at once
  int64_t period = 1; // a window of text starts at a multiple of it: the least of all factors
  std::map<std::string, State> states;
  /// How often launches of a step run, by the scalar that guards them; others run at every step.
  struct Rate {
    int64_t runs = 1, period = 1; // in `runs` of every `period` steps
    std::string segments = {};    // of this axis: where one ends, and so at most that often
    auto operator<=>(const Rate &) const = default;
  };
  std::map<std::string, Rate> rates;
  /// Bytes that a step must read, averaged over steps: weights; and states of one text, by equal
  /// parts of the context.
  int64_t weightReads = 0;
  std::vector<int64_t> stateReads;

  /// Bytes of states that a step of one text reads, averaged over positions [first, last).
  double stateReadsAt(int64_t first, int64_t last, int64_t context) const;
};

/// Memory for batches in which no text has more than `rows` rows of segments: entries NAME@ROWS are
/// NAME's launches over it.
struct Bucket {
  int64_t rows = 0, arenaBytes = 0, temporaryBytes = 0;
};

struct Buffer {
  std::string name, kind;
  int64_t offset = 0, bytes = 0;
};

/// A named input beside the tokens: input NAME, i32 [batch, capacity], and input NAME.count, i64
/// [batch], how many of them each row has.
struct GivenInput {
  int64_t capacity = 0, vocabulary = 0;
};

/// One of several losses.
struct LossFacts {
  std::string name;
  double factor = 1;  // of its mean in what training minimizes
  int64_t first = 0;  // the first row that is scored
  std::string rows;   // the output that has them
  std::string mean;   // the scalar, in training
  std::string target; // the numbers that it is against; empty: the tokens
};

/// Segments that data decides, cut from the rows of another scale.
struct SegmentFacts {
  std::string axis;
  std::string parent;   // the axis that is cut: another of segments, or empty for the tokens'
  int64_t factor = 1;   // of the scale that is cut
  int64_t capacity = 0; // rows that memory has for them, in each row of the batch
  std::string counts;   // scalar, i32 [batch, 2]: rows that a text's segments need, and capacity
  std::string length;   // scalar, i64 [batch]: rows of each text that kernels of the axis run over
  std::string share;    // the loss that is the share of tokens that end a segment; empty: none is
  std::string closed;   // state, i32 [rows]: segments that have ended; empty: no step has them
};

struct Plan {
  ModelFacts model;
  std::string verdict;     // "proved", "leak-allowed" or "not-proved"
  std::string certificate; // docs/certificate.md; empty where there is none
  std::vector<std::string> modes, targets;
  int64_t trainingSteps = 0;
  bool cyclic = false; // each epoch shifts every text around its end
  /// True where the head is trained against the text's own tokens; none in artifacts of earlier
  /// versions.
  std::optional<bool> trainsOnTokens;
  std::optional<SpecFacts> facts; // none of model IR, and in artifacts of earlier versions
  std::vector<LossFacts> losses;  // the head's first; empty where that is the only one
  std::vector<SegmentFacts> segments;
  MemoryFacts memory;
  int64_t constantsOffset = 0, constantsBytes = 0;
  std::map<std::string, Scalar> scalars;
  std::map<std::string, Region> inputs, outputs;
  std::map<std::string, GivenInput> given;
  std::vector<Tensor> tensors;
  int64_t gradientsOffset = 0, gradientsBytes = 0;
  std::vector<int64_t> buckets;
  std::vector<Kernel> kernels;
  std::map<std::string, std::vector<Launch>> entries;
  /// Where steps draw their factor: that of entries without one in their name, then the others,
  /// rising, whose entries `gradient`, `evaluate` and `predict` are named by `entryOfFactor`.
  std::vector<int64_t> factors;
  std::optional<Generation> generation;
  std::vector<Bucket> memoryBuckets; // rising by rows; of any other batch, `entries` without a mark
  std::vector<Buffer> buffers;
  int64_t accumulate = 1; // batches whose gradients an update sums

  /// Texts that generate at once; 0 where the model has no step.
  int64_t generationRows() const { return generation ? generation->rows : 0; }
  /// The segments whose share a loss of this name is; null where it is none.
  const SegmentFacts *segmentsOf(const std::string &loss) const;
  /// `factors`, rising.
  std::vector<int64_t> sortedFactors() const;
  int64_t tokensOfUpdate() const { return accumulate * model.batch * model.context; }
  /// What an update of the weights runs (Executor::runUpdate), and how often.
  std::vector<std::pair<std::string, int64_t>> entriesOfUpdate() const;
  /// Launches of an entry behind which it is known how many segments of an axis a batch has, as
  /// the host wants to know before others run over their rows; in the entry's order.
  struct Count {
    size_t launch = 0;
    const SegmentFacts *segments = nullptr;
  };
  std::vector<Count> countsIn(const std::vector<Launch> &launches) const;
  /// Whether an entry of this name is a bucket's.
  bool isOfBucket(const std::string &entry) const;
  /// Bytes of the arena that an entry of this name in `entries` needs: its bucket's, all of them,
  /// or the least bucket's where it is the same in all.
  int64_t arenaOf(const std::string &entry) const;
  /// The least that `arenaOf` gives for some entry and that is at least `bytes`.
  int64_t arenaFor(int64_t bytes) const;
  /// Bytes at the arena's start that hold something from one entry to the next: all but
  /// temporaries, where these lie last.
  int64_t lastingBytes() const;
  /// Those of `targets` that are GPUs, in their order.
  std::vector<std::string> gpuTargets() const;
};

/// What `Plan::entries` calls an entry over the memory of a bucket of so many rows.
std::string entryOfBucket(const std::string &entry, int64_t rows);

/// What `Plan::entries` calls an entry of another factor than the main one.
std::string entryOfFactor(const std::string &entry, int64_t factor);

/// Whether a target's name is a GPU's: sm_80, sm_90a.
bool isGpuTarget(std::string_view target);

/// Parses the plan's text. Everything is checked: unknown keys, versions, node kinds, types, and
/// that every offset is a multiple of 64 and every range lies in the arena. Throws UserError;
/// `origin` (a path) starts each message.
Plan parsePlan(std::string_view text, const std::string &origin);

/// What `parsePlan` would refuse `text` for; empty where it takes it. For the compiler, which asks
/// before it writes.
std::string findPlanMistake(std::string_view text);

} // namespace sluice::runtime
