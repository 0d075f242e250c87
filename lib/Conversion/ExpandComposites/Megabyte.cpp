// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MEGABYTE (Yu et al. 2023).
#include "Expansions.h"
#include "StageList.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

Value spec::expandMegabyte(MegabyteOp op, StageAppender &appender) {
  StageList list(op, appender);
  int64_t patch = op.getPatch();
  list.add("shorten",
           {{"factor", patch}, {"method", "concatenate"}, {"width", op.getWidth().value_or(0)}});
  list.addLayers(getCount(op.getLayers(), 0), "global");
  list.addNorm("global");
  list.add("upsample",
           {{"factor", patch}, {"method", "split"}, {"width", getOuterWidth(op, op.getWidth())}});
  Value patches = list.add("shift", {{"by", patch - 1}, {"start", "null"}});
  list.add("project", op.getInput(), {{"bias", false}});
  list.add("add", {list.getLast(), patches}, {});
  list.add("replace", {list.getLast(), patches}, {{"block", patch}, {"start", patch - 1}});
  list.addBlocks(getCount(op.getLayers(), 1), patch);
  list.addNorm("local");
  return list.getLast();
}
