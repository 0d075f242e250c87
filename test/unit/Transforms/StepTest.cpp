// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The derived step compared with the complete forward pass, in float64, for every causal model of
// the repository: the same code on the same numbers, so every row of every value is bitwise equal.
#include "../Model/StepSpecs.h"
#include "../Papers.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Dialect/Sluice/StepReference.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <regex>

using namespace mlir;
using namespace sluice;
using reference::StepRunner;

namespace {

const std::string source = SLUICE_SOURCE_DIR;

std::string readText(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The spec at a size that the reference runs quickly: the same stages, but fewer layers.
std::string shrunk(const std::string &text) {
  auto spec = nlohmann::json::parse(text);
  spec["vocabulary"] = 11;
  if (spec.contains("inputs")) {
    for (auto &input : spec["inputs"]) {
      input.erase("vocabulary"); // tables of both may be one
    }
  }
  spec["context"] = std::min<int64_t>(64, spec["context"]);
  if (spec["width"] <= 12) {
    return spec.dump();
  }
  int64_t width = spec["width"];
  spec["width"] = 8;
  auto shrink = [](nlohmann::json &settings) {
    for (auto [key, value] : {std::pair("heads", 2), std::pair("key_value_heads", 2),
                              std::pair("head_size", 4), std::pair("feed_forward", 8)}) {
      if (settings.contains(key)) {
        settings[key] = value;
      }
    }
  };
  shrink(spec["defaults"]);
  auto isGrouped = [&](const auto &stage) { return stage["op"] == "bottom_up"; };
  bool hasGroups = spec["defaults"].contains("scales") ||
                   std::any_of(spec["stages"].begin(), spec["stages"].end(), isGrouped);
  spec["defaults"]["heads"] = hasGroups ? 12 : 2; // of one, two, three, four or six groups
  if (hasGroups) {
    spec["defaults"]["head_size"] = 2;
  }
  for (auto &stage : spec["stages"]) {
    shrink(stage);
    if (stage["op"] == "hnet") { // of two levels
      shrink(stage["global"]);
      stage["layers"] = {1, {1, 1, 1}, 1};
      stage["width"] = {8, 16};
    } else if (stage.contains("width")) {
      stage["width"] = stage["width"] == width ? 8 : 16;
    }
    if (stage["op"] == "layers" && stage["count"] > 2) {
      stage["count"] = 2;
    }
    if (stage["op"] == "hourglass" || stage["op"] == "top_down" || isGrouped(stage)) {
      stage["hierarchy"] = std::regex_replace(stage["hierarchy"].get<std::string>(),
                                              std::regex("(^| )[0-9]+@"), "$012@");
    }
  }
  return spec.dump();
}

/// A module with @step, printed and parsed: the program that runs is the output of --emit step.
struct Subject {
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;

  Subject() {
    context.loadDialect<SluiceDialect, dispatch::DispatchDialect, func::FuncDialect,
                        arith::ArithDialect, math::MathDialect>();
  }
  /// Imports a spec at one of its sampled factors; 0: at the minimum.
  void importText(const std::string &text, const std::string &file, int64_t factor) {
    spec::Diagnostic error;
    if (auto spec = parseSpec(context, text, file, error)) {
      module = importSpec(*spec->withFactor(factor).module);
    } else {
      ADD_FAILURE() << error.format();
    }
  }
  explicit Subject(const std::string &path) : Subject() {
    if (path.ends_with(".mlir")) {
      module = parseSourceString<ModuleOp>(readText(path), &context);
    } else {
      importText(shrunk(readText(path)), path, 0);
    }
  }

  func::FuncOp function(StringRef name) { return module->lookupSymbol<func::FuncOp>(name); }
  void derive() {
    PassManager manager(&context);
    manager.addPass(createConvertFactors());
    manager.addPass(createDeriveStep());
    ASSERT_TRUE(succeeded(manager.run(*module)));
    ASSERT_TRUE(succeeded(verify(*module)));
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream, OpPrintingFlags().enableDebugInfo());
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
  }
};

using Weights = std::map<std::string, std::vector<double>>;

Weights randomWeights(ModuleOp module) {
  std::mt19937_64 generator(1);
  Weights weights;
  for (auto parameter : module.getOps<ParameterOp>()) {
    auto &data = weights[parameter.getSymName().str()];
    data.resize(cast<RankedTensorType>(parameter.getType()).getNumElements());
    for (double &number : data) {
      number = static_cast<double>(generator() >> 11) * 0x1p-53 - 0.5;
    }
  }
  return weights;
}

/// For one text, the tokens of each named input by argument number, and their count.
using Givens = std::map<unsigned, std::pair<std::vector<int32_t>, int64_t>>;

Givens makeGivens(func::FuncOp predict, int64_t most) {
  Givens givens;
  for (BlockArgument argument : predict.getArguments().drop_front()) {
    auto type = cast<SequenceType>(argument.getType());
    int64_t capacity = getPositions(predict, type);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < capacity; ++i) {
      tokens.push_back(static_cast<int32_t>((7 * i + 3) % findInputTokens(argument)->vocabulary));
    }
    givens[argument.getArgNumber()] = {tokens, std::min(capacity, most)};
  }
  return givens;
}

/// @predict at one length.
struct Forward {
  Forward(func::FuncOp predict, const Weights &weights, const Givens &givens,
          std::vector<int32_t> tokens)
      : evaluator(predict->getParentOfType<ModuleOp>(),
                  {.length = static_cast<int64_t>(tokens.size())}) {
    for (const auto &[symbol, data] : weights) {
      evaluator.setParameter(symbol, data);
    }
    evaluator.setTokens(predict.getArgument(0), std::move(tokens));
    for (const auto &[number, given] : givens) {
      auto type = cast<SequenceType>(predict.getArgument(number).getType());
      auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(predict, type.getScale());
      evaluator.setTokens(predict.getArgument(number), given.first);
      evaluator.setCounts(scale.getAxis(), {given.second});
    }
    EXPECT_TRUE(succeeded(evaluator.evaluate(predict)));
    logits = evaluator.getSequence(predict.getBody().front().getTerminator()->getOperand(0));
  }
  reference::Evaluator<double> evaluator;
  std::vector<double> logits;
};

/// The value of @predict from which each stored value of @step was computed. Both have one order.
DenseMap<Value, Value> matchValues(func::FuncOp step, func::FuncOp predict) {
  DenseMap<Value, Value> pairs;
  auto other = predict.getBody().front().begin(), end = predict.getBody().front().end();
  for (auto due : step.getOps<DueOp>()) {
    Operation *op = due.getValue().getDefiningOp();
    if (!op || pairs.contains(due.getValue())) {
      continue;
    }
    while (other != end && (other->getName() != op->getName() || other->getLoc() != op->getLoc())) {
      ++other;
    }
    if (other == end) {
      ADD_FAILURE() << "no counterpart";
      break;
    }
    for (auto [mine, its] : llvm::zip_equal(op->getResults(), other->getResults())) {
      pairs[mine] = its;
    }
  }
  return pairs;
}

class StepComparison {
public:
  /// Each text has at most `mostGiven` tokens of each named input. With `steps`, that many tokens
  /// follow the longest prompt of `runLong`.
  explicit StepComparison(Subject &subject, int64_t mostGiven = 1 << 20, int64_t steps = 0)
      : step(subject.function("step")), predict(subject.function("predict")),
        weights(randomWeights(*subject.module)), pairs(matchValues(step, predict)),
        givens(makeGivens(predict, mostGiven)) {
    int64_t context = getContext(predict);
    for (auto schedule : subject.module->getOps<ScheduleOp>()) {
      period = std::lcm(period, static_cast<int64_t>(schedule.getPeriod()));
    }
    length = steps > 0 ? 3 * period + 1 + steps
                       : std::min({context, int64_t{64}, std::max<int64_t>(20, 2 * period + 5)});
    EXPECT_LE(length, context);
    std::mt19937_64 generator(2);
    auto vocabulary =
        subject.module->getOperation()->getAttrOfType<IntegerAttr>("sluice.vocabulary").getInt();
    for (int64_t t = 0; t <= length; ++t) {
      tokens.push_back(static_cast<int32_t>(generator() % vocabulary));
    }
    forward = std::make_unique<Forward>(predict, weights, givens, first(length));
  }

  /// Token by token, without a prompt.
  void runSteps() {
    StepRunner runner(step);
    setWeights(runner);
    for (int64_t t = 0; t < length; ++t) {
      std::vector<double> logits = runner.step(tokens[t]);
      compareRows(runner);
      if (t < 5 || t % 7 == 0 || t == length - 1) {
        EXPECT_EQ(logits, Forward(predict, weights, givens, first(t + 1)).logits) << "step " << t;
      }
    }
    EXPECT_EQ(runner.getMistake(), "");
  }

  /// Prompts of every length to three past a group, and some steps after each.
  void runPrefills() {
    StepRunner runner(step);
    setWeights(runner);
    for (int64_t prompt = 1; prompt <= std::min({length - 1, period + 3, int64_t{15}}); ++prompt) {
      runner.prefill(first(prompt));
      compareRows(runner);
      for (int64_t t = prompt; t < std::min(length, prompt + 6); ++t) {
        runner.step(tokens[t]);
        compareRows(runner);
      }
      EXPECT_EQ(runner.getMistake(), "") << "after a prompt of " << prompt;
    }
  }

  /// Prompts that end just before, at and just after the third period of the scales, and `steps`
  /// more tokens.
  void runLong(int64_t steps, int64_t prompts = 3) {
    StepRunner runner(step);
    setWeights(runner);
    std::vector<double> logits;
    for (int64_t prompt = 3 * period + 2 - prompts; prompt <= 3 * period + 1; ++prompt) {
      runner.prefill(first(prompt));
      compareRows(runner);
      for (int64_t t = prompt; t < prompt + steps; ++t) {
        logits = runner.step(tokens[t]);
        compareRows(runner);
      }
      EXPECT_EQ(runner.getMistake(), "") << "after a prompt of " << prompt;
    }
    EXPECT_EQ(logits, forward->logits); // the longest has all tokens
  }
  /// The first mistake, or differing row, of a modified module.
  bool findsFault() {
    StepRunner runner(step);
    setWeights(runner);
    for (int64_t t = 0; t < length && runner.getMistake().empty(); ++t) {
      runner.step(tokens[t]);
    }
    return !runner.getMistake().empty();
  }

private:
  std::vector<int32_t> first(int64_t count) const {
    return {tokens.begin(), tokens.begin() + count};
  }
  void setWeights(StepRunner &runner) {
    for (const auto &[symbol, data] : weights) {
      runner.setParameter(symbol, data);
    }
    for (const auto &[number, given] : givens) {
      runner.setGiven(step.getArgument(number), given.first, given.second);
    }
  }
  void compareRows(const StepRunner &runner) {
    for (Value value : runner.getValues()) {
      if (!value.getDefiningOp()) {
        continue;
      }
      auto [first, rows] = runner.getRows(value);
      Value other = pairs.at(value);
      int64_t columns = reference::getColumns(value);
      for (size_t i = 0; i < rows.size(); i += columns) {
        std::vector<double> row(rows.begin() + i, rows.begin() + i + columns);
        int64_t position = first + static_cast<int64_t>(i) / columns;
        ASSERT_EQ(row, forward->evaluator.rowAt(other, 0, position))
            << "row " << position << " at step " << runner.getLength() - 1;
        ++compared;
      }
    }
  }

  func::FuncOp step, predict;
  Weights weights;
  DenseMap<Value, Value> pairs;
  Givens givens;
  std::unique_ptr<Forward> forward;
  std::vector<int32_t> tokens;

public:
  int64_t period = 1, length = 0, compared = 0;
};

/// Models with a step: "drawn.json" samples bits in generation too, and has none; "contrast.json"
/// predicts no token.
std::vector<std::string> causalModels() {
  std::vector<std::string> paths;
  for (const char *folder : {"/models", "/test/causality/causal", "/test/golden"}) {
    for (const auto &entry : std::filesystem::recursive_directory_iterator(source + folder)) {
      std::string path = entry.path().string();
      bool isModel = entry.path().extension() == ".json" || entry.path().extension() == ".mlir";
      if (isModel && sluice::test::isRepresentative(entry.path()) &&
          path.find("/expected/") == std::string::npos && !path.ends_with("bidirectional.json") &&
          !path.ends_with("golden/drawn.json") && !path.ends_with("tiny/contrast.json")) {
        paths.push_back(path);
      }
    }
  }
  for (const char *name :
       {"documents", "documents-routed", "parts-of-pairs", "phrases", "phrases-predicted"}) {
    paths.push_back(source + "/test/causality/segments/" + name + ".json");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

} // namespace

class DerivedStep : public ::testing::TestWithParam<std::string> {};

TEST_P(DerivedStep, EqualsTheForwardPassAtEveryPosition) {
  Subject subject(GetParam());
  ASSERT_TRUE(subject.module);
  subject.derive();
  ASSERT_FALSE(HasFatalFailure());
  StepComparison comparison(subject);
  comparison.runSteps();
  comparison.runPrefills();
  EXPECT_GT(comparison.compared, comparison.length);
  if (subject.function("step").getNumArguments() > 1) { // inputs of few tokens, and of none
    for (int64_t most : {2, 0}) {
      StepComparison shorter(subject, most);
      shorter.runSteps();
      EXPECT_GT(shorter.compared, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DerivedStep, ::testing::ValuesIn(causalModels()),
                         [](const auto &info) {
                           std::string name = std::filesystem::path(info.param).stem().string();
                           for (char &c : name) {
                             c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           }
                           return name + "_" + std::to_string(info.index);
                         });

/// Returns the sampled factors of a spec, or 0.
static SmallVector<int64_t> getVariants(const std::string &text) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  spec::Diagnostic error;
  std::optional<ParsedSpec> spec = parseSpec(context, text, "test.json", error);
  EXPECT_TRUE(spec) << error.format();
  SmallVector<int64_t> factors = spec->getFactors();
  return factors.empty() ? SmallVector<int64_t>{0} : factors;
}

using Named = std::pair<const char *, const char *>;
class LongSteps : public ::testing::TestWithParam<Named> {};

/// 64 steps, at least two periods of the scales, in a context with room for them; at each sampled
/// factor.
TEST_P(LongSteps, EqualTheForwardPass) {
  constexpr int64_t steps = 64;
  std::string text =
      std::regex_replace(GetParam().second, std::regex("\"context\": [0-9]+"), "\"context\": 104",
                         std::regex_constants::format_first_only);
  for (int64_t factor : getVariants(text)) {
    Subject subject;
    subject.importText(text, "test.json", factor);
    subject.derive();
    ASSERT_FALSE(HasFatalFailure());
    StepComparison comparison(subject, 1 << 20, steps);
    EXPECT_GE(steps, 2 * comparison.period);
    comparison.runLong(steps);
    EXPECT_GT(comparison.compared, 3 * steps);
  }
}

/// Groups by convolution and by concatenation; blocks.
constexpr const char *blocks = R"json({"sluice": 1, "vocabulary": 11, "context": 64, "batch": 1,
  "width": 8, "defaults": {"heads": 2, "feed_forward": 8}, "stages": [{"op": "embedding"},
    {"op": "shorten", "factor": 1, "window": 3, "method": "convolution", "to": "near"},
    {"op": "shift", "by": 2}, {"op": "shorten", "factor": 3, "window": 5, "method": "convolution"},
    {"op": "layer"}, {"op": "upsample", "factor": 3, "window": 6, "method": "transposed"},
    {"op": "add", "with": "near", "to": "bytes"},
    {"op": "shorten", "factor": 4, "method": "concatenate"}, {"op": "layer"},
    {"op": "upsample", "factor": 4, "method": "split"},
    {"op": "shift", "by": 3, "start": "null", "to": "patches"},
    {"op": "project", "from": "bytes"}, {"op": "add", "with": "patches"},
    {"op": "replace", "with": "patches", "block": 4, "start": 3},
    {"op": "layer", "mask": {"block": 4, "start": 3}}, {"op": "head"}]})json";

constexpr const char *drawn = R"json({"sluice": 1, "vocabulary": 11, "context": 64, "batch": 1,
  "width": 8, "defaults": {"heads": 2, "feed_forward": 8, "relative": "xl_shared"},
  "stages": [{"op": "embedding"}, {"op": "hourglass", "hierarchy": "1@1 1@{2,3,5} 1@1"},
    {"op": "head"}]})json";

INSTANTIATE_TEST_SUITE_P(
    Families, LongSteps,
    ::testing::Values(Named("Nested", sluice::testing::allOfIt),
                      Named("Maxima", sluice::testing::maxima),
                      Named("TopDown", sluice::testing::topDown),
                      Named("BottomUpAndRetina", sluice::testing::bottomUpAndRetina),
                      Named("AttentionBetweenScales", sluice::testing::headGroups),
                      Named("NamedInput", sluice::testing::encoder), Named("Blocks", blocks),
                      Named("Recurrent", sluice::testing::recurrent),
                      Named("Replaced", sluice::testing::replaced), Named("DrawnFactors", drawn),
                      Named("DocumentEnds", sluice::testing::begun)),
    [](const auto &info) { return std::string(info.param.first); });

/// The states of a recurrence are two rows, however many rows a step's row depends on.
TEST(DerivedStep, EqualsTheForwardPassAfterManyRows) {
  Subject subject;
  subject.importText(R"json({"sluice": 1, "vocabulary": 3, "context": 100010, "batch": 1,
    "width": 1, "stages": [{"op": "embedding"}, {"op": "recurrence"}, {"op": "head"}]})json",
                     "test.json", 0);
  subject.derive();
  int64_t steps = 100000;
  StepComparison comparison(subject, 1 << 20, steps);
  comparison.runLong(steps, /*prompts=*/1);
  EXPECT_GT(comparison.compared, 3 * steps);
}

TEST(DerivedStepFaults, DetectsRingOneTooSmall) {
  Subject intact(source + "/test/golden/nested.json");
  intact.derive();
  int count = 0;
  for (auto state : intact.module->getOps<StateOp>()) {
    Subject subject(source + "/test/golden/nested.json");
    subject.derive();
    auto changed = subject.module->lookupSymbol<StateOp>(state.getSymName());
    auto ring = static_cast<int64_t>(changed.getRing());
    if (ring < 2 || changed.getAll()) {
      continue;
    }
    changed.setRing(ring - 1);
    EXPECT_TRUE(StepComparison(subject).findsFault()) << state.getSymName().str();
    ++count;
  }
  EXPECT_GT(count, 1);
}

/// A row of an input that a later step reads must be in its state.
TEST(DerivedStepFaults, DetectsIncompletelyStoredInput) {
  Subject subject(source + "/test/golden/pairs.json");
  subject.derive();
  int count = 0;
  for (auto state : subject.module->getOps<StateOp>()) {
    if (isGiven(state, cast<SequenceType>(state.getType()))) {
      state.setRing(static_cast<int64_t>(state.getRing()) - 1);
      ++count;
    }
  }
  EXPECT_EQ(count, 1);
  EXPECT_TRUE(StepComparison(subject).findsFault());
}

TEST(DerivedStepFaults, DetectsScheduleOneEarly) {
  Subject subject(source + "/test/golden/nested.json");
  subject.derive();
  auto schedules = llvm::to_vector(subject.module->getOps<ScheduleOp>());
  ASSERT_GT(schedules.size(), 1u);
  ScheduleOp coarse = schedules.back();
  AffineExpr t = getAffineDimExpr(0, &subject.context);
  coarse.setCount(coarse.getCount().replace(t, t + 1, 1, 0));
  EXPECT_TRUE(StepComparison(subject).findsFault());
}
