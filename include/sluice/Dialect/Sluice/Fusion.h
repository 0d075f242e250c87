// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interfaces of ops for dispatch formation: access maps of consumers, and the computation of one
// row.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"
#include "llvm/ADT/StringMap.h"

namespace sluice {

/// An access to a sequence through ops without computation (shift, upsample, unfold, last): the
/// accessed root and its position, as an expression of d0 = p, d1 = i (the row within a group) and
/// s0 = the root's valid length.
struct AccessChain {
  mlir::Value root;
  mlir::AffineExpr position;
  mlir::AffineExpr column; ///< first column, in d0 and d1
  int64_t group = 1;

  bool isIdentity() const {
    return position == mlir::getAffineDimExpr(0, position.getContext()) && group == 1;
  }
};

/// Resolves the access to `value` at the rows of a group, to the first op that computes. Stops
/// earlier if a link has no access map (a column offset inside a group, a scale after the last
/// position): the root is then that op's result, which must be stored.
AccessChain resolveAccess(mlir::Value value, RowGroup group = {});
/// Resolves the access to one row of the group, 0 <= member < window.
AccessChain resolveMember(mlir::Value value, RowGroup group, int64_t member);
/// Returns true if one access covers the rows of a group of `sequence`. Otherwise a column offset
/// differs between the rows, and each row needs its own access.
bool readsWholeGroups(mlir::Value sequence, RowGroup group);

/// Returns true if the linear map that computes an attention's queries and keys may rotate them:
/// they are the first columns of its rows, queries first, and only this attention, forward and
/// backward, uses these columns.
bool canRotateWhereMade(AttentionOp op);
/// Returns the attention whose queries and keys the linear map of `packed` rotates when it stores
/// them; null if there is none.
AttentionOp findRotation(mlir::Value packed);
/// Returns the number of columns of a packed row that are queries and keys.
int64_t endOfKeys(AttentionOp op);

/// Collects the body of one dispatch: values of one row (tensor<d>), or of one element (f32) in an
/// epilogue. Operands of the dispatch are added when ops request values that the body does not
/// contain.
class BodyBuilder {
public:
  /// Returns the stored tensor of a model value, or null with a diagnostic.
  using Lowering = std::function<mlir::Value(mlir::Value)>;

  /// `axis` of segments whose lengths the dispatch uses; empty for the tokens' lengths.
  BodyBuilder(mlir::Operation *scope, mlir::Block &block, bool elementwise, Lowering lowered,
              llvm::StringRef axis = {});

  mlir::ImplicitLocOpBuilder &builder() { return b; }

  /// Returns the body value of a sequence at this row: computed here, or loaded through its access
  /// chain.
  mlir::Value get(mlir::Value sequence);
  /// Returns the rows of a group of a sequence: tensor<window x d>. Rows outside are zeros, or
  /// `outside`.
  mlir::Value getGroup(mlir::Value sequence, RowGroup group, mlir::FloatAttr outside = {});
  /// Returns one row of a group.
  mlir::Value getMember(mlir::Value sequence, RowGroup group, int64_t member,
                        mlir::FloatAttr outside = {});
  /// Returns rows of `width` columns of a stored sequence, at positions and first columns that are
  /// expressions of p and i < group: tensor<group x width>, or tensor<width> for one row.
  mlir::Value getStored(mlir::Value sequence, mlir::AffineExpr position, mlir::AffineExpr column,
                        int64_t group, int64_t width);
  /// Returns a vector parameter, the same for every row (in an epilogue: its element at this
  /// column).
  mlir::Value getVector(mlir::Value parameter);
  /// Returns the device scalar of a place, i64 unless `type` is given.
  mlir::Value getScalar(llvm::StringRef place, mlir::Type type = {});
  /// Returns the row's number, or numbers, of the host's input `place`, for rows like the rows of
  /// `like`.
  mlir::Value getInput(llvm::StringRef place, mlir::Value like);
  /// Returns the row of a table at position p.
  mlir::Value getTableRow(mlir::Value table);
  /// Returns the row of a table at a token id.
  mlir::Value getGatheredRow(mlir::Value table, mlir::Value token);

  void set(mlir::Value result, mlir::Value bodyValue) { values[result] = bodyValue; }
  mlir::Value lookup(mlir::Value result) const { return values.lookup(result); }

  /// Broadcasts a row's number to a row: tensor.splat in a row body, the number itself in an
  /// epilogue.
  mlir::Value splat(mlir::Value number, mlir::Type row);
  mlir::Value constant(mlir::Type type, double value);
  /// Returns the sum of a row over its columns: f32.
  mlir::Value sum(mlir::Value row);
  /// Clones a scalar region on values of one row or one element; returns the values that it yields.
  mlir::Value cloneScalar(mlir::Block &region, mlir::ValueRange arguments);

  llvm::ArrayRef<mlir::Value> operands() const { return operandTensors; }
  llvm::ArrayRef<mlir::Attribute> accesses() const { return operandAccesses; }

  friend class ListLoader; ///< of BodyBuilder.cpp

private:
  mlir::Value load(mlir::Value tensor, dispatch::AccessAttr access, mlir::Type bodyType);
  mlir::Value loadChain(const AccessChain &chain, int64_t width, mlir::FloatAttr outside = {});

  mlir::Operation *scope;
  mlir::Block &block;
  bool elementwise; ///< epilogue: values are single elements, and only elementwise ops are emitted
  Lowering lowered;
  llvm::StringRef axis;
  mlir::ImplicitLocOpBuilder b;
  llvm::StringMap<mlir::Value> lists; ///< tensors of lists, by place
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  llvm::SmallVector<mlir::Value> operandTensors;
  llvm::SmallVector<mlir::Attribute> operandAccesses;
};

/// Returns the entries [first, end) of the row's list, i32. The host's input `place` has the lists
/// of a batch row: the ends of the lists of all rows like `like`, then `entries` entries.
std::pair<mlir::Value, mlir::Value> getListBounds(BodyBuilder &body, llvm::StringRef place,
                                                  mlir::Value like, int64_t entries);
/// Returns the sum of the rows of a stored sequence that the row's list names, each times its
/// number in `weights`, which may be null.
mlir::Value getListSum(BodyBuilder &body, llvm::StringRef place, mlir::Value sequence,
                       int64_t entries, mlir::Value weights);
/// Returns the number of rows that are drawn with the row, an i32. The host's input `place` has one
/// number for the draws of each row like the rows of `like`.
mlir::Value countDrawnRows(BodyBuilder &body, llvm::StringRef place, mlir::Value like);
/// Returns the sum of the rows of a stored sequence that are drawn with the row, each times its
/// number in `weights`, which may be null.
mlir::Value getDrawnSum(BodyBuilder &body, llvm::StringRef place, mlir::Value sequence,
                        mlir::Value weights);

/// Rows of the values of @step during dispatch formation, from `sluice.due` and `sluice.keep`.
class StepValues {
public:
  struct Rows {
    mlir::FlatSymbolRefAttr schedule, state; ///< symbols; null if the value has none
    int64_t count = 0;                       ///< rows of the value's tensor (a ring)
  };
  /// Rows that a dispatch of the step runs over: the due rows of its op, all rows regardless of the
  /// schedule, or the rows of the segment that its op makes due.
  enum class DispatchExtent { Due, Whole, Members };

  Rows &operator[](mlir::Value value) { return rows[value]; }
  Rows lookup(mlir::Value value) const { return rows.lookup(value); }
  bool isScheduled(mlir::Operation *op) const {
    return llvm::any_of(op->getResults(), [&](mlir::Value v) { return bool(lookup(v).schedule); });
  }
  /// Returns the schedule of an op, which is its first result's; null if it has none.
  mlir::FlatSymbolRefAttr getSchedule(mlir::Operation *op) const {
    return op->getNumResults() == 0 ? mlir::FlatSymbolRefAttr() : lookup(op->getResult(0)).schedule;
  }
  /// Returns the rows that a value's tensor holds, 0 if the step does not determine them. A result
  /// without rows of its own, which is unused, has the rows of the first result.
  int64_t countRows(mlir::Value value) const {
    mlir::Operation *op = value.getDefiningOp();
    int64_t own = lookup(value).count;
    return own > 0 || !op ? own : lookup(op->getResult(0)).count;
  }
  void setExtent(mlir::Operation *dispatch, DispatchExtent extent) { extents[dispatch] = extent; }
  DispatchExtent getExtent(mlir::Operation *dispatch) const { return extents.lookup(dispatch); }

private:
  llvm::DenseMap<mlir::Value, Rows> rows;
  llvm::DenseMap<mlir::Operation *, DispatchExtent> extents;
};

/// Builds the dispatches of ops with the role Alone.
class DispatchEmitter {
public:
  /// `step` has the rows of values if the dispatches belong to a step.
  DispatchEmitter(mlir::Operation *scope, mlir::OpBuilder &builder,
                  llvm::DenseMap<mlir::Value, mlir::Value> &lowered, llvm::StringRef axis = {},
                  StepValues *step = nullptr)
      : b(scope->getLoc(), builder), scope(scope), tensors(lowered), axis(axis), step(step) {}

  mlir::ImplicitLocOpBuilder b;

  mlir::Value get(mlir::Value value) const { return value ? tensors.lookup(value) : mlir::Value(); }
  void set(mlir::Value result, mlir::Value tensor) { tensors[result] = tensor; }
  mlir::RankedTensorType getTensorType(mlir::Value sequence) const;
  /// Returns the domain of a sequence's scale.
  dispatch::DomainAttr getRowDomain(mlir::Value sequence) const;
  /// Returns a domain of rows that are all valid, on the axis of the dispatch.
  dispatch::DomainAttr wholeDomain(int64_t batch, int64_t positions) const;
  /// Returns the factor of a sequence that the dispatch accesses.
  int64_t getScaleFactor(mlir::Value sequence) const;
  /// Binds a device scalar or constant table by place.
  mlir::Value bind(llvm::StringRef place, mlir::Type type);
  /// Returns the number of valid rows of each text, [B] i64, on a given axis or on segments of one.
  mlir::Value getCounts(SequenceType given);
  mlir::Operation *getScope() const { return scope; }
  /// Returns true if the dispatches belong to a step.
  bool isStep() const { return step; }
  /// Returns true if a step computes the rows of `op` that are due.
  bool isStep(mlir::Operation *op) const { return step && step->isScheduled(op); }
  /// Sets the rows that a dispatch of a step runs over.
  void setExtent(mlir::Operation *dispatch, StepValues::DispatchExtent extent) {
    assert(step && "a dispatch of a step");
    step->setExtent(dispatch, extent);
  }

private:
  dispatch::DomainAttr domain(int64_t batch, int64_t positions, int64_t factor) const;

  mlir::Operation *scope;
  llvm::DenseMap<mlir::Value, mlir::Value> &tensors;
  llvm::StringRef axis;
  StepValues *step;
};

/// Returns the stored tensor of a sequence: [B, positions, d], or [B, positions] for one number per
/// position.
mlir::RankedTensorType getStoredType(mlir::Operation *scope, SequenceType type);

} // namespace sluice
