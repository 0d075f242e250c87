// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "BatchNumbers.h"

#include "sluice/Runtime/Processes/ProcessGroup.h"

#include <algorithm>

namespace sluice::runtime {

BatchList listBatches(const std::vector<ByteFile> &files, const EvaluationOptions &options,
                      size_t rows, int64_t unscored, bool mayFill) {
  BatchList list;
  int64_t scored = 0;
  for (const ByteFile &file : files) {
    int64_t size = file.tokenCount();
    if (options.mostTokens > 0) {
      size = std::min(size, options.mostTokens - scored + 1 + unscored);
    }
    scored += std::max<int64_t>(0, size - 1 - unscored);
    list.sizes.push_back(size);
    list.windows.push_back(cutWindows(size, options.window, options.stride));
    std::span<const Window> windows = list.windows.back(); // its memory moves with the vector
    for (size_t first = 0; first < windows.size();) {
      size_t last = first + 1;
      while (last < windows.size() && last - first < rows &&
             (mayFill || windows[last].length == windows[first].length)) {
        ++last;
      }
      list.batches.push_back({list.windows.size() - 1, windows.subspan(first, last - first)});
      first = last;
    }
  }
  return list;
}

BatchNumbers::BatchNumbers(const Plan &plan, std::span<const Window> windows)
    : outputs{"losses"}, starts{0} {
  auto add = [&](const std::string &output) {
    if (std::ranges::find(outputs, output) == outputs.end()) {
      outputs.push_back(output);
    }
  };
  if (const CountedLoss *counted = plan.findCounted()) {
    add(counted->rows);
  }
  for (const LossFacts &loss : plan.losses) {
    add(loss.rows);
    if (const CountedLoss *counted = plan.findCounted(loss.name)) {
      add(counted->rows);
    }
  }
  for (const Window &window : windows) {
    starts.push_back(starts.back() + static_cast<size_t>(window.length));
  }
  numbers.resize(outputs.size() * starts.back());
}

void BatchNumbers::read(Executor &executor) {
  auto into = numbers.begin();
  for (const std::string &output : outputs) {
    for (size_t row = 0; row + 1 < starts.size(); ++row) {
      std::span<const float> all = executor.outputRow(output, static_cast<int64_t>(row));
      into = std::ranges::copy(all.first(starts[row + 1] - starts[row]), into).out;
    }
  }
}

std::span<const float> BatchNumbers::row(const std::string &output, size_t row) const {
  auto index = static_cast<size_t>(std::ranges::find(outputs, output) - outputs.begin());
  return std::span(numbers).subspan(index * starts.back() + starts[row],
                                    starts[row + 1] - starts[row]);
}

std::span<uint8_t> BatchNumbers::bytes() {
  return {reinterpret_cast<uint8_t *>(numbers.data()), numbers.size() * sizeof(float)};
}

size_t countShares(const ProcessGroup *group) {
  return group ? static_cast<size_t>(group->size()) : 1;
}

void computeRound(Executor &executor, std::span<BatchNumbers> round, ProcessGroup *group,
                  const std::function<void(size_t)> &run) {
  auto own = static_cast<size_t>(group ? group->rank() : 0);
  if (own < round.size()) {
    run(own);
    round[own].read(executor);
  }
  if (!group) {
    return;
  }
  group->agree();
  std::vector<ProcessGroup::Outgoing> sent;
  std::vector<ProcessGroup::Incoming> received;
  for (size_t other = 0; other < countShares(group); ++other) {
    if (other == own) {
      continue;
    }
    if (own < round.size()) {
      sent.push_back({static_cast<int64_t>(other), round[own].bytes()});
    }
    if (other < round.size()) {
      received.push_back({static_cast<int64_t>(other), round[other].bytes()});
    }
  }
  group->exchange(sent, received);
}

} // namespace sluice::runtime
