// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Typed access to the keys of a JSON object. Every function throws Failure if the object does not
// fit, with a message that names the key, the expected and the found value.

#ifndef SLUICE_LIB_SPEC_FIELDS_H
#define SLUICE_LIB_SPEC_FIELDS_H

#include "Json.h"
#include "sluice/Dialect/Spec/Keys.h"
#include "sluice/Support/Limits.h"

#include <limits>
#include <optional>
#include <utility>

namespace sluice::spec {

constexpr Interval probability = {0, 1, true, false};
constexpr Interval positive = {0, std::numeric_limits<double>::infinity(), false, true};

template <typename Enum> using EnumNames = std::vector<std::pair<std::string_view, Enum>>;

/// Returns the known name most similar to `found`; nothing if none is similar enough to be a typing
/// error.
std::optional<std::string_view> nearest(std::string_view found,
                                        const std::vector<std::string_view> &known);

/// Returns the name of `known` that a value most likely means: another program's word for it, the
/// same word in another spelling ("RMSNorm" for "rms"), or the most similar name.
std::optional<std::string_view> findLikely(std::string_view found,
                                           const std::vector<std::string_view> &known);

/// Returns `did you mean "x"?`, or `known KIND: "a", "b", "c"`.
std::string suggestion(std::string_view found, const std::vector<std::string_view> &known,
                       std::string_view kind);

/// One object of the spec. `what` names it in messages: "a shift stage".
class Fields {
public:
  /// Checks that `value` is an object. The value must outlive this.
  Fields(const JsonValue &value, const std::string &file, std::string what);

  /// Refuses the first key that is none of `known`.
  void allowOnly(const std::vector<std::string_view> &known) const;
  /// Settings of `fallback` hold where a key is absent here.
  void inherit(const Fields *fallback) { parent = fallback; }

  /// Returns the value of a key in this object or the inherited one; null if it is absent.
  const JsonValue *find(std::string_view key) const;
  /// Returns the value of a key, and throws if it is absent; `type` names the missing type.
  const JsonValue &need(std::string_view key, std::string_view type) const;
  /// Returns true if the key is in this object, not in the inherited one.
  bool isOwn(std::string_view key) const;

  int64_t integer(std::string_view key, Range range) const;
  int64_t integer(std::string_view key, Range range, int64_t otherwise) const;
  /// Returns a number as kernels store it, in f32: rejects a number that f32 rounds to 0, to
  /// infinity or to a bound that the interval excludes.
  double number(std::string_view key, Interval interval) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key) const;
  std::string text(std::string_view key, const std::string &otherwise) const;
  template <typename Enum>
  Enum choice(std::string_view key, const EnumNames<Enum> &names, Enum otherwise) const;

  /// Return a value that is not the value of a key, such as an item of an array. `name` is for
  /// messages.
  int64_t integerAt(const JsonValue &value, std::string_view name, Range range) const;
  double numberAt(const JsonValue &value, std::string_view name, Interval interval) const;

  /// Throws `expected EXPECTED for "name", found VALUE`, with a remedy if there is one.
  [[noreturn]] void mismatch(const JsonValue &value, std::string_view name,
                             std::string_view expected, std::string_view remedy = "") const;
  [[noreturn]] void fail(Position position, std::string message) const;
  SourceLocation locate(Position position) const { return {file, position.line, position.column}; }
  /// Return the place of the value of `key`, or of this object.
  Position position(std::string_view key) const;
  Position position() const { return value.position; }

  const std::string &name() const { return what; }

private:
  const JsonValue &value;
  const std::string &file;
  std::string what;
  const Fields *parent = nullptr;
};

/// Returns the items of an array, the value of `name`, that has exactly `count`; `type` is the
/// expected type.
const std::vector<JsonValue> &getItems(const Fields &fields, const JsonValue &value,
                                       std::string_view name, size_t count, std::string_view type);

/// Returns the index of the name that the value of `key` is.
size_t findChoice(const Fields &fields, std::string_view key, const JsonValue &value,
                  const std::vector<std::string_view> &names);

template <typename Enum>
Enum Fields::choice(std::string_view key, const EnumNames<Enum> &names, Enum otherwise) const {
  const JsonValue *found = find(key);
  if (!found) {
    return otherwise;
  }
  std::vector<std::string_view> spellings;
  for (const auto &entry : names) {
    spellings.push_back(entry.first);
  }
  return names[findChoice(*this, key, *found, spellings)].second;
}

} // namespace sluice::spec

#endif // SLUICE_LIB_SPEC_FIELDS_H
