// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Chart.h"

#include "Html.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace sluice::runtime {
namespace {

constexpr double width = 720, height = 260, left = 62, right = 12, top = 12, bottom = 34;
constexpr double characterWidth = 7; // of a label's digits, about

/// At most `most` points, each the mean of a run of neighbours: the page stays small for long runs,
/// and the mean is what the eye looks for in a noisy curve.
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

} // namespace

std::vector<double> axisTicks(double low, double high, double least, int &digits) {
  double rough = std::max((high - low) / 5, 1e-300);
  double power = std::pow(10, std::floor(std::log10(rough))), ratio = rough / power;
  double step = power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
  step = std::max(step, least);
  digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  std::vector<double> ticks;
  // Whole multiples: sums of the step would drift, and give -0 for 0.
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) {
    ticks.push_back(i == 0 ? 0 : i * step);
  }
  return ticks;
}

void Chart::add(const std::vector<Point> &points, std::string color, std::string label, bool dots) {
  constexpr size_t mostPoints = 300;
  if (!points.empty()) {
    curves.push_back({thin(points, mostPoints), std::move(color), std::move(label), dots});
  }
}

void Chart::mark(Point point, std::string color, std::string label) {
  marks.push_back({point, std::move(color), std::move(label)});
}

std::string Chart::draw() {
  if (curves.empty()) {
    return "";
  }
  fit();
  std::ostringstream out;
  out << "<figure><figcaption>" << escapeHtml(title)
      << "</figcaption><svg class=\"chart\" viewBox=\"0 0 " << width << " " << height
      << "\" role=\"img\" aria-label=\"" << escapeHtml(title) << "\">\n"
      << axes();
  for (size_t i = 0; i < curves.size(); ++i) {
    out << drawCurve(curves[i], i);
  }
  for (const Mark &each : marks) {
    out << drawMark(each);
  }
  out << "</svg></figure>\n";
  return out.str();
}

void Chart::fit() {
  low = high = curves[0].points[0];
  auto include = [&](const Point &point) {
    low = {std::min(low.x, point.x), std::min(low.y, point.y)};
    high = {std::max(high.x, point.x), std::max(high.y, point.y)};
  };
  for (const Curve &curve : curves) {
    std::for_each(curve.points.begin(), curve.points.end(), include);
  }
  for (const Mark &each : marks) { // curves of many points are thinned to means
    include(each.point);
  }
  low.x = std::min(low.x, 0.0);
  high.x = std::max(high.x, low.x + 1);
  double margin = high.y > low.y ? 0.05 * (high.y - low.y) : std::max(1e-6, std::abs(high.y) * 0.1);
  low.y = low.y >= 0 ? std::max(0.0, low.y - margin) : low.y - margin;
  high.y += margin;
}

double Chart::x(double value) const {
  return left + (value - low.x) / (high.x - low.x) * (width - left - right);
}
double Chart::y(double value) const {
  return height - bottom - (value - low.y) / (high.y - low.y) * (height - top - bottom);
}

std::string Chart::axes() const {
  std::ostringstream out;
  int digits = 0;
  for (double tick : axisTicks(low.y, high.y, 0, digits)) {
    out << "<line class=\"grid\" x1=\"" << left << "\" x2=\"" << width - right << "\" y1=\""
        << showNumber(y(tick), 1) << "\" y2=\"" << showNumber(y(tick), 1) << "\"/><text x=\""
        << left - 6 << "\" y=\"" << showNumber(y(tick) + 4, 1) << "\" text-anchor=\"end\">"
        << showNumber(tick, digits) << "</text>\n";
  }
  // A short name stands before the numbers, a longer one above their end.
  bool isShort = counted.size() <= 6;
  out << "<text x=\"" << (isShort ? left - 10 : width - right) << "\" y=\""
      << (isShort ? height - 10 : height - bottom - 8) << "\" text-anchor=\"end\">"
      << escapeHtml(counted) << "</text>\n";
  for (double tick : axisTicks(low.x, high.x, 1, digits)) {
    std::string label = showNumber(tick, 0);
    double half = characterWidth * static_cast<double>(label.size()) / 2;
    out << "<line class=\"tick\" x1=\"" << showNumber(x(tick), 1) << "\" x2=\""
        << showNumber(x(tick), 1) << "\" y1=\"" << height - bottom << "\" y2=\""
        << height - bottom + 5 << "\"/><text x=\"" << showNumber(std::min(x(tick), width - half), 1)
        << "\" y=\"" << height - 10 << "\" text-anchor=\"middle\">" << label << "</text>\n";
  }
  return out.str();
}

std::string Chart::drawCurve(const Curve &curve, size_t index) const {
  std::ostringstream out;
  out << "<polyline fill=\"none\" stroke=\"" << curve.color << "\" stroke-width=\"1.6\" points=\"";
  for (const Point &point : curve.points) {
    out << showNumber(x(point.x), 1) << "," << showNumber(y(point.y), 1) << " ";
  }
  out << "\"/>\n";
  if (curve.dots) {
    for (const Point &point : curve.points) {
      out << "<circle r=\"3\" fill=\"" << curve.color << "\" cx=\"" << showNumber(x(point.x), 1)
          << "\" cy=\"" << showNumber(y(point.y), 1) << "\"/>\n";
    }
  }
  out << "<text x=\"" << width - right - 8 << "\" y=\""
      << top + 14 + 16 * static_cast<double>(index)
      << "\" text-anchor=\"end\" style=\"fill:" << curve.color << "\">" << escapeHtml(curve.label)
      << "</text>\n";
  return out.str();
}

std::string Chart::drawMark(const Mark &mark) const {
  double at = x(mark.point.x), half = characterWidth * static_cast<double>(mark.label.size()) / 2;
  std::ostringstream out;
  out << "<circle r=\"6\" fill=\"none\" stroke=\"" << mark.color << "\" stroke-width=\"1.6\" cx=\""
      << showNumber(at, 1) << "\" cy=\"" << showNumber(y(mark.point.y), 1) << "\"/><text x=\""
      << showNumber(std::clamp(at, left + half, width - right - half), 1) << "\" y=\""
      << showNumber(y(mark.point.y) - 10, 1)
      << "\" text-anchor=\"middle\" style=\"fill:" << mark.color << "\">" << escapeHtml(mark.label)
      << "</text>\n";
  return out.str();
}

} // namespace sluice::runtime
