// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model dialect: sequences on named scales.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/IntegerSet.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Dialect/Facts.h"
#include <optional>

namespace sluice {

/// Work of one op for the whole batch at full length.
struct Cost {
  double flops = 0;
  double bytes = 0;      ///< lower bound on bytes read and written
  double savedBytes = 0; ///< bytes stored for the backward pass
};

/// The kinds of dispatches that an op may become part of.
enum class FusionRole {
  Elementwise, ///< a row body or the epilogue of a contraction
  Rows,        ///< a row body only
  Anchor,      ///< a row body that others are fused with (norms)
  Access,      ///< no computation: an access map of a consumer
  Contraction, ///< a contraction with an epilogue
  Alone        ///< one or more dispatches of its own
};

/// Trait of an op with a role in fusion. A contraction with MultipliesByInput indexes its weight as
/// [in, out].
template <FusionRole Role, bool MultipliesByInput = false> struct FusesAs {
  template <typename ConcreteOp>
  class Impl : public mlir::OpTrait::TraitBase<ConcreteOp, FusesAs<Role, MultipliesByInput>::Impl> {
  public:
    static constexpr FusionRole fusionRole = Role;
    static constexpr bool isMultipliedByInput = MultipliesByInput;
  };
};

/// Rows that row p of a group's op depends on: factor p + first + i, 0 <= i < window.
struct RowGroup {
  int64_t factor = 1, window = 1, first = 0;

  /// Returns the group of `factor` rows with a window that ends where the group ends; 0 rows means
  /// `factor`.
  static RowGroup endingWithGroup(int64_t factor, int64_t window) {
    window = window == 0 ? factor : window;
    return {factor, window, factor - window};
  }
  bool isOwnRow() const { return factor == 1 && window == 1 && first == 0; }
};

/// A data-dependent number of segments: the end of segment `at`, or the number of boundaries at
/// positions up to `at`. `of` is the result of `sluice.segment`: ends for End, counts for Count. An
/// End before 0 is its own position: e(m) = m if m < 0.
struct SegmentTerm {
  enum Kind { End, Count } kind;
  mlir::Value of;
  mlir::AffineExpr at; ///< of d0 = p, the result's position
};
using SegmentTerms = llvm::SmallVector<SegmentTerm, 2>;

/// Accesses of one operand by one result, as in CausalFlowInterface.
struct PositionReads {
  std::optional<mlir::IntegerSet> relation;
  mlir::AffineExpr latest;
  SegmentTerms terms;
};

/// A change of a spec that repairs an access to a row before it exists.
struct OpRemedy {
  std::string words;         ///< words that precede the location of the op's stage
  llvm::StringRef attribute; ///< attribute of the op that changes; empty if another op changes
  mlir::Attribute value;     ///< its new value; null: none
};

struct AccessChain;
class BodyBuilder;
class DispatchEmitter;
namespace reference {
template <typename T> class Evaluator;
}

} // namespace sluice

#include "sluice/Dialect/Sluice/SluiceDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "sluice/Dialect/Sluice/SluiceTypes.h.inc"

#include "sluice/Dialect/Sluice/SluiceInterfaces.h.inc"

#include "sluice/Dialect/Sluice/SluiceEnums.h.inc"

namespace sluice {
/// Returns true if the last of an attention's extra operands are the ends of ranges of keys.
inline bool hasRange(mlir::OperandRange extras) {
  auto last =
      extras.empty() ? SequenceType() : mlir::dyn_cast<SequenceType>(extras.back().getType());
  return last && last.getElement().isInteger(32);
}
} // namespace sluice

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/SluiceOps.h.inc"

namespace sluice {

/// Return the capacities at `op`: rows of a batch, as set by its function or else by the module,
/// and tokens per row.
int64_t getBatch(mlir::Operation *op);
int64_t getContext(mlir::Operation *op);

/// Calls CausalFlowInterface::isLazy; false for null and for an op without the interface.
/// Obligations of a lazy value quantify over all integers instead of p >= 0.
bool isLazy(mlir::Operation *op);
inline bool isLazy(mlir::Value value) { return isLazy(value.getDefiningOp()); }

/// Returns the factor of a sequence's scale, looked up from `op`'s module. Zero for the scale of
/// one position (`sluice.last`).
int64_t getFactor(mlir::Operation *op, SequenceType type);

/// Verifies the assumptions of all passes over model IR beyond the ops' verifiers: capacities, and
/// that used scales and parameters are defined consistently. Fails with a diagnostic at the op.
llvm::LogicalResult verifyModel(mlir::ModuleOp module);

/// Verifies the module attribute `sluice.training`, which sluice-build-entries uses. Fails with a
/// diagnostic.
llvm::LogicalResult verifyTraining(mlir::ModuleOp module);

/// Returns the number of batches whose gradients an update sums.
inline int64_t batchesOfUpdate(mlir::ModuleOp module) {
  auto batches = getFact<SluiceDialect::AccumulateAttrHelper>(module);
  return batches ? batches.getInt() : 1;
}

/// Returns the factor by which the capacities of the model exceed the capacities of this module,
/// which holds one shape of its batches; 1 for a model with one shape.
inline int64_t getDrawParts(mlir::ModuleOp module) {
  auto parts = getFact<SluiceDialect::DrawPartsAttrHelper>(module);
  return parts ? parts.getInt() : 1;
}

/// Returns true if random numbers of @gradient are indexed by the scalar draw_rows: an update has
/// several batches, or batches have several shapes.
inline bool drawsByUpdate(mlir::ModuleOp module) {
  return batchesOfUpdate(module) > 1 || hasFact<SluiceDialect::DrawPartsAttrHelper>(module);
}

/// Returns `sequence` stored as `element`: itself if it is, else the result of a map that only
/// converts.
mlir::Value convertSequence(mlir::OpBuilder &b, mlir::Location loc, mlir::Value sequence,
                            mlir::Type element);

/// Returns the type in which a linear map, or head, multiplies: the element type of its weight
/// operand.
mlir::Type getComputeType(mlir::Value weight);

/// Returns true if a sequence is on a given axis (`sluice.axis`) or on segments of one, looked up
/// from `op`'s module.
bool isGiven(mlir::Operation *op, SequenceType type);

/// Returns the axis of tokens below an axis of segments, directly or through other segments: `axis`
/// itself if it has no segments, null if the nesting does not end.
AxisOp getRootAxis(AxisOp axis);

/// Returns true if a sequence is on an axis of segments.
bool isSegmented(mlir::Operation *op, SequenceType type);

/// Returns the name of a sequence's axis.
std::string getAxisName(mlir::Operation *op, SequenceType type);

/// Returns the factor of a sequence's domain: its scale's factor if a dispatch uses lengths of its
/// axis, `axis`, which is empty for tokens. Otherwise 0: every position is valid.
int64_t getDomainFactor(mlir::Operation *op, SequenceType type, llvm::StringRef axis = {});

/// Tokens of a given axis: the axis's own, or a stream of it.
struct InputTokens {
  llvm::StringRef name;
  int64_t vocabulary;
};
/// Returns the tokens that an argument of a function has; none unless its axis is given and has
/// them.
std::optional<InputTokens> findInputTokens(mlir::BlockArgument tokens);

/// Returns the name in a plan of the number of positions per row on a given axis, i64 [B]. Its
/// tokens, i32 [B, capacity], have the axis's own name.
std::string countsName(llvm::StringRef axis);
/// Returns the place of the host's input `name` of a given axis for `op`'s function: generation has
/// separate prompts and texts.
std::string givenPlace(mlir::Operation *op, llvm::StringRef name);
/// Prefix of the host's inputs of edge lists (`sluice.degrees`), followed by AXIS.NAME.
constexpr llvm::StringRef edgesInput = "edges.";
/// Place of the padding mask: f32 [B, T], 1 for padding rows, 0 for others.
constexpr llvm::StringRef paddingInput = "input:tokens.padding";
/// Returns the place of the number of rows p >= `first` that are padding, over all texts: i64.
std::string paddingScalar(int64_t first);

/// Returns the number of positions of a sequence at full length: the capacity of a given axis;
/// ceil(rows / factor) on an axis of segments; ceil(context / factor); 1 if the factor is 0.
int64_t getPositions(mlir::Operation *op, SequenceType type);

} // namespace sluice
