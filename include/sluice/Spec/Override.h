// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A spec with a setting replaced, as the command line may ask.
#ifndef SLUICE_SPEC_OVERRIDE_H
#define SLUICE_SPEC_OVERRIDE_H

#include "sluice/Spec/Spec.h"

namespace sluice::spec {

/// The spec with `compute` ("f32" or "bf16") as its precision's; every other byte and the
/// number of lines stay. Text that is no JSON object comes back as it is.
std::string withCompute(const std::string &text, const std::string &file,
                        const std::string &compute);

/// readFile, of the spec with another `compute`; the model's text is the changed one.
std::optional<Model> readFileWithCompute(const std::string &path, const std::string &compute,
                                         Diagnostic &error);

} // namespace sluice::spec

#endif // SLUICE_SPEC_OVERRIDE_H
