// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime's CUDA device on the fake driver of FakeCuda.cpp, and the order of launches on
// streams.
#pragma once

#include "Device/CUDA/CudaLanes.h"
#include "Fixture.h"
#include "sluice/Runtime/Device/CUDA/CudaDevice.h"

#include <dlfcn.h>
#include <set>
#include <sstream>

namespace sluice::test {

using namespace sluice;
using namespace sluice::runtime;

class CudaDevice : public ::testing::Test {
protected:
  CudaDevice() : library(::dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL)) {
    ::setenv("SLUICE_CUDA_DRIVER", FAKE_CUDA, 1);
    ::setenv("FAKE_CUDA_KERNELS", BIGRAM_GPU_LIBRARY, 1);
    artifact = gpuBigramArtifact(folder);
    forget();
    changedBefore = changed();
  }
  ~CudaDevice() override {
    EXPECT_EQ(changed(), changedBefore) << "a copy's source was let go before it was read";
    for (const char *name : {"FAKE_CUDA_CAPABILITY", "FAKE_CUDA_FREE", "FAKE_CUDA_REFUSE_CUBIN",
                             "FAKE_CUDA_FAIL", "FAKE_CUDA_VERSION", "FAKE_CUDA_COUNT"}) {
      ::unsetenv(name);
    }
  }

  std::unique_ptr<Executor> open() { return std::make_unique<Executor>(makeCudaDevice(artifact)); }
  template <typename T> T symbol(const char *name) const {
    return reinterpret_cast<T>(::dlsym(library, name));
  }
  void forget() const { symbol<void (*)()>("fakeCudaForget")(); }
  std::string calls() const { return symbol<const char *(*)()>("fakeCudaCalls")(); }
  size_t allocated() const { return symbol<size_t (*)()>("fakeCudaAllocated")(); }
  size_t changed() const { return symbol<size_t (*)()>("fakeCudaChanged")(); }
  /// Calls whose line starts with `start`.
  int count(const std::string &start) const {
    std::istringstream lines(calls());
    int found = 0;
    for (std::string line; std::getline(lines, line);) {
      found += line.starts_with(start);
    }
    return found;
  }

  TemporaryFolder folder;
  void *library;
  size_t changedBefore = 0;
  std::shared_ptr<const Artifact> artifact;
};

/// For each launch, the launches that end before it starts in every execution.
inline std::vector<std::set<size_t>> getLaneOrder(const std::vector<cuda::Lane> &lanes) {
  std::vector<std::set<size_t>> before(lanes.size());
  for (size_t i = 0; i < lanes.size(); ++i) {
    auto add = [&](size_t other) {
      before[i].insert(before[other].begin(), before[other].end());
      before[i].insert(other);
    };
    for (size_t other = i; other-- > 0;) { // the previous one in its stream
      if (lanes[other].side == lanes[i].side) {
        add(other);
        break;
      }
    }
    if (lanes[i].waitsFor >= 0 && lanes[static_cast<size_t>(lanes[i].waitsFor)].signals) {
      add(static_cast<size_t>(lanes[i].waitsFor));
    }
  }
  return before;
}

/// Unordered pairs of launches among the plan's own dependences.
inline size_t countUnordered(const Plan &plan, const std::string &entry) {
  const std::vector<Launch> &launches = plan.entries.at(entry);
  // The plan's dependences include the one workspace, as for streams that share it.
  std::vector<std::set<size_t>> before =
      getLaneOrder(cuda::assignLanes(plan, "sm_80", launches, 0, launches.size(), false));
  size_t unordered = 0;
  for (size_t b = 0; b < launches.size(); ++b) {
    for (int64_t a : launches[b].after) {
      EXPECT_TRUE(before[b].contains(static_cast<size_t>(a))) << entry << " " << a << " " << b;
    }
    unordered += b - before[b].size();
  }
  return unordered;
}

} // namespace sluice::test
