// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Report.h"

#include "StrictJson.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Inspect.h"
#include "sluice/Runtime/Metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace sluice::runtime {
namespace {

using Json = nlohmann::json;

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string escape(const std::string &text) {
  std::string result;
  for (char c : text) {
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default: // a page may hold no control characters, and an untrained model writes them
      result +=
          static_cast<uint8_t>(c) < 0x20 && c != '\n' && c != '\t' ? "\ufffd" : std::string(1, c);
    }
  }
  return result;
}

std::string base64(const std::string &text) {
  static constexpr char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  for (size_t i = 0; i < text.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < text.size() ? static_cast<uint8_t>(text[i + j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      result += i + j > text.size() ? '=' : digits[group >> (18 - 6 * j) & 63];
    }
  }
  return result;
}

struct Point {
  double x, y;
};

/// The finite values of one field over steps.
std::vector<Point> series(const std::vector<Json> &lines, const char *field) {
  std::vector<Point> points;
  for (const Json &line : lines) {
    if (line.contains("step") && line["step"].is_number() && line.contains(field) &&
        line[field].is_number()) {
      points.push_back({line["step"].get<double>(), line[field].get<double>()});
    }
  }
  return points;
}

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

/// A round step of an axis that spans `extent`, for about five ticks.
double tickStep(double extent) {
  double power = std::pow(10, std::floor(std::log10(extent / 5)));
  double ratio = extent / 5 / power;
  return power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
}

/// One chart of one or two curves over steps, as inline SVG.
class Chart {
public:
  explicit Chart(std::string title) : title(std::move(title)) {}

  void add(std::vector<Point> points, const char *color, const char *label, bool dots) {
    if (!points.empty()) {
      curves.push_back({thin(points, 300), color, label, dots});
    }
  }

  std::string draw() {
    if (curves.empty()) {
      return "";
    }
    fit();
    std::ostringstream out;
    out << "<figure><figcaption>" << title << "</figcaption><svg class=\"chart\" viewBox=\"0 0 "
        << width << " " << height << "\" role=\"img\" aria-label=\"" << title << "\">\n";
    axes(out);
    for (size_t i = 0; i < curves.size(); ++i) {
      drawCurve(out, curves[i], i);
    }
    out << "</svg></figure>\n";
    return out.str();
  }

private:
  static constexpr double width = 720, height = 260, left = 56, right = 12, top = 12, bottom = 30;
  struct Curve {
    std::vector<Point> points;
    const char *color, *label;
    bool dots;
  };

  void fit() {
    low = high = curves[0].points[0];
    for (const Curve &curve : curves) {
      for (const Point &point : curve.points) {
        low = {std::min(low.x, point.x), std::min(low.y, point.y)};
        high = {std::max(high.x, point.x), std::max(high.y, point.y)};
      }
    }
    if (high.x <= low.x) {
      high.x = low.x + 1;
    }
    double margin =
        high.y > low.y ? 0.05 * (high.y - low.y) : std::max(1e-6, std::abs(high.y) * 0.1);
    low.y -= margin;
    high.y += margin;
  }
  double x(double value) const {
    return left + (value - low.x) / (high.x - low.x) * (width - left - right);
  }
  double y(double value) const {
    return height - bottom - (value - low.y) / (high.y - low.y) * (height - top - bottom);
  }

  void axes(std::ostringstream &out) const {
    double step = tickStep(high.y - low.y);
    int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
    for (double tick = std::ceil(low.y / step) * step; tick <= high.y; tick += step) {
      out << "<line class=\"grid\" x1=\"" << left << "\" x2=\"" << width - right << "\" y1=\""
          << number(y(tick), 1) << "\" y2=\"" << number(y(tick), 1) << "\"/><text x=\"" << left - 6
          << "\" y=\"" << number(y(tick) + 4, 1) << "\" text-anchor=\"end\">"
          << number(tick, digits) << "</text>\n";
    }
    out << "<text x=\"" << left - 6 << "\" y=\"" << height - 10
        << "\" text-anchor=\"end\">step</text>\n";
    step = std::max(1.0, tickStep(high.x - low.x));
    for (double tick = std::ceil(low.x / step) * step; tick <= high.x; tick += step) {
      bool atEnd = x(tick) > width - 3 * right;
      out << "<text x=\"" << number(atEnd ? width - right : x(tick), 1) << "\" y=\"" << height - 10
          << "\" text-anchor=\"" << (atEnd ? "end" : "middle") << "\">" << number(tick, 0)
          << "</text>\n";
    }
  }

  void drawCurve(std::ostringstream &out, const Curve &curve, size_t index) const {
    out << "<polyline fill=\"none\" stroke=\"" << curve.color
        << "\" stroke-width=\"1.6\" points=\"";
    for (const Point &point : curve.points) {
      out << number(x(point.x), 1) << "," << number(y(point.y), 1) << " ";
    }
    out << "\"/>\n";
    if (curve.dots) {
      for (const Point &point : curve.points) {
        out << "<circle r=\"3\" fill=\"" << curve.color << "\" cx=\"" << number(x(point.x), 1)
            << "\" cy=\"" << number(y(point.y), 1) << "\"/>\n";
      }
    }
    out << "<text x=\"" << width - right - 8 << "\" y=\""
        << top + 14 + 16 * static_cast<double>(index)
        << "\" text-anchor=\"end\" style=\"fill:" << curve.color << "\">" << curve.label
        << "</text>\n";
  }

  std::string title;
  std::vector<Curve> curves;
  Point low{}, high{};
};

/// A JSON file of the run, or null where there is none that parses.
Json optionalJson(const Path &path) {
  if (!runtime::isRegularFile(path)) {
    return nullptr;
  }
  Json json = parseJson(readText(path, "part of the run")).value;
  return json.is_object() ? json : Json(nullptr);
}

void row(std::ostringstream &out, const std::string &name, const std::string &value) {
  out << "<tr><th>" << escape(name) << "</th><td>" << escape(value) << "</td></tr>\n";
}

double field(const Json &json, const char *key) {
  return json.is_object() && json.contains(key) && json[key].is_number() ? json[key].get<double>()
                                                                         : 0;
}

Json member(const Json &json, const char *key) {
  return json.is_object() && json.contains(key) && json[key].is_object() ? json[key]
                                                                         : Json::object();
}

std::string text(const Json &json, const char *key) {
  return json.is_object() && json.contains(key) && json[key].is_string()
             ? json[key].get<std::string>()
             : "";
}

void writeSummary(std::ostringstream &out, const std::vector<Json> &lines, const Json &evaluation,
                  const Json &ngram) {
  const Json &last = lines.back();
  out << "<h2>Result</h2><table>\n";
  row(out, "steps", number(field(last, "step"), 0));
  row(out, "training loss, last step", number(field(last, "bits_per_byte"), 4) + " bits per byte");
  std::vector<Point> heldOut = series(lines, "eval_bits_per_byte");
  if (!heldOut.empty()) {
    row(out, "held-out text, step " + number(heldOut.back().x, 0),
        number(heldOut.back().y, 4) + " bits per byte");
  }
  if (evaluation.is_object()) {
    row(out, "evaluation",
        number(field(evaluation, "bits_per_byte"), 4) + " bits per byte, perplexity " +
            number(field(evaluation, "perplexity"), 3) + ", " +
            number(field(evaluation, "tokens"), 0) + " tokens");
    row(out, "protocol", text(evaluation, "protocol"));
  }
  if (ngram.is_object() && ngram.contains("orders") && ngram["orders"].is_array()) {
    for (const Json &order : ngram["orders"]) {
      row(out, number(field(order, "order"), 0) + "-gram, Witten-Bell",
          number(field(order, "bits_per_byte"), 4) + " bits per byte");
    }
  }
  out << "</table>\n";
}

void writeCurves(std::ostringstream &out, const std::vector<Json> &lines) {
  Chart loss("Bits per byte"), rate("Learning rate, thousandths"),
      norm("Gradient norm before clipping"), speed("Tokens a second, training");
  std::vector<Point> rates = series(lines, "learning_rate");
  for (Point &point : rates) {
    point.y *= 1000;
  }
  loss.add(series(lines, "bits_per_byte"), "#2563a8", "training", false);
  loss.add(series(lines, "eval_bits_per_byte"), "#c2410c", "held out", true);
  rate.add(rates, "#2563a8", "learning rate", false);
  norm.add(series(lines, "grad_norm"), "#2563a8", "norm", false);
  speed.add(series(lines, "tokens_per_s"), "#2563a8", "tokens/s", false);
  out << "<h2>Curves</h2>\n" << loss.draw() << norm.draw() << rate.draw() << speed.draw();
}

void writeSamples(std::ostringstream &out, const std::vector<Json> &samples) {
  if (samples.empty()) {
    return;
  }
  out << "<h2>Samples</h2>\n";
  size_t first = samples.size() > 8 ? samples.size() - 8 : 0;
  for (size_t i = samples.size(); i-- > first;) {
    const Json &sample = samples[i];
    out << "<h3>Step " << number(field(sample, "step"), 0) << "</h3><pre><b>"
        << escape(text(sample, "prompt")) << "</b>" << escape(text(sample, "text")) << "</pre>\n";
  }
}

void writeCosts(std::ostringstream &out, const Json &costs) {
  if (!costs.is_object()) {
    return;
  }
  out << "<h2>Model and costs</h2><table>\n";
  row(out, "parameters", number(field(costs, "parameters"), 0));
  row(out, "context, batch, width",
      number(field(costs, "context"), 0) + ", " + number(field(costs, "batch"), 0) + ", " +
          number(field(costs, "width"), 0));
  Json proof = member(costs, "proof"), launches = member(costs, "launches"),
       step = member(costs, "step");
  Json memory = member(costs, "memory"), scales = member(memory, "by_scale");
  row(out, "causality",
      text(proof, "verdict") == "proved" ? "proved" : "not proved: a leak was allowed");
  row(out, "launches a training step",
      number(field(launches, "forward"), 0) + " forward, " +
          number(field(launches, "backward"), 0) + " backward, " +
          number(field(launches, "update"), 0) + " update");
  row(out, "a training step",
      number(field(step, "flops") / 1e9, 3) + " Gflop, " + showBytes(field(step, "bytes")) +
          " moved");
  row(out, "memory",
      showBytes(field(memory, "arena_bytes")) + ", peak " + showBytes(field(memory, "peak_bytes")));
  for (const auto &[scale, bytes] : scales.items()) {
    row(out, "memory of scale " + scale, showBytes(bytes.is_number() ? bytes.get<double>() : 0));
  }
  out << "</table>\n";
}

void writeCausality(std::ostringstream &out, const Path &run,
                    const std::optional<Causality> &causality) {
  Path picture = run / "causality.svg";
  if (causality) {
    out << "<h2>Causality</h2>\n<p class=\"lines\">" << escape(causality->verdict) << "</p>\n";
    if (!causality->findings.empty()) {
      out << "<ul>\n";
      for (const std::string &finding : causality->findings) {
        out << "<li>" << escape(finding) << "</li>\n";
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

constexpr const char *style = R"(<style>
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1c2430}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #d6dbe1}h3{font-size:.95rem;margin:.8rem 0 .2rem}
table{border-collapse:collapse}th{text-align:left;font-weight:500;padding:.15rem 1.5rem .15rem 0;vertical-align:top;white-space:nowrap}
figure{margin:1rem 0}figcaption{font-weight:500}svg{width:100%;height:auto}.chart text{font:12px system-ui,sans-serif;fill:#52606d;paint-order:stroke;stroke:#fff;stroke-width:4px}
.grid{stroke:#e4e8ec}li,.lines{overflow-wrap:anywhere}.lines{white-space:pre-line}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f7f9;padding:.7rem;border-radius:4px}
</style>)";

} // namespace

std::string makeReport(const Path &run, const std::optional<Causality> &causality) {
  if (!runtime::isFolder(run)) {
    throw UserError(run.string() +
                    ": expected a run's directory, found none; name the --out of sluice train");
  }
  int64_t damaged = 0;
  std::vector<Json> lines = readLines(run / "metrics.jsonl", &damaged);
  if (lines.empty()) {
    throw UserError((run / "metrics.jsonl").string() +
                    ": expected the run's metrics, found none; train first");
  }
  Json costs = optionalJson(run / "costs.json");
  std::error_code ignored;
  std::string name = costs.is_object() && costs.contains("name") && costs["name"].is_string()
                         ? costs["name"].get<std::string>()
                         : std::filesystem::absolute(run, ignored).filename().string();
  std::ostringstream out;
  out << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" << escape(name)
      << "</title>\n"
      << style << "</head>\n<body><h1>" << escape(name) << "</h1>\n";
  if (damaged > 0) {
    out << "<p>Damaged lines of metrics.jsonl, which are left out here: " << damaged << ".</p>\n";
  }
  writeSummary(out, lines, optionalJson(run / "eval.json"), optionalJson(run / "ngram.json"));
  writeCurves(out, lines);
  writeSamples(out, readLines(run / "samples.jsonl"));
  writeCosts(out, costs);
  writeCausality(out, run, causality);
  out << "</body></html>\n";
  return out.str();
}

} // namespace sluice::runtime
