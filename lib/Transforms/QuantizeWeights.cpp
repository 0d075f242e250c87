// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores the weight matrices of predictions and evaluations in fewer bits.
#include "RowsBuilder.h"
#include "sluice/Transforms/Levels.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/MapVector.h"

#include <numeric>

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
  /// With `isGrouped`, i8 is the bytes of groups of weights.
  Quantizer(ModuleOp module, Type stored, bool isGrouped)
      : module(module), b(module.getContext()), stored(stored), f32(b.getF32Type()),
        isGrouped(isGrouped) {}

  void readInStep(func::FuncOp func);
  void readWhole(func::FuncOp func);
  void buildQuantize();

private:
  bool hasScales() const { return stored.isInteger(8); }
  /// Returns the number of groups of all rows of a matrix.
  static int64_t countGroups(RankedTensorType matrix) {
    return matrix.getDimSize(0) * getRowGroups(matrix);
  }
  static int64_t getRowGroups(RankedTensorType matrix) {
    return llvm::divideCeil(matrix.getDimSize(1), dispatch::groupWeights);
  }
  RankedTensorType getStoredType(RankedTensorType matrix) const {
    return isGrouped ? RankedTensorType::get({countGroups(matrix), dispatch::groupBytes}, stored)
                     : matrix.clone(stored);
  }
  RankedTensorType getScaleType(RankedTensorType matrix) const {
    return RankedTensorType::get({isGrouped ? countGroups(matrix) : matrix.getDimSize(0)}, f32);
  }
  dispatch::DomainAttr getDomain(int64_t rows) {
    return dispatch::DomainAttr::get(b.getContext(), 1, rows, 0);
  }
  Value bindStored(Location loc, StringRef name, RankedTensorType matrix) {
    shapes.insert({name, matrix.clone(f32)});
    return plan::BindOp::create(b, loc, getStoredType(matrix), ("quantized:" + name).str());
  }
  Value bindScale(Location loc, StringRef name, RankedTensorType matrix) {
    return plan::BindOp::create(b, loc, getScaleType(matrix), ("scale:" + name).str());
  }
  void scaleSums(dispatch::ContractOp op, Value scale);
  void scaleGroups(dispatch::ContractOp op, Value scales);
  Value convertRows(Location loc, StringRef name, RankedTensorType matrix);
  Value convertGroups(Location loc, StringRef name, RankedTensorType matrix);
  std::pair<Value, Value> computeScale(RowsBuilder &rows, ArrayRef<Value> weights, double most);
  void quantizeRow(RowsBuilder &rows, Value parameter, RankedTensorType matrix);
  void quantizeGroup(RowsBuilder &rows, Value parameter, RankedTensorType matrix);

  ModuleOp module;
  OpBuilder b;
  Type stored, f32;
  bool isGrouped;
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

/// Passes the scales of groups to a contraction, as the last operand before the schedule.
void Quantizer::scaleGroups(dispatch::ContractOp op, Value scales) {
  SmallVector<Attribute> accesses(op.getAccesses().begin(), op.getAccesses().end());
  accesses.push_back(dispatch::AccessAttr::get(b.getContext(), AccessKind::Vector));
  op.setAccessesAttr(b.getArrayAttr(accesses));
  op->insertOperands(op->getNumOperands() - 1, scales);
  op.setGrouped(true);
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
    if (hasScales()) {
      Value scale = bindScale(op.getLoc(), name, matrix);
      isGrouped ? scaleGroups(op, scale) : scaleSums(op, scale);
    }
  }
}

/// Converts a matrix back row by row.
Value Quantizer::convertRows(Location loc, StringRef name, RankedTensorType matrix) {
  auto row = RankedTensorType::get({matrix.getDimSize(1)}, f32);
  RowsBuilder rows(b, loc, getDomain(matrix.getDimSize(0)));
  Value number = rows.operand(bindStored(loc, name, matrix), AccessKind::Flat, row);
  if (hasScales()) {
    Value scale = rows.operand(bindScale(loc, name, matrix), AccessKind::Flat, f32);
    number = rows.mul(number, rows.splat(scale, row));
  }
  rows.result(number, AccessKind::Flat, matrix);
  return rows.finish("stored weights").getResult(0);
}

/// Converts a matrix back in runs of columns. A run is in one half of a group, so that all its
/// weights are in the lower or in the upper half of their bytes.
Value Quantizer::convertGroups(Location loc, StringRef name, RankedTensorType matrix) {
  int64_t columns = matrix.getDimSize(1), width = std::gcd(columns, dispatch::groupBytes),
          runs = columns / width;
  AffineExpr p = b.getAffineDimExpr(0), column = p % runs * width;
  AffineExpr group =
      p.floorDiv(runs) * getRowGroups(matrix) + column.floorDiv(dispatch::groupWeights);
  auto at = [&](AffineExpr first) {
    return dispatch::AccessAttr::get(
        b.getContext(), AccessKind::Table, AffineMapAttr::get(AffineMap::get(2, 1, group)), 1, 0,
        AffineMapAttr::get(AffineMap::get(1, 0, first)), -1, FloatAttr());
  };
  auto run = RankedTensorType::get({width}, f32), one = RankedTensorType::get({1}, f32);
  RowsBuilder rows(b, loc, getDomain(matrix.getDimSize(0) * runs));
  Value byte = rows.operand(bindStored(loc, name, matrix), at(column % dispatch::groupBytes), run);
  Value scales = plan::ViewOp::create(b, loc, RankedTensorType::get({countGroups(matrix), 1}, f32),
                                      bindScale(loc, name, matrix));
  Value scale = rows.operand(scales, at(b.getAffineConstantExpr(0)), one);
  scale = dispatch::ReduceOp::create(rows.body, f32, dispatch::ReduceKind::Add, scale);

  auto integer = [&](int64_t number) -> Value {
    return arith::ConstantOp::create(rows.body, b.getI32IntegerAttr(int32_t(number)));
  };
  Value first = arith::MulIOp::create(
      rows.body,
      arith::RemSIOp::create(rows.body, dispatch::PositionOp::create(rows.body, b.getI32Type()),
                             integer(runs)),
      integer(width));
  Value isSecond = arith::CmpIOp::create(
      rows.body, arith::CmpIPredicate::sge,
      arith::RemSIOp::create(rows.body, first, integer(dispatch::groupWeights)),
      integer(dispatch::groupBytes));
  auto choose = [&](double ifSecond, double otherwise) {
    Value number = arith::SelectOp::create(rows.body, isSecond, rows.constant(ifSecond, f32),
                                           rows.constant(otherwise, f32));
    return rows.splat(number, run);
  };
  // byte = q' + 8 + 16 q'', so q'' is the floor of a 16th.
  Value second = math::FloorOp::create(rows.body, rows.mul(byte, rows.constant(1.0 / 16, run)));
  Value number = rows.add(rows.mul(second, choose(1, -16)), rows.mul(byte, choose(0, 1)));
  number = rows.add(number, choose(0, -8));
  rows.result(rows.mul(number, rows.splat(scale, run)), AccessKind::Flat,
              RankedTensorType::get({matrix.getDimSize(0) * runs, width}, matrix.getElementType()));
  return plan::ViewOp::create(b, loc, matrix, rows.finish("stored weights").getResult(0));
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
      value = isGrouped ? convertGroups(op.getLoc(), name, matrix)
                        : convertRows(op.getLoc(), name, matrix);
    }
    replaceWeight(*weight, value);
  }
}

/// Computes the scale max |w| / most of some weights, and its inverse. Where a weight is not
/// finite, the scale is not finite either.
std::pair<Value, Value> Quantizer::computeScale(RowsBuilder &rows, ArrayRef<Value> weights,
                                                double most) {
  auto reduce = [&](dispatch::ReduceKind kind, Value values) -> Value {
    auto type = cast<RankedTensorType>(values.getType());
    if (type.getRank() == 2) {
      auto row = RankedTensorType::get({type.getDimSize(1)}, f32);
      values = dispatch::ReduceGroupOp::create(rows.body, row, kind, values);
    }
    return dispatch::ReduceOp::create(rows.body, f32, kind, values);
  };
  // Zeros have a scale too, whose inverse is finite.
  Value size = rows.constant(0x1p-100, f32), nothing = rows.constant(0, f32);
  for (Value weight : weights) {
    Value largest = reduce(dispatch::ReduceKind::Max, math::AbsFOp::create(rows.body, weight));
    size = arith::MaxNumFOp::create(rows.body, largest, size);
    Value zeros = rows.mul(weight, rows.constant(0, weight.getType()));
    nothing = rows.add(reduce(dispatch::ReduceKind::Add, zeros), nothing);
  }
  Value bound = rows.constant(most, f32);
  return {rows.add(rows.div(size, bound), nothing), rows.div(bound, size)};
}

/// Rounds a row to whole numbers of i8.
void Quantizer::quantizeRow(RowsBuilder &rows, Value parameter, RankedTensorType matrix) {
  auto row = RankedTensorType::get({matrix.getDimSize(1)}, f32);
  Value weight = rows.operand(parameter, AccessKind::Flat, row);
  if (!hasScales()) {
    return rows.result(weight, AccessKind::Flat, getStoredType(matrix));
  }
  auto [scale, inverse] = computeScale(rows, weight, 127);
  rows.result(rows.mul(weight, rows.splat(inverse, row)), AccessKind::Flat, getStoredType(matrix));
  rows.result(scale, AccessKind::Flat, getScaleType(matrix));
}

/// Rounds a group to whole numbers of 4 bits. Each half is a group of runs of columns. A run is
/// inside a row, or it is outside the matrix and zeros.
void Quantizer::quantizeGroup(RowsBuilder &rows, Value parameter, RankedTensorType matrix) {
  constexpr int64_t longest = 8; // half of a half
  int64_t width = std::gcd(matrix.getDimSize(1), longest), runs = matrix.getDimSize(1) / width;
  int64_t members = dispatch::groupBytes / width, groups = getRowGroups(matrix);
  Value view = plan::ViewOp::create(
      b, parameter.getLoc(), RankedTensorType::get({matrix.getDimSize(0) * runs, width}, f32),
      parameter);
  auto half = RankedTensorType::get({members, width}, f32);
  AffineExpr p = b.getAffineDimExpr(0), i = b.getAffineDimExpr(1);
  SmallVector<Value> weights;
  for (int64_t number : {0, 1}) {
    AffineExpr run = p % groups * (2 * members) + (number * members) + i;
    AffineExpr place = p.floorDiv(groups) * runs + run;
    if (matrix.getDimSize(1) % dispatch::groupWeights != 0) {
      place = place + run.floorDiv(runs) * (matrix.getDimSize(0) * runs);
    }
    auto access = dispatch::AccessAttr::get(b.getContext(), AccessKind::Flat,
                                            AffineMap::get(2, 1, place), members, 0);
    weights.push_back(rows.operand(view, access, half));
  }
  auto [scale, inverse] = computeScale(rows, weights, 7);
  SmallVector<Value> rounded;
  for (Value weight : weights) {
    Value number = rows.mul(weight, rows.splat(inverse, half));
    number = rows.add(number, rows.constant(0.5, half));
    rounded.push_back(math::FloorOp::create(rows.body, number));
  }
  Value first = rows.add(rounded[0], rows.constant(8, half));
  rows.result(rows.add(rows.mul(rounded[1], rows.constant(16, half)), first), AccessKind::Flat,
              getStoredType(matrix));
  rows.result(scale, AccessKind::Flat, getScaleType(matrix));
}

/// Builds @quantize, which stores all matrices.
void Quantizer::buildQuantize() {
  b.setInsertionPointToEnd(module.getBody());
  auto func = func::FuncOp::create(b, module.getLoc(), "quantize", b.getFunctionType({}, {}));
  b.setInsertionPointToStart(func.addEntryBlock());
  for (auto &[name, matrix] : shapes) {
    Location loc = module.getLoc();
    RowsBuilder rows(b, loc, getDomain(isGrouped ? countGroups(matrix) : matrix.getDimSize(0)));
    Value parameter = plan::BindOp::create(b, loc, matrix, ("parameter:" + name).str());
    isGrouped ? quantizeGroup(rows, parameter, matrix) : quantizeRow(rows, parameter, matrix);
    SmallVector<std::string> places{("quantized:" + name).str()};
    if (hasScales()) {
      places.push_back(("scale:" + name).str());
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
    bool isHalf = type == "bf16", isGrouped = type == "int4";
    if (!isHalf && !isGrouped && type != "int8") {
      module.emitError() << "expected weights of type bf16, int8 or int4, found \"" << type << '"';
      return signalPassFailure();
    }
    if (failed(verifyModel(module)) || failed(verifyLevel(module, ModuleLevel::Dispatches))) {
      return signalPassFailure();
    }
    Builder b(&getContext());
    Quantizer quantizer(module, isHalf ? Type(b.getBF16Type()) : b.getI8Type(), isGrouped);
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
