// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a spec's path to a verdict or an artifact: what `sluice check` and `sluice compile` do. No
// MLIR in this header, so that
// programs with run-time type information can use it.
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

/// A matrix product that cuBLASLt was measured to do faster than the generated kernel of `target`.
struct LibraryProduct {
  std::string target; ///< sm_80, sm_90a
  int64_t rows = 0, columns = 0, depth = 0;
  bool byInput = false;  ///< the weight is [depth, columns], else [columns, depth]
  bool isF32 = false;    ///< the result; else bf16
  int64_t version = 0;   ///< of the library
  std::string algorithm; ///< as the plan has it (docs/plan-and-artifact.md)
};

struct CompileRequest {
  std::string spec; ///< path
  /// The spec itself, where it is in memory; `spec` then only names it in messages.
  std::optional<std::string> text = std::nullopt;
  std::vector<spec::SpecOverride> settings = {}; ///< put into the spec before it is read
  std::string output;               ///< path of the artifact; none with `emit` and `inMemory`
  std::vector<std::string> targets; ///< cpu-avx512, cpu-avx2, `cpu` for both; sm_80, sm_90a
  std::string emit;           ///< stage to print instead of writing an artifact; see emitStages()
  bool emitLocations = false; ///< with `emit`: print the location of every op, and so its origins
  /// "f32" or "bf16" replaces the spec's precision.compute; empty: as it is, but bf16 where a GPU
  /// is among the targets, which the outcome's message then says.
  std::string precision = {};
  std::vector<LibraryProduct> libraryProducts = {}; ///< kernels of these products name the library
  bool inMemory = false; ///< the artifact's bytes are the outcome's output, and nothing is written
  bool allowLeak = false;
  int64_t operations = WorkBudget::defaultOperations; ///< of the verdict, again of the step
  bool verifyEachCausality = false; ///< dependences are read again after every pass
  /// Entry `predict` gives every row of one row of a batch: of the logits or, where a stage is
  /// named ("stages.1.inside.4"), of its result. The spec is not checked again.
  std::optional<std::string> everyRow = std::nullopt;
  /// Bytes that the arena may take; forward results are computed again for it.
  std::optional<int64_t> memoryBudget = std::nullopt;
  /// Folder of compiled kernels, "off", or empty: SLUICE_KERNEL_CACHE or the user's folder for
  /// caches (docs/kernel-cache.md).
  std::string kernelCache = {};
  /// Called, on any thread but one call at a time, as the work proceeds: with what is done now and
  /// the share of it that is finished, 0 to 1.
  std::function<void(const std::string &what, double share)> report = {};
  /// Rows that generate at once, 1 to mostGenerationRows; 0 compiles no incremental step, which is
  /// half of the code, and generation recomputes.
  int64_t generationRows = 16;
  /// For a model whose steps draw their factor, the one of generation, logits and replays; none
  /// takes the least.
  std::optional<int64_t> factor = std::nullopt;
  /// For a replay of a leak or a probe of the program: the spec is not checked.
  struct Replay {
    int64_t targetOffset = 1; ///< row t is scored against token t + this: one that it does not read
    int64_t batch = 1;        ///< rows of a batch
    ForcedBits bits = {};     ///< segmentations that read bits from parameters, as this has rows
  };
  std::optional<Replay> replay = std::nullopt;
};

/// How a job ended: exit status of contract (0 done, 1 refused or the machine failed, 2 bad input,
/// 3 internal error), what goes to stdout and what to stderr.
struct Outcome {
  int status = 0;
  std::string output;
  std::string message;
  bool isLeak = false; ///< status 1 because the model is not proved; the message is the verdict
};

/// The incremental step that generation takes, as `--emit step` prints it.
struct StepSummary {
  std::string refusal;        ///< why there is none; else empty
  spec::SourceLocation place; ///< of the refusal
  /// A value that later steps read.
  struct State {
    std::string name;
    int64_t ring = 1; ///< rows kept
    bool keepsAll = false;
    int64_t first = 0, period = 1, rise = 1, burst = 1; ///< see StepSchedule
  };
  std::vector<State> states{};
  int64_t values = 0; ///< that a step computes, states among them
};

struct CheckRequest {
  std::string spec; ///< path of a spec, or of model IR (.mlir)
  /// The spec itself, where it is in memory; `spec` then only names it in messages.
  std::optional<std::string> text = std::nullopt;
  std::vector<spec::SpecOverride> settings = {};    ///< put into the spec before it is read
  bool replay = true;                               ///< run a witness, if there is one
  bool picture = false;                             ///< make one
  std::optional<int64_t> pictureRow = std::nullopt; ///< none: an informative one
  std::string pictureText = {}; ///< whose segments are drawn; empty: regular ones
  /// Path to write the certificate of a proved spec to; empty: none.
  std::string certificate = {};
  /// Path to write the obligations to, proved or not, as SMT-LIB; empty: none.
  std::string smt = {};
  std::string kernelCache = {};                       ///< CompileRequest::kernelCache, of a replay
  bool step = false;                                  ///< of a model that is proved and predicts
  bool advice = true;                                 ///< search for advice after the verdict
  int64_t operations = WorkBudget::defaultOperations; ///< of the verdict, again of the step
  /// Given the verdict as soon as it is known, before pictures and advice.
  std::function<void(const CausalVerdict &)> tell = {};
};

struct CheckOutcome {
  /// Status 0 proved, 1 not; with a message 2 bad input, 1 the machine failed.
  Outcome outcome;
  /// Returns true if there is a verdict. Where an output could not be written, there are both a
  /// verdict and a message.
  bool isDecided = false;
  CausalVerdict verdict;
  std::string text; ///< the spec that was checked, with its settings
  /// Ops of the refused mode: compiling a program of many to replay a leak takes long.
  int64_t ops = 0;
  std::optional<StepSummary> step;
  std::optional<Picture> picture;
  std::string pictureError; ///< why there is none though it was asked for
};

/// Runs `sluice check`.
CheckOutcome check(const CheckRequest &request);

/// Names for CompileRequest::emit, in the order of the road.
const std::vector<std::string> &emitStages();

/// Reads, checks, compiles and writes. Never throws for bad input; writes nothing unless it
/// succeeds.
Outcome compile(const CompileRequest &request);

/// Errors for which LLVM ends a process, a lack of memory or of threads and its own defects, go to
/// `end`, which is to end it: with what a user reads, and the exit status 1 or 3. Once a process.
void setFailureHandler(void (*end)(const char *message, int status));

} // namespace sluice::driver
