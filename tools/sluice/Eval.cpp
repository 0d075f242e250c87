// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Commands.h"
#include "Common.h"
#include "DataOptions.h"
#include "GenerateBeam.h"
#include "Processes.h"
#include "TextMetric.h"
#include "sluice/Runtime/Data/Npy.h"
#include "sluice/Runtime/Execute/HeldOut.h"
#include "sluice/Runtime/Execute/SharedEvaluation.h"
#include "sluice/Runtime/Generate/GenerateLines.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice;
using namespace sluice::runtime;

struct EvalFlags {
  std::string artifact, weights, perToken, images, tokenizer;
  WeightNames names;
  std::vector<std::string> data, inputs, labels, references;
  MetricFlags metric;
  BeamFlags beam;
  DeviceOptions device;
  ProcessOptions processes{.mayBeInScript = true, .reportTime = 5};
  EvaluationOptions options; ///< with the processes
  std::optional<int64_t> factor, step;
  bool json = false, force = false, raw = false;
};

HeldOut readScored(const EvalFlags &flags, const Plan &plan) {
  SourceFiles files;
  files.data.assign(flags.data.begin(), flags.data.end());
  files.inputs = parseInputFiles("--input", flags.inputs);
  files.images = parseImages(flags.images);
  files.labels = parseLabelFiles("--labels", flags.labels);
  files.reading.isRaw = flags.raw;
  files.reading.takesIds = true;
  files.reading.encoder =
      findEncoder(flags.tokenizer, flags.weights, plan.model.vocabulary, flags.step);
  files.reading.tokenizer = readTokenizerHash(flags.weights, flags.step);
  HeldOut scored(files, plan);
  if (scored.getItems() && !flags.perToken.empty()) {
    throw UserError("sluice eval: expected no --per-token, as " +
                    std::string(scored.getItems()->noun()) +
                    " are scored one by one, found it; "
                    "leave it out");
  }
  for (const std::string &note : scored.notes()) {
    printNotice(note);
  }
  return scored;
}

EvaluationResult scoreWith(Executor &executor, const EvalFlags &flags, const HeldOut &scored,
                           std::optional<NpyWriter> &losses) {
  Progress progress;
  std::string what = executor.factor() > 0 ? " at factor " + std::to_string(executor.factor()) : "";
  auto draw = [&](double share) { progress.draw(share, "evaluating" + what); };
  auto append = [&](std::span<const float> nats) { losses->append(nats); };
  bool isFirst = isFirstProcess(flags.options.group);
  EvaluationResult result =
      scored.score(executor, flags.options, isFirst ? draw : std::function<void(double)>(),
                   losses ? NumberSink(append) : NumberSink());
  requireChunks(result);
  return result;
}

/// Returns null for a number that is unknown.
template <typename Number> nlohmann::ordered_json orNull(const std::optional<Number> &number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

/// Describes how tokens, or rows of a model that ends in a contrast, were scored.
std::string describeScoring(const EvaluationResult &result, const Executor &executor) {
  const Plan &plan = executor.plan();
  return describeProtocol(result) +
         (plan.entries.contains("predict")
              ? ""
              : "; a row chooses among the rows of its own batch of at most " +
                    std::to_string(plan.model.batch) + " windows");
}

nlohmann::ordered_json toJson(const EvaluationResult &result, const EvalFlags &flags,
                              const HeldOut &scored, const Executor &executor,
                              const Path &weights) {
  nlohmann::ordered_json named(result.lossesByName());
  nlohmann::ordered_json none, bits = orNull(result.bitsPerUnit());
  nlohmann::ordered_json json = {{"bits_per_token", result.chunks ? none : bits},
                                 {"bits_per_byte", orNull(result.bitsPerByte())},
                                 {"bits_per_character", nullptr},
                                 {"characters", nullptr},
                                 {"perplexity", result.perplexity()},
                                 {"nats", result.nats},
                                 {"tokens", result.tokens},
                                 {"bytes", orNull(result.bytes)},
                                 {"window", result.window},
                                 {"stride", result.stride},
                                 {"protocol", describeScoring(result, executor)},
                                 {"skipped_files", scored.skippedFiles().size()},
                                 {"leak_allowed", executor.plan().verdict != "proved"},
                                 {"proof", executor.plan().verdict},
                                 {"weights", weights.string()}};
  if (result.chunks) {
    json["bits_per_chunk"] = bits;
  }
  if (!result.counted.empty()) {
    json["chunks"] = result.counted;
  }
  json["files"] = nlohmann::ordered_json::array();
  for (const FileScore &file : result.files) {
    json["files"].push_back({{"file", file.file.string()},
                             {"bits_per_byte", orNull(file.bitsPerByte())},
                             {"nats", file.nats},
                             {"tokens", file.tokens},
                             {"characters", orNull(file.characters)}});
    if (result.chunks) {
      json["files"].back()["bits_per_chunk"] = orNull(file.bitsPerUnit());
      json["files"].back()["chunks"] = orNull(file.chunks);
    }
  }
  if (executor.factor() > 0) {
    json["factor"] = executor.factor();
  }
  if (result.characters) {
    json["characters"] = *result.characters;
    json["bits_per_character"] = *result.bitsPerCharacter();
  } else {
    json["no_characters"] = result.noCharacters;
  }
  if (!named.empty()) {
    json["losses"] = named;
  }
  if (nlohmann::json factors = measureShortening(executor.plan(), named); !factors.empty()) {
    json["shortening_factor"] = factors;
  }
  if (result.words > 0) {
    json["words"] = result.words;
    json["word_perplexity"] = result.wordPerplexity();
  }
  if (!flags.images.empty()) {
    json["images"] = result.items;
    if (!result.chunks) {
      json["bits_per_dim"] = bits;
    }
  }
  return json;
}

void printForPeople(const EvaluationResult &result, const EvalFlags &flags,
                    const Executor &executor) {
  if (executor.factor() > 0) {
    std::cout << "factor          " << executor.factor() << "\n";
  }
  if (result.files.size() > 1) {
    std::string unit = nameLossUnit(executor.plan(), result.bytes.has_value());
    std::cout << format("%-16s %6s  file\n", ("bits per " + unit).c_str(),
                        result.chunks ? "chunks" : "tokens");
    for (const FileScore &file : result.files) {
      std::optional<double> bits = result.bytes ? file.bitsPerByte() : file.bitsPerUnit();
      std::cout << format("%13s  %8lld  ", bits ? format("%.4f", *bits).c_str() : "-",
                          static_cast<long long>(file.chunks.value_or(file.tokens)))
                << showPath(file.file.native()) << "\n";
    }
    std::cout << format("all %zu files:\n", result.files.size());
  }
  if (!executor.plan().entries.contains("predict")) {
    std::cout << format(
        "bits per chunk  %.4f\nnats per chunk  %.4f\nscored chunks   %lld\n"
        "scored tokens   %lld\n",
        result.bitsPerUnit().value_or(0), result.nats / static_cast<double>(result.countUnits()),
        static_cast<long long>(result.countUnits()), static_cast<long long>(result.tokens));
    return;
  }
  std::cout << format("bits per token  %.4f\n", result.bitsPerUnit().value_or(0))
            << (result.bytes
                    ? format("bits per byte   %.4f\n", *result.bitsPerByte())
                    : "nats per token  " +
                          format("%.4f\n", result.nats / static_cast<double>(result.tokens)))
            << (result.characters
                    ? format("per character   %.4f bits, %lld characters\n",
                             *result.bitsPerCharacter(), static_cast<long long>(*result.characters))
                    : "per character   no number: " + showMessage(result.noCharacters) + "\n")
            << format("perplexity      %.4f\nscored tokens   %lld\n", result.perplexity(),
                      static_cast<long long>(result.tokens));
  if (result.words > 0) {
    std::cout << format("per word        %.4f perplexity, %lld words\n", result.wordPerplexity(),
                        static_cast<long long>(result.words));
  }
  if (!flags.images.empty()) {
    std::cout << format("bits per dim    %.4f\n", result.bitsPerUnit().value_or(0));
  }
  for (const auto &[name, nats] : result.losses) {
    if (!executor.plan().findSegmentFacts(name)) {
      auto chunks = result.counted.find(name);
      std::cout << format("loss %-10s %.4f nats", showPath(name).c_str(), nats)
                << (chunks == result.counted.end()
                        ? "\n"
                        : format(", %lld chunks\n", static_cast<long long>(chunks->second)));
    }
  }
  std::cout << describeShortening(measureShortening(executor.plan(), result.lossesByName()));
}

/// Returns the factors to score with; 0 if the model has only one.
std::vector<int64_t> factorsToScore(const EvalFlags &flags, Executor &executor) {
  if (flags.factor) {
    executor.chooseFactor(flags.factor);
  }
  std::vector<int64_t> factors = executor.plan().sortedFactors();
  if (flags.factor || factors.empty()) {
    return {executor.factor()};
  }
  if (!flags.perToken.empty()) {
    throw UserError("sluice eval: expected --factor with --per-token, as this model is scored with "
                    "each of several, found none; give --factor " +
                    std::to_string(factors.front()));
  }
  return factors;
}

/// Checks the flags of --metric, which has references in place of the text of --data.
void checkMetric(const EvalFlags &flags, const CLI::App &command) {
  checkMetricFlags(command, flags.metric);
  if (flags.metric.metric.empty()) {
    if (!flags.references.empty()) {
      throw UserError("sluice eval: expected --metric with --reference, found none; give --metric "
                      "bleu or rouge, or score the text itself with --data");
    }
    if (flags.data.empty()) {
      throw CLI::RequiredError("--data");
    }
    if (flags.beam.width) {
      throw UserError("sluice eval: expected --metric with --beam, which generates lines, found "
                      "none; give it, or leave --beam out");
    }
    return;
  }
  for (const char *flag :
       {"--data", "--labels", "--images", "--window", "--stride", "--tokens", "--per-token"}) {
    if (command.count(flag) > 0) {
      throw UserError(std::string("sluice eval: expected no ") + flag +
                      " with --metric, which generates a line for each line of --input and scores "
                      "it against --reference, found it; leave one of them out");
    }
  }
  if (flags.references.empty()) {
    throw UserError("sluice eval: expected --reference FILE with --metric, found none; give the "
                    "lines to compare with, one for each line of --input");
  }
}

/// Opens the lines that the model generates from.
InputLines openInputs(const EvalFlags &flags, const Plan &plan, const ReadingOptions &reading) {
  InputFiles files = parseInputFiles("--input", flags.inputs);
  if (plan.given.empty()) {
    throw UserError(showPath(flags.artifact) +
                    ": expected a model with named inputs with --metric, for whose lines it "
                    "generates lines, found one without; write texts with sluice generate and "
                    "score them with sluice score");
  }
  requireInputs(plan, files, "--input");
  return {files, plan, reading};
}

/// Returns the search of --beam; none without it.
std::optional<LineSearch> readSearch(const BeamFlags &flags, const Plan &plan,
                                     const TextEncoder *encoder) {
  if (!flags.width) {
    return std::nullopt;
  }
  if (size_t tokens = encoder ? encoder->encode("\n").size() : 1; tokens != 1) {
    throw UserError("sluice eval: expected a tokenizer with one token for a line end with --beam, "
                    "found " +
                    std::to_string(tokens) + "; leave --beam out, or train another tokenizer");
  }
  LineSearch search{readBeamOptions(flags, {"\n"}, plan.model.vocabulary, encoder), 0};
  // A line begins with the end of another one; the last token is not read.
  search.limit = std::min(flags.maxTokens.value_or(plan.model.context), plan.model.context);
  requireEnd(flags, search.limit);
  return search;
}

/// Generates a line for each line of the inputs, and scores them against the references.
void runMetric(const EvalFlags &flags, const ProcessGroup *group) {
  if (group) {
    throw UserError("sluice eval: expected one process with --metric, found " +
                    std::to_string(group->size()) + "; start it without a launcher");
  }
  std::unique_ptr<Executor> executor = openExecutor(flags.artifact, flags.device);
  const Plan &plan = executor->plan();
  executor->chooseFactor(flags.factor);
  ReadingOptions reading{
      .isRaw = flags.raw,
      .encoder = findEncoder(flags.tokenizer, flags.weights, plan.model.vocabulary, flags.step),
      .tokenizer = readTokenizerHash(flags.weights, flags.step)};
  InputLines inputs = openInputs(flags, plan, reading);
  for (const auto &[name, lines] : inputs.byName()) {
    if (std::string cut = lines.describeCut("the input " + name); !cut.empty()) {
      printNotice(cut);
    }
  }
  std::vector<TextLines> references =
      readReferences(flags.references, flags.raw, inputs.count(),
                     showPath(inputs.byName().begin()->second.files().front().path.native()));
  std::optional<LineSearch> search = readSearch(flags.beam, plan, reading.encoder.get());
  Path weights = loadWeights(flags.weights, *executor, printNotice, flags.step, flags.names);
  Progress progress;
  TextLines texts{"generated lines",
                  generateLines(*executor, inputs, reading.encoder, search,
                                [&](double share) { progress.draw(share, "generating"); })};
  progress.clear();
  noteInvalidText(texts);
  nlohmann::ordered_json result = computeMetric(flags.metric, texts, references);
  if (!flags.json) {
    std::cout << describeMetric(result) << "\nweights         " << showPath(weights.native())
              << std::endl;
    return;
  }
  result["leak_allowed"] = plan.verdict != "proved";
  result["proof"] = plan.verdict;
  result["weights"] = weights.string();
  printJson(result);
}

/// Compares the flags, weights and data of the processes, if there are several.
void compareScored(const EvalFlags &flags, Executor &executor, const HeldOut &scored) {
  const EvaluationOptions &options = flags.options;
  if (options.group) {
    compareEvaluations(*options.group, executor, SLUICE_VERSION, scored.hash(),
                       "--window " + std::to_string(options.window) + " --stride " +
                           std::to_string(options.stride) + " --tokens " +
                           std::to_string(options.mostTokens) + " --factor " +
                           std::to_string(flags.factor.value_or(0)));
  }
}

void runEval(EvalFlags &flags, ProcessGroup *group) {
  flags.options.group = group;
  if (group) {
    shareFiles(*group, flags.device,
               {{"--data", flags.data},
                {"--input", flags.inputs},
                {"--labels", flags.labels},
                {"--weights", {flags.weights}}});
  }
  std::optional<ProcessGroup::Presence> presence;
  presence.emplace(group); // opening files and code may take longer than on other ranks
  checkOutputs({{"--per-token", flags.perToken, FileKind::Npy}},
               joinPaths({{flags.artifact, flags.weights}, flags.data, flags.inputs, flags.labels}),
               flags.force);
  std::unique_ptr<Executor> executor = openExecutor(flags.artifact, flags.device);
  std::vector<int64_t> factors = factorsToScore(flags, *executor);
  HeldOut scored = readScored(flags, executor->plan());
  Path weights = loadWeights(flags.weights, *executor, printNotice, flags.step, flags.names);
  compareScored(flags, *executor, scored);
  presence.reset();
  bool isFirst = isFirstProcess(group);
  std::optional<NpyWriter> losses;
  if (!flags.perToken.empty() && isFirst) {
    losses.emplace(flags.perToken,
                   std::vector{countScored(scored.usedFiles(), flags.options.mostTokens,
                                           executor->plan().model.first)});
  }
  EvaluationResult result;
  nlohmann::ordered_json json;
  for (int64_t factor : factors) {
    if (factor > 0) {
      executor->chooseFactor(factor);
    }
    result = scoreWith(*executor, flags, scored, losses);
    if (!isFirst) {
      continue;
    }
    if (!flags.json) {
      printForPeople(result, flags, *executor);
    } else {
      auto own = toJson(result, flags, scored, *executor, weights);
      if (factors.size() > 1) {
        json["factors"][std::to_string(factor)] = std::move(own);
      } else {
        json = std::move(own);
      }
    }
  }
  if (losses) {
    losses->finish();
  }
  if (isFirst && flags.json) {
    printJson(json);
  } else if (isFirst) {
    std::cout << "weights         " << showPath(weights.native()) << "\nprotocol        "
              << describeScoring(result, *executor) << std::endl;
  }
  finishTogether(group);
}

} // namespace

void registerEval(CLI::App &program) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App *command = program.add_subcommand(
      "eval", "Measure bits per byte and per character of text that a model has not seen, or "
              "BLEU or ROUGE of the lines that it generates");
  addModelOptions(*command, flags->artifact, flags->weights, flags->names);
  addStep(*command, flags->step);
  command
      ->add_option(
          "--data", flags->data,
          "Text to score: files whose bytes are token ids, also gzip or zstd; - is standard "
          "input. Or token ids: .npy files of uint16 or int32, or uint16:FILE")
      ->type_name("FILE")
      ->default_str("");
  addInputs(*command, flags->inputs,
            "its line i belongs to line i of --data, or of each --reference");
  addLabels(*command, "--labels", flags->labels, "--data");
  addImages(*command, flags->images, "--data");
  addRaw(*command, flags->raw);
  addTokenizer(*command, flags->tokenizer, "default: the one of the run that --weights names");
  command->add_option("--window", flags->options.window, "Tokens a window; 0 takes the context");
  command->add_option("--stride", flags->options.stride,
                      "Tokens from a window's start to the next's; 0 takes half the window");
  command->add_option("--tokens", flags->options.mostTokens,
                      "Tokens to score at most; 0 scores all");
  command
      ->add_option("--per-token", flags->perToken,
                   "Write the loss of every scored token, nats in the order of the text, as an "
                   "array of f32 (.npy)")
      ->type_name("FILE");
  addMetricFlags(*command, flags->metric);
  command
      ->add_option("--reference", flags->references,
                   "With --metric, in place of --data: for each line of --input the likeliest line "
                   "is generated, token by token or with --beam, and scored against line i of "
                   "these files")
      ->type_name("FILE")
      ->default_str("");
  addBeamFlags(*command, flags->beam, "its line", "what the context has room for");
  addForce(*command, flags->force);
  addFactor(*command, flags->factor, "score with this one alone; default: each");
  command->add_flag("--json", flags->json, "Print one JSON object");
  addProcessOptions(*command, flags->processes);
  addDeviceOptions(*command, flags->device);
  command->callback([flags, command] {
    runTogether(flags->processes, [&](ProcessGroup *group) {
      checkMetric(*flags, *command);
      flags->metric.metric.empty() ? runEval(*flags, group) : runMetric(*flags, group);
    });
  });
}

} // namespace sluice::cli
