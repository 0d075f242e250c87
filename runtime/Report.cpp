// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Report.h"

#include "Html.h"
#include "ReportSegments.h"
#include "RunFiles.h"
#include "sluice/Runtime/Inspect.h"
#include "sluice/Runtime/Metrics.h"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace sluice::runtime {
namespace {

using Json = nlohmann::json;

void writeFacts(std::ostringstream &out, const std::string &title, const Facts &facts) {
  if (facts.empty()) {
    return;
  }
  out << "<h2>" << title << "</h2><table>\n";
  for (const auto &[name, value] : facts) {
    writeRow(out, name, value);
  }
  out << "</table>\n";
}

Facts ngramFacts(const Json &ngram) {
  Facts facts;
  if (ngram.is_object() && ngram.contains("orders") && ngram["orders"].is_array()) {
    for (const Json &order : ngram["orders"]) {
      facts.emplace_back(showNumber(numberIn(order, "order"), 0) + "-gram, Witten-Bell",
                         showNumber(numberIn(order, "bits_per_byte"), 4) + " bits per byte");
    }
  }
  return facts;
}

constexpr const char *blue = "#2563a8", *orange = "#c2410c", *green = "#15803d";

/// One a run or curve, in order; the last for all that follow.
const char *colorOf(size_t index) {
  constexpr const char *colors[] = {blue, orange, green, "#7e22ce", "#b91c1c", "#0e7490"};
  return colors[std::min(index, std::size(colors) - 1)];
}

void markBest(Chart &chart, const RunFiles &run, const char *color) {
  if (std::optional<Point> best = run.bestEvaluation()) {
    chart.mark(*best, color, "best: step " + showNumber(best->x, 0));
  }
}

void writeCurves(std::ostringstream &out, const RunFiles &run) {
  std::vector<Point> characters = run.series("eval_bits_per_character");
  Chart loss(characters.empty() ? "Bits per byte"
                                : "Bits per byte, and per character of held-out text"),
      shortening("Tokens a segment"), rate("Learning rate, thousandths"),
      norm("Gradient norm before clipping"), speed("Tokens a second, training");
  std::vector<Point> rates = run.series("learning_rate");
  for (Point &point : rates) {
    point.y *= 1000;
  }
  loss.add(run.series("bits_per_byte"), blue, "training", false);
  loss.add(run.series("eval_bits_per_byte"), orange, "held out", true);
  loss.add(characters, green, "held out, per character", true);
  markBest(loss, run, orange);
  size_t color = 0;
  for (const std::string &name : run.membersOf("shortening_factor")) {
    shortening.add(run.series("shortening_factor", name), colorOf(color++), name + ", training",
                   false);
    shortening.add(run.series("eval_shortening_factor", name), colorOf(color++),
                   name + ", held out", true);
  }
  rate.add(rates, blue, "learning rate", false);
  norm.add(run.series("grad_norm"), blue, "norm", false);
  speed.add(run.series("tokens_per_s"), blue, "tokens/s", false);
  out << "<h2>Curves</h2>\n"
      << loss.draw() << shortening.draw() << norm.draw() << rate.draw() << speed.draw();
}

void writeSamples(std::ostringstream &out, const std::vector<Json> &samples) {
  if (samples.empty()) {
    return;
  }
  out << "<h2>Samples</h2>\n";
  size_t first = samples.size() > 8 ? samples.size() - 8 : 0;
  for (size_t i = samples.size(); i-- > first;) {
    const Json &sample = samples[i];
    out << "<h3>Step " << showNumber(numberIn(sample, "step"), 0) << "</h3><pre><b>"
        << escapeHtml(textIn(sample, "prompt")) << "</b>" << escapeHtml(textIn(sample, "text"))
        << "</pre>\n";
  }
}

void writeCosts(std::ostringstream &out, const Json &costs) {
  if (!costs.is_object()) {
    return;
  }
  out << "<h2>Model and costs</h2><table>\n";
  writeRow(out, "parameters", showNumber(numberIn(costs, "parameters"), 0));
  writeRow(out, "context, batch, width",
           showNumber(numberIn(costs, "context"), 0) + ", " +
               showNumber(numberIn(costs, "batch"), 0) + ", " +
               showNumber(numberIn(costs, "width"), 0));
  Json proof = objectIn(costs, "proof"), launches = objectIn(costs, "launches"),
       step = objectIn(costs, "step");
  Json memory = objectIn(costs, "memory"), scales = objectIn(memory, "by_scale");
  writeRow(out, "causality",
           textIn(proof, "verdict") == "proved" ? "proved" : "not proved: a leak was allowed");
  writeRow(out, "launches a training step",
           showNumber(numberIn(launches, "forward"), 0) + " forward, " +
               showNumber(numberIn(launches, "backward"), 0) + " backward, " +
               showNumber(numberIn(launches, "update"), 0) + " update");
  writeRow(out, "a training step",
           showNumber(numberIn(step, "flops") / 1e9, 3) + " Gflop, " +
               showBytes(numberIn(step, "bytes")) + " moved");
  writeRow(out, "memory",
           showBytes(numberIn(memory, "arena_bytes")) + ", peak " +
               showBytes(numberIn(memory, "peak_bytes")));
  for (const auto &[scale, bytes] : scales.items()) {
    writeRow(out, "memory of scale " + scale,
             showBytes(bytes.is_number() ? bytes.get<double>() : 0));
  }
  out << "</table>\n";
}

void writeCausality(std::ostringstream &out, const Path &run,
                    const std::optional<Causality> &causality) {
  Path picture = run / "causality.svg";
  if (causality) {
    out << "<h2>Causality</h2>\n<p class=\"lines\">" << escapeHtml(causality->verdict) << "</p>\n";
    if (!causality->findings.empty()) {
      out << "<ul>\n";
      for (const std::string &finding : causality->findings) {
        out << "<li>" << escapeHtml(finding) << "</li>\n";
      }
      out << "</ul>\n";
    }
    out << (causality->picture.empty()
                ? ""
                : "<figure class=\"picture\">" + causality->picture + "</figure>\n");
  } else if (runtime::isRegularFile(picture)) {
    out << "<h2>Causality</h2>\n<img alt=\"What each position reads\" style=\"max-width:100%\" "
           "src=\"data:image/svg+xml;base64,"
        << base64(readText(picture, "picture")) << "\">\n";
  }
}

void writeLeak(std::ostringstream &out, const RunFiles &run) {
  if (run.isLeakAllowed()) {
    out << "<p class=\"leak\"><b>Not causal.</b> " << escapeHtml(run.run.string())
        << " was trained from an artifact that was compiled with --allow-leak: predictions may "
           "read what they predict. Its losses come out too low, and mean nothing for generated "
           "text.</p>\n";
  }
}

/// A table with a column a run; rows in the order in which names first appear. `onlyDifferent`
/// leaves out rows that are the same in all.
void writeColumns(std::ostringstream &out, const std::vector<RunFiles> &runs,
                  const std::vector<Facts> &columns, bool onlyDifferent) {
  std::vector<std::string> names;
  for (const Facts &facts : columns) {
    for (const auto &[name, ignored] : facts) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  out << "<table><tr><th></th>";
  for (size_t i = 0; i < runs.size(); ++i) {
    out << "<th style=\"color:" << colorOf(i) << "\">" << escapeHtml(runs[i].run.string())
        << "</th>";
  }
  out << "</tr>\n";
  bool any = false;
  for (const std::string &name : names) {
    std::vector<std::string> values;
    for (const Facts &facts : columns) {
      auto found = std::find_if(facts.begin(), facts.end(),
                                [&](const auto &fact) { return fact.first == name; });
      values.push_back(found == facts.end() ? "\u2013" : found->second);
    }
    bool same = std::all_of(values.begin(), values.end(),
                            [&](const std::string &value) { return value == values.front(); });
    if (same && onlyDifferent) {
      continue;
    }
    any = true;
    out << "<tr><th>" << escapeHtml(name) << "</th>";
    for (const std::string &value : values) {
      out << "<td>" << escapeHtml(value) << "</td>";
    }
    out << "</tr>\n";
  }
  out << "</table>\n" << (any ? "" : "<p>None.</p>\n");
}

/// Held-out losses at the last step that every run was evaluated at, where that is not the last of
/// each.
void addCommonEvaluation(const std::vector<RunFiles> &runs, std::vector<Facts> &results) {
  std::vector<Point> common = runs.front().series("eval_bits_per_byte");
  for (const RunFiles &run : runs) {
    std::vector<Point> points = run.series("eval_bits_per_byte");
    std::erase_if(common, [&](const Point &point) {
      return std::none_of(points.begin(), points.end(),
                          [&](const Point &other) { return other.x == point.x; });
    });
  }
  if (common.empty()) {
    return;
  }
  double step = common.back().x;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<Point> points = runs[i].series("eval_bits_per_byte");
    if (points.back().x > step) {
      auto at = std::find_if(points.begin(), points.end(),
                             [&](const Point &point) { return point.x == step; });
      results[i].emplace_back("held-out text, step " + showNumber(step, 0),
                              showNumber(at->y, 4) + " bits per byte" +
                                  runs[i].describeCharacters(step));
    }
  }
}

void writeCommonCurves(std::ostringstream &out, const std::vector<RunFiles> &runs) {
  constexpr std::pair<const char *, const char *> charts[] = {
      {"bits_per_byte", "Training, bits per byte"},
      {"eval_bits_per_byte", "Held-out text, bits per byte"},
      {"eval_bits_per_character", "Held-out text, bits per character"},
      {"grad_norm", "Gradient norm before clipping"},
      {"learning_rate", "Learning rate"},
      {"tokens_per_s", "Tokens a second, training"}};
  out << "<h2>Curves</h2>\n";
  for (auto [field, title] : charts) {
    Chart chart(title);
    for (size_t i = 0; i < runs.size(); ++i) {
      chart.add(runs[i].series(field), colorOf(i), runs[i].run.string(),
                std::string_view(field).starts_with("eval_"));
      if (std::string_view(field) == "eval_bits_per_byte") {
        markBest(chart, runs[i], colorOf(i));
      }
    }
    out << chart.draw();
  }
  Chart shortening("Tokens a segment, training");
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const std::string &name : runs[i].membersOf("shortening_factor")) {
      shortening.add(runs[i].series("shortening_factor", name), colorOf(i),
                     runs[i].run.string() + ", " + name, false);
    }
  }
  out << shortening.draw();
}

} // namespace

std::string makeReport(const Path &path, const std::optional<Causality> &causality,
                       const Facts &hyperparameters, const ShownSegments &segments) {
  RunFiles run(path);
  std::ostringstream out;
  out << pageStart(run.name);
  writeLeak(out, run);
  if (run.damaged > 0) {
    out << "<p>Damaged lines of metrics.jsonl, which are left out here: " << run.damaged
        << ".</p>\n";
  }
  Facts results = run.results(), grams = ngramFacts(optionalJson(path / "ngram.json"));
  results.insert(results.end(), grams.begin(), grams.end());
  writeFacts(out, "Result", results);
  writeCurves(out, run);
  writeSamples(out, readLines(path / "samples.jsonl"));
  writeSegments(out, segments);
  writeFacts(out, "Data", run.data());
  writeFacts(out, "Hyperparameters", hyperparameters);
  writeCosts(out, run.costs);
  writeCausality(out, path, causality);
  out << pageEnd();
  return out.str();
}

std::string makeComparison(const std::vector<ComparedRun> &compared) {
  std::vector<RunFiles> runs;
  std::vector<Facts> results, hyperparameters;
  std::string title;
  for (const ComparedRun &each : compared) {
    const RunFiles &run = runs.emplace_back(each.run);
    title += (title.empty() ? "" : ", ") + each.run.string();
    results.push_back(run.results());
    results.back().emplace_back("parameters", showNumber(numberIn(run.costs, "parameters"), 0));
    hyperparameters.push_back(each.hyperparameters);
    Facts data = run.data();
    hyperparameters.back().insert(hyperparameters.back().end(), data.begin(), data.end());
  }
  addCommonEvaluation(runs, results);
  std::ostringstream out;
  out << pageStart("Runs compared: " + title);
  for (const RunFiles &run : runs) {
    writeLeak(out, run);
  }
  out << "<h2>Results</h2>\n";
  writeColumns(out, runs, results, false);
  out << "<h2>Differences of hyperparameters and data</h2>\n";
  writeColumns(out, runs, hyperparameters, true);
  writeCommonCurves(out, runs);
  out << pageEnd();
  return out.str();
}

} // namespace sluice::runtime
