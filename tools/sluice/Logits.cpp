// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice logits` writes the head's output, for comparison with other tools.
#include "Commands.h"
#include "Common.h"
#include "DataOptions.h"
#include "Processes.h"
#include "Recompile.h"
#include "sluice/Loading/Streams.h"
#include "sluice/Runtime/Data/Npy.h"
#include "sluice/Runtime/Data/Sources.h"
#include "sluice/Runtime/Execute/Predictions.h"
#include "sluice/Runtime/Execute/SharedEvaluation.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"

#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::loading;

struct LogitsFlags {
  std::string artifact, weights, data, out, stream, tokenizer;
  std::vector<std::string> inputs;
  WeightNames names;
  DeviceOptions device;
  ProcessOptions processes{.mayBeInScript = true, .reportTime = 5};
  EvaluationOptions options; ///< with the processes
  std::optional<int64_t> factor, step;
  bool force = false, raw = false;
};

/// The file of rank 0, and the progress that it shows. Does nothing on other ranks.
class LogitsFile {
public:
  explicit LogitsFile(const LogitsFlags &flags) : flags(flags) {
    if (isWritten) {
      progress.draw(0, "compiling");
    }
  }

  /// Compares flags, weights and data of the processes, if there are several, and opens the file.
  void open(Executor &executor, const std::string &dataHash, int64_t rows, int64_t width) {
    const EvaluationOptions &options = flags.options;
    if (options.group) {
      compareEvaluations(*options.group, executor, SLUICE_VERSION, dataHash,
                         "--window " + std::to_string(options.window) + " --stride " +
                             std::to_string(options.stride) + " --stream " +
                             (flags.stream.empty() ? "none" : flags.stream));
    }
    if (isWritten) {
      writer.emplace(flags.out, std::vector{rows, width});
    }
  }
  NumberSink sink() {
    return [this](std::span<const float> row) { writer->append(row); };
  }
  std::function<void(double)> show(const std::string &what) {
    if (!isWritten) {
      return {};
    }
    return [this, what](double share) { progress.draw(share, what); };
  }
  /// Completes the file and prints `summary`. Then it waits for the other processes.
  void finish(const std::string &summary) {
    if (isWritten) {
      writer->finish();
      progress.plainLine("wrote " + summary + " to " + flags.out);
    }
    finishTogether(flags.options.group);
  }

private:
  const LogitsFlags &flags;
  bool isWritten = isFirstProcess(flags.options.group);
  Progress progress;
  std::optional<NpyWriter> writer;
};

void writeStream(const LogitsFlags &flags, const Artifact &artifact, const ByteFile &text) {
  if (flags.options.window != 0 || flags.options.stride != 0) {
    throw UserError("expected no --window and no --stride with --stream, whose windows are those "
                    "of the context, one after the other, found one; leave it out");
  }
  ModelStream stream = findStream(artifact.plan(), "--stream", flags.stream);
  LogitsFile output(flags);
  std::optional<ProcessGroup::Presence> presence;
  presence.emplace(flags.options.group);
  std::unique_ptr<Executor> executor = openStream(artifact, stream, flags.device);
  loadWeights(flags.weights, *executor, printNotice, flags.step, flags.names);
  const Plan &plan = executor->plan();
  int64_t width = plan.outputs.at("logits").shape.at(1);
  int64_t rows = countRows(text.tokenCount(), plan.model.context, stream.factor);
  output.open(*executor, hashFiles({text}), rows, width);
  presence.reset();
  computeRows(*executor, text, stream.factor, output.sink(), output.show("computing rows"),
              flags.options.group);
  output.finish(describeCount(rows, "row") + " of " + describeCount(width, "number") +
                ", one for every " +
                (stream.factor == 1 ? "token" : describeCount(stream.factor, "token")) + ",");
}

/// Opens the lines of a model with named inputs; null if the model has none.
std::unique_ptr<ItemSource> openLines(const LogitsFlags &flags, const Plan &plan) {
  SourceFiles files;
  files.data = {flags.data};
  files.inputs = parseInputFiles("--input", flags.inputs);
  files.reading.isRaw = flags.raw;
  if (!plan.given.empty()) {
    files.reading.encoder =
        findEncoder(flags.tokenizer, flags.weights, plan.model.vocabulary, flags.step);
    files.reading.tokenizer = readTokenizerHash(flags.weights, flags.step);
  }
  std::unique_ptr<ItemSource> lines = openItems(files, plan, /*seed=*/0);
  bool isCut = flags.options.window != 0 || flags.options.stride != 0;
  if (lines && (isCut || !flags.stream.empty())) {
    throw UserError("expected no --window, no --stride and no --stream for a model with named "
                    "inputs, whose lines are predicted one by one, found one; leave it out");
  }
  return lines;
}

/// Compiles the entry that returns the logits of every row, as artifacts store none.
std::unique_ptr<Executor> openPrediction(const LogitsFlags &flags, const Artifact &artifact) {
  driver::CompileRequest request;
  request.everyRow = "";
  request.factor = flags.factor;
  std::unique_ptr<Executor> executor = recompile(artifact, request, flags.device);
  loadWeights(flags.weights, *executor, printNotice, flags.step, flags.names);
  return executor;
}

void writeLines(const LogitsFlags &flags, const Artifact &artifact, const ItemSource &lines) {
  LogitsFile output(flags);
  std::optional<ProcessGroup::Presence> presence;
  presence.emplace(flags.options.group);
  std::unique_ptr<Executor> executor = openPrediction(flags, artifact);
  int64_t rows = countItemRows(*executor, lines), vocabulary = artifact.plan().model.vocabulary;
  output.open(*executor, lines.hash(), rows, vocabulary);
  presence.reset();
  computeItemLogits(*executor, lines, output.sink(), output.show("computing logits"),
                    flags.options.group);
  output.finish(describeCount(rows, "row") + " of " + describeCount(vocabulary, "logit") + ", of " +
                describeCount(lines.rowsPerEpoch(), "line") + ",");
}

void writeLogits(const LogitsFlags &flags, const Artifact &artifact, const ByteFile &text) {
  LogitsFile output(flags);
  std::optional<ProcessGroup::Presence> presence;
  presence.emplace(flags.options.group);
  std::unique_ptr<Executor> executor = openPrediction(flags, artifact);
  int64_t rows = text.tokenCount(), vocabulary = artifact.plan().model.vocabulary;
  output.open(*executor, hashFiles({text}), rows, vocabulary);
  presence.reset();
  computeLogits(*executor, text, flags.options, output.sink(), output.show("computing logits"));
  output.finish(describeCount(rows, "row") + " of " + describeCount(vocabulary, "logit"));
}

void runLogits(LogitsFlags &flags, ProcessGroup *group) {
  flags.options.group = group;
  if (group) {
    shareFiles(
        *group, flags.device,
        {{"--data", {flags.data}}, {"--input", flags.inputs}, {"--weights", {flags.weights}}});
  }
  checkOutputs({{"--out", flags.out, FileKind::Npy}},
               joinPaths({{flags.artifact, flags.weights, flags.data}, flags.inputs}), flags.force);
  std::shared_ptr<const Artifact> artifact = Artifact::load(flags.artifact, flags.device.target);
  const ModelFacts &model = artifact->plan().model;
  checkPredicts(artifact->plan(), flags.artifact);
  if (std::unique_ptr<ItemSource> lines = openLines(flags, artifact->plan())) {
    for (const std::string &note : lines->notes()) {
      printNotice(note);
    }
    warnOfLeak(*artifact);
    writeLines(flags, *artifact, *lines);
    return;
  }
  ByteFile text = openTexts({flags.data}, model.vocabulary, 1, "one to predict from",
                            {.isRaw = flags.raw,
                             .streams = {},
                             .takesIds = true,
                             .encoder = findEncoder(flags.tokenizer, flags.weights,
                                                    model.vocabulary, flags.step),
                             .tokenizer = readTokenizerHash(flags.weights, flags.step)})
                      .front();
  warnOfLeak(*artifact);
  flags.stream.empty() ? writeLogits(flags, *artifact, text) : writeStream(flags, *artifact, text);
}

} // namespace

void registerLogits(CLI::App &program) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App *command = program.add_subcommand(
      "logits",
      "Write what a model predicts after every token of a text, as an array of f32 (.npy)");
  addModelOptions(*command, flags->artifact, flags->weights, flags->names);
  addStep(*command, flags->step);
  command
      ->add_option("--data", flags->data,
                   "Text: a file whose bytes are token ids; or token ids: a .npy file of uint16 or "
                   "int32, or uint16:FILE")
      ->type_name("FILE")
      ->required();
  addInputs(*command, flags->inputs, "its line i belongs to line i of --data");
  addRaw(*command, flags->raw);
  addTokenizer(*command, flags->tokenizer, "default: the one of the run that --weights names");
  command
      ->add_option("-o,--out", flags->out,
                   "File to write: as many rows as the text has tokens, row i the logits of "
                   "token i + 1, by vocabulary; with --input, for each line the logits of its "
                   "bytes and of the end after it where the context holds it")
      ->type_name("FILE")
      ->required();
  addForce(*command, flags->force);
  addFactor(*command, flags->factor,
            "logits with this one; default: that of sluice compile --factor, as --stream does");
  command
      ->add_option("--stream", flags->stream,
                   "Write the rows of this stream and no logits: a name that a stage's \"to\" "
                   "gives, or a stage such as stages.1.inside.2. On a scale of factor f row m of a "
                   "window stands for its tokens from f m on")
      ->type_name("NAME")
      ->default_str("")
      ->excludes("--factor");
  command->add_option("--window", flags->options.window, "Tokens a window; 0 takes the context");
  command->add_option("--stride", flags->options.stride,
                      "Tokens from a window's start to the next's; 0 takes half the window");
  addProcessOptions(*command, flags->processes);
  addDeviceOptions(*command, flags->device);
  command->callback([flags] {
    runTogether(flags->processes, [&](ProcessGroup *group) { runLogits(*flags, group); });
  });
}

} // namespace sluice::cli
