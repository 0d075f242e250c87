// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results of the causality check, in plain C++ for programs without MLIR.
#pragma once

#include "sluice/Spec/Diagnostic.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// One read on the path from a token to a prediction: `op` at `place` reads `from` and computes
/// `to` (positions of their own scales). Ops of one stage that do not change the position are one
/// step.
struct CausalStep {
  spec::SourceLocation place;
  std::string op; ///< name of the op in a spec: "shorten (linear)", "attention", "layer"; for model
                  ///< IR, the op name
  int64_t from = 0;
  int64_t to = 0;
};

/// Result of running the program on a witness.
enum class Replay { NotRun, Changed, Unchanged };

/// The program that ran: the float64 reference, which reports the change in the row that the head
/// reads, or the compiled program, which reports the change in the row's loss (nats).
enum class ReplayProgram { Reference, Compiled };

/// Bits of each segmentation of a mode, one number per row; empty for a segmentation whose bits the
/// program computes.
using ForcedBits = std::vector<std::vector<float>>;

/// Returns the name of the parameter for the forced bits of a segmentation.
std::string forcedName(size_t cut);

/// Inputs of a witness under given boundaries.
struct SegmentRun {
  std::vector<int32_t> tokens;
  ForcedBits bits;
  std::string what; ///< "token 2 changed under the same boundaries"; empty for the first run
};

/// Row `row` of a sequence of `length` tokens depends on token `token` > row. If token >= length,
/// the sequence does not have that token yet: the row changes once it does (prefix invariance
/// fails).
struct CausalWitness {
  int64_t length = 0;
  int64_t row = 0;
  int64_t token = 0;
  std::vector<CausalStep> path; ///< from the token to the row
  Replay replay = Replay::NotRun;
  double change = 0; ///< maximum difference in the row that predicts, if the replay ran
  ReplayProgram program = ReplayProgram::Reference;
  std::string whyNotRun = {}; ///< "--no-replay"; empty if no replay was requested
  /// With segments: the inputs of the first run, then of the runs that are compared with it. Empty
  /// without segments, where tokens are arbitrary.
  std::vector<SegmentRun> runs = {};
  size_t shown = 0; ///< index in `runs` of the run whose row changed
};

/// A loss that the proof covers: row t is scored against token t + offset.
struct ProvedLoss {
  std::string mode;
  spec::SourceLocation place;
  int64_t offset = 1;
};

enum class WarningKind {
  BlindSpot,      ///< tokens before the target that a row can never see
  Waste,          ///< a shift larger than the smallest causal shift
  DeadStage,      ///< a stage that no loss reads
  BoundedContext, ///< a fact: rows see a limited number of tokens back
  NotEnumerated,  ///< a fact: blind spots were not searched
  Unfinished      ///< a fact: the budget for advice was exhausted; names the parts that were not
                  ///< searched
};

/// A possible improvement of a causal model, or a fact about it that is not a defect.
struct CausalWarning {
  WarningKind kind = WarningKind::BlindSpot;
  spec::SourceLocation place;
  std::string text; ///< the message with the remedy, without location and severity

  bool isNote() const { return kind >= WarningKind::BoundedContext; }
  /// Returns the name of the kind, such as "blind-spot".
  const char *getName() const;
  /// Formats the warning: "file:line:column: warning: text".
  std::string format() const;
};

/// An edit after which a rejected spec is proved (SpecFix.h).
struct SpecFix {
  std::string words; ///< description of the edit with its location
  spec::SourceLocation place;
  std::string text;         ///< the spec with the edit
  bool hidesTokens = false; ///< rows of the edited spec never see some tokens before their target
};

enum class VerdictKind {
  Proved,    ///< for every length and row: no leak, and rows do not change as the sequence grows
  Leak,      ///< there is a witness of a leak
  NotProved, ///< neither a proof nor a witness, for example because the budget is exhausted;
             ///< rejected like a leak
  Misaligned ///< no leak, but generation would append a row's prediction at a position other than
             ///< the one that the loss scores; rejected too
};

struct CausalVerdict {
  VerdictKind kind = VerdictKind::NotProved;
  std::vector<std::string> modes; ///< the proved modes: "eval", "train", "generate"
  std::vector<ProvedLoss> losses; ///< the losses of the proved modes
  std::vector<std::string> given; ///< axes that are known before the first token: no leak
  int64_t obligations = 0;        ///< number of obligations that hold
  /// The exhausted number of operations if that is why the model is not proved, else 0.
  int64_t exhausted = 0;
  /// If steps draw their factor: the factors for which the model is proved.
  std::vector<int64_t> factors;
  /// The factor for which the model is not proved; 0 if steps draw no factor.
  int64_t refusedFactor = 0;
  std::string refusedMode;    ///< the mode that is not proved, if any
  spec::SourceLocation place; ///< location of the stage at fault
  std::string message;        ///< the mistake and its remedy; empty if proved
  /// The end of `message`: a remedy that changes the module and was not tried on the spec.
  std::string remedy;
  std::optional<SpecFix> fix;
  std::string noFix; ///< the reason that a search found no fix; empty if there was no search
  std::optional<CausalWitness> witness;
  std::vector<CausalWarning> warnings; ///< defects of a proved model that do not leak
  std::vector<CausalWarning> notes;    ///< facts about a proved model

  bool isProved() const { return kind == VerdictKind::Proved; }
  /// Removes the remedy from the message, if a search on the spec itself gives the advice.
  void dropRemedy();
  /// Formats the advice: "  advice: shift by 3, not 2, at a.json:4:7 ..."; empty if no fix was
  /// searched for.
  std::string formatFix() const;
  /// Formats the verdict for users: the message at its location, then the witness read by read; one
  /// line if proved.
  std::string format() const;
  /// Formats the verdict without the result of a replay, which takes longer.
  std::string formatWithoutReplay() const;
};

/// Formats the result of a replay: "replay of the reference: with token 1 changed, row 0 changed by
/// up to 0.2".
std::string formatReplay(const CausalWitness &witness);

} // namespace sluice
