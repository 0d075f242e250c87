// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the requests of warps.
#include "Traffic.h"

#include "Threads.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace sluice;
using namespace sluice::emulator;

static constexpr unsigned lanes = Threads::lanes;
static constexpr uint64_t sectorBytes = 32, banks = 32, bankBytes = 4, passBytes = 128;

Traffic::Traffic(const Program &program, Counters &counters)
    : program(program), counters(counters), sites(program.sites.size()) {}

void Traffic::start(unsigned threads) {
  queues.resize(threads);
  for (std::vector<Request> &queue : queues) {
    queue.clear();
  }
}

void Traffic::record(unsigned thread, uint32_t site, uint64_t address, uint32_t bytes,
                     bool shared) {
  queues[thread].push_back({address, site, bytes, shared});
}

/// Counts distinct units of `unit` bytes that the lanes touch; sorts them.
static void countUnits(llvm::ArrayRef<uint64_t> addresses, uint64_t bytes, uint64_t unit,
                       llvm::SmallVectorImpl<uint64_t> &units) {
  units.clear();
  for (uint64_t address : addresses) {
    for (uint64_t u = address / unit; u <= (address + bytes - 1) / unit; ++u) {
      units.push_back(u);
    }
  }
  if (!llvm::is_sorted(units)) {
    std::sort(units.begin(), units.end());
  }
  units.erase(llvm::unique(units), units.end());
}

/// Counts passes over the banks. One pass covers lanes whose accesses fit in 128 bytes, and serves
/// one word per bank, to any number of lanes.
static uint64_t countPasses(llvm::ArrayRef<uint64_t> addresses, uint64_t bytes, uint64_t &least) {
  uint64_t together = std::min<uint64_t>(lanes, std::max<uint64_t>(1, passBytes / bytes));
  uint64_t passes = 0;
  llvm::SmallVector<uint64_t, 64> words;
  for (size_t i = 0; i < addresses.size(); i += together) {
    countUnits(addresses.slice(i, std::min(addresses.size() - i, together)), bytes, bankBytes,
               words);
    uint64_t load[banks] = {};
    uint64_t most = 0;
    for (uint64_t word : words) {
      most = std::max(most, ++load[word % banks]);
    }
    passes += most;
    least += (words.size() + banks - 1) / banks;
  }
  return passes;
}

void Traffic::count(uint32_t site, llvm::ArrayRef<Request> requests) {
  SiteTraffic &total = sites[site];
  llvm::SmallVector<uint64_t, lanes> addresses;
  for (const Request &request : requests) {
    addresses.push_back(request.address);
  }
  uint64_t bytes = requests.front().bytes, units, least = 0;
  ++total.requests;
  total.bytes += bytes * requests.size();
  if (requests.front().shared) {
    units = countPasses(addresses, bytes, least);
    ++counters.sharedRequests;
    counters.sharedPasses += units;
    counters.leastPasses += least;
  } else {
    llvm::SmallVector<uint64_t, 64> sectors;
    countUnits(addresses, bytes, sectorBytes, sectors);
    units = sectors.size();
    if (!llvm::is_sorted(addresses)) {
      std::sort(addresses.begin(), addresses.end());
    }
    uint64_t distinct = std::distance(addresses.begin(), llvm::unique(addresses)) * bytes;
    least = std::min(units, (distinct + sectorBytes - 1) / sectorBytes);
    ++counters.globalRequests;
    counters.globalSectors += units;
    counters.leastSectors += least;
  }
  total.units += units;
  total.leastUnits += least;
}

/// Returns the order of a request: an instruction that copies reads global memory before it writes
/// shared memory, and lanes that read nothing only write.
static uint64_t getTrafficKey(uint32_t site, bool shared) { return 2 * uint64_t(site) + shared; }

/// Groups lanes that diverged if they are at the same instruction, the earliest instruction first:
/// exact for structured code, an estimate otherwise.
void Traffic::flush(unsigned warp) {
  size_t first = size_t(warp) * lanes, end = std::min(first + lanes, queues.size());
  size_t heads[lanes] = {};
  llvm::SmallVector<Request, lanes> together;
  while (true) {
    uint64_t place = ~uint64_t(0);
    for (size_t i = first; i < end; ++i) {
      if (heads[i - first] < queues[i].size()) {
        const Request &next = queues[i][heads[i - first]];
        place = std::min(place, getTrafficKey(next.site, next.shared));
      }
    }
    if (place == ~uint64_t(0)) {
      break;
    }
    together.clear();
    for (size_t i = first; i < end; ++i) {
      size_t &head = heads[i - first];
      if (head < queues[i].size() &&
          getTrafficKey(queues[i][head].site, queues[i][head].shared) == place) {
        together.push_back(queues[i][head++]);
      }
    }
    count(together.front().site, together);
  }
  for (size_t i = first; i < end; ++i) {
    queues[i].clear();
  }
}

void Traffic::finish() {
  for (auto [site, total] : llvm::zip(program.sites, sites)) {
    if (total.requests) {
      total.instruction = site.text;
      counters.sites.push_back(std::move(total));
    }
  }
}
