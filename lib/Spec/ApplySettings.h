// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How settings get into a spec's text; inside the library, as both throw or take Failure.
#ifndef SLUICE_LIB_SPEC_APPLYSETTINGS_H
#define SLUICE_LIB_SPEC_APPLYSETTINGS_H

#include "Json.h"
#include "sluice/Spec/Override.h"

#include <functional>

namespace sluice::spec {

/// Applies settings to a text in order: a later one wins. A key that the spec lacks is added first
/// in its object. Every other byte and the number of lines stay, so only columns after a change on
/// its line move. Throws Failure where it is no JSON or a path leads nowhere.
std::string withSettings(std::string text, const std::string &file,
                         const std::vector<Setting> &settings);

/// Puts the flags that caused an error in the text with `settings` before its message: the flag of
/// the setting whose value is there, or all where the text without them is valid.
void blameSettings(Diagnostic &error, const std::string &changed,
                   const std::vector<Setting> &settings,
                   const std::function<bool()> &isOriginalValid);

} // namespace sluice::spec

#endif // SLUICE_LIB_SPEC_APPLYSETTINGS_H
