// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws line charts as inline SVG or as an SVG file.
#pragma once

#include "sluice/Support/Markup.h"

#include <string>
#include <vector>

namespace sluice::runtime {

/// Returns about five round values of an axis from `low` to `high`, ascending and at least `least`
/// apart. `digits` receives the number of decimals that they need.
std::vector<double> axisTicks(double low, double high, double least, int &digits);

/// Returns the means of each value and the values before it, at most `count` values. A run's
/// smoothed curve and its smoothed loss use the same definition, so the curve ends at the number
/// that the page shows.
std::vector<Point> smooth(const std::vector<Point> &points, size_t count);

struct ValueRange {
  double low, high;
};

/// Styles of a curve: a line, a line with a dot at each point, or a pale line under others.
enum class CurveStyle { Line, Dots, Pale };

/// One chart of curves over steps, or over another number. The plot contains no text: labels of
/// curves, levels and marks are in a legend, so they cannot overlap.
///
/// The y axis excludes outliers: points so far from a curve's other points that they would flatten
/// it. They are drawn at the edge, and the legend has their number.
class Chart {
public:
  explicit Chart(std::string title, std::string counted = "step")
      : title(std::move(title)), counted(std::move(counted)) {}

  /// Adds a curve if it has points. `dashes` is an SVG dash pattern; empty draws a solid line.
  void add(const std::vector<Point> &points, std::string color, std::string label, CurveStyle style,
           std::string dashes = "");
  /// Adds the curve of the smoothed points. The axis uses the range of `points`, since one outlier
  /// affects many means.
  void addSmoothed(const std::vector<Point> &points, size_t count, std::string color,
                   std::string label, std::string dashes = "");
  /// Adds a dashed horizontal line, such as another model's loss. A level far from all curves only
  /// appears in the legend.
  void addLevel(double value, std::string label);
  /// Adds a ring around `point`.
  void mark(Point point, std::string color, std::string label);
  /// Returns a figure for a page, with the legend as a list; empty if there is no curve.
  std::string draw();
  /// Returns an SVG document with the title and the legend; empty if there is no curve.
  std::string drawFile();

private:
  struct Curve {
    std::vector<Point> points;
    std::string color, label;
    CurveStyle style;
    std::string dashes;
    ValueRange range;       // without outliers
    std::vector<Point> all; // `points` are means of these if there are many
  };

  struct Mark {
    Point point;
    std::string color, label;
  };

  struct ChartLevel {
    double value;
    std::string label;
  };

  /// An entry of the legend: an SVG fragment of 22 by 12 units that shows the curve, and a label.
  struct Key {
    std::string picture, label;
  };

  void fit();
  double x(double value) const;
  double y(double value) const;
  bool isInside(double value) const { return value >= low.y && value <= high.y; }
  std::string levelDashes(size_t index) const;
  std::string drawLevel(const char *kind, double value, const std::string &dashes = "") const;
  std::string axes() const;
  std::string ticksOfX() const;
  std::string plot() const;
  std::string drawCurve(const Curve &curve) const;
  std::vector<Key> legend() const;
  std::string describeOutside(const Curve &curve) const;

  std::string title, counted;
  std::vector<Curve> curves;
  std::vector<ChartLevel> levels;
  std::vector<Mark> marks;
  Point low{}, high{};
  double left = 0;
  int height = 0;
  bool isNameBeforeNumbers = true;
};

} // namespace sluice::runtime
