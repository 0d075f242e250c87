// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SpecGenerator.h"
#include "sluice/Support/Json.h"

#include <nlohmann/json.hpp>

#include <random>
#include <vector>

using sluice::OrderedJson;

namespace {

constexpr int64_t coarsest = 84; ///< largest factor: lengths to enumerate grow with it
constexpr size_t mostStages = 16;

class ScaleSpecGenerator {
public:
  ScaleSpecGenerator(uint64_t seed, bool replaces)
      : engine(seed), mistakes(seed % 2 ? 0.3 : 0), replaces(replaces) {}
  std::string spec();

private:
  struct StreamDraft {
    std::string name;
    int64_t factor;
  };

  /// Integer in [low, high]. The engine is the same on every machine; distributions are not.
  int64_t number(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double probability) {
    return static_cast<double>(engine() >> 11) * 0x1p-53 < probability;
  }
  bool mistake() { return chance(mistakes); }
  template <typename T> T pick(std::initializer_list<T> choices) {
    return *(choices.begin() + number(0, static_cast<int64_t>(choices.size()) - 1));
  }

  void emit(OrderedJson stage) { stages.push_back(std::move(stage)); }
  std::string nameLast();
  void addLayerSettings(OrderedJson &stage);
  OrderedJson mask();
  OrderedJson buildSourceMask();
  void groupHeads(OrderedJson &stage);
  void layer();
  void hash(OrderedJson &stage);
  void loss();
  void readInput();
  void hourglass();
  void shift(int64_t by);
  void shorten(int64_t k);
  void upsample(int64_t k);
  void filler();
  void detour(int depth);
  void unusedBranch();
  void sideBranch();
  void skip();
  void body(int depth);
  OrderedJson training();

  std::mt19937_64 engine;
  double mistakes;
  bool replaces; ///< replaces rows of one stream by another's, instead of some sums
  int64_t width = 2, factor = 1;
  std::vector<OrderedJson> stages;
  std::vector<StreamDraft> streams; ///< that have a name
  int losses = 0;
};

std::string ScaleSpecGenerator::nameLast() {
  OrderedJson &last = stages.back();
  if (!last.contains("to")) {
    last["to"] = "x" + std::to_string(streams.size());
    streams.push_back({last["to"], factor});
  }
  return last["to"];
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

OrderedJson ScaleSpecGenerator::mask() {
  if (mistake()) {
    return "bidirectional";
  }
  if (chance(0.6)) {
    return "causal";
  }
  int64_t begin = chance(0.5) ? 0 : number(1, 3);
  return {{"window", {begin, begin + number(1, 6)}}};
}

void ScaleSpecGenerator::addLayerSettings(OrderedJson &stage) {
  int64_t heads = number(1, 2);
  bool rotary = chance(0.3);
  stage["heads"] = heads;
  if (heads == 2 && chance(0.4)) {
    stage["key_value_heads"] = 1;
  }
  stage["head_size"] = rotary ? 2 : number(1, 3);
  stage["feed_forward"] = number(1, 6);
  stage["mask"] = mask();
  if (rotary) {
    stage["rotary"] = chance(0.5) ? OrderedJson(true) : OrderedJson{{"base", 100}};
  }
  if (chance(0.3)) {
    stage["norm"] = "rms";
  }
  if (chance(0.3)) {
    stage["placement"] = "post";
  }
  if (chance(0.6)) {
    stage["activation"] = pick({"relu", "gelu", "gelu_tanh", "swiglu", "relu_squared"});
  }
  if (chance(0.15)) {
    stage["dropout"] = 0.25;
  }
  if (chance(0.1)) {
    stage["attention_dropout"] = 0.25;
  }
  if (chance(0.2)) {
    stage["bias"] = false;
  }
  // Layers that share biases have one size; these differ.
  if (stage["mask"] != "bidirectional" && chance(0.15)) {
    stage["relative"] =
        rotary || chance(0.5) ? OrderedJson{{"bias", number(1, 5)}} : OrderedJson("xl");
    if (stage["relative"] == "xl" && chance(0.4)) {
      stage["distances"] = "rows";
    }
  }
}

/// LSH attention; as published it leaks.
void ScaleSpecGenerator::hash(OrderedJson &stage) {
  for (const char *key :
       {"rotary", "relative", "distances", "key_value_heads", "attention_dropout"}) {
    stage.erase(key);
  }
  stage["mask"] = "causal";
  stage["lsh"] = {
      {"buckets", 2 * number(1, 3)}, {"chunk", pick({1, 2, 4})}, {"hashes", number(1, 3)}};
  if (mistake()) {
    stage["lsh"]["causal"] = false;
  }
}

/// Returns a mask for keys on another scale; most of its results are causal for unshifted groups.
OrderedJson ScaleSpecGenerator::buildSourceMask() {
  if (chance(0.2)) {
    return mask();
  }
  int64_t begin = chance(0.5) ? 0 : number(1, 5);
  return chance(0.5) ? OrderedJson("complete")
                     : OrderedJson{{"tokens", {begin, begin + factor * number(1, 6)}}};
}

/// Two heads, each with keys of its own: streams, or means of the layer's input.
void ScaleSpecGenerator::groupHeads(OrderedJson &stage) {
  for (const char *key :
       {"rotary", "relative", "distances", "key_value_heads", "mask", "head_size"}) {
    stage.erase(key);
  }
  stage["heads"] = 2;
  stage["head_size"] = number(1, 3);
  bool isOver = !streams.empty() && chance(0.5);
  for (int head = 0; head < 2; ++head) {
    if (isOver) {
      auto last = static_cast<int64_t>(streams.size()) - 1;
      stage["over"].push_back({{"stream", streams[static_cast<size_t>(number(0, last))].name},
                               {"mask", buildSourceMask()}});
      continue;
    }
    int64_t k = factor <= 12 ? number(1, 4) : 1, begin = number(0, 3);
    stage["scales"].push_back({{"factor", k}, {"tokens", {begin, begin + factor * number(1, 6)}}});
  }
}

void ScaleSpecGenerator::layer() {
  OrderedJson stage = {{"op", "layer"}};
  if (chance(0.15)) {
    stage = {{"op", "layers"}, {"count", number(1, 2)}};
  }
  addLayerSettings(stage);
  if (stage["op"] == "layer" && !streams.empty() && chance(0.2)) {
    stage["over"] =
        streams[static_cast<size_t>(number(0, static_cast<int64_t>(streams.size()) - 1))].name;
    for (const char *key : {"rotary", "relative", "distances"}) {
      stage.erase(key);
    }
    if (chance(0.4)) {
      stage["mask"] = "complete";
    }
  } else if (stage["op"] == "layer" && chance(0.2)) {
    groupHeads(stage);
  } else if (chance(0.1)) {
    hash(stage);
  }
  emit(stage);
}

/// Scores the current stream, which continues. The default offset fits unshifted groups.
void ScaleSpecGenerator::loss() {
  OrderedJson stage = {{"op", "loss"}, {"name", "loss" + std::to_string(losses++)}};
  stage["factor"] = pick({0.25, 2.0});
  stage["tied"] = chance(0.5);
  if (chance(0.3)) {
    stage["label_smoothing"] = 0.1;
  }
  if (mistake()) {
    stage["shift"] = number(0, factor - 1);
  }
  emit(stage);
  emit({{"op", "norm"}}); // which may have a name
}

/// A named input through a layer of its own, and a layer of the tokens that reads it.
void ScaleSpecGenerator::readInput() {
  std::string text = nameLast();
  emit({{"op", "embedding"}, {"input", "source"}});
  auto buildLayer = [&](const char *mask) {
    OrderedJson stage = {{"op", "layer"}};
    addLayerSettings(stage);
    for (const char *key : {"rotary", "relative", "distances"}) {
      stage.erase(key);
    }
    stage["mask"] = mask;
    return stage;
  };
  if (chance(0.6)) {
    emit(buildLayer(pick({"bidirectional", "causal"})));
  }
  stages.back()["to"] = "memory";
  OrderedJson reader = buildLayer("bidirectional");
  reader["from"] = text;
  reader["over"] = "memory";
  emit(reader);
}

void ScaleSpecGenerator::hourglass() {
  int64_t k = number(2, 5), inner = number(2, 3);
  std::string outside = std::to_string(number(0, 1)) + "@1", middle = std::to_string(number(0, 1));
  std::string level = middle + "@" + std::to_string(k), hierarchy = "1@1";
  if (factor * k * inner <= coarsest && chance(0.3)) {
    hierarchy =
        outside + " " + level + " 1@" + std::to_string(k * inner) + " " + level + " " + outside;
  } else if (factor * k <= coarsest) {
    hierarchy = outside + " " + level + " " + outside;
  }
  OrderedJson stage = {{"op", "hourglass"},
                       {"hierarchy", hierarchy},
                       {"shorten", pick({"average", "linear", "max"})},
                       {"upsample", pick({"repeat", "linear"})}};
  if (mistake() || chance(0.1)) {
    stage["shift"] = std::max(k, inner) - (mistake() ? 2 : 1);
  }
  addLayerSettings(stage);
  emit(stage);
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

void ScaleSpecGenerator::shift(int64_t by) {
  by = std::max<int64_t>(0, mistake() ? by - number(1, 2) : by);
  emit({{"op", "shift"}, {"by", by}});
}

void ScaleSpecGenerator::shorten(int64_t k) {
  emit({{"op", "shorten"}, {"factor", k}, {"method", pick({"average", "linear", "max"})}});
  if (chance(0.3)) {
    stages.back()["window"] = number(1, 2 * k + 1);
    if (stages.back()["method"] == "linear") {
      stages.back()["method"] = "convolution";
    }
  }
  factor *= k;
}

void ScaleSpecGenerator::upsample(int64_t k) {
  emit({{"op", "upsample"}, {"factor", k}, {"method", pick({"repeat", "linear"})}});
  if (stages.back()["method"] == "linear" && chance(0.3)) {
    stages.back()["window"] = k * number(1, 3);
    stages.back()["method"] = "transposed";
  }
  factor /= k;
}

/// Adds a stage that preserves the scale and, without mistakes, causality.
void ScaleSpecGenerator::filler() {
  constexpr int64_t coarsestLoss = 8; // its first row is within every context
  if (factor <= coarsestLoss && chance(0.08)) {
    return loss();
  }
  switch (number(0, 7)) {
  case 0:
    return emit({{"op", "norm"}, {"norm", pick({"layer", "rms"})}});
  case 1:
    return emit({{"op", "dropout"}, {"rate", 0.25}});
  case 2:
    return shift(number(0, 3));
  case 3:
    return chance(0.5) ? shorten(1) : upsample(1);
  default:
    return layer();
  }
}

/// Shortens and upsamples by k. The delay is before the shortening, on the coarse scale or after
/// the upsampling.
void ScaleSpecGenerator::detour(int depth) {
  int64_t k = pick<int64_t>({1, 2, 2, 3, 3, 4, 4, 5, 6, 7});
  if (factor * k > coarsest) {
    return filler();
  }
  int64_t where = number(0, 5), spare = chance(0.15) ? number(1, 4) : 0;
  if (where <= 3) {
    int64_t first = where == 3 ? number(0, k - 1) : 0; // two shifts add up
    if (where == 3) {
      shift(first);
    }
    shift(k - 1 - first + spare);
    if (mistake()) {
      filler();
    }
  }
  shorten(k);
  if (where == 4) {
    shift(1 + spare);
  }
  body(depth + 1);
  if (k % 2 == 0 && k > 2 && chance(0.4)) {
    upsample(k / 2);
    filler();
    upsample(2);
  } else {
    upsample(k);
  }
  if (where == 5) {
    shift(k - 1 + spare);
  }
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

/// Adds an earlier stream of the same scale, if there is one, or takes every k-th row from it.
void ScaleSpecGenerator::skip() {
  std::vector<std::string> names;
  for (const StreamDraft &stream : streams) {
    if (stream.factor == factor && stages.back().value("to", "") != stream.name) {
      names.push_back(stream.name);
    }
  }
  if (names.empty()) {
    return;
  }
  if (replaces && chance(0.6)) {
    int64_t block = number(2, 5);
    return emit({{"op", "replace"},
                 {"with", names[engine() % names.size()]},
                 {"block", block},
                 {"start", number(0, block - 1)}});
  }
  emit({{"op", "add"}, {"with", names[engine() % names.size()]}});
}

/// An unused stage may look ahead.
void ScaleSpecGenerator::unusedBranch() {
  std::string fork = nameLast();
  OrderedJson stage = {{"op", "layer"}};
  addLayerSettings(stage);
  stage["mask"] = "bidirectional";
  stage.erase("relative");
  stage.erase("distances");
  emit(stage);
  if (chance(0.5) && factor * 3 <= coarsest) {
    emit({{"op", "shorten"}, {"factor", 3}});
  }
  emit({{"op", "norm"}, {"from", fork}});
}

/// Adds a second path parallel to the main one; their ends are added.
void ScaleSpecGenerator::sideBranch() {
  std::string fork = nameLast();
  filler();
  std::string side = nameLast();
  emit({{"op", "norm"}, {"from", fork}});
  filler();
  emit({{"op", "add"}, {"with", side}});
}

void ScaleSpecGenerator::body(int depth) {
  int64_t pieces = number(1, depth == 0 ? 3 : 2);
  for (int64_t i = 0; i < pieces; ++i) {
    if (stages.size() > mostStages) {
      return;
    }
    if (chance(0.4)) {
      nameLast();
    }
    int64_t what = number(0, 9);
    if (what <= 3 && depth < 3) {
      detour(depth);
    } else if (what == 4) {
      sideBranch();
    } else if (what == 5) {
      unusedBranch();
    } else if (what == 6) {
      hourglass();
    } else {
      filler();
    }
    if (chance(0.5)) {
      skip();
    }
  }
}

//===----------------------------------------------------------------------===//
// The whole
//===----------------------------------------------------------------------===//

OrderedJson ScaleSpecGenerator::training() {
  OrderedJson schedule = {{"kind", pick({"cosine", "constant", "inverse_root"})},
                          {"warmup", number(0, 2)},
                          {"steps", 10}};
  if (chance(0.3)) {
    schedule["then"] = {{"steps", number(1, 5)}};
  }
  return {{"optimizer", pick({"adamw", "adam"})},
          {"clip", pick({0.0, 0.5, 1.0})},
          {"schedule", schedule}};
}

std::string ScaleSpecGenerator::spec() {
  width = pick<int64_t>({3, 4, 6}); // a norm of 2 numbers leaves only a sign
  OrderedJson embedding = {{"op", "embedding"},
                           {"positions", pick({"none", "none", "learned", "sinusoidal"})}};
  if (chance(0.15)) {
    embedding["dropout"] = 0.25;
  }
  emit(embedding);
  bool hasInput = chance(0.15);
  if (hasInput) {
    readInput();
  }
  body(0);
  emit({{"op", "head"}, {"tied", chance(0.5)}, {"bias", chance(0.5)}});

  OrderedJson top = {{"sluice", 1},
                     {"name", "random"},
                     {"vocabulary", number(2, 17)},
                     {"context", mistakes > 0 ? number(90, 190) : number(9, 70)},
                     {"batch", number(1, 3)},
                     {"width", width},
                     {"seed", number(0, 9)},
                     {"training", training()}};
  if (hasInput) {
    top["inputs"]["source"] = {{"context", number(1, 6)}, {"vocabulary", number(2, 9)}};
  }
  if (chance(0.25)) {
    top["precision"] = {{"compute", "bf16"}, {"residual", pick({"f32", "bf16"})}};
  }
  std::string text = top.dump(), lines;
  text.pop_back();
  for (const OrderedJson &stage : stages) {
    lines += (lines.empty() ? "\n  " : ",\n  ") + stage.dump();
  }
  return text + ",\n\"stages\": [" + lines + "\n]}\n";
}

} // namespace

std::string sluice::fuzz::generateSpec(uint64_t seed, bool replaces) {
  return ScaleSpecGenerator(seed, replaces).spec();
}
