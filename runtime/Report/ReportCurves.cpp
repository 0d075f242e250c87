// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ReportCurves.h"

#include "Html.h"

#include <algorithm>
#include <iterator>

namespace sluice::runtime {
namespace {

constexpr const char *runColors[] = {"#2563a8", "#c2410c", "#15803d",
                                     "#7e22ce", "#b91c1c", "#0e7490"};
constexpr const char *trainingColor = runColors[0], *heldOutColor = runColors[1],
                     *characterColor = runColors[2];

void markBest(Chart &chart, const RunFiles &run, const std::string &color,
              const std::string &name) {
  if (std::optional<Point> best = run.bestEvaluation()) {
    chart.mark(*best, color,
               name + "best: " + showNumber(best->y, 4) + " at step " + showNumber(best->x, 0));
  }
}

/// Adds the n-gram models of the runs as levels, unless runs have different figures, which are for
/// different texts.
void addNgrams(Chart &chart, const std::vector<RunFiles> &runs) {
  std::vector<std::pair<std::string, double>> models;
  for (const RunFiles &run : runs) {
    if (run.unit() != "byte") {
      return; // n-gram models have bits per byte
    }
    auto own = run.ngrams();
    if (!models.empty() && !own.empty() && own != models) {
      return;
    }
    models = own.empty() ? models : own;
  }
  for (const auto &[name, bits] : models) {
    chart.addLevel(bits, name + ", held out: " + showNumber(bits, 2));
  }
}

void addShortening(Chart &chart, const RunFiles &run) {
  size_t color = 0;
  for (const std::string &name : run.findMembers("shortening_factor")) {
    chart.add(run.series("shortening_factor", name), getColor(color++), name + ", training",
              CurveStyle::Line);
    chart.add(run.series("eval_shortening_factor", name), getColor(color++), name + ", held out",
              CurveStyle::Dots);
  }
}

std::vector<Point> inThousandths(std::vector<Point> points) {
  for (Point &point : points) {
    point.y *= 1000;
  }
  return points;
}

void writeCharts(std::ostringstream &out, const std::string &charts) {
  out << textElement("h2", "Curves") << "\n"
      << element("div", "\n" + charts, attributes("class", "charts")) << "\n";
}

} // namespace

std::string getColor(size_t index) { return runColors[index % std::size(runColors)]; }

std::string getDashes(size_t index) {
  constexpr const char *dashes[] = {"", "6 3", "2 2"};
  return dashes[index / std::size(runColors) % std::size(dashes)];
}

Chart buildLossChart(const RunFiles &run) {
  std::vector<Point> characters = run.series("eval_bits_per_character");
  Chart chart("Bits per " + run.unit() +
              (characters.empty() ? "" : ", and per character of held-out text"));
  std::vector<Point> raw = run.trainingBits();
  if (raw.size() > 1) {
    chart.add(raw, trainingColor, "training, each step", CurveStyle::Pale);
  }
  chart.addSmoothed(raw, smoothedSteps, trainingColor, "training, smoothed");
  chart.add(run.heldOutBits(), heldOutColor, "held out", CurveStyle::Dots);
  chart.add(characters, characterColor, "held out, per character", CurveStyle::Dots);
  markBest(chart, run, heldOutColor, "");
  if (double bits = numberIn(run.evaluation, ("bits_per_" + run.unit()).c_str()); bits > 0) {
    chart.add({{0, bits}, {run.lastStep(), bits}}, heldOutColor,
              "evaluation: " + showNumber(bits, 2), CurveStyle::Line, "3 3");
  }
  addNgrams(chart, {run});
  return chart;
}

/// Adds the rate of each group of weights.
static void addGroupRates(Chart &chart, const RunFiles &run, const std::string &prefix,
                          size_t color, const std::string &dashes) {
  for (const std::string &match : run.findMembers("group_rates")) {
    chart.add(inThousandths(run.series("group_rates", match)), getColor(color++), prefix + match,
              CurveStyle::Line, dashes);
  }
}

void writeCurves(std::ostringstream &out, const RunFiles &run) {
  Chart shortening("Tokens a segment"), rate("Learning rate, thousandths"),
      norm("Gradient norm before clipping"), speed("Tokens a second, training");
  addShortening(shortening, run);
  norm.add(run.series("grad_norm"), trainingColor, "norm", CurveStyle::Line);
  rate.add(inThousandths(run.series("learning_rate")), trainingColor, "learning rate",
           CurveStyle::Line);
  addGroupRates(rate, run, "learning rate of ", 1, "");
  speed.add(run.series("tokens_per_s"), trainingColor, "tokens/s", CurveStyle::Line);
  writeCharts(out, buildLossChart(run).draw() + shortening.draw() + norm.draw() + rate.draw() +
                       speed.draw());
}

void writeCommonCurves(std::ostringstream &out, const std::vector<RunFiles> &runs,
                       const std::vector<std::string> &names) {
  const std::string unit = runs.front().unit();
  std::string smoothing =
      "Training, bits per " + unit + ", mean of " + std::to_string(smoothedSteps) + " logged steps";
  Chart training(smoothing), heldOut("Held-out text, bits per " + unit),
      characters("Held-out text, bits per character"), norm("Gradient norm before clipping"),
      rate("Learning rate, thousandths"), speed("Tokens a second, training"),
      shortening("Tokens a segment, training");
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunFiles &run = runs[i];
    std::string color = getColor(i), dashes = getDashes(i);
    training.addSmoothed(run.trainingBits(), smoothedSteps, color, names[i], dashes);
    heldOut.add(run.heldOutBits(), color, names[i], CurveStyle::Dots, dashes);
    markBest(heldOut, run, color, names[i] + ", ");
    characters.add(run.series("eval_bits_per_character"), color, names[i], CurveStyle::Dots,
                   dashes);
    norm.add(run.series("grad_norm"), color, names[i], CurveStyle::Line, dashes);
    rate.add(inThousandths(run.series("learning_rate")), color, names[i], CurveStyle::Line, dashes);
    addGroupRates(rate, run, names[i] + ", ", i + 1, dashes);
    speed.add(run.series("tokens_per_s"), color, names[i], CurveStyle::Line, dashes);
    for (const std::string &name : run.findMembers("shortening_factor")) {
      shortening.add(run.series("shortening_factor", name), color, names[i] + ", " + name,
                     CurveStyle::Line, dashes);
    }
  }
  addNgrams(training, runs);
  addNgrams(heldOut, runs);
  std::string charts;
  for (Chart *chart : {&training, &heldOut, &characters, &norm, &rate, &speed, &shortening}) {
    charts += chart->draw();
  }
  writeCharts(out, charts);
}

} // namespace sluice::runtime
