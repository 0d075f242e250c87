// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds row dispatches by hand, for the code around the model.
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Dialect/Plan/Plan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace sluice {

/// Builds one rows dispatch: first operands with their access and body type, then the body, then
/// results.
class RowsBuilder {
public:
  RowsBuilder(mlir::OpBuilder &builder, mlir::Location loc, dispatch::DomainAttr domain)
      : b(loc, builder), body(loc, builder.getContext()), domain(domain) {
    body.setInsertionPointToEnd(&region.emplaceBlock());
  }

  /// Adds an operand and returns its body argument.
  mlir::Value operand(mlir::Value tensor, dispatch::AccessKind kind, mlir::Type type) {
    return operand(tensor, dispatch::AccessAttr::get(b.getContext(), kind), type);
  }
  mlir::Value operand(mlir::Value tensor, dispatch::AccessAttr access, mlir::Type type) {
    operands.push_back(tensor);
    accesses.push_back(access);
    return region.front().addArgument(type, b.getLoc());
  }
  mlir::Value scalar(llvm::StringRef place, mlir::Type type) {
    return operand(plan::BindOp::create(b, mlir::RankedTensorType::get({}, type), place),
                   dispatch::AccessKind::Scalar, type);
  }
  void result(mlir::Value value, dispatch::AccessKind kind, mlir::Type type, int64_t alias = -1) {
    yields.push_back(value);
    types.push_back(type);
    resultAccesses.push_back(dispatch::AccessAttr::get(b.getContext(), kind));
    aliases.push_back(alias);
  }
  /// `schedule` is the schedule of a scheduled domain.
  dispatch::RowsOp finish(llvm::StringRef label, mlir::Value schedule = {}) {
    dispatch::YieldOp::create(body, yields);
    if (schedule) {
      operands.push_back(schedule);
    }
    auto op = dispatch::RowsOp::create(b, types, operands, domain, b.getArrayAttr(accesses),
                                       b.getArrayAttr(resultAccesses), mlir::UnitAttr(),
                                       b.getDenseI64ArrayAttr(aliases), b.getStringAttr(label),
                                       mlir::StringAttr(), mlir::UnitAttr());
    op.getBody().takeBody(region);
    return op;
  }

  mlir::Value constant(double value, mlir::Type type) {
    if (auto shaped = mlir::dyn_cast<mlir::RankedTensorType>(type)) {
      return mlir::arith::ConstantOp::create(
          body, mlir::DenseElementsAttr::get(shaped, static_cast<float>(value)));
    }
    return mlir::arith::ConstantOp::create(body, body.getF32FloatAttr(static_cast<float>(value)));
  }
  mlir::Value splat(mlir::Value number, mlir::RankedTensorType row) {
    return mlir::tensor::SplatOp::create(body, row, number);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return mlir::arith::MulFOp::create(body, x, y); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return mlir::arith::AddFOp::create(body, x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return mlir::arith::SubFOp::create(body, x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return mlir::arith::DivFOp::create(body, x, y); }

  mlir::ImplicitLocOpBuilder b;    ///< outside the op, for binds
  mlir::ImplicitLocOpBuilder body; ///< inside the body

private:
  mlir::Region region;
  dispatch::DomainAttr domain;
  llvm::SmallVector<mlir::Value> operands, yields;
  llvm::SmallVector<mlir::Attribute> accesses, resultAccesses;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<int64_t> aliases;
};

} // namespace sluice
