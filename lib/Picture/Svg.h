// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formats marks of a picture as SVG. Colors and fonts are attributes instead of style sheets,
// because the text is embedded in other pages.
#pragma once

#include "sluice/Support/Markup.h"

#include <string>
#include <vector>

namespace sluice::svg {

/// Formats a number with one decimal.
std::string number(double value);

/// Appends shapes to `out`. The first word of a mark is its class.
class Canvas {
protected:
  void add(const std::string &element) { out += element + "\n"; }
  void text(Point at, const std::string &words, const char *color, double size,
            const char *anchor = "start", bool bold = false);
  void polygon(const char *kind, const std::vector<Point> &points, const char *fill, double opacity,
               const char *stroke);
  void segment(const char *kind, Point from, Point to, const char *stroke, double strokeWidth,
               bool dashed = false);
  void arrow(const char *kind, Point from, Point to, const char *color);

  std::string out;
};

} // namespace sluice::svg
