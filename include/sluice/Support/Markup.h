// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text and numbers in HTML pages and SVG pictures.
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

} // namespace sluice
