// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/Markup.h"
#include "sluice/Support/Format.h"

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

} // namespace sluice
