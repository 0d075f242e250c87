// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts of the conversion that its sources share: the module around the functions, the conversions
// of stages by the name of the op, and bits and rows of segments.
#pragma once

#include "StageContext.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Dialect/Spec/Spec.h"

#include <functional>

namespace sluice::spec_to_sluice {

//===----------------------------------------------------------------------===//
// Module
//===----------------------------------------------------------------------===//

/// Sets facts of the model as a whole on the module: sizes, name and settings of training.
void setModuleAttributes(mlir::Operation *module, spec::ModelOp model);
/// Adds axes of tokens, inputs and segments, and the scales on them.
void addScales(mlir::ImplicitLocOpBuilder &builder, spec::ModelOp model);
/// Adds a parameter for each weight, or for weights that are parts of one.
void addParameters(mlir::ImplicitLocOpBuilder &builder, spec::ModelOp model);

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

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
void populateRecurrenceConversions(StageConversions &conversions);
void populateResamplingConversions(StageConversions &conversions);
void populateBoundariesConversions(StageConversions &conversions);
void populateGraphConversions(StageConversions &conversions);
void populateAttendConversions(StageConversions &conversions);
void populateLossConversions(StageConversions &conversions);

/// Creates the attention of groups of heads, each with its own keys, values and mask.
mlir::Value convertGroupedAttention(StageContext &context, spec::LayerOp op, mlir::Value x);

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// Creates the bits of a stage's rule, f32 0 or 1, by token or by row (Rules.cpp).
mlir::Value createRuleBits(StageContext &context, spec::BoundariesOp op);
/// Creates bits where a row adds much to the coding rate of the rows before it (CodingRate.cpp).
mlir::Value createCodingRateBits(StageContext &context, spec::BoundariesOp op);
/// Sets bits to 1 where a document ends, and in the first row if bits begin segments
/// (Documents.cpp).
mlir::Value createForcedBits(StageContext &context, spec::BoundariesOp op, mlir::Value bits);
/// Creates bits of closed segments. The axis has more rows than closed segments, and all are
/// computed.
mlir::Value createClosedBits(StageContext &context, mlir::Value bits);
/// Spreads one number per row of the stage's scale to the tokens: the number of a segment is at the
/// token that ends it, with zeros elsewhere; the number of a group is shared by its tokens.
mlir::Value createTokenNumbers(StageContext &context, mlir::Value x);

/// Creates bits that a predictor computes from the stream, and its loss: against the rule's bits,
/// or the prior (Predictor.cpp).
mlir::Value createPredictedBits(StageContext &context, spec::BoundariesOp op);
/// Computes the losses of predictors that wait for the softmax of `loss`.
void superviseWaiting(StageContext &context, llvm::StringRef loss);
/// Creates bits where maps of a row and of the row before it have a cosine of at most 0, and the
/// router's loss (Router.cpp).
mlir::Value createRoutedBits(StageContext &context, spec::BoundariesOp op);
/// Returns the inner product of two rows, one number per row.
mlir::Value createInnerProduct(StageContext &context, llvm::StringRef part, mlir::Value x,
                               mlir::Value y);

/// Returns the numbers of a loss and, if training moves its target, the number of the update after
/// them (Targets.cpp). Evaluation always uses the last target.
llvm::SmallVector<mlir::Value> addUpdate(StageContext &context, spec::BoundariesOp op,
                                         llvm::SmallVector<mlir::Value> numbers);
/// Returns -log a and -log(1 - a) for the prior's share a.
std::pair<ScalarValue, ScalarValue> createBitCosts(StageContext &context, spec::BoundariesOp op,
                                                   llvm::ArrayRef<ScalarValue> update);
/// Returns N / (N - 1) and N - 1, where N is the router's target number of rows per segment.
std::pair<ScalarValue, ScalarValue> createRatio(StageContext &context, spec::BoundariesOp op,
                                                llvm::ArrayRef<ScalarValue> update);

/// Creates rows of segments from rows of the stream (Pooling.cpp), and rows of the stream from rows
/// of segments.
mlir::Value poolSegments(StageContext &context, spec::ShortenOp op);
mlir::Value spreadSegments(StageContext &context, spec::UpsampleOp op);
using ScalarJoin = llvm::function_ref<ScalarValue(llvm::ArrayRef<ScalarValue>)>;
/// Creates a recurrence over rows: row t is `join` of row t of each input and of the row before it,
/// zeros before the first.
mlir::Value createScan(StageContext &context, mlir::ValueRange inputs, ScalarJoin join);
/// Returns the type of rows like `rows`, on the scale of `scale`.
SequenceType withScale(StageContext &context, mlir::Value rows, mlir::Value scale);
/// Creates sums of the rows of each segment, or means.
mlir::Value createSegmentSums(StageContext &context, mlir::Value x, const Segmentation &of,
                              bool isMean = false);
/// Creates in each row the row of its own segment.
mlir::Value createOwnSegments(StageContext &context, mlir::Value x, const Segmentation &of);
/// Creates the first row of the segment of each row, and the row after its last one, i32, named
/// after `part`.
llvm::SmallVector<mlir::Value> createSegmentRange(StageContext &context, const std::string &part,
                                                  const Segmentation &of);
/// Creates the number of rows of each segment, in one column.
mlir::Value createSegmentSizes(StageContext &context, const Segmentation &of);
/// Multiplies each row by a function of its number in `numbers`, which have one column.
mlir::Value createGatedRows(StageContext &context, mlir::Value x, mlir::Value numbers,
                            llvm::function_ref<ScalarValue(ScalarValue)> gate);

} // namespace sluice::spec_to_sluice
