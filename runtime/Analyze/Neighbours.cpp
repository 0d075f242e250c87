// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Analyze/Neighbours.h"

#include "Report/Html.h"
#include "sluice/Runtime/Execute/Predictions.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice::runtime {
namespace {

using Group = NeighbourResult::Group;

/// Complete groups of files, and their rows normalized to length 1.
struct NeighbourTable {
  std::vector<Group> groups;
  std::vector<float> rows;
  size_t width = 0;

  std::span<const float> row(size_t group) const {
    return std::span(rows).subspan(group * width, width);
  }
};

void appendRow(NeighbourTable &table, std::span<const float> row) {
  double squares = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
  double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (float x : row) {
    table.rows.push_back(static_cast<float>(x * scale));
  }
  table.width = row.size();
}

void appendFile(NeighbourTable &table, Executor &executor, const ByteFile &file, int64_t factor,
                const std::function<void(double)> &progress) {
  int64_t context = executor.plan().model.context,
          rowsOfWindow = countRows(context, context, factor);
  int64_t row = 0;
  computeRows(
      executor, file, factor,
      [&](std::span<const float> numbers) {
        int64_t window = row / rowsOfWindow * context, start = window + row % rowsOfWindow * factor;
        ++row;
        if (start + factor > std::min<int64_t>(window + context, file.tokenCount())) {
          return; // an incomplete group
        }
        table.groups.push_back({file.path.string(), start, file.readText(start, factor), 1});
        appendRow(table, numbers);
      },
      progress);
}

std::vector<Group> findNearest(const NeighbourTable &table, size_t query, int64_t count) {
  std::vector<std::pair<double, size_t>> found; // by distance, then by position
  for (size_t group = 0; group < table.groups.size(); ++group) {
    if (group != query) {
      std::span<const float> a = table.row(query), b = table.row(group);
      found.emplace_back(-std::inner_product(a.begin(), a.end(), b.begin(), 0.0), group);
    }
  }
  std::partial_sort(found.begin(), found.begin() + count, found.end());
  std::vector<Group> nearest;
  for (auto [distance, group] : std::span(found).first(static_cast<size_t>(count))) {
    nearest.push_back(table.groups[group]);
    nearest.back().similarity = -distance;
  }
  return nearest;
}

} // namespace

NeighbourResult measureNeighbours(Executor &executor, const std::vector<ByteFile> &files,
                                  int64_t factor, const NeighbourOptions &options,
                                  const std::function<void(double)> &progress) {
  NeighbourTable table;
  for (size_t i = 0; i < files.size(); ++i) {
    appendFile(table, executor, files[i], factor, [&](double share) {
      if (progress) {
        progress((static_cast<double>(i) + share) / static_cast<double>(files.size()));
      }
    });
  }
  int64_t groups = std::ssize(table.groups),
          needed = std::max(options.queries, options.nearest + 1);
  if (groups < needed) {
    throw UserError("expected a text of at least " + std::to_string(needed) + " whole groups of " +
                    std::to_string(factor) + " tokens, found " + std::to_string(groups) +
                    "; give a longer file or ask for fewer");
  }
  NeighbourResult result{factor, groups, {}};
  for (int64_t i = 0; i < options.queries; ++i) {
    auto query = static_cast<size_t>(i * groups / options.queries);
    result.queries.push_back({table.groups[query], findNearest(table, query, options.nearest)});
  }
  return result;
}

std::string drawNeighbours(const NeighbourResult &result, const std::string &model) {
  std::ostringstream out;
  out << pageStart("Groups that " + model + " places close together, " +
                   std::to_string(result.factor) + " tokens a group");
  for (const NeighbourResult::Query &query : result.queries) {
    out << textElement("h2", query.group.text) << "\n" << tableStart();
    for (const Group &group : query.nearest) {
      writeRow(out, showNumber(group.similarity, 3), group.text);
    }
    out << tableEnd();
  }
  out << pageEnd();
  return out.str();
}

} // namespace sluice::runtime
