// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Launches.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Dialect/Dispatch/ResultDomain.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Transforms/ParameterLayout.h"

#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace sluice;
using namespace std::string_literals;

namespace {

/// Ranges of the arena that a launch accesses.
struct Footprint {
  struct LaunchRange {
    int64_t begin, end;
    bool written;
  };
  SmallVector<LaunchRange> ranges;

  bool writes(int64_t begin, int64_t end) const {
    return llvm::any_of(ranges, [&](const LaunchRange &range) {
      return range.written && range.begin < end && begin < range.end;
    });
  }

  bool conflictsWith(const Footprint &other) const {
    return llvm::any_of(ranges, [&](const LaunchRange &a) {
      return llvm::any_of(other.ranges, [&](const LaunchRange &b) {
        return (a.written || b.written) && a.begin < b.end && b.begin < a.end;
      });
    });
  }
};

/// Returns operands, then results: the tensors whose offsets are the first launch arguments.
SmallVector<Value> getTensors(Operation *op) {
  SmallVector<Value> tensors(op->getOperands());
  llvm::append_range(tensors, op->getResults());
  return tensors;
}

/// Returns the launch arguments: offsets of operands and results, of the scalars, then the first
/// random stream, then the offset of the workspace.
SmallVector<int64_t> getLaunchArguments(Operation *op, const MemoryPlan &memory,
                                        const MemoryBucket *bucket) {
  SmallVector<int64_t> arguments;
  for (Value value : getTensors(op)) {
    arguments.push_back(memory.offset(value, bucket));
  }
  for (const std::string &scalar : {dispatch::computeLength(op), "rows"s, "step"s, "seed"s}) {
    arguments.push_back(memory.scalar(scalar));
  }
  if (dispatch::drawsByUpdate(op)) {
    arguments.push_back(memory.scalar("draw_rows"));
  }
  arguments.push_back(firstStream(op));
  arguments.push_back(memory.workspaceOffset);
  return arguments;
}

/// Returns four numbers for each tensor that has its own runs in a bucket; null if there is none.
DenseI64ArrayAttr getRunList(Operation *op, const MemoryBucket *bucket) {
  SmallVector<int64_t> numbers;
  for (auto [i, value] : llvm::enumerate(getTensors(op))) {
    if (bucket && bucket->runs.contains(value)) {
      Runs runs = bucket->runs.at(value);
      numbers.append({static_cast<int64_t>(i), runs.count, runs.stride, runs.bytes});
    }
  }
  return numbers.empty() ? DenseI64ArrayAttr() : DenseI64ArrayAttr::get(op->getContext(), numbers);
}

/// Launches that use the workspace share it, so they must not overlap.
Footprint computeFootprint(Operation *op, int64_t workspaceBytes, const MemoryPlan &memory,
                           const MemoryBucket *bucket) {
  Footprint footprint;
  auto add = [&](Value value, bool written) {
    auto type = cast<RankedTensorType>(value.getType());
    int64_t bytes = dispatch::storageElements(type) * (type.getElementTypeBitWidth() / 8);
    int64_t begin = memory.offset(value, bucket);
    Runs runs = bucket ? bucket->runs.lookup_or(value, {1, 0, bytes}) : Runs{1, 0, bytes};
    for (int64_t run = 0; run < runs.count; ++run) {
      int64_t first = begin + run * runs.stride;
      footprint.ranges.push_back({first, first + runs.bytes, written});
    }
  };
  llvm::for_each(op->getOperands(), [&](Value value) { add(value, false); });
  llvm::for_each(op->getResults(), [&](Value value) { add(value, true); });
  int64_t length = memory.scalar(dispatch::computeLength(op));
  dispatch::DomainAttr domain = cast<dispatch::KernelInterface>(op).getDomain();
  int64_t lengths = domain.getAxis() ? domain.getBatch() : 1;
  footprint.ranges.push_back({length, length + lengths * int64_t(sizeof(int64_t)), false});
  if (workspaceBytes > 0) {
    footprint.ranges.push_back(
        {memory.workspaceOffset, memory.workspaceOffset + workspaceBytes, true});
  }
  return footprint;
}

/// Returns the launches that must complete before each launch, without transitive dependences.
/// `ancestors` receives these with transitive dependences.
std::vector<SmallVector<int64_t>> dependences(ArrayRef<Footprint> footprints,
                                              std::vector<llvm::SmallBitVector> &ancestors) {
  std::vector<SmallVector<int64_t>> after(footprints.size());
  ancestors.assign(footprints.size(), llvm::SmallBitVector(footprints.size()));
  for (size_t i = 0; i < footprints.size(); ++i) {
    for (size_t j = i; j-- > 0;) {
      if (!ancestors[i].test(j) && footprints[i].conflictsWith(footprints[j])) {
        after[i].push_back(static_cast<int64_t>(j));
        ancestors[i] |= ancestors[j];
        ancestors[i].set(j);
      }
    }
    std::reverse(after[i].begin(), after[i].end());
  }
  return after;
}

/// Returns the phase of the launches of an entry, except for a backward pass.
StringRef getPhase(StringRef entry) {
  return llvm::StringSwitch<StringRef>(entry)
      .Cases({"update", "accumulate"}, "update")
      .Cases({"initialize", "prepare", "quantize"}, "initialize")
      .Default("forward");
}

/// The exchange of a bucket of the gradients, and the launches before it.
struct Exchange {
  int64_t bucket, offset, bytes;
  int64_t position = 0; ///< number of launches of the entry before it
  SmallVector<int64_t> after = {};
};

/// Places the exchange of each bucket after the launches that write it, in the order from the last
/// bucket to the first. An exchange also follows the launches that write the length of an axis of
/// segments: there the entry may begin again with more memory.
SmallVector<Exchange> placeExchanges(const ParameterLayout &layout, const MemoryPlan &memory,
                                     ArrayRef<Footprint> footprints,
                                     ArrayRef<llvm::SmallBitVector> ancestors) {
  SmallVector<Exchange> exchanges;
  auto place = memory.places.find("flat:gradients");
  if (layout.rows == 0 || place == memory.places.end()) {
    return exchanges;
  }
  int64_t earliest = 0;
  for (const auto &[name, scalar] : memory.places) {
    for (auto [i, footprint] : llvm::enumerate(footprints)) {
      bool isLength = StringRef(name).starts_with("scalar:length.");
      if (isLength && footprint.writes(scalar.offset, scalar.offset + scalar.bytes)) {
        earliest = std::max(earliest, static_cast<int64_t>(i) + 1);
      }
    }
  }
  std::vector<int64_t> starts = layout.getBuckets();
  int64_t end = place->second.bytes;
  for (size_t i = starts.size(); i-- > 0;) {
    int64_t start = starts[i];
    Exchange exchange{static_cast<int64_t>(i), place->second.offset + start, end - start};
    llvm::SmallBitVector before(footprints.size());
    for (size_t j = footprints.size(); j-- > 0;) {
      if (!footprints[j].writes(exchange.offset, exchange.offset + exchange.bytes)) {
        continue;
      }
      earliest = std::max(earliest, static_cast<int64_t>(j) + 1);
      if (!before.test(j)) {
        exchange.after.push_back(static_cast<int64_t>(j));
        before |= ancestors[j];
      }
    }
    std::reverse(exchange.after.begin(), exchange.after.end());
    exchange.position = earliest;
    end = start;
    exchanges.push_back(std::move(exchange));
  }
  return exchanges;
}

} // namespace

void sluice::emitEntry(func::FuncOp func, const Twine &name, const KernelSet &kernels,
                       const MemoryPlan &memory, const MemoryBucket *bucket) {
  OpBuilder b = OpBuilder::atBlockEnd(func->getParentOfType<ModuleOp>().getBody());
  auto entry = plan::EntryOp::create(b, func->getParentOp()->getLoc(), name.str(),
                                     getFact<plan::PlanDialect::OfAttrHelper>(func),
                                     getFact<plan::PlanDialect::FactorAttrHelper>(func),
                                     getFact<plan::PlanDialect::ShapeAttrHelper>(func));
  b.setInsertionPointToEnd(&entry.getBody().emplaceBlock());
  SmallVector<dispatch::KernelInterface> launches;
  SmallVector<Footprint> footprints;
  for (auto op : func.getOps<dispatch::KernelInterface>()) {
    launches.push_back(op);
    const KernelRecord &record = kernels.records[kernels.kernelOf.lookup(op)];
    footprints.push_back(computeFootprint(op, record.workspaceBytes(), memory, bucket));
  }
  std::vector<llvm::SmallBitVector> ancestors;
  std::vector<SmallVector<int64_t>> after = dependences(footprints, ancestors);
  SmallVector<Exchange> exchanges;
  auto variantOf = getFact<plan::PlanDialect::OfAttrHelper>(func);
  if ((variantOf ? variantOf.getValue() : func.getSymName()) == "gradient") {
    ParameterLayout layout(func->getParentOfType<ModuleOp>());
    exchanges = placeExchanges(layout, memory, footprints, ancestors);
  }
  ArrayRef<Exchange> left = exchanges;
  auto emitExchanges = [&](size_t position) {
    for (; !left.empty() && left.front().position <= static_cast<int64_t>(position);
         left = left.drop_front()) {
      plan::AllReduceOp::create(b, entry.getLoc(), left.front().bucket, left.front().offset,
                                left.front().bytes, left.front().after);
    }
  };
  StringRef phase = getPhase(func.getSymName());
  for (auto [i, op] : llvm::enumerate(launches)) {
    emitExchanges(i);
    plan::LaunchOp::create(b, op->getLoc(), kernels.records[kernels.kernelOf.lookup(op)].name,
                           getLaunchArguments(op, memory, bucket),
                           op.getBackward() ? "backward" : phase, after[i], op.getGuardAttr(),
                           dispatch::findSequenceAxis(op), getRunList(op, bucket));
  }
  emitExchanges(launches.size());
}
