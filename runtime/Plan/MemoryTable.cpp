// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shows the arena's contents at the peak by scale, in the form of table 8 of paper 1.
#include "sluice/Runtime/Plan/MemoryTable.h"

#include "sluice/Runtime/Plan/Inspect.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Json.h"

#include <sstream>

namespace sluice::runtime {
namespace {

/// The kinds of temporaries, in the order of the table's columns.
constexpr const char *kinds[] = {"kept", "recomputed", "gradients", "transient"};

bool isTemporary(const MemoryPart &part) {
  return std::find(std::begin(kinds), std::end(kinds), part.kind) != std::end(kinds);
}

std::string show(int64_t bytes) { return showBytes(static_cast<double>(bytes)); }

/// Returns the launch at the peak of temporaries; null if the plan does not have it.
const Launch *findPeakLaunch(const Plan &plan, const MemoryPeak &peak) {
  auto entry = plan.entries.find(peak.entry);
  bool isThere =
      entry != plan.entries.end() && static_cast<uint64_t>(peak.launch) < entry->second.size();
  return isThere ? &entry->second[static_cast<size_t>(peak.launch)] : nullptr;
}

/// Prints a table with a row per scale and a column per kind.
void showTemporaries(std::ostringstream &out, const std::vector<MemoryPart> &contents) {
  std::map<int64_t, std::map<std::string, int64_t>> rows;
  for (const MemoryPart &part : contents) {
    if (isTemporary(part)) {
      rows[part.scale][part.kind] += part.bytes;
      rows[part.scale]["total"] += part.bytes;
    }
  }
  out << format("%-24s", "  temporaries of scale");
  for (const char *kind : kinds) {
    out << format(" %12s", kind);
  }
  out << format(" %12s\n", "total");
  for (auto &[scale, bytes] : rows) {
    out << format("  %-22s", scale == 0 ? "none" : std::to_string(scale).c_str());
    for (const char *kind : kinds) {
      out << format(" %12s", bytes.contains(kind) ? show(bytes[kind]).c_str() : "-");
    }
    out << format(" %12s\n", show(bytes["total"]).c_str());
  }
}

} // namespace

Json describeMemory(const Plan &plan) {
  const MemoryFacts &memory = plan.memory;
  Json json = {
      {"arena_bytes", memory.arenaBytes}, {"process_bytes", memory.arenaBytes + mostProcessBytes},
      {"peak_bytes", memory.peakBytes},   {"constant_bytes", memory.constantBytes},
      {"by_scale", memory.byScale},       {"by_use", memory.byUse}};
  for (const MemoryPart &part : memory.contents) {
    json["contents"].push_back({{"scale", part.scale}, {"kind", part.kind}, {"bytes", part.bytes}});
  }
  if (memory.peak) {
    json["peak"] = {{"entry", memory.peak->entry},
                    {"launch", memory.peak->launch},
                    {"place", memory.peak->place}};
    if (const Launch *launch = findPeakLaunch(plan, *memory.peak)) {
      json["peak"]["kernel"] = plan.kernels[static_cast<size_t>(launch->kernel)].name;
      json["peak"]["phase"] = launch->phase;
    }
  }
  for (const Bucket &bucket : plan.memoryBuckets) {
    json["buckets"].push_back({{"rows", bucket.rows},
                               {"arena_bytes", bucket.arenaBytes},
                               {"temporaries_bytes", bucket.temporaryBytes}});
  }
  if (memory.budget) {
    json["budget"] = {{"bytes", memory.budget->bytes},
                      {"full_bytes", memory.budget->fullBytes},
                      {"launches", memory.budget->launches},
                      {"flops", memory.budget->flops}};
  }
  return json;
}

std::string showMemoryTable(const Plan &plan) {
  const MemoryFacts &memory = plan.memory;
  std::ostringstream out;
  if (!memory.peak || memory.contents.empty()) {
    return "";
  }
  out << "\nthe arena at its fullest, launch " << memory.peak->launch + 1;
  if (auto entry = plan.entries.find(memory.peak->entry); entry != plan.entries.end()) {
    out << " of " << entry->second.size();
  }
  out << " in " << memory.peak->entry;
  if (const Launch *launch = findPeakLaunch(plan, *memory.peak)) {
    out << " (" << launch->phase << ", " << plan.kernels[static_cast<size_t>(launch->kernel)].name
        << ")";
  }
  out << (memory.peak->place.empty() ? "" : ", made for " + memory.peak->place) << "\n";
  showTemporaries(out, memory.contents);
  for (const MemoryPart &part : memory.contents) {
    if (!isTemporary(part)) {
      out << format("  %-74s %12s\n", part.kind.c_str(), show(part.bytes).c_str());
    }
  }
  out << format("  %-74s %12s\n", "total", show(memory.arenaBytes).c_str());
  for (const Bucket &bucket : plan.memoryBuckets) {
    out << format("  where no text has more than %5lld rows of segments: temporaries %11s %12s\n",
                  static_cast<long long>(bucket.rows), show(bucket.temporaryBytes).c_str(),
                  show(bucket.arenaBytes).c_str());
  }
  return out.str();
}

} // namespace sluice::runtime
