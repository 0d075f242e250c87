// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A spec with settings replaced, as the command line may ask.
#ifndef SLUICE_SPEC_OVERRIDE_H
#define SLUICE_SPEC_OVERRIDE_H

#include "sluice/Spec/Diagnostic.h"

#include <functional>
#include <optional>
#include <vector>

namespace sluice::spec {

/// A value that a flag puts into a spec.
struct SpecOverride {
  std::string flag;              ///< as the user wrote it, for messages: "--set width=64"
  std::vector<std::string> path; ///< keys, and indices of arrays: {"stages", "1", "hierarchy"}
  std::string value;             ///< JSON, on one line
};

/// The setting that `--set KEY=VALUE` means. VALUE is JSON; other text is a string, unless it
/// begins like an object, an array or a string. Returns nothing and sets `mistake` where it is not
/// of this form.
std::optional<SpecOverride> parseSetting(const std::string &written, std::string &mistake);

/// The flag of the setting whose value stands at a place of `changed`, the spec with `settings`
/// put in; of several the last, empty where there is none.
std::string flagAt(const std::string &changed, const std::vector<SpecOverride> &settings,
                   const SourceLocation &place);

/// The flags of all settings, as they were given.
std::string allFlags(const std::vector<SpecOverride> &settings);

/// `--precision COMPUTE`: precision.compute.
SpecOverride computeSetting(const std::string &compute);

/// Applies settings to a text in order: a later one wins. A key that the spec lacks is added first
/// in its object. Every other byte and the number of lines stay, so only columns after a change on
/// its line move. Throws Failure where it is no JSON or a path leads nowhere.
std::string withSettings(std::string text, const std::string &file,
                         const std::vector<SpecOverride> &settings);

/// Puts the flags that caused an error in `changed`, the text with `settings`, before its message:
/// the flag of the setting whose value is there, or all flags if the text without them is valid.
void blameSettings(Diagnostic &error, const std::string &changed,
                   const std::vector<SpecOverride> &settings,
                   const std::function<bool()> &isOriginalValid);

} // namespace sluice::spec

#endif // SLUICE_SPEC_OVERRIDE_H
