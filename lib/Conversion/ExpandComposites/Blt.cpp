// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The byte latent transformer (Pagnoni et al. 2024).
#include "Expansions.h"
#include "StageList.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

Value spec::expandBlt(BltOp op, StageAppender &appender) {
  StageList list(op, appender);
  list.addLayers(getCount(op.getLayers(), 0), "local");
  Value bytes = list.getLast();
  Value segments = list.addBoundaries(bytes, op.getBoundaries(), getNestedKeys(op, "boundaries"),
                                      {{"name", "blt"}});
  list.add("shorten", {bytes, segments}, {{"method", stringifyShortenMethod(op.getMethod())}});
  list.resize(op.getWidth().value_or(0));
  list.addAttend(list.getLast(), bytes, segments, op.getParts());
  list.addLayers(getCount(op.getLayers(), 1), "global");
  Value patches = list.getLast();
  for (int64_t i = 0; i < getCount(op.getLayers(), 2); ++i) {
    list.addAttend(i == 0 ? bytes : list.getLast(), patches, segments, op.getParts());
    list.addLayers(1, "local");
  }
  list.addNorm("local");
  return list.getLast();
}
