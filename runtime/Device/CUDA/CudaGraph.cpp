// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CudaGraph.h"

#include <algorithm>
#include <map>
#include <set>

namespace sluice::runtime::cuda {

/// Checks whether a launch may write a scalar. A kernel without listed operands may write any.
static bool writesScalar(const Plan &plan, const Launch &launch) {
  const std::vector<Operand> &operands = plan.kernels[static_cast<size_t>(launch.kernel)].operands;
  if (operands.empty()) {
    return true;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    for (const auto &[name, scalar] : plan.scalars) {
      int64_t begin = launch.arguments[i], end = begin + operands[i].bytes;
      if (operands[i].written && begin < scalar.offset + getByteSize(scalar.type) &&
          scalar.offset < end) {
        return true;
      }
    }
  }
  return false;
}

namespace {

/// The streams of a graph under capture, which may run concurrently. Creates the events, so it must
/// be constructed before the capture begins.
class Capture {
public:
  Capture(const Driver &driver, const Segment &segment, const CaptureStreams &streams,
          const std::vector<Mark> &marks)
      : driver(driver), segment(segment), main(streams.main), side(streams.side),
        marker(streams.marks), marks(marks) {
    for (const Lane &lane : segment.lanes) {
      forks |= lane.side;
    }
    auto signals = std::count_if(segment.lanes.begin(), segment.lanes.end(),
                                 [](const Lane &lane) { return lane.signals; });
    auto needed = (forks ? signals + 2 : 0) + (marks.empty() ? 0 : 2 * std::ssize(marks) + 1);
    for (auto i = needed; i > 0; --i) {
      Event event = nullptr;
      driver.check(driver.eventCreate(&event, eventDisableTiming), "create an event");
      events.emplace_back(event, driver.eventDestroy);
    }
  }

  void run(const std::function<void(size_t index, Stream stream)> &launch) {
    if (forks) {
      wait(side, record(main));
    }
    auto next = marks.begin();
    for (size_t i = segment.first; i < segment.last; ++i) {
      for (; next != marks.end() && next->position == i; ++next) {
        mark(next->event);
      }
      const Lane &lane = segment.lanes[i - segment.first];
      Stream stream = lane.side ? side : main;
      if (lane.waitsFor >= 0) {
        wait(stream, done.at(static_cast<size_t>(lane.waitsFor)));
      }
      launch(i, stream);
      if (lane.signals) {
        done[i] = record(stream);
      }
    }
    for (; next != marks.end(); ++next) {
      mark(next->event);
    }
    if (forks) {
      wait(main, record(side));
    }
    if (!marks.empty()) {
      wait(main, record(marker));
    }
  }

private:
  void mark(Event event) {
    wait(marker, record(main));
    if (forks) {
      wait(marker, record(side));
    }
    driver.check(driver.eventRecordWithFlags(event, marker, eventRecordExternal),
                 "record an event");
  }
  Event record(Stream stream) {
    Event event = events[recorded++].get();
    driver.check(driver.eventRecord(event, stream), "record an event");
    return event;
  }
  void wait(Stream stream, Event event) {
    driver.check(driver.streamWaitEvent(stream, event, 0), "wait for an event");
  }

  const Driver &driver;
  const Segment &segment;
  Stream main, side, marker;
  const std::vector<Mark> &marks;
  bool forks = false;
  std::vector<Owned<Event>> events;
  size_t recorded = 0;
  std::map<size_t, Event> done; // by launch
};

} // namespace

Owned<GraphExec> captureGraph(const Driver &driver, const Segment &segment,
                              const CaptureStreams &streams, const std::vector<Mark> &marks,
                              const std::function<void(size_t index, Stream stream)> &launch) {
  Capture capture(driver, segment, streams, marks);
  Stream main = streams.main;
  driver.check(driver.streamBeginCapture(main, captureThreadLocal), "begin a graph");
  Graph graph = nullptr;
  try {
    capture.run(launch);
  } catch (...) {
    driver.streamEndCapture(main, &graph);
    throw;
  }
  driver.check(driver.streamEndCapture(main, &graph), "end a graph");
  Owned<Graph> owner(graph, driver.graphDestroy);
  GraphExec exec = nullptr;
  driver.check(driver.graphInstantiate(&exec, graph, 0), "create a graph");
  return {exec, driver.graphExecDestroy};
}

std::vector<Segment> cutSegments(const Plan &plan, const std::string &entry,
                                 const std::vector<Launch> &launches) {
  std::set<size_t> counted;
  for (const Plan::Count &count : plan.countsIn(launches)) {
    if (plan.isOfBucket(entry)) {
      counted.insert(count.launch);
    }
  }
  auto same = [](const std::optional<Guard> &a, const std::optional<Guard> &b) {
    return a.has_value() == b.has_value() &&
           (!a || (a->scalar == b->scalar && a->equals == b->equals));
  };
  std::vector<Segment> segments;
  for (size_t i = 0; i < launches.size(); ++i) {
    // Kernels of rows that are not due return immediately, so the host need not read these guards.
    bool waits = launches[i].guard && !launches[i].guard->scalar.starts_with("due.");
    const std::optional<Guard> guard = waits ? launches[i].guard : std::nullopt;
    if (segments.empty() || !same(segments.back().guard, guard) ||
        (guard && segments.back().writesScalars) || (i > 0 && counted.contains(i - 1))) {
      segments.push_back({guard, i, i, false, {}, {}});
    }
    segments.back().last = i + 1;
    segments.back().writesScalars |= writesScalar(plan, launches[i]);
  }
  return segments;
}

} // namespace sluice::runtime::cuda
