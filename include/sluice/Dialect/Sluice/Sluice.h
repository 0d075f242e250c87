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
  double bytes = 0;      ///< least bytes read and written
  double savedBytes = 0; ///< bytes kept for backward
};

/// The kinds of dispatches that an op may become part of.
enum class FusionRole {
  Elementwise, ///< a row body or the epilogue of a contraction
  Rows,        ///< a row body only
  Anchor,      ///< a row body that others gather around (norms)
  Access,      ///< no work: a map through which a consumer reads
  Contraction, ///< a contraction that takes an epilogue
  Alone        ///< a dispatch, or several, of its own
};

/// The trait of an op with a role in fusion. A contraction that multiplies by its input reads its
/// weight as [in, out].
template <FusionRole Role, bool MultipliesByInput = false> struct FusesAs {
  template <typename ConcreteOp>
  class Impl : public mlir::OpTrait::TraitBase<ConcreteOp, FusesAs<Role, MultipliesByInput>::Impl> {
  public:
    static constexpr FusionRole fusionRole = Role;
    static constexpr bool isMultipliedByInput = MultipliesByInput;
  };
};

/// Rows that row p of a group's op reads: factor p + first + i, 0 <= i < window.
struct RowGroup {
  int64_t factor = 1, window = 1, first = 0;

  /// For groups of `factor`, windows that end where the groups do; 0 rows means `factor`.
  static RowGroup endingWithGroup(int64_t factor, int64_t window) {
    window = window == 0 ? factor : window;
    return {factor, window, factor - window};
  }
  bool isOwnRow() const { return factor == 1 && window == 1 && first == 0; }
};

/// A number that data decides, of data-dependent segments: where segment `at` ends, or how many
/// boundaries stand at positions up to `at`. `of` is what `sluice.segment` makes of it: ends for
/// End, counts for Count. An End before 0 is its own position: e(m) = m where m < 0.
struct SegmentTerm {
  enum Kind { End, Count } kind;
  mlir::Value of;
  mlir::AffineExpr at; ///< of d0 = p, the result's position
};
using SegmentTerms = llvm::SmallVector<SegmentTerm, 2>;

/// The reads of one operand by one result, as CausalFlowInterface has them.
struct PositionReads {
  std::optional<mlir::IntegerSet> relation;
  mlir::AffineExpr latest;
  SegmentTerms terms;
};

/// A change of a spec for an op that reads a row before it exists.
struct OpRemedy {
  std::string words;         ///< behind which the op's place stands
  llvm::StringRef attribute; ///< of the op, which changes with it; empty where another op changes
  mlir::Attribute value;     ///< its value then; null: none
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

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/SluiceOps.h.inc"

namespace sluice {

/// Capacities where `op` stands: rows of a batch, those of its function where that has rows of its
/// own, else of the module; tokens a row.
int64_t getBatch(mlir::Operation *op);
int64_t getContext(mlir::Operation *op);

/// CausalFlowInterface::isLazy; false of null and of an op without the interface. Obligations of a
/// lazy value quantify over all integers instead of p >= 0.
bool isLazy(mlir::Operation *op);
inline bool isLazy(mlir::Value value) { return isLazy(value.getDefiningOp()); }

/// Factor of a sequence's scale, looked up from `op`'s module. Zero for the scale of one position
/// (`sluice.last`).
int64_t getFactor(mlir::Operation *op, SequenceType type);

/// Checks that every pass over model IR relies on, beyond the ops' verifiers: capacities, and that
/// scales and parameters are defined as they are used. Fails with a diagnostic at the op.
llvm::LogicalResult verifyModel(mlir::ModuleOp module);

/// The module attribute `sluice.training`, which sluice-build-entries reads. Fails with a
/// diagnostic.
llvm::LogicalResult verifyTraining(mlir::ModuleOp module);

/// The batches whose gradients an update sums.
inline int64_t batchesOfUpdate(mlir::ModuleOp module) {
  auto batches = getFact<SluiceDialect::AccumulateAttrHelper>(module);
  return batches ? batches.getInt() : 1;
}

/// `sequence` stored as `element`: itself where it is, else the result of a map that only converts.
mlir::Value convertSequence(mlir::OpBuilder &b, mlir::Location loc, mlir::Value sequence,
                            mlir::Type element);

/// The type that a linear map, or head, multiplies in: the element type that its weight is read in.
mlir::Type getComputeType(mlir::Value weight);

/// Returns true if a sequence is on a given axis (`sluice.axis`), looked up from `op`'s module.
bool isGiven(mlir::Operation *op, SequenceType type);

/// Returns true if a sequence is on an axis of segments.
bool isSegmented(mlir::Operation *op, SequenceType type);

/// The name of the axis that a sequence stands on.
std::string getAxisName(mlir::Operation *op, SequenceType type);

/// The factor of a sequence's domain: that of its scale where a dispatch reads lengths of its axis,
/// `axis`, which is empty for tokens. Elsewhere 0: every position is there.
int64_t getDomainFactor(mlir::Operation *op, SequenceType type, llvm::StringRef axis = {});

/// Name in a plan of what says how many positions of a given axis each row has, i64 [B]. Its
/// tokens, i32 [B, capacity], have the axis's own name.
std::string countsName(llvm::StringRef axis);
/// Where `op`'s function reads what the host gives as `name`, of a given axis: generation has a
/// prompt and texts of its own.
std::string givenPlace(mlir::Operation *op, llvm::StringRef name);
/// Where rows of padding are marked: f32 [B, T], 1 for those, 0 for others.
constexpr llvm::StringRef paddingInput = "input:tokens.padding";
/// How many of the rows p >= `first` are padding, over all texts: i64.
std::string paddingScalar(int64_t first);

/// Positions that a sequence has at full length: the capacity of a given axis; ceil(rows / factor)
/// of an axis of segments; ceil(context / factor); 1 where the factor is 0.
int64_t getPositions(mlir::Operation *op, SequenceType type);

} // namespace sluice
