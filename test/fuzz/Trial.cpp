// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Trial.h"
#include "Harness.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Support/Json.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <sys/wait.h>

using namespace sluice;
using namespace sluice::fuzz;

CheckerResults fuzz::runCheckersWithReplay(const std::string &text) {
  return runCheckersOnSpec(text, "spec.json", /*replay=*/true);
}

//===----------------------------------------------------------------------===//
// Compiler and runtime
//===----------------------------------------------------------------------===//

static bool allFinite(const std::vector<double> &numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
}

Trained fuzz::tryTraining(const std::string &text, uint64_t seed) {
  testing::Folder folder;
  std::string source = folder.write("spec.json", text), artifact = folder.path("model.sla");
  std::string target = runtime::machineTargets().at(seed % runtime::machineTargets().size());
  driver::Outcome outcome =
      driver::compile({.spec = source,
                       .output = artifact,
                       .targets = {target},
                       .emit = "",
                       .allowLeak = true,
                       .kernelCache = "off"}); // random kernels, unused by later compilations
  if (outcome.status == 2) {
    return {Trained::Refused, outcome.message};
  }
  if (outcome.status != 0) {
    return {Trained::Failed,
            "compile ended with status " + std::to_string(outcome.status) + ": " + outcome.message};
  }
  testing::Model model(artifact, target);
  model.setWeights(testing::randomWeights(model.shapes(), seed));
  const runtime::ModelFacts &facts = model.plan().model;
  testing::Inputs inputs = testing::randomInputs(
      facts.vocabulary, facts.batch,
      1 + static_cast<int64_t>(seed % static_cast<uint64_t>(facts.context)), seed);
  for (const auto &[name, given] : model.plan().given) { // rows of 0 tokens and more
    testing::GivenTokens &tokens = inputs.given[name];
    tokens.capacity = given.capacity;
    tokens.tokens.assign(static_cast<size_t>(facts.batch * given.capacity), 1);
    for (int64_t row = 0; row < facts.batch; ++row) {
      tokens.counts.push_back((static_cast<int64_t>(seed % 7) + row) % (given.capacity + 1));
    }
    inputs.scored.assign(static_cast<size_t>(facts.batch), inputs.length);
  }
  testing::ReferenceGradient step = model.train(inputs);
  if (!std::isfinite(step.loss) || !allFinite(step.losses)) {
    return {Trained::Failed, "the loss is not finite"};
  }
  for (const auto &[name, gradient] : step.gradients) {
    if (!allFinite(gradient)) {
      return {Trained::Failed, "the gradient of " + name + " is not finite"};
    }
  }
  for (const auto &[name, weight] : model.weights()) {
    if (!allFinite(weight)) {
      return {Trained::Failed, name + " is not finite after a step"};
    }
  }
  if (!allFinite(model.evaluate(inputs))) {
    return {Trained::Failed, "a loss after the step is not finite"};
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Certificates
//===----------------------------------------------------------------------===//

/// Exit status of a command; 127 if it cannot run.
static int runAndGetStatus(const std::string &command) {
  int status = std::system((command + " > /dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

Certified fuzz::tryCertificate(const std::string &text, bool proved, const std::string &programs) {
  std::string check = programs + "/sluice", certify = programs + "/sluice-certify";
  if (!std::filesystem::exists(check) || !std::filesystem::exists(certify)) {
    return Certified::NotTried;
  }
  testing::Folder folder;
  std::string spec = folder.write("spec.json", text), certificate = folder.path("certificate");
  int checked = runAndGetStatus(check + " check --certificate " + certificate + " " + spec);
  if (!proved) {
    return checked == 1 ? Certified::Agreed : Certified::Disagreed;
  }
  int certified = runAndGetStatus(certify + " " + spec + " " + certificate);
  return checked == 0 && certified == 0 ? Certified::Agreed : Certified::Disagreed;
}

//===----------------------------------------------------------------------===//
// Reduction
//===----------------------------------------------------------------------===//

std::string fuzz::reduce(const std::string &text,
                         const std::function<bool(const std::string &)> &fails) {
  OrderedJson spec = OrderedJson::parse(text);
  auto holds = [&](const OrderedJson &candidate) {
    return isValidSpec(candidate.dump()) && fails(candidate.dump());
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = 1; i + 1 < spec["stages"].size(); ++i) {
      OrderedJson candidate = spec;
      candidate["stages"].erase(i);
      if (holds(candidate)) {
        spec = candidate;
        smaller = true;
        --i;
      }
    }
  }
  return spec.dump(1);
}
