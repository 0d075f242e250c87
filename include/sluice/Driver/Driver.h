// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the path of a spec to a verdict or an artifact: the commands `sluice check` and `sluice
// compile`. This header uses no MLIR, so that programs with run-time type information can include
// it.
#pragma once

#include "sluice/Explain/Verdict.h"
#include "sluice/Picture/Picture.h"
#include "sluice/Spec/Override.h"
#include "sluice/Support/WorkBudget.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice::driver {

/// A matrix product that cuBLASLt computed faster than the generated kernel of `target` in a
/// measurement.
struct LibraryProduct {
  std::string target; ///< sm_80, sm_90a
  int64_t rows = 0, columns = 0, depth = 0;
  bool byInput = false;  ///< the weight is [depth, columns], else [columns, depth]
  bool isF32 = false;    ///< the result is f32, else bf16
  int64_t version = 0;   ///< version of the library
  std::string algorithm; ///< name of the algorithm in the plan (docs/plan-and-artifact.md)
};

/// The attention of a layer whose map a program computes. Two parameters of the program select its
/// result: row p is the sum over heads h and columns c of `columns`[d, h D + c] A_h[p, q], over
/// the keys q with `keys`[q, h' D + c] = 1, h' the head of keys of h, D their size.
struct AttentionRequest {
  std::string layer; ///< a stage, or a part of one: "stages.1.inside.4"
  /// Selects a map of attention over rows and words: the map of "rows", the map of "words" for each
  /// row of a word, or, if empty, half their sum.
  std::string part = {};
};
/// Names of the two parameters.
inline const std::string mapKeysName = "attention_map.keys";
inline const std::string mapColumnsName = "attention_map.columns";

/// The shape of an attention map.
struct AttentionFacts {
  struct MapSide {
    enum class Axis { tokens, input, segments };
    Axis axis = Axis::tokens;
    std::string name;     ///< of the input or of the segments
    int64_t factor = 1;   ///< row m of the side is position factor * m of the axis
    int64_t capacity = 0; ///< maximum number of rows
  };
  MapSide queries, keys;
  int64_t heads = 0, keyHeads = 0, headSize = 0;
};

struct CompileRequest {
  std::string spec; ///< path of the spec
  /// The text of the spec if it is in memory; `spec` is then only its name in messages.
  std::optional<std::string> text = std::nullopt;
  std::vector<spec::SpecOverride> settings = {}; ///< applied to the spec before it is read
  std::string output;               ///< path of the artifact; empty with `emit` or `inMemory`
  std::vector<std::string> targets; ///< names that addTarget knows
  int64_t l2Bytes = 0;              ///< bytes of a core's L2 cache; 0: a size by the CPU target
  std::string emit; ///< stage to print instead of writing an artifact; see emitStages()
  /// With `emit`, also prints the location of every op, which includes its origins.
  bool emitLocations = false;
  /// "f32" or "bf16" replaces the spec's precision.compute. If empty, the spec's precision applies,
  /// except that a GPU target changes f32 to bf16, which the outcome's message reports.
  std::string precision = {};
  /// Type in which evaluation and generation read weight matrices: "bf16", "int8" or "int4". If
  /// empty, they read them as training does.
  std::string weights = {};
  std::vector<LibraryProduct> libraryProducts = {}; ///< products whose kernels name the library
  /// If true, the outcome's output is the artifact, and no file is written.
  bool inMemory = false;
  bool allowLeak = false;
  /// Limit for the verdict, and again for the step.
  int64_t operations = WorkBudget::defaultOperations;
  bool verifyEachCausality = false; ///< recomputes dependences after every pass
  /// Entry `predict` returns all rows for one row of a batch: rows of the logits or, for a stage
  /// name such as "stages.1.inside.4", rows of the result of the stage. The spec is not checked
  /// again.
  std::optional<std::string> everyRow = std::nullopt;
  /// Entry `predict` returns an attention map for one row of a batch, in columns of the head size.
  /// The spec is not checked again.
  std::optional<AttentionRequest> attention = std::nullopt;
  /// Maximum bytes of the arena; forward results are recomputed to meet it.
  std::optional<int64_t> memoryBudget = std::nullopt;
  /// Folder of compiled kernels, "off", or empty: SLUICE_KERNEL_CACHE or the user's folder for
  /// caches (docs/kernel-cache.md).
  std::string kernelCache = {};
  /// Reports progress: the current activity, and the finished share of the work from 0 to 1. Called
  /// on any thread, but never concurrently.
  std::function<void(const std::string &what, double share)> report = {};
  /// Number of rows that generate concurrently, 1 to mostGenerationRows. With 0, compiles no
  /// incremental step, which is half of the code, and generation recomputes whole sequences.
  int64_t generationRows = 16;
  /// If false, the artifact evaluates, predicts and generates but has no entry `gradient`, which is
  /// half of the code. The model has one factor and one batch shape. Implied by `everyRow` and
  /// `attention`.
  bool hasGradient = true;
  /// Factor of generation, logits and replays, for a model whose steps draw their factor; the
  /// smallest factor if unset.
  std::optional<int64_t> factor = std::nullopt;
  /// Options for a replay of a leak or a probe of the program; the spec is not checked.
  struct Replay {
    /// Row t is scored against token t + this, a token that it does not read.
    int64_t targetOffset = 1;
    int64_t batch = 1; ///< rows of a batch
    /// Bits by segmentation; a segmentation with bits reads them from a parameter.
    ForcedBits bits = {};
  };
  std::optional<Replay> replay = std::nullopt;
};

/// Result of a job: the exit status (0 done, 1 rejected or system failure, 2 bad input, 3 internal
/// error), the text for stdout and the text for stderr.
struct Outcome {
  int status = 0;
  std::string output;
  std::string message;
  bool isLeak = false; ///< status 1 because the model is not proved; the message is the verdict
};

/// The incremental step of generation, as `--emit step` prints it.
struct StepSummary {
  std::string refusal;        ///< the reason that there is no step; else empty
  spec::SourceLocation place; ///< location of the refusal
  /// A value that later steps read.
  struct State {
    std::string name;
    int64_t ring = 1; ///< number of stored rows
    bool keepsAll = false;
    int64_t first = 0, period = 1, rise = 1, burst = 1; ///< see StepSchedule
  };
  std::vector<State> states{};
  int64_t values = 0; ///< number of values that a step computes, including states
};

struct CheckRequest {
  std::string spec; ///< path of a spec, or of model IR (.mlir)
  /// The text of the spec if it is in memory; `spec` is then only its name in messages.
  std::optional<std::string> text = std::nullopt;
  std::vector<spec::SpecOverride> settings = {}; ///< applied to the spec before it is read
  bool replay = true;                            ///< run a witness, if there is one
  bool picture = false;                          ///< draw a picture
  /// The row to draw; an informative row if unset.
  std::optional<int64_t> pictureRow = std::nullopt;
  std::string pictureText = {}; ///< text whose segments are drawn; regular segments if empty
  /// Path of the certificate of a proved spec; empty for none.
  std::string certificate = {};
  /// Path of the obligations in SMT-LIB, proved or not; empty for none.
  std::string smt = {};
  std::string kernelCache = {}; ///< CompileRequest::kernelCache of a replay
  bool step = false;            ///< derive the step, if the model is proved and predicts
  bool advice = true;           ///< search for advice after the verdict
  /// Limit for the verdict, and again for the step.
  int64_t operations = WorkBudget::defaultOperations;
  /// Receives the verdict as soon as it is known, before pictures and advice.
  std::function<void(const CausalVerdict &)> tell = {};
};

struct CheckOutcome {
  /// Status 0 if proved, 1 if not; with a message, 2 for bad input and 1 for a system failure.
  Outcome outcome;
  /// True if there is a verdict. If an output could not be written, there are both a verdict and a
  /// message.
  bool isDecided = false;
  CausalVerdict verdict;
  std::string text; ///< the spec that was checked, with its settings
  /// Number of ops of the rejected mode: a large program takes long to compile for a replay of the
  /// leak.
  int64_t ops = 0;
  std::optional<StepSummary> step;
  std::optional<Picture> picture;
  std::string pictureError; ///< the reason that there is no picture although one was requested
};

/// Runs `sluice check`.
CheckOutcome check(const CheckRequest &request);

/// Returns the names for CompileRequest::emit, in the order of the pipeline.
const std::vector<std::string> &emitStages();

/// Reads, checks, compiles and writes. Never throws for bad input; writes a file only if it
/// succeeds.
Outcome compile(const CompileRequest &request);

/// Finds the shape of the map of `request.attention`, which must be set, in the spec of `request`.
/// Status 2 if there is none; the message then lists the layers that have one.
Outcome describeAttention(const CompileRequest &request, AttentionFacts &facts);

/// Installs a handler for errors with which LLVM ends a process: lack of memory or threads, and
/// defects of LLVM. `end` must end the process; it receives a message for the user, and the exit
/// status 1 or 3. May be called once per process.
void setFailureHandler(void (*end)(const char *message, int status));

} // namespace sluice::driver
