// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random specs with segments: plain stages, or composite stages with an addition.
#include "SegmentTrial.h"
#include "sluice/Support/Json.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <random>
#include <vector>

using sluice::OrderedJson;

namespace {

/// The stream that a boundaries stage cuts: groups, and segments of groups, have no byte of their
/// own.
enum class CutPlace { Tokens, Groups, Segments };

CutPlace inside(CutPlace cut) { return cut == CutPlace::Tokens ? CutPlace::Segments : cut; }

/// Sources of the bits of a stage other than a rule.
struct Makers {
  bool draws = true;  ///< an unlabeled predictor
  bool routes = true; ///< a router
};

class SegmentSpecGenerator {
public:
  SegmentSpecGenerator(uint64_t seed, int levels)
      : engine(seed * 2 + static_cast<uint64_t>(levels)), mistakes(seed % 2 ? 0.25 : 0),
        levels(levels) {}
  std::string spec();

private:
  /// Integer in [low, high]. The engine is the same on every machine; distributions are not.
  int64_t number(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double probability) {
    return static_cast<double>(engine() >> 11) * 0x1p-53 < probability;
  }
  bool mistake() { return chance(mistakes); }
  std::string pick(std::initializer_list<const char *> choices) {
    return *(choices.begin() + number(0, static_cast<int64_t>(choices.size()) - 1));
  }
  void emit(OrderedJson stage) { stages.push_back(std::move(stage)); }
  std::string nameNorm();
  void layer();
  void shift();
  void smallModel();
  void group(const std::function<void()> &inside);
  OrderedJson bits(CutPlace place, bool begins, Makers makers, const OrderedJson *below);
  void addRule(OrderedJson &made, CutPlace place, bool begins);
  std::string chooseMethod(const OrderedJson &made, const std::string &otherwise);
  void cut(int level, CutPlace place, const OrderedJson *below);
  void onSegments(int level, CutPlace place, const OrderedJson &made);

  void composite(CutPlace place);
  void patches(const std::string &op, CutPlace place);
  OrderedJson cutInside(const std::string &op, OrderedJson &stage, CutPlace place);
  OrderedJson chunksInside(OrderedJson &stage, CutPlace place);
  OrderedJson settings();
  OrderedJson count() { return number(0, 1); }
  void readAgain(const std::string &whole, const std::string &segments, const OrderedJson &made);

  std::mt19937_64 engine;
  double mistakes;
  int levels;
  int names = 0;
  bool hasLoss = false; ///< of a small model, by which segments may be cut
  std::vector<OrderedJson> stages;
};

//===----------------------------------------------------------------------===//
// Stages one by one
//===----------------------------------------------------------------------===//

std::string SegmentSpecGenerator::nameNorm() {
  std::string name = "x" + std::to_string(names++);
  emit({{"op", "norm"}, {"to", name}});
  return name;
}

void SegmentSpecGenerator::layer() {
  OrderedJson stage = {{"op", "layer"}};
  if (mistake()) {
    stage["mask"] = "bidirectional";
  } else if (chance(0.3)) {
    stage["mask"] = {{"window", {chance(0.5) ? 0 : 1, 3}}};
  }
  emit(stage);
}

void SegmentSpecGenerator::shift() {
  emit({{"op", "shift"}, {"by", 1}});
  if (chance(0.4)) {
    stages.back()["start"] = "null";
  }
}

/// A separate small model, whose softmax may cut tokens.
void SegmentSpecGenerator::smallModel() {
  layer();
  emit({{"op", "loss"}, {"name", "small"}});
  emit({{"op", "embedding"}});
  hasLoss = true;
}

/// Groups of two around the inner stages.
void SegmentSpecGenerator::group(const std::function<void()> &inside) {
  std::string fine = nameNorm();
  if (!mistake()) {
    emit({{"op", "shift"}, {"by", 1}});
  }
  emit({{"op", "shorten"}, {"factor", 2}});
  inside();
  emit({{"op", "upsample"}, {"factor", 2}});
  emit({{"op", "add"}, {"with", fine}});
}

void SegmentSpecGenerator::onSegments(int level, CutPlace place, const OrderedJson &made) {
  if (chance(0.4)) {
    layer();
  }
  if (chance(0.25)) {
    group([&] {
      if (chance(0.5)) {
        layer();
      }
    });
  }
  if (level < levels) {
    cut(level + 1, place, &made);
  }
}

/// Source of the bits: a rule, a predictor or a router. `below` holds the settings of the segments
/// that are cut, which end at document ends if the new segments do.
OrderedJson SegmentSpecGenerator::bits(CutPlace place, bool begins, Makers makers,
                                       const OrderedJson *below) {
  OrderedJson made = OrderedJson::object();
  if (begins) {
    made["at"] = "start";
  }
  if (begins && makers.routes && chance(0.5)) {
    made["ratio"] = 3;
  } else if (makers.draws && chance(place == CutPlace::Tokens ? 0.4 : 0.6)) {
    made["predictor"] = 2;
    made["prior"] = 0.3;
  } else {
    addRule(made, place, begins);
  }
  bool mayEnd = place == CutPlace::Tokens ||
                (below && below->contains("document_end") && (begins || !below->contains("at")));
  if (mayEnd && chance(0.25)) {
    made["document_end"] = 7;
  }
  return made;
}

/// A rule, whose bits a predictor may learn. Coding rates as published use the whole text.
void SegmentSpecGenerator::addRule(OrderedJson &made, CutPlace place, bool begins) {
  if (place == CutPlace::Groups || chance(0.3)) {
    made["rule"] = "coding_rate";
    made["window"] = number(1, 3);
    made[mistake() ? "top" : "threshold"] = 0.5;
  } else if (place == CutPlace::Tokens && hasLoss && chance(0.6)) {
    made["rule"] = "entropy";
    made["loss"] = "small";
    made[chance(0.5) ? "rise" : "threshold"] = 0.5;
  } else {
    made["rule"] = place == CutPlace::Tokens && begins && chance(0.5) ? "space_like" : "whitespace";
  }
  if (chance(0.3)) {
    made["predictor"] = 2;
  }
}

/// Converts segments to rows. Only a mean has a derivative by sampled bits.
std::string SegmentSpecGenerator::chooseMethod(const OrderedJson &made,
                                               const std::string &otherwise) {
  if (made.contains("ratio")) {
    return "first";
  }
  return made.contains("rule") && chance(0.5)
             ? pick({"max", made.contains("at") ? "first" : "last"})
             : otherwise;
}

/// Segments, shifted by one at one end, at both or at neither: causal if shifted at one end at
/// least. A router's probabilities do not belong to shifted rows, so they leak if smoothed.
void SegmentSpecGenerator::cut(int level, CutPlace place, const OrderedJson *below) {
  std::string name = "cut" + std::to_string(level), fine = nameNorm();
  if (mistake()) {
    emit({{"op", "layer"}, {"mask", "bidirectional"}}); // of what bits read
  }
  OrderedJson made = bits(place, chance(0.4), {}, below);
  emit({{"op", "boundaries"}, {"name", name}});
  stages.back().update(made);
  emit({{"op", "shorten"},
        {"from", fine},
        {"segments", name},
        {"method", chooseMethod(made, "average")}});
  bool smooths = made.contains("ratio") && chance(0.6);
  bool isMoved = smooths ? mistake() : chance(0.4);
  if (isMoved) {
    shift();
  }
  onSegments(level, inside(place), made);
  int64_t by = isMoved ? (chance(0.7) ? 0 : 1) : mistake() ? 0 : (chance(0.8) ? 1 : 2);
  emit({{"op", "upsample"}, {"segments", name}, {"by", by}});
  if (smooths || chance(0.2)) {
    stages.back()["method"] = smooths ? "smooth" : "scatter";
  }
  emit({{"op", "add"}, {"with", fine}});
}

//===----------------------------------------------------------------------===//
// Composite stages
//===----------------------------------------------------------------------===//

/// Settings of the layers on one scale. A mistake allows them to look ahead.
OrderedJson SegmentSpecGenerator::settings() {
  OrderedJson made = OrderedJson::object();
  if (mistake()) {
    made["mask"] = "bidirectional";
  } else if (chance(0.3)) {
    made["mask"] = {{"window", {0, 3}}};
  }
  if (chance(0.2)) {
    made["placement"] = "post";
  }
  return made;
}

/// Blocks of two to four tokens, with at least as many columns. The enumerated lengths contain two
/// complete blocks.
void SegmentSpecGenerator::patches(const std::string &op, CutPlace place) {
  int64_t size = place == CutPlace::Groups || levels > 1 ? 2 : number(2, 4);
  OrderedJson stage = {{"op", op}, {op == "megabyte" ? "patch" : "block", size}};
  stage["layers"] = {count(), count()};
  if (size > 2 || chance(0.3)) {
    stage["width"] = 2 * size;
  }
  stage["global"] = settings();
  emit(stage);
}

/// An H-Net of one or two levels. Returns the source of the outer segments.
OrderedJson SegmentSpecGenerator::chunksInside(OrderedJson &stage, CutPlace place) {
  OrderedJson outer = bits(place, true, {.draws = false}, nullptr);
  stage["layers"] = {count(), count(), count()};
  stage["boundaries"] = outer;
  if (levels > 1) {
    stage["layers"][1] = {count(), count(), count()};
    stage["boundaries"] = {outer, bits(inside(place), true, {.draws = false}, &outer)};
  }
  if (chance(0.3)) {
    stage["width"] = levels > 1 ? OrderedJson{2, 4} : OrderedJson(4);
  }
  return outer;
}

/// Returns the source of the segments.
OrderedJson SegmentSpecGenerator::cutInside(const std::string &op, OrderedJson &stage,
                                            CutPlace place) {
  if (op == "hnet") {
    return chunksInside(stage, place);
  }
  stage["layers"] = {count(), count(), op == "blt" ? OrderedJson(1) : count()};
  if (chance(0.3)) {
    stage["width"] = 4;
  }
  if (op == "spacebyte") {
    OrderedJson made = place == CutPlace::Tokens && chance(0.5)
                           ? OrderedJson{{"rule", "space_like"}, {"at", "start"}}
                           : bits(place, true, {.draws = false}, nullptr);
    stage["boundaries"] = made;
    return made;
  }
  bool isDynamic = op == "dynamic";
  OrderedJson made = bits(place, chance(0.4), {.draws = isDynamic, .routes = false}, nullptr);
  stage["boundaries"] = made;
  if (!made.contains("at") || !made.contains("rule")) {
    stage["method"] = chooseMethod(made, "average"); // the stage has one too
  } else {
    stage["method"] = pick({"average", "max"});
  }
  if (!isDynamic && chance(0.5)) {
    stage["parts"] = 1;
  }
  return made;
}

/// Reads the segments once more, in addition to the stage that cut them. A mistake reads the open
/// segment.
void SegmentSpecGenerator::readAgain(const std::string &whole, const std::string &segments,
                                     const OrderedJson &made) {
  std::string result = nameNorm();
  emit({{"op", "shorten"},
        {"from", whole},
        {"segments", segments},
        {"method", chooseMethod(made, "average")},
        {"to", "again"}});
  OrderedJson reader = {{"op", chance(0.5) ? "attend" : "upsample"}, {"segments", segments}};
  reader["by"] = mistake() ? 0 : number(1, 2);
  if (reader["op"] == "attend") {
    reader["from"] = result;
    reader["over"] = "again";
  }
  emit(reader);
  if (reader["op"] == "upsample") {
    emit({{"op", "add"}, {"with", result}});
  }
}

/// A complete model in one stage. Its input stream may be added to its result.
void SegmentSpecGenerator::composite(CutPlace place) {
  std::string whole = nameNorm();
  if (mistake()) {
    layer(); // which may look ahead
  }
  std::string op =
      pick({"dynamic", "spacebyte", "hnet", "hnet", "blt", "megabyte", "block_transformer"});
  if (op == "megabyte" || op == "block_transformer") {
    patches(op, place);
  } else {
    OrderedJson stage = {{"op", op}};
    OrderedJson made = cutInside(op, stage, place);
    stage["local"] = settings();
    stage["global"] = settings();
    emit(stage);
    if (chance(0.4)) {
      readAgain(whole, op, made);
    }
  }
  if (chance(0.3)) {
    emit({{"op", "add"}, {"with", whole}});
  }
}

std::string SegmentSpecGenerator::spec() {
  emit({{"op", "embedding"}});
  if (chance(0.3)) {
    layer();
  }
  if (chance(0.2)) {
    smallModel();
  }
  auto body = [&](CutPlace place) { chance(0.4) ? composite(place) : cut(1, place, nullptr); };
  if (chance(0.25)) {
    group([&] { body(CutPlace::Groups); });
  } else {
    body(CutPlace::Tokens);
  }
  if (chance(0.3)) {
    layer();
  }
  emit({{"op", "head"}});
  OrderedJson top = {{"sluice", 1},   {"vocabulary", 40},
                     {"context", 12}, {"batch", 1},
                     {"width", 2},    {"defaults", {{"heads", 1}, {"feed_forward", 2}}}};
  std::string text = top.dump(), lines;
  text.pop_back();
  for (const OrderedJson &stage : stages) {
    lines += (lines.empty() ? "\n  " : ",\n  ") + stage.dump();
  }
  return text + ",\n\"stages\": [" + lines + "\n]}\n";
}

} // namespace

std::string sluice::fuzz::generateSegmentedSpec(uint64_t seed, int levels) {
  return SegmentSpecGenerator(seed, levels).spec();
}
