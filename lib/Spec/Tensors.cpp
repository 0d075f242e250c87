// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names, shapes, order and initialization of the trained tensors (docs/spec.md, "Initialization"),
// and the most that an expanded model may hold.

#include "Stages.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace sluice::spec {
namespace {

constexpr double embeddingDeviation = 0.02;
constexpr int64_t mostElements = int64_t(1) << 40;

class TensorLister {
public:
  TensorLister(const Model &model, const std::vector<Primitive> &primitives)
      : model(model), primitives(primitives), vocabulary(model.vocabulary) {
    auto layers = std::count_if(primitives.begin(), primitives.end(),
                                [](const Primitive &p) { return p.op() == Op::Layer; });
    // Two residual branches a layer: their sum keeps its variance when each is divided by this.
    residual = std::sqrt(2.0 * static_cast<double>(std::max<std::ptrdiff_t>(layers, 1)));
  }

  void list(const Primitive &primitive) {
    stage = &primitive;
    d = widthOf(primitive.input);
    std::visit([this](const auto &settings) { add(settings); }, primitive.settings);
  }

  std::vector<Tensor> result;

private:
  int64_t widthOf(int64_t stream) const {
    return stream < 0 ? model.width : primitives[static_cast<size_t>(stream)].width;
  }
  void tensor(const std::string &name, std::vector<int64_t> shape, Initial initial, bool decay) {
    result.push_back(
        {stage->prefix + "." + name, std::move(shape), initial, decay, stage->id, stage->isFrozen});
  }
  /// A linear map's weight, [out, in]; `shrink` divides its deviation.
  void matrix(const std::string &name, int64_t out, int64_t in, double shrink = 1,
              InitialKind kind = InitialKind::Normal) {
    double deviation = 1 / std::sqrt(static_cast<double>(in)) / shrink;
    tensor(name + "weight", {out, in}, {kind, deviation}, true);
  }
  void bias(const std::string &name, int64_t size) {
    tensor(name + "bias", {size}, {InitialKind::Zeros}, false);
  }
  void norm(const std::string &name, NormKind kind, int64_t width) {
    tensor(name + "weight", {width}, {InitialKind::Ones}, false);
    if (kind == NormKind::Layer) {
      bias(name, width);
    }
  }

  void add(const Embedding &embedding) {
    Initial initial = {InitialKind::Normal, embeddingDeviation};
    if (const Numbers *numbers = model.findNumbers(embedding.input)) {
      return matrix("", d, numbers->width);
    }
    const Input *input = model.findInput(embedding.input);
    tensor("token.weight", {input ? input->vocabulary : vocabulary, d}, initial, false);
    for (int64_t size : embedding.ngrams) {
      tensor("ngram." + std::to_string(size) + ".weight", {embedding.ngramRows, d}, initial, false);
    }
    if (embedding.positions == Positions::Learned) {
      tensor("position.weight", {model.contextOf(embedding.input), d}, initial, false);
    }
  }

  void add(const Layer &layer) {
    if (!layer.groups.empty()) {
      norm("attention.norm.", layer.norm, d);
      addGroups(layer);
      addFeedForward(layer);
      return;
    }
    if (layer.lsh) {
      if (layer.attentionNorm) {
        norm("attention.norm.", layer.norm, d);
      }
      addHashed(layer);
      addFeedForward(layer);
      return;
    }
    int64_t queries = layer.heads * layer.headSize;
    int64_t keys = layer.keyValueHeads * layer.headSize;
    bool isOver = layer.isOver, isPacked = !layer.hasOwnQueries();
    int64_t over = isOver ? widthOf(stage->second) : d;
    if (layer.attentionNorm) {
      norm("attention.norm.", layer.norm, d);
    }
    if (layer.normsOver()) {
      norm("attention.over.norm.", layer.norm, over);
    }
    matrix("attention.query.", queries, d);
    if (layer.bias && isOver && !layer.isXl()) {
      bias("attention.query.", queries);
    }
    matrix("attention.key.", keys, over);
    matrix("attention.value.", keys, over);
    if (layer.bias && isPacked) {
      bias("attention.query.", queries);
    }
    if (layer.bias) {
      bias("attention.key.", keys);
      bias("attention.value.", keys);
    }
    addRelative(layer);
    matrix("attention.output.", d, queries, residual);
    if (layer.bias) {
      bias("attention.output.", d);
    }
    addFeedForward(layer);
  }

  /// Groups of heads: what is a layer's otherwise stands once a group, cut by heads. Output maps
  /// are columns of one matrix, which begins as such, and have one bias.
  void addGroups(const Layer &layer) {
    auto count = static_cast<int64_t>(layer.groups.size());
    int64_t queries = layer.heads / count * layer.headSize;
    int64_t keys = layer.keyValueHeads / count * layer.headSize;
    for (int64_t i = 0; i < count; ++i) {
      std::string part = "attention." + std::to_string(i) + ".";
      int64_t over = widthOf(stage->sources[static_cast<size_t>(i)]);
      if (!layer.groups[static_cast<size_t>(i)].isPooled && layer.placement == Placement::Pre) {
        norm(part + "over.norm.", layer.norm, over);
      }
      matrix(part + "query.", queries, d);
      if (layer.bias) {
        bias(part + "query.", queries);
      }
      matrix(part + "key.", keys, over);
      matrix(part + "value.", keys, over);
      if (layer.bias) {
        bias(part + "key.", keys);
        bias(part + "value.", keys);
      }
      double ofPart = residual * std::sqrt(static_cast<double>(count));
      matrix(part + "output.", d, queries, ofPart);
    }
    if (layer.bias) {
      bias("attention.output.", d);
    }
  }

  /// Queries that are keys have one matrix.
  void addHashed(const Layer &layer) {
    int64_t columns = layer.heads * layer.headSize;
    for (std::string part : {"query_key", "value", "output"}) {
      bool isOutput = part == "output";
      int64_t rows = isOutput ? d : columns;
      matrix("attention." + part + ".", rows, isOutput ? columns : d, isOutput ? residual : 1);
      if (layer.bias) {
        bias("attention." + part + ".", rows);
      }
    }
  }

  /// The first layer of those that share their biases has them.
  void addRelative(const Layer &layer) {
    int64_t queries = layer.heads * layer.headSize;
    if (layer.relative == Relative::Bias) {
      tensor("attention.relative.table", {std::min(layer.distances, rowsOfTable()), layer.heads},
             {InitialKind::Zeros}, false);
    }
    if (!layer.isXl()) {
      return;
    }
    matrix("attention.relative.", queries, d);
    bool isShared = layer.relative == Relative::XlShared;
    if (!isShared || !std::exchange(hasShared, true)) {
      bias("attention.relative.content.", queries);
      bias("attention.relative.position.", queries);
    }
  }

  /// Distances that rows of this stage's scale have; on segments, as many as these have room for.
  int64_t rowsOfTable() const {
    for (const Primitive &other : primitives) {
      const auto *made = std::get_if<Boundaries>(&other.settings);
      if (made && made->name == stage->segments) {
        return (made->capacity + made->spare + stage->factor - 1) / stage->factor;
      }
    }
    return distanceCount(model, primitives, *stage);
  }

  void addFeedForward(const Layer &layer) {
    bool gated = layer.activation == Activation::SwiGlu;
    norm("feed_forward.norm.", layer.norm, d);
    if (gated) {
      matrix("feed_forward.gate.", layer.feedForward, d);
    }
    matrix("feed_forward.in.", layer.feedForward, d);
    if (layer.bias && gated) {
      bias("feed_forward.gate.", layer.feedForward);
    }
    if (layer.bias) {
      bias("feed_forward.in.", layer.feedForward);
    }
    matrix("feed_forward.out.", d, layer.feedForward, residual);
    if (layer.bias) {
      bias("feed_forward.out.", d);
    }
  }

  void add(const Norm &settings) { norm("", settings.norm, d); }

  void add(const Shorten &shorten) {
    if (shorten.concatenates) {
      matrix("", stage->width / shorten.factor, d);
    } else if (shorten.method == Shortening::Linear) {
      matrix("", d, shorten.rows() * d);
      bias("", d);
    }
  }

  void add(const Upsample &upsample) {
    if (upsample.splits) {
      matrix("", stage->width, d / upsample.factor);
      bias("", stage->width);
    } else if (upsample.method == Upsampling::Linear) {
      matrix("", upsample.factor * d, upsample.groups() * d);
      bias("", upsample.factor * d);
    }
  }

  void add(const Head &head) {
    if (!head.tied) {
      tensor("weight", {vocabulary, d}, {InitialKind::Normal, embeddingDeviation}, true);
    }
    if (head.bias) {
      bias("", vocabulary);
    }
  }

  void add(const Loss &loss) { add(loss.head); }

  /// The two matrices are one, whose columns are those of both.
  void add(const Project &project) {
    int64_t other = stage->second >= 0 ? widthOf(stage->second) : 0, width = stage->width;
    auto shrinkOf = [&](int64_t own) {
      return std::sqrt(static_cast<double>(d + other) / static_cast<double>(own));
    };
    matrix("", width, d, shrinkOf(d), project.initial);
    if (project.bias) {
      bias("", width);
    }
    if (other > 0) {
      matrix("with.", width, other, shrinkOf(other), project.initial);
    }
  }

  void add(const Shift &shift) {
    if (shift.isLearned) {
      tensor("start.weight", {d}, {InitialKind::Normal, embeddingDeviation}, false);
    }
  }

  /// The side of segments has a map for each part of a row: of queries and results, or of keys and
  /// values. What is added to the stream begins as small as a layer's block.
  void add(const Attend &attend) {
    int64_t columns = attend.heads * attend.headSize, over = widthOf(stage->second);
    auto map = [&](const std::string &name, int64_t out, int64_t in, double shrink = 1) {
      matrix(name, out, in, shrink);
      if (attend.bias) {
        bias(name, out);
      }
    };
    auto part = [](const char *name, int64_t i) {
      return std::string(name) + "." + std::to_string(i) + ".";
    };
    norm("own.norm.", attend.norm.norm, d);
    norm("over.norm.", attend.norm.norm, over);
    for (int64_t i = 0; attend.asks && i < attend.parts; ++i) {
      map(part("query", i), columns, d);
    }
    for (const char *name : {"key", "value"}) {
      if (attend.asks) {
        map(std::string(name) + ".", columns, over);
      }
    }
    if (!attend.asks) {
      map("query.", columns, d);
    }
    for (int64_t i = 0; !attend.asks && i < attend.parts; ++i) {
      map(part("key", i), columns, over);
      map(part("value", i), columns, over);
    }
    if (!attend.asks) {
      return map("output.", d, columns, residual);
    }
    double ofPart = residual * std::sqrt(static_cast<double>(attend.parts));
    for (int64_t i = 0; i < attend.parts; ++i) {
      matrix(part("output", i), d, columns, ofPart);
    }
    if (attend.bias) {
      bias("output.", d);
    }
  }

  /// Of what predicts bits: two linear maps, down to one number. A router compares two maps, which
  /// begin as the identity (Hwang et al. 2025, section 2.2).
  void add(const Boundaries &boundaries) {
    for (const char *name : {"own.", "previous."}) {
      if (boundaries.ratio > 0) {
        matrix(name, d, d, 1, InitialKind::Identity);
      }
    }
    if (boundaries.hidden > 0) {
      matrix("in.", boundaries.hidden, d);
      bias("in.", boundaries.hidden);
      matrix("out.", 1, boundaries.hidden);
      bias("out.", 1);
    }
  }

  // No weights; the composite stages never get here.
  void add(const Add &) {}
  void add(const Replace &) {}
  void add(const Dropout &) {}
  void add(const Layers &) {}
  void add(const Hourglass &) {}
  void add(const TopDown &) {}
  void add(const BottomUp &) {}
  void add(const Composed &) {}

  const Model &model;
  const std::vector<Primitive> &primitives;
  int64_t d = 0; ///< width of the stream that the stage reads
  int64_t vocabulary;
  double residual = 1;
  bool hasShared = false; ///< some layer has the biases that layers share
  const Primitive *stage = nullptr;
};

} // namespace

int64_t distanceStep(const std::vector<Primitive> &primitives, const Primitive &layer) {
  return layer.second < 0
             ? layer.factor
             : std::gcd(layer.factor, primitives[static_cast<size_t>(layer.second)].factor);
}

int64_t distanceCount(const Model &model, const std::vector<Primitive> &primitives,
                      const Primitive &layer) {
  int64_t step = distanceStep(primitives, layer);
  return layer.segments.empty() ? (model.context + step - 1) / step : positionsOf(model, layer);
}

int64_t positionsOf(const Model &model, const Primitive &stage) {
  return stage.segments.empty() ? (model.contextOf(stage.axis) + stage.factor - 1) / stage.factor
                                : (model.context + stage.factor) / stage.factor;
}

int64_t Tensor::elements() const {
  int64_t result = 1;
  for (int64_t size : shape) {
    result *= size;
  }
  return result;
}

std::vector<Tensor> tensors(const Model &model, const std::vector<Primitive> &primitives) {
  TensorLister lister(model, primitives);
  for (const Primitive &primitive : primitives) {
    lister.list(primitive);
  }
  return std::move(lister.result);
}

int64_t parameterCount(const Model &model) {
  int64_t result = 0;
  for (const Tensor &tensor : tensors(model, expand(model))) {
    result += tensor.elements();
  }
  return result;
}

/// Layers that share Transformer-XL's biases have as many columns of queries.
static void checkShared(const std::vector<Primitive> &primitives) {
  int64_t columns = 0;
  for (const Primitive &primitive : primitives) {
    const auto *layer = std::get_if<Layer>(&primitive.settings);
    if (!layer || layer->relative != Relative::XlShared) {
      continue;
    }
    int64_t own = layer->heads * layer->headSize;
    if (columns != 0 && own != columns) {
      throw Failure{
          {primitive.at("relative"),
           "expected layers with \"relative\": \"xl_shared\" to have heads * head_size alike, "
           "found " +
               std::to_string(columns) + " and " + std::to_string(own) +
               "; make them equal, or use \"xl\""}};
    }
    columns = own;
  }
}

/// A frozen stage has weights to keep, and some stage has others to train.
static void checkFrozen(const Model &model, const std::vector<Tensor> &all) {
  for (const Stage &stage : model.stages) {
    auto isOwn = [&](const Tensor &tensor) { return tensor.name.starts_with(stage.prefix + "."); };
    if (stage.isFrozen && std::ranges::none_of(all, isOwn)) {
      throw Failure{{stage.at("frozen"), "expected \"frozen\" only of a stage that has weights, "
                                         "found it of one that has none; leave it out"}};
    }
  }
  bool trains = std::ranges::any_of(all, [](const Tensor &tensor) { return !tensor.isFrozen; });
  if (!trains) {
    throw Failure{{model.stages.back().location,
                   "expected a stage to train, found all that have weights frozen; leave "
                   "\"frozen\" out of one of them"}};
  }
}

void checkExpansion(const Model &model) {
  std::string limit = std::to_string(mostElements);
  __int128 activations = static_cast<__int128>(model.context) * model.batch * model.width;
  if (activations > mostElements) {
    throw Failure{{model.keys.at("context"),
                   "expected context * batch * width of at most " + limit + ", found " +
                       std::to_string(model.context) + " * " + std::to_string(model.batch) + " * " +
                       std::to_string(model.width) + "; make one of them smaller"}};
  }
  for (const Input &input : model.inputs) {
    __int128 numbers = static_cast<__int128>(input.context) * model.batch * model.width;
    if (numbers > mostElements) {
      throw Failure{{input.location, "expected context * batch * width of at most " + limit +
                                         " for the input " + quote(input.name) +
                                         ", found more; make one of them smaller"}};
    }
  }
  std::vector<Primitive> primitives = expand(model);
  for (const Primitive &primitive : primitives) {
    if (activations / model.width * primitive.width > mostElements) {
      throw Failure{{primitive.at("width"), "expected context * batch * width of at most " + limit +
                                                ", found a width of " +
                                                std::to_string(primitive.width) +
                                                "; make one of them smaller"}};
    }
  }
  checkShared(primitives);
  std::vector<Tensor> all = tensors(model, primitives);
  checkFrozen(model, all);
  __int128 total = 0; // one tensor has at most 2^93 elements, and the first excess ends the loop
  for (const Tensor &tensor : all) {
    __int128 elements = 1;
    for (int64_t size : tensor.shape) {
      elements *= size;
    }
    total += elements;
    if (total > mostElements) {
      throw Failure{{primitives[static_cast<size_t>(tensor.stage)].location,
                     "expected a model of at most " + limit + " parameters, found more up to " +
                         tensor.name + "; make the sizes or the number of layers smaller"}};
    }
  }
}

} // namespace sluice::spec
