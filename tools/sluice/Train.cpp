// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CommandLine.h"
#include "Commands.h"
#include "Common.h"
#include "DataOptions.h"
#include "Failures.h"
#include "Processes.h"
#include "Recompile.h"
#include "Resume.h"
#include "Signals.h"
#include "TrainEpochs.h"
#include "TrainProgress.h"
#include "sluice/Runtime/Train/RollBack.h"
#include "sluice/Runtime/Train/Trainer.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Text.h"

#include <algorithm>

namespace sluice::cli {
namespace {

using namespace sluice;
using namespace sluice::runtime;

constexpr int64_t mostEpochs = 1000000;

struct TrainFlags {
  std::string artifact, out, resumed; // the last: the argument of --resume
  std::vector<std::string> data, heldOut, inputs, heldOutInputs, labels, heldOutLabels;
  std::string images, tokenizer;
  bool raw = false;
  DeviceOptions device;
  ProcessOptions processes;
  std::string shard = "none";
  TrainingOptions options;
  std::string weights;
  int64_t steps = 0, seed = -1;
};

void refuse(const std::string &expected, const std::string &found) {
  throw UserError("sluice train: expected " + expected + ", found " + found);
}

void checkFlags(const TrainFlags &flags) {
  if (flags.data.empty() && flags.options.steps != 0) {
    refuse("--data", "none; give --data FILE (only --steps 0 needs none)");
  }
  if (!flags.labels.empty() && flags.data.empty()) {
    refuse("--data with --labels", "none; name the text that they belong to");
  }
  if (!flags.weights.empty() && flags.options.resume) {
    refuse("--weights or --resume", "both; a resumed run continues with its own weights");
  }
  if (!flags.options.match.empty() && flags.weights.empty()) {
    refuse("--weights with --match", "none; name the weights to take tensors from");
  }
  if (flags.options.from && !flags.options.resume) {
    refuse("--resume with --from", "none; give it, as --from goes back in a run that is resumed");
  }
  if (flags.options.weightsStep && flags.weights.empty()) {
    refuse(
        "--weights with --step",
        "none; name the run to take the weights of that step from (--steps is how many to train, "
        "--from goes back in a run that is resumed)");
  }
  if (flags.options.steps && flags.options.epochs) {
    refuse("--steps or --epochs", "both; the steps of epochs are counted from the data: leave "
                                  "--steps out");
  }
  const WeightNames &names = flags.options.weightNames;
  if (flags.weights.empty() && !(names.prefix.empty() && names.ignore.empty())) {
    refuse("--weights with --weights-prefix and --ignore",
           "none; name the weights to take tensors from");
  }
}

/// Flags that a run may change: its tensors, data and causality do not depend on them.
std::vector<spec::SpecOverride> parseTrainingSettings(const std::vector<std::string> &written) {
  std::vector<spec::SpecOverride> settings = parseSettings(written);
  for (const spec::SpecOverride &setting : settings) {
    if (setting.path.front() != "training" || setting.path.size() < 2) {
      throw UserError(setting.flag +
                      ": expected a key below training, such as "
                      "training.learning_rate or training.schedule.steps, found \"" +
                      setting.path.front() + "\"; other keys make another model: sluice compile " +
                      setting.flag);
    }
  }
  return settings;
}

/// A run's position in its data depends on its initial order.
void checkResumedSettings(const std::vector<std::string> &written) {
  for (const spec::SpecOverride &setting : parseSettings(written)) {
    if (setting.path.size() == 2 && setting.path[0] == "training" && setting.path[1] == "order") {
      throw UserError(setting.flag + ": expected the order of the data that the run began with, "
                                     "found it set anew; leave it out, or begin another run");
    }
  }
}

/// Sets the tokenizer of the run that is resumed, or of the weights that training starts from. If
/// only some tensors are taken from these, the tokenizer of the model is the one that is given.
void chooseTokenizer(TrainFlags &flags, int64_t vocabulary) {
  const TrainingOptions &options = flags.options;
  std::string weights = options.resume && isThere(flags.out) ? flags.out : flags.weights;
  std::optional<int64_t> step = options.resume ? options.from : options.weightsStep;
  std::string needed = weights.empty() ? "" : readTokenizerHash(weights, step);
  bool isPart = !options.match.empty();
  if (isPart && !needed.empty() && flags.tokenizer.empty()) {
    printNotice("note: --match takes tensors alone, not the tokenizer of " + showPath(weights) +
                ": give it with --tokenizer, or tokens are bytes");
  }
  auto encoder = findEncoder(flags.tokenizer, isPart ? "" : weights, vocabulary, step);
  for (SourceFiles *files : {&flags.options.data, &flags.options.heldOut}) {
    files->reading.encoder = encoder;
    files->reading.tokenizer = isPart ? "" : needed;
  }
}

/// The training executor: the artifact's own or, if settings were changed, now or before in the
/// run, one compiled from its spec with the changes.
std::unique_ptr<Executor> openForTraining(TrainFlags &flags) {
  std::shared_ptr<const Artifact> artifact = Artifact::load(flags.artifact, flags.device.target);
  warnOfLeak(*artifact);
  const Plan &plan = artifact->plan();
  chooseTokenizer(flags, plan.model.vocabulary); // before epochs are counted
  std::string hash = sha256Hex(plan.model.spec);
  std::optional<RunRecord> told =
      flags.options.resume ? readRunRecordAt(flags.out, flags.options.from) : std::nullopt;
  std::vector<std::string> written;
  if (flags.options.resume) {
    checkResumedSettings(flags.options.settings);
  }
  if (told && hash == told->specHash) {
    written = told->settings(); // else it is the changed spec already, or not part of this run
  }
  std::vector<std::string> &own = flags.options.settings;
  if (std::optional<int64_t> epochs = chooseEpochs(flags.options, told)) {
    std::vector<std::string> all = written;
    all.insert(all.end(), own.begin(), own.end());
    std::string end = countEpochs(flags.options, plan, parseTrainingSettings(all), *epochs, told);
    if (!end.empty()) { // first, so that a repeated call gives the last settings of the record
      own.insert(own.begin(), end);
    }
  }
  written.insert(written.end(), own.begin(), own.end());
  std::vector<spec::SpecOverride> settings = parseTrainingSettings(written);
  if (!settings.empty()) {
    checkSettings(plan, settings);
  }
  std::vector<spec::SpecOverride> division;
  if (const ProcessGroup *group = flags.options.group) {
    division = divideBatches(plan, settings, group->size());
  }
  if (settings.empty() && division.empty()) {
    return openExecutor(artifact, flags.device);
  }
  if (!settings.empty()) {
    printNotice("compiling the artifact's spec again, with " + listSettings(written));
    flags.options.artifactSpecHash = hash;
  }
  driver::CompileRequest request;
  request.settings = settings;
  if (!division.empty()) { // in memory alone: the run has the spec without it
    printNotice("compiling the artifact's spec again, for batches of " + division.front().value +
                (division.front().value == "1" ? " row" : " rows"));
    flags.options.spec = spec::withSettings(plan.model.spec, plan.model.name + ".json", settings);
    request.settings.insert(request.settings.end(), division.begin(), division.end());
  }
  if (plan.memory.budget) { // checked with the artifact's rows of generation
    request.memoryBudget = plan.memory.budget->bytes;
    request.generationRows = std::max<int64_t>(1, plan.generationRows());
  }
  return recompile(*artifact, request, flags.device);
}

/// The step from which the rate no longer falls; none for a rate that always or never falls, and if
/// the plan has no facts of a spec.
std::optional<ScheduleEnd> findScheduleEnd(const Plan &plan) {
  if (!plan.facts) {
    return std::nullopt;
  }
  const ScheduleFacts &schedule = plan.facts->schedule;
  double rate = plan.facts->optimizer.learningRate;
  if (schedule.then) {
    return ScheduleEnd{schedule.steps + schedule.then->steps, schedule.then->floor * rate,
                       "training.schedule.then.steps", schedule.steps};
  }
  return schedule.kind == "cosine"
             ? std::optional(ScheduleEnd{schedule.steps, schedule.floor * rate})
             : std::nullopt;
}

/// Sets flags that a resumed run's call omits to the run's values.
void fillResumed(TrainFlags &flags, CLI::App &command) {
  ResumeCall call{flags.artifact, flags.out, flags.resumed};
  settleResumedRun(call);
  if (ProcessGroup *group = flags.options.group) {
    if (group->isFirst()) {
      completeRollBack(flags.out, printNotice);
    }
    group->agree();
  } else {
    completeRollBack(flags.out, printNotice); // before its record is parsed
  }
  if (std::string words = fillFromRecord(command, call); !words.empty()) {
    printNotice("resuming with the run's" + words);
  }
}

/// Sets the part of the state that processes divide.
void chooseSharding(TrainFlags &flags) {
  flags.options.shardsOptimizer = flags.shard == "optimizer";
  if (!flags.options.shardsOptimizer) {
    return;
  }
  if (!flags.options.group) {
    printNotice("note: --shard optimizer has no effect on one process");
  } else if (flags.device.device != "cpu") {
    refuse("--device cpu with --shard optimizer",
           "--device " + flags.device.device + "; give --shard none");
  }
}

/// Checks flags that have a meaning for one process alone.
void checkShared(const TrainFlags &flags) {
  for (const auto &[flag, files] :
       {std::pair("--data", &flags.data), std::pair("--eval-data", &flags.heldOut),
        std::pair("--input", &flags.inputs), std::pair("--eval-input", &flags.heldOutInputs)}) {
    refuseStreams(flag, *files);
  }
}

void runTrain(TrainFlags &flags, CLI::App &command) {
  endAtSignals();
  if (flags.options.resume) {
    fillResumed(flags, command);
  }
  checkFlags(flags);
  ProcessGroup *group = flags.options.group;
  bool isFirst = !group || group->isFirst();
  chooseSharding(flags);
  if (group) {
    checkShared(flags);
    shareDevices(flags.device, *group);
    shareThreads(flags.device);
    flags.options.version = SLUICE_VERSION;
  }
  checkOutputFolder("--out", flags.out, {}, nullptr, {},
                    /*force=*/false); // not part of another run
  flags.options.run = flags.out;
  flags.options.weights = flags.weights;
  flags.options.data = {{flags.data.begin(), flags.data.end()},
                        parseInputFiles("--input", flags.inputs),
                        parseImages(flags.images)};
  flags.options.data.labels = parseLabelFiles("--labels", flags.labels);
  flags.options.heldOut = {{flags.heldOut.begin(), flags.heldOut.end()},
                           parseInputFiles("--eval-input", flags.heldOutInputs),
                           parseImages(flags.images),
                           "--eval-input",
                           parseLabelFiles("--eval-labels", flags.heldOutLabels),
                           "--eval-labels",
                           {flags.raw}};
  flags.options.data.reading.isRaw = flags.raw;
  flags.options.data.reading.takesIds = true;
  flags.options.heldOut.reading.takesIds = true;
  if (flags.seed != -1) {
    flags.options.seed = flags.seed;
  }
  std::unique_ptr<Executor> executor;
  {
    ProcessGroup::Presence presence(group); // compiling may take longer than on other ranks
    executor = openForTraining(flags);
  }
  flags.options.scheduleEnd = findScheduleEnd(executor->plan());
  noteEscapes("--sample-prompt", flags.options.samplePrompt);
  if (isFirst) {
    flags.options.command = describeCommand(command, flags.artifact,
                                            {{"--data", flags.data},
                                             {"--input", flags.inputs},
                                             {"--labels", flags.labels},
                                             {"--eval-data", flags.heldOut},
                                             {"--eval-input", flags.heldOutInputs},
                                             {"--eval-labels", flags.heldOutLabels}},
                                            flags.out);
  }
  if (group) {
    printNotice("one of " + std::to_string(group->size()) + " processes, with " +
                executor->describeDevice());
  }
  Progress progress;
  TrainProgress lines(progress, executor->plan());
  std::optional<SignalShield> shield;
  TrainingObserver observer;
  observer.message = [&](const std::string &text) {
    isFirst ? progress.plainLine(text) : printNotice(text);
  };
  observer.begins = catchSignals;
  observer.interrupted = [] { return caughtSignal() != 0; };
  observer.saving = [&](bool begins) {
    if (begins) {
      shield.emplace();
    } else {
      shield.reset();
    }
  };
  if (isFirst) {
    observer.part = [&](int64_t step, int64_t steps, const std::string &what, double share,
                        bool isStep) { lines.showPart(step, steps, what, share, isStep); };
    observer.step = [&](const nlohmann::json &metrics, int64_t steps) {
      lines.showStep(metrics, steps);
    };
  }
  if (train(*executor, flags.options, observer) == TrainingEnd::interrupted) {
    if (isFirst && isFolder(flags.out) && newestCheckpoint(flags.out) >= 0) {
      progress.plainLine("continue with: " + describeResume(flags.out));
    }
    constexpr int interrupted = 130; // the signal came to another process
    throw ExitStatus{caughtSignal() == 0 ? interrupted : 128 + caughtSignal()};
  }
  if (isFirst) {
    progress.plainLine("the run is in " + flags.out);
  }
}

} // namespace

void registerTrain(CLI::App &program) {
  auto flags = std::make_shared<TrainFlags>();
  TrainingOptions &options = flags->options;
  CLI::App *command = program.add_subcommand("train", "Train a compiled model on files of bytes");
  CLI::Option *artifact =
      command
          ->add_option("ART", flags->artifact,
                       "Artifact, from sluice compile; --resume RUN takes the run's")
          ->type_name("FILE")
          ->required();
  command
      ->add_option(
          "--data", flags->data,
          "Training text: files whose bytes are token ids, also gzip or zstd; - is standard "
          "input. Or token ids: .npy files of uint16 or int32, or uint16:FILE")
      ->type_name("FILE")
      ->default_str("");
  addInputs(*command, flags->inputs, "its line i belongs to line i of --data");
  addLabels(*command, "--labels", flags->labels, "--data");
  addLabels(*command, "--eval-labels", flags->heldOutLabels, "--eval-data");
  addImages(*command, flags->images, "--data and --eval-data");
  addRaw(*command, flags->raw);
  addTokenizer(*command, flags->tokenizer,
               "the run stores it; default: the one of the run that --weights names, or bytes");
  CLI::Option *out =
      command
          ->add_option("-o,--out", flags->out,
                       "Directory of the run; new, unless --resume is given; --resume RUN names it")
          ->required();
  CLI::Option *steps =
      command
          ->add_option(
              "-n,--steps", flags->steps,
              "Steps in all, counted from the run's first; 0 writes the initial weights as a "
              "checkpoint; default: the run's own number with --resume, else the spec's")
          ->default_str("");
  command
      ->add_option(
          "--epochs", options.epochs,
          "Train until every row of the data was read so many times: the steps are counted "
          "from the data, and a schedule that ends ends at the last one; in place of "
          "--steps")
      ->type_name("N")
      ->default_str("")
      ->check(wholeNumber(1, mostEpochs));
  command
      ->add_option_function<std::string>(
          "--resume",
          [flags, artifact, out](const std::string &run) {
            flags->options.resume = true;
            flags->resumed = run;
            out->required(false);
            artifact->required(false); // settleResumedRun looks for a run
          },
          "Continue the run from its latest checkpoint; where there is none yet, begin it. RUN may "
          "be given here instead of after --out. Flags that are left out are those that the run "
          "was given last, so --resume RUN needs nothing else")
      ->type_name("RUN")
      ->expected(0, 1)
      ->default_str("")
      ->trigger_on_parse();
  command
      ->add_option("--from", options.from,
                   "With --resume: continue from the checkpoint of this step; later ones, and "
                   "later lines of metrics and samples, move to RUN/abandoned")
      ->type_name("STEP")
      ->default_str("")
      ->check(wholeNumber(0, INT64_MAX));
  command->add_option("--weights", flags->weights,
                      "Weights to start from: a run, a checkpoint or a safetensors file");
  addStep(*command, options.weightsStep);
  command
      ->add_option("--match", options.match,
                   "Take only the tensors of --weights that this pattern names, as in "
                   "'stages.0.*'; may be given several times")
      ->type_name("GLOB")
      ->default_str("")
      ->allow_extra_args(false);
  addWeightNames(*command, options.weightNames);
  addSettings(*command, options.settings,
              "Put a value below training into the spec, as in training.learning_rate=1e-4; with "
              "--resume it holds from there on and is kept by later resumes. The spec is then "
              "compiled again, and the run records it");
  command
      ->add_option("--eval-data", flags->heldOut,
                   "Held-out text, or token ids: files to evaluate on while training")
      ->type_name("FILE")
      ->default_str("");
  command
      ->add_option("--eval-input", flags->heldOutInputs,
                   "The same as --input, for the lines of --eval-data")
      ->type_name("NAME=FILE")
      ->default_str("")
      ->allow_extra_args(false);
  command->add_option("--eval-every", options.evaluateEvery, "Steps between evaluations");
  command->add_option("--eval-tokens", options.evaluateTokens,
                      "Held-out tokens an evaluation scores; 0 scores all");
  command->add_option("--save-every", options.saveEvery,
                      "Steps between checkpoints; the end, Ctrl-C, SIGTERM and SIGHUP save too");
  command->add_option("--keep", options.keep,
                      "Checkpoints to keep, the newest ones; the best one stays too, and the last "
                      "one before a divergence");
  command->add_flag("--keep-best,!--no-keep-best", options.keepBest,
                    "Save a checkpoint at each evaluation whose held-out loss is the lowest so "
                    "far; on by default");
  command
      ->add_option(
          "--patience", options.patience,
          "End the run after so many evaluations in a row without a lower held-out loss; 0 "
          "or off: never, also where the run had a patience")
      ->type_name("N|off")
      ->default_str("")
      ->transform(CLI::Validator(
          [](std::string &text) {
            text = text == "off" ? "0" : text;
            return std::string();
          },
          "", "patience"))
      ->check(wholeNumber(0, INT64_MAX));
  command->add_flag("--stop-on-divergence,!--no-stop-on-divergence", options.stopOnDivergence,
                    "End the run with status 1, after a checkpoint, where the loss stays above the "
                    "run's best by ln V for 20 steps; without it training warns and continues");
  command->add_option("--log-every", options.logEvery, "Steps between lines of metrics.jsonl");
  command->add_option(
      "--sample-prompt", options.samplePrompt,
      "Text that a sample continues at each evaluation and at the end; empty writes no samples");
  command->add_option("--sample-tokens", options.sampleTokens, "Tokens a sample");
  command
      ->add_option("--seed", flags->seed,
                   "Seed of initialization, data order and dropout; -1 takes the spec's; random "
                   "draws one, which is printed and kept by the run")
      ->transform(drawnSeed("--seed"));
  addProcessOptions(*command, flags->processes);
  command
      ->add_option("--shard", flags->shard,
                   "Under mpirun, on CPUs: what each process stores of its own part of the weights "
                   "alone; optimizer: the moments; none: nothing")
      ->check(matchChoice({"none", "optimizer"}));
  addDeviceOptions(*command, flags->device);
  command->callback([flags, steps, command] {
    if (steps->count() > 0) {
      flags->options.steps = flags->steps;
    }
    runTogether(flags->processes, [&](ProcessGroup *group) {
      flags->options.group = group;
      runTrain(*flags, *command);
    });
  });
}

} // namespace sluice::cli
