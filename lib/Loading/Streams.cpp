// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Loading/Streams.h"

#include "sluice/Loading/Recompile.h"
#include "sluice/Support/Error.h"

namespace sluice::loading {

using namespace sluice::runtime;

/// The last result of a stage: a stream of the tokens, or any.
static std::optional<StreamFacts> findLast(const std::vector<StreamFacts> &streams,
                                           const std::string &stage, bool ofTokens) {
  std::optional<StreamFacts> last;
  for (const StreamFacts &each : streams) {
    bool isOfStage = each.stage == stage || each.stage.starts_with(stage + ".");
    bool isTaken = each.rows == StreamFacts::RowAxis::tokens || !ofTokens;
    last = isOfStage && isTaken ? each : last;
  }
  return last;
}

/// The reason why a stage's result is not a stream of the tokens; empty if there is no such stage.
static std::string describeOther(const std::optional<StreamFacts> &result) {
  if (!result) {
    return "";
  }
  return result->rows == StreamFacts::RowAxis::input
             ? ", whose rows are those of the input " + result->of
         : result->rows == StreamFacts::RowAxis::segments
             ? ", whose rows are segments (" + result->of + ")"
             : ", which makes no rows";
}

/// Returns ", such as stages.0, stages.1": the stages of the top level that have a stream of the
/// tokens.
static std::string listStages(const std::vector<StreamFacts> &streams) {
  std::string list, last;
  for (const StreamFacts &each : streams) {
    std::string stage = each.stage.substr(0, each.stage.find('.', each.stage.find('.') + 1));
    if (each.rows == StreamFacts::RowAxis::tokens && stage != last) {
      list += (list.empty() ? ", such as " : ", ") + stage;
      last = stage;
    }
  }
  return list;
}

ModelStream findStream(const Plan &plan, const std::string &flag, const std::string &name) {
  const SpecFacts &facts = requireFacts(plan);
  std::string stage = name;
  for (const StreamName &each : facts.names) {
    stage = each.name == name ? each.stage : stage;
  }
  std::optional<StreamFacts> last = findLast(facts.streams, stage, /*ofTokens=*/true);
  if (!last) {
    std::string names;
    for (const StreamName &each : facts.names) {
      bool isTaken = findLast(facts.streams, each.stage, /*ofTokens=*/true).has_value();
      names += isTaken ? (names.empty() ? "" : ", ") + each.name : "";
    }
    throw UserError(flag +
                    ": expected a stream of the tokens: a stage such as stages.1.inside.2, or "
                    "a name that a stage's \"to\" gives" +
                    (names.empty() ? "" : " (" + names + ")") + ", found \"" + name + "\"" +
                    describeOther(findLast(facts.streams, stage, /*ofTokens=*/false)) +
                    "; name another" + listStages(facts.streams));
  }
  return {last->value, last->factor};
}

std::unique_ptr<Executor> openStream(const Artifact &artifact, const ModelStream &stream,
                                     const DeviceOptions &device) {
  driver::CompileRequest request;
  request.everyRow = stream.stage;
  return recompile(artifact, request, device);
}

} // namespace sluice::loading
