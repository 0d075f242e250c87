// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dispatch dialect: fused, loop-free, target-neutral groups of work.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "sluice/Dialect/Dispatch/DispatchEnums.h.inc"

#include "sluice/Dialect/Dispatch/DispatchDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "sluice/Dialect/Dispatch/DispatchAttributes.h.inc"

#include "sluice/Dialect/Dispatch/DistanceTerms.h"
#include "sluice/Dialect/Dispatch/RowReads.h"

namespace sluice::dispatch {
/// Implements KernelInterface::getRowFactor for an operand [B, T, d] of rows of the domain;
/// std::nullopt for others.
std::optional<int64_t> findRowFactor(mlir::Operation *dispatch, unsigned operand);
} // namespace sluice::dispatch

#include "sluice/Dialect/Dispatch/DispatchInterfaces.h.inc"

namespace sluice::dispatch {
/// Returns the extra operand of an attention with elements of `bits` bits and this rank; null if
/// there is none.
mlir::Value optionalOperand(mlir::OperandRange extras, unsigned bits, int64_t rank);
/// Returns the two extra operands of an attention that are i32 [B, T], the ends of ranges of keys;
/// none if there are none.
mlir::OperandRange findRange(mlir::OperandRange extras);
} // namespace sluice::dispatch

#define GET_OP_CLASSES
#include "sluice/Dialect/Dispatch/DispatchOps.h.inc"

namespace sluice::dispatch {

/// Elements from one row of a rank-3 tensor to the next: a multiple of 16 (one cache line), and
/// never a multiple of 256, because rows a power of two of bytes apart share a few cache sets and
/// evict one another.
int64_t paddedWidth(int64_t width);

/// Returns true for storage types of numbers: f32 or bf16.
bool isStorageType(mlir::Type element);

/// Groups of weights of 4 bits along a row, each with a scale of its own.
constexpr int64_t groupWeights = 32;
constexpr int64_t groupBytes = groupWeights / 2;

/// Returns the type in a body of an element that is stored as `element`: f32 for bf16, else the
/// type itself.
mlir::Type getBodyType(mlir::Type element);

/// Calls DrawInterface; false for an op without the interface.
bool drawsNumbers(mlir::Operation *dispatch);
bool drawsByUpdate(mlir::Operation *dispatch);
/// Returns the factor by which draws by the update extend the positions of each axis; 1 for an op
/// without the interface.
int64_t getDrawParts(mlir::Operation *dispatch);

/// Returns the device scalar with a dispatch's length, or with the length of each batch row
/// (DomainAttr).
std::string computeLength(mlir::Operation *dispatch);

/// Returns the schedule of a dispatch, i64 [B, 3] (DomainAttr): its last operand; null if its
/// domain is not scheduled.
mlir::Value findSchedule(mlir::Operation *dispatch);

/// Returns the index in an attention's `gradients` (1, 2 or 3) of the gradient of operand 0, 1 or
/// 2: query, key, value.
inline unsigned getGradientIndex(unsigned operand, size_t gradients) {
  return operand == 0 ? 0 : operand == 1 ? gradients > 1 : unsigned(gradients) - 1;
}

/// Returns the number of elements in the memory of a tensor: rank 3 has padded rows.
int64_t storageElements(mlir::RankedTensorType type);

} // namespace sluice::dispatch
