// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expansions of composite stages, one a file.
#pragma once

#include "StageAppender.h"

namespace sluice::spec {

// `expandHourglass` and so on: each adds the stages that replace a composite one, and returns the
// value that replaces its result.
#define SPEC_COMPOSITE(Name) mlir::Value expand##Name(Name##Op op, StageAppender &appender);
#include "sluice/Dialect/Spec/SpecComposites.inc"
#undef SPEC_COMPOSITE

} // namespace sluice::spec
