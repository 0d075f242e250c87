// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SpaceByte (Slagle 2024).
#include "Expansions.h"
#include "StageList.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

Value spec::expandSpaceByte(SpaceByteOp op, StageAppender &appender) {
  StageList list(op, appender);
  list.addLayers(getCount(op.getLayers(), 0), "local");
  Value local = list.getLast();
  DictionaryAttr own = op.getBoundaries().value_or(DictionaryAttr());
  SmallVector<StageSetting> settings = {{"name", "spacebyte"}, {"at", "start"}};
  if (!own || !own.get("ratio")) {
    settings.push_back({"rule", "space_like"});
  }
  Value segments = list.addBoundaries(local, own, getNestedKeys(op, "boundaries"), settings);
  list.add("shorten", {local, segments}, {{"method", "first"}});
  list.resize(op.getWidth().value_or(0));
  list.addLayers(getCount(op.getLayers(), 1), "global");
  list.resize(getOuterWidth(op, op.getWidth()));
  list.add("upsample", {list.getLast(), segments}, {{"method", "scatter"}});
  list.add("add", {list.getLast(), local}, {});
  list.addLayers(getCount(op.getLayers(), 2), "local");
  list.addNorm("local");
  return list.getLast();
}
