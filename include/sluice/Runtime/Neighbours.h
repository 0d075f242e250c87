// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which pieces of a text a scale takes for alike ("Multi-scale Transformer Language Models", arXiv
// 2005.00581, figure 5).
#pragma once

#include "sluice/Runtime/Data.h"
#include "sluice/Runtime/Executor.h"

#include <functional>
#include <string>
#include <vector>

namespace sluice::runtime {

struct NeighbourOptions {
  int64_t queries = 8; ///< groups to look for neighbours of, evenly spread over the text
  int64_t nearest = 5; ///< neighbours of each
};

struct NeighbourResult {
  /// A whole group: `factor` bytes of a file.
  struct Group {
    std::string file;
    int64_t start = 0;
    std::string text;
    double similarity = 1; ///< cosine of its row and the query's
  };
  struct Query {
    Group group;
    std::vector<Group> nearest; ///< nearest first; of equals the first in the text
  };
  int64_t factor = 1, groups = 0;
  std::vector<Query> queries;
};

/// Compares the rows of a stream on a scale of `factor`, from an executor whose entry `predict`
/// gives them. Throws UserError where the files have too few whole groups.
NeighbourResult measureNeighbours(Executor &executor, const std::vector<ByteFile> &files,
                                  int64_t factor, const NeighbourOptions &options,
                                  const std::function<void(double)> &progress = {});

/// A page (HTML) with the groups and their neighbours.
std::string drawNeighbours(const NeighbourResult &result, const std::string &model);

} // namespace sluice::runtime
