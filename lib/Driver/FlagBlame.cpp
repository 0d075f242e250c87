// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "FlagBlame.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/Verdict.h"

using namespace mlir;
using namespace sluice;

static bool isProvedSpec(const ParsedSpec &spec) {
  return checkCausality(importVariants(spec), /*replay=*/false).isProved();
}

void driver::blameSettings(CausalVerdict &verdict, const std::string &changed,
                           const std::vector<spec::SpecOverride> &settings,
                           const std::function<std::optional<ParsedSpec>()> &readOriginal) {
  if (verdict.isProved() || settings.empty()) {
    return;
  }
  std::string flags = spec::flagAt(changed, settings, verdict.place);
  if (flags.empty()) {
    std::optional<ParsedSpec> original = readOriginal();
    flags = original && isProvedSpec(*original) ? spec::allFlags(settings) : "";
  }
  verdict.message = (flags.empty() ? "" : flags + ": ") + verdict.message;
}
