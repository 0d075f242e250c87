// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Line charts, as inline SVG or as an SVG file.
#pragma once

#include <string>
#include <vector>

namespace sluice::runtime {

struct Point {
  double x, y;
};

/// Round values of an axis from `low` to `high`, about five, in order; `digits` gets how many
/// decimals they need. `least`: two ticks are at least so far apart.
std::vector<double> axisTicks(double low, double high, double least, int &digits);

/// Each value's mean with the values before it, of `count` values at most. A run's smoothed curve
/// and its smoothed loss follow this rule, so the curve ends at the number that the page shows.
std::vector<Point> smooth(const std::vector<Point> &points, size_t count);

struct ValueRange {
  double low, high;
};

/// How a curve is drawn: a line, a line with a dot at each point, or a pale line under others.
enum class CurveStyle { Line, Dots, Pale };

/// One chart of curves over steps, or over another number. No text is inside the plot: curves,
/// levels and marks have their labels in a legend, so labels cannot overprint each other.
///
/// The axis of y leaves out outliers: points so far from a curve's other points that they would
/// flatten it. They are drawn at the edge, and the legend counts them.
class Chart {
public:
  explicit Chart(std::string title, std::string counted = "step")
      : title(std::move(title)), counted(std::move(counted)) {}

  /// A curve without points is left out. `dashes` is an SVG dash pattern; empty draws a solid line.
  void add(const std::vector<Point> &points, std::string color, std::string label, CurveStyle style,
           std::string dashes = "");
  /// The curve of the smoothed points. The axis follows the range of `points` themselves, as one
  /// outlier among them is in many means.
  void addSmoothed(const std::vector<Point> &points, size_t count, std::string color,
                   std::string label, std::string dashes = "");
  /// A dashed horizontal line, such as another model's loss. One far from all curves is only named
  /// in the legend.
  void addLevel(double value, std::string label);
  /// A ring around `point`.
  void mark(Point point, std::string color, std::string label);
  /// A figure of a page, with its legend as a list; empty where there is no curve.
  std::string draw();
  /// An SVG document with the title and the legend in it; empty where there is no curve.
  std::string drawFile();

private:
  struct Curve {
    std::vector<Point> points;
    std::string color, label;
    CurveStyle style;
    std::string dashes;
    ValueRange range;       // without outliers
    std::vector<Point> all; // `points` are means of these where there are many
  };

  struct Mark {
    Point point;
    std::string color, label;
  };

  struct Level {
    double value;
    std::string label;
  };

  /// A line of the legend: a piece of SVG that shows the curve, 22 by 12 units, and its label.
  struct Key {
    std::string picture, label;
  };

  void fit();
  double x(double value) const;
  double y(double value) const;
  bool isInside(double value) const { return value >= low.y && value <= high.y; }
  std::string levelDashes(size_t index) const;
  std::string axes() const;
  std::string ticksOfX() const;
  std::string plot() const;
  std::string drawCurve(const Curve &curve) const;
  std::vector<Key> legend() const;
  std::string describeOutside(const Curve &curve) const;

  std::string title, counted;
  std::vector<Curve> curves;
  std::vector<Level> levels;
  std::vector<Mark> marks;
  Point low{}, high{};
  double left = 0, height = 0;
  bool isNameBeforeNumbers = true;
};

} // namespace sluice::runtime
