// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "GpuCheck.h"

#include "sluice/Runtime/Device/CUDA/CudaDevice.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/OutputFile.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace sluice::gpucheck {

using namespace sluice;
using namespace sluice::runtime;

/// Sends a text to the other processes through files in a folder, and returns the texts of all.
static std::vector<std::string> shareByFiles(const Path &folder, int64_t rank, int64_t size,
                                             const std::string &text) {
  constexpr std::chrono::seconds limit(120);
  constexpr std::chrono::milliseconds pause(5);
  auto getPath = [&](int64_t of) { return folder / ("rank-" + std::to_string(of)); };
  replaceFile(getPath(rank), asBytes(text));
  std::vector<std::string> texts;
  auto start = std::chrono::steady_clock::now();
  for (int64_t other = 0; other < size; ++other) {
    while (!isThere(getPath(other))) {
      if (std::chrono::steady_clock::now() - start > limit) {
        throw JobError(folder.string() + ": expected a file of rank " + std::to_string(other) +
                       ", found none after 120 s; start all processes together");
      }
      std::this_thread::sleep_for(pause);
    }
    texts.push_back(readText(getPath(other), "text of another process"));
  }
  return texts;
}

/// Returns the byte that the process `rank` sends at a place of its gradients.
static uint8_t getPattern(int64_t rank, int64_t place) {
  constexpr uint64_t odd = 0x9e3779b97f4a7c15;
  return static_cast<uint8_t>((static_cast<uint64_t>(place + (rank << 40) + 1) * odd) >> 56);
}

Json checkExchange(const Path &artifact, int64_t rank, int64_t size, const Path &folder) {
  constexpr int repetitions = 10;
  std::shared_ptr<const Artifact> loaded = Artifact::load(artifact);
  std::unique_ptr<Device> device = makeCudaDevice(loaded, "", {rank, size});
  tellNotice(*device);
  int64_t offset = loaded->plan().gradientsOffset, bytes = loaded->plan().gradientsBytes;
  std::unique_ptr<RangeExchange> ranges =
      device->join({rank, size, std::chrono::seconds(60), [&](const std::string &text) {
                      return shareByFiles(folder, rank, size, text);
                    }});
  ranges->reserve(size * bytes);
  uint8_t *gradients = device->host() + offset;
  for (int64_t i = 0; i < bytes; ++i) {
    gradients[i] = getPattern(rank, i);
  }
  device->upload({offset, bytes});
  StoredRange own{RangeStore::Arena, offset, bytes};
  auto getStaged = [&](int64_t of) { return StoredRange{RangeStore::Staging, of * bytes, bytes}; };
  std::vector<RangeTransfer> sent, received;
  for (int64_t other = 0; other < size; ++other) {
    sent.push_back({other, own});
    received.push_back({other, getStaged(other)});
  }
  double seconds = 1e30;
  for (int i = 0; i < repetitions; ++i) {
    auto start = std::chrono::steady_clock::now();
    ranges->exchange(sent, received);
    seconds = std::min(
        seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  int64_t wrong = 0;
  for (int64_t other = 0; other < size; ++other) {
    ranges->copy(getStaged(other), own);
    device->download({offset, bytes});
    for (int64_t i = 0; i < bytes; ++i) {
      wrong += gradients[i] != getPattern(other, i);
    }
  }
  return {{"gpu", device->describe()},
          {"rank", rank},
          {"ranks", size},
          {"bytes", bytes},
          {"wrong", wrong},
          {"seconds", seconds}};
}

} // namespace sluice::gpucheck
