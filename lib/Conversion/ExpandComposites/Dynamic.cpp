// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dynamic token pooling (Nawrot et al. 2023).
#include "Expansions.h"
#include "StageList.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

/// Adds layers and the norm after them.
static void addStack(StageList &list, int64_t count, StringRef side) {
  list.addLayers(count, side);
  if (count > 0) {
    list.addNorm(side);
  }
}

Value spec::expandDynamic(DynamicOp op, StageAppender &appender) {
  StageList list(op, appender);
  addStack(list, getCount(op.getLayers(), 0), "local");
  Value fine = list.getLast();
  Value segments = list.addBoundaries(fine, op.getBoundaries(), getNestedKeys(op, "boundaries"),
                                      {{"name", "dynamic"}});
  list.add("shorten", {fine, segments}, {{"method", stringifyShortenMethod(op.getMethod())}});
  list.add("shift", {{"by", int64_t{1}}, {"start", "null"}});
  list.resize(op.getWidth().value_or(0));
  addStack(list, getCount(op.getLayers(), 1), "global");
  list.resize(getOuterWidth(op, op.getWidth()));
  list.add("upsample", {list.getLast(), segments}, {{"by", int64_t{0}}});
  list.add("add", {list.getLast(), fine}, {});
  addStack(list, getCount(op.getLayers(), 2), "local");
  return list.getLast();
}
