// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of the C interface that need no model: check and compile.
#include "Record.h"
#include "sluice/Loading/Recompile.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Outputs.h"

#include <cstdlib>
#include <cstring>
#include <sstream>

namespace sluice::interface {
namespace {

/// Proves a spec without advice and replays. Throws UserError and JobError for what cannot be read.
CausalVerdict prove(const sluice_spec &spec) {
  driver::CheckRequest request;
  request.spec = spec.path;
  if (spec.text) {
    request.text = spec.text;
  }
  request.replay = false;
  request.advice = false;
  driver::CheckOutcome check = driver::check(request);
  if (!check.isDecided) {
    requireDone(check.outcome);
  }
  if (check.verdict.witness) {
    check.verdict.witness->whyNotRun = "check";
  }
  return check.verdict;
}

void requireSpec(const sluice_spec *spec) {
  require(spec, "spec");
  require(spec->path, "spec.path");
  if (!spec->text) {
    requireKind(spec->path, FileKind::Spec, "a model spec");
  }
}

std::vector<std::string> splitTargets(const char *targets) {
  std::vector<std::string> list;
  std::istringstream stream(targets);
  for (std::string target; std::getline(stream, target, ',');) {
    list.push_back(target);
  }
  return list;
}

} // namespace
} // namespace sluice::interface

using namespace sluice;
using namespace sluice::interface;

sluice_status sluice_check(const sluice_spec *spec, char **verdict) {
  return guard([&] {
    requireSpec(spec);
    CausalVerdict proved = prove(*spec);
    if (!proved.isProved()) {
      throw LeakFound(proved);
    }
    if (verdict) {
      *verdict = ::strdup(proved.formatWithoutReplay().c_str());
      if (!*verdict) {
        throw std::bad_alloc();
      }
    }
  });
}

void sluice_free_text(char *text) { std::free(text); }

sluice_status sluice_compile(const sluice_spec *spec, const sluice_compile_options *given,
                             const char *output) {
  return guard([&] {
    requireSpec(spec);
    require(output, "output");
    sluice_compile_options options = readOptions(given);
    if (options.memory_budget < 0) {
      throw UserError("memory_budget: expected a number of bytes of at least 0, found " +
                      std::to_string(options.memory_budget) + "; 0 sets no limit");
    }
    checkOutputs({{"output", output, FileKind::Artifact}},
                 spec->text ? std::vector<Path>() : std::vector<Path>{spec->path}, false);
    driver::CompileRequest request;
    request.spec = spec->path;
    if (spec->text) {
      request.text = spec->text;
    }
    request.output = output;
    request.targets = options.targets ? splitTargets(options.targets)
                                      : std::vector<std::string>{loading::chooseCpuTarget()};
    request.precision = options.precision ? options.precision : "";
    if (options.memory_budget > 0) {
      request.memoryBudget = options.memory_budget;
    }
    request.allowLeak = options.allow_leak != 0;
    driver::Outcome outcome = driver::compile(request);
    if (outcome.isLeak) {
      throw LeakFound(prove(*spec));
    }
    requireDone(outcome);
  });
}
