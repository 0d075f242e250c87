// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The spec dialect: a model spec as a user wrote it.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

#include "sluice/Dialect/Spec/SpecDialect.h.inc"
#include "sluice/Dialect/Spec/SpecEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "sluice/Dialect/Spec/SpecTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "sluice/Dialect/Spec/SpecAttributes.h.inc"

namespace sluice::spec {
class WeightList;
/// Verifies the types of a stage's results, and the words and objects among the values of its keys.
llvm::LogicalResult verifyStage(mlir::Operation *stage);
} // namespace sluice::spec
#include "sluice/Dialect/Spec/SpecInterfaces.h.inc"

namespace sluice::spec {
class BoundariesOp;
class InputOp;
} // namespace sluice::spec

#define GET_OP_CLASSES
#include "sluice/Dialect/Spec/SpecOps.h.inc"

namespace sluice::spec {

/// Name of the head's loss in reports.
constexpr llvm::StringLiteral mainLossName = "next";

/// Returns the types of the segmentations of stages in the expansion of a composite stage, in the
/// order of its levels. `word` is the composite's name, and `input` its input stream.
llvm::SmallVector<mlir::Type>
getInnerSegmentations(llvm::StringRef word, mlir::DictionaryAttr attributes, StreamType input);

/// Returns the attribute of a word of the enumeration of this C++ name; null if it has no such
/// word. A hyphen in a spec is an underscore here.
mlir::Attribute getWordAttr(mlir::MLIRContext *context, llvm::StringRef enumeration,
                            llvm::StringRef word);

/// Returns the location of an op at `place`, with the source locations of its keys' values. Nested
/// keys have dotted names: "mask.window".
mlir::Location getStageLoc(mlir::Location place, mlir::DictionaryAttr keys);
/// Returns the source location of a key's value, or of the op if the key was not written.
mlir::Location getKeyLoc(mlir::Operation *op, llvm::StringRef key);

/// Returns the value of a key of a stage, for code that addresses keys by name; null if it is not
/// set.
mlir::Attribute getKeyValue(mlir::Operation *stage, llvm::StringRef key);
/// Returns true if the key was written, in the stage or in `defaults`.
bool isWritten(mlir::Operation *op, llvm::StringRef key);
/// Returns true if `defaults` supplied the value of a key of "local" or "global" layers,
/// "local.mask" for example.
bool isInherited(mlir::Operation *op, llvm::StringRef key);
/// Emits an error at the value of a key, or at the op if the key was not written.
mlir::InFlightDiagnostic emitKeyError(mlir::Operation *op, llvm::StringRef key);
/// Returns the locations of keys below `prefix`, without it: {"window" = ...} of "mask.window" for
/// "mask".
mlir::DictionaryAttr getNestedKeys(mlir::Operation *op, llvm::StringRef prefix);

/// Returns true if a word may be the name of a function, a scale or a place of a plan.
bool isPlanName(llvm::StringRef name);

/// Returns true for relative terms whose tables have distances in both directions.
inline bool isSigned(RelativeTerms terms) {
  return terms == RelativeTerms::signed_bias || terms == RelativeTerms::vectors;
}
/// Returns true for relative terms that have a table by distance.
inline bool hasDistanceTable(RelativeTerms terms) {
  return terms == RelativeTerms::bias || isSigned(terms);
}
/// The names that `isPlanName` accepts, for messages.
inline constexpr llvm::StringLiteral planNameRule =
    "a lower-case letter, then such letters, digits and _, and no word that sluice uses itself";

/// Returns a description such as "the result of the shorten stage at a.json:7:5, on scale 4".
std::string describeStream(mlir::Value stream);
/// Returns a source location such as "a.json:7:5".
std::string describePlace(mlir::Location location);

} // namespace sluice::spec
