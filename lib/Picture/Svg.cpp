// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Svg.h"
#include <algorithm>
#include <cmath>

using namespace sluice;
using namespace sluice::svg;

std::string sluice::svg::number(double value) { return showNumber(value, 1); }

void Canvas::text(Point at, const std::string &words, const char *color, double size,
                  const char *anchor, bool bold) {
  add(element("text", escapeXml(words),
              attributes("x", at.x, "y", at.y, "font-size", size, "text-anchor", anchor, "fill",
                         color, "font-weight", bold ? "600" : "")));
}

void Canvas::polygon(const char *kind, const std::vector<Point> &points, const char *fill,
                     double opacity, const char *stroke) {
  std::string corners;
  for (const Point &point : points) {
    corners += (corners.empty() ? "" : " ") + number(point.x) + "," + number(point.y);
  }
  add(emptyElement("polygon",
                   attributes("class", kind, "points", corners, "fill", fill, "fill-opacity",
                              opacity, "stroke", stroke, "stroke-width", 0.8)));
}

void Canvas::segment(const char *kind, Point from, Point to, const char *stroke, double strokeWidth,
                     bool dashed) {
  add(emptyElement("line", attributes("class", kind, "x1", from.x, "y1", from.y, "x2", to.x, "y2",
                                      to.y, "stroke", stroke, "stroke-width", strokeWidth,
                                      "stroke-dasharray", dashed ? "3 3" : "")));
}

void Canvas::arrow(const char *kind, Point from, Point to, const char *color) {
  double dx = to.x - from.x, dy = to.y - from.y, length = std::max(1.0, std::hypot(dx, dy));
  dx /= length;
  dy /= length;
  Point neck{to.x - 7 * dx, to.y - 7 * dy};
  segment(kind, from, neck, color, 1.6);
  polygon("arrow-head",
          {to, {neck.x - 3.5 * dy, neck.y + 3.5 * dx}, {neck.x + 3.5 * dy, neck.y - 3.5 * dx}},
          color, 1, color);
}
