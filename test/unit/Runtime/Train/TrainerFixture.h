// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs of the bigram model on an easy text.
#pragma once

#include "Fixture.h"

#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Runtime/Train/Trainer.h"
#include "sluice/Support/Json.h"

namespace sluice::test {

using namespace sluice;
using namespace sluice::runtime;
using sluice::Json; // for sources that use this namespace

class Trainer : public testing::Test {
protected:
  Trainer() : artifact(bigramArtifact(folder)) {
    writeFile(folder / "text", easyText(3000));
    writeFile(folder / "heldout", easyText(400, 9));
  }

  TrainingOptions options(const std::string &run) {
    TrainingOptions result;
    result.run = folder / run;
    result.data.data = {folder / "text"};
    result.heldOut.data = {folder / "heldout"};
    result.evaluateEvery = 5;
    result.saveEvery = 8;
    result.keepBest = false; // RunLossesTest has it
    return result;
  }

  TrainingEnd run(const TrainingOptions &options, const TrainingObserver &observer = {},
                  int threads = 1) {
    Executor executor(artifact, threads);
    return train(executor, options, observer);
  }

  /// Metrics without the time they took.
  std::vector<Json> metrics(const std::string &run) {
    std::vector<Json> lines = readLines(folder / run / "metrics.jsonl");
    for (Json &line : lines) {
      line.erase("tokens_per_s");
    }
    return lines;
  }

  TemporaryFolder folder;
  std::shared_ptr<const Artifact> artifact;
};

} // namespace sluice::test
