// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Transforms/ParameterLayout.h"

using namespace mlir;
using namespace sluice;

ParameterLayout::ParameterLayout(ModuleOp module) {
  for (auto parameter : module.getOps<ParameterOp>()) {
    if (parameter.getFrozen()) {
      continue;
    }
    int64_t elements = cast<RankedTensorType>(parameter.getType()).getNumElements();
    entries.push_back({parameter, rows, elements});
    rows += (elements + flatRowElements - 1) / flatRowElements;
  }
}

int64_t ParameterLayout::getOffsetAt(StringRef parameter) const {
  for (const Entry &entry : entries) {
    if (ParameterOp(entry.parameter).getSymName() == parameter) {
      return entry.row * flatRowElements * 4;
    }
  }
  return -1;
}

std::vector<int64_t> ParameterLayout::getBuckets() const {
  constexpr int64_t rowBytes = flatRowElements * 4, mostBuckets = 8, leastRows = 4;
  int64_t least = std::max((rows + mostBuckets - 1) / mostBuckets, leastRows);
  std::vector<int64_t> starts;
  int64_t end = rows;
  for (const Entry &entry : llvm::reverse(entries)) {
    if (end - entry.row >= least && entry.row >= leastRows) {
      starts.push_back(entry.row * rowBytes);
      end = entry.row;
    }
  }
  starts.push_back(0);
  std::reverse(starts.begin(), starts.end());
  return starts;
}
