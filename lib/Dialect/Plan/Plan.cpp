// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the plan dialect: registration, and the facts of each op. Entry.cpp verifies launches.
#include "sluice/Dialect/Plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace sluice::plan;

#include "sluice/Dialect/Plan/PlanDialect.cpp.inc"

#define GET_OP_CLASSES
#include "sluice/Dialect/Plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "sluice/Dialect/Plan/PlanOps.cpp.inc"
      >();
}

/// Memory planning assigns memory to these classes; a place of another class would overlap them.
static LogicalResult verifyPlace(Operation *op, StringRef place) {
  auto [kind, name] = place.split(':');
  constexpr StringRef kinds[] = {"parameter", "compute",  "quantized", "scale",  "gradient", "flat",
                                 "scalar",    "constant", "input",     "output", "state"};
  if (llvm::is_contained(kinds, kind) && !name.empty()) {
    return success();
  }
  InFlightDiagnostic error = op->emitOpError("P-001: expected a place CLASS:NAME, of class ");
  llvm::interleaveComma(kinds, error);
  return error << ", found \"" << place << "\"";
}

static LogicalResult verifyStatic(Operation *op, Value value) {
  if (cast<RankedTensorType>(value.getType()).hasStaticShape()) {
    return success();
  }
  return op->emitOpError("P-002: expected a tensor of a static shape, found ") << value.getType();
}

LogicalResult BindOp::verify() {
  return failure(failed(verifyPlace(*this, getPlace())) || failed(verifyStatic(*this, getValue())));
}

LogicalResult StoreOp::verify() {
  return failure(failed(verifyPlace(*this, getPlace())) || failed(verifyStatic(*this, getValue())));
}

LogicalResult ViewOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  auto isDense = [](RankedTensorType type) { return type.hasStaticShape() && type.getRank() < 3; };
  if (isDense(source) && isDense(result) && source.getElementType() == result.getElementType() &&
      source.getNumElements() == result.getNumElements()) {
    return success();
  }
  return emitOpError("P-003: expected equally many elements of one type, of rank 2 or less, found ")
         << source << " and " << result;
}

LogicalResult BufferOp::verify() {
  if (static_cast<int64_t>(getOffset()) < 0 || static_cast<int64_t>(getBytes()) < 0 ||
      getDevice() != 0) {
    return emitOpError("P-004: expected an offset and bytes of at least 0 on device 0, found ")
           << static_cast<int64_t>(getOffset()) << ", " << static_cast<int64_t>(getBytes())
           << " on device " << static_cast<int64_t>(getDevice());
  }
  auto module = (*this)->getParentOfType<ModuleOp>();
  auto arena = module ? getFact<PlanDialect::ArenaBytesAttrHelper>(module) : IntegerAttr();
  bool isKnown = arena && arena.getType().isSignlessInteger(64);
  auto offset = static_cast<int64_t>(getOffset()), bytes = static_cast<int64_t>(getBytes());
  if (isKnown && (offset > arena.getInt() || bytes > arena.getInt() - offset)) {
    return emitOpError("P-021: expected the ")
           << bytes << " bytes of " << getPlace() << " in the arena of " << arena.getInt()
           << " bytes, found them at " << offset;
  }
  return verifyPlace(*this, getPlace());
}

LogicalResult KernelOp::verify() {
  auto written = static_cast<int64_t>(getWritten());
  ArrayRef<int64_t> bytes = getOperandBytes();
  if (written < 0 || written > static_cast<int64_t>(bytes.size()) ||
      llvm::any_of(bytes, [](int64_t size) { return size < 0; })) {
    return emitOpError(
               "P-005: expected bytes of at least 0, of which at most all are written, found ")
           << written << " of " << bytes.size() << " that are written";
  }
  for (NamedAttribute variant : getVariants()) {
    if (!isa<DictionaryAttr>(variant.getValue())) {
      return emitOpError("P-006: expected a dictionary for each target, found ")
             << variant.getValue() << " for " << variant.getName();
    }
    for (StringRef name : {workspaceBytesName, countersName}) {
      Attribute found = cast<DictionaryAttr>(variant.getValue()).get(name);
      auto number = dyn_cast_or_null<IntegerAttr>(found);
      bool fits = number && number.getType().isSignlessInteger(64) && number.getInt() >= 0;
      if (found && !fits) {
        return emitOpError("P-019: expected ")
               << name << ", an i64 of at least 0, found " << found << " for " << variant.getName();
      }
    }
  }
  return success();
}
