// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Streams.h"

#include "Recompile.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Spec/Expansion.h"

namespace sluice::cli {

using namespace sluice::runtime;

Stream findStream(const Plan &plan, const std::string &flag, const std::string &name) {
  spec::Model model = readSpecOf(plan, {});
  std::string stage = name, names;
  for (const spec::Stage &each : model.stages) {
    stage = !each.to.empty() && each.to == name ? each.prefix : stage;
    names += each.to.empty() ? "" : (names.empty() ? "" : ", ") + each.to;
  }
  std::optional<spec::Primitive> last;
  model = plan.factors.empty() ? model : model.withFactor(plan.factors.front());
  for (const spec::Primitive &each : spec::expand(model)) {
    bool makes = each.prefix == stage || each.prefix.starts_with(stage + ".");
    bool isStream = each.axis.empty() && each.segments.empty() && each.op() != spec::Op::Head &&
                    each.op() != spec::Op::Loss && each.op() != spec::Op::Boundaries;
    last = makes && isStream ? each : last;
  }
  if (!last) {
    throw UserError(flag +
                    ": expected a stream of the tokens: a stage such as stages.1.inside.2, or "
                    "a name that a stage's \"to\" gives" +
                    (names.empty() ? "" : " (" + names + ")") + ", found \"" + name +
                    "\"; name another");
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
