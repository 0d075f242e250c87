// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Recompile.h"

#include "sluice/Support/Error.h"

namespace sluice::cli {

void addSettings(CLI::App &command, std::vector<std::string> &written, const std::string &help) {
  command.add_option("--set", written, help)
      ->type_name("KEY=VALUE")
      ->default_str("")
      ->allow_extra_args(false);
}

std::vector<spec::SpecOverride> parseSettings(const std::vector<std::string> &written) {
  std::vector<spec::SpecOverride> settings;
  for (const std::string &each : written) {
    std::string mistake;
    std::optional<spec::SpecOverride> setting = spec::parseSetting(each, mistake);
    if (!setting) {
      throw UserError(mistake);
    }
    settings.push_back(std::move(*setting));
  }
  return settings;
}

} // namespace sluice::cli
