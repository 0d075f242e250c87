// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Readers of the parts of a spec. All throw Failure.

#ifndef SLUICE_LIB_SPEC_STAGES_H
#define SLUICE_LIB_SPEC_STAGES_H

#include "Fields.h"

namespace sluice::spec {

/// The keys that `defaults`, `layer`, `layers` and `hourglass` have in common.
const std::vector<std::string_view> &layerKeys();

/// Layer settings of a stage of a model `width` features wide.
Layer readLayer(const Fields &fields, int64_t width);

/// Checks types and ranges of `defaults`, which need not be complete or fit the width.
void checkDefaults(const Fields &fields);

/// `norm` and `epsilon`.
Norm readNorm(const Fields &fields);

/// The value of `hierarchy`: "2@1 8@4 2@1".
std::vector<Hourglass::Level> readHierarchy(const Fields &fields);

/// A stage but for its `prefix`. `defaults` may be null.
Stage readStage(const JsonValue &value, const std::string &file, const Fields *defaults,
                int64_t width);

Training readTraining(const Fields &fields);

/// What reading checks on the expanded model: streams, scales, size. Throws Failure.
void checkExpansion(const Model &model);

} // namespace sluice::spec

#endif // SLUICE_LIB_SPEC_STAGES_H
