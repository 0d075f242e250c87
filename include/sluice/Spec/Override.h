// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A spec with settings replaced, as the command line may ask.
#ifndef SLUICE_SPEC_OVERRIDE_H
#define SLUICE_SPEC_OVERRIDE_H

#include "sluice/Spec/Diagnostic.h"

#include <optional>
#include <vector>

namespace sluice::spec {

/// A value that a flag puts into a spec.
struct Setting {
  std::string flag;              ///< as the user wrote it, for messages: "--set width=64"
  std::vector<std::string> path; ///< keys, and indices of arrays: {"stages", "1", "hierarchy"}
  std::string value;             ///< JSON, on one line
};

/// The setting that `--set KEY=VALUE` means. VALUE is JSON; other text is a string, unless it
/// begins like an object, an array or a string. Returns nothing and sets `mistake` where it is not
/// of this form.
std::optional<Setting> parseSetting(const std::string &written, std::string &mistake);

/// The flag of the setting whose value stands at a place of `changed`, the spec with `settings`
/// put in; of several the last, empty where there is none.
std::string flagAt(const std::string &changed, const std::vector<Setting> &settings,
                   const SourceLocation &place);

/// The flags of all settings, as they were given.
std::string allFlags(const std::vector<Setting> &settings);

/// `--precision COMPUTE`: precision.compute.
Setting computeSetting(const std::string &compute);

} // namespace sluice::spec

#endif // SLUICE_SPEC_OVERRIDE_H
