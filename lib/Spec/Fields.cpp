// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Fields.h"
#include "sluice/Support/EditDistance.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace sluice::spec {
namespace {

std::string join(const std::vector<std::string_view> &names) {
  constexpr size_t most = 36; // names of streams can be any number
  std::string result;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) {
    result += (i == 0 ? "" : ", ") + quote(names[i]);
  }
  return names.size() > most ? result + ", ..." : result;
}

std::string shortest(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

} // namespace

std::optional<std::string_view> nearest(std::string_view found,
                                        const std::vector<std::string_view> &known) {
  size_t best = std::max<size_t>(2, found.size() / 2) + 1;
  std::optional<std::string_view> result;
  for (std::string_view name : known) {
    size_t distance = computeEditDistance(found, name);
    // A name that has no letter in the same place is not similar, however short it is.
    if (distance < best && distance < std::max(found.size(), name.size())) {
      best = distance;
      result = name;
    }
  }
  return result;
}

/// Letters and digits alone, small.
static std::string simplified(std::string_view name) {
  std::string result;
  for (char c : name) {
    bool isCapital = c >= 'A' && c <= 'Z',
         isOther = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    result += isCapital ? std::string(1, static_cast<char>(c - 'A' + 'a'))
                        : std::string(isOther ? 1 : 0, c);
  }
  return result;
}

/// Translates values that have other names in other programs.
static std::optional<std::string_view> translate(const std::string &found) {
  struct Translation {
    std::string_view other, name;
  };
  constexpr Translation translations[] = {{"silu", "swiglu"},        {"swish", "swiglu"},
                                          {"gelunew", "gelu_tanh"},  {"gelufast", "gelu_tanh"},
                                          {"mean", "average"},       {"conv", "convolution"},
                                          {"full", "bidirectional"}, {"autoregressive", "causal"},
                                          {"adamw8bit", "adamw"},    {"bfloat16", "bf16"},
                                          {"float32", "f32"},        {"sine", "sinusoidal"},
                                          {"rope", "rotary"},        {"lr", "learning_rate"},
                                          {"layernorm", "norm"},     {"pool", "shorten"},
                                          {"downsample", "shorten"}, {"mlp", "feed_forward"},
                                          {"ffn", "feed_forward"},   {"pieces", "bits"}};
  for (const Translation &each : translations) {
    if (each.other == found) {
      return each.name;
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> findLikely(std::string_view found,
                                           const std::vector<std::string_view> &known) {
  std::string plain = simplified(found);
  std::optional<std::string_view> translated = translate(plain), contained;
  for (std::string_view name : known) {
    std::string other = simplified(name);
    if (name == translated || other == plain) {
      return name;
    }
    bool isInside = other.size() > 2 && plain.find(other) != std::string::npos;
    if (isInside && (!contained || contained->size() < name.size())) {
      contained = name;
    }
  }
  std::optional<std::string_view> near = nearest(found, known);
  bool isSlip = near && computeEditDistance(found, *near) <= 2;
  return contained && !isSlip ? contained : near;
}

std::string suggestion(std::string_view found, const std::vector<std::string_view> &known,
                       std::string_view kind) {
  std::optional<std::string_view> translated = translate(simplified(found));
  bool isKnown = translated && std::ranges::find(known, *translated) != known.end();
  if (std::optional<std::string_view> name = isKnown ? translated : nearest(found, known)) {
    return "did you mean " + quote(*name) + "?";
  }
  return "known " + std::string(kind) + ": " + join(known);
}

Fields::Fields(const JsonValue &value, const std::string &file, std::string what)
    : value(value), file(file), what(std::move(what)) {
  if (value.kind != JsonKind::Object) {
    fail(value.position, "expected " + this->what + " ({ ... }), found " + describe(value));
  }
}

void Fields::allowOnly(const std::vector<std::string_view> &known) const {
  for (const JsonMember &member : value.members) {
    if (std::find(known.begin(), known.end(), member.key) == known.end()) {
      fail(member.position, "expected a key of " + what + ", found " + quote(member.key) + "; " +
                                suggestion(member.key, known, "keys"));
    }
  }
}

const JsonValue *Fields::find(std::string_view key) const {
  for (const JsonMember &member : value.members) {
    if (member.key == key) {
      return &member.value;
    }
  }
  return parent ? parent->find(key) : nullptr;
}

bool Fields::isOwn(std::string_view key) const {
  return std::ranges::any_of(value.members,
                             [&](const JsonMember &member) { return member.key == key; });
}

const JsonValue &Fields::need(std::string_view key, std::string_view type) const {
  if (const JsonValue *found = find(key)) {
    return *found;
  }
  fail(value.position,
       "expected " + quote(key) + " in " + what + ", found none; add it: " + std::string(type));
}

Position Fields::position(std::string_view key) const {
  const JsonValue *found = find(key);
  return found ? found->position : value.position;
}

void Fields::fail(Position position, std::string message) const {
  throw Failure{{locate(position), std::move(message)}};
}

void Fields::mismatch(const JsonValue &found, std::string_view name, std::string_view expected,
                      std::string_view remedy) const {
  std::string message =
      "expected " + std::string(expected) + " for " + quote(name) + ", found " + describe(found);
  fail(found.position, remedy.empty() ? message : message + "; " + std::string(remedy));
}

static std::string describe(Range range) {
  // Only a value beyond the upper bound needs this, but one wording for all is easier to learn.
  return "an integer from " + std::to_string(range.least) + " to " + std::to_string(range.largest);
}

int64_t Fields::integerAt(const JsonValue &found, std::string_view name, Range range) const {
  if (found.kind != JsonKind::Integer || found.integer < range.least ||
      found.integer > range.largest) {
    bool whole = found.kind == JsonKind::Number && found.number == std::floor(found.number) &&
                 std::fabs(found.number) <= static_cast<double>(mostSize);
    mismatch(found, name, describe(range), whole ? "write it without point and exponent" : "");
  }
  return found.integer;
}

double Fields::numberAt(const JsonValue &found, std::string_view name, Interval interval) const {
  bool numeric = found.kind == JsonKind::Integer || found.kind == JsonKind::Number;
  double x = found.number;
  if (!numeric || !interval.contains(x)) {
    mismatch(found, name, interval.describe());
  }
  if (double held = roundToF32(x); !interval.containsInF32(x)) {
    std::string rounded = std::isinf(held) ? "infinity" : shortest(held);
    fail(found.position, "expected " + interval.describe() + " in f32 for " + quote(name) +
                             ", found " + spec::describe(found) + ", which f32 rounds to " +
                             rounded + "; write a number that is further from it");
  }
  return x;
}

int64_t Fields::integer(std::string_view key, Range range) const {
  return integerAt(need(key, describe(range)), key, range);
}

int64_t Fields::integer(std::string_view key, Range range, int64_t otherwise) const {
  const JsonValue *found = find(key);
  return found ? integerAt(*found, key, range) : otherwise;
}

double Fields::number(std::string_view key, Interval interval) const {
  return numberAt(need(key, interval.describe()), key, interval);
}

bool Fields::boolean(std::string_view key, bool otherwise) const {
  const JsonValue *found = find(key);
  if (found && found->kind != JsonKind::Boolean) {
    mismatch(*found, key, "true or false");
  }
  return found ? found->boolean : otherwise;
}

std::string Fields::text(std::string_view key) const {
  const JsonValue &found = need(key, "a string");
  if (found.kind != JsonKind::String || found.text.empty()) {
    mismatch(found, key, "a string that is not empty");
  }
  return found.text;
}

std::string Fields::text(std::string_view key, const std::string &otherwise) const {
  return find(key) ? text(key) : otherwise;
}

const std::vector<JsonValue> &getItems(const Fields &fields, const JsonValue &found,
                                       std::string_view name, size_t count, std::string_view type) {
  if (found.kind != JsonKind::Array) {
    fields.mismatch(found, name, type);
  }
  if (found.items.size() != count) {
    fields.fail(found.position, "expected " + std::string(type) + " for " + quote(name) +
                                    ", found an array of " + std::to_string(found.items.size()));
  }
  return found.items;
}

size_t findChoice(const Fields &fields, std::string_view key, const JsonValue &found,
                  const std::vector<std::string_view> &names) {
  std::string expected;
  for (size_t i = 0; i < names.size(); ++i) {
    expected += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + quote(names[i]);
  }
  auto at = std::find(names.begin(), names.end(), found.text);
  if (found.kind != JsonKind::String) {
    fields.mismatch(found, key, expected);
  }
  if (at == names.end()) {
    std::optional<std::string_view> near = findLikely(found.text, names);
    fields.mismatch(found, key, expected, near ? "did you mean " + quote(*near) + "?" : "");
  }
  return static_cast<size_t>(at - names.begin());
}

} // namespace sluice::spec
