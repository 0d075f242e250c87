// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts inputs of linear maps and heads to the type in which these multiply.
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Transforms/Levels.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sluice {
#define GEN_PASS_DEF_CONVERTFACTORS
#include "sluice/Transforms/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;

namespace {

/// Conversions of one function, one per value and type, because several maps may read one input.
class Converter {
public:
  void convert(Operation &op, OpOperand &input, Value weight) {
    Type compute = getComputeType(weight);
    Value &converted = known[{input.get(), compute}];
    if (!converted) {
      OpBuilder b(&op);
      converted = convertSequence(b, op.getLoc(), input.get(), compute);
    } else if (Operation *shared = converted.getDefiningOp(); converted != input.get()) {
      mergeOrigins(shared, &op);
    }
    input.set(converted);
  }

private:
  DenseMap<std::pair<Value, Type>, Value> known;
};

struct ConvertFactorsPass : sluice::impl::ConvertFactorsBase<ConvertFactorsPass> {
  void runOnOperation() override {
    if (failed(verifyModel(getOperation())) ||
        failed(verifyLevel(getOperation(), ModuleLevel::Model))) {
      return signalPassFailure();
    }
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      Converter converter;
      for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
        if (auto product = dyn_cast<FactorInterface>(op)) {
          converter.convert(op, product.getInputMutable(), product.getWeight());
        }
      }
    }
  }
};

} // namespace
