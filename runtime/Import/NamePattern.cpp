// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Import/NamePattern.h"

#include "sluice/Support/Text.h"

#include <algorithm>
#include <charconv>

namespace sluice::runtime {
namespace {

constexpr size_t mostDigits = 9, mostBytes = 1000, mostPlaceholders = 16;
constexpr int64_t mostNumber = 999999999;

bool isDigit(char c) { return c >= '0' && c <= '9'; }

size_t countDigits(std::string_view text) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), isDigit) - text.begin());
}

/// Parses a number of at most 9 digits without leading zeros; none for another text.
std::optional<int64_t> findNumber(std::string_view text) {
  if (text.empty() || text.size() > mostDigits || countDigits(text) != text.size() ||
      (text.size() > 1 && text.front() == '0')) {
    return std::nullopt;
  }
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

} // namespace

/// Parses `i`, `i+1`, `i-1`, `2*i` or `2*i+1`.
bool NamePattern::addPlaceholder(std::string_view inside, std::string &problem) {
  Part part{Part::Kind::number, {}};
  std::string_view rest = inside;
  bool isWell = true;
  if (size_t star = rest.find('*'); star != std::string_view::npos) {
    std::optional<int64_t> factor = findNumber(rest.substr(0, star));
    isWell = factor && *factor > 0;
    part.factor = factor.value_or(1);
    rest.remove_prefix(star + 1);
  }
  if (size_t sign = rest.find_first_of("+-"); sign != std::string_view::npos) {
    std::optional<int64_t> offset = findNumber(rest.substr(sign + 1));
    isWell = isWell && offset;
    part.offset = offset.value_or(0) * (rest[sign] == '-' ? -1 : 1);
    rest = rest.substr(0, sign);
  }
  auto isLetter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (!isWell || rest.empty() || !std::ranges::all_of(rest, isLetter)) {
    problem = "expected a placeholder such as {i}, {i+1} or {2*i+1}, found " +
              quote("{" + std::string(inside) + "}");
    return false;
  }
  part.text = rest;
  names.insert(part.text);
  parts.push_back(std::move(part));
  return true;
}

std::optional<NamePattern> NamePattern::parse(std::string_view text, std::string &problem) {
  NamePattern pattern;
  pattern.written = text;
  if (text.empty()) {
    problem = "expected the name of a tensor, found an empty text";
    return std::nullopt;
  }
  if (text.size() > mostBytes) {
    problem = "expected a name of at most " + std::to_string(mostBytes) + " bytes, found " +
              std::to_string(text.size());
    return std::nullopt;
  }
  size_t placeholders = 0;
  while (!text.empty()) {
    size_t literal = std::min(text.find_first_of("{}*"), text.size());
    if (literal > 0) {
      pattern.parts.push_back({Part::Kind::literal, std::string(text.substr(0, literal))});
      text.remove_prefix(literal);
      continue;
    }
    if (!pattern.parts.empty() && pattern.parts.back().kind != Part::Kind::literal) {
      problem =
          "expected a text between two placeholders, found none in " + quote(pattern.written, 80);
      return std::nullopt;
    }
    if (++placeholders > mostPlaceholders) {
      problem = "expected at most " + std::to_string(mostPlaceholders) +
                " placeholders, found more in " + quote(pattern.written, 80);
      return std::nullopt;
    }
    if (text.front() == '*') {
      if (!pattern.names.insert("*").second) {
        problem = "expected at most one *, found several in " + quote(pattern.written, 80);
        return std::nullopt;
      }
      pattern.parts.push_back({Part::Kind::text, "*"});
      text.remove_prefix(1);
      continue;
    }
    size_t end = text.find('}');
    if (text.front() == '}' || end == std::string_view::npos) {
      problem = "expected braces in pairs around a placeholder, found one alone in " +
                quote(pattern.written, 80);
      return std::nullopt;
    }
    if (!pattern.addPlaceholder(text.substr(1, end - 1), problem)) {
      return std::nullopt;
    }
    text.remove_prefix(end + 1);
  }
  return pattern;
}

bool NamePattern::isPlain() const {
  return std::ranges::all_of(parts,
                             [](const Part &part) { return part.factor == 1 && part.offset == 0; });
}

bool NamePattern::matchNumber(size_t part, std::string_view rest, NameMatch &match) const {
  const std::string &name = parts[part].text;
  size_t digits = countDigits(rest);
  std::optional<int64_t> number = findNumber(rest.substr(0, digits));
  if (!number) {
    return false;
  }
  auto [known, isNew] = match.numbers.try_emplace(name, *number);
  if (known->second == *number && matchFrom(part + 1, rest.substr(digits), match)) {
    return true;
  }
  if (isNew) {
    match.numbers.erase(name);
  }
  return false;
}

/// Matches the parts from `part` on with all of `rest`. A number takes all digits and a pattern has
/// one `*`, so the time grows with the square of the length of the name.
bool NamePattern::matchFrom(size_t part, std::string_view rest, NameMatch &match) const {
  if (part == parts.size()) {
    return rest.empty();
  }
  const Part &at = parts[part];
  switch (at.kind) {
  case Part::Kind::literal:
    return rest.starts_with(at.text) && matchFrom(part + 1, rest.substr(at.text.size()), match);
  case Part::Kind::number:
    return matchNumber(part, rest, match);
  case Part::Kind::text:
    for (size_t length = 0; length <= rest.size(); ++length) {
      if (matchFrom(part + 1, rest.substr(length), match)) {
        match.text = rest.substr(0, length);
        return true;
      }
    }
    return false;
  }
  return false;
}

std::optional<NameMatch> NamePattern::match(std::string_view name) const {
  NameMatch match;
  return matchFrom(0, name, match) ? std::optional(std::move(match)) : std::nullopt;
}

std::optional<std::string> NamePattern::fill(const NameMatch &match) const {
  std::string name;
  for (const Part &part : parts) {
    if (part.kind == Part::Kind::number) {
      int64_t number = part.factor * match.numbers.at(part.text) + part.offset;
      if (number < 0 || number > mostNumber) {
        return std::nullopt;
      }
      name += std::to_string(number);
    } else {
      name += part.kind == Part::Kind::text ? match.text : part.text;
    }
  }
  return name;
}

} // namespace sluice::runtime
