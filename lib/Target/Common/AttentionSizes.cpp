// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Requirements on attention ops that all targets share.
#include "sluice/Target/Common/AttentionSizes.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::target;

template <typename Op> AttentionSizes target::attentionSizes(Op op) {
  AttentionSizes sizes{};
  sizes.batch = op.getDomain().getBatch();
  sizes.queries = op.getDomain().getPositions();
  sizes.keys = op.getKeys().getPositions();
  sizes.heads = op.getHeads();
  sizes.kvHeads = op.getKvHeads();
  sizes.head = op.getHeadSize();
  sizes.group = sizes.heads / sizes.kvHeads;
  sizes.queryColumn = op.getQueryColumn();
  sizes.keyColumn = op.getKeyColumn();
  sizes.valueColumn = op.getValueColumn();
  sizes.dropout = op.getDropout().convertToFloat();
  sizes.randomId = op.getRandomId();
  sizes.drawnQueries = sizes.queries * static_cast<int64_t>(op.getDrawParts());
  sizes.drawnKeys = sizes.keys * static_cast<int64_t>(op.getDrawParts());
  return sizes;
}

template AttentionSizes target::attentionSizes(dispatch::AttentionOp op);
template AttentionSizes target::attentionSizes(dispatch::AttentionBackwardOp op);

template <typename Op> LogicalResult target::checkAttention(Op op) {
  int64_t heads = op.getHeads(), kvHeads = op.getKvHeads();
  if (kvHeads < 1 || heads % kvHeads != 0) {
    return op.emitError("expected heads to be a multiple of kv_heads, found ")
           << heads << " and " << kvHeads;
  }
  float dropout = op.getDropout().convertToFloat();
  if (!(dropout >= 0 && dropout < 1)) {
    return op.emitError("expected dropout in [0, 1), found ") << dropout;
  }
  IntegerSet mask = op.getMask();
  bool affine =
      llvm::all_of(mask.getConstraints(), [](AffineExpr expr) { return expr.isPureAffine(); });
  if (!affine || mask.getNumSymbols() > 1) {
    return op.emitError("expected a mask that is affine in (p, q) and one length, found ")
           << IntegerSetAttr::get(mask);
  }
  return success();
}

template LogicalResult target::checkAttention(dispatch::AttentionOp op);
template LogicalResult target::checkAttention(dispatch::AttentionBackwardOp op);
