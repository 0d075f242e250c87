// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "HostLaunch.h"

#include "sluice/Runtime/Plan/BatchShapes.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace sluice::runtime {

void FreeHostMemory::operator()(uint8_t *) const { ::munmap(mapping, mapped); }

HostMemory allocateHost(size_t bytes) {
  constexpr size_t hugePage = size_t(2) << 20;
  size_t mapped = std::max<size_t>(bytes, 1);
  bool isLarge = mapped >= hugePage;
  mapped += isLarge ? hugePage : 0; // space to align to a huge page
  void *mapping =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    throw JobError("cannot allocate " + std::to_string(bytes) +
                   " bytes of memory; lower the spec's batch or context, or free memory");
  }
  auto *memory = static_cast<uint8_t *>(mapping);
  if (isLarge) {
    memory += (hugePage - reinterpret_cast<uintptr_t>(memory) % hugePage) % hugePage;
    ::madvise(memory, bytes, MADV_HUGEPAGE);
  }
  return {memory, FreeHostMemory{mapping, mapped}};
}

void releasePages(std::span<uint8_t> memory) {
  auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto start = reinterpret_cast<uintptr_t>(memory.data());
  uintptr_t first = (start + page - 1) / page * page, last = (start + memory.size()) / page * page;
  if (first < last) { // a failure only leaves the memory in use
    ::madvise(memory.data() + (first - start), last - first, MADV_DONTNEED);
  }
}

HostMemory makeArena(const Artifact &artifact) {
  HostMemory arena = allocateHost(static_cast<size_t>(artifact.plan().memory.arenaBytes));
  std::span<const uint8_t> constants = artifact.constants();
  std::copy(constants.begin(), constants.end(), arena.get() + artifact.plan().constantsOffset);
  return arena;
}

bool isAllowed(const Plan &plan, const std::optional<Guard> &guard, const uint8_t *host) {
  if (!guard) {
    return true;
  }
  const Scalar &scalar = plan.scalars.at(guard->scalar);
  const uint8_t *at = host + scalar.offset;
  int64_t value = scalar.type == Type::i64 ? *reinterpret_cast<const int64_t *>(at)
                                           : *reinterpret_cast<const int32_t *>(at);
  return value == guard->equals;
}

bool isFullSize(const Plan &plan, const uint8_t *host) {
  auto is = [&](const char *name, int64_t wanted) {
    auto scalar = plan.scalars.find(name);
    return scalar != plan.scalars.end() && scalar->second.type == Type::i64 &&
           std::memcmp(host + scalar->second.offset, &wanted, sizeof wanted) == 0;
  };
  return is("length", plan.model.context) && is("rows", plan.model.batch);
}

std::span<int64_t> lengthsOfTexts(const Plan &plan, const Launch &launch, uint8_t *host) {
  if (launch.axis.empty()) {
    return {};
  }
  return {reinterpret_cast<int64_t *>(host + plan.scalars.at(plan.lengthName(launch.axis)).offset),
          static_cast<size_t>(countMostRows(plan))};
}

const DeviceVariant &requireVariant(const Artifact &artifact, const PlanKernel &kernel,
                                    const std::string &target) {
  auto found = kernel.deviceVariants.find(target);
  if (found == kernel.deviceVariants.end()) {
    throw UserError(artifact.path() + ": kernel \"" + kernel.name + "\" has no code for " + target +
                    "; compile the spec again");
  }
  return found->second;
}

} // namespace sluice::runtime
