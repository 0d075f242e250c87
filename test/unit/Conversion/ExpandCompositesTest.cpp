// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Composite stages become the same primitive ones as in the expansion of lib/Spec.
#include "Specs.h"

#include "sluice/Conversion/Passes.h"
#include "sluice/Conversion/ReadSpec.h"
#include "sluice/Spec/Expansion.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

using namespace sluice;
using namespace mlir;

namespace {

/// One line a stage, of values that both front ends have.
class Line {
public:
  Line &operator()(llvm::StringRef name, int64_t value) { return add(name, std::to_string(value)); }
  Line &operator()(llvm::StringRef name, double value) { return add(name, std::to_string(value)); }
  Line &operator()(llvm::StringRef name, llvm::StringRef value) { return add(name, value.str()); }
  std::string take() { return std::move(text); }

private:
  Line &add(llvm::StringRef name, const std::string &value) {
    text += (" " + name + "=" + value).str();
    return *this;
  }
  std::string text;
};

//===----------------------------------------------------------------------===//
// Stages of lib/Spec
//===----------------------------------------------------------------------===//

std::string toText(const spec::Mask &mask) {
  constexpr const char *names[] = {"causal", "complete", "bidirectional",
                                   "window", "tokens",   "block"};
  return names[static_cast<size_t>(mask.kind)] + std::string("[") + std::to_string(mask.begin) +
         "," + std::to_string(mask.end) + "]";
}

struct OldSettings {
  Line &line;

  void operator()(const spec::Embedding &s) const {
    line("input", s.input)("positions", int64_t(s.positions))("dropout", s.dropout)(
        "ngrams", int64_t(s.ngrams.size()))("rows", s.ngrams.empty() ? 0 : s.ngramRows);
  }
  void operator()(const spec::Layer &s) const {
    line("heads", s.heads)("kv", s.keyValueHeads)("size", s.headSize)("norm", int64_t(s.norm));
    line("placement", int64_t(s.placement))("epsilon", s.epsilon)("activation",
                                                                  int64_t(s.activation));
    line("feed_forward", s.feedForward)("dropout", s.dropout)("attention_dropout",
                                                              s.attentionDropout);
    line("first", s.first)("rotary", s.rotaryBase.value_or(0))("relative", int64_t(s.relative));
    line("distances", s.distances)("rows", int64_t(s.countsRows && s.isXl()));
    line("lsh", s.lsh ? s.lsh->buckets * 1000 + s.lsh->hashes : 0)("bias", int64_t(s.bias));
    line("attention_norm", int64_t(s.attentionNorm));
    if (s.groups.empty()) {
      line("mask", toText(s.mask));
    }
    for (const spec::HeadGroup &group : s.groups) {
      line("group", toText(group.mask))("factor", group.factor)("moving", int64_t(group.isMoving));
    }
  }
  void operator()(const spec::Norm &s) const {
    line("norm", int64_t(s.norm))("epsilon", s.epsilon);
  }
  void operator()(const spec::Shift &s) const { line("by", s.by)("learned", int64_t(s.isLearned)); }
  void operator()(const spec::Shorten &s) const {
    line("factor", s.factor)("method", s.concatenates  ? "concatenate"
                                       : s.isSelection ? (s.isFirst ? "first" : "last")
                                       : s.method == spec::Shortening::Max    ? "max"
                                       : s.method == spec::Shortening::Linear ? "linear"
                                                                              : "average");
    line("window", s.window.value_or(0))("segments", s.segments);
  }
  void operator()(const spec::Upsample &s) const {
    line("factor", s.factor)("method", s.splits                               ? "split"
                                       : s.scatters                           ? "scatter"
                                       : s.smooths                            ? "smooth"
                                       : s.method == spec::Upsampling::Linear ? "linear"
                                                                              : "repeat");
    line("window", s.window.value_or(0))("segments", s.segments)("by", s.by);
  }
  void operator()(const spec::Add &) const {}
  void operator()(const spec::Replace &s) const { line("block", s.block)("start", s.start); }
  void operator()(const spec::Dropout &s) const { line("rate", s.rate); }
  void operator()(const spec::Head &s) const {
    line("tied", int64_t(s.tied))("bias", int64_t(s.bias))("smoothing", s.labelSmoothing);
    line("shift", s.shift.value_or(-1))("first", s.first.value_or(-1))("target", s.target);
  }
  void operator()(const spec::Loss &s) const {
    line("name", s.name)("factor", s.factor);
    (*this)(s.head);
  }
  void operator()(const spec::Project &s) const {
    line("activation", s.activation ? int64_t(*s.activation) : -1)("bias", int64_t(s.bias));
    line("width", s.width)("initial", s.initial == spec::InitialKind::Zeros      ? "zeros"
                                      : s.initial == spec::InitialKind::Identity ? "identity"
                                                                                 : "normal");
  }
  void operator()(const spec::Boundaries &s) const {
    line("name", s.name)("rule", s.rule ? int64_t(*s.rule) : -1)("factor", s.factor);
    line("capacity", s.capacity)("hidden", s.hidden)("begins", int64_t(s.begins));
    line("code", int64_t(s.asInCode))("end", s.documentEnd.value_or(-1));
    line("ratio", s.ratio)("moves", s.moving ? s.moving->from : 0)("loss", s.loss);
    line("spike", s.spike)("top", s.top)("spare", s.spare);
    line("logit", s.computeLogitShift());
    if (s.hidden > 0 || s.ratio > 0) {
      line("weight", s.weight);
    }
    if (s.hidden > 0 && !s.rule) {
      line("temperature", s.temperature)("prior", s.prior);
    }
  }
  void operator()(const spec::Attend &s) const {
    line("segments", s.segments)("heads", s.heads)("size", s.headSize)("parts", s.parts)("by",
                                                                                         s.by);
    line("asks", int64_t(s.asks))("norm", int64_t(s.norm.norm))("epsilon", s.norm.epsilon);
    line("bias", int64_t(s.bias));
  }
  template <typename Composite> void operator()(const Composite &) const { line("composite", "1"); }
};

/// Stages of the expansion in lib/Spec.
std::vector<std::string> showOld(const spec::Model &model) {
  std::vector<std::string> lines;
  for (const spec::Primitive &p : spec::expand(model)) {
    Line line;
    line(spec::name(p.op()), p.prefix)("at", spec::toString(p.location))("input", p.input);
    const auto *layer = std::get_if<spec::Layer>(&p.settings);
    bool isPooled = layer && !layer->groups.empty() && layer->groups.front().isPooled;
    if (p.second >= 0) {
      line("second", p.second);
    }
    for (int64_t source : isPooled ? std::vector<int64_t>() : p.sources) {
      line("second", source);
    }
    if (p.op() != spec::Op::Loss && p.op() != spec::Op::Head && p.op() != spec::Op::Boundaries) {
      line("scale", p.factor)("width", p.width)("axis", p.axis + p.segments);
    }
    line("frozen", int64_t(p.isFrozen));
    std::visit(OldSettings{line}, p.settings);
    lines.push_back(line.take());
  }
  return lines;
}

//===----------------------------------------------------------------------===//
// Stages of the dialect
//===----------------------------------------------------------------------===//

std::string toText(spec::MaskAttr mask) {
  return spec::stringifyMaskShape(mask.getShape()).str() + "[" + std::to_string(mask.getBegin()) +
         "," + std::to_string(mask.getEnd()) + "]";
}
/// "none" is no function of lib/Spec.
int64_t toOld(spec::ActivationFunction function) { return int64_t(function) - 1; }

std::string getSegments(Value segments) {
  return segments ? cast<spec::SegmentationType>(segments.getType()).getName().str() : "";
}

void show(spec::EmbeddingOp s, Line &line) {
  line("input", s.getInput().value_or(""))("positions", int64_t(s.getPositions()));
  line("dropout", s.getDropout())("ngrams", int64_t(s.getNgrams() ? s.getNgrams()->size() : 0))(
      "rows", s.getNgramRows().value_or(0));
}
void show(spec::LayerOp s, Line &line) {
  std::optional<spec::RelativeAttr> relative = s.getRelative();
  bool isXl = relative && relative->getTerms() != spec::RelativeTerms::none &&
              relative->getTerms() != spec::RelativeTerms::bias;
  line("heads", *s.getHeads())("kv", *s.getKeyValueHeads())("size", *s.getHeadSize());
  line("norm", int64_t(s.getNorm()))("placement", int64_t(s.getPlacement()));
  line("epsilon", s.getEpsilon())("activation", toOld(s.getActivation()));
  line("feed_forward", *s.getFeedForward())("dropout", s.getDropout())("attention_dropout",
                                                                       s.getAttentionDropout());
  line("first", s.getFirst())("rotary", s.getRotary().value_or(0))(
      "relative", relative ? int64_t(relative->getTerms()) : 0);
  line("distances", relative ? relative->getDistances() : 0)(
      "rows", int64_t(isXl && s.getDistances() == spec::DistanceUnit::rows));
  line("lsh", s.getLsh() ? s.getLsh()->getBuckets() * 1000 + s.getLsh()->getHashes() : 0);
  line("bias", int64_t(s.getBias()))("attention_norm", int64_t(s.getAttentionNorm()));
  if (!s.getOver() && !s.getScales()) {
    line("mask", toText(s.getMask()));
  }
  for (Attribute mask : s.getOver() ? s.getOver()->getValue() : ArrayRef<Attribute>()) {
    line("group", toText(cast<spec::MaskAttr>(mask)))("factor", int64_t{1})("moving", int64_t{0});
  }
  for (Attribute scale : s.getScales() ? s.getScales()->getValue() : ArrayRef<Attribute>()) {
    auto group = cast<spec::ScaleAttr>(scale);
    line("group", toText(group.getMask()))("factor", group.getFactor())("moving",
                                                                        int64_t(group.getMoving()));
  }
}
void show(spec::NormOp s, Line &line) {
  line("norm", int64_t(s.getNorm()))("epsilon", s.getEpsilon());
}
void show(spec::ShiftOp s, Line &line) {
  line("by", s.getBy())("learned", int64_t(s.getStart() == spec::StartRows::null));
}
void show(spec::ShortenOp s, Line &line) {
  llvm::StringRef method = stringifyShortenMethod(s.getMethod());
  line("factor", s.getFactor().value_or(1))("method", method == "convolution" ? "linear" : method);
  line("window", s.getWindow().value_or(0))("segments", getSegments(s.getSegments()));
}
void show(spec::UpsampleOp s, Line &line) {
  llvm::StringRef method = stringifyUpsampleMethod(s.getMethod());
  line("factor", s.getFactor().value_or(1))("method", method == "transposed" ? "linear" : method);
  line("window", s.getWindow().value_or(0))("segments", getSegments(s.getSegments()));
  line("by", s.getBy().value_or(1));
}
void show(spec::AddOp, Line &) {}
void show(spec::ReplaceOp s, Line &line) { line("block", s.getBlock())("start", s.getStart()); }
void show(spec::DropoutOp s, Line &line) { line("rate", s.getRate()); }
template <typename Op> void showHead(Op s, Line &line) {
  line("tied", int64_t(s.getTied()))("bias", int64_t(s.getBias()))("smoothing",
                                                                   s.getLabelSmoothing());
  line("shift", s.getShift().value_or(-1))("first", s.getFirst().value_or(-1));
  line("target", s.getTarget().value_or(""));
}
void show(spec::HeadOp s, Line &line) { showHead(s, line); }
void show(spec::LossOp s, Line &line) {
  line("name", s.getName())("factor", s.getFactor());
  showHead(s, line);
}
void show(spec::ProjectOp s, Line &line) {
  line("activation", toOld(s.getActivation()))("bias", int64_t(s.getBias()));
  line("width", s.getWidth().value_or(0))("initial", stringifyInitialValues(s.getInitial()));
}
void show(spec::BoundariesOp s, Line &line) {
  auto target = [](std::optional<spec::TargetAttr> value) {
    return value ? value->getTo().getValueAsDouble() : 0;
  };
  std::optional<spec::TargetAttr> moving = s.getRatio() ? s.getRatio() : s.getPrior();
  line("name", s.getName())("rule", s.getRule() ? int64_t(*s.getRule()) : -1);
  line("factor", s.getFactor().value_or(1))("capacity", s.getMostSegments());
  line("hidden", s.getPredictor().value_or(0));
  line("begins", int64_t(s.getAt() == spec::SegmentEdge::start));
  line("code", int64_t(s.getMode() == spec::Fidelity::reference_code));
  line("end", s.getDocumentEnd().value_or(-1))("ratio", target(s.getRatio()));
  line("moves", moving && moving->getFrom() ? moving->getFrom().getValueAsDouble() : 0);
  line("loss", s.getLoss().value_or(""))("spike", s.getSpike().value_or(0));
  line("top", s.getTop().value_or(0))("spare", s.getSpareRows());
  line("logit", s.computeLogitShift());
  if (s.getPredictor() || s.getRatio()) {
    line("weight", *s.getWeight());
  }
  if (s.getPredictor() && !s.getRule()) {
    line("temperature", *s.getTemperature())("prior", target(s.getPrior()));
  }
}
void show(spec::AttendOp s, Line &line) {
  line("segments", getSegments(s.getSegments()))("heads", *s.getHeads())("size", *s.getHeadSize());
  line("parts", s.getParts())("by", s.getBy().value_or(1))("asks", int64_t(s.readsRows()));
  line("norm", int64_t(s.getNorm()))("epsilon", s.getEpsilon())("bias", int64_t(s.getBias()));
}

template <typename... Ops> void showAny(Operation *stage, Line &line) {
  bool isKnown = false;
  auto tryOne = [&](auto op) {
    if (op) {
      isKnown = true;
      show(op, line);
    }
  };
  (tryOne(dyn_cast<Ops>(stage)), ...);
  if (!isKnown) {
    line("composite", "1");
  }
}

std::vector<std::string> showNew(spec::ModelOp model) {
  llvm::DenseMap<Value, int64_t> ids;
  std::vector<std::string> lines;
  for (Operation &stage : model.getBody().front()) {
    if (!isa<spec::StageInterface>(stage)) {
      continue;
    }
    Line line;
    line(stage.getName().stripDialect(), stage.getAttrOfType<StringAttr>("path").getValue());
    line("at", spec::describePlace(stage.getLoc()));
    bool isEmbedding = isa<spec::EmbeddingOp>(stage);
    line("input", isEmbedding ? -1 : ids.lookup(stage.getOperand(0)));
    for (Value operand : isEmbedding ? ValueRange() : stage.getOperands().drop_front()) {
      if (isa<spec::StreamType>(operand.getType())) {
        line("second", ids.lookup(operand));
      }
    }
    if (stage.getNumResults() > 0) {
      ids[stage.getResult(0)] = static_cast<int64_t>(lines.size());
      if (auto type = dyn_cast<spec::StreamType>(stage.getResult(0).getType())) {
        line("scale", type.getFactor())("width", type.getWidth());
        line("axis", type.getName() ? type.getName().getValue() : "");
      }
    }
    line("frozen", int64_t(stage.hasAttr("frozen")));
    showAny<spec::EmbeddingOp, spec::LayerOp, spec::NormOp, spec::ShiftOp, spec::ShortenOp,
            spec::UpsampleOp, spec::AddOp, spec::ReplaceOp, spec::DropoutOp, spec::HeadOp,
            spec::LossOp, spec::ProjectOp, spec::BoundariesOp, spec::AttendOp>(&stage, line);
    lines.push_back(line.take());
  }
  return lines;
}

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

/// Reads and expands a spec with one of the factors that it draws; 0: the least.
OwningOpRef<ModuleOp> expandSpec(MLIRContext &context, const std::string &text,
                                 const std::string &file, int64_t factor, spec::Diagnostic &error) {
  OwningOpRef<spec::ModelOp> model = readSpec(context, text, file, error);
  if (!model) {
    return {};
  }
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  module->push_back(model.release());
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (error.message.empty()) {
      error.message = diagnostic.str();
      if (auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>()) {
        error.location = {place.getFilename().str(), place.getLine(), place.getColumn()};
      }
    }
    return success();
  });
  PassManager manager(&context);
  manager.addPass(createChooseFactor({factor}));
  manager.addPass(createExpandComposites());
  return succeeded(manager.run(*module)) ? std::move(module) : OwningOpRef<ModuleOp>();
}

/// Expects the stages of lib/Spec at each factor that the spec draws.
void expectSameStages(const std::string &text, const std::string &file) {
  spec::Diagnostic oldError;
  std::optional<spec::Model> old = spec::readText(text, file, oldError);
  std::vector<int64_t> factors = old ? old->factors() : std::vector<int64_t>{0};
  for (int64_t factor : factors.empty() ? std::vector<int64_t>{0} : factors) {
    MLIRContext context;
    spec::Diagnostic error;
    OwningOpRef<ModuleOp> module = expandSpec(context, text, file, factor, error);
    ASSERT_EQ(!!old, !!module) << oldError.format() << error.format();
    if (old) {
      auto model = *module->getOps<spec::ModelOp>().begin();
      EXPECT_EQ(showOld(factor > 0 ? old->withFactor(factor) : *old), showNew(model))
          << "factor " << factor;
    }
  }
}

class ExpandModel : public testing::TestWithParam<std::string> {};
TEST_P(ExpandModel, GivesTheSameStages) {
  std::string file = GetParam() + ".json";
  expectSameStages(readAll(std::filesystem::path(SPEC_MODELS_DIR) / file), file);
}
INSTANTIATE_TEST_SUITE_P(Models, ExpandModel, testing::ValuesIn(listSpecs(SPEC_MODELS_DIR)),
                         toTestName);

class ExpandCausality : public testing::TestWithParam<std::string> {};
TEST_P(ExpandCausality, GivesTheSameStages) {
  std::string file = GetParam() + ".json";
  expectSameStages(readAll(std::filesystem::path(CAUSALITY_DIR) / file), file);
}
INSTANTIATE_TEST_SUITE_P(Specs, ExpandCausality, testing::ValuesIn(listSpecs(CAUSALITY_DIR)),
                         toTestName);

/// Errors that the reader does not see.
class BadComposite : public testing::TestWithParam<std::string> {};
TEST_P(BadComposite, GivesItsMessage) {
  std::filesystem::path file = std::filesystem::path(SPEC_ERRORS_DIR) / GetParam();
  MLIRContext context;
  spec::Diagnostic error;
  EXPECT_FALSE(
      expandSpec(context, readAll(file.string() + ".json"), GetParam() + ".json", 0, error));
  EXPECT_EQ(error.format() + "\n", readAll(file.string() + ".expected"));
}
INSTANTIATE_TEST_SUITE_P(
    Corpus, BadComposite,
    testing::Values("composite-not-divisible", "entropy-coarse-loss", "entropy-later-coarse",
                    "entropy-later-loss", "entropy-later-segments", "entropy-segments",
                    "entropy-unknown-loss", "hnet-width-heads", "hourglass-factors-twice",
                    "layers-too-many", "loss-named-twice", "lsh-segments", "lsh-segments-hourglass",
                    "top-activations-too-large", "top-down-two-losses-of-one-name", "width-large"),
    toTestName);

/// Settings of `defaults` that a composite replaces, or that its layers do not count, are no error.
TEST(ExpandComposite, TakesSettingsOfDefaultsThatItReplaces) {
  std::string text = R"({ "sluice": 1, "vocabulary": 256, "context": 16, "batch": 1, "width": 8,
    "defaults": { "heads": 2, "mask": { "window": [0, 4] }, "distances": "rows" },
    "stages": [ { "op": "embedding" }, { "op": "layer", "relative": "xl" },
                { "op": "megabyte", "layers": [1, 1], "patch": 4, "local": { "norm": "rms" } },
                { "op": "head" } ] })";
  expectSameStages(text, "megabyte.json");
}

/// Losses of a top_down's scales score rows that other losses could not: of no group of an earlier
/// top_down, or beyond the context.
TEST(ExpandComposite, ScoresRowsOfEachScale) {
  std::string model = R"({ "sluice": 1, "vocabulary": 256, "context": 64, "batch": 1, "width": 8,
    "defaults": { "heads": 2 }, "stages": [ { "op": "embedding" }, )";
  expectSameStages(model + R"({ "op": "top_down", "hierarchy": "1@16 1@1" },
    { "op": "top_down", "hierarchy": "1@4 1@1", "bags": 1 }, { "op": "head", "first": 15 } ] })",
                   "two.json");
  expectSameStages(model + R"({ "op": "top_down", "hierarchy": "1@96 1@1", "bags": 1,
    "start": "null" }, { "op": "head" } ] })",
                   "long.json");
}

} // namespace
