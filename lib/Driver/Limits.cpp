// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Limits.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Limits.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::driver;

/// Maximum number of positions of a batch: temporaries and the work items of launches grow with it.
constexpr int64_t mostPositions = int64_t(1) << 28;

std::optional<spec::Diagnostic> driver::findLargeBatch(const ParsedSpec &spec) {
  spec::ModelOp model = spec.getModel();
  int64_t batch = model.getBatch();
  auto describe = [&](const std::string &of, int64_t length) {
    return "expected batch times context" + of + " to be at most " + std::to_string(mostPositions) +
           " positions, found " + std::to_string(batch) + " times " + std::to_string(length) +
           "; make one of them smaller";
  };
  if (int64_t length = model.getLength(); batch > mostPositions / length) {
    return spec::Diagnostic{spec.getPlace("context"), describe("", length)};
  }
  for (auto input : model.getBody().getOps<spec::InputOp>()) {
    std::optional<int64_t> length = input.getLength(); // length in tokens
    if (length && batch > mostPositions / *length) {
      return spec::Diagnostic{
          getKeyPlace(input, ""),
          describe(" of the input \"" + input.getSymName().str() + "\"", *length)};
    }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Returns the name of an op that stores the rows of a group, or the rows of its gradient,
/// concatenated: "max shorten"; empty for any other op.
static std::string describeGroups(Operation &op) {
  if (auto shorten = dyn_cast<ShortenOp>(op)) {
    RowGroup group = shorten.getRowGroup();
    bool isSideBySide = shorten.isMax() || group.window % group.factor != 0;
    return isSideBySide ? (shorten.getWord() + " shorten").str() : "";
  }
  if (!isa<FoldOp>(op)) {
    return "";
  }
  return getOriginPart(&op) == "window" ? "upsample by windows" : "linear shorten";
}

/// Returns the key of a spec that sets the width of an op's result; empty if there is none.
static StringRef getWidthKey(Operation &op) {
  if (auto shorten = dyn_cast<ShortenOp>(op)) {
    return shorten.getWindow() > 0 ? "window" : "factor";
  }
  if (auto fold = dyn_cast<FoldOp>(op)) {
    return fold.getWindow() > 0 ? "window" : "factor";
  }
  StringRef part = getOriginPart(&op);
  return part.starts_with("feed_forward.") ? "feed_forward"
         : part.starts_with("attention.")  ? "heads"
                                           : "";
}

/// Finds an op whose result alone exceeds the arena. Sums of sizes may overflow later, so this
/// check comes first.
static std::optional<CompileRefusal> findLargeResult(Operation &op) {
  constexpr int64_t mostElements = mostArenaBytes / sizeof(float);
  for (Value result : op.getResults()) {
    auto type = dyn_cast<SequenceType>(result.getType());
    if (!type) {
      continue;
    }
    __int128 width = std::max<int64_t>(1, type.getWidth());
    if (auto shorten = dyn_cast<ShortenOp>(op); shorten && !describeGroups(op).empty()) {
      width *= std::max(shorten.getRowGroup().window, shorten.getRowGroup().factor);
    }
    __int128 positions = __int128(getBatch(&op)) * getPositions(&op, type);
    if (positions * width > mostElements) {
      return CompileRefusal{&op, getWidthKey(op),
                            "expected rows of a batch of at most " + std::to_string(mostElements) +
                                " numbers, found " +
                                std::to_string(static_cast<int64_t>(positions)) + " positions of " +
                                std::to_string(static_cast<int64_t>(width)) +
                                "; make the width of this stage, batch or context smaller"};
    }
  }
  return std::nullopt;
}

/// Finds a factor that makes the period of a step too long: the least common multiple of all
/// factors, over which the runtime counts. `period` is the least common multiple of the factors
/// that were checked earlier.
static std::optional<CompileRefusal> findCoarseScale(Operation &op, int64_t &period) {
  constexpr int64_t mostTokens = int64_t(1) << 20;
  for (Value result : op.getResults()) {
    auto type = dyn_cast<SequenceType>(result.getType());
    int64_t factor = type ? getFactor(&op, type) : 0;
    if (factor == 0) { // the scale of one position
      continue;
    }
    __int128 all = __int128(period) / std::gcd(period, factor) * factor;
    if (all > mostTokens) {
      return CompileRefusal{&op, "factor",
                            "expected scales that begin together again after at most " +
                                std::to_string(mostTokens) + " tokens, found a factor of " +
                                std::to_string(factor) + " next to others that divide " +
                                std::to_string(period) + "; make one of them smaller"};
    }
    period = static_cast<int64_t>(all);
  }
  return std::nullopt;
}

/// Finds LSH attention with more buckets than a scan counts.
static std::optional<CompileRefusal> findHashing(Operation &op) {
  auto hashed = dyn_cast<HashedAttentionOp>(op);
  if (!hashed) {
    return std::nullopt;
  }
  constexpr int64_t mostRows = int64_t(1) << 23, mostPlaces = int64_t(1) << 30;
  auto chunk = static_cast<int64_t>(hashed.getChunk());
  auto buckets = static_cast<int64_t>(hashed.getBucketCount());
  __int128 places = getPositions(&op, hashed.getOutput().getType()) + std::max<int64_t>(chunk, 64);
  if (places <= mostRows && places * buckets <= mostPlaces) {
    return std::nullopt;
  }
  return CompileRefusal{&op, "lsh",
                        "expected rows and a chunk of at most " + std::to_string(mostRows) +
                            " together, and times \"buckets\" at most " +
                            std::to_string(mostPlaces) + ", found " +
                            std::to_string(static_cast<int64_t>(places)) + " and " +
                            std::to_string(buckets) + " buckets; make one of them smaller"};
}

/// Returns the constant table of a value; null for a trained parameter.
static ParameterOp findTable(Operation &op, Value value) {
  auto read = value ? value.getDefiningOp<ReadOp>() : ReadOp();
  auto table = read ? op.getParentOfType<ModuleOp>().lookupSymbol<ParameterOp>(read.getParameter())
                    : ParameterOp();
  return table && table.getFrozen() ? table : ParameterOp();
}

/// Finds a table of angles that exceeds an artifact.
static std::optional<CompileRefusal> findLargeTable(Operation &op) {
  auto position = dyn_cast<PositionOp>(op);
  auto attention = dyn_cast<AttentionOp>(op);
  ParameterOp table = position    ? findTable(op, position.getTable())
                      : attention ? findTable(op, attention.getRotary())
                                  : ParameterOp();
  if (!table || (position && table.getInitial() != "sinusoidal")) {
    return std::nullopt;
  }
  auto type = cast<RankedTensorType>(table.getType());
  int64_t columns = type.getDimSize(1);
  // Sinusoids share one table, whose length is the longest axis that uses them.
  int64_t rows = position ? getPositions(&op, position.getResult().getType()) : type.getDimSize(0);
  if (__int128(rows) * columns * int64_t(sizeof(float)) <= mostConstantBytes) {
    return std::nullopt;
  }
  bool isRelative = position && getOriginPart(&op) == "attention.distance";
  return CompileRefusal{&op,
                        isRelative ? "relative"
                        : position ? "positions"
                                   : "rotary",
                        "expected a table of positions of at most " +
                            std::to_string(mostConstantBytes) + " bytes, found " +
                            std::to_string(rows) + " positions of " + std::to_string(columns) +
                            " numbers; make context smaller" +
                            (isRelative ? ", or leave \"relative\" out"
                             : position ? ", or set \"positions\" to \"learned\" or \"none\""
                                        : " or turn \"rotary\" off")};
}

/// Finds windows of many groups whose rows are concatenated: the kernel of their gradients has code
/// for each group.
static std::optional<CompileRefusal> findLongWindow(Operation &op) {
  constexpr int64_t mostGroups = 64;
  auto shorten = dyn_cast<ShortenOp>(op);
  auto fold = dyn_cast<FoldOp>(op);
  RowGroup group = shorten && shorten.isMax() ? shorten.getRowGroup()
                   : fold                     ? fold.getRowGroup()
                                              : RowGroup();
  if (group.factor == 1 || group.window / group.factor <= mostGroups) {
    return std::nullopt;
  }
  return CompileRefusal{&op, "window",
                        "expected a window of at most " + std::to_string(mostGroups) +
                            " groups for a shorten that does not average, found " +
                            std::to_string(group.window) + " rows of groups of " +
                            std::to_string(group.factor) + "; make the window smaller"};
}

/// Finds groups that read a linear upsample only through position maps: their rows would be columns
/// of rows at a stride that no access supports.
static std::optional<CompileRefusal> findUpsampledGroups(Operation &op) {
  std::string groups = describeGroups(op);
  auto flow = groups.empty() ? CausalFlowInterface()
                             : op.getOperand(0).getDefiningOp<CausalFlowInterface>();
  while (flow && flow.isLazy() && !flow.readsMember()) {
    flow = flow->getOperand(0).getDefiningOp<CausalFlowInterface>();
  }
  if (!flow || !flow.isLazy()) {
    return std::nullopt;
  }
  return CompileRefusal{&op, "",
                        "expected a layer or a norm between a linear upsample and the " + groups +
                            " of its result, found none (the upsample is at " +
                            spec::toString(sluice::getOpLocation(flow)) +
                            "); put a norm between them, or make one of the two average or repeat"};
}

std::optional<CompileRefusal> driver::findUnsupported(ModuleOp module, int64_t &period) {
  for (Operation &op : module.lookupSymbol<func::FuncOp>("evaluate").getBody().front()) {
    if (auto refusal = findLargeResult(op)) {
      return refusal;
    }
    if (auto refusal = findCoarseScale(op, period)) {
      return refusal;
    }
    for (auto *find : {findHashing, findLargeTable, findLongWindow, findUpsampledGroups}) {
      if (auto refusal = find(op)) {
        return refusal;
      }
    }
  }
  return std::nullopt;
}

spec::SourceLocation driver::getPlace(const CompileRefusal &refusal, const ParsedSpec &spec,
                                      int64_t factor) {
  OriginAttr origin = getOrigin(refusal.op);
  ParsedSpec expanded = spec.expand(factor);
  for (auto stage : expanded.getModel().getBody().getOps<spec::StageInterface>()) {
    if (origin && origin.isWithin(stage.getPathAttr())) {
      return getKeyPlace(stage, refusal.key);
    }
  }
  return sluice::getOpLocation(refusal.op);
}

//===----------------------------------------------------------------------===//
// Generated programs
//===----------------------------------------------------------------------===//

/// Returns "expected AT MOST ..., found ..." for the first number beyond its limit; empty if there
/// is none.
static std::string findExcess(const KernelRecord &record) {
  auto beyond = [](const char *what, double found, int64_t most) {
    return found > static_cast<double>(most)
               ? format("expected a kernel of at most %lld %s, found %.15g",
                        static_cast<long long>(most), what, found)
               : std::string();
  };
  std::string excess;
  auto add = [&](std::string found) { excess = excess.empty() ? found : excess; };
  for (const KernelRecord::Operand &operand : record.operands) {
    add(beyond("bytes per operand", double(operand.bytes), mostArenaBytes));
  }
  for (const KernelRecord::Variant &variant : record.variants) {
    add(beyond("bytes of scratch per thread", double(variant.scratchBytes), mostScratchBytes));
    add(beyond("bytes of workspace", double(variant.workspaceBytes), mostArenaBytes));
  }
  for (const KernelRecord::DeviceVariant &variant : record.deviceVariants) {
    add(beyond("bytes of workspace", double(variant.workspaceBytes), mostArenaBytes));
    add(beyond("counters", double(variant.counters), mostBlocks));
    for (const KernelRecord::StageRecord &stage : variant.stages) {
      add(beyond("blocks", double(stage.blocks), mostBlocks));
      add(beyond("threads per block", double(stage.threads), mostThreads));
      add(beyond("bytes of shared memory per block", double(stage.sharedBytes), mostSharedBytes));
    }
  }
  add(beyond("operations", record.flops, mostWork));
  add(beyond("bytes moved", record.bytes, mostWork));
  return excess;
}

std::string driver::findExcess(ModuleOp module, const KernelSet &kernels) {
  std::vector<std::string> excesses;
  for (const KernelRecord &record : kernels.records) {
    excesses.push_back(::findExcess(record));
  }
  for (auto func : module.getOps<func::FuncOp>()) {
    for (Operation &op : func.getBody().front()) {
      auto kernel = kernels.kernelOf.find(&op);
      if (kernel == kernels.kernelOf.end() || excesses[kernel->second].empty()) {
        continue;
      }
      auto place = op.getLoc()->findInstanceOf<FileLineColLoc>();
      std::string where =
          place ? spec::toString({place.getFilename().str(), place.getLine(), place.getColumn()}) +
                      ": "
                : "";
      return where + excesses[kernel->second] + " (" + kernels.records[kernel->second].name +
             "); make the sizes of this stage (factor, width, heads, feed_forward, vocabulary), "
             "batch or context smaller";
    }
  }
  return "";
}

std::string driver::findExcess(const MemoryPlan &memory) {
  auto say = [](StringRef what, int64_t found, int64_t most) {
    return ("expected " + what + " of at most " + Twine(most) + " bytes, found " + Twine(found) +
            "; make batch, context, the width or the number of layers smaller")
        .str();
  };
  if (memory.arenaBytes < 0 || memory.arenaBytes > mostArenaBytes) {
    return say("an arena", memory.arenaBytes, mostArenaBytes);
  }
  if (memory.constantsBytes > mostConstantBytes) {
    return say("tables", memory.constantsBytes, mostConstantBytes);
  }
  return "";
}
