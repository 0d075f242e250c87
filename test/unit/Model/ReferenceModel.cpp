// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A complete model under the reference evaluator.
#include "ReferenceModel.h"

#include "../../../lib/Dialect/Sluice/Reference/Numbers.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Sluice/Reference.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <numeric>
#include <optional>

using namespace mlir;

namespace sluice::testing {

struct ReferenceModel::Impl {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;

  func::FuncOp function(StringRef name) const {
    auto function = module.get().lookupSymbol<func::FuncOp>(name);
    if (!function) {
      llvm::report_fatal_error("the reference's module has no function " + name);
    }
    return function;
  }
};

ReferenceModel::ReferenceModel(const std::string &text) : impl(std::make_unique<Impl>()) {
  impl->context.loadDialect<SluiceDialect, dispatch::DispatchDialect, func::FuncDialect,
                            arith::ArithDialect, math::MathDialect>();
  impl->module = parseSourceString<ModuleOp>(text, &impl->context);
  if (!impl->module) {
    llvm::report_fatal_error("the reference cannot read the module");
  }
}

ReferenceModel::~ReferenceModel() = default;

int64_t ReferenceShape::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

std::vector<ReferenceShape> ReferenceModel::shapes() const {
  std::vector<ReferenceShape> result;
  for (auto parameter : impl->module->getOps<ParameterOp>()) {
    if (parameter.getFrozen()) {
      continue;
    }
    for (auto [name, rows] :
         llvm::zip_equal(parameter.getNames().getAsRange<StringAttr>(), parameter.getSizes())) {
      std::vector<int64_t> sizes = cast<RankedTensorType>(parameter.getType()).getShape().vec();
      sizes[0] = rows;
      result.push_back({name.getValue().str(), sizes, parameter.getDecay()});
    }
  }
  return result;
}

std::map<std::string, std::pair<int64_t, int64_t>> ReferenceModel::given() const {
  std::map<std::string, std::pair<int64_t, int64_t>> result;
  for (auto axis : impl->module->getOps<AxisOp>()) {
    if (axis.getCapacity()) {
      result[axis.getSymName().str()] = {*axis.getCapacity(), *axis.getVocabulary()};
      for (NamedAttribute stream : axis.listStreams()) {
        result[stream.getName().str()] = {*axis.getCapacity(),
                                          cast<IntegerAttr>(stream.getValue()).getInt()};
      }
    }
  }
  return result;
}

int64_t ReferenceModel::size(const std::string &name) const {
  return impl->module.get()->getAttrOfType<IntegerAttr>("sluice." + name).getInt();
}

/// A constant table: ones in the rows that it lists; or angles, docs/spec.md: p stride
/// base^(-2i / width) at 2i and 2i + 1 of row p, rounded to f32, as models store it.
template <typename T> static std::vector<T> makeTable(ParameterOp parameter) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(parameter.getType()).getShape();
  if (parameter.getInitial() == "members") {
    std::vector<T> table(shape[0] * shape[1]);
    for (int64_t row : parameter.getMembers().value_or(ArrayRef<int64_t>())) {
      table[row] = 1;
    }
    return table;
  }
  if (parameter.getInitial() == "rotations") {
    std::vector<float> numbers = drawRotations(parameter);
    return {numbers.begin(), numbers.end()};
  }
  bool rotary = parameter.getInitial() == "rotary";
  std::vector<T> table;
  for (int64_t p = 0; p < shape[0]; ++p) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      double exponent = static_cast<double>(c - c % 2) / static_cast<double>(shape[1]);
      double angle = static_cast<double>(p * int64_t(parameter.getStride())) /
                     std::pow(parameter.getBase().convertToDouble(), exponent);
      bool cosine = (c % 2 == 0) == rotary;
      table.push_back(static_cast<float>(cosine ? std::cos(angle) : std::sin(angle)));
    }
  }
  return table;
}

/// Contents of a parameter: its tensors in files, one after the other.
template <typename T> static std::vector<T> pack(ParameterOp parameter, const Tensors &weights) {
  std::vector<T> packed;
  for (auto name : parameter.getNames().getAsRange<StringAttr>()) {
    const std::vector<double> &part = weights.at(name.getValue().str());
    packed.insert(packed.end(), part.begin(), part.end());
  }
  return packed;
}

template <typename T>
static void unpack(ParameterOp parameter, const std::vector<T> &packed, Tensors &into) {
  int64_t elements = packed.size() / cast<RankedTensorType>(parameter.getType()).getDimSize(0);
  auto begin = packed.begin();
  for (auto [name, rows] :
       llvm::zip_equal(parameter.getNames().getAsRange<StringAttr>(), parameter.getSizes())) {
    into[name.getValue().str()].assign(begin, begin + rows * elements);
    begin += rows * elements;
  }
}

template <typename T>
static void evaluate(reference::Evaluator<T> &evaluator, func::FuncOp function,
                     const Inputs &inputs, const Tensors &weights) {
  for (auto parameter : function->getParentOfType<ModuleOp>().getOps<ParameterOp>()) {
    evaluator.setParameter(parameter.getSymName(), parameter.getFrozen()
                                                       ? makeTable<T>(parameter)
                                                       : pack<T>(parameter, weights));
  }
  evaluator.setTokens(function.getArgument(0), inputs.tokens);
  for (BlockArgument argument : function.getArguments().drop_front()) {
    auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(
        function, cast<SequenceType>(argument.getType()).getScale());
    const GivenTokens &given = inputs.given.at(findInputTokens(argument)->name.str());
    evaluator.setTokens(argument, given.tokens);
    evaluator.setCounts(scale.getAxis(), given.counts);
  }
  if (failed(evaluator.evaluate(function))) {
    llvm::report_fatal_error("the reference cannot evaluate the function");
  }
}

static reference::RuntimeValues buildSetting(const Inputs &inputs, Precision precision) {
  return {.rows = inputs.rows,
          .length = inputs.length,
          .seed = inputs.seed,
          .step = inputs.step,
          .rounded = precision == Precision::Bf16,
          .scored = inputs.scored};
}

template <typename T>
static std::vector<double> evaluateResult(reference::Evaluator<T> &evaluator,
                                          func::FuncOp function) {
  std::vector<T> numbers =
      evaluator.getSequence(function.getBody().front().getTerminator()->getOperand(0));
  return {numbers.begin(), numbers.end()};
}

/// Returns the sum of weights that the model computes; none if the host provides them.
template <typename T>
static std::optional<double> sumCounted(reference::Evaluator<T> &evaluator, func::FuncOp function,
                                        StringRef name) {
  for (auto sum : function.getOps<WeightSumOp>()) {
    if (sum.getName() == name) {
      std::vector<T> weights = evaluator.getSequence(sum.getWeights());
      return std::accumulate(weights.begin(), weights.end(), 0.0);
    }
  }
  return std::nullopt;
}

/// The sum of factors times means over the scored rows.
template <typename T>
static double computeObjective(reference::Evaluator<T> &evaluator, func::FuncOp function,
                               const Inputs &inputs) {
  ObjectiveOp objective = *function.getOps<ObjectiveOp>().begin();
  double result = 0;
  for (auto [number, losses, factor, first] :
       llvm::enumerate(objective.getLosses(), objective.getFactors(), objective.getFirst())) {
    StringRef name = objective.getWeights()
                         ? cast<StringAttr>((*objective.getWeights())[number]).getValue()
                         : StringRef();
    bool isWeighted = !name.empty();
    std::vector<T> numbers = evaluator.getSequence(losses);
    double sum = 0, scored = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      int64_t row = int64_t(i) / inputs.length, p = int64_t(i) % inputs.length;
      bool isPadding = objective.getPadded() && evaluator.getSetting().isPadding(row, p);
      sum += isPadding ? 0 : double(numbers[i]);
      double counts = isWeighted ? reference::weightAt<double>(row, p) : 1;
      scored += !isPadding && p >= first ? counts : 0;
    }
    scored = sumCounted(evaluator, function, name).value_or(scored);
    result += factor * sum / (scored > 0 ? scored : 1.0);
  }
  return result;
}

void clearUnscored(std::vector<double> &losses, const Inputs &inputs) {
  for (size_t row = 0; row < inputs.scored.size(); ++row) {
    auto begin = losses.begin() + static_cast<std::ptrdiff_t>(row) * inputs.length;
    std::fill(begin + std::min(inputs.scored[row], inputs.length), begin + inputs.length, 0);
  }
}

template <typename T>
static ReferenceGradient computeGradient(ModuleOp module, func::FuncOp function,
                                         const Inputs &inputs, const Tensors &weights,
                                         Precision precision) {
  reference::Evaluator<T> evaluator(module, buildSetting(inputs, precision));
  evaluate(evaluator, function, inputs, weights);
  ReferenceGradient result{
      .losses = evaluateResult(evaluator, function), .loss = 0, .gradients = {}};
  clearUnscored(result.losses, inputs);
  result.loss = computeObjective(evaluator, function, inputs);
  for (auto &entry : evaluator.getGradients()) {
    unpack(module.lookupSymbol<ParameterOp>(entry.getKey()), entry.getValue(), result.gradients);
  }
  return result;
}

ReferenceGradient ReferenceModel::gradient(const Inputs &inputs, const Tensors &weights,
                                           Precision precision) const {
  func::FuncOp function = impl->function("gradient");
  return precision == Precision::F32
             ? computeGradient<float>(*impl->module, function, inputs, weights, precision)
             : computeGradient<double>(*impl->module, function, inputs, weights, precision);
}

double ReferenceModel::loss(const Inputs &inputs, const Tensors &weights) const {
  func::FuncOp function =
      impl->function(impl->module->lookupSymbol("train") ? "train" : "evaluate");
  reference::Evaluator<double> evaluator(*impl->module, buildSetting(inputs, Precision::F64));
  evaluate(evaluator, function, inputs, weights);
  return computeObjective(evaluator, function, inputs);
}

template <typename T>
static std::vector<double> computePrediction(ModuleOp module, func::FuncOp function,
                                             const Inputs &inputs, const Tensors &weights,
                                             Precision precision) {
  reference::Evaluator<T> evaluator(module, buildSetting(inputs, precision));
  evaluate(evaluator, function, inputs, weights);
  return evaluateResult(evaluator, function);
}

std::vector<double> ReferenceModel::predict(const Inputs &inputs, const Tensors &weights,
                                            Precision precision) const {
  func::FuncOp function = impl->function("predict");
  return precision == Precision::F32
             ? computePrediction<float>(*impl->module, function, inputs, weights, precision)
             : computePrediction<double>(*impl->module, function, inputs, weights, precision);
}

} // namespace sluice::testing
