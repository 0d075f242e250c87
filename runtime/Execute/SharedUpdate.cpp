// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SharedUpdate.h"

#include "sluice/Support/Error.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace sluice::runtime {

SharedUpdate::SharedUpdate(ArenaView &view, std::span<uint8_t> arena, ProcessGroup &group)
    : plan(view.plan()), arena(arena), group(group) {
  if (plan.accumulate % group.size() != 0 || !plan.gradientSumsOffset) {
    throw UserError(view.artifact().path() + ": expected batches that " +
                    std::to_string(group.size()) + " processes can share, found " +
                    std::to_string(plan.accumulate) + "; compile the spec again");
  }
  std::vector<std::string> names{"loss"};
  for (const LossFacts &loss : plan.losses) {
    names.push_back(loss.mean);
  }
  for (const std::string &name : names) {
    losses.push_back(plan.scalars.at(name).offset);
  }
  pieces.resize(static_cast<size_t>(group.size()));
  for (std::vector<uint8_t> &piece : pieces) {
    piece.resize(getRange(plan.gradientsOffset, group.rank()).size());
  }
  lossesOf.resize(pieces.size(), std::vector<float>(losses.size()));
}

std::span<uint8_t> SharedUpdate::getRange(int64_t offset, int64_t rank) const {
  constexpr int64_t line = 64;
  int64_t lines = (plan.gradientsBytes + line - 1) / line,
          each = (lines + group.size() - 1) / group.size() * line;
  int64_t begin = std::min(rank * each, plan.gradientsBytes),
          end = std::min(begin + each, plan.gradientsBytes);
  return arena.subspan(static_cast<size_t>(offset + begin), static_cast<size_t>(end - begin));
}

void SharedUpdate::sum(int64_t last, const std::function<void(int64_t batch)> &accumulate) {
  bool isInterrupted = group.isInterrupted && group.isInterrupted();
  if (group.agree(isInterrupted ? Intent::Break : Intent::Continue).intent == Intent::Break) {
    throw UpdateBroken();
  }
  auto own = static_cast<size_t>(group.rank());
  for (size_t i = 0; i < losses.size(); ++i) {
    std::memcpy(&lossesOf[own][i], arena.data() + losses[i], sizeof(float));
  }
  std::span<uint8_t> range = getRange(plan.gradientsOffset, group.rank());
  std::ranges::copy(range, pieces[own].begin());
  std::vector<ProcessGroup::Outgoing> sent;
  std::vector<ProcessGroup::Incoming> received;
  auto asBytes = [](std::vector<float> &values) {
    return std::span(reinterpret_cast<uint8_t *>(values.data()), values.size() * sizeof(float));
  };
  for (int64_t other = 0; other < group.size(); ++other) {
    auto number = static_cast<size_t>(other);
    if (number != own) {
      sent.push_back({other, asBytes(lossesOf[own])});
      sent.push_back({other, getRange(plan.gradientsOffset, other)});
      received.push_back({other, asBytes(lossesOf[number])});
      received.push_back({other, pieces[number]});
    }
  }
  group.exchange(sent, received);
  if (last < group.size()) { // the first batches of an update
    notFinite.clear();
  }
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    auto number = static_cast<size_t>(rank);
    if (!std::isfinite(lossesOf[number].front())) {
      notFinite.insert(rank);
    }
    std::ranges::copy(pieces[number], range.begin());
    for (size_t i = 0; i < losses.size(); ++i) {
      std::memcpy(arena.data() + losses[i], &lossesOf[number][i], sizeof(float));
    }
    accumulate(last - group.size() + 1 + rank);
  }
}

void SharedUpdate::gather() {
  std::vector<ProcessGroup::Outgoing> sent;
  std::vector<ProcessGroup::Incoming> received;
  for (int64_t other = 0; other < group.size(); ++other) {
    if (other != group.rank()) {
      sent.push_back({other, getRange(*plan.gradientSumsOffset, group.rank())});
      received.push_back({other, getRange(*plan.gradientSumsOffset, other)});
    }
  }
  group.exchange(sent, received);
}

} // namespace sluice::runtime
