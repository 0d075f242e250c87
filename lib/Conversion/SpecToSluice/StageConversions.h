// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registers the conversions of stages by the name of the op.
#pragma once

#include "StageContext.h"

#include <functional>

namespace sluice::spec_to_sluice {

/// A table of functions that convert one stage each. A function returns the rows of the stage's
/// result; for a stage without a result, its logits or losses.
class StageConversions {
public:
  using Conversion = std::function<mlir::Value(StageContext &, mlir::Operation *)>;

  template <typename Op> void add(mlir::Value (*convert)(StageContext &, Op)) {
    table[Op::getOperationName()] = [convert](StageContext &context, mlir::Operation *stage) {
      return convert(context, llvm::cast<Op>(stage));
    };
  }
  /// Returns the conversion of a stage; null for a composite stage.
  Conversion lookup(mlir::Operation *stage) const {
    return table.lookup(stage->getName().getStringRef());
  }

private:
  llvm::StringMap<Conversion> table;
};

void populateEmbeddingConversions(StageConversions &conversions);
void populateLayerConversions(StageConversions &conversions);
void populateMapConversions(StageConversions &conversions);
void populateResamplingConversions(StageConversions &conversions);
void populateBoundariesConversions(StageConversions &conversions);
void populateAttendConversions(StageConversions &conversions);
void populateLossConversions(StageConversions &conversions);

} // namespace sluice::spec_to_sluice
