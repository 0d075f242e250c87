// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CudaLanes.h"

#include <algorithm>
#include <array>

namespace sluice::runtime::cuda {
namespace {

struct Touch {
  int64_t begin = 0, end = 0;
  bool written = false;
};

/// Returns the ranges of the arena that a launch touches; the whole arena if the plan does not list
/// them.
std::vector<Touch> listTouches(const Plan &plan, const Launch &launch) {
  const PlanKernel &kernel = plan.kernels[static_cast<size_t>(launch.kernel)];
  std::vector<Touch> touches;
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    auto found = std::ranges::find(launch.runs, i, &Runs::operand);
    Runs runs = found == launch.runs.end() ? Runs{i, 1, 0, kernel.operands[i].bytes} : *found;
    for (int64_t run = 0; run < runs.count; ++run) {
      int64_t begin = launch.arguments[i] + run * runs.stride;
      touches.push_back({begin, begin + runs.bytes, kernel.operands[i].written});
    }
  }
  if (touches.empty()) {
    touches.push_back({0, plan.memory.arenaBytes, true});
  } else if (launch.arguments.size() > kernel.operands.size()) {
    // The length of an axis of segments, which another launch writes.
    int64_t length = launch.arguments[kernel.operands.size()];
    touches.push_back({length, length + getByteSize(Type::i64), false});
  }
  return touches;
}

bool overlap(const Touch &a, const Touch &b) { return a.begin < b.end && b.begin < a.end; }

/// Assigns the launches of one entry to streams, by the memory that they touch.
class Assignment {
public:
  Assignment(const Plan &plan, const std::vector<Launch> &launches, size_t first, size_t last)
      : first(first), lanes(last - first) {
    for (size_t i = first; i < last; ++i) {
      touches.push_back(listTouches(plan, launches[i]));
    }
    for (size_t i = 0; i < lanes.size(); ++i) {
      lanes[i].side = !isReadLater(i);
    }
    // If no launch runs in the main stream, the side stream would only cost time.
    if (std::all_of(lanes.begin(), lanes.end(), [](const Lane &lane) { return lane.side; })) {
      lanes.assign(lanes.size(), {});
    } else {
      lanes.back() = {};
    }
  }

  /// Computes for each launch the last launch of the other stream that it must not overlap.
  template <typename Shares> void order(const Shares &shareWorkspace) {
    std::array<int64_t, 2> waited = {-1, -1}; // by stream, within this segment
    for (size_t i = 0; i < lanes.size(); ++i) {
      int64_t last = waited[lanes[i].side ? 1 : 0];
      for (auto j = static_cast<int64_t>(i) - 1; j > last; --j) {
        auto other = static_cast<size_t>(j);
        if (lanes[other].side != lanes[i].side &&
            (conflict(i, other) || shareWorkspace(i, other))) {
          lanes[i].waitsFor = static_cast<int64_t>(first) + j;
          lanes[other].signals = true;
          waited[lanes[i].side ? 1 : 0] = j;
          break;
        }
      }
    }
  }

  const size_t first;
  std::vector<Lane> lanes;

private:
  bool isReadLater(size_t i) const {
    for (size_t j = i + 1; j < touches.size(); ++j) {
      for (const Touch &mine : touches[i]) {
        for (const Touch &later : touches[j]) {
          if (mine.written && !later.written && overlap(mine, later)) {
            return true;
          }
        }
      }
    }
    return false;
  }

  bool conflict(size_t i, size_t j) const {
    return std::any_of(touches[i].begin(), touches[i].end(), [&](const Touch &a) {
      return std::any_of(touches[j].begin(), touches[j].end(),
                         [&](const Touch &b) { return (a.written || b.written) && overlap(a, b); });
    });
  }

  std::vector<std::vector<Touch>> touches;
};

} // namespace

SideMemory getWorkspace(const Plan &plan, const std::string &target, const Launch &launch) {
  const PlanKernel &kernel = plan.kernels[static_cast<size_t>(launch.kernel)];
  auto found = kernel.deviceVariants.find(target);
  if (found == kernel.deviceVariants.end()) {
    return {};
  }
  return {found->second.workspaceBytes,
          found->second.counters * static_cast<int64_t>(sizeof(int32_t))};
}

std::vector<Lane> assignLanes(const Plan &plan, const std::string &target,
                              const std::vector<Launch> &launches, size_t first, size_t last,
                              bool ownWorkspace) {
  Assignment assignment(plan, launches, first, last);
  assignment.order([&](size_t i, size_t j) {
    return !ownWorkspace && getWorkspace(plan, target, launches[first + i]).any() &&
           getWorkspace(plan, target, launches[first + j]).any();
  });
  return std::move(assignment.lanes);
}

SideMemory sideMemory(const Plan &plan, const std::string &target,
                      const std::vector<Launch> &launches, size_t first, size_t last) {
  Assignment assignment(plan, launches, first, last);
  SideMemory most;
  for (size_t i = first; i < last; ++i) {
    if (assignment.lanes[i - first].side) {
      SideMemory needed = getWorkspace(plan, target, launches[i]);
      most.workspaceBytes = std::max(most.workspaceBytes, needed.workspaceBytes);
      most.counterBytes = std::max(most.counterBytes, needed.counterBytes);
    }
  }
  return most;
}

} // namespace sluice::runtime::cuda
