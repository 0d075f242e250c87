// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements of HTML pages and SVG pictures, their text and their numbers.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// A point of a picture.
struct Point {
  double x, y;
};

/// Formats like printf's %.*f.
std::string showNumber(double value, int digits);

/// Escapes text for elements and attributes of XML; control characters become spaces.
std::string escapeXml(std::string_view text);

/// Escapes text for elements and attributes of a page. Line ends and tabs stay; other control
/// characters, which an untrained model generates, become U+FFFD.
std::string escapeHtml(std::string_view text);

/// The attributes of an element, escaped: ` x="1" y="2"`. A type of their own, so that content
/// cannot take their place.
struct MarkupAttributes {
  std::string markup;
};

/// Writes ` name="text"`, with the text escaped; nothing if the text is empty.
std::string attribute(std::string_view name, std::string_view text);
/// Writes ` name="1"` for an int and ` name="1.0"` for other numbers.
std::string attribute(std::string_view name, int number);
std::string attribute(std::string_view name, double number);

/// Writes the attributes of an element: names, each with a text or a number after it.
template <typename Value, typename... Rest>
MarkupAttributes attributes(std::string_view name, const Value &value, const Rest &...rest) {
  MarkupAttributes result{attribute(name, value)};
  if constexpr (sizeof...(rest) > 0) {
    result.markup += attributes(rest...).markup;
  }
  return result;
}

/// Writes `<name attributes>`.
std::string startTag(std::string_view name, const MarkupAttributes &attributes = {});

/// Writes an SVG element without content: `<name attributes/>`.
std::string emptyElement(std::string_view name, const MarkupAttributes &attributes);

/// Writes an element around `content`, which is markup: `<name attributes>content</name>`.
std::string element(std::string_view name, std::string_view content,
                    const MarkupAttributes &attributes = {});

/// Writes an element around text, which is escaped for pages.
std::string textElement(std::string_view name, std::string_view text,
                        const MarkupAttributes &attributes = {});

} // namespace sluice
