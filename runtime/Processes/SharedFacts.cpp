// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Processes/SharedFacts.h"

#include <sstream>

namespace sluice::runtime {

static std::vector<std::string> splitLines(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

void requireSharedFacts(ProcessGroup &group, const std::vector<SharedFact> &facts) {
  std::string own;
  for (const SharedFact &fact : facts) {
    own += fact.value + '\n';
  }
  std::vector<std::string> texts = group.agree(Intent::Continue, own).texts;
  std::vector<std::string> first = splitLines(texts.front());
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    std::vector<std::string> other = splitLines(texts[rank]);
    for (size_t i = 0; i < facts.size(); ++i) {
      if (other.at(i) != first.at(i)) {
        throw UserError("rank " + std::to_string(rank) + ": expected the " + facts[i].name +
                        " of rank 0, " + first[i] + ", found " + other[i] + "; " + facts[i].remedy);
      }
    }
  }
}

} // namespace sluice::runtime
