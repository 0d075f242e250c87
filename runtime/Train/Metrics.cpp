// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/OutputFile.h"

#include "sluice/Support/StrictJson.h"

#include <functional>

namespace sluice::runtime {
namespace {

/// Calls `each` with the text and the object of every line that is not empty. The object is null if
/// the line is not an object with a step.
void forEachLine(const Path &path, const std::function<void(std::string_view, Json)> &each) {
  if (!isThere(path)) {
    return;
  }
  std::string all = readText(path, "lines of the run");
  for (std::string_view rest = all; !rest.empty();) {
    std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    if (text.empty()) {
      continue;
    }
    Json line = parseJson(text).value;
    bool isWhole = line.is_object() && line.contains("step") && line["step"].is_number_integer() &&
                   line["step"].get<int64_t>() >= 0;
    each(text, isWhole ? std::move(line) : Json());
  }
}

} // namespace

std::vector<Json> readLines(const Path &path, int64_t *damaged) {
  std::vector<Json> lines;
  int64_t others = 0;
  forEachLine(path, [&](std::string_view, Json line) {
    if (line.is_null()) {
      ++others;
    } else {
      lines.push_back(std::move(line));
    }
  });
  if (damaged) {
    *damaged = others;
  }
  return lines;
}

int64_t keepLinesUpTo(const Path &path, int64_t step) {
  std::string kept, aside;
  int64_t damaged = 0;
  forEachLine(path, [&](std::string_view text, const Json &line) {
    if (line.is_null()) {
      aside += std::string(text) + "\n";
      ++damaged;
    } else if (line["step"] <= step) {
      kept += std::string(text) + "\n";
    }
  });
  Path beside = path;
  beside += ".damaged";
  if (damaged > 0) {
    // The copy is written first: a kill before the next write leaves these lines twice, not
    // nowhere.
    std::string before = isThere(beside) ? readText(beside, "damaged lines") : "";
    replaceFile(beside, asBytes(before + aside));
  }
  if (isThere(path)) {
    replaceFile(path, asBytes(kept));
  }
  return damaged;
}

std::string linesAfter(const Path &path, int64_t step) {
  std::string later;
  forEachLine(path, [&](std::string_view text, const Json &line) {
    if (!line.is_null() && line["step"] > step) {
      later += std::string(text) + "\n";
    }
  });
  return later;
}

std::string findLossUnit(const Json &line, const std::string &prefix) {
  for (const char *unit : {"chunk", "byte", "token"}) {
    if (auto bits = line.find(prefix + unit); bits != line.end() && bits->is_number()) {
      return unit;
    }
  }
  return "";
}

Json measureShortening(const Plan &plan, const Json &losses) {
  Json factors = Json::object();
  for (const SegmentFacts &segments : plan.segments) {
    if (losses.contains(segments.share)) { // model IR may omit it
      double share = losses[segments.share];
      factors[segments.axis] = share > 0 ? Json(1 / share) : Json(nullptr);
    }
  }
  return factors;
}

void appendLine(const Path &path, const Json &line) {
  // Samples may have bytes that are not UTF-8.
  appendFile(path, asBytes(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"));
}

} // namespace sluice::runtime
