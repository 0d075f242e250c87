// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What reads a spec into the graph of its values, a stage at a time.
#pragma once

#include "Fields.h"

#include <map>
#include <set>

namespace certify {

constexpr size_t mostValues = size_t{1} << 20;

/// The first key of a layer's mask, 0 if its fields name none.
int64_t readFirst(const Fields &fields, const Layer &settings);

/// Paths of the stages that a composite one expands to, in order.
struct Names {
  std::string prefix;
  int64_t count = 0;
  std::string operator()() { return prefix + ".inside." + std::to_string(count++); }
};

/// Derives one graph.
class Deriver {
public:
  Deriver(const json &spec, bool train) : spec(spec), train(train) {}

  Graph run();
  /// Whether what is trained is not what is evaluated; known after run().
  bool trainsOtherwise() const { return dropout; }

private:
  class Hourglass;

  size_t stage(const std::string &op, const Fields &fields, const std::string &path, size_t input);
  size_t embedding(const Fields &fields, const std::string &path);
  void checkGiven(const std::string &op, const Fields &fields, size_t x) const;
  /// With keys and values of the streams `over`: none, the layer's own; several, one a group of
  /// heads.
  size_t layer(const Layer &settings, const std::string &path, size_t x,
               const std::vector<size_t> &over = {});
  size_t mix(const Layer &settings, const std::string &path, size_t x,
             const std::vector<size_t> &over);
  /// Attention at `path` of x, by groups of heads.
  size_t mixGroups(const Layer &layer, const std::string &path, size_t x,
                   const std::vector<size_t> &sources);
  /// Layers, and a norm behind them where they are pre-norm.
  size_t stack(const Layer &settings, int64_t layers, Names &next, size_t x);
  size_t attend(const std::string &name, std::vector<size_t> operands, const Mask &mask);
  size_t bottomUp(const Fields &fields, const std::string &path, size_t x);
  size_t singleLayer(const Fields &fields, const std::string &path, size_t x);
  size_t shorten(const std::string &path, int64_t k, int64_t window, bool linear, size_t x);
  size_t upsample(const std::string &path, int64_t k, bool linear, size_t x, const Fields &fields);
  size_t inParts(const std::string &op, const Fields &fields, const std::string &path, size_t x);
  void score(const Fields &fields, const std::string &path, const std::string &what, size_t x);
  void nameLoss(const std::string &name, const Fields &fields, size_t x);
  size_t project(const std::string &path, size_t x, std::optional<size_t> with, bool activated);
  size_t stored(const std::string &name, size_t value);
  size_t topDown(const Fields &fields, const std::string &path, size_t x);
  size_t hourglass(const Fields &fields, const std::string &path, size_t x);
  size_t stream(const std::string &name, const Fields &fields) const;

  /// What stages between tokens and segments read.
  struct Cut {
    size_t bits, counts, ends;
    bool begins;
    size_t chances; ///< of a router
  };
  void boundaries(const Fields &fields, const std::string &path, size_t x);
  size_t tokenBits(const std::string &path, std::optional<size_t> outer);
  size_t documentBits(const std::string &name, std::optional<size_t> outer, bool begins);
  size_t atEnds(const std::string &name, size_t x, size_t outer);
  size_t withFirst(const std::string &path, size_t bits);
  size_t doubled(const std::string &name, size_t x, size_t left);
  size_t smoothed(const std::string &path, size_t x, const Cut &cut);
  size_t chancesOfRouter(const std::string &path, size_t x);
  size_t bitsOfEntropy(const Fields &fields, const std::string &path);
  size_t bitsOfCodingRate(const Fields &fields, const std::string &path, size_t x);
  size_t bitsOfPredictor(const Fields &fields, const std::string &path, size_t x);
  size_t attendCut(const Fields &fields, const std::string &path, size_t x);
  size_t throughCut(const std::string &op, const Fields &fields, const std::string &path, size_t x);

  /// Appends a value, on its first operand's scale unless it changes that.
  size_t make(Kind kind, const std::string &name, std::vector<size_t> operands,
              int64_t number = 0) {
    if (graph.values.size() >= mostValues) {
      throw BadInput("expected a model of fewer than " + std::to_string(mostValues) + " values");
    }
    int64_t factor = operands.empty() ? 1 : graph.values[operands[0]].factor;
    factor *= kind == Kind::Shorten || kind == Kind::Fold ? number : 1;
    factor /= kind == Kind::Upsample || kind == Kind::Unfold ? number : 1;
    Value made{name, kind, number, 0, {}, operands, factor, 1, axis};
    if (!operands.empty()) {
      made.input = graph.values[operands[0]].input;
      made.segments = graph.values[operands[0]].segments;
    }
    graph.values.push_back(std::move(made));
    return graph.values.size() - 1;
  }
  /// `value`, made where the rows of `as` are.
  size_t onScaleOf(size_t as, size_t value) {
    graph.values[value].factor = graph.values[as].factor;
    graph.values[value].segments = graph.values[as].segments;
    graph.values[value].input = graph.values[as].input;
    return value;
  }
  size_t norm(const std::string &path, size_t x) { return make(Kind::Norm, path + ".norm", {x}); }
  size_t add(const std::string &path, size_t x, size_t y) {
    return make(Kind::Map, path + ".add", {x, y});
  }
  size_t shift(const std::string &path, int64_t by, bool learns, size_t x) {
    return make(learns && by > 0 ? Kind::Start : Kind::Shift, path + ".shift", {x}, by);
  }
  /// Whether this graph drops out here; notes that some graph does.
  bool dropoutOf(const Fields &fields, const std::string &key) {
    bool drops = fields.dropsOut(key);
    dropout |= drops;
    return train && drops;
  }

  const json &spec;
  bool train, dropout = false;
  Graph graph;
  std::string axis; ///< of what is made from nothing
  std::map<std::string, size_t> streams, inputs;
  std::map<std::string, Cut> cuts; ///< by the name of the segments
  std::map<size_t, Cut> cutsAt;    ///< by the value that says where they end
  std::map<std::string, size_t> lossRows;
};

} // namespace certify
