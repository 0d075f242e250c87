// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores the weight matrices of predictions and evaluations in fewer bits.
#include "RowsBuilder.h"
#include "sluice/Transforms/Levels.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/MapVector.h"

namespace sluice {
#define GEN_PASS_DEF_QUANTIZEWEIGHTS
#include "sluice/Transforms/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;
using dispatch::AccessKind;

namespace {

/// Returns the name of the parameter that `weight` is; empty if it is not a trained matrix.
StringRef getParameter(Value weight) {
  auto bind = weight.getDefiningOp<plan::BindOp>();
  auto [kind, name] = bind ? bind.getPlace().split(':') : std::pair<StringRef, StringRef>();
  return kind == "parameter" || kind == "compute" ? name : StringRef();
}

/// Returns the weight operand of a contraction or a loss; null for other ops.
OpOperand *findWeight(Operation *op) {
  if (isa<dispatch::ContractOp, dispatch::CrossEntropyOp>(op)) {
    return &op->getOpOperand(1);
  }
  return nullptr;
}

/// Replaces the weight of an op, and erases the place that it was read from if nothing else reads
/// that.
void replaceWeight(OpOperand &weight, Value value) {
  Operation *bind = weight.get().getDefiningOp();
  weight.set(value);
  if (bind->use_empty()) {
    bind->erase();
  }
}

class Quantizer {
public:
  Quantizer(ModuleOp module, Type stored)
      : module(module), b(module.getContext()), stored(stored), f32(b.getF32Type()) {}

  void readInStep(func::FuncOp func);
  void readWhole(func::FuncOp func);
  void buildQuantize();

private:
  bool isWhole() const { return stored.isInteger(8); }
  dispatch::DomainAttr getDomain(int64_t rows) {
    return dispatch::DomainAttr::get(b.getContext(), 1, rows, 0);
  }
  Value bindStored(Location loc, StringRef name, RankedTensorType matrix) {
    shapes.insert({name, matrix.clone(f32)});
    return plan::BindOp::create(b, loc, matrix.clone(stored), ("quantized:" + name).str());
  }
  Value bindScale(Location loc, StringRef name, RankedTensorType matrix) {
    auto type = RankedTensorType::get({matrix.getDimSize(0)}, f32);
    return plan::BindOp::create(b, loc, type, ("scale:" + name).str());
  }
  void scaleSums(dispatch::ContractOp op, Value scale);

  ModuleOp module;
  OpBuilder b;
  Type stored, f32;
  /// Quantized parameters with their types in f32, in the order of their first readers.
  llvm::MapVector<StringRef, RankedTensorType> shapes;
};

} // namespace

/// Multiplies the sums of a contraction by the scale of their column, before the epilogue.
void Quantizer::scaleSums(dispatch::ContractOp op, Value scale) {
  auto access = dispatch::AccessAttr::get(b.getContext(), AccessKind::Vector);
  SmallVector<Attribute> accesses{access};
  llvm::append_range(accesses, op.getAccesses());
  op.setAccessesAttr(b.getArrayAttr(accesses));
  op->insertOperands(2, scale);
  Block &body = op.getEpilogue().front();
  BlockArgument sum = body.getArgument(0), factor = body.insertArgument(1, f32, op.getLoc());
  OpBuilder inside = OpBuilder::atBlockBegin(&body);
  auto scaled = arith::MulFOp::create(inside, op.getLoc(), sum, factor);
  sum.replaceAllUsesExcept(scaled, scaled);
}

/// Lets the contractions of a decode step read stored weights.
void Quantizer::readInStep(func::FuncOp func) {
  for (auto op : llvm::to_vector(func.getOps<dispatch::ContractOp>())) {
    StringRef name = getParameter(op.getWeight());
    auto matrix = cast<RankedTensorType>(op.getWeight().getType());
    if (name.empty() || !op.getDomain().getScheduled() || matrix.getElementType() == stored) {
      continue;
    }
    b.setInsertionPoint(op);
    replaceWeight(op.getWeightMutable(), bindStored(op.getLoc(), name, matrix));
    if (isWhole()) {
      scaleSums(op, bindScale(op.getLoc(), name, matrix));
    }
  }
}

/// Lets the products of whole sequences read the weights that a step reads, as f32 or bf16. One
/// dispatch converts a matrix right before its first reader.
void Quantizer::readWhole(func::FuncOp func) {
  llvm::MapVector<StringRef, Value> converted;
  for (Operation &op : llvm::make_early_inc_range(func.getOps())) {
    OpOperand *weight = findWeight(&op);
    StringRef name = weight ? getParameter(weight->get()) : "";
    if (name.empty()) {
      continue;
    }
    auto matrix = cast<RankedTensorType>(weight->get().getType());
    Value &value = converted[name];
    if (!value) {
      b.setInsertionPoint(&op);
      auto row = RankedTensorType::get({matrix.getDimSize(1)}, f32);
      RowsBuilder rows(b, op.getLoc(), getDomain(matrix.getDimSize(0)));
      Value number = rows.operand(bindStored(op.getLoc(), name, matrix), AccessKind::Flat, row);
      if (isWhole()) {
        Value scale = rows.operand(bindScale(op.getLoc(), name, matrix), AccessKind::Flat, f32);
        number = rows.mul(number, rows.splat(scale, row));
      }
      rows.result(number, AccessKind::Flat, matrix);
      value = rows.finish("stored weights").getResult(0);
    }
    replaceWeight(*weight, value);
  }
}

/// Builds @quantize, which stores all matrices. A row of whole numbers has the scale max |w| / 127;
/// where a weight is not finite, it is not finite either.
void Quantizer::buildQuantize() {
  b.setInsertionPointToEnd(module.getBody());
  auto func = func::FuncOp::create(b, module.getLoc(), "quantize", b.getFunctionType({}, {}));
  b.setInsertionPointToStart(func.addEntryBlock());
  for (auto &[name, matrix] : shapes) {
    Location loc = module.getLoc();
    auto row = RankedTensorType::get({matrix.getDimSize(1)}, f32);
    RowsBuilder rows(b, loc, getDomain(matrix.getDimSize(0)));
    Value parameter = plan::BindOp::create(b, loc, matrix, ("parameter:" + name).str());
    Value weight = rows.operand(parameter, AccessKind::Flat, row);
    SmallVector<std::string> places{("quantized:" + name).str()};
    if (isWhole()) {
      constexpr double most = 127;
      auto reduce = [&](dispatch::ReduceKind kind, Value values) -> Value {
        return dispatch::ReduceOp::create(rows.body, f32, kind, values);
      };
      Value size = reduce(dispatch::ReduceKind::Max, math::AbsFOp::create(rows.body, weight));
      // A row of zeros has a scale too, whose inverse is finite.
      size = arith::MaxNumFOp::create(rows.body, size, rows.constant(0x1p-100, f32));
      Value nothing = reduce(dispatch::ReduceKind::Add, rows.mul(weight, rows.constant(0, row)));
      Value inverse = rows.div(rows.constant(most, f32), size);
      Value scale = rows.add(rows.div(size, rows.constant(most, f32)), nothing);
      rows.result(rows.mul(weight, rows.splat(inverse, row)), AccessKind::Flat,
                  matrix.clone(stored));
      rows.result(scale, AccessKind::Flat, RankedTensorType::get({matrix.getDimSize(0)}, f32));
      places.push_back(("scale:" + name).str());
    } else {
      rows.result(weight, AccessKind::Flat, matrix.clone(stored));
    }
    dispatch::RowsOp op = rows.finish("quantize");
    for (auto [place, value] : llvm::zip_equal(places, op.getResults())) {
      plan::StoreOp::create(b, loc, place, value);
    }
  }
  func::ReturnOp::create(b, module.getLoc());
}

namespace {

struct QuantizeWeightsPass : sluice::impl::QuantizeWeightsBase<QuantizeWeightsPass> {
  using QuantizeWeightsBase::QuantizeWeightsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool isHalf = type == "bf16";
    if (!isHalf && type != "int8") {
      module.emitError() << "expected weights of type bf16 or int8, found \"" << type << '"';
      return signalPassFailure();
    }
    if (failed(verifyModel(module)) || failed(verifyLevel(module, ModuleLevel::Dispatches))) {
      return signalPassFailure();
    }
    Builder b(&getContext());
    Quantizer quantizer(module, isHalf ? Type(b.getBF16Type()) : b.getI8Type());
    if (auto step = module.lookupSymbol<func::FuncOp>("step")) {
      quantizer.readInStep(step);
    }
    for (StringRef name : {"evaluate", "predict", "prefill"}) {
      if (auto func = module.lookupSymbol<func::FuncOp>(name)) {
        quantizer.readWhole(func);
      }
    }
    quantizer.buildQuantize();
  }
};

} // namespace
