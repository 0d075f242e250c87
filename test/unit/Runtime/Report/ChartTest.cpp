// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Charts whose labels fit: every text is inside the view box and overlaps no other text, at the
// font size of wide pages and at the larger one of narrow pages.
#include "Report/Chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <sstream>

using namespace sluice;
using namespace sluice::runtime;

namespace {

struct Box {
  std::string text;
  double left, right, top, bottom;
};

std::string findAttribute(const std::string &tag, const std::string &name) {
  std::smatch found;
  return std::regex_search(tag, found, std::regex(" " + name + "=\"([^\"]*)\"")) ? found[1].str()
                                                                                 : "";
}

double parseNumber(const std::string &text) { return text.empty() ? 0 : std::stod(text); }

/// Characters of UTF-8.
size_t countCharacters(const std::string &text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

/// The boxes of the texts of an SVG with translated groups. Letters take 0.6 of the font size, like
/// the digits of most sans-serif fonts.
std::vector<Box> findTexts(const std::string &svg, double font) {
  std::vector<Box> boxes;
  std::vector<std::pair<double, double>> moves = {{0, 0}};
  std::regex piece("<g[^>]*>|</g>|<text[^>]*>([^<]*)</text>");
  for (std::sregex_iterator at(svg.begin(), svg.end(), piece), end; at != end; ++at) {
    std::string tag = at->str();
    if (tag.starts_with("<g")) {
      double x = 0, y = 0;
      std::istringstream(findAttribute(tag, "transform")
                             .substr(std::min(findAttribute(tag, "transform").size(),
                                              std::string("translate(").size()))) >>
          x >> y;
      moves.emplace_back(moves.back().first + x, moves.back().second + y);
    } else if (tag == "</g>") {
      moves.pop_back();
    } else {
      std::string open = tag.substr(0, tag.find('>') + 1), text = (*at)[1];
      double width = 0.6 * font * static_cast<double>(countCharacters(text));
      double x = moves.back().first + parseNumber(findAttribute(open, "x"));
      double baseline = moves.back().second + parseNumber(findAttribute(open, "y")) +
                        font * parseNumber(findAttribute(open, "dy")); // in em
      std::string anchor = findAttribute(open, "text-anchor");
      double left = anchor == "end" ? x - width : anchor == "middle" ? x - width / 2 : x;
      boxes.push_back({text, left, left + width, baseline - 0.75 * font, baseline + 0.25 * font});
    }
  }
  return boxes;
}

/// Mistakes in the texts of an SVG; empty if they fit.
std::string checkTexts(const std::string &svg, double font) {
  std::istringstream viewBox(findAttribute(svg.substr(svg.find("viewBox") - 1), "viewBox"));
  double ignored, width, height;
  viewBox >> ignored >> ignored >> width >> height;
  std::string problems;
  std::vector<Box> boxes = findTexts(svg, font);
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Box &a = boxes[i];
    if (a.left < 0 || a.right > width || a.top < 0 || a.bottom > height) {
      problems += "'" + a.text + "' leaves the view box\n";
    }
    for (size_t j = 0; j < i; ++j) {
      const Box &b = boxes[j];
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) {
        problems += "'" + a.text + "' overlaps '" + b.text + "'\n";
      }
    }
  }
  return problems;
}

/// The chart itself in a figure, after the pictures of its legend.
std::string findPlot(const std::string &figure) {
  return figure.substr(figure.find("<svg class=\"chart\""));
}

std::vector<double> findCurve(const std::string &svg, size_t index) {
  std::vector<double> ys;
  std::regex curve("<polyline[^>]* points=\"([^\"]*)\"");
  auto at = std::sregex_iterator(svg.begin(), svg.end(), curve);
  std::advance(at, index);
  std::istringstream points((*at)[1].str());
  double x, y;
  for (char comma; points >> x >> comma >> y;) {
    ys.push_back(y);
  }
  return ys;
}

std::vector<Point> makeLoss(double steps) {
  std::vector<Point> points;
  for (double step = 1; step <= steps; ++step) {
    points.push_back({step, 2 + 6 / std::sqrt(step)});
  }
  return points;
}

/// From 3.99 at step 1 to 2 at step 200.
std::vector<Point> makeSlope() {
  std::vector<Point> points;
  for (int step = 1; step <= 200; ++step) {
    points.push_back({double(step), 4 - 0.01 * step});
  }
  return points;
}

TEST(Chart, TextsFitAtBothFontSizes) {
  for (double steps : {1.0, 2.0, 7.0, 60.0, 999.0, 1000.0, 123456.0}) {
    for (double scale : {1e-6, 1.0, 1e5}) {
      std::vector<Point> points = makeLoss(std::min(steps, 2000.0));
      for (Point &point : points) {
        point = {point.x * steps / static_cast<double>(points.size()), point.y * scale};
      }
      Chart chart("Bits per byte, and per character of held-out text");
      chart.add(points, "#000", "training", CurveStyle::Line);
      chart.add({points.back()}, "#111", "held out", CurveStyle::Dots);
      chart.mark(points.back(), "#111", "best: step " + std::to_string(steps));
      chart.addLevel(points.back().y * 1.01, "trigram, held out");
      chart.addLevel(points.back().y * 1.02, "bigram, held out");
      std::string plot = findPlot(chart.draw());
      EXPECT_EQ(checkTexts(plot, 12), "") << steps << " " << scale << plot;
      EXPECT_EQ(checkTexts(plot, 20), "") << steps << " " << scale << plot;
      EXPECT_GE(findTexts(plot, 12).size(), 4u) << "axes have labels";
      std::string file = chart.drawFile();
      EXPECT_EQ(checkTexts(file, 12), "") << steps << " " << scale << file;
      EXPECT_TRUE(file.find("trigram, held out</text>") != std::string::npos) << file;
    }
  }
}

TEST(Chart, TextCheckFindsOverlapsAndOverflow) {
  std::string start = "<svg viewBox=\"0 0 100 50\"><g transform=\"translate(10 20)\">";
  auto text = [](const char *x, const char *y) {
    return std::string("<text x=\"") + x + "\" y=\"" + y + "\">abc</text>";
  };
  EXPECT_EQ(checkTexts(start + text("0", "0") + text("30", "0") + "</g></svg>", 12), "");
  EXPECT_EQ(checkTexts(start + text("0", "0") + text("20", "0") + "</g></svg>", 12),
            "'abc' overlaps 'abc'\n");
  EXPECT_EQ(checkTexts(start + text("80", "0") + "</g></svg>", 12), "'abc' leaves the view box\n");
  EXPECT_EQ(checkTexts(start + text("0", "29") + "</g></svg>", 12), "'abc' leaves the view box\n");
}

TEST(Chart, ManyLongLabelsFit) {
  Chart chart("Bits per byte");
  for (int i = 0; i < 9; ++i) {
    chart.add(makeLoss(10), "#000", std::string(static_cast<size_t>(20 * i), 'x') + "\u00e9",
              CurveStyle::Line);
  }
  EXPECT_EQ(checkTexts(chart.drawFile(), 12), "") << chart.drawFile();
}

TEST(Chart, OutlierDoesNotFlattenACurve) {
  for (double outlier : {1e6, -1e6}) {
    std::vector<Point> points = makeSlope();
    points[150].y = outlier;
    Chart chart("Bits per byte");
    chart.add(points, "#000", "training", CurveStyle::Line);
    std::string figure = chart.draw();
    std::vector<double> ys = findCurve(figure, 0);
    ASSERT_EQ(ys.size(), 200u);
    EXPECT_GT(ys[100] - ys[10], 20) << "the fall from step 11 to 101 is visible";
    auto [least, most] = std::minmax_element(ys.begin(), ys.end());
    EXPECT_GE(*least, 0);
    EXPECT_LE(*most, 230);
    std::string told = outlier > 0 ? "up to 1e+06" : "down to -1e+06";
    EXPECT_TRUE(figure.find("1 point beyond the axis, " + told + " at step 151") !=
                std::string::npos)
        << figure;
  }
}

TEST(Chart, OutlierInAllMeansDoesNotFlattenASmoothedCurve) {
  std::vector<Point> points = makeSlope();
  points[100].y = 1e6;
  Chart chart("Bits per byte");
  chart.addSmoothed(points, 50, "#000", "training");
  std::string figure = chart.draw();
  std::vector<double> ys = findCurve(figure, 0);
  EXPECT_GT(ys[90] - ys[20], 20) << "the fall is visible before the outlier";
  EXPECT_TRUE(figure.find("50 points beyond the axis") != std::string::npos) << figure;
}

TEST(Chart, FallingLossHasNoOutliers) {
  Chart chart("Bits per byte");
  chart.add(makeLoss(60), "#000", "training", CurveStyle::Line);
  chart.add({{20, 5}, {40, 3}, {60, 2.6}, {80, 2.5}}, "#111", "held out", CurveStyle::Dots);
  EXPECT_TRUE(chart.draw().find("beyond") == std::string::npos) << chart.draw();
}

TEST(Chart, LabelsDistantLevelWithoutRescaling) {
  Chart chart("Bits per byte");
  chart.add({{0, 2}, {100, 2.5}}, "#000", "training", CurveStyle::Line);
  chart.addLevel(2.7, "near");
  chart.addLevel(80, "far");
  std::string figure = chart.draw(), plot = findPlot(figure);
  EXPECT_TRUE(figure.find("near</li>") != std::string::npos) << figure;
  EXPECT_TRUE(figure.find("far, beyond the axis</li>") != std::string::npos) << figure;
  std::regex level("class=\"level\"");
  EXPECT_EQ(std::distance(std::sregex_iterator(plot.begin(), plot.end(), level), {}), 1);
}

TEST(Chart, SmoothsByTheMeanOfEarlierValues) {
  std::vector<Point> means = smooth({{1, 6}, {2, 4}, {3, 2}, {4, 0}}, 3);
  ASSERT_EQ(means.size(), 4u);
  EXPECT_EQ(means[0].y, 6);
  EXPECT_EQ(means[1].y, 5);
  EXPECT_EQ(means[2].y, 4);
  EXPECT_EQ(means[3].y, 2);
  EXPECT_EQ(means[3].x, 4);
}

} // namespace
