// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Small modules of the model dialect for tests.
#include "Model.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace sluice::testing {

static const char *const header = R"mlir(
module attributes {sluice.batch = 3 : i64, sluice.context = 16 : i64} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1
  sluice.scale @s2 on @tokens factor 2
  sluice.scale @s3 on @tokens factor 3
  sluice.scale @s4 on @tokens factor 4
  sluice.scale @s6 on @tokens factor 6
  sluice.scale @s8 on @tokens factor 8
  sluice.scale @one on @tokens factor 0
  sluice.axis @segments segments of @s1 capacity 17
  sluice.scale @w1 on @segments factor 1
  sluice.axis @source given 16 vocabulary 7
  sluice.scale @g1 on @source factor 1
  sluice.axis @phrases segments of @g1 capacity 16
  sluice.scale @u1 on @phrases factor 1
  func.func @f)mlir";

DialectModel::DialectModel(const std::string &function) {
  context.loadDialect<SluiceDialect, dispatch::DispatchDialect, func::FuncDialect,
                      arith::ArithDialect, math::MathDialect>();
  module = parseSourceString<ModuleOp>(header + function + "\n}\n", &context);
  if (!module) {
    llvm::report_fatal_error("the test's module is wrong");
  }
}

Doubles randomNumbers(RandomEngine &generator, size_t count) {
  std::uniform_real_distribution<float> distribution(-1, 1);
  Doubles numbers(count);
  for (double &number : numbers) {
    number = distribution(generator);
  }
  return numbers;
}

static bool isTokens(Type type) {
  auto sequence = dyn_cast<SequenceType>(type);
  return sequence && sequence.getElement().isInteger();
}

Arguments randomArguments(RandomEngine &generator, func::FuncOp function,
                          reference::RuntimeValues setting, int64_t vocabulary) {
  reference::Evaluator<double> evaluator(function->getParentOfType<ModuleOp>(), setting);
  Arguments arguments;
  for (Value value : function.getArguments()) {
    if (isTokens(value.getType())) {
      Doubles tokens(setting.rows * (setting.length + 4));
      for (double &token : tokens) {
        token = static_cast<double>(generator() % vocabulary);
      }
      arguments.values.push_back(tokens);
    } else if (auto tensor = dyn_cast<RankedTensorType>(value.getType())) {
      arguments.values.push_back(randomNumbers(generator, tensor.getNumElements()));
    } else {
      size_t size = setting.rows * evaluator.getPositions(value) * reference::getColumns(value);
      arguments.values.push_back(randomNumbers(generator, size));
    }
  }
  return arguments;
}

template <typename T>
void Arguments::set(reference::Evaluator<T> &evaluator, func::FuncOp function) const {
  for (auto [value, numbers] : llvm::zip_equal(function.getArguments(), values)) {
    if (isTokens(value.getType())) {
      evaluator.setTokens(value, std::vector<int32_t>(numbers.begin(), numbers.end()));
    } else if (isa<RankedTensorType>(value.getType())) {
      evaluator.setTensor(value, std::vector<T>(numbers.begin(), numbers.end()));
    } else {
      evaluator.setSequence(value, std::vector<T>(numbers.begin(), numbers.end()));
    }
  }
}

template <typename T>
std::vector<std::vector<T>> evaluate(func::FuncOp function, const Arguments &arguments,
                                     reference::RuntimeValues setting) {
  reference::Evaluator<T> evaluator(function->getParentOfType<ModuleOp>(), setting);
  arguments.set(evaluator, function);
  if (failed(evaluator.evaluate(function))) {
    llvm::report_fatal_error("the test's function cannot be evaluated");
  }
  std::vector<std::vector<T>> results;
  for (Value value : function.getBody().front().getTerminator()->getOperands()) {
    results.push_back(isa<SequenceType>(value.getType()) ? evaluator.getSequence(value)
                                                         : evaluator.getTensor(value));
  }
  return results;
}

template void Arguments::set(reference::Evaluator<double> &, func::FuncOp) const;
template void Arguments::set(reference::Evaluator<float> &, func::FuncOp) const;
template std::vector<std::vector<double>> evaluate(func::FuncOp, const Arguments &,
                                                   reference::RuntimeValues);
template std::vector<std::vector<float>> evaluate(func::FuncOp, const Arguments &,
                                                  reference::RuntimeValues);

} // namespace sluice::testing
