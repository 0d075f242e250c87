// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/Markup.h"
#include "sluice/Support/Format.h"

#include <initializer_list>

namespace sluice {

/// Replaces control characters, which pages and pictures may not contain, except for `kept`.
static std::string escape(std::string_view text, std::string_view kept,
                          std::string_view replacement) {
  std::string result;
  for (char c : text) {
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      bool isControl = static_cast<unsigned char>(c) < 0x20;
      result += isControl && kept.find(c) == std::string_view::npos ? replacement
                                                                    : std::string_view(&c, 1);
    }
  }
  return result;
}

std::string showNumber(double value, int digits) { return format("%.*f", digits, value); }

std::string escapeXml(std::string_view text) { return escape(text, "", " "); }

std::string escapeHtml(std::string_view text) { return escape(text, "\n\t", "\ufffd"); }

/// Joins pieces of markup.
static std::string join(std::initializer_list<std::string_view> pieces) {
  std::string result;
  for (std::string_view piece : pieces) {
    result += piece;
  }
  return result;
}

std::string attribute(std::string_view name, std::string_view text) {
  return text.empty() ? "" : join({" ", name, "=\"", escapeHtml(text), "\""});
}

std::string attribute(std::string_view name, int number) {
  return attribute(name, std::to_string(number));
}

std::string attribute(std::string_view name, double number) {
  return attribute(name, showNumber(number, 1));
}

std::string startTag(std::string_view name, const MarkupAttributes &attributes) {
  return join({"<", name, attributes.markup, ">"});
}

std::string emptyElement(std::string_view name, const MarkupAttributes &attributes) {
  return join({"<", name, attributes.markup, "/>"});
}

std::string element(std::string_view name, std::string_view content,
                    const MarkupAttributes &attributes) {
  return join({"<", name, attributes.markup, ">", content, "</", name, ">"});
}

std::string textElement(std::string_view name, std::string_view text,
                        const MarkupAttributes &attributes) {
  return element(name, escapeHtml(text), attributes);
}

} // namespace sluice
