// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Block Transformer (Ho et al. 2024).
#include "Expansions.h"
#include "StageList.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

Value spec::expandBlockTransformer(BlockTransformerOp op, StageAppender &appender) {
  StageList list(op, appender);
  int64_t block = op.getBlock();
  list.add("shorten",
           {{"factor", block}, {"method", "concatenate"}, {"width", op.getWidth().value_or(0)}});
  list.addLayers(getCount(op.getLayers(), 0), "global");
  list.addNorm("global");
  list.add("upsample", {{"factor", block}});
  list.add("shift", {{"by", block - 1}});
  Value prefix =
      list.add("project", {{"bias", false}, {"width", getOuterWidth(op, op.getWidth())}});
  list.add("project", op.getInput(), {{"bias", false}});
  list.add("replace", {list.getLast(), prefix}, {{"block", block}, {"start", block - 1}});
  list.addBlocks(getCount(op.getLayers(), 1), block);
  list.addNorm("local");
  return list.getLast();
}
