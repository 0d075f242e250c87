// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Imported modules, run on the float64 reference with PyTorch's weights, give PyTorch's losses,
// logits and gradients (test/golden/README.md).
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Transforms/Passes.h"
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace mlir;
using namespace sluice;

namespace {

const std::string folder = std::string(SLUICE_SOURCE_DIR) + "/test/golden/";

std::string readBytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A safetensors file's numbers by name; integers unchanged.
struct GoldenTensors {
  explicit GoldenTensors(const std::string &path) : bytes(readBytes(path)) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    header = nlohmann::json::parse(bytes.substr(8, length));
    data = bytes.data() + 8 + length;
  }
  template <typename T> std::vector<T> get(const std::string &name) const {
    const auto &entry = header.at(name);
    size_t begin = entry.at("data_offsets")[0], end = entry.at("data_offsets")[1];
    std::vector<T> result((end - begin) / sizeof(T));
    std::memcpy(result.data(), data + begin, end - begin);
    return result;
  }
  std::vector<double> numbers(const std::string &name) const {
    std::vector<float> values = get<float>(name);
    return {values.begin(), values.end()};
  }
  std::string bytes;
  nlohmann::json header;
  const char *data = nullptr;
};

class Golden : public ::testing::TestWithParam<std::string> {
protected:
  Golden()
      : weights(folder + "expected/" + GetParam() + ".weights.safetensors"),
        results(folder + "expected/" + GetParam() + ".results.safetensors"),
        errors(
            nlohmann::json::parse(readBytes(folder + "expected/" + GetParam() + ".errors.json"))) {
    spec::Diagnostic error;
    spec = std::move(*parseSpecFile(context, folder + GetParam() + ".json", error));
    module = importSpec(spec);
    tokens = results.get<int32_t>("tokens");
    spec::ModelOp model = spec.getModel();
    tokens.resize(model.getBatch() * (model.getLength() + 1));
  }

  /// Ones in the rows that the table lists; random numbers; or row p: cos and sin of p stride
  /// base^(-2i/D), or sin and cos.
  static std::vector<double> table(ParameterOp parameter) {
    auto type = cast<RankedTensorType>(parameter.getType());
    if (parameter.getInitial() == "members") {
      std::vector<double> bits(static_cast<size_t>(type.getNumElements()));
      for (int64_t row : parameter.getMembers().value_or(ArrayRef<int64_t>())) {
        bits[static_cast<size_t>(row)] = 1;
      }
      return bits;
    }
    if (parameter.getInitial() == "rotations") {
      std::vector<float> drawn = drawRotations(parameter);
      return {drawn.begin(), drawn.end()};
    }
    int64_t columns = type.getDimSize(1);
    std::vector<double> result;
    for (int64_t p = 0; p < type.getDimSize(0); ++p) {
      for (int64_t c = 0; c < columns; ++c) {
        double power = static_cast<double>(c / 2 * 2) / static_cast<double>(columns);
        double angle = static_cast<double>(p * static_cast<int64_t>(parameter.getStride())) *
                       std::pow(parameter.getBase().convertToDouble(), -power);
        bool cosine = (c % 2 == 0) == (parameter.getInitial() == "rotary");
        result.push_back(cosine ? std::cos(angle) : std::sin(angle));
      }
    }
    return result;
  }

  std::unique_ptr<reference::Evaluator<double>> evaluate(StringRef name) {
    reference::RuntimeValues setting;
    setting.rows = spec.getModel().getBatch();
    setting.length = spec.getModel().getLength();
    setting.seed = spec.getModel().getSeed();
    auto evaluator = std::make_unique<reference::Evaluator<double>>(*module, setting);
    for (auto parameter : module->getOps<ParameterOp>()) {
      std::vector<double> data;
      for (auto part : parameter.getNames().getAsRange<StringAttr>()) {
        std::vector<double> numbers =
            parameter.getFrozen() ? table(parameter) : weights.numbers(part.str());
        data.insert(data.end(), numbers.begin(), numbers.end());
      }
      evaluator->setParameter(parameter.getSymName(), data);
    }
    auto function = module->lookupSymbol<func::FuncOp>(name);
    evaluator->setTokens(function.getArgument(0), tokens);
    EXPECT_TRUE(succeeded(evaluator->evaluate(function)));
    return evaluator;
  }

  Value evaluateResult(StringRef name) {
    return module->lookupSymbol<func::FuncOp>(name).getBody().front().getTerminator()->getOperand(
        0);
  }

  void compare(const std::string &name, ArrayRef<double> found, ArrayRef<double> expected) {
    ASSERT_EQ(found.size(), expected.size()) << name;
    double bound = 8 * (errors.at(name).at("error").get<double>() +
                        0x1p-24 * errors.at(name).at("magnitude").get<double>());
    double largest = 0;
    for (auto [x, y] : llvm::zip_equal(found, expected)) {
      largest = std::max(largest, std::abs(x - y));
    }
    EXPECT_LE(largest, bound) << name;
  }

  GoldenTensors weights, results;
  nlohmann::json errors;
  MLIRContext context;
  ParsedSpec spec;
  OwningOpRef<ModuleOp> module;
  std::vector<int32_t> tokens;
};

} // namespace

TEST_P(Golden, Losses) {
  std::string name = results.header.contains("evaluated") ? "evaluated" : "losses";
  compare(name, evaluate("evaluate")->getSequence(evaluateResult("evaluate")),
          results.numbers(name));
}

TEST_P(Golden, LogitsOfTheLastPosition) {
  std::vector<double> all = results.numbers("logits"), last;
  spec::ModelOp model = spec.getModel();
  auto n = static_cast<int64_t>(model.getLength()), v = static_cast<int64_t>(model.getVocabulary()),
       batch = static_cast<int64_t>(model.getBatch());
  for (int64_t b = 0; b < batch; ++b) {
    auto row = all.begin() + (b * n + n - 1) * v;
    last.insert(last.end(), row, row + v);
  }
  compare("logits", evaluate("predict")->getSequence(evaluateResult("predict")), last);
}

TEST_P(Golden, Gradients) {
  PassManager passes(&context);
  passes.addPass(createExpandSoftTargets());
  passes.addPass(createDifferentiate());
  ASSERT_TRUE(succeeded(passes.run(*module)));
  auto evaluator = evaluate("gradient");
  compare("losses", evaluator->getSequence(evaluateResult("gradient")), results.numbers("losses"));
  for (auto parameter : module->getOps<ParameterOp>()) {
    if (parameter.getFrozen()) {
      continue;
    }
    auto made = evaluator->getGradients().find(parameter.getSymName());
    if (made == evaluator->getGradients().end()) { // of a frozen stage
      for (auto part : parameter.getNames().getAsRange<StringAttr>()) {
        std::vector<double> expected = results.numbers("gradient." + part.str());
        EXPECT_EQ(expected, std::vector<double>(expected.size())) << part.str();
      }
      continue;
    }
    const std::vector<double> &gradient = made->second;
    size_t first = 0;
    for (auto part : parameter.getNames().getAsRange<StringAttr>()) {
      std::string name = "gradient." + part.str();
      std::vector<double> expected = results.numbers(name);
      ASSERT_LE(first + expected.size(), gradient.size());
      compare(name, ArrayRef(gradient).slice(first, expected.size()), expected);
      first += expected.size();
    }
    EXPECT_EQ(first, gradient.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, Golden,
                         ::testing::Values("vanilla", "hourglass", "nested", "resample", "streams",
                                           "bidirectional", "top-down", "bottomup", "repooled",
                                           "retina", "dynamic", "begun", "blocks", "widths", "blt",
                                           "attend", "flow", "lsh-causal", "lsh-bidirectional",
                                           "drawn", "taught", "spikes", "recurrent", "hred"),
                         [](const auto &info) {
                           std::string name = info.param;
                           llvm::replace(name, '-', '_');
                           return name;
                         });
