// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which values of a graph count.
#include "Graph.h"

using namespace certify;

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
    }
  }
  for (Loss &loss : graph.losses) {
    loss.row = numbers[loss.row];
  }
  graph.values = std::move(kept);
}
