// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers whose heads are grouped, each group with keys, values and a mask of its own.
#include "Stages.h"

#include <numeric>

namespace sluice::spec {
namespace {

std::string spell(const Mask &mask) {
  return "[" + std::to_string(mask.begin) + ", " + std::to_string(mask.end) + "]";
}

/// The value of "window" or "tokens": [a, b] with 0 <= a < b.
Mask readEnds(const Fields &fields, std::string_view key, MaskKind kind) {
  constexpr std::string_view type = "two integers [a, b] with 0 <= a < b";
  const std::vector<JsonValue> &ends = fields.itemsAt(fields.need(key, type), key, 2, type);
  Mask mask = {kind, fields.integerAt(ends[0], key, {0}), fields.integerAt(ends[1], key, {0})};
  if (mask.begin >= mask.end) {
    fields.fail(ends[0].position, "expected " + std::string(type) + " for " + quote(key) +
                                      ", found " + spell(mask) + ", which no position is in");
  }
  return mask;
}

Mask readWindow(const Fields &window) {
  window.allowOnly({"window", "tokens", "block", "start"});
  bool inTokens = window.find("tokens");
  if (window.find("block")) {
    if (inTokens || window.find("window")) {
      window.fail(window.position("block"), "expected a block or a window, found both; leave "
                                            "\"block\" out, or what stands beside it");
    }
    return readBlock(window);
  }
  if (window.find("start")) {
    window.fail(window.position("start"), "expected \"start\" only beside \"block\", found it "
                                          "elsewhere; leave it out");
  }
  if (inTokens && window.find("window")) {
    window.fail(window.position("tokens"), "expected a window in positions or one in tokens, found "
                                           "both; leave \"window\" or \"tokens\" out");
  }
  return inTokens ? readEnds(window, "tokens", MaskKind::Tokens)
                  : readEnds(window, "window", MaskKind::Window);
}

/// The objects of a list that is the value of `key`.
const std::vector<JsonValue> &itemsOf(const Fields &fields, const JsonValue &list,
                                      std::string_view key, std::string_view expected) {
  if (list.kind != JsonKind::Array) {
    fields.mismatch(list, key, expected);
  }
  return list.items;
}

[[noreturn]] void fail(const SourceLocation &location, std::string message) {
  throw Failure{{location, std::move(message)}};
}

void checkMoving(const HeadGroup &group, int64_t factor) {
  Mask window = windowOfMoving(group, factor);
  if (window.begin == window.end) {
    fail(group.location, "expected a window of a whole group of " + std::to_string(group.factor) +
                             " rows or more, which a moving grid reads, found " +
                             spell(group.mask) + " on scale " + std::to_string(factor) +
                             "; make it longer, or the factor smaller");
  }
}

} // namespace

Mask readBlock(const Fields &block) {
  Mask mask = {MaskKind::Block, block.integer("start", {0}, 0), block.integer("block", {2})};
  if (mask.begin >= mask.end) {
    block.fail(block.position("start"),
               "expected a row below " + std::to_string(mask.end) +
                   " for \"start\", as blocks of so many rows follow one another, found " +
                   std::to_string(mask.begin) + "; " + std::to_string(mask.begin % mask.end) +
                   " says the same");
  }
  return mask;
}

Mask readMask(const Fields &fields) {
  constexpr std::string_view expected =
      "\"causal\", \"complete\", \"bidirectional\", {\"window\": [a, b]}, {\"tokens\": [a, b]} or "
      "{\"block\": rows}";
  const JsonValue *value = fields.find("mask");
  if (!value || (value->kind == JsonKind::String && value->text == "causal")) {
    return {};
  }
  if (value->kind == JsonKind::String && value->text == "complete") {
    return {MaskKind::Complete};
  }
  if (value->kind == JsonKind::String && value->text == "bidirectional") {
    return {MaskKind::Bidirectional};
  }
  if (value->kind != JsonKind::Object) {
    bool isText = value->kind == JsonKind::String;
    auto near =
        isText ? nearest(value->text, {"causal", "complete", "bidirectional"}) : std::nullopt;
    fields.mismatch(*value, "mask", expected, near ? "did you mean " + quote(*near) + "?" : "");
  }
  return readWindow(Fields(*value, fields.fileName(), "a mask"));
}

std::vector<HeadGroup> readScales(const Fields &fields) {
  std::vector<HeadGroup> groups;
  const JsonValue *list = fields.find("scales");
  if (!list) {
    return groups;
  }
  for (const JsonValue &item :
       itemsOf(fields, *list, "scales",
               "a list of objects, each with a factor and a window in tokens")) {
    Fields scale(item, fields.fileName(), "a scale");
    scale.allowOnly({"factor", "tokens", "grid"});
    HeadGroup group;
    group.isPooled = true;
    group.factor = scale.integer("factor", {});
    bool isMoving = scale.choice<bool>("grid", {{"fixed", false}, {"moving", true}}, false);
    group.isMoving = isMoving && group.factor > 1; // else both are one
    group.mask = readEnds(scale, "tokens", MaskKind::Tokens);
    group.location = scale.locate(scale.position("tokens"));
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<HeadGroup> readSources(const Fields &fields, const Mask &mask) {
  std::vector<HeadGroup> groups;
  const JsonValue &list = *fields.find("over");
  if (list.items.empty()) {
    fields.fail(list.position,
                "expected at least one {\"stream\": name} in \"over\", found an empty "
                "list; name a stream, or leave \"over\" out");
  }
  for (const JsonValue &item : list.items) {
    Fields source(item, fields.fileName(), "a source of keys and values");
    source.allowOnly({"stream", "mask"});
    source.need("stream", "the name of an earlier stage's result");
    HeadGroup group;
    group.over = source.text("stream");
    group.mask = source.find("mask") ? readMask(source) : mask;
    group.location = source.locate(source.find("mask")   ? source.position("mask")
                                   : fields.find("mask") ? fields.position("mask")
                                                         : source.position("stream"));
    groups.push_back(std::move(group));
  }
  return groups;
}

void checkGroups(const Fields &fields, std::string_view cause, const Layer &layer) {
  auto count = static_cast<int64_t>(layer.groups.size());
  for (auto [key, heads] :
       {std::pair("heads", layer.heads), std::pair("key_value_heads", layer.keyValueHeads)}) {
    if (heads % count != 0) {
      fields.fail(fields.position(cause), "expected as many groups of heads as divide " +
                                              quote(key) + ", found " + std::to_string(count) +
                                              " groups of " + std::to_string(heads) +
                                              " heads; each group has the same number");
    }
  }
}

void checkScoresOfGroups(const Fields &fields, std::string_view cause, const Layer &layer) {
  if (layer.rotaryBase) {
    fields.fail(
        fields.position("rotary"),
        "expected no \"rotary\" where " + quote(cause) +
            " gives groups of heads keys of their own, found both; say \"rotary\": false in "
            "this stage");
  }
  if (layer.relative != Relative::None) {
    fields.fail(fields.position("relative"),
                "expected no \"relative\" where " + quote(cause) +
                    " gives groups of heads keys of their own, found both; say \"relative\": "
                    "\"none\" in this stage");
  }
}

Mask inCommonTokens(Mask mask, int64_t queryFactor, int64_t keyFactor) {
  int64_t common = std::gcd(queryFactor, keyFactor);
  return {mask.kind, (mask.begin + common - 1) / common, (mask.end + common - 1) / common};
}

Mask windowOfMoving(const HeadGroup &group, int64_t factor) {
  Mask rows = inCommonTokens(group.mask, factor, factor);
  int64_t groups = (rows.end - rows.begin) / group.factor;
  return {MaskKind::Window, rows.begin, rows.begin + groups * group.factor, group.factor};
}

void checkSources(const Primitive &primitive, const std::vector<Primitive> &primitives) {
  const auto &layer = std::get<Layer>(primitive.settings);
  auto check = [&](const Mask &mask, int64_t factor, const SourceLocation &place) {
    if (mask.kind == MaskKind::Block && factor != primitive.factor) {
      fail(place, "expected keys on the queries' scale where \"mask\" is a block of rows, found "
                  "scales " +
                      std::to_string(primitive.factor) + " and " + std::to_string(factor) +
                      "; use a window in tokens, or upsample the stream first");
    }
    Mask common = inCommonTokens(mask, primitive.factor, factor);
    if (mask.kind == MaskKind::Tokens && common.begin == common.end) {
      fail(place, "expected a window that holds the last token of some position, found " +
                      spell(mask) + " between scales " + std::to_string(primitive.factor) +
                      " and " + std::to_string(factor) +
                      ", where the last tokens are never so far apart; "
                      "make it longer");
    }
  };
  if (layer.groups.empty()) {
    int64_t keys = primitive.second < 0 ? primitive.id : primitive.second;
    check(layer.mask, primitives[static_cast<size_t>(keys)].factor, primitive.at("mask"));
  }
  for (size_t i = 0; i < layer.groups.size(); ++i) {
    const HeadGroup &group = layer.groups[i];
    const Primitive &source = primitives[static_cast<size_t>(primitive.sources[i])];
    if (!primitive.axis.empty() || !source.axis.empty()) {
      fail(group.location,
           "expected groups of heads to read streams of the tokens, found one on the "
           "axis of the input " +
               quote(source.axis.empty() ? primitive.axis : source.axis) +
               "; give it a layer of its own, whose \"over\" is its name");
    }
    if (source.factor * group.factor > largestSize) { // both are at most 2^31
      fail(group.location, "expected scales of at most " + std::to_string(largestSize) +
                               " tokens a position, found " + std::to_string(source.factor) +
                               " * " + std::to_string(group.factor) + "; take a smaller factor");
    }
    if (group.isMoving) {
      checkMoving(group, primitive.factor);
    } else {
      check(group.mask, source.factor * group.factor, group.location);
    }
  }
}

void checkRows(const Primitive &primitive) {
  const auto &layer = std::get<Layer>(primitive.settings);
  if (layer.lsh && (!primitive.axis.empty() || !primitive.segments.empty())) {
    fail(primitive.at("lsh"),
         "expected a layer of tokens, or of groups of them, with \"lsh\", found one of the " +
             (primitive.segments.empty() ? "input " + quote(primitive.axis)
                                         : "segments " + quote(primitive.segments)) +
             "; say \"lsh\": false in this stage");
  }
  if (layer.mask.kind == MaskKind::Tokens && !primitive.segments.empty()) {
    fail(primitive.at("mask"),
         "expected a mask that counts segments, as the segments " + quote(primitive.segments) +
             " have no constant number of tokens, found a window in tokens; say \"mask\": "
             "{\"window\": " +
             spell(layer.mask) + "} in this stage");
  }
}

} // namespace sluice::spec
