// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Collectives.h"

#include <algorithm>

namespace sluice::runtime {
namespace {

constexpr const char *entryWithCollectives = "gradient";

/// Returns the number of launches up to the last one that writes a range of the arena.
size_t findLastWrite(const Plan &plan, const std::vector<Launch> &launches, int64_t begin,
                     int64_t end) {
  for (size_t i = launches.size(); i-- > 0;) {
    const Launch &launch = launches[i];
    const std::vector<Operand> &operands =
        plan.kernels[static_cast<size_t>(launch.kernel)].operands;
    for (size_t j = 0; j < operands.size(); ++j) {
      int64_t offset = launch.arguments[j];
      if (operands[j].written && offset < end && offset + operands[j].bytes > begin) {
        return i + 1;
      }
    }
  }
  return 0;
}

} // namespace

Collective readCollective(const StrictJson &json, const std::string &name, size_t launches,
                          const Plan &plan) {
  json.keys({"collective", "bucket", "after"});
  json.at("collective").matchChoice({"all_reduce"});
  if (name != entryWithCollectives) {
    json.fail("collectives in the entry \"gradient\" alone", "one in \"" + name + "\"");
  }
  Collective collective;
  collective.position = launches;
  collective.bucket = json.at("bucket").integer(0, std::ssize(plan.buckets) - 1);
  for (const StrictJson &earlier : json.at("after").array()) {
    collective.after.push_back(earlier.integer(0, static_cast<int64_t>(launches) - 1));
  }
  return collective;
}

void checkCollectives(const StrictJson &json, const Plan &plan) {
  for (const auto &[name, launches] : plan.entries) {
    bool isGradient = name.substr(0, name.find_first_of(".@")) == entryWithCollectives;
    if (!isGradient || plan.collectives.empty()) {
      continue;
    }
    auto found = plan.collectives.find(name);
    if (found == plan.collectives.end()) {
      json.fail("collectives in each entry of gradients, or in none",
                "none in \"" + name + "\" alone");
    }
    if (found->second.size() != plan.buckets.size()) {
      json.fail("\"" + name + "\": a collective for each of the " +
                    std::to_string(plan.buckets.size()) + " buckets",
                std::to_string(found->second.size()));
    }
    // An entry may begin again after a launch that counts segments, with more memory.
    std::vector<Plan::Count> counts = plan.countsIn(launches);
    size_t counted = counts.empty() ? 0 : counts.back().launch + 1;
    int64_t next = std::ssize(plan.buckets), end = plan.gradientsBytes;
    for (const Collective &collective : found->second) {
      std::string label = "\"" + name + "\": the collective of bucket ";
      if (collective.bucket != --next) {
        json.fail(label + std::to_string(next) + ", as buckets are exchanged from the last to 0",
                  "bucket " + std::to_string(collective.bucket));
      }
      label += std::to_string(next);
      int64_t begin = plan.buckets[static_cast<size_t>(next)];
      size_t earliest =
          std::max(counted, findLastWrite(plan, launches, plan.gradientsOffset + begin,
                                          plan.gradientsOffset + end));
      if (collective.position < earliest) {
        json.fail(label +
                      " after the launches that write the bucket or count segments, the first " +
                      std::to_string(earliest),
                  "it after " + std::to_string(collective.position));
      }
      end = begin;
    }
  }
}

} // namespace sluice::runtime
