// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Svg.h"
#include <algorithm>
#include <cmath>

using namespace sluice;
using namespace sluice::svg;

std::string sluice::svg::number(double value) { return showNumber(value, 1); }

void Canvas::text(Point at, const std::string &words, const char *color, double size,
                  const char *anchor, bool bold) {
  out += "<text x=\"" + number(at.x) + "\" y=\"" + number(at.y) + "\" font-size=\"" + number(size) +
         "\" text-anchor=\"" + anchor + "\" fill=\"" + color + "\"" +
         (bold ? " font-weight=\"600\"" : "") + ">" + escapeXml(words) + "</text>\n";
}

void Canvas::polygon(const char *kind, const std::vector<Point> &points, const char *fill,
                     double opacity, const char *stroke) {
  out += std::string("<polygon class=\"") + kind + "\" points=\"";
  for (const Point &point : points) {
    out += (&point == &points.front() ? "" : " ") + number(point.x) + "," + number(point.y);
  }
  out += std::string("\" fill=\"") + fill + "\" fill-opacity=\"" + number(opacity) +
         "\" stroke=\"" + stroke + "\" stroke-width=\"0.8\"/>\n";
}

void Canvas::segment(const char *kind, Point from, Point to, const char *stroke, double strokeWidth,
                     bool dashed) {
  out += std::string("<line class=\"") + kind + "\" x1=\"" + number(from.x) + "\" y1=\"" +
         number(from.y) + "\" x2=\"" + number(to.x) + "\" y2=\"" + number(to.y) + "\" stroke=\"" +
         stroke + "\" stroke-width=\"" + number(strokeWidth) + "\"" +
         (dashed ? " stroke-dasharray=\"3 3\"" : "") + "/>\n";
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
