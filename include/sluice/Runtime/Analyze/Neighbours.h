// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds pieces of a text that have similar representations on a scale ("Multi-scale Transformer
// Language Models", arXiv 2005.00581, figure 5).
#pragma once

#include "sluice/Runtime/Data/Data.h"
#include "sluice/Runtime/Execute/Executor.h"

#include <functional>
#include <string>
#include <vector>

namespace sluice::runtime {

struct NeighbourOptions {
  int64_t queries = 8; ///< number of query groups, evenly spread over the text
  int64_t nearest = 5; ///< neighbours per query
};

struct NeighbourResult {
  /// A complete group: `factor` tokens of a file.
  struct Group {
    std::string file;
    int64_t start = 0;
    std::string text;
    double similarity = 1; ///< cosine similarity of its row and the query's row
  };
  struct Query {
    Group group;
    std::vector<Group> nearest; ///< nearest first; ties in the order of the text
  };
  int64_t factor = 1, groups = 0;
  std::vector<Query> queries;
};

/// Compares the rows of a stream on a scale of `factor`. The entry `predict` of the executor must
/// return these rows. Throws UserError if the files have too few complete groups.
NeighbourResult measureNeighbours(Executor &executor, const std::vector<ByteFile> &files,
                                  int64_t factor, const NeighbourOptions &options,
                                  const std::function<void(double)> &progress = {});

/// Returns an HTML page with the groups and their neighbours.
std::string drawNeighbours(const NeighbourResult &result, const std::string &model);

} // namespace sluice::runtime
