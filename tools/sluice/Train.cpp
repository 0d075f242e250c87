// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Commands.h"
#include "Common.h"
#include "sluice/Runtime/Trainer.h"

#include <csignal>

namespace sluice::cli {
namespace {

using namespace sluice::runtime;

volatile std::sig_atomic_t caughtSignal = 0;

/// The first signal asks for a checkpoint; the handler then leaves, so a second one ends the
/// program at once.
void catchSignals() {
  struct sigaction action{};
  action.sa_handler = [](int signal) { caughtSignal = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup{};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) { // nohup's training goes on
    sigaction(SIGHUP, &action, nullptr);
  }
}

struct TrainFlags {
  std::string artifact, out;
  std::vector<std::string> data, heldOut;
  DeviceOptions device;
  TrainingOptions options;
  int64_t seed = -1;
};

std::string describe(const nlohmann::json &metrics, int64_t steps) {
  auto value = [&](const char *key) {
    return metrics.contains(key) ? metrics[key].get<double>() : 0.0;
  };
  std::string text =
      format("step %lld/%lld  loss %.4f  bits/byte %.4f  lr %.2e  norm %.3f",
             static_cast<long long>(metrics["step"].get<int64_t>()), static_cast<long long>(steps),
             value("loss"), value("bits_per_byte"), value("learning_rate"), value("grad_norm"));
  if (metrics.contains("tokens_per_s")) {
    text += format("  %.0f tokens/s", value("tokens_per_s"));
  }
  if (metrics.contains("eval_bits_per_byte")) {
    text += format("  held out %.4f", value("eval_bits_per_byte"));
  }
  return text;
}

void runTrain(TrainFlags &flags) {
  std::unique_ptr<Executor> executor = openExecutor(flags.artifact, flags.device);
  flags.options.run = flags.out;
  flags.options.data.assign(flags.data.begin(), flags.data.end());
  flags.options.heldOut.assign(flags.heldOut.begin(), flags.heldOut.end());
  if (flags.seed != -1) {
    flags.options.seed = flags.seed;
  }
  catchSignals();
  Progress progress;
  TrainingObserver observer;
  observer.message = [&](const std::string &text) { progress.plainLine(text); };
  observer.interrupted = [] { return caughtSignal != 0; };
  observer.step = [&](const nlohmann::json &metrics, int64_t steps) {
    int64_t step = metrics["step"];
    std::string text = describe(metrics, steps);
    bool keep = metrics.contains("eval_bits_per_byte") || step == steps;
    if (progress.onTerminal()
            ? keep
            : keep || step == 1 || step % std::max<int64_t>(1, steps / 100) == 0) {
      progress.plainLine(text);
    }
    progress.draw(static_cast<double>(step) / static_cast<double>(steps), text);
  };
  if (train(*executor, flags.options, observer) == TrainingEnd::interrupted) {
    throw ExitStatus{128 + caughtSignal};
  }
  progress.plainLine("the run is in " + flags.out);
}

} // namespace

void registerTrain(CLI::App &program) {
  auto flags = std::make_shared<TrainFlags>();
  TrainingOptions &options = flags->options;
  CLI::App *command = program.add_subcommand("train", "Train a compiled model on files of bytes");
  command->add_option("ART", flags->artifact, "Artifact, from sluice compile")
      ->type_name("FILE")
      ->required();
  command->add_option("--data", flags->data, "Training text: files whose bytes are token ids")
      ->type_name("FILE")
      ->default_str("")
      ->required();
  command->add_option("-o,--out", flags->out, "Directory of the run; new, unless --resume is given")
      ->required();
  command->add_option("-n,--steps", options.steps,
                      "Steps in all, counted from the run's first; 0 takes the spec's");
  command->add_flag("--resume", options.resume, "Continue the run from its latest checkpoint");
  command
      ->add_option("--eval-data", flags->heldOut,
                   "Held-out text: files to evaluate on while training")
      ->type_name("FILE")
      ->default_str("");
  command->add_option("--eval-every", options.evaluateEvery, "Steps between evaluations");
  command->add_option("--eval-tokens", options.evaluateTokens,
                      "Held-out tokens an evaluation scores; 0 scores all");
  command->add_option("--save-every", options.saveEvery,
                      "Steps between checkpoints; the end, Ctrl-C, SIGTERM and SIGHUP save too");
  command->add_option("--keep", options.keep, "Checkpoints to keep, the newest ones");
  command->add_option("--log-every", options.logEvery, "Steps between lines of metrics.jsonl");
  command->add_option(
      "--sample-prompt", options.samplePrompt,
      "Text that a sample continues at each evaluation and at the end; empty writes no samples");
  command->add_option("--sample-tokens", options.sampleTokens, "Tokens a sample");
  command->add_option("--seed", flags->seed,
                      "Seed of initialization, data order and dropout; -1 takes the spec's");
  addDeviceOptions(*command, flags->device);
  command->callback([flags] { runTrain(*flags); });
}

} // namespace sluice::cli
