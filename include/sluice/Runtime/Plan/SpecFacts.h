// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts of a spec, with defaults filled in, that programs display or depend on. They are part of a
// plan, so that programs need not read the spec's text (docs/plan-and-artifact.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {
class StrictJson;
}

namespace sluice::runtime {

struct OptimizerFacts {
  std::string kind; ///< "adamw" or "adam"
  double learningRate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weightDecay = 0;
  double clip = 0; ///< global norm; 0: no clipping
};

/// The learning rate as a function of the step.
struct ScheduleFacts {
  std::string kind; ///< "cosine", "constant" or "inverse_root"
  int64_t warmup = 0, steps = 0;
  double floor = 0; ///< a fraction of the learning rate
  /// The second phase, which starts at `steps`.
  struct Fall {
    int64_t steps = 0;
    double floor = 0;
  };
  std::optional<Fall> then;
};

/// The result of a primitive stage. Streams are stored in the order of execution.
struct StreamFacts {
  enum class RowAxis { tokens, input, segments, none };
  std::string stage; ///< "stages.1.inside.4"
  RowAxis rows = RowAxis::tokens;
  std::string of;     ///< name of the input or of the segments
  int64_t factor = 1; ///< scale: row m starts at token factor * m
  std::string value;  ///< stage that computes the rows; differs from `stage` for a dropout
  std::string op;     ///< "layer"; empty in artifacts of earlier versions
};

/// A name that a stage gives to its result with "to".
struct StreamName {
  std::string name, stage;
};

/// A boundaries stage.
struct BoundaryFacts {
  /// Interpretation of a row's number: a bit, 0 or 1; the probability of a bit; or a logit, to
  /// which `shift` is added.
  enum class BoundaryEncoding { bits, probabilities, logits };
  std::string name;
  std::string value; ///< stream of the numbers, in the form of CompileRequest::everyRow
  BoundaryEncoding numbers = BoundaryEncoding::bits;
  double shift = 0;
  std::string parent;  ///< segments that are cut; empty: the tokens
  int64_t factor = 1;  ///< tokens per row of the scale that is cut
  bool begins = false; ///< a bit marks the first row of a segment, and the first row always has one
  std::optional<int64_t> documentEnd; ///< token that always ends a segment
};

/// Facts of an input of tokens that decide how its lines become tokens.
struct InputFacts {
  std::string name;
  bool hasEnd = false;       ///< a line end follows each line
  std::string derived, rule; ///< a word such as "word_end", and the rule; empty: from a file
  std::string pattern;       ///< edges that no file gives: "chain", "random" or "half"
};

struct SpecFacts {
  std::string compute, residual; ///< precision: "f32" or "bf16"
  std::string
      weights; ///< of evaluation and generation: "bf16", "int8", "int4"; empty: as in training
  OptimizerFacts optimizer;
  ScheduleFacts schedule;
  std::vector<StreamFacts> streams;
  std::vector<StreamName> names;
  std::vector<BoundaryFacts> boundaries;
  std::vector<InputFacts> inputs; ///< those that differ from the default
};

/// Parses the object "facts" of a plan. Throws UserError.
SpecFacts readSpecFacts(const StrictJson &json);

/// Parses the text of the object "facts" of a plan. Throws UserError; `origin` starts each message.
SpecFacts parseSpecFacts(std::string_view text, const std::string &origin);

} // namespace sluice::runtime
