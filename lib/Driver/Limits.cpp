// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Limits.h"
#include "sluice/Runtime/Format.h"
#include "sluice/Runtime/Limits.h"
#include "sluice/Spec/Expansion.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <numeric>

using namespace sluice;
using namespace sluice::spec;

/// Positions of a batch: temporaries and the launches' items grow with them.
constexpr int64_t mostPositions = int64_t(1) << 28;

/// A stage that is only a map of positions: shift, or upsample by repetition; or, outside training,
/// nothing at all: dropout.
static bool isPositionMap(const Primitive &stage) {
  if (const auto *upsample = std::get_if<Upsample>(&stage.settings)) {
    return upsample->method == Upsampling::Repeat && !upsample->splits;
  }
  if (const auto *shift = std::get_if<Shift>(&stage.settings)) {
    return !shift->isLearned; // whose rows are stored
  }
  return stage.op() == Op::Dropout;
}

/// Whether a group's rows lie side by side: all features of a linear shorten, and where the
/// gradient of a maximum goes, or of a window that is no whole number of groups.
static bool laysGroupsOut(const Shorten &shorten) {
  return shorten.method == Shortening::Linear ||
         (shorten.method == Shortening::Max && shorten.segments.empty()) ||
         shorten.rows() % shorten.factor != 0;
}

/// Windows of many groups whose rows lie side by side: the kernel of their gradients has code for
/// each group.
static std::optional<Diagnostic> findLongWindow(const Primitive &stage) {
  constexpr int64_t mostGroups = 64;
  const auto *shorten = std::get_if<Shorten>(&stage.settings);
  bool isLong = shorten && shorten->method != Shortening::Average && shorten->factor > 1 &&
                shorten->rows() / shorten->factor > mostGroups;
  if (!isLong) {
    return std::nullopt;
  }
  return Diagnostic{stage.at("window"),
                    "expected a window of at most " + std::to_string(mostGroups) +
                        " groups for a shorten that does not average, found " +
                        std::to_string(shorten->rows()) + " rows of groups of " +
                        std::to_string(shorten->factor) + "; make the window smaller"};
}

/// What such a stage is called: "max shorten"; empty for any other.
static std::string nameOfGroups(const Primitive &stage) {
  if (const auto *shorten = std::get_if<Shorten>(&stage.settings)) {
    std::string method(shorteningNames[size_t(shorten->method)]);
    return laysGroupsOut(*shorten) ? method + " shorten" : "";
  }
  const auto *upsample = std::get_if<Upsample>(&stage.settings);
  return upsample && upsample->groups() > 1 ? "upsample by windows" : "";
}

/// The linear upsample that such a stage reads through position maps alone; -1: none. Such a
/// group's rows would be columns of rows at a stride that no access says.
static int64_t findUpsampleBehind(const std::vector<Primitive> &stages, const Primitive &groups) {
  int64_t at = groups.input;
  while (at >= 0 && isPositionMap(stages[at])) {
    at = stages[at].input;
  }
  const auto *upsample = at >= 0 ? std::get_if<Upsample>(&stages[at].settings) : nullptr;
  return upsample && upsample->method == Upsampling::Linear ? at : -1;
}

/// The widest rows that a stage makes, with the key that says so.
static std::pair<__int128, const SourceLocation *> widestRow(const Model &model,
                                                             const Primitive &stage) {
  __int128 width = stage.width;
  if (const auto *layer = std::get_if<Layer>(&stage.settings)) {
    __int128 heads = __int128(layer->heads + 2 * layer->keyValueHeads) * layer->headSize;
    __int128 hidden =
        __int128(layer->feedForward) * (layer->activation == Activation::SwiGlu ? 2 : 1);
    return hidden > heads ? std::pair(hidden, &stage.at("feed_forward"))
                          : std::pair(heads, &stage.at("heads"));
  }
  if (const auto *shorten = std::get_if<Shorten>(&stage.settings)) {
    return {width * (laysGroupsOut(*shorten) ? std::max(shorten->rows(), shorten->factor) : 1),
            &stage.at(shorten->window ? "window" : "factor")};
  }
  if (const auto *upsample = std::get_if<Upsample>(&stage.settings); upsample && upsample->window) {
    return {width * std::max(upsample->factor, upsample->groups()), &stage.at("window")};
  }
  return {width, &stage.location};
}

/// A stage whose results alone are more than an arena holds. Sums of sizes may overflow later, so
/// this comes first.
static std::optional<Diagnostic> findLargeResult(const Model &model, const Primitive &stage) {
  auto [width, place] = widestRow(model, stage);
  __int128 positions = __int128(model.batch) * positionsOf(model, stage);
  constexpr int64_t mostElements = mostArenaBytes / sizeof(float);
  if (positions * width <= mostElements) {
    return std::nullopt;
  }
  return Diagnostic{*place, "expected rows of a batch of at most " + std::to_string(mostElements) +
                                " numbers, found " +
                                std::to_string(static_cast<int64_t>(positions)) + " positions of " +
                                std::to_string(static_cast<int64_t>(width)) +
                                "; make the width of this stage, batch or context smaller"};
}

/// Layers that attend by hashes, whose buckets are more than a scan counts.
static std::optional<Diagnostic> findHashing(const Model &model, const Primitive &stage) {
  const auto *layer = std::get_if<Layer>(&stage.settings);
  if (!layer || !layer->lsh) {
    return std::nullopt;
  }
  constexpr int64_t mostRows = int64_t(1) << 23, mostPlaces = int64_t(1) << 30;
  __int128 places = positionsOf(model, stage) + std::max<int64_t>(layer->lsh->chunk, 64);
  if (places <= mostRows && places * layer->lsh->buckets <= mostPlaces) {
    return std::nullopt;
  }
  return Diagnostic{stage.at("lsh"),
                    "expected rows and a chunk of at most " + std::to_string(mostRows) +
                        " together, and times \"buckets\" at most " + std::to_string(mostPlaces) +
                        ", found " + std::to_string(static_cast<int64_t>(places)) + " and " +
                        std::to_string(layer->lsh->buckets) + " buckets; make one of them smaller"};
}

/// A table of angles that is more than an artifact holds.
static std::optional<Diagnostic>
findLargeTable(const Model &model, const std::vector<Primitive> &stages, const Primitive &stage) {
  const auto *embedding = std::get_if<Embedding>(&stage.settings);
  const auto *layer = std::get_if<Layer>(&stage.settings);
  bool isXl = layer && layer->isXl();
  bool sinusoidal = isXl || (embedding && embedding->positions == Positions::Sinusoidal);
  if (!sinusoidal && !(layer && layer->rotaryBase)) {
    return std::nullopt;
  }
  int64_t rows = isXl ? distanceCount(model, stages, stage) : positionsOf(model, stage);
  int64_t columns = sinusoidal ? stage.width : layer->headSize;
  if (__int128(rows) * columns * int64_t(sizeof(float)) <= mostConstantBytes) {
    return std::nullopt;
  }
  return Diagnostic{stage.at(isXl         ? "relative"
                             : sinusoidal ? "positions"
                                          : "rotary"),
                    "expected a table of positions of at most " +
                        std::to_string(mostConstantBytes) + " bytes, found " +
                        std::to_string(rows) + " positions of " + std::to_string(columns) +
                        " numbers; make context smaller" +
                        (isXl         ? ", or leave \"relative\" out"
                         : sinusoidal ? ", or set \"positions\" to \"learned\" or \"none\""
                                      : " or turn \"rotary\" off")};
}

/// A step repeats what it does after as many tokens as all factors divide, which `common` is of the
/// stages before: a number that the runtime takes, and that is counted through.
static std::optional<Diagnostic> findCoarseScale(const Primitive &stage, int64_t &common) {
  constexpr int64_t mostTokens = int64_t(1) << 20;
  __int128 all = __int128(common) / std::gcd(common, stage.factor) * stage.factor;
  if (all <= mostTokens) {
    common = static_cast<int64_t>(all);
    return std::nullopt;
  }
  return Diagnostic{stage.at("factor"),
                    "expected scales that begin together again after at most " +
                        std::to_string(mostTokens) + " tokens, found a factor of " +
                        std::to_string(stage.factor) + " beside others that divide " +
                        std::to_string(common) + "; make one of them smaller"};
}

static std::optional<Diagnostic> findUnsupportedOf(const Model &model, int64_t &common) {
  if (model.batch > mostPositions / model.context) {
    auto place = model.keys.find("context");
    return Diagnostic{place == model.keys.end() ? model.location : place->second,
                      "expected batch times context to be at most " +
                          std::to_string(mostPositions) + " positions, found " +
                          std::to_string(model.batch) + " times " + std::to_string(model.context) +
                          "; make one of them smaller"};
  }
  for (const Input &input : model.inputs) {
    if (model.batch > mostPositions / input.context) {
      return Diagnostic{input.location,
                        "expected batch times context of the input \"" + input.name +
                            "\" to be at most " + std::to_string(mostPositions) +
                            " positions, found " + std::to_string(model.batch) + " times " +
                            std::to_string(input.context) + "; make one of them smaller"};
    }
  }
  std::vector<Primitive> stages = expand(model);
  for (const Primitive &stage : stages) {
    if (auto large = findLargeResult(model, stage)) {
      return large;
    }
    if (auto coarse = findCoarseScale(stage, common)) {
      return coarse;
    }
    if (auto hashing = findHashing(model, stage)) {
      return hashing;
    }
    if (auto large = findLargeTable(model, stages, stage)) {
      return large;
    }
    if (auto window = findLongWindow(stage)) {
      return window;
    }
    std::string groups = nameOfGroups(stage);
    if (groups.empty()) {
      continue;
    }
    if (int64_t upsample = findUpsampleBehind(stages, stage); upsample >= 0) {
      return Diagnostic{stage.location,
                        "expected a layer or a norm between a linear upsample and the " + groups +
                            " of its result, found none (the upsample is at " +
                            toString(stages[upsample].location) +
                            "); put a norm between them, or make one of the two average or repeat"};
    }
  }
  return std::nullopt;
}

std::optional<Diagnostic> driver::findUnsupported(const Model &model) {
  int64_t common = 1;
  for (const Model &variant : model.variants()) {
    if (auto unsupported = findUnsupportedOf(variant, common)) {
      return unsupported;
    }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// What was generated
//===----------------------------------------------------------------------===//

/// "expected AT MOST ..., found ..." for the first number beyond its limit; empty where none is.
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
    add(beyond("bytes an operand", double(operand.bytes), mostArenaBytes));
  }
  for (const KernelRecord::Variant &variant : record.variants) {
    add(beyond("bytes of scratch a thread", double(variant.scratchBytes), mostScratchBytes));
    add(beyond("bytes of workspace", double(variant.workspaceBytes), mostArenaBytes));
  }
  for (const KernelRecord::DeviceVariant &variant : record.deviceVariants) {
    add(beyond("bytes of workspace", double(variant.workspaceBytes), mostArenaBytes));
    add(beyond("counters", double(variant.counters), mostBlocks));
    for (const KernelRecord::Stage &stage : variant.stages) {
      add(beyond("blocks", double(stage.blocks), mostBlocks));
      add(beyond("threads a block", double(stage.threads), mostThreads));
      add(beyond("bytes of shared memory a block", double(stage.sharedBytes), mostSharedBytes));
    }
  }
  add(beyond("operations", record.flops, mostWork));
  add(beyond("bytes moved", record.bytes, mostWork));
  return excess;
}

std::string driver::findExcess(mlir::ModuleOp module, const KernelSet &kernels) {
  std::vector<std::string> excesses;
  for (const KernelRecord &record : kernels.records) {
    excesses.push_back(::findExcess(record));
  }
  for (auto func : module.getOps<mlir::func::FuncOp>()) {
    for (mlir::Operation &op : func.getBody().front()) {
      auto kernel = kernels.kernelOf.find(&op);
      if (kernel == kernels.kernelOf.end() || excesses[kernel->second].empty()) {
        continue;
      }
      auto place = op.getLoc()->findInstanceOf<mlir::FileLineColLoc>();
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
  auto say = [](llvm::StringRef what, int64_t found, int64_t most) {
    return ("expected " + what + " of at most " + llvm::Twine(most) + " bytes, found " +
            llvm::Twine(found) + "; make batch, context, the width or the number of layers smaller")
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
