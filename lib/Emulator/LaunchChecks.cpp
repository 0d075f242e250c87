// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "LaunchChecks.h"

#include <algorithm>

using namespace sluice;
using namespace sluice::emulator;

namespace {
struct LaunchRule {
  LaunchComplaint complain;
  void operator()(bool holds, ViolationKind kind, const std::string &message) const {
    if (!holds) {
      complain(kind, message);
    }
  }
};
} // namespace

/// Returns the first address and the end of the buffer that holds `address`.
static std::pair<uint64_t, uint64_t> findExtent(const EmulatedLaunch &launch, uint64_t address) {
  for (const Buffer &buffer : launch.buffers) {
    auto begin = reinterpret_cast<uint64_t>(buffer.data);
    if (address - begin < buffer.bytes) {
      return {begin, begin + buffer.bytes};
    }
  }
  return {address, address};
}

static std::string str(const Dim3 &extent) {
  return std::to_string(extent.x) + " x " + std::to_string(extent.y) + " x " +
         std::to_string(extent.z);
}

/// Checks that the driver accepts the launch.
static void checkLimits(const Program &program, const SharedArena &arena,
                        const EmulatedLaunch &launch, LaunchComplaint complain) {
  LaunchRule expect{complain};
  const Dim3 &grid = launch.grid, &threads = launch.block;
  expect(threads.count() > 0 && threads.count() <= 1024 && threads.z <= 64, ViolationKind::Limit,
         "expected 1 to 1024 threads per block, at most 64 of them along z; found " + str(threads));
  expect(grid.count() > 0 && grid.x < 1u << 31 && grid.y < 1 << 16 && grid.z < 1 << 16,
         ViolationKind::Limit,
         "expected a grid of 1 to 2^31 - 1 blocks along x and 1 to 65535 along y and z; found " +
             str(grid));
  const std::vector<uint32_t> &required = program.requiredThreads;
  auto requiredAt = [&](size_t i) { return i < required.size() ? required[i] : 1; };
  Dim3 wanted{requiredAt(0), requiredAt(1), requiredAt(2)};
  expect(required.empty() || wanted == threads, ViolationKind::Argument,
         "expected blocks of " + str(wanted) + " threads, as the kernel requires (nvvm.reqntid); " +
             "found " + str(threads));
  uint64_t shared = launch.dynamicSharedBytes, end = 0;
  for (const SharedGlobal &global : program.shared) {
    shared += global.bytes;
    end = std::max(end, global.address - arena.begin() +
                            (global.dynamic ? launch.dynamicSharedBytes : global.bytes));
  }
  expect(shared <= mostSharedBytes && end <= SharedArena::bytes, ViolationKind::Limit,
         "expected at most " + std::to_string(mostSharedBytes) + " bytes of shared memory, found " +
             std::to_string(shared));
}

/// Checks that the arguments satisfy the declarations of the parameters.
static void checkArguments(const Program &program, const EmulatedLaunch &launch,
                           LaunchComplaint complain) {
  LaunchRule expect{complain};
  size_t count = program.parameters.size();
  if (launch.arguments.size() != count) {
    return complain(ViolationKind::Argument,
                    "expected " + std::to_string(count) +
                        (count == 1 ? " argument, found " : " arguments, found ") +
                        std::to_string(launch.arguments.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    const Parameter &one = program.parameters[i];
    expect(!one.pointer || launch.arguments[i] % one.align == 0, ViolationKind::Misaligned,
           "expected a pointer aligned to " + std::to_string(one.align) + " bytes for '" +
               one.name + "'");
    for (size_t j = 0; j < i; ++j) {
      const Parameter &other = program.parameters[j];
      bool claimed = one.pointer && other.pointer && (one.noAlias || other.noAlias) &&
                     !(one.readOnly && other.readOnly);
      auto a = findExtent(launch, launch.arguments[i]), c = findExtent(launch, launch.arguments[j]);
      expect(!claimed || a.second <= c.first || c.second <= a.first,
             ViolationKind::AliasedArguments,
             "expected '" + other.name + "' and '" + one.name +
                 "' to point to buffers that do not overlap: one claims noalias");
    }
  }
}

void emulator::checkLaunch(const Program &program, const SharedArena &arena,
                           const EmulatedLaunch &launch, LaunchComplaint complain) {
  checkLimits(program, arena, launch, complain);
  checkArguments(program, launch, complain);
}
