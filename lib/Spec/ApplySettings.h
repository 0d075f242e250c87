// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How settings get into a spec's text; inside the library, as both throw or take Failure.
#ifndef SLUICE_LIB_SPEC_APPLYSETTINGS_H
#define SLUICE_LIB_SPEC_APPLYSETTINGS_H

#include "Json.h"
#include "sluice/Spec/Override.h"

namespace sluice::spec {

/// `text` with the settings put in. Throws Failure where it is no JSON or a path leads nowhere.
std::string withSettings(std::string text, const std::string &file,
                         const std::vector<Setting> &settings);

/// Puts the flags whose doing it is before the message of a failure to read `changed`, which
/// withSettings made of `original`.
void blameSettings(Diagnostic &error, const std::string &original, const std::string &changed,
                   const std::vector<Setting> &settings);

} // namespace sluice::spec

#endif // SLUICE_LIB_SPEC_APPLYSETTINGS_H
