// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declares the expansions of composite stages, one per file.
#pragma once

#include "StageAppender.h"

namespace sluice::spec {

// Declares `expandHourglass` and so on: each adds the stages that replace a composite stage, and
// returns the value that replaces its result.
#define SPEC_COMPOSITE(Name) mlir::Value expand##Name(Name##Op op, StageAppender &appender);
#include "sluice/Dialect/Spec/SpecComposites.inc"
#undef SPEC_COMPOSITE

} // namespace sluice::spec
