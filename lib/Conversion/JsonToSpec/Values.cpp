// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads values of keys into attributes.
#include "Values.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

std::vector<std::string_view> spec::getKeyNames(const ObjectInfo &object) {
  std::vector<std::string_view> names;
  for (const KeyInfo &key : object.keys) {
    names.push_back(key.name);
  }
  return names;
}

void ValueReader::requireKey(const Fields &fields, const KeyInfo &key) {
  bool isRequired =
      key.isRequired || (!key.requiredUnless.empty() && !fields.find(key.requiredUnless));
  if (!isRequired || fields.find(key.name)) {
    return;
  }
  if (!key.hint.empty()) {
    fields.need(key.name, key.hint);
  }
  if (key.kind == KeyKind::Integer) {
    fields.integer(key.name, key.range);
  }
  if (key.kind == KeyKind::Number) {
    fields.number(key.name, key.interval);
  }
  fields.text(key.name);
}

NamedAttrList ValueReader::readKeys(const Fields &fields, const ObjectInfo &object, Places &places,
                                    const std::string &prefix, bool isPartial) {
  NamedAttrList attributes;
  for (const KeyInfo &key : object.keys) {
    if (!isPartial) {
      requireKey(fields, key);
    }
    const JsonValue *value = fields.find(key.name);
    if (!value) {
      continue;
    }
    std::string path = prefix + std::string(key.name);
    places.add(path, value->position);
    if (key.attribute.empty()) {
      continue;
    }
    if (Attribute attribute = readValue(fields, key, *value, places, path)) {
      attributes.set(key.attribute, attribute);
    }
  }
  return attributes;
}

Attribute ValueReader::readValue(const Fields &fields, const KeyInfo &key, const JsonValue &value,
                                 Places &places, const std::string &path) {
  switch (key.kind) {
  case KeyKind::Integer:
    return builder.getI64IntegerAttr(fields.integerAt(value, key.name, key.range));
  case KeyKind::Number:
    return builder.getF64FloatAttr(fields.numberAt(value, key.name, key.interval));
  case KeyKind::Boolean:
    return builder.getBoolAttr(fields.boolean(key.name, false));
  case KeyKind::Word:
    return readWord(fields, key);
  case KeyKind::Text:
    return builder.getStringAttr(fields.text(key.name));
  case KeyKind::Stream:
  case KeyKind::Segments:
    return {};
  case KeyKind::Special:
    return readSpecial(fields, key, value, places, path);
  }
  llvm_unreachable("unknown kind");
}

Attribute ValueReader::readWord(const Fields &fields, const KeyInfo &key) const {
  bool isOfSegments = !key.wordsWithSegments.empty() && fields.find("segments");
  const std::vector<std::string_view> &words = isOfSegments ? key.wordsWithSegments : key.words;
  EnumNames<std::string_view> names;
  for (std::string_view word : words) {
    names.emplace_back(word, word);
  }
  return getWordAttr(builder.getContext(), key.enumeration,
                     fields.choice<std::string_view>(key.name, names, ""));
}

Attribute ValueReader::readSpecial(const Fields &fields, const KeyInfo &key, const JsonValue &value,
                                   Places &places, const std::string &path) {
  if (key.name == "mask") {
    return readMask(fields, key, value);
  }
  if (key.name == "rotary") {
    return readRotary(fields, value);
  }
  if (key.name == "relative") {
    return readRelative(fields, key, value);
  }
  if (key.name == "lsh") {
    return readLsh(fields, value);
  }
  if (key.name == "scales") {
    return readScales(fields, value, places, path);
  }
  if (key.name == "over") {
    return readSources(fields, value, places, path);
  }
  if (key.name == "ratio" || key.name == "prior") {
    return readMoving(fields, key, value);
  }
  if (key.name == "hierarchy") {
    return readHierarchy(fields, key, value, places, path);
  }
  if (key.name == "layers") {
    return readCounts(fields, key, value, places, path);
  }
  if (key.name == "boundaries") {
    return readBoundaries(fields, value, places, path);
  }
  if (key.name == "local" || key.name == "global") {
    return readLayerObject(fields, key, value, places, path);
  }
  return readNumbers(fields, key, value, places, path);
}

/// Reads a list of numbers: sizes of n-grams, widths by level, decays of moments.
Attribute ValueReader::readNumbers(const Fields &fields, const KeyInfo &key, const JsonValue &value,
                                   Places &places, const std::string &path) const {
  if (key.name == "betas") {
    const std::vector<JsonValue> &items =
        getItems(fields, value, key.name, 2, "an " + std::string(key.type));
    return builder.getDenseF64ArrayAttr({fields.numberAt(items[0], key.name, probability),
                                         fields.numberAt(items[1], key.name, probability)});
  }
  SmallVector<int64_t> numbers;
  if (key.name == "width") { // one number for a stage of one level
    for (const JsonValue &item :
         value.kind == JsonKind::Array ? value.items : std::vector<JsonValue>{value}) {
      numbers.push_back(fields.integerAt(item, key.name, {}));
    }
    return builder.getDenseI64ArrayAttr(numbers);
  }
  if (value.kind != JsonKind::Array || value.items.empty()) {
    fields.mismatch(value, key.name, "a list of rising integers from 2 to 16");
  }
  for (auto [i, item] : llvm::enumerate(value.items)) {
    places.add(path + "." + std::to_string(i), item.position);
    numbers.push_back(fields.integerAt(item, key.name, {2, 16}));
  }
  return builder.getDenseI64ArrayAttr(numbers);
}

//===----------------------------------------------------------------------===//
// Layer settings
//===----------------------------------------------------------------------===//

/// Reads the value of "window" or "tokens": [a, b] with 0 <= a < b.
static MaskAttr readEnds(MLIRContext *context, const Fields &fields, StringRef key,
                         MaskShape shape) {
  constexpr std::string_view type = "two integers [a, b] with 0 <= a < b";
  const std::vector<JsonValue> &items = getItems(fields, fields.need(key, type), key, 2, type);
  int64_t begin = fields.integerAt(items[0], key, {0}), end = fields.integerAt(items[1], key, {0});
  if (begin >= end) {
    fields.fail(items[0].position, "expected " + std::string(type) + " for " + quote(key) +
                                       ", found [" + std::to_string(begin) + ", " +
                                       std::to_string(end) + "], which no position is in");
  }
  return MaskAttr::get(context, shape, begin, end);
}

static MaskAttr readBlock(MLIRContext *context, const Fields &block) {
  int64_t start = block.integer("start", {0}, 0), rows = block.integer("block", {2});
  if (start >= rows) {
    block.fail(block.position("start"),
               "expected a row below " + std::to_string(rows) +
                   " for \"start\", as blocks of so many rows follow one another, found " +
                   std::to_string(start) + "; " + std::to_string(start % rows) + " is equivalent");
  }
  return MaskAttr::get(context, MaskShape::block, start, rows);
}

MaskAttr ValueReader::readMask(const Fields &fields, const KeyInfo &key,
                               const JsonValue &value) const {
  constexpr std::string_view expected =
      "\"causal\", \"complete\", \"bidirectional\", {\"window\": [a, b]}, {\"tokens\": [a, b]} or "
      "{\"block\": rows}";
  if (value.kind == JsonKind::String) {
    if (std::optional<MaskShape> shape = symbolizeMaskShape(value.text);
        shape && llvm::is_contained(key.words, value.text)) {
      return MaskAttr::get(builder.getContext(), *shape, 0, 0);
    }
    std::optional<std::string_view> near = findLikely(value.text, key.words);
    fields.mismatch(value, key.name, expected, near ? "did you mean " + quote(*near) + "?" : "");
  }
  if (value.kind != JsonKind::Object) {
    fields.mismatch(value, key.name, expected);
  }
  const ObjectInfo &section = getObject("MaskSection");
  Fields window(value, file, std::string(section.what));
  window.allowOnly(getKeyNames(section));
  bool inTokens = window.find("tokens");
  if (window.find("block")) {
    if (inTokens || window.find("window")) {
      window.fail(
          window.position("block"),
          "expected a block or a window, found both; leave \"block\" out, or the other key");
    }
    return readBlock(builder.getContext(), window);
  }
  if (window.find("start")) {
    window.fail(window.position("start"),
                "expected \"start\" only with \"block\", found it elsewhere; leave it out");
  }
  if (inTokens && window.find("window")) {
    window.fail(window.position("tokens"),
                "expected a window in positions or one in tokens, found both; leave \"window\" or "
                "\"tokens\" out");
  }
  return inTokens ? readEnds(builder.getContext(), window, "tokens", MaskShape::tokens)
                  : readEnds(builder.getContext(), window, "window", MaskShape::window);
}

Attribute ValueReader::readRotary(const Fields &fields, const JsonValue &value) const {
  if (value.kind == JsonKind::Boolean) {
    return value.boolean ? builder.getF64FloatAttr(10000) : FloatAttr();
  }
  if (value.kind != JsonKind::Object) {
    fields.mismatch(value, "rotary", "true, false or {\"base\": number}");
  }
  const ObjectInfo &section = getObject("RotarySection");
  Fields rotary(value, file, std::string(section.what));
  rotary.allowOnly(getKeyNames(section));
  return builder.getF64FloatAttr(rotary.number("base", positive));
}

Attribute ValueReader::readRelative(const Fields &fields, const KeyInfo &key,
                                    const JsonValue &value) const {
  if (value.kind == JsonKind::Object) {
    const ObjectInfo &section = getObject("RelativeSection");
    Fields terms(value, file, std::string(section.what));
    terms.allowOnly(getKeyNames(section));
    if (value.members.size() != 1) {
      fields.mismatch(value, "relative",
                      "{\"bias\": distances}, {\"signed_bias\": distance} or "
                      "{\"vectors\": distance}");
    }
    const std::string &name = value.members.front().key;
    return RelativeAttr::get(builder.getContext(), *symbolizeRelativeTerms(name),
                             terms.integer(name, {}));
  }
  if (value.kind != JsonKind::String) {
    fields.mismatch(value, "relative", "\"none\", \"xl\", \"xl_shared\" or {\"bias\": distances}");
  }
  EnumNames<RelativeTerms> names;
  for (std::string_view word : key.words) {
    names.emplace_back(word, *symbolizeRelativeTerms(word));
  }
  auto terms = fields.choice<RelativeTerms>("relative", names, RelativeTerms::none);
  return terms == RelativeTerms::none ? RelativeAttr()
                                      : RelativeAttr::get(builder.getContext(), terms, 0);
}

Attribute ValueReader::readLsh(const Fields &fields, const JsonValue &value) const {
  if (value.kind == JsonKind::Boolean && !value.boolean) {
    return {};
  }
  if (value.kind != JsonKind::Object) {
    fields.mismatch(value, "lsh", "false or {\"buckets\": number}");
  }
  const ObjectInfo &section = getObject("LshSection");
  Fields lsh(value, file, std::string(section.what));
  lsh.allowOnly(getKeyNames(section));
  requireKey(lsh, *section.find("buckets"));
  int64_t buckets = lsh.integer("buckets", section.find("buckets")->range);
  int64_t chunk = lsh.integer("chunk", section.find("chunk")->range, 128);
  int64_t hashes = lsh.integer("hashes", section.find("hashes")->range, 2);
  bool causal = lsh.boolean("causal", true);
  if (buckets % 2 != 0) {
    lsh.fail(lsh.position("buckets"),
             "expected an even number of \"buckets\", as each rotation has two, found " +
                 std::to_string(buckets));
  }
  if ((chunk & (chunk - 1)) != 0) {
    lsh.fail(lsh.position("chunk"),
             "expected a \"chunk\" of a power of two rows, found " + std::to_string(chunk));
  }
  return LshAttr::get(builder.getContext(), buckets, chunk, hashes, causal);
}

/// Reads the scales that groups of heads read; null if the list is empty.
Attribute ValueReader::readScales(const Fields &fields, const JsonValue &value, Places &places,
                                  const std::string &path) const {
  if (value.kind != JsonKind::Array) {
    fields.mismatch(value, "scales",
                    "a list of objects, each with a factor and a window in tokens");
  }
  const ObjectInfo &section = getObject("ScaleSection");
  SmallVector<Attribute> scales;
  for (auto [i, item] : llvm::enumerate(value.items)) {
    Fields scale(item, file, std::string(section.what));
    scale.allowOnly(getKeyNames(section));
    int64_t factor = scale.integer("factor", {});
    bool isMoving = scale.choice<bool>("grid", {{"fixed", false}, {"moving", true}}, false);
    MaskAttr mask = readEnds(builder.getContext(), scale, "tokens", MaskShape::tokens);
    places.add(path + "." + std::to_string(i), scale.position("tokens"));
    scales.push_back(ScaleAttr::get(builder.getContext(), factor, isMoving && factor > 1, mask));
  }
  return scales.empty() ? ArrayAttr() : builder.getArrayAttr(scales);
}

/// Reads the masks of the sources of a layer whose "over" is a list: a source without a mask has
/// the layer's. The streams become operands.
Attribute ValueReader::readSources(const Fields &fields, const JsonValue &value, Places &places,
                                   const std::string &path) const {
  if (value.kind != JsonKind::Array) {
    fields.text("over");
    return {};
  }
  if (value.items.empty()) {
    fields.fail(value.position, "expected at least one {\"stream\": name} in \"over\", found an "
                                "empty list; name a stream, or leave "
                                "\"over\" out");
  }
  const ObjectInfo &section = getObject("SourceSection");
  const KeyInfo &maskKey = *section.find("mask");
  const JsonValue *own = fields.find("mask");
  SmallVector<Attribute> masks;
  for (auto [i, item] : llvm::enumerate(value.items)) {
    Fields source(item, file, std::string(section.what));
    source.allowOnly(getKeyNames(section));
    requireKey(source, *section.find("stream"));
    source.text("stream");
    const JsonValue *mask = source.find("mask");
    masks.push_back(mask  ? readMask(source, maskKey, *mask)
                    : own ? readMask(fields, maskKey, *own)
                          : MaskAttr::get(builder.getContext(), MaskShape::causal, 0, 0));
    places.add(path + "." + std::to_string(i), mask  ? mask->position
                                               : own ? own->position
                                                     : source.position("stream"));
  }
  return builder.getArrayAttr(masks);
}

//===----------------------------------------------------------------------===//
// Other stages
//===----------------------------------------------------------------------===//

/// Reads a number, or an object that describes how it moves during training.
Attribute ValueReader::readMoving(const Fields &fields, const KeyInfo &key,
                                  const JsonValue &value) const {
  auto number = [&](double x) { return builder.getF64FloatAttr(x); };
  if (value.kind != JsonKind::Object) {
    return TargetAttr::get(builder.getContext(),
                           number(fields.numberAt(value, key.name, key.interval)), FloatAttr(), 0,
                           0);
  }
  const ObjectInfo &section = getObject("MovingSection");
  Fields target(value, file, std::string(section.what));
  target.allowOnly(getKeyNames(section));
  int64_t mostSteps = section.find("steps")->range.largest,
          steps = target.integer("steps", section.find("steps")->range);
  int64_t mostJumps = std::min(steps, mostSteps / steps); // f32 also counts their product
  double from = target.number("from", key.interval);
  int64_t jumps = target.find("jumps") ? target.integer("jumps", {1, mostJumps}) : 0;
  return TargetAttr::get(builder.getContext(), number(target.number("to", key.interval)),
                         number(from), steps, jumps);
}

/// Returns the levels of an array, strings or pairs of layers and factor, as one string. Empty if
/// the array has other items.
static std::string joinLevels(const JsonValue &array) {
  std::string levels;
  for (const JsonValue &item : array.items) {
    bool isPair = item.kind == JsonKind::Array && item.items.size() == 2 &&
                  item.items[0].kind == JsonKind::Integer &&
                  item.items[1].kind == JsonKind::Integer;
    std::string level = isPair ? item.items[0].text + "@" + item.items[1].text
                        : item.kind == JsonKind::String ? item.text
                                                        : "";
    if (level.find('@') == std::string::npos || level.find(' ') != std::string::npos) {
      return "";
    }
    levels += (levels.empty() ? "" : " ") + level;
  }
  return levels;
}

Attribute ValueReader::readHierarchy(const Fields &fields, const KeyInfo &key,
                                     const JsonValue &value, Places &places,
                                     const std::string &path) const {
  if (value.kind != JsonKind::String || value.text.empty()) {
    std::string levels = value.kind == JsonKind::Array ? joinLevels(value) : "";
    StringRef example = StringRef(key.hint).drop_front(StringRef(key.hint).find('"'));
    fields.mismatch(value, "hierarchy", "a string of levels LAYERS@FACTOR",
                    levels.empty() ? "write " + example.str() + ", for example"
                                   : "write " + quote(levels));
  }
  if (!value.escaped) { // columns in the text are offsets in the string
    places.add(path + ".text", value.position);
  }
  return builder.getStringAttr(value.text);
}

/// Reads numbers of layers. A level of an hnet has another level as its second item.
Attribute ValueReader::readCounts(const Fields &fields, const KeyInfo &key, const JsonValue &value,
                                  Places &places, const std::string &path, int level) const {
  if (level > mostNestedLevels) {
    fields.fail(value.position, "expected at most " + std::to_string(mostNestedLevels) +
                                    " levels in " + quote(key.name) +
                                    ", found more; write the innermost as a number of layers");
  }
  bool mayNest = key.type == "array of three";
  size_t count = key.type.find("two") != std::string_view::npos ? 2 : 3;
  SmallVector<Attribute> counts;
  for (auto [i, item] : llvm::enumerate(getItems(fields, value, key.name, count, key.hint))) {
    std::string inner = path + "." + std::to_string(i);
    places.add(inner, item.position);
    bool isLevel = mayNest && i == 1 && item.kind == JsonKind::Array;
    counts.push_back(isLevel ? readCounts(fields, key, item, places, inner, level + 1)
                             : Attribute(builder.getI64IntegerAttr(
                                   fields.integerAt(item, key.name, {0, 10000}))));
  }
  return builder.getArrayAttr(counts);
}

/// Reads settings of boundaries stages: an object, or for an hnet a list of them by level.
Attribute ValueReader::readBoundaries(const Fields &fields, const JsonValue &value, Places &places,
                                      const std::string &path) {
  const ObjectInfo &stage = *findStage("boundaries");
  std::vector<std::string_view> known = getKeyNames(stage);
  std::erase_if(known, [](std::string_view key) {
    return key == "op" || key == "from" || key == "frozen" || key == "share";
  });
  auto read = [&](const JsonValue &object, const std::string &prefix) -> Attribute {
    Fields own(object, file, "the boundaries");
    own.allowOnly(known);
    return readKeys(own, stage, places, prefix + ".", /*isPartial=*/true)
        .getDictionary(builder.getContext());
  };
  if (fields.name() != "an hnet stage") {
    return read(value, path);
  }
  if (value.kind != JsonKind::Array) {
    return builder.getArrayAttr(read(value, path));
  }
  SmallVector<Attribute> levels;
  for (auto [i, item] : llvm::enumerate(value.items)) {
    places.add(path + "." + std::to_string(i), item.position);
    levels.push_back(read(item, path + "." + std::to_string(i)));
  }
  return builder.getArrayAttr(levels);
}

/// Reads the layer settings of a part of a composite stage, including `defaults`.
Attribute ValueReader::readLayerObject(const Fields &fields, const KeyInfo &key,
                                       const JsonValue &value, Places &places,
                                       const std::string &path) {
  const ObjectInfo &section = getObject("DefaultsSection");
  Fields own(value, file, "the settings of " + quote(key.name) + " layers");
  own.allowOnly(getKeyNames(section));
  own.inherit(defaults);
  return readKeys(own, section, places, path + ".", /*isPartial=*/true)
      .getDictionary(builder.getContext());
}
