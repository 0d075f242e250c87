// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The facts of a spec that programs show or choose by, with its defaults filled in. A plan has
// them, so that no program reads the spec's text for them (docs/plan-and-artifact.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

struct OptimizerFacts {
  std::string kind; ///< "adamw" or "adam"
  double learningRate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weightDecay = 0;
  double clip = 0; ///< global norm; 0: no clipping
};

/// The learning rate by step.
struct ScheduleFacts {
  std::string kind; ///< "cosine", "constant" or "inverse_root"
  int64_t warmup = 0, steps = 0;
  double floor = 0; ///< a fraction of the learning rate
  /// The second phase, from `steps` on.
  struct Fall {
    int64_t steps = 0;
    double floor = 0;
  };
  std::optional<Fall> then;
};

/// The result of a primitive stage, in the order of execution.
struct StreamFacts {
  enum class Rows { tokens, input, segments, none };
  std::string stage; ///< "stages.1.inside.4"
  Rows rows = Rows::tokens;
  std::string of;     ///< the name of the input or of the segments
  int64_t factor = 1; ///< scale: row m begins at token factor * m
  std::string value;  ///< the stage that computes the rows: another one of a dropout
};

/// The name that a stage's "to" gives its result.
struct StreamName {
  std::string name, stage;
};

/// A boundaries stage.
struct BoundaryFacts {
  /// The numbers of a row: bits, 0 or 1; probabilities of a bit; or logits, to which `shift` is
  /// added.
  enum class Numbers { bits, probabilities, logits };
  std::string name;
  std::string value; ///< of the numbers, as CompileRequest::everyRow takes it
  Numbers numbers = Numbers::bits;
  double shift = 0;
  std::string parent;                 ///< the segments that are cut; empty: the tokens
  int64_t factor = 1;                 ///< of the scale that is cut
  bool begins = false;                ///< a bit begins a segment, and the first row has one
  std::optional<int64_t> documentEnd; ///< token that always ends a segment
};

struct SpecFacts {
  std::string compute, residual; ///< precision: "f32" or "bf16"
  OptimizerFacts optimizer;
  ScheduleFacts schedule;
  std::vector<StreamFacts> streams;
  std::vector<StreamName> names;
  std::vector<BoundaryFacts> boundaries;
};

/// Parses the object "facts" of a plan. Throws UserError; `origin` starts each message.
SpecFacts parseSpecFacts(std::string_view text, const std::string &origin);

} // namespace sluice::runtime
