// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Edges.h"

#include "sluice/Support/Hash.h"

#include <algorithm>
#include <charconv>

namespace sluice::runtime {

static const std::string edgesPrefix = "edges.";

static std::string findPattern(const Plan &plan, const std::string &name) {
  for (const InputFacts &facts : plan.facts ? plan.facts->inputs : std::vector<InputFacts>()) {
    if (facts.name == name) {
      return facts.pattern;
    }
  }
  return "";
}

std::vector<EdgeInput> getEdgeInputs(const Plan &plan) {
  std::vector<EdgeInput> all;
  for (const auto &[place, region] : plan.inputs) { // edges.ON.NAME
    size_t dot = place.rfind('.');
    if (!place.starts_with(edgesPrefix) || dot < edgesPrefix.size()) {
      continue;
    }
    std::string on = place.substr(edgesPrefix.size(), dot - edgesPrefix.size());
    auto rows = plan.given.find(on);
    if (rows != plan.given.end() && region.shape.size() == 2) {
      const std::string &axis = rows->second.on.empty() ? on : rows->second.on;
      int64_t positions = rows->second.capacity;
      std::string name = place.substr(dot + 1);
      all.push_back(
          {name, on, axis, positions, (region.shape[1] - positions) / 2, findPattern(plan, name)});
    }
  }
  return all;
}

std::string edgesInput(const EdgeInput &edges) { return edgesPrefix + edges.on + "." + edges.name; }

int64_t countWords(std::span<const int32_t> bits) {
  auto ends = std::ranges::count_if(bits, [](int32_t bit) { return bit != 0; });
  return ends + (!bits.empty() && bits.back() == 0 ? 1 : 0);
}

Edges buildPattern(const std::string &pattern, int64_t rows, uint64_t key) {
  Edges edges;
  for (int32_t v = 1; v < rows; ++v) {
    auto above = static_cast<uint64_t>(v);
    auto drawn = static_cast<int32_t>(mix64(key ^ mix64(above)) % above);
    edges.emplace_back(pattern == "chain" ? v - 1 : drawn, v);
  }
  std::ranges::sort(edges);
  return edges;
}

int32_t computeDrawNumber(uint64_t key) {
  constexpr uint64_t discardedBits = 33;
  return static_cast<int32_t>(mix64(key) >> discardedBits);
}

/// Parses "0-3".
static std::optional<std::pair<int32_t, int32_t>> parseEdge(std::string_view word) {
  int32_t u = 0, v = 0;
  const char *end = word.data() + word.size();
  auto [dash, error] = std::from_chars(word.data(), end, u);
  if (error != std::errc() || dash == end || *dash != '-' || word.front() == '-' ||
      dash + 1 == end || dash[1] == '-') {
    return std::nullopt;
  }
  auto [last, wrong] = std::from_chars(dash + 1, end, v);
  if (wrong != std::errc() || last != end || u == v) {
    return std::nullopt;
  }
  return std::minmax(u, v);
}

std::optional<Edges> parseEdges(std::string_view line, std::string &wrong) {
  Edges edges;
  while (!line.empty()) {
    std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    if (word.empty()) {
      continue;
    }
    auto edge = parseEdge(word);
    if (!edge) {
      wrong = word;
      return std::nullopt;
    }
    edges.push_back(*edge);
  }
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

void writeEdgeLists(const Edges &edges, int64_t rows, std::span<int32_t> into) {
  std::vector<std::pair<int32_t, int32_t>> entries; // of both rows of an edge
  for (auto [u, v] : edges) {
    if (u >= 0 && v < rows) {
      entries.emplace_back(u, v);
      entries.emplace_back(v, u);
    }
  }
  std::ranges::sort(entries);
  std::ranges::fill(into, 0);
  size_t next = 0;
  for (int64_t row = 0; row < rows; ++row) {
    for (; next < entries.size() && entries[next].first == row; ++next) {
      into[static_cast<size_t>(rows) + next] = entries[next].second;
    }
    into[static_cast<size_t>(row)] = static_cast<int32_t>(next);
  }
}

} // namespace sluice::runtime
