// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a reading of a spec begins, its text, and where it ends, the values that count.
#include "Fields.h"

#include <set>

using namespace certify;

json certify::parseSpec(const std::string &text) {
  constexpr int deepest = 64;
  std::vector<std::set<std::string>> open;
  auto watch = [&](int depth, json::parse_event_t event, json &parsed) {
    if (depth > deepest) {
      throw BadInput("expected at most 64 levels of nesting, found more");
    }
    if (event == json::parse_event_t::object_start) {
      open.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open.pop_back();
    } else if (event == json::parse_event_t::key && !open.back().insert(parsed).second) {
      throw BadInput("expected keys that stand once, found " + parsed.dump() + " twice");
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::exception &error) {
    throw BadInput(std::string("expected JSON, found ") + error.what());
  }
}

/// Which values `rows` are computed from.
static std::vector<bool> findLive(const Graph &graph, const std::vector<size_t> &rows) {
  std::vector<bool> live(graph.values.size());
  for (size_t row : rows) {
    live[row] = true;
  }
  for (size_t i = graph.values.size(); i-- > 0;) {
    for (size_t operand : graph.values[i].operands) {
      live[operand] = live[operand] || live[i];
    }
  }
  return live;
}

void certify::keepLive(Graph &graph) {
  std::vector<size_t> rows;
  for (const Loss &loss : graph.losses) {
    rows.push_back(loss.row);
  }
  std::vector<bool> live = findLive(graph, rows), sampled = findLive(graph, {graph.head().row});
  std::vector<size_t> numbers(graph.values.size());
  std::vector<Value> kept;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (live[i]) {
      numbers[i] = kept.size();
      kept.push_back(std::move(graph.values[i]));
      kept.back().isSampled = sampled[i];
      for (size_t &operand : kept.back().operands) {
        operand = numbers[operand];
      }
      if (std::optional<size_t> &segments = kept.back().segments) {
        segments = numbers[*segments];
      }
    }
  }
  for (Loss &loss : graph.losses) {
    loss.row = numbers[loss.row];
  }
  graph.values = std::move(kept);
}
