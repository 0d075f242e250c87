// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SegmentTrial.h"
#include "Corpus.h"
#include "Enumeration.h"
#include "JudgeModule.h"
#include "Trial.h"
#include "sluice/Analysis/CausalFlow.h"
#include "sluice/Transforms/ImportSpec.h"

#include <nlohmann/json.hpp>

#include <random>

using namespace mlir;
using namespace sluice;
using namespace sluice::fuzz;
using Json = nlohmann::ordered_json;

namespace {

class Generator {
public:
  Generator(uint64_t seed, int levels)
      : engine(seed * 2 + static_cast<uint64_t>(levels)), mistakes(seed % 2 ? 0.25 : 0),
        levels(levels) {}
  std::string spec();

private:
  bool chance(double probability) {
    return static_cast<double>(engine() >> 11) * 0x1p-53 < probability;
  }
  bool mistake() { return chance(mistakes); }
  void emit(Json stage) { stages.push_back(std::move(stage)); }
  void layer();
  void shift();
  void group(const std::function<void()> &inside);
  Json boundaries(const std::string &name, bool mayRead);
  void cut(int level, bool mayRead);
  void onSegments(int level);

  std::mt19937_64 engine;
  double mistakes;
  int levels;
  int names = 0;
  std::vector<Json> stages;
};

void Generator::layer() {
  Json stage = {{"op", "layer"}};
  if (mistake()) {
    stage["mask"] = "bidirectional";
  } else if (chance(0.3)) {
    stage["mask"] = {{"window", {chance(0.5) ? 0 : 1, 3}}};
  }
  emit(stage);
}

void Generator::shift() {
  emit({{"op", "shift"}, {"by", 1}});
  if (chance(0.4)) {
    stages.back()["start"] = "null";
  }
}

/// Groups of two around what stands inside.
void Generator::group(const std::function<void()> &inside) {
  std::string fine = "x" + std::to_string(names++);
  emit({{"op", "norm"}, {"to", fine}});
  if (!mistake()) {
    emit({{"op", "shift"}, {"by", 1}});
  }
  emit({{"op", "shorten"}, {"factor", 2}});
  inside();
  emit({{"op", "upsample"}, {"factor", 2}});
  emit({{"op", "add"}, {"with", fine}});
}

void Generator::onSegments(int level) {
  if (chance(0.4)) {
    layer();
  }
  if (chance(0.25)) {
    group([&] {
      if (chance(0.5)) {
        layer();
      }
    });
  }
  if (level < levels) {
    cut(level + 1, false);
  }
}

/// What makes the bits: a rule or a predictor, of ends or of starts, or a router.
Json Generator::boundaries(const std::string &name, bool mayRead) {
  Json stage = {{"op", "boundaries"}, {"name", name}};
  bool begins = chance(0.4);
  if (begins) {
    stage["at"] = "start";
  }
  if (begins && chance(0.5)) {
    stage["ratio"] = 3;
  } else if (!mayRead || chance(0.6)) {
    stage["predictor"] = 2;
    stage["prior"] = 0.3;
  } else {
    stage["rule"] = begins && chance(0.5) ? "space_like" : "whitespace";
  }
  return stage;
}

/// Segments, moved by one at either end or at neither: causal where it is at one at least. Rows
/// that were moved are not those that a router's chances belong to, so they leak where smoothed.
void Generator::cut(int level, bool mayRead) {
  std::string name = "cut" + std::to_string(level), fine = "x" + std::to_string(names++);
  emit({{"op", "norm"}, {"to", fine}});
  if (mistake()) {
    emit({{"op", "layer"}, {"mask", "bidirectional"}}); // of what bits read
  }
  Json made = boundaries(name, mayRead);
  emit(made);
  bool begins = made.contains("at"), isRouted = made.contains("ratio");
  emit({{"op", "shorten"}, {"from", fine}, {"segments", name}});
  if (isRouted || (made.contains("rule") && chance(0.4))) {
    stages.back()["method"] = begins ? "first" : "last";
  }
  bool smooths = isRouted && chance(0.6);
  bool isMoved = smooths ? mistake() : chance(0.4);
  if (isMoved) {
    shift();
  }
  onSegments(level);
  int64_t by = isMoved ? (chance(0.7) ? 0 : 1) : mistake() ? 0 : (chance(0.8) ? 1 : 2);
  emit({{"op", "upsample"}, {"segments", name}, {"by", by}});
  if (smooths || chance(0.2)) {
    stages.back()["method"] = smooths ? "smooth" : "scatter";
  }
  emit({{"op", "add"}, {"with", fine}});
}

std::string Generator::spec() {
  emit({{"op", "embedding"}});
  if (chance(0.3)) {
    layer();
  }
  if (chance(0.25)) {
    group([&] { cut(1, false); });
  } else {
    cut(1, true);
  }
  if (chance(0.3)) {
    layer();
  }
  emit({{"op", "head"}});
  Json top = {{"sluice", 1}, {"vocabulary", 40}, {"context", 12},
              {"batch", 1},  {"width", 2},       {"defaults", {{"heads", 1}, {"feed_forward", 2}}}};
  std::string text = top.dump(), lines;
  text.pop_back();
  for (const Json &stage : stages) {
    lines += (lines.empty() ? "\n  " : ",\n  ") + stage.dump();
  }
  return text + ",\n\"stages\": [" + lines + "\n]}\n";
}

} // namespace

std::string fuzz::generateSegmentedSpec(uint64_t seed, int levels) {
  return Generator(seed, levels).spec();
}

static SegmentJudgement judge(ModuleOp module, int64_t longest) {
  SegmentJudgement judgement;
  judgement.verdict = checkCausality(module, /*replay=*/false);
  for (const char *name : {"evaluate", "train"}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    std::optional<Violation> violation =
        function && !judgement.leaks ? enumerateSegments(function, longest) : std::nullopt;
    if (!violation) {
      continue;
    }
    judgement.leaks = true;
    if (judgement.verdict.isProved()) {
      judgement.problem = "proved, but row " + std::to_string(violation->row) + " of " +
                          std::to_string(violation->length) + " tokens (" + name +
                          ") reads token " + std::to_string(violation->token);
    }
  }
  return judgement;
}

SegmentJudgement fuzz::judgeSegments(const std::string &spec, int64_t longest) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = importSpec(context, readSpec(spec));
  return judge(*module, longest);
}

SegmentJudgement fuzz::judgeSegmentsOf(const std::string &path, int64_t longest) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = parseModel(context, modelIR(path), path);
  return judge(*module, longest);
}
