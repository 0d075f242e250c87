// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses and validates the plan of an artifact. docs/plan-and-artifact.md specifies the format.
#pragma once

#include "sluice/Runtime/Plan/SpecFacts.h"

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

/// Returns the size of one element in bytes.
int64_t getByteSize(Type type);
std::string_view getTypeName(Type type);

struct ModelFacts {
  std::string name;
  int64_t vocabulary = 0, context = 0, batch = 0, width = 0, seed = 0, parameters = 0;
  std::string spec;  // full text of the spec
  int64_t first = 0; // first row of the head that is scored; a prompt needs first + 1 tokens
  int64_t group = 1; // tokens per group, where the head predicts the bag of the next group
};

/// A share of the arena's contents at the peak of memory use.
struct MemoryPart {
  int64_t scale = 0; // tokens per row; 0: belongs to no scale
  std::string kind;
  int64_t bytes = 0;
};

/// The launch at which temporaries need the most memory.
struct MemoryPeak {
  std::string entry;
  int64_t launch = 0; // index within the entry
  std::string place;  // location in the spec; empty if unknown
};

/// The request of --memory-budget and its cost.
struct MemoryBudget {
  int64_t bytes = 0, fullBytes = 0; // requested; arena size without rematerialization
  /// Launches and flops that rematerialization adds to a training step.
  int64_t launches = 0, flops = 0;
};

struct MemoryFacts {
  int64_t arenaBytes = 0, peakBytes = 0, constantBytes = 0;
  std::map<std::string, int64_t> byScale;
  std::map<std::string, int64_t> byUse; // bytes that "training" and "generation" touch
  std::vector<MemoryPart> contents; // sums to the arena's size; empty if the plan has no breakdown
  std::optional<MemoryPeak> peak;
  std::optional<MemoryBudget> budget;
};

struct Scalar {
  int64_t offset = 0;
  Type type = Type::i64;
};

/// An input or output in the arena. Only the last dimension may be padded: consecutive rows of
/// shape.back() elements start rowStride elements apart.
struct Region {
  int64_t offset = 0;
  Type type = Type::f32;
  std::vector<int64_t> shape;
  int64_t rowStride = 0;
};

/// A trained tensor: dense, row-major, f32. Offsets are in bytes from the arena's start.
struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0, gradient = 0;
  std::map<std::string, int64_t> states;
  bool decay = false;
  bool frozen = false; ///< training does not update it

  int64_t elements() const;
};

/// The code of a kernel for one CPU target.
struct Variant {
  std::string symbol;
  int64_t items = 0, scratchBytes = 0;
  int64_t workspaceBytes = 0;
  int64_t counters = 0; // i32 counters before the workspace, zero before and after each launch
  int64_t phases = 1;   // equal runs of items; a run starts after all items of the one before
};

/// One GPU launch of a kernel: a one-dimensional grid of `blocks`.
struct DeviceStage {
  std::string symbol;
  int64_t blocks = 0, threads = 0; // threads per block
  int64_t sharedBytes = 0;         // dynamic shared memory per block
  /// Resources that ptxas reports per thread; -1 if the compiler did not run ptxas.
  int64_t registers = -1, spills = -1, stackBytes = -1;
  int64_t staticSharedBytes = 0; // per block
};

/// A kernel that equals a matrix product when length and batch are full: `rows` rows of `depth`
/// bf16 elements times a bf16 weight, accumulated in f32 and rounded once. The first three
/// arguments of a launch are the input [rows, depth], the weight, and the result [rows, columns].
struct Product {
  int64_t rows = 0, columns = 0, depth = 0;
  bool byInput = false;  // the weight is [depth, columns], otherwise [columns, depth]
  Type type = Type::f32; // result type: f32 or bf16
  int64_t inputStride = 0, weightStride = 0, resultStride = 0; // elements between starts of rows

  bool isSameShape(const Product &other) const {
    return rows == other.rows && columns == other.columns && depth == other.depth &&
           byInput == other.byInput && type == other.type;
  }
};

/// An opaque algorithm of cuBLASLt, valid only for the version that created it.
using Algorithm = std::array<uint64_t, 8>;

/// A measured choice of cuBLASLt over the generated kernel of a product.
struct LibraryChoice {
  int64_t version = 0; // version of the measured library
  Algorithm algorithm{};
};

/// The code of a kernel for one GPU target. Stages run in order, each with the arguments of the
/// launch.
struct DeviceVariant {
  std::string module; // prefix of the artifact's symbols MODULE_bitcode, MODULE_ptx, MODULE_cubin
  std::vector<DeviceStage> stages;
  int64_t workspaceBytes = 0;
  int64_t plannedBytes = 0; // bytes that all stages move at full length, including the workspace
  int64_t counters = 0;     // i32 counters before the workspace, zero before and after each stage
  std::optional<LibraryChoice> library; // set only for products
};

/// The memory that argument i of a launch points to, as an offset.
struct Operand {
  int64_t bytes = 0;
  bool written = false;
};

struct PlanKernel {
  std::string name, kind;
  std::map<std::string, Variant> variants;             // by CPU target
  std::map<std::string, DeviceVariant> deviceVariants; // by GPU target
  std::vector<Operand> operands;  // the leading arguments; empty if the plan does not list them
  std::optional<Product> product; // set if the kernel equals a matrix product
  int64_t flops = 0, bytes = 0;
};

struct Guard {
  std::string scalar;
  int64_t equals = 0;
};

/// The part of an operand that exists in a bucket's memory: `count` runs of `bytes` bytes whose
/// starts are `stride` bytes apart. Other tensors occupy the gaps.
struct Runs {
  size_t operand = 0; // argument index of the launch
  int64_t count = 1, stride = 0, bytes = 0;
};

/// One launch. The parser rejects calls, for which this runtime has no routine.
struct Launch {
  int64_t kernel = 0, stream = 0;
  std::vector<int64_t> arguments, after;
  std::vector<Runs> runs; // by ascending operand; operands without runs are touched completely
  std::optional<Guard> guard;
  std::string phase;
  /// Axis whose rows the launch covers, up to the length of each text: of `Plan::segments`, or one
  /// with the scalar `length.AXIS`; empty: the tokens' length for all texts.
  std::string axis;
  /// Stages of the spec whose ops the launch computes, the one it is formed around first; empty
  /// without a stage, and in artifacts of earlier versions.
  std::vector<std::string> stages;
};

/// The place in an entry where a bucket of the gradients is complete, and its exchange between the
/// processes of an update may begin.
struct Collective {
  size_t position = 0;        ///< number of launches before it
  int64_t bucket = 0;         ///< index in `Plan::buckets`
  std::vector<int64_t> after; ///< launches that must be complete
};

/// Number of rows of a value by the step, or by the number of closed segments.
struct StateCounts {
  int64_t first = 0;         // the step that computes the first row, from 0
  int64_t rise = 0;          // rows that the steps of a period compute
  std::vector<int64_t> rows; // rows after step first + i, for one period
  /// Axis of segments whose closed segments are counted in place of steps; empty: none.
  std::string segments = {};

  /// Returns the number of rows that steps up to `step` compute, or that exist once `step` segments
  /// are closed.
  int64_t after(int64_t step) const;
};

/// State that incremental generation stores for each row of the batch, or for each line of the
/// named inputs.
struct State {
  Region region;     // [rows of generation, stored rows, ...]
  int64_t scale = 0; // tokens per row; 0: not a sequence
  /// Row l has the results of line l on the axis of a named input. A row of the batch reads the row
  /// of its line.
  bool isByLine = false;
  /// Row q is in slot q mod stored rows. Absent for states without rows.
  std::optional<StateCounts> counts = {};

  /// Returns the bytes of one row of generation, including padding.
  int64_t rowBytes() const;
};

/// Incremental generation: entries `prefill`, `step` and `reset`. Absent if the model has no decode
/// step.
struct Generation {
  int64_t rows = 1; // number of texts generated at once
  /// Window starts are multiples of this: the least common multiple of all factors.
  int64_t period = 1;
  std::map<std::string, State> states;
  /// Frequency of the launches of a step that a scalar guards. Unguarded launches run at every
  /// step.
  struct Rate {
    int64_t runs = 1, period = 1; // runs in `runs` of every `period` steps
    std::string segments = {};    // axis: runs where a segment ends, so the rate is an upper bound
    auto operator<=>(const Rate &) const = default;
  };
  std::map<std::string, Rate> rates;
  /// Bytes that a step must read, averaged over steps: for the weights, and for the states of one
  /// text in each of several equal parts of the context.
  int64_t weightReads = 0;
  std::vector<int64_t> stateReads;

  /// Returns the bytes of states that a step of one text reads, averaged over positions [first,
  /// last).
  double stateReadsAt(int64_t first, int64_t last, int64_t context) const;
};

/// Memory for batches in which each text has at most `rows` rows of segments. The entry NAME@ROWS
/// has the launches of NAME over this memory.
struct Bucket {
  int64_t rows = 0, arenaBytes = 0, temporaryBytes = 0;
};

struct Buffer {
  std::string name, kind;
  int64_t offset = 0, bytes = 0;
};

/// Capacities of a batch of lines: its rows, and the tokens of a row on each axis.
struct BatchShape {
  int64_t rows = 0;
  int64_t parts = 1; ///< factor of the capacities of the model: the first shape has them
  int64_t context = 0;
  std::map<std::string, int64_t> given; ///< tokens of each named input
};

/// A named input in addition to the tokens: input NAME, i32 [batch, capacity], and input
/// NAME.count, i64 [batch], the number of valid elements in each row.
struct GivenInput {
  int64_t capacity = 0, vocabulary = 0;
  std::string on = {}; // input whose axis has its tokens; empty: its own
  bool hasEnd = false; // a line end follows each line
  std::string derived = {},
              rule = {}; // bits of the words of `on`, and the rule; empty: from a file
};

/// One of several losses.
struct LossFacts {
  std::string name;
  double factor = 1;  // weight of the mean loss in the training objective
  int64_t first = 0;  // first row that is scored
  std::string rows;   // output that holds the loss of each row
  std::string mean;   // scalar that holds the mean during training
  std::string target; // numbers that the loss compares with; empty: the tokens
};

/// A loss whose mean is over rows that the model counts: rows that choose among others.
struct CountedLoss {
  std::string loss;    // its name; "next" where it is the only one
  std::string rows;    // output that holds 1 for each counted row, else 0
  std::string sum;     // scalar that holds their number in an update, or in the evaluated batch
  std::string divisor; // scalar that the sum of losses is divided by: the number, or 1 if it is 0
};

/// Segments with data-dependent boundaries, cut from the rows of another scale.
struct SegmentFacts {
  std::string axis;
  std::string parent;   // axis that is cut: another one of segments, or empty for the tokens
  int64_t factor = 1;   // tokens per row of the scale that is cut
  int64_t capacity = 0; // rows that memory holds for each row of the batch
  std::string counts; // scalar, i32 [batch, 2]: rows that a text's segments need, and the capacity
  std::string length; // scalar, i64 [batch]: rows of each text that kernels of the axis run over
  /// Name of the loss that measures the share of tokens that end a segment; empty if none.
  std::string share;
  /// State, i32 [rows]: number of closed segments; empty if no step computes segments.
  std::string closed;
};

/// Weights whose rate or decay the spec sets apart.
struct GroupFacts {
  std::string match;                  // pattern of their names
  double factor = 1;                  // of the rate of a step
  std::optional<double> learningRate; // at the peak of the schedule; absent: the training's
  std::optional<double> weightDecay;  // absent: by weight
};

struct Plan {
  ModelFacts model;
  std::string verdict;     // "proved", "leak-allowed" or "not-proved"
  std::string certificate; // docs/certificate.md; empty if absent
  std::vector<std::string> modes, targets;
  int64_t trainingSteps = 0;
  bool cyclic = false;            // each epoch rotates every text
  std::vector<GroupFacts> groups; // the first whose pattern matches a name sets the weight's rate
  /// True if the head is trained against the text's own tokens. Absent in artifacts of earlier
  /// versions.
  std::optional<bool> trainsOnTokens;
  std::optional<SpecFacts> facts; // absent for model IR and in artifacts of earlier versions
  std::vector<LossFacts> losses;  // the head's loss first; empty if it is the only one
  std::vector<CountedLoss> counted;
  std::vector<SegmentFacts> segments;
  MemoryFacts memory;
  int64_t constantsOffset = 0, constantsBytes = 0;
  std::map<std::string, Scalar> scalars;
  std::map<std::string, Region> inputs, outputs;
  std::map<std::string, GivenInput> given;
  std::vector<Tensor> tensors;
  int64_t gradientsOffset = 0, gradientsBytes = 0;
  /// Sums of the gradients of an update's batches, of the same size; absent for an update of one
  /// batch and in artifacts of earlier versions.
  std::optional<int64_t> gradientSumsOffset;
  /// Offsets of the buckets in the gradients, ascending from 0.
  std::vector<int64_t> buckets;
  std::vector<PlanKernel> kernels;
  std::map<std::string, std::vector<Launch>> entries;
  /// Collectives of the entries `gradient`, from the last bucket to the first; empty in artifacts
  /// of earlier versions.
  std::map<std::string, std::vector<Collective>> collectives;
  /// Factors that steps draw from. The first is the main factor, whose entries have plain names;
  /// the others are ascending, and `entryOfFactor` names their entries `gradient`, `evaluate` and
  /// `predict`.
  std::vector<int64_t> factors;
  /// Shapes of batches of lines by length, longest lines first; empty if lines are not batched by
  /// length. The first has the capacities of the model. `entryOfShape` names the entries `gradient`
  /// and `evaluate` of the others.
  std::vector<BatchShape> shapes;
  std::optional<Generation> generation;
  std::vector<Bucket> memoryBuckets; // ascending by rows; larger batches use entries without @ROWS
  std::vector<Buffer> buffers;
  int64_t batchTokens = 0; // most tokens of a batch of lines by length; 0: batches of any lines
  int64_t accumulate = 1;  // batches whose gradients are summed for an update

  /// Returns the facts of a loss whose rows the model counts; null for other losses. An empty name
  /// is the model's loss.
  const CountedLoss *findCounted(const std::string &loss = "") const;
  /// Returns the number of texts that generate at once; 0 if the model has no decode step.
  int64_t generationRows() const { return generation ? generation->rows : 0; }
  /// Returns the segments whose share the named loss measures; null if there are none.
  const SegmentFacts *findSegmentFacts(const std::string &loss) const;
  /// Returns `factors` in ascending order.
  std::vector<int64_t> sortedFactors() const;
  int64_t tokensOfUpdate() const { return accumulate * model.batch * model.context; }
  /// Returns the entries that an update of the weights runs (Executor::runUpdate), with their
  /// repetitions.
  std::vector<std::pair<std::string, int64_t>> entriesOfUpdate() const;
  /// A launch after which the number of segments of an axis is known. The host reads the number
  /// before later launches run over rows of these segments.
  struct Count {
    size_t launch = 0;
    const SegmentFacts *segments = nullptr;
  };
  std::vector<Count> countsIn(const std::vector<Launch> &launches) const;
  /// Returns the collectives of an entry `gradient`; if the plan has none, they are after all
  /// launches.
  std::vector<Collective> getCollectives(const std::string &entry) const;
  /// Returns the name of the scalar, i64 [batch], with the number of rows of each text on an axis.
  std::string lengthName(const std::string &axis) const;
  /// Checks for the name of a bucket's entry.
  bool isOfBucket(const std::string &entry) const;
  /// Returns the bytes of the arena that an entry needs: the size of its bucket, the size of the
  /// smallest bucket if all buckets share the entry, or the full size.
  int64_t getArenaBytes(const std::string &entry) const;
  /// Returns the minimum arena size that `getArenaBytes` yields for any entry and that is at least
  /// `bytes`.
  int64_t arenaFor(int64_t bytes) const;
  /// Returns the size of the prefix of the arena whose contents persist between entries.
  /// Temporaries follow it.
  int64_t lastingBytes() const;
  /// Returns the GPU targets in `targets`, in order.
  std::vector<std::string> gpuTargets() const;
};

/// Returns the name in `Plan::entries` of an entry over the bucket with this number of rows.
std::string entryOfBucket(const std::string &entry, int64_t rows);

/// Returns the name in `Plan::entries` of an entry for a factor other than the main one.
std::string entryOfFactor(const std::string &entry, int64_t factor);

/// Checks for the name of a GPU target: sm_80, sm_90a.
bool isGpuTarget(std::string_view target);

/// Parses the text of a plan and validates it completely: keys, versions, node kinds and types are
/// known, every offset is a multiple of 64, and every range is within the arena. Throws UserError,
/// whose message starts with `origin` (a path).
Plan parsePlan(std::string_view text, const std::string &origin);

/// Returns the error that `parsePlan` reports for `text`; empty if the plan is valid. The compiler
/// calls it before it writes an artifact.
std::string findPlanMistake(std::string_view text);

} // namespace sluice::runtime
