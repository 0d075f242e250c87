// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Results of the causality check, in plain C++: programs without MLIR read it too.
#pragma once

#include "sluice/Spec/Diagnostic.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// One read on the way from a token to a prediction: `op` at `place` reads `from` and gives `to`
/// (positions of their own scales). Ops of one stage that stay at their position are one step.
struct CausalStep {
  spec::SourceLocation place;
  std::string
      op; ///< as a spec calls it: "shorten (linear)", "attention", "layer"; of model IR the op
  int64_t from = 0;
  int64_t to = 0;
};

/// Result of running the program on a witness.
enum class Replay { NotRun, Changed, Unchanged };

/// Which program: the float64 reference, whose change is in what the head reads, or the compiled
/// one, whose change is in the row's loss (nats).
enum class ReplayProgram { Reference, Compiled };

/// Bits of each segmentation of a mode, a number a row; of one without, as the program computes
/// them.
using ForcedBits = std::vector<std::vector<float>>;

/// Name of the parameter that holds the forced bits of a segmentation.
std::string forcedName(size_t cut);

/// Inputs of a witness under given boundaries.
struct SegmentRun {
  std::vector<int32_t> tokens;
  ForcedBits bits;
  std::string what; ///< "token 2 changed under the same boundaries"; empty for the first
};

/// Row `row` of a sequence of `length` tokens depends on token `token` > row. Where token >=
/// length, no such token stands in the sequence yet: the row is another one once it does (prefix
/// invariance fails).
struct CausalWitness {
  int64_t length = 0;
  int64_t row = 0;
  int64_t token = 0;
  std::vector<CausalStep> path; ///< from the token to the row
  Replay replay = Replay::NotRun;
  double change = 0; ///< largest difference in the row that predicts, where the replay was run
  ReplayProgram program = ReplayProgram::Reference;
  std::string whyNotRun = {}; ///< "--no-replay"; empty where no replay was asked for
  /// For segments: what the first run reads, then those that are compared with it. Without, tokens
  /// are any.
  std::vector<SegmentRun> runs = {};
  size_t shown = 0; ///< of `runs`: the one whose row changed
};

/// A loss that was proved about: row t is scored against token t + offset.
struct ProvedLoss {
  std::string mode;
  spec::SourceLocation place;
  int64_t offset = 1;
};

/// A possible improvement of a causal model, or a fact about it that is no defect.
struct CausalWarning {
  enum class Kind {
    BlindSpot,      ///< tokens before the target that a row can never see
    Waste,          ///< a shift larger than the least causal one
    DeadStage,      ///< a stage that no loss reads
    BoundedContext, ///< a fact: rows see a limited number of tokens back
    NotEnumerated,  ///< a fact: blind spots were not looked for
    Unfinished      ///< a fact: the time for advice was over; the parts that were not searched
  };
  Kind kind = Kind::BlindSpot;
  spec::SourceLocation place;
  std::string text; ///< with the remedy, without place and severity

  bool isNote() const { return kind >= Kind::BoundedContext; }
  /// "blind-spot"
  const char *getName() const;
  /// "file:line:column: warning: text"
  std::string format() const;
};

/// An edit of a refused spec after which it is proved (SpecFix.h).
struct SpecFix {
  std::string words; ///< with its place
  spec::SourceLocation place;
  std::string text;         ///< the spec with the edit
  bool hidesTokens = false; ///< rows of it never see some tokens before their target
};

struct CausalVerdict {
  enum class Kind {
    Proved,    ///< for every length and row: no leak, and rows do not change as the sequence grows
    Leak,      ///< there is a witness
    NotProved, ///< neither, as where the budget is exhausted; to be refused as a leak is
    Misaligned ///< no leak, but generation would append a row's prediction at another place than
               ///< the loss scored it at; to be refused too
  };
  Kind kind = Kind::NotProved;
  std::vector<std::string> modes; ///< proved: "eval", "train", "generate"
  std::vector<ProvedLoss> losses; ///< of the modes proved
  std::vector<std::string> given; ///< axes that are known before the first token: no leak
  int64_t obligations = 0;        ///< how many were decided to hold
  int64_t exhausted = 0;          ///< not proved because so many operations were spent; else 0
  std::vector<int64_t> factors;   ///< where steps draw their factor: proved with each
  int64_t refusedFactor = 0;      ///< with which it was not; 0: none is drawn
  std::string refusedMode;        ///< the mode that was not, if any
  spec::SourceLocation place;     ///< of the stage at fault
  std::string message;            ///< the mistake and its remedy; empty where proved
  std::string remedy; ///< how `message` ends: a change of the module that was not done to a spec
  std::optional<SpecFix> fix;
  std::string noFix; ///< why a search found none; empty where none was looked for
  std::optional<CausalWitness> witness;
  std::vector<CausalWarning> warnings; ///< where proved: defects that do not leak
  std::vector<CausalWarning> notes;    ///< where proved: facts

  bool isProved() const { return kind == Kind::Proved; }
  /// Leaves the end of the message out: advice is then that of a search on the spec itself.
  void dropRemedy();
  /// "  advice: shift by 3, not 2, at a.json:4:7 ..."; empty where no fix was looked for.
  std::string formatFix() const;
  /// For people: the message at its place, then the witness read by read; one line where proved.
  std::string format() const;
  /// The same without what a replay showed, which takes longer to find out.
  std::string formatWithoutReplay() const;
};

/// "replay of the reference: with token 1 changed, row 0 changed by up to 0.2"
std::string formatReplay(const CausalWitness &witness);

} // namespace sluice
