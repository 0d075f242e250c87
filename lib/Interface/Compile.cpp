// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of the C interface that need no model: check and compile.
#include "Record.h"
#include "sluice/Loading/Recompile.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Limits.h"
#include "sluice/Support/Outputs.h"
#include "sluice/Support/Text.h"

#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>

namespace sluice::interface {
namespace {

/// Maximum number of ops of a model whose leak is replayed: the reference takes minutes for more.
constexpr int64_t mostOpsToReplay = 4000;

/// Proves a spec; searches for advice on a leak and replays it. Throws UserError and JobError for
/// what cannot be read.
CausalVerdict prove(const sluice_spec &spec) {
  driver::CheckRequest request;
  request.spec = spec.path;
  if (spec.text) {
    request.text = spec.text;
  }
  request.replay = false;
  driver::CheckOutcome check = driver::check(request);
  if (!check.isDecided) {
    requireDone(check.outcome);
  }
  if (check.verdict.witness && check.ops <= mostOpsToReplay) {
    request.replay = true;
    request.advice = false;
    driver::CheckOutcome replayed = driver::check(request);
    if (replayed.isDecided && replayed.verdict.witness) {
      replayed.verdict.fix = check.verdict.fix;
      replayed.verdict.noFix = check.verdict.noFix;
      return replayed.verdict;
    }
  }
  return check.verdict;
}

sluice_spec readSpec(const sluice_spec *given) {
  require(given, "spec");
  sluice_spec spec = readOptions(given);
  require(spec.path, "spec.path");
  if (!spec.text) {
    requireKind(spec.path, FileKind::Spec, "a model spec");
  }
  return spec;
}

/// Throws UserError for an option that is a text without a character.
void requireText(const char *value, const char *name, const char *example) {
  if (value && !*value) {
    throw UserError(std::string(name) + ": expected a text such as " + example +
                    ", found an empty one; leave it out for the default");
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

sluice_status sluice_check(const sluice_spec *given, char **verdict) {
  return guard([&] {
    sluice_spec spec = readSpec(given);
    CausalVerdict proved;
    runCancellable([&] { proved = prove(spec); });
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

sluice_status sluice_compile(const sluice_spec *givenSpec, const sluice_compile_options *given,
                             const char *output) {
  return guard([&] {
    sluice_spec spec = readSpec(givenSpec);
    require(output, "output");
    sluice_compile_options options = readOptions(given);
    requireText(options.targets, "targets", "cpu-avx2,sm_80");
    requireText(options.precision, "precision", "bf16");
    requireText(options.weights, "weights", "int8");
    std::string weights = options.weights ? options.weights : "";
    if (!weights.empty() && weights != "bf16" && weights != "int8" && weights != "int4") {
      throw UserError("weights: expected bf16, int8 or int4, found \"" + weights +
                      "\"; leave it out for the type of training");
    }
    if (options.memory_budget < 0) {
      throw UserError("memory_budget: expected a number of bytes of at least 0, found " +
                      std::to_string(options.memory_budget) + "; 0 sets no limit");
    }
    if (options.generation_rows < 0 || options.generation_rows > mostGenerationRows) {
      throw UserError("generation_rows: expected a number from 1 to " +
                      std::to_string(mostGenerationRows) + ", or 0 for 16, found " +
                      std::to_string(options.generation_rows) + "; give another");
    }
    checkOutputs({{"output", output, FileKind::Artifact}},
                 spec.text ? std::vector<Path>() : std::vector<Path>{spec.path}, false);
    driver::CompileRequest request;
    request.spec = spec.path;
    if (spec.text) {
      request.text = spec.text;
    }
    request.output = output;
    if (options.targets) {
      request.targets = splitTargets(options.targets);
    } else {
      loading::setMachine(request);
    }
    request.precision = options.precision ? options.precision : "";
    request.weights = weights;
    if (options.memory_budget > 0) {
      request.memoryBudget = options.memory_budget;
    }
    if (options.generation_rows > 0) {
      request.generationRows = options.generation_rows;
    }
    request.allowLeak = options.allow_leak != 0;
    driver::Outcome outcome;
    std::optional<CausalVerdict> leak;
    runCancellable([&] {
      outcome = driver::compile(request);
      if (outcome.isLeak) {
        leak = prove(spec);
      }
    });
    if (leak) {
      throw LeakFound(*leak);
    }
    requireDone(outcome);
  });
}
