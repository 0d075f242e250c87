// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "StageTimes.h"

#include "sluice/Support/Error.h"

#include <algorithm>

namespace sluice::cli {

using namespace runtime;
using Json = nlohmann::json;

namespace {

struct StageTime {
  std::string stage; ///< empty: launches without a stage
  std::string op, name;
  double forward = 0, backward = 0, update = 0, shared = 0; ///< seconds

  double total() const { return forward + backward + update; }
};

class StageTimes {
public:
  explicit StageTimes(const Plan &plan) {
    if (!plan.facts) {
      return;
    }
    for (const StreamFacts &stream : plan.facts->streams) {
      find(stream.stage).op = stream.op;
    }
    for (const StreamName &name : plan.facts->names) {
      auto row = std::ranges::find(rows, name.stage, &StageTime::stage);
      if (row != rows.end()) {
        row->name = name.name;
      }
    }
  }

  void add(const Launch &launch, double seconds) {
    StageTime &time = launch.stages.empty() ? others : find(launch.stages.front());
    (launch.phase == "backward" ? time.backward
     : launch.phase == "update" ? time.update
                                : time.forward) += seconds;
    for (size_t i = 1; i < launch.stages.size(); ++i) {
      find(launch.stages[i]).shared += seconds;
    }
  }

  std::vector<StageTime> all() const {
    std::vector<StageTime> result = rows;
    result.push_back(others);
    return result;
  }

private:
  StageTime &find(const std::string &stage) {
    auto row = std::ranges::find(rows, stage, &StageTime::stage);
    if (row != rows.end()) {
      return *row;
    }
    rows.emplace_back().stage = stage;
    return rows.back();
  }

  std::vector<StageTime> rows;
  StageTime others;
};

} // namespace

void requireStages(const Plan &plan) {
  for (const auto &[entry, launches] : plan.entries) {
    if (std::ranges::any_of(launches, [](const Launch &each) { return !each.stages.empty(); })) {
      return;
    }
  }
  throw UserError("--by-stage: expected an artifact whose launches name their stages, found none; "
                  "compile the spec again (model IR without locations has no stages)");
}

Json computeStageTimes(const Executor &executor, int64_t steps) {
  StageTimes times(executor.plan());
  for (const KernelTime &kernel : executor.times()) {
    for (const auto &[launch, seconds] : kernel.ofLaunches) {
      times.add(*launch, seconds);
    }
  }
  double sum = 0;
  for (const StageTime &time : times.all()) {
    sum += time.total();
  }
  Json table = Json::array();
  for (const StageTime &time : times.all()) {
    auto milliseconds = [&](double seconds) { return seconds * 1e3 / double(steps); };
    table.push_back({{"stage", time.stage.empty() ? Json(nullptr) : Json(time.stage)},
                     {"op", time.op},
                     {"ms", milliseconds(time.total())},
                     {"share", sum > 0 ? time.total() / sum : 0},
                     {"forward_ms", milliseconds(time.forward)},
                     {"backward_ms", milliseconds(time.backward)},
                     {"update_ms", milliseconds(time.update)},
                     {"shared_ms", milliseconds(time.shared)}});
    if (!time.name.empty()) {
      table.back()["name"] = time.name;
    }
  }
  return table;
}

} // namespace sluice::cli
