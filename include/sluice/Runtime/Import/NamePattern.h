// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Patterns of names of tensors, and names that follow from a match. `{i}` is a number, `*` any
// text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

/// Values of the placeholders of a pattern in one name.
struct NameMatch {
  std::map<std::string, int64_t> numbers; ///< by the name of the placeholder
  std::string text;                       ///< the text that matched `*`
};

/// A name with placeholders. `{i}` matches a number of at most 9 digits without leading zeros,
/// and `*`, at most once, for any text. In a name that follows from a match, a number may have a
/// factor and an offset: `{2*i+1}`.
class NamePattern {
public:
  /// Returns the pattern, or sets `problem` to the expected and the found text.
  static std::optional<NamePattern> parse(std::string_view text, std::string &problem);

  const std::string &text() const { return written; }
  /// Names of the placeholders; `*` is one of them.
  const std::set<std::string> &variables() const { return names; }
  /// Returns true if every number is a placeholder alone, as `match` requires.
  bool isPlain() const;

  /// Returns the values of the placeholders in `name`; none if it does not fit.
  std::optional<NameMatch> match(std::string_view name) const;
  /// Returns the name for a match of a pattern that has all variables of this one. Returns none for
  /// a number below 0.
  std::optional<std::string> fill(const NameMatch &match) const;

private:
  struct Part {
    enum class Kind : uint8_t { literal, number, text } kind;
    std::string text; ///< the literal, or the name of the placeholder
    int64_t factor = 1, offset = 0;
  };

  bool addPlaceholder(std::string_view inside, std::string &problem);
  bool matchFrom(size_t part, std::string_view rest, NameMatch &match) const;
  bool matchNumber(size_t part, std::string_view rest, NameMatch &match) const;

  std::string written;
  std::vector<Part> parts;
  std::set<std::string> names;
};

} // namespace sluice::runtime
