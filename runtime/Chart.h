// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Line charts, as inline SVG.
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

/// One chart of curves over steps, or over what else is counted from 0 on.
class Chart {
public:
  explicit Chart(std::string title, std::string counted = "step")
      : title(std::move(title)), counted(std::move(counted)) {}

  /// A curve without points is left out. `dots` marks each point.
  void add(const std::vector<Point> &points, std::string color, std::string label, bool dots);
  /// A ring around `point`, with `label` above it.
  void mark(Point point, std::string color, std::string label);
  /// Empty where there is no curve.
  std::string draw();

private:
  struct Curve {
    std::vector<Point> points;
    std::string color, label;
    bool dots;
  };

  struct Mark {
    Point point;
    std::string color, label;
  };

  void fit();
  double x(double value) const;
  double y(double value) const;
  std::string axes() const;
  std::string drawCurve(const Curve &curve, size_t index) const;
  std::string drawMark(const Mark &mark) const;

  std::string title, counted;
  std::vector<Curve> curves;
  std::vector<Mark> marks;
  Point low{}, high{};
};

} // namespace sluice::runtime
