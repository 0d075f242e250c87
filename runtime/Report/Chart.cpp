// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Chart.h"

#include "Html.h"
#include "sluice/Support/Format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

namespace sluice::runtime {
namespace {

// Lengths are in units of the view box. Pages display text in 12 units, or in 20 if they are
// narrow: a chart then has half of its width, so all distances allow for 20.
constexpr int width = 720, right = 34, top = 12, plotHeight = 214;
constexpr size_t mostPoints = 300; // per curve
constexpr double fileFont = 12, largestFont = 20;

/// Returns an upper estimate of a text's width, as the reader's font is unknown. DejaVu Sans, the
/// widest common font, has digits of 0.64 of the size and letters of 0.6 on average.
double estimateWidth(const std::string &text, double font) {
  // First byte of a character.
  auto isFirst = [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; };
  return 0.64 * font * static_cast<double>(std::count_if(text.begin(), text.end(), isFirst));
}

/// Reduces a curve to at most `most` points, each the mean of a run of adjacent points: pages stay
/// small for long runs, and noise is averaged.
std::vector<Point> thin(const std::vector<Point> &points, size_t most) {
  if (points.size() <= most) {
    return points;
  }
  std::vector<Point> result;
  for (size_t i = 0; i < most; ++i) {
    size_t begin = i * points.size() / most, end = (i + 1) * points.size() / most;
    Point mean{0, 0};
    for (size_t j = begin; j < end; ++j) {
      mean.x += points[j].x / static_cast<double>(end - begin);
      mean.y += points[j].y / static_cast<double>(end - begin);
    }
    result.push_back(mean);
  }
  return result;
}

/// Replaces the middle of a text longer than `most` characters by an ellipsis.
std::string shortenLabel(const std::string &text, size_t most) {
  std::vector<std::string> characters;
  for (char c : text) {
    if ((static_cast<uint8_t>(c) & 0xc0) != 0x80 || characters.empty()) {
      characters.emplace_back();
    }
    characters.back() += c;
  }
  if (characters.size() <= most || most < 3) {
    return text;
  }
  size_t head = (most - 1) / 2, tail = most - 1 - head;
  std::string result;
  for (size_t i = 0; i < characters.size(); ++i) {
    result += i < head || i >= characters.size() - tail ? characters[i] : i == head ? "\u2026" : "";
  }
  return result;
}

/// Returns the range of a curve's values without outliers. The core excludes a twentieth of the
/// values at each end, at least one. If an extreme is farther from the core than `far` times the
/// core's range, that side ends one core range from the core. The range of few points is uncertain,
/// so the factor is larger; fewer than 4 points have no outliers.
ValueRange findRange(const std::vector<Point> &points) {
  std::vector<double> values;
  for (const Point &point : points) {
    values.push_back(point.y);
  }
  std::sort(values.begin(), values.end());
  ValueRange all{values.front(), values.back()};
  if (values.size() < 4) {
    return all;
  }
  size_t cut = std::max<size_t>(1, values.size() / 20);
  ValueRange core{values[cut], values[values.size() - 1 - cut]};
  double span = core.high - core.low, far = values.size() < 50 ? 10 : 3;
  if (span <= 0) { // equal values: a tenth of them is used as the range
    span = 0.1 * std::max(std::abs(core.high), 1e-6);
  }
  return {all.low < core.low - far * span ? core.low - span : all.low,
          all.high > core.high + far * span ? core.high + span : all.high};
}

MarkupAttributes lineStyle(const std::string &color, CurveStyle style, const std::string &dashes) {
  bool isPale = style == CurveStyle::Pale;
  return attributes("fill", "none", "stroke", color, "stroke-width", isPale ? "1" : "1.6",
                    "stroke-opacity", isPale ? "0.3" : "", "stroke-dasharray", dashes);
}

} // namespace

std::vector<double> axisTicks(double low, double high, double least, int &digits) {
  double rough = std::max((high - low) / 5, 1e-300);
  double power = std::pow(10, std::floor(std::log10(rough))), ratio = rough / power;
  double step = power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
  step = std::max(step, least);
  digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  std::vector<double> ticks;
  // Multiples of the step, because sums of it would drift and yield -0 for 0.
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) {
    ticks.push_back(i == 0 ? 0 : i * step);
  }
  return ticks;
}

std::vector<Point> smooth(const std::vector<Point> &points, size_t count) {
  std::vector<Point> means;
  for (size_t i = 0; i < points.size(); ++i) {
    size_t begin = i + 1 > count ? i + 1 - count : 0;
    double sum = 0;
    for (size_t j = begin; j <= i; ++j) { // no running sum, which would accumulate rounding errors
      sum += points[j].y;
    }
    means.push_back({points[i].x, sum / static_cast<double>(i + 1 - begin)});
  }
  return means;
}

void Chart::add(const std::vector<Point> &points, std::string color, std::string label,
                CurveStyle style, std::string dashes) {
  if (points.empty()) {
    return;
  }
  std::vector<Point> drawn = thin(points, mostPoints);
  ValueRange range = findRange(drawn);
  curves.push_back({std::move(drawn), std::move(color), std::move(label), style, std::move(dashes),
                    range, points});
  high.x = std::max(high.x, points.back().x);
}

void Chart::addSmoothed(const std::vector<Point> &points, size_t count, std::string color,
                        std::string label, std::string dashes) {
  add(smooth(points, count), std::move(color), std::move(label), CurveStyle::Line,
      std::move(dashes));
  if (!points.empty()) {
    curves.back().range = findRange(thin(points, mostPoints));
  }
}

void Chart::addLevel(double value, std::string label) {
  levels.push_back({value, std::move(label)});
}

void Chart::mark(Point point, std::string color, std::string label) {
  marks.push_back({point, std::move(color), std::move(label)});
}

std::string Chart::draw() {
  if (curves.empty()) {
    return "";
  }
  fit();
  std::string keys = "\n";
  for (const Key &key : legend()) {
    std::string picture = element("svg", key.picture, attributes("viewBox", "0 0 22 12"));
    keys += element("li", picture + escapeHtml(key.label)) + "\n";
  }
  std::string chart =
      element("svg", "\n" + plot(),
              attributes("class", "chart", "viewBox",
                         "0 0 " + std::to_string(width) + " " + std::to_string(height), "role",
                         "img", "aria-label", title));
  return element("figure", textElement("figcaption", title) +
                               element("ul", keys, attributes("class", "legend")) + chart) +
         "\n";
}

std::string Chart::drawFile() {
  if (curves.empty()) {
    return "";
  }
  fit();
  constexpr double line = 18, gap = 16, keyWidth = 28;
  std::string keys;
  double x = left, y = 24 + line;
  for (const Key &key : legend()) {
    double room = width - right - left - keyWidth, needed = estimateWidth(key.label, fileFont);
    std::string label = key.label;
    if (needed > room) {
      label = shortenLabel(label, static_cast<size_t>(room / estimateWidth("0", fileFont)));
      needed = room;
    }
    if (x > left && x + keyWidth + needed > width - right) {
      x = left;
      y += line;
    }
    std::string place = "translate(" + showNumber(x, 1) + " " + showNumber(y - 10, 1) + ")";
    keys += element("g", key.picture, attributes("transform", place)) +
            textElement("text", label, attributes("x", x + keyWidth, "y", y)) + "\n";
    x += keyWidth + needed + gap;
  }
  std::string head = showNumber(y + 8, 0), total = showNumber(y + 8 + height, 0);
  std::string drawing =
      textElement("text", title, attributes("x", left, "y", 20, "style", "font-weight:600")) +
      "\n" + keys +
      element("g", "\n" + plot(), attributes("transform", "translate(0 " + head + ")"));
  std::string content =
      "\n" + textElement("title", title) + "\n" + element("style", chartStyle) + "\n" +
      emptyElement("rect", attributes("width", "100%", "height", "100%", "fill", "#fff")) + "\n" +
      element("g", drawing, attributes("class", "chart"));
  return element("svg", content,
                 attributes("xmlns", "http://www.w3.org/2000/svg", "viewBox",
                            "0 0 " + std::to_string(width) + " " + total, "role", "img",
                            "aria-label", title)) +
         "\n";
}

void Chart::fit() {
  std::vector<ValueRange> ranges;
  for (const Curve &curve : curves) {
    ranges.push_back(curve.range);
  }
  for (const Mark &each : marks) { // curves of many points are thinned to means
    ranges.push_back({each.point.y, each.point.y});
  }
  ValueRange all = ranges.front();
  for (const ValueRange &range : ranges) {
    all = {std::min(all.low, range.low), std::max(all.high, range.high)};
  }
  double span = all.high - all.low;
  for (const ChartLevel &level : levels) { // a far level would flatten the curves
    if (level.value > all.low - span && level.value < all.high + span) {
      all = {std::min(all.low, level.value), std::max(all.high, level.value)};
    }
  }
  high.x = std::max(high.x, low.x + 1);
  double margin =
      all.high > all.low ? 0.05 * (all.high - all.low) : std::max(1e-6, std::abs(all.high) * 0.1);
  low.y = all.low >= 0 ? std::max(0.0, all.low - margin) : all.low - margin;
  high.y = all.high + margin;
  int digits = 0;
  double widest = estimateWidth("00000", largestFont);
  for (double tick : axisTicks(low.y, high.y, 0, digits)) {
    widest = std::max(widest, estimateWidth(showNumber(tick, digits), largestFont));
  }
  left = widest + 8;
  // A short name is placed before the numbers of its axis, a longer one below them.
  isNameBeforeNumbers = estimateWidth(counted, largestFont) + 16 <= left;
  height = top + plotHeight + (isNameBeforeNumbers ? 36 : 62);
}

double Chart::x(double value) const {
  return left + (value - low.x) / (high.x - low.x) * (width - left - right);
}
double Chart::y(double value) const {
  double inside = std::clamp(value, low.y, high.y); // outliers are drawn at the edge
  return top + plotHeight - (inside - low.y) / (high.y - low.y) * plotHeight;
}

/// Draws a line over the whole width of the plot.
std::string Chart::drawLevel(const char *kind, double value, const std::string &dashes) const {
  return emptyElement("line", attributes("class", kind, "stroke-dasharray", dashes, "x1", left,
                                         "x2", width - right, "y1", y(value), "y2", y(value)));
}

std::string Chart::axes() const {
  std::string out;
  int digits = 0;
  for (double tick : axisTicks(low.y, high.y, 0, digits)) {
    MarkupAttributes place =
        attributes("x", left - 6, "y", y(tick), "dy", ".35em", "text-anchor", "end");
    out += drawLevel("grid", tick) + element("text", showNumber(tick, digits), place) + "\n";
  }
  MarkupAttributes place = attributes("x", isNameBeforeNumbers ? left - 16 : width - right, "y",
                                      top + plotHeight + (isNameBeforeNumbers ? 10 : 36), "dy",
                                      ".9em", "text-anchor", "end");
  return out + ticksOfX() + textElement("text", counted, place) + "\n";
}

/// Draws a line for every tick. Labels are dropped evenly if the largest font has no space for all.
std::string Chart::ticksOfX() const {
  std::string out;
  int digits = 0;
  std::vector<double> ticks = axisTicks(low.x, high.x, 1, digits);
  double widest = 0;
  for (double tick : ticks) {
    widest = std::max(widest, estimateWidth(showNumber(tick, 0), largestFont));
  }
  double apart = ticks.size() > 1 ? x(ticks[1]) - x(ticks[0]) : width;
  auto every = static_cast<size_t>(std::max(1.0, std::ceil((1.15 * widest) / apart)));
  for (size_t i = 0; i < ticks.size(); ++i) {
    std::string label = showNumber(ticks[i], 0);
    out += emptyElement("line", attributes("class", "tick", "x1", x(ticks[i]), "x2", x(ticks[i]),
                                           "y1", top + plotHeight, "y2", top + plotHeight + 5));
    if (i % every == 0) {
      double half = estimateWidth(label, largestFont) / 2;
      out += element("text", label,
                     attributes("x", std::min(x(ticks[i]), width - half), "y",
                                top + plotHeight + 10, "dy", ".9em", "text-anchor", "middle"));
    }
    out += "\n";
  }
  return out;
}

std::string Chart::levelDashes(size_t index) const {
  constexpr const char *patterns[] = {"2 4", "7 4", "12 4", "12 3 2 3"};
  return patterns[index % std::size(patterns)];
}

std::string Chart::plot() const {
  std::string out = axes();
  for (size_t i = 0; i < levels.size(); ++i) {
    if (isInside(levels[i].value)) {
      out += drawLevel("level", levels[i].value, levelDashes(i)) + "\n";
    }
  }
  for (const Curve &curve : curves) {
    out += drawCurve(curve);
  }
  for (const Mark &each : marks) {
    out += emptyElement("circle",
                        attributes("r", 6, "fill", "none", "stroke", each.color, "stroke-width",
                                   1.6, "cx", x(each.point.x), "cy", y(each.point.y))) +
           "\n";
  }
  return out;
}

std::string Chart::drawCurve(const Curve &curve) const {
  std::string points, dots;
  for (const Point &point : curve.points) {
    double atX = x(point.x), atY = y(point.y);
    points += showNumber(atX, 1) + "," + showNumber(atY, 1) + " ";
    if (curve.style == CurveStyle::Dots) {
      dots +=
          emptyElement("circle", attributes("r", 3, "fill", curve.color, "cx", atX, "cy", atY)) +
          "\n";
    }
  }
  MarkupAttributes line = lineStyle(curve.color, curve.style, curve.dashes);
  line.markup += attribute("points", points);
  return emptyElement("polyline", line) + "\n" + dots;
}

/// Returns "; 3 points outside, up to 812.5 at step 40", or an empty string.
std::string Chart::describeOutside(const Curve &curve) const {
  size_t count = 0;
  Point furthest{};
  double distance = 0;
  for (const Point &point : curve.all) {
    if (!isInside(point.y)) {
      ++count;
      double away = std::max(point.y - high.y, low.y - point.y);
      furthest = away > distance ? point : furthest;
      distance = std::max(distance, away);
    }
  }
  if (count == 0) {
    return "";
  }
  return "; " + std::to_string(count) + (count == 1 ? " point" : " points") + " beyond the axis, " +
         (furthest.y > high.y ? "up" : "down") + " to " + format("%.4g", furthest.y) + " at " +
         counted + " " + showNumber(furthest.x, 0);
}

std::vector<Chart::Key> Chart::legend() const {
  std::vector<Key> keys;
  for (const Curve &curve : curves) {
    MarkupAttributes line = attributes("x1", 0, "x2", 22, "y1", 6, "y2", 6);
    line.markup += lineStyle(curve.color, curve.style, curve.dashes).markup;
    std::string picture = emptyElement("line", line);
    if (curve.style == CurveStyle::Dots) {
      picture += emptyElement("circle", attributes("r", 3, "cx", 11, "cy", 6, "fill", curve.color));
    }
    keys.push_back({picture, curve.label + describeOutside(curve)});
  }
  for (const Mark &each : marks) {
    keys.push_back({emptyElement("circle", attributes("r", 5, "cx", 11, "cy", 6, "fill", "none",
                                                      "stroke-width", 1.6, "stroke", each.color)),
                    each.label});
  }
  for (size_t i = 0; i < levels.size(); ++i) {
    if (isInside(levels[i].value)) {
      keys.push_back({emptyElement("line", attributes("class", "level", "x1", 0, "x2", 22, "y1", 6,
                                                      "y2", 6, "stroke-dasharray", levelDashes(i))),
                      levels[i].label});
    } else {
      keys.push_back({"", levels[i].label + ", beyond the axis"});
    }
  }
  return keys;
}

} // namespace sluice::runtime
