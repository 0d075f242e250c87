// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Report/Report.h"

#include "Html.h"
#include "ReportCurves.h"
#include "ReportSegments.h"
#include "RunFiles.h"
#include "sluice/Runtime/Plan/Inspect.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Json.h"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace sluice::runtime {
namespace {

void writeFacts(std::ostringstream &out, const std::string &title, const Facts &facts) {
  if (facts.empty()) {
    return;
  }
  out << textElement("h2", title) << tableStart();
  for (const auto &[name, value, note] : facts) {
    writeRow(out, name, value, note);
  }
  out << tableEnd();
}

void writeSamples(std::ostringstream &out, const std::vector<Json> &samples) {
  if (samples.empty()) {
    return;
  }
  out << textElement("h2", "Samples") << "\n";
  size_t first = samples.size() > 8 ? samples.size() - 8 : 0;
  for (size_t i = samples.size(); i-- > first;) {
    const Json &sample = samples[i];
    std::string prompt = textElement("b", textIn(sample, "prompt"));
    out << textElement("h3", "Step " + showNumber(numberIn(sample, "step"), 0))
        << element("pre", prompt + escapeHtml(textIn(sample, "text"))) << "\n";
  }
}

void writeCosts(std::ostringstream &out, const Json &costs) {
  if (!costs.is_object()) {
    return;
  }
  out << textElement("h2", "Model and costs") << tableStart();
  writeRow(out, "parameters", showNumber(numberIn(costs, "parameters"), 0));
  writeRow(out, "context, batch, width",
           showNumber(numberIn(costs, "context"), 0) + ", " +
               showNumber(numberIn(costs, "batch"), 0) + ", " +
               showNumber(numberIn(costs, "width"), 0));
  Json proof = objectIn(costs, "proof"), launches = objectIn(costs, "launches"),
       step = objectIn(costs, "step");
  Json memory = objectIn(costs, "memory"), scales = objectIn(memory, "by_scale");
  writeRow(out, "causality",
           textIn(proof, "verdict") == "proved"       ? "proved"
           : textIn(proof, "verdict") == "not-proved" ? "not proved, and no leak was found"
                                                      : "not proved: a leak was allowed");
  writeRow(out, "launches of a training step",
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
  out << tableEnd();
}

void writeCausality(std::ostringstream &out, const Path &run,
                    const std::optional<Causality> &causality) {
  Path picture = run / "causality.svg";
  std::string heading = textElement("h2", "Causality") + "\n";
  MarkupAttributes figure = attributes("class", "picture");
  if (causality) {
    out << heading << textElement("p", causality->verdict, attributes("class", "lines")) << "\n";
    std::string findings;
    for (const std::string &finding : causality->findings) {
      findings += textElement("li", finding) + "\n";
    }
    if (!findings.empty()) {
      out << element("ul", "\n" + findings) << "\n";
    }
    if (!causality->picture.empty()) {
      out << element("figure", causality->picture, figure) << "\n";
    }
  } else if (isRegularFile(picture)) {
    std::string data = "data:image/svg+xml;base64," + base64(readText(picture, "picture"));
    std::string image = startTag("img", attributes("alt", "What each position reads", "src", data));
    out << heading << element("figure", image, figure) << "\n";
  }
}

void writeLeak(std::ostringstream &out, const RunFiles &run) {
  if (run.isLeakAllowed()) {
    bool isOpen = textIn(objectIn(run.costs, "proof"), "verdict") == "not-proved";
    std::string text =
        " " + run.run.string() +
        " was trained from an artifact that was compiled with --allow-leak: " +
        (isOpen ? "whether predictions read what they predict is not known. Its losses may come "
                  "out too low."
                : "predictions may read what they predict. Its losses come out too low, and mean "
                  "nothing for generated text.");
    out << element("p",
                   textElement("b", isOpen ? "Not proved causal." : "Not causal.") +
                       escapeHtml(text),
                   attributes("class", "leak"))
        << "\n";
  }
}

/// Writes the spec of the run. `name` distinguishes the specs of several runs.
void writeSpec(std::ostringstream &out, const Path &run, const std::string &name = "") {
  Path spec = run / "spec.json";
  if (isRegularFile(spec)) {
    std::string summary = textElement("summary", name.empty() ? "spec.json" : name + ", spec.json");
    out << element("details", summary + textElement("pre", readText(spec, "spec of the run")))
        << "\n";
  }
}

constexpr const char *missing = "\u2013"; // a missing value of a run

/// Returns the names of runs without the folders that all of them share.
std::vector<std::string> getShortNames(const std::vector<RunFiles> &runs) {
  std::vector<std::string> names;
  for (const RunFiles &run : runs) {
    names.push_back(run.run.string());
  }
  size_t shared = names.front().size();
  for (const std::string &name : names) {
    auto end = std::mismatch(name.begin(), name.end(), names.front().begin(), names.front().end());
    shared = std::min(shared, static_cast<size_t>(end.first - name.begin()));
  }
  size_t slash = names.front().rfind('/', shared == 0 ? 0 : shared - 1);
  for (std::string &name : names) {
    std::string rest = slash == std::string::npos ? name : name.substr(slash + 1);
    name = rest.empty() ? name : rest;
  }
  return names;
}

/// Moves the protocol of an evaluation, a long text, to the facts that are only displayed if runs
/// differ.
void moveProtocol(Facts &results, Facts &others) {
  auto isProtocol = [](const Fact &fact) { return fact.name.starts_with("protocol"); };
  std::copy_if(results.begin(), results.end(), std::back_inserter(others), isProtocol);
  std::erase_if(results, isProtocol);
}

/// Removes the unit that all values of a row share and returns it, for the row's name; empty if
/// there is none.
std::string takeUnit(std::vector<Fact> &row) {
  for (const std::string unit : {" bits per byte", " bits per token", " bits per chunk"}) {
    bool isCommon = std::all_of(row.begin(), row.end(), [&](const Fact &fact) {
      return fact.value.ends_with(unit) || fact.value == missing;
    });
    for (Fact &fact : row) {
      if (isCommon && fact.value.ends_with(unit)) {
        fact.value.erase(fact.value.size() - unit.size());
      }
    }
    if (isCommon) {
      return "," + unit;
    }
  }
  return "";
}

/// Writes a table with a column per run and rows in the order in which names first appear.
/// `onlyDifferent` omits rows that are equal in all runs.
void writeColumns(std::ostringstream &out, const std::vector<std::string> &runs,
                  const std::vector<Facts> &columns, bool onlyDifferent) {
  std::vector<std::string> names;
  for (const Facts &facts : columns) {
    for (const Fact &fact : facts) {
      if (std::find(names.begin(), names.end(), fact.name) == names.end()) {
        names.push_back(fact.name);
      }
    }
  }
  std::string cells = textElement("th", "");
  for (size_t i = 0; i < runs.size(); ++i) {
    cells += textElement("th", runs[i], attributes("style", "color:" + getColor(i)));
  }
  out << tableStart("runs") << element("tr", cells) << "\n";
  bool any = false;
  for (const std::string &name : names) {
    std::vector<Fact> row;
    for (const Facts &facts : columns) {
      auto found = std::find_if(facts.begin(), facts.end(),
                                [&](const Fact &fact) { return fact.name == name; });
      row.push_back(found == facts.end() ? Fact{name, missing} : *found);
    }
    bool same = std::all_of(row.begin(), row.end(), [&](const Fact &fact) {
      return fact.value == row.front().value && fact.note == row.front().note;
    });
    if (same && onlyDifferent) {
      continue;
    }
    any = true;
    cells = textElement("th", name + takeUnit(row));
    for (const Fact &fact : row) {
      cells += buildCell(fact.value, fact.note);
    }
    out << element("tr", cells) << "\n";
  }
  out << tableEnd() << (any ? "" : textElement("p", "None.") + "\n");
}

/// Adds a row with each run's value at `step` if all runs have one.
void addAtStep(const std::vector<std::vector<Point>> &series, double step, const std::string &name,
               const std::string &unit, std::vector<Facts> &results,
               const std::vector<std::string> &notes = {}) {
  std::vector<double> values;
  for (const std::vector<Point> &points : series) {
    auto at = std::find_if(points.begin(), points.end(),
                           [&](const Point &point) { return point.x == step; });
    if (at == points.end()) {
      return;
    }
    values.push_back(at->y);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    results[i].emplace_back(name + " at step " + showNumber(step, 0),
                            showNumber(values[i], 4) + " bits per " + unit,
                            notes.empty() ? "" : notes[i]);
  }
}

/// Returns the last step at which all series have a value, if any.
std::optional<double> findLastCommonStep(const std::vector<std::vector<Point>> &series) {
  std::vector<Point> common = series.front();
  for (const std::vector<Point> &points : series) {
    std::erase_if(common, [&](const Point &point) {
      return std::none_of(points.begin(), points.end(),
                          [&](const Point &other) { return other.x == point.x; });
    });
  }
  return common.empty() ? std::nullopt : std::optional(common.back().x);
}

/// Adds losses at the last step that all runs logged or evaluated, unless it is the last step of
/// each.
void addCommonSteps(const std::vector<RunFiles> &runs, std::vector<Facts> &results) {
  std::vector<std::vector<Point>> training, heldOut;
  for (const RunFiles &run : runs) {
    training.push_back(run.smoothedLoss());
    heldOut.push_back(run.heldOutBits());
  }
  auto isLastOfAll = [](const std::vector<std::vector<Point>> &series, double step) {
    return std::all_of(series.begin(), series.end(),
                       [&](const std::vector<Point> &points) { return points.back().x == step; });
  };
  std::optional<double> step = findLastCommonStep(training);
  if (step && !isLastOfAll(training, *step)) {
    addAtStep(training, *step, "training loss, smoothed,", runs.front().unit(), results);
  }
  step = findLastCommonStep(heldOut);
  if (step && !isLastOfAll(heldOut, *step)) {
    std::vector<std::string> notes;
    for (const RunFiles &run : runs) {
      notes.push_back(run.describeCharacters(*step));
    }
    addAtStep(heldOut, *step, "held-out text", runs.front().unit(), results, notes);
  }
}

} // namespace

std::string makeReport(const Path &path, const std::optional<Causality> &causality,
                       const Facts &hyperparameters, const ShownSegments &segments) {
  RunFiles run(path);
  std::ostringstream out;
  out << pageStart(run.name);
  writeLeak(out, run);
  if (run.damaged > 0) {
    std::string count = std::to_string(run.damaged);
    out << textElement("p",
                       "Damaged lines of metrics.jsonl, which are left out here: " + count + ".")
        << "\n";
  }
  writeFacts(out, "Result", run.results());
  writeCurves(out, run);
  writeSamples(out, readLines(path / "samples.jsonl"));
  writeSegments(out, segments);
  writeFacts(out, "Data", run.data());
  writeFacts(out, "Hyperparameters", hyperparameters);
  writeSpec(out, path);
  writeCosts(out, run.costs);
  writeCausality(out, path, causality);
  out << pageEnd();
  return out.str();
}

std::string makeCurve(const Path &path) {
  RunFiles run(path);
  std::string picture = buildLossChart(run).drawFile();
  if (picture.empty()) {
    throw UserError((path / "metrics.jsonl").string() +
                    ": expected bits per byte, token or chunk to draw, found none; log and "
                    "evaluate more steps");
  }
  return picture;
}

std::string makeComparison(const std::vector<ComparedRun> &compared) {
  std::vector<RunFiles> runs;
  std::vector<Facts> results, hyperparameters;
  for (const ComparedRun &each : compared) {
    const RunFiles &run = runs.emplace_back(each.run);
    if (run.unit() != runs.front().unit()) {
      throw UserError(run.run.string() + ": expected losses in bits per " + runs.front().unit() +
                      ", as of " + runs.front().run.string() + ", found bits per " + run.unit() +
                      ", which are not comparable; compare runs on data of one kind");
    }
    results.push_back(run.results());
    results.back().emplace_back("parameters", showNumber(numberIn(run.costs, "parameters"), 0));
    hyperparameters.push_back(each.hyperparameters);
    Facts data = run.data();
    hyperparameters.back().insert(hyperparameters.back().end(), data.begin(), data.end());
    moveProtocol(results.back(), hyperparameters.back());
  }
  std::vector<std::string> names = getShortNames(runs);
  std::string title;
  for (const std::string &name : names) {
    title += (title.empty() ? "" : ", ") + name;
  }
  addCommonSteps(runs, results);
  std::ostringstream out;
  out << pageStart("Runs compared: " + title, /*isWide=*/true);
  for (const RunFiles &run : runs) {
    writeLeak(out, run);
  }
  out << textElement("h2", "Results") << "\n";
  writeColumns(out, names, results, false);
  out << textElement("h2", "Differences of hyperparameters and data") << "\n";
  writeColumns(out, names, hyperparameters, true);
  for (size_t i = 0; i < runs.size(); ++i) {
    writeSpec(out, runs[i].run, names[i]);
  }
  writeCommonCurves(out, runs, names);
  out << pageEnd();
  return out.str();
}

} // namespace sluice::runtime
