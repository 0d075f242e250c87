// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a spec into the graph of its values, stage by stage.
#pragma once

#include "Fields.h"

#include <map>
#include <set>
#include <tuple>

namespace certify {

/// Paths of the stages that a composite stage expands to, in order.
struct StageNames {
  std::string prefix;
  int64_t count = 0;
  std::string operator()() { return prefix + ".inside." + std::to_string(count++); }
};

/// A value whose relations are not parsed yet.
struct Draft : ModelValue {
  std::string rows, others; ///< that the table leaves open; others: off rows, by distance
  int64_t by = 0;           ///< of rows of segments, and of a shift
  std::string input;        ///< the owner of its axis; empty: the axis of the tokens
};

/// Expands the stages of a spec to one graph.
class Deriver {
public:
  Deriver(const json &spec, bool train) : spec(spec), train(train) {}

  ModelGraph run();

  /// A row of the table of stages (Stages.cpp): the keys of the stage, and its expansion.
  enum Trait : unsigned {
    Layered = 1,  ///< also has the settings of layers
    OfTokens = 2, ///< not of given values
    Aside = 4,    ///< the next stage has the same input
    Block = 8     ///< has some of the settings of layers
  };
  using Expand = size_t(const Fields &fields, const std::string &path, size_t x);
  struct DerivedStage {
    std::string keys;
    Expand Deriver::*expand;
    unsigned traits = 0;
  };

private:
  class Hourglass;

  Expand embedding, layers, singleLayer, attention, rectified, rowStage, graphConvolution,
      resampleStage, replace, positions, projectStage, score, hourglass, topDown, bottomUp,
      boundaries, attendCut, composite;
  static const std::map<std::string, DerivedStage> &table();
  static void addComposites(std::map<std::string, DerivedStage> &rows); // Composites.cpp

  /// Derives a stage after one that computed `previous`. Returns the input of the next one.
  size_t stage(const json &stage, const std::string &path, size_t previous);

  ModelGraph finish() const;
  /// Keys and values are of the streams `over`, one per group of heads; of x if there is none.
  size_t layer(const Layer &settings, const std::string &path, size_t x,
               const std::vector<size_t> &over = {});
  /// Derives attention at `path` over x, and by groups of heads.
  using Mix = size_t(const Layer &, const std::string &path, size_t x, const std::vector<size_t> &);
  Mix mix, mixGroups;
  /// Layers, followed by a norm if they are pre-norm and it `norms`.
  size_t stack(const Layer &settings, int64_t layers, StageNames &next, size_t x,
               bool norms = true);
  size_t attend(const std::string &name, std::vector<size_t> operands, const Mask &mask,
                const char *op = "attention");
  size_t shorten(const std::string &path, int64_t k, int64_t window, bool linear, size_t x,
                 bool fills = false, bool maps = true);
  size_t upsample(const std::string &path, int64_t k, bool linear, size_t x, const Fields &fields);
  size_t inParts(const std::string &op, const Fields &fields, const std::string &path, size_t x);
  size_t project(const std::string &path, size_t x, std::optional<size_t> with, bool activated);
  size_t stored(const std::string &name, size_t value);
  size_t stream(const std::string &name, const Fields &fields) const;
  /// Returns the stream that `key` names, which is on the scale of x.
  size_t partner(const Fields &fields, size_t x, const char *key = "with") const;

  /// Inputs of stages between tokens and segments.
  struct SegmentCut {
    size_t bits, counts, ends;
    bool begins;
    size_t chances;         ///< of a router
    bool resamples = false; ///< rows of segments by numbers of rows alone
  };
  const SegmentCut &findCut(const Fields &fields) const;
  size_t pooled(const std::string &name, size_t x, const SegmentCut &cut);
  size_t ownRows(const std::string &name, size_t x, const SegmentCut &cut, int64_t by = 0);
  size_t attendRange(const std::string &name, std::vector<size_t> x, const SegmentCut *cut);
  size_t ones(const std::string &path, const SegmentCut &cut) {
    return make("map", path + ".ones", {cut.bits});
  }
  size_t tokenBits(const std::string &name, std::optional<size_t> outer, size_t tokens,
                   std::optional<bool> begins = {});
  size_t withFirst(const std::string &path, size_t bits);
  using Binary = size_t(const std::string &name, size_t x, size_t y);
  Binary atEnds, product, gated;
  /// Derives a recurrence over rows and their numbers in `left`.
  size_t scan(const std::string &name, size_t x, size_t left) {
    return make("recurrence", name, {x, make("map", name + ".left.wide", {left})});
  }
  size_t bitsOfPredictor(const std::string &path, size_t x);
  size_t chancesOfRouter(const std::string &path, size_t x);
  size_t bitsOfEntropy(const Fields &fields, const std::string &path);
  Expand bitsOfCodingRate;
  size_t spread(const std::string &name, const Fields &fields, size_t x, const SegmentCut &cut);
  size_t throughCut(const std::string &op, const Fields &fields, const std::string &path, size_t x);

  /// Appends a value, on its first operand's scale unless it changes that.
  size_t make(const std::string &op, const std::string &name, std::vector<size_t> operands,
              const std::string &rows = "", int64_t by = 0) {
    if (graph.values.size() >= mostValues) {
      throw BadInput("expected a model of fewer than " + std::to_string(mostValues) + " values");
    }
    graph.values.push_back({{name, &findOp(op), std::move(operands)}, rows, "", by, axis});
    Draft &made = graph.values.back();
    made.isGiven = !axis.empty();
    return made.operands.empty() ? graph.values.size() - 1
                                 : convertToScale(made.operands[0], graph.values.size() - 1);
  }
  /// Derives the last `window` rows of each group of k.
  size_t group(const std::string &op, const std::string &name, size_t x, int64_t k,
               int64_t window) {
    std::string padding = name + ".padding"; // rows past a line's count
    x = graph.values[x].isGiven ? make("map", padding, {stored(padding + ".rows", x)}) : x;
    x = make(op, name, {x}, "rows " + spellLinear(k, k - window) + " to " + spellLinear(k, k - 1));
    graph.values[x].factor *= k;
    if (k < 1 || graph.values[x].factor > largestNumber) { // both were below 2^31
      throw BadInput(name + ": expected scales of at most 2^31 - 1 tokens a position, found more");
    }
    return x;
  }
  /// Repeats each row k times.
  size_t repeat(const std::string &op, const std::string &path, size_t x, int64_t k) {
    x = make(op, path + "." + op, {x}, "at floor(p/" + std::to_string(k) + ")");
    graph.values[x].factor /= k;
    return x;
  }
  /// Puts `value` on the scale of the rows of `as`.
  size_t convertToScale(size_t as, size_t value) {
    Draft &made = graph.values[value];
    const Draft &other = graph.values[as];
    std::tie(made.factor, made.segments, made.input, made.isGiven) =
        std::tie(other.factor, other.segments, other.input, other.isGiven);
    return value;
  }
  size_t norm(const std::string &path, size_t x) { return make("norm", path + ".norm", {x}); }
  size_t add(const std::string &path, size_t x, size_t y) {
    return make("map", path + ".add", {x, y});
  }
  size_t shift(const std::string &path, int64_t by, bool learns, size_t x) {
    return make(learns && by > 0 ? "start" : "shift", path + ".shift", {x}, behind(by), by);
  }
  /// Shifts the rows of x by `by` rows; null before the first.
  size_t earlier(const std::string &name, size_t x, int64_t by = 1) {
    return make("shift", name, {x}, behind(by));
  }
  static std::string behind(int64_t by) { return "at " + spellLinear(1, -by); }

  const json &spec;
  bool train;
  json defaults = spec.value("defaults", json::object());
  struct {
    std::vector<Draft> values;
    std::vector<Loss> losses;
  } graph;
  std::string axis; ///< of values without operands
  std::map<std::string, size_t> streams, inputs;
  std::map<std::string, SegmentCut> cuts;                ///< by the name of the segments
  std::map<size_t, SegmentCut> cutsAt;                   ///< by the value of their ends
  std::map<std::string, std::optional<size_t>> lossRows; ///< none of losses without logits
};

} // namespace certify
