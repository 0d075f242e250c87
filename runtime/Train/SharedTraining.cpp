// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SharedTraining.h"

#include "Execute/SharedUpdate.h"
#include "sluice/Runtime/Execute/SharedEvaluation.h"
#include "sluice/Support/Error.h"

namespace sluice::runtime {

void compareProcesses(const TrainingContext &context) {
  std::vector<SharedFact> facts = getProgramFacts(context.executor, context.options.version);
  facts.push_back({"spec (SHA-256)", context.state.specHash, "give all processes the same --set"});
  facts.push_back(
      {"data (SHA-256)", context.state.dataHash, "copy the same files to all machines"});
  facts.push_back(
      {"seed", std::to_string(context.state.seed), "give all processes the same --seed, a number"});
  facts.push_back(
      {"number of steps", std::to_string(context.goal), "give all processes the same --steps"});
  facts.push_back({"--shard", context.options.shardsOptimizer ? "optimizer" : "none",
                   "give all processes the same --shard"});
  requireSharedFacts(*context.options.group, facts);
}

static void compareWeights(TrainingContext &context) {
  std::vector<std::string> texts =
      context.options.group->agree(Intent::Continue, hashWeights(context.executor)).texts;
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] != texts.front()) {
      throw JobError("rank " + std::to_string(rank) +
                     ": expected the weights of rank 0 after step " +
                     std::to_string(context.state.step) +
                     ", found others, so one of the two machines computes or stores wrong numbers; "
                     "nothing was saved. Test their memory, and continue from the last checkpoint");
    }
  }
}

void meetForSave(TrainingContext &context) {
  compareWeights(context);
  if (context.shards) {
    context.shards->gatherState();
  }
}

} // namespace sluice::runtime
