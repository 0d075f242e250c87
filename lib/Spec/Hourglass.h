// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an hourglass stage becomes (docs/spec.md says it stage by stage).

#ifndef SLUICE_LIB_SPEC_HOURGLASS_H
#define SLUICE_LIB_SPEC_HOURGLASS_H

#include "Stages.h"

namespace sluice::spec {

/// An hourglass stage of a model `width` features wide.
Hourglass readHourglass(const Fields &fields, int64_t width);

/// The primitive stages of an hourglass over stream `input`; returns the last one's id.
int64_t expandHourglass(const Stage &stage, int64_t input, const AppendStage &append);

} // namespace sluice::spec

#endif // SLUICE_LIB_SPEC_HOURGLASS_H
