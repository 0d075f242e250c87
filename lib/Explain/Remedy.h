// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Changes that remove a leak, applied to the module so that it can be checked again.
#pragma once

#include "sluice/Explain/LeakSearch.h"
#include <functional>

namespace sluice {

/// Returns CausalFlowInterface::getRemedy; empty for an op without the interface.
OpRemedy findOpRemedy(mlir::Operation *op);

/// Changes to a module that are equivalent to changes of its spec's keys: they apply to every op at
/// one location, in each mode. The destructor undoes them.
class Mending {
public:
  explicit Mending(mlir::ModuleOp module) : module(module) {}
  ~Mending() {
    for (auto &step : llvm::reverse(undo)) {
      step();
    }
  }
  Mending(const Mending &) = delete;
  Mending &operator=(const Mending &) = delete;

  void setShift(ShiftOp like, int64_t by) {
    forEachAt<ShiftOp>(like, [&](ShiftOp op) {
      undo.emplace_back([op, old = op.getBy()]() mutable { op.setBy(old); });
      op.setBy(static_cast<uint64_t>(by));
    });
  }
  void insertShift(mlir::Operation *group, int64_t by) {
    forEachAt<mlir::Operation *>(group, [&](mlir::Operation *op) {
      if (op->getName() != group->getName()) {
        return;
      }
      mlir::OpBuilder b(op);
      mlir::Value source = op->getOperand(0);
      auto shift = ShiftOp::create(b, op->getLoc(), source.getType(), source, by);
      op->setOperand(0, shift);
      undo.emplace_back([op, source, shift]() mutable {
        op->setOperand(0, source);
        shift->erase();
      });
    });
  }
  void insertShiftBehind(mlir::Operation *group, int64_t by) {
    forEachAt<mlir::Operation *>(group, [&](mlir::Operation *op) {
      if (op->getName() != group->getName()) {
        return;
      }
      mlir::OpBuilder b(op->getContext());
      b.setInsertionPointAfter(op);
      mlir::Value source = op->getResult(0);
      auto shift = ShiftOp::create(b, op->getLoc(), source.getType(), source, by);
      source.replaceAllUsesExcept(shift, shift);
      undo.emplace_back([source, shift]() mutable {
        shift.replaceAllUsesWith(source);
        shift->erase();
      });
    });
  }
  /// Sets the shift of each op's own remedy.
  void remedy(mlir::Operation *like) {
    change(like, [](mlir::Operation *op) { return findOpRemedy(op); });
  }
  void setAttribute(mlir::Operation *like, llvm::StringRef name, mlir::Attribute value) {
    change(like, [&](mlir::Operation *) { return OpRemedy{"", name, value}; });
  }

private:
  /// Sets the attribute that `remedyFor` returns for each op of the kind.
  void change(mlir::Operation *like, llvm::function_ref<OpRemedy(mlir::Operation *)> remedyFor) {
    forEachAt<mlir::Operation *>(like, [&](mlir::Operation *op) {
      OpRemedy own = remedyFor(op);
      if (op->getName() != like->getName() || own.attribute.empty()) {
        return;
      }
      undo.emplace_back([op, name = own.attribute, old = op->getAttr(own.attribute)] {
        setOrRemove(op, name, old);
      });
      setOrRemove(op, own.attribute, own.value);
    });
  }

  static void setOrRemove(mlir::Operation *op, llvm::StringRef name, mlir::Attribute value) {
    if (value) {
      op->setAttr(name, value);
    } else {
      op->removeAttr(name);
    }
  }

  template <typename Op>
  void forEachAt(mlir::Operation *like, llvm::function_ref<void(Op)> change) {
    auto place = like->getLoc()->findInstanceOf<mlir::FileLineColLoc>();
    llvm::SmallVector<Op> found;
    for (auto function : module.getOps<mlir::func::FuncOp>()) {
      for (mlir::Operation &op : function.getBody().front()) {
        bool isThere =
            &op == like || (place && op.getLoc()->findInstanceOf<mlir::FileLineColLoc>() == place);
        if constexpr (std::is_same_v<Op, mlir::Operation *>) {
          if (isThere) {
            found.push_back(&op);
          }
        } else if (auto each = llvm::dyn_cast<Op>(op); each && isThere) {
          found.push_back(each);
        }
      }
    }
    llvm::for_each(found, change);
  }

  mlir::ModuleOp module;
  std::vector<std::function<void()>> undo;
};

/// Returns the first op on the path from the token whose result reads a token past the start of the
/// result's own position.
mlir::Operation *opAtFault(FoundLeak &leak);

/// A change that may repair a leak; it must be tried.
struct Change {
  std::string words; ///< description of the change with its location
  spec::SourceLocation place;
  std::function<void(Mending &)> make;
};
/// Returns a few changes of a model with segments, changes of ops on the leak's path first: masks
/// that include later rows, and tokens that read an earlier segment.
std::vector<Change> changesAmongSegments(const FoundLeak &leak);

/// Applies a change of an op at fault to the module. Returns the description of the change and sets
/// its location.
std::string remedyFor(mlir::Operation *fault, spec::SourceLocation &place, Mending &mending);

} // namespace sluice
