// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan dialect: registration.
#include "sluice/Dialect/Plan/Plan.h"

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
