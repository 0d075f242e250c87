// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Streams.h"

#include "Recompile.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Spec/Expansion.h"

namespace sluice::cli {

using namespace sluice::runtime;

/// What a stage makes last: a stream of the tokens, or whatever it makes.
static std::optional<spec::Primitive> findLast(const std::vector<spec::Primitive> &primitives,
                                               const std::string &stage, bool ofTokens) {
  std::optional<spec::Primitive> last;
  for (const spec::Primitive &each : primitives) {
    bool makes = each.prefix == stage || each.prefix.starts_with(stage + ".");
    bool isStream = each.axis.empty() && each.segments.empty() && each.op() != spec::Op::Head &&
                    each.op() != spec::Op::Loss && each.op() != spec::Op::Boundaries;
    last = makes && (isStream || !ofTokens) ? each : last;
  }
  return last;
}

/// Why a stage's result is no stream of the tokens; empty where there is no such stage.
static std::string describeOther(const std::optional<spec::Primitive> &made) {
  if (!made) {
    return "";
  }
  return !made->axis.empty()       ? ", whose rows are those of the input " + made->axis
         : !made->segments.empty() ? ", whose rows are segments (" + made->segments + ")"
                                   : ", which makes no rows";
}

Stream findStream(const Plan &plan, const std::string &flag, const std::string &name) {
  spec::Model model = readSpecOf(plan, {});
  std::vector<std::pair<std::string, std::string>> named; // names that "to" gives, and their stages
  std::string stage = name;
  for (const spec::Stage &each : model.stages) {
    stage = !each.to.empty() && each.to == name ? each.prefix : stage;
    if (!each.to.empty()) {
      named.emplace_back(each.to, each.prefix);
    }
  }
  model = plan.factors.empty() ? model : model.withFactor(plan.factors.front());
  std::vector<spec::Primitive> primitives = spec::expand(model);
  std::optional<spec::Primitive> last = findLast(primitives, stage, /*ofTokens=*/true);
  if (!last) {
    std::string names;
    for (const auto &[own, prefix] : named) {
      bool isTaken = findLast(primitives, prefix, /*ofTokens=*/true).has_value();
      names += isTaken ? (names.empty() ? "" : ", ") + own : "";
    }
    throw UserError(flag +
                    ": expected a stream of the tokens: a stage such as stages.1.inside.2, or "
                    "a name that a stage's \"to\" gives" +
                    (names.empty() ? "" : " (" + names + ")") + ", found \"" + name + "\"" +
                    describeOther(findLast(primitives, stage, /*ofTokens=*/false)) +
                    "; name another");
  }
  return {last->prefix, last->factor};
}

std::unique_ptr<Executor> openStream(const Artifact &artifact, const Stream &stream,
                                     const DeviceOptions &device) {
  driver::CompileRequest request;
  request.everyRow = stream.stage;
  return recompile(artifact, request, device);
}

} // namespace sluice::cli
