// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Import/WeightMap.h"

#include "sluice/Support/EditDistance.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/PlacedJson.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::runtime {
namespace {

constexpr int64_t mostSize = std::numeric_limits<int32_t>::max();

std::string showPlace(const std::string &origin, TextPosition position) {
  return origin + ":" + std::to_string(position.line) + ":" + std::to_string(position.column);
}

class MapReader {
public:
  MapReader(std::string origin, const std::map<std::string, int64_t> &sizes)
      : origin(std::move(origin)), given(sizes) {}

  WeightMap read(std::string_view text);

private:
  [[noreturn]] void fail(TextPosition position, const std::string &message) const {
    throw UserError(showPlace(origin, position) + ": " + message);
  }
  [[noreturn]] void failType(const JsonValue &value, std::string_view key,
                             const std::string &expected) const {
    fail(value.position,
         "expected " + expected + " for " + quote(key) + ", found " + describe(value));
  }
  void requireKeys(const JsonValue &object, const std::string &what,
                   const std::vector<std::string_view> &known) const;
  const JsonValue *find(const JsonValue &object, std::string_view key) const;
  const JsonValue &need(const JsonValue &object, std::string_view key,
                        const std::string &expected) const;

  std::string getText(const JsonValue &value, std::string_view key) const;
  bool getBoolean(const JsonValue &object, std::string_view key) const;
  int64_t getInteger(const JsonValue &value, std::string_view key, int64_t least,
                     int64_t most) const;
  int64_t getSize(const JsonValue &value, std::string_view key) const;
  NamePattern getPattern(const JsonValue &value, std::string_view key, bool isPlain) const;
  std::vector<NamePattern> getPatterns(const JsonValue &value, std::string_view key) const;
  void requireKnown(const JsonValue &value, const NamePattern &pattern, const NamePattern &of,
                    std::string_view key) const;

  void readSizes(const JsonValue *value);
  ImportRule readRule(const JsonValue &value) const;
  void readMove(const JsonValue &value, ImportRule &rule) const;
  void readRotation(const JsonValue &value, ImportRule &rule) const;
  void readDrop(const JsonValue &value, ImportRule &rule) const;
  void readFill(const JsonValue &value, ImportRule &rule) const;

  std::string origin;
  const std::map<std::string, int64_t> &given;
  std::map<std::string, int64_t> sizes;
};

std::string join(const std::vector<std::string_view> &names) {
  std::string list;
  for (std::string_view name : names) {
    list += (list.empty() ? "" : ", ") + quote(name);
  }
  return list;
}

/// Returns "did you mean" with the most similar name, or the list of names.
std::string suggest(std::string_view found, const std::vector<std::string_view> &known,
                    const std::string &kind) {
  size_t best = 3;
  std::string_view nearest;
  for (std::string_view name : known) {
    if (size_t distance = computeEditDistance(found, name); distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest.empty() ? "known " + kind + ": " + (known.empty() ? "none" : join(known))
                         : "did you mean " + quote(nearest) + "?";
}

} // namespace

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void MapReader::requireKeys(const JsonValue &object, const std::string &what,
                            const std::vector<std::string_view> &known) const {
  if (object.kind != JsonKind::Object) {
    fail(object.position, "expected " + what + " ({ ... }), found " + describe(object));
  }
  for (const JsonMember &member : object.members) {
    if (std::ranges::find(known, member.key) == known.end()) {
      fail(member.position, "expected a key of " + what + ", found " + quote(member.key) + "; " +
                                suggest(member.key, known, "keys"));
    }
  }
}

const JsonValue *MapReader::find(const JsonValue &object, std::string_view key) const {
  auto found = std::ranges::find(object.members, key, &JsonMember::key);
  return found == object.members.end() ? nullptr : &found->value;
}

const JsonValue &MapReader::need(const JsonValue &object, std::string_view key,
                                 const std::string &expected) const {
  const JsonValue *value = find(object, key);
  if (!value) {
    fail(object.position, "expected the key " + quote(key) + ", " + expected + ", found none");
  }
  return *value;
}

std::string MapReader::getText(const JsonValue &value, std::string_view key) const {
  if (value.kind != JsonKind::String) {
    failType(value, key, "a string");
  }
  return value.text;
}

bool MapReader::getBoolean(const JsonValue &object, std::string_view key) const {
  const JsonValue *value = find(object, key);
  if (value && value->kind != JsonKind::Boolean) {
    failType(*value, key, "true or false");
  }
  return value && value->boolean;
}

int64_t MapReader::getInteger(const JsonValue &value, std::string_view key, int64_t least,
                              int64_t most) const {
  if (value.kind != JsonKind::Integer || value.integer < least || value.integer > most) {
    failType(value, key,
             "an integer from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value.integer;
}

/// Returns a number, or the one that "sizes" gives for a name.
int64_t MapReader::getSize(const JsonValue &value, std::string_view key) const {
  if (value.kind != JsonKind::String) {
    return getInteger(value, key, 1, mostSize);
  }
  auto found = sizes.find(value.text);
  if (found == sizes.end()) {
    std::vector<std::string_view> known;
    for (const auto &[name, size] : sizes) {
      known.push_back(name);
    }
    fail(value.position, "expected a number or the name of one of \"sizes\" for " + quote(key) +
                             ", found " + quote(value.text) + "; " +
                             suggest(value.text, known, "sizes"));
  }
  return found->second;
}

/// Parses a pattern. A plain one is matched with names, so its numbers have no arithmetic.
NamePattern MapReader::getPattern(const JsonValue &value, std::string_view key,
                                  bool isPlain) const {
  std::string problem;
  std::optional<NamePattern> pattern = NamePattern::parse(getText(value, key), problem);
  if (!pattern) {
    fail(value.position, quote(key) + ": " + problem);
  }
  if (isPlain && !pattern->isPlain()) {
    fail(value.position, quote(key) +
                             ": expected placeholders such as {i} alone in a pattern "
                             "that names are matched with, found " +
                             quote(value.text, 80) + "; move the arithmetic to \"to\"");
  }
  return *pattern;
}

/// Returns the patterns of a text or of an array of texts.
std::vector<NamePattern> MapReader::getPatterns(const JsonValue &value,
                                                std::string_view key) const {
  bool isMatched = key == "from";
  if (value.kind != JsonKind::Array) {
    return {getPattern(value, key, isMatched)};
  }
  if (value.items.empty()) {
    failType(value, key, "a name or an array of names");
  }
  std::vector<NamePattern> patterns;
  for (const JsonValue &item : value.items) {
    patterns.push_back(getPattern(item, key, isMatched && patterns.empty()));
  }
  return patterns;
}

/// Requires that `of` has every placeholder of `pattern`.
void MapReader::requireKnown(const JsonValue &value, const NamePattern &pattern,
                             const NamePattern &of, std::string_view key) const {
  for (const std::string &name : pattern.variables()) {
    if (!of.variables().contains(name)) {
      fail(value.position,
           "expected placeholders of " + quote(of.text(), 80) + " in " + quote(key) + ", found " +
               quote(name == "*" ? "*" : "{" + name + "}") + " in " + quote(pattern.text(), 80));
    }
  }
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

void MapReader::readMove(const JsonValue &value, ImportRule &rule) const {
  requireKeys(value, "a rule with \"from\"",
              {"from", "to", "transpose", "axis", "parts", "rotate_half", "optional"});
  const JsonValue &from = *find(value, "from");
  const JsonValue &to = need(value, "to", "the weights that the tensors become");
  rule.from = getPatterns(from, "from");
  rule.to = getPatterns(to, "to");
  for (const NamePattern &pattern : rule.from) {
    requireKnown(from, pattern, rule.from.front(), "from");
  }
  for (const NamePattern &pattern : rule.to) {
    requireKnown(to, pattern, rule.from.front(), "to");
  }
  // Otherwise two tensors would become one weight.
  for (const std::string &name : rule.from.front().variables()) {
    bool isUsed = std::ranges::all_of(
        rule.to, [&](const NamePattern &pattern) { return pattern.variables().contains(name); });
    if (!isUsed) {
      fail(to.position, "expected every placeholder of " + quote(rule.from.front().text(), 80) +
                            " in each name of \"to\", found one without " +
                            quote(name == "*" ? "*" : "{" + name + "}"));
    }
  }
  rule.isTransposed = getBoolean(value, "transpose");
  if (const JsonValue *axis = find(value, "axis")) {
    rule.axis = static_cast<size_t>(getInteger(*axis, "axis", 0, 1));
  }
  if (const JsonValue *parts = find(value, "parts")) {
    if (parts->kind != JsonKind::Array || parts->items.size() != rule.to.size()) {
      failType(*parts, "parts", "an array with a size for each name of \"to\"");
    }
    for (const JsonValue &item : parts->items) {
      rule.parts.push_back(getSize(item, "parts"));
    }
  }
  rule.rotatedHeads.assign(rule.to.size(), 0);
  if (const JsonValue *size = find(value, "rotate_half")) {
    readRotation(*size, rule);
  }
}

void MapReader::readRotation(const JsonValue &value, ImportRule &rule) const {
  bool isList = value.kind == JsonKind::Array;
  if (isList ? value.items.size() != rule.to.size() : rule.to.size() != 1) {
    failType(value, "rotate_half",
             rule.to.size() == 1 ? "a head size"
                                 : "an array with a head size, or 0, for each name of \"to\"");
  }
  for (size_t i = 0; i < rule.to.size(); ++i) {
    const JsonValue &item = isList ? value.items[i] : value;
    bool isNone = isList && item.kind == JsonKind::Integer && item.integer == 0;
    rule.rotatedHeads[i] = isNone ? 0 : getSize(item, "rotate_half");
    if (rule.rotatedHeads[i] % 2 != 0) {
      fail(item.position, "expected an even head size for \"rotate_half\", found " +
                              std::to_string(rule.rotatedHeads[i]));
    }
  }
}

void MapReader::readDrop(const JsonValue &value, ImportRule &rule) const {
  requireKeys(value, "a rule with \"drop\"", {"drop", "copy_of", "optional"});
  rule.dropped = getPattern(*find(value, "drop"), "drop", true);
  if (const JsonValue *original = find(value, "copy_of")) {
    NamePattern pattern = getPattern(*original, "copy_of", true);
    if (!pattern.variables().empty()) {
      failType(*original, "copy_of", "the name of one tensor, without placeholders,");
    }
    rule.original = pattern.text();
  }
}

void MapReader::readFill(const JsonValue &value, ImportRule &rule) const {
  requireKeys(value, "a rule with \"fill\"", {"fill", "to"});
  const JsonValue &number = *find(value, "fill");
  if (number.kind != JsonKind::Integer && number.kind != JsonKind::Number) {
    failType(number, "fill", "a number");
  }
  rule.value = static_cast<float>(number.number);
  if (!std::isfinite(rule.value)) {
    failType(number, "fill", "a number that is finite in f32");
  }
  const JsonValue &to = need(value, "to", "the weights that are filled");
  rule.filled = getPattern(to, "to", true);
}

ImportRule MapReader::readRule(const JsonValue &value) const {
  if (value.kind != JsonKind::Object) {
    fail(value.position, "expected a rule ({ ... }), found " + describe(value));
  }
  ImportRule rule;
  rule.position = value.position;
  int forms = 0;
  for (const char *key : {"from", "drop", "fill"}) {
    forms += find(value, key) ? 1 : 0;
  }
  if (forms != 1) {
    fail(value.position, std::string("expected one of \"from\", \"drop\" and \"fill\" in a rule, "
                                     "found ") +
                             (forms == 0 ? "none" : "several"));
  }
  if (find(value, "from")) {
    readMove(value, rule);
  } else if (find(value, "drop")) {
    readDrop(value, rule);
  } else {
    readFill(value, rule);
  }
  rule.isOptional = getBoolean(value, "optional");
  return rule;
}

//===----------------------------------------------------------------------===//
// The map
//===----------------------------------------------------------------------===//

void MapReader::readSizes(const JsonValue *value) {
  std::vector<std::string_view> known;
  if (value) {
    if (value->kind != JsonKind::Object) {
      failType(*value, "sizes", "an object of names and numbers");
    }
    for (const JsonMember &member : value->members) {
      bool isGiven = member.value.kind == JsonKind::Null;
      sizes[member.key] = isGiven ? 0 : getInteger(member.value, member.key, 1, mostSize);
      known.push_back(member.key);
    }
  }
  for (const auto &[name, size] : given) {
    if (!sizes.contains(name)) {
      throw UserError("--size " + name + "=" + std::to_string(size) +
                      ": expected a name of \"sizes\" in " + origin + ", found " + quote(name) +
                      "; " + suggest(name, known, "sizes"));
    }
    sizes[name] = size;
  }
  for (const auto &[name, size] : sizes) {
    if (size == 0) {
      throw UserError(origin + ": expected a number for the size " + quote(name) +
                      ", which the map leaves to its user, found none; give --size " + name + "=N");
    }
  }
}

WeightMap MapReader::read(std::string_view text) {
  JsonValue root;
  constexpr JsonNouns nouns{"an object with a map of weights ({ ... })", "map"};
  if (std::optional<JsonError> error = parsePlacedJson(text, nouns, root)) {
    fail(error->position, error->message);
  }
  requireKeys(root, "a map of weights", {"sluice_map", "about", "sizes", "prefixes", "rules"});
  getInteger(need(root, "sluice_map", "the version of this format, 1"), "sluice_map", 1, 1);
  if (const JsonValue *about = find(root, "about")) {
    getText(*about, "about");
  }
  readSizes(find(root, "sizes"));
  WeightMap map;
  map.origin = origin;
  if (const JsonValue *prefixes = find(root, "prefixes")) {
    if (prefixes->kind != JsonKind::Array) {
      failType(*prefixes, "prefixes", "an array of texts");
    }
    for (const JsonValue &prefix : prefixes->items) {
      if (getText(prefix, "prefixes").empty()) {
        failType(prefix, "prefixes", "texts of at least one character");
      }
      map.prefixes.push_back(prefix.text);
    }
  }
  const JsonValue &rules = need(root, "rules", "an array of rules");
  if (rules.kind != JsonKind::Array || rules.items.empty()) {
    failType(rules, "rules", "an array of rules");
  }
  for (const JsonValue &rule : rules.items) {
    map.rules.push_back(readRule(rule));
  }
  return map;
}

std::string WeightMap::showPlace(const ImportRule &rule) const {
  return runtime::showPlace(origin, rule.position);
}

WeightMap parseWeightMap(std::string_view text, const std::string &origin,
                         const std::map<std::string, int64_t> &sizes) {
  return MapReader(origin, sizes).read(text);
}

} // namespace sluice::runtime
