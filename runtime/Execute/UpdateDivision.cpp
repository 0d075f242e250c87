// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "UpdateDivision.h"

#include "sluice/Support/Error.h"

#include <algorithm>

namespace sluice::runtime {
namespace {

/// Checks for a tensor, or a state of one, in the range.
template <typename GetOffsets>
bool holdsTensor(const Plan &plan, const MemoryRange &range, const GetOffsets &getOffsets) {
  return std::ranges::any_of(plan.tensors, [&](const Tensor &tensor) {
    return std::ranges::any_of(getOffsets(tensor), [&](int64_t offset) {
      return offset >= range.offset && offset < range.offset + range.bytes;
    });
  });
}

std::vector<int64_t> getStateOffsets(const Tensor &tensor) {
  std::vector<int64_t> offsets;
  for (const auto &[name, offset] : tensor.states) {
    offsets.push_back(offset);
  }
  return offsets;
}

std::vector<int64_t> getWeightOffsets(const Tensor &tensor) { return {tensor.offset}; }

/// Calls `visit` with the memory of each operand of a launch, and with true if it is written.
template <typename Visit>
void forEachOperand(const Plan &plan, const Launch &launch, const Visit &visit) {
  const std::vector<Operand> &operands = plan.kernels[static_cast<size_t>(launch.kernel)].operands;
  for (size_t i = 0; i < operands.size() && i < launch.arguments.size(); ++i) {
    visit(MemoryRange{launch.arguments[i], operands[i].bytes}, operands[i].written);
  }
}

/// Checks for a launch of the entry `prepare` that writes the range.
bool isPrepared(const Plan &plan, const MemoryRange &range) {
  auto prepare = plan.entries.find("prepare");
  bool found = false;
  for (const Launch &launch :
       prepare == plan.entries.end() ? std::vector<Launch>() : prepare->second) {
    forEachOperand(plan, launch, [&](const MemoryRange &each, bool isWritten) {
      found |= isWritten && each.offset == range.offset && each.bytes == range.bytes;
    });
  }
  return found;
}

bool overlaps(const MemoryRange &a, const MemoryRange &b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

[[noreturn]] void rejectUpdate(const std::string &path) {
  throw UserError(path + ": expected an update that processes can divide, with --shard optimizer, "
                         "found one of another form; compile the spec again, or leave --shard out");
}

} // namespace

UpdateDivision UpdateDivision::derive(const Plan &plan, const std::string &path) {
  auto update = plan.entries.find("update");
  if (update == plan.entries.end() || !plan.gradientSumsOffset) {
    rejectUpdate(path);
  }
  UpdateDivision division;
  MemoryRange sums{*plan.gradientSumsOffset, plan.gradientsBytes};
  for (const Launch &launch : update->second) {
    if (plan.kernels[static_cast<size_t>(launch.kernel)].operands.empty()) {
      rejectUpdate(path); // its memory is unknown
    }
    Part part;
    forEachOperand(plan, launch, [&](const MemoryRange &range, bool isWritten) {
      part.isDivided |= !isWritten && range.offset == sums.offset && range.bytes == sums.bytes;
    });
    forEachOperand(plan, launch, [&](const MemoryRange &range, bool isWritten) {
      bool isState = holdsTensor(plan, range, getStateOffsets);
      bool needsRows = isState || overlaps(range, sums);
      if (!part.isDivided && (needsRows || holdsTensor(plan, range, getWeightOffsets))) {
        rejectUpdate(path);
      }
      if (!part.isDivided || !isWritten) {
        return;
      }
      if (isState) {
        division.states.push_back(range);
      } else if (isPrepared(plan, range)) {
        division.hasCopies = true;
      } else {
        part.gathered.push_back(range);
      }
    });
    division.launches.push_back(std::move(part));
  }
  // The squares of the gradients have one number for each row, the least of the results.
  int64_t least = INT64_MAX;
  for (const Part &part : division.launches) {
    for (const MemoryRange &range : part.gathered) {
      least = std::min(least, range.bytes);
    }
  }
  division.rows = least / getByteSize(Type::f32);
  auto hasRows = [&](const MemoryRange &range) {
    return division.rows > 0 && range.bytes % division.rows == 0;
  };
  bool hasAll = hasRows(sums) && std::ranges::all_of(division.states, hasRows) &&
                std::ranges::all_of(plan.buckets, [&](int64_t start) {
                  return start % (sums.bytes / division.rows) == 0;
                });
  for (const Part &part : division.launches) {
    hasAll &= std::ranges::all_of(part.gathered, hasRows);
  }
  for (const Tensor &tensor : plan.tensors) {
    for (int64_t offset : getStateOffsets(tensor)) {
      hasAll &= std::ranges::any_of(division.states, [&](const MemoryRange &range) {
        return offset >= range.offset &&
               offset + tensor.elements() * getByteSize(Type::f32) <= range.offset + range.bytes;
      });
    }
  }
  if (!hasAll || division.states.empty()) {
    rejectUpdate(path);
  }
  return division;
}

} // namespace sluice::runtime
