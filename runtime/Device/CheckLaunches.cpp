// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Device/CheckLaunches.h"

#include "HostLaunch.h"
#include "sluice/Runtime/Device/Recording.h"
#include "sluice/Support/Error.h"

#include <cmath>
#include <cstring>

namespace sluice::runtime {
namespace {

/// Returns element `at` of a stored result.
double numberAt(std::span<const uint8_t> bytes, Type type, size_t at) {
  const uint8_t *from = bytes.data() + at * static_cast<size_t>(getByteSize(type));
  auto read = [&](auto number) {
    std::memcpy(&number, from, sizeof number);
    return static_cast<double>(number);
  };
  if (type == Type::bf16) {
    uint16_t half = 0;
    std::memcpy(&half, from, sizeof half);
    uint32_t bits = static_cast<uint32_t>(half) << 16;
    float number = 0;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  }
  return type == Type::f32 ? read(float()) : type == Type::i32 ? read(int32_t()) : read(int64_t());
}

/// Compares as the emulator's reference does: without a bound every number except NaN is accepted.
bool isWithin(double found, double expected, double bound) {
  if (!std::isfinite(expected)) {
    return found == expected || (std::isnan(found) && std::isnan(expected));
  }
  return std::abs(found - expected) <= bound || (std::isinf(bound) && !std::isnan(found));
}

class Comparison {
public:
  Comparison(LaunchCheck &check, const RecordedResult &result, size_t number,
             std::span<const uint8_t> found)
      : check(check), result(result), number(number), found(found) {}

  void run() {
    auto stride = std::max<size_t>(1, static_cast<size_t>(result.stride));
    auto bytes = static_cast<size_t>(getByteSize(result.type));
    for (size_t at = 0; at < result.values.size(); ++at) {
      if (result.bounds[at] >= 0) {
        check.differing +=
            std::memcmp(&found[at * bytes], &result.found[at * bytes], bytes) != 0 ? 1 : 0;
        compare("row " + std::to_string(at / stride) + ", column " + std::to_string(at % stride),
                numberAt(found, result.type, at), result.values[at], result.bounds[at]);
      }
    }
    for (size_t column = 0; column < result.sums.size(); ++column) {
      double sum = 0;
      for (int64_t row = 0; row < result.rows; ++row) {
        sum += numberAt(found, result.type, static_cast<size_t>(row) * stride + column);
      }
      if (result.sumBounds[column] >= 0) {
        compare("the rows' sum in column " + std::to_string(column), sum, result.sums[column],
                result.sumBounds[column]);
      }
    }
  }

private:
  void compare(const std::string &where, double now, float expected, float bound) {
    ++(std::isfinite(bound) ? check.checked : check.unbounded);
    if (isWithin(now, expected, bound)) {
      return;
    }
    if (check.wrong++ == 0) {
      char text[256];
      std::snprintf(text, sizeof text, "result %zu, %s: expected %.9g within %.3g, found %.9g",
                    number, where.c_str(), static_cast<double>(expected),
                    static_cast<double>(bound), now);
      check.first = text;
    }
  }

  LaunchCheck &check;
  const RecordedResult &result;
  size_t number;
  std::span<const uint8_t> found;
};

/// Finds the recorded launch in the plan.
const Launch &findLaunch(Device &device, const RecordedLaunch &recorded) {
  const Plan &plan = device.plan();
  auto entry = plan.entries.find(recorded.entry);
  const Launch *launch =
      entry != plan.entries.end() && recorded.index < static_cast<int64_t>(entry->second.size())
          ? &entry->second[static_cast<size_t>(recorded.index)]
          : nullptr;
  bool fits = launch != nullptr;
  if (launch) {
    fits = lengthsOfTexts(plan, *launch, device.host()).size() == recorded.lengths.size();
    size_t operand = 0, result = 0;
    for (const Operand &each : plan.kernels[static_cast<size_t>(launch->kernel)].operands) {
      auto bytes = static_cast<size_t>(each.bytes);
      fits &=
          each.written
              ? result < recorded.results.size() && recorded.results[result].found.size() == bytes
              : operand < recorded.operands.size() && recorded.operands[operand].size() == bytes;
      ++(each.written ? result : operand);
    }
  }
  if (!fits) {
    throw UserError(device.artifact().path() + ": expected launch " +
                    std::to_string(recorded.index) + " of \"" + recorded.entry +
                    "\" as it was recorded, found another; record the bundle again");
  }
  return *launch;
}

class Rerun {
public:
  Rerun(Device &device, const RecordedLaunch &recorded)
      : device(device), recorded(recorded), launch(findLaunch(device, recorded)),
        kernel(device.plan().kernels[static_cast<size_t>(launch.kernel)]) {}

  void run() {
    // Sets results before writing operands, which may alias them. Without recorded contents,
    // elements that a kernel does not write stay NaN.
    each(true, [&](size_t i, int64_t offset, size_t bytes) {
      const std::vector<uint8_t> &before = recorded.results[i].before;
      std::memset(device.host() + offset, 0xff, bytes);
      std::copy_n(before.begin(), std::min(before.size(), bytes), device.host() + offset);
      device.upload({offset, static_cast<int64_t>(bytes)});
    });
    each(false, [&](size_t i, int64_t offset, size_t bytes) {
      std::memcpy(device.host() + offset, recorded.operands[i].data(), bytes);
      device.upload({offset, static_cast<int64_t>(bytes)});
    });
    const char *names[] = {"length", "rows", "step", "seed"};
    for (size_t i = 0; i < std::size(names); ++i) {
      int64_t offset = device.plan().scalars.at(names[i]).offset;
      std::memcpy(device.host() + offset, &recorded.scalars[i], sizeof recorded.scalars[i]);
      device.upload({offset, sizeof recorded.scalars[i]});
    }
    if (auto lengths = lengthsOfTexts(device.plan(), launch, device.host()); !lengths.empty()) {
      std::ranges::copy(recorded.lengths, lengths.begin());
      const auto *first = reinterpret_cast<const uint8_t *>(lengths.data());
      device.upload({first - device.host(), static_cast<int64_t>(lengths.size_bytes())});
    }
    device.launch(launch);
  }

  LaunchCheck compare(RecordedLaunch *goldens) {
    LaunchCheck check;
    check.kernel = kernel.name;
    each(true, [&](size_t i, int64_t offset, size_t bytes) {
      device.download({offset, static_cast<int64_t>(bytes)});
      std::span<const uint8_t> found(device.host() + offset, bytes);
      Comparison(check, recorded.results[i], i, found).run();
      if (goldens) {
        goldens->results[i].found.assign(found.begin(), found.end());
      }
    });
    return check;
  }

private:
  /// Calls `action` for each operand, or for each result, with its index among them.
  template <typename Action> void each(bool results, const Action &action) {
    size_t number = 0;
    for (size_t i = 0; i < kernel.operands.size(); ++i) {
      if (kernel.operands[i].written == results) {
        action(number++, launch.arguments[i], static_cast<size_t>(kernel.operands[i].bytes));
      }
    }
  }

  Device &device;
  const RecordedLaunch &recorded;
  const Launch &launch;
  const PlanKernel &kernel;
};

} // namespace

LaunchCheck checkLaunch(Device &device, const RecordedLaunch &launch, RecordedLaunch *goldens) {
  Rerun rerun(device, launch);
  rerun.run();
  if (goldens) {
    *goldens = launch;
  }
  return rerun.compare(goldens);
}

} // namespace sluice::runtime
