// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice analyze`: a trained model's use of its context and of rare tokens, and its texts.
#include "AnalyzeAttention.h"
#include "CommandLine.h"
#include "Commands.h"
#include "Common.h"
#include "DataOptions.h"
#include "sluice/Loading/Streams.h"
#include "sluice/Runtime/Analyze/Analyses.h"
#include "sluice/Runtime/Analyze/Neighbours.h"
#include "sluice/Runtime/Data/LinePairs.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::loading;

struct AnalyzeFlags {
  std::string kind, artifact, weights, picture, stream, tokenizer;
  WeightNames names;
  std::optional<int64_t> step;
  std::vector<std::string> data, train;
  bool raw = false;
  ContextOptions context;
  SampleOptions samples;
  NeighbourOptions neighbours;
  AttentionFlags attention;
  int64_t bins = 5;
  DeviceOptions device;
  bool json = false, force = false;
};

/// Flags of only some analyses.
struct Owned {
  const char *flag;
  std::vector<std::string> kinds;
};
const std::vector<Owned> &ownedFlags() {
  static const std::vector<Owned> flags = {
      {"--length", {"context", "attention"}},
      {"--layer", {"attention"}},
      {"--head", {"attention"}},
      {"--part", {"attention"}},
      {"--input", {"attention"}},
      {"--line", {"attention"}},
      {"--out", {"attention"}},
      {"--windows", {"context"}},
      {"--bins", {"frequency"}},
      {"--train", {"frequency", "samples"}},
      {"--seed", {"context", "samples"}},
      {"--prompts", {"samples", "completions"}},
      {"--prompt-tokens", {"samples", "completions"}},
      {"--tokens", {"samples"}},
      {"--num", {"samples"}},
      {"--temperature", {"samples"}},
      {"--top-k", {"samples"}},
      {"--top-p", {"samples"}},
      {"--stream", {"neighbours"}},
      {"--queries", {"neighbours"}},
      {"--nearest", {"neighbours"}},
  };
  return flags;
}

void requireRange(const char *flag, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) {
    bool isOpen = most == INT64_MAX;
    throw UserError(std::string(flag) + ": expected a number " +
                    (isOpen ? "of at least " : "from ") + std::to_string(least) +
                    (isOpen ? "" : " to " + std::to_string(most)) + ", found " +
                    std::to_string(value));
  }
}

void checkFlags(const AnalyzeFlags &flags, const CLI::App &command) {
  for (const Owned &owned : ownedFlags()) {
    bool isOwn = std::find(owned.kinds.begin(), owned.kinds.end(), flags.kind) != owned.kinds.end();
    if (!isOwn && command.count(owned.flag) > 0) {
      std::string kinds = owned.kinds.front();
      for (size_t i = 1; i < owned.kinds.size(); ++i) {
        kinds += (i + 1 == owned.kinds.size() ? " or " : ", ") + owned.kinds[i];
      }
      throw UserError(std::string("expected ") + owned.flag + " with the analysis " + kinds +
                      " alone, found " + flags.kind + "; leave it out");
    }
  }
  constexpr int64_t most = int64_t(1) << 20;
  requireRange("--bins", flags.bins, 2, 256);
  requireRange("--windows", flags.context.mostWindows, 0, INT64_MAX);
  requireRange("--prompts", flags.samples.prompts, 1, most);
  requireRange("--num", flags.samples.completions, 1, most / flags.samples.prompts);
  requireRange("--prompt-tokens", flags.samples.promptTokens, 0, INT32_MAX);
  requireRange("--tokens", flags.samples.tokens, 0, INT32_MAX);
  requireRange("--queries", flags.neighbours.queries, 1, most);
  requireRange("--nearest", flags.neighbours.nearest, 1, most);
  if (flags.kind == "neighbours" && flags.stream.empty()) {
    throw UserError(
        "expected --stream with the analysis neighbours, found none; name a stage whose "
        "rows are compared, such as stages.1.inside.2");
  }
  if (flags.kind == "attention" && flags.data.size() > 1) {
    throw UserError("--data: expected one file with the analysis attention, found " +
                    std::to_string(flags.data.size()) + "; name one");
  }
  checkSampling(flags.samples.sampling);
}

nlohmann::json toJson(const ContextResult &result) {
  nlohmann::json places = nlohmann::json::array();
  for (const ContextResult::Place &place : result.places) {
    places.push_back({{"distance", place.distance},
                      {"bits", place.plain},
                      {"bits_shuffled", place.shuffled},
                      {"increase", place.increase()},
                      {"standard_error", place.error}});
  }
  return {{"analysis", "context"},
          {"length", result.length},
          {"windows", result.windows},
          {"seed", result.seed},
          {"places", places}};
}

nlohmann::json toJson(const FrequencyResult &result) {
  nlohmann::json bins = nlohmann::json::array();
  for (const FrequencyResult::Bin &bin : result.bins) {
    bins.push_back({{"tokens", bin.tokens},
                    {"share", bin.share},
                    {"scored", bin.scored},
                    {"bits", bin.scored > 0 ? nlohmann::json(bin.bits) : nlohmann::json()},
                    {"standard_error", bin.error}});
  }
  return {{"analysis", "frequency"}, {"bins", bins}};
}

nlohmann::json toJson(const SampleResult::Side &side) {
  return {{"words", side.words}, {"word_perplexity", side.perplexity}, {"repeats", side.repeats}};
}
nlohmann::json toJson(const SampleResult &result) {
  return {{"analysis", "samples"},
          {"prompts", result.prompts},
          {"completions", result.completions},
          {"prompt_tokens", result.promptTokens},
          {"tokens", result.tokens},
          {"written", toJson(result.written)},
          {"reference", toJson(result.reference)},
          {"ref_bleu", result.refBleu},
          {"seconds", result.seconds}};
}

nlohmann::json toJson(const CompletionResult &result) {
  nlohmann::json prompts = nlohmann::json::array();
  for (const CompletionResult::Prompt &prompt : result.prompts) {
    nlohmann::json expected = nlohmann::json::array();
    for (const CompletionResult::Prompt::Token &token : prompt.expected) {
      expected.push_back({{"token", token.id}, {"probability", token.probability}});
    }
    prompts.push_back({{"text", prompt.text}, {"next", prompt.next}, {"expected", expected}});
  }
  return {{"analysis", "completions"},
          {"group", result.group},
          {"prompt_tokens", result.promptTokens},
          {"found", result.found},
          {"prompts", prompts}};
}

nlohmann::json toJson(const NeighbourResult::Group &group) {
  return {{"file", group.file},
          {"start", group.start},
          {"text", group.text},
          {"similarity", group.similarity}};
}
nlohmann::json toJson(const NeighbourResult &result) {
  nlohmann::json queries = nlohmann::json::array();
  for (const NeighbourResult::Query &query : result.queries) {
    nlohmann::json nearest = nlohmann::json::array();
    for (const NeighbourResult::Group &group : query.nearest) {
      nearest.push_back(toJson(group));
    }
    queries.push_back({{"group", toJson(query.group)}, {"nearest", nearest}});
  }
  return {{"analysis", "neighbours"},
          {"factor", result.factor},
          {"groups", result.groups},
          {"queries", queries}};
}

/// Prints distances in runs that double: 1, 2, 3-4, 5-8, ...
void print(const ContextResult &result) {
  std::cout << format("%lld windows of %lld tokens, the first half of each shuffled\n",
                      static_cast<long long>(result.windows), static_cast<long long>(result.length))
            << "tokens after it     bits  shuffled  increase\n";
  auto half = static_cast<int64_t>(result.places.size());
  for (int64_t first = 1, last = 1; first <= half;
       first = last + 1, last = std::min(half, 2 * last)) {
    double plain = 0, shuffled = 0;
    for (int64_t distance = first; distance <= last; ++distance) {
      const ContextResult::Place &place = result.places[static_cast<size_t>(distance - 1)];
      plain += place.plain / static_cast<double>(last - first + 1);
      shuffled += place.shuffled / static_cast<double>(last - first + 1);
    }
    std::string span = std::to_string(first);
    span += last > first ? "-" + std::to_string(last) : "";
    std::cout << format("%16s  %6.3f  %8.3f  %8.3f\n", span.c_str(), plain, shuffled,
                        shuffled - plain);
  }
}

void print(const FrequencyResult &result) {
  std::cout << "bin  kinds   share    scored    bits\n";
  for (size_t i = 0; i < result.bins.size(); ++i) {
    const FrequencyResult::Bin &bin = result.bins[i];
    std::string bits = bin.scored > 0 ? format("%.3f", bin.bits) : "-";
    std::cout << format("%3zu  %5zu  %5.1f%%  %8lld  %6s\n", i + 1, bin.tokens.size(),
                        100 * bin.share, static_cast<long long>(bin.scored), bits.c_str());
  }
}

void print(const SampleResult &result) {
  std::cout << format("%lld completions of %lld tokens after each of %lld prompts of %lld\n",
                      static_cast<long long>(result.completions),
                      static_cast<long long>(result.tokens), static_cast<long long>(result.prompts),
                      static_cast<long long>(result.promptTokens))
            << "           words  perplexity  repeated 1-, 2-, 3-, 4-grams\n";
  for (auto [name, side] :
       {std::pair("written", &result.written), {"reference", &result.reference}}) {
    std::string perplexity = side->words > 0 ? format("%.1f", side->perplexity) : "-";
    std::cout << format("%-9s  %5lld  %10s  %5.1f%% %5.1f%% %5.1f%% %5.1f%%\n", name,
                        static_cast<long long>(side->words), perplexity.c_str(),
                        100 * side->repeats[0], 100 * side->repeats[1], 100 * side->repeats[2],
                        100 * side->repeats[3]);
  }
  std::cout << format("Ref-BLEU %.4f, %.3f s a completion\n", result.refBleu, result.seconds);
}

/// Returns a group's text on one line.
std::string oneLine(const std::string &text) {
  return showText(
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print(const CompletionResult &result) {
  for (const CompletionResult::Prompt &prompt : result.prompts) {
    std::cout << oneLine(prompt.text) << "\n  continues with " << oneLine(prompt.next)
              << "\n  expected ";
    for (const CompletionResult::Prompt::Token &token : prompt.expected) {
      std::cout << ' ' << oneLine(token.text);
    }
    std::cout << "\n";
  }
  std::cout << format("%.1f%% of the kinds of tokens in the next %lld were expected\n",
                      100 * result.found, static_cast<long long>(result.group));
}

void print(const NeighbourResult &result) {
  std::cout << format("%lld groups of %lld tokens; similarity is the cosine of their rows\n",
                      static_cast<long long>(result.groups), static_cast<long long>(result.factor));
  for (const NeighbourResult::Query &query : result.queries) {
    std::cout << oneLine(query.group.text) << "\n";
    for (const NeighbourResult::Group &group : query.nearest) {
      std::cout << format("  %.3f  ", group.similarity) << oneLine(group.text) << "\n";
    }
  }
}

template <typename Result>
void report(const AnalyzeFlags &flags, const Result &result, const std::string &page) {
  if (!flags.picture.empty()) {
    replaceFile(flags.picture, asBytes(page));
  }
  if (flags.json) {
    printJson(toJson(result));
  } else {
    print(result);
  }
}

void runAnalyze(const AnalyzeFlags &flags, const CLI::App &command) {
  checkFlags(flags, command);
  bool isMap = flags.kind == "attention";
  checkOutputs(
      {{"--picture", flags.picture, isMap ? FileKind::Svg : FileKind::Html},
       {"--out", flags.attention.out, FileKind::Npy}},
      joinPaths({{flags.artifact, flags.weights}, flags.data, flags.train, flags.attention.inputs}),
      flags.force);
  if (isMap) {
    analyzeAttention(flags.attention, {flags.artifact, flags.weights, flags.data.front(),
                                       flags.picture, flags.tokenizer, flags.names, flags.step,
                                       flags.device, flags.context.length, flags.raw, flags.json});
    return;
  }
  std::unique_ptr<Executor> executor;
  ModelStream stream;
  if (flags.kind == "neighbours") {
    std::shared_ptr<const Artifact> artifact = Artifact::load(flags.artifact, flags.device.target);
    warnOfLeak(*artifact);
    checkPredicts(artifact->plan(), flags.artifact);
    stream = findStream(artifact->plan(), "--stream", flags.stream);
    executor = openStream(*artifact, stream, flags.device);
  } else {
    executor = openExecutor(flags.artifact, flags.device);
    checkPredicts(executor->plan(), flags.artifact);
  }
  refuseInputs(executor->plan(), "sluice analyze");
  int64_t vocabulary = executor->plan().model.vocabulary;
  ReadingOptions reading = {.isRaw = flags.raw,
                            .encoder =
                                findEncoder(flags.tokenizer, flags.weights, vocabulary, flags.step),
                            .tokenizer = readTokenizerHash(flags.weights, flags.step)};
  auto read = [&](const std::vector<std::string> &names) {
    return openTexts(names, vocabulary, 2, "one token to predict from another", reading);
  };
  std::vector<ByteFile> files = read(flags.data);
  std::vector<ByteFile> counted = flags.train.empty() ? files : read(flags.train);
  SampleOptions options = flags.samples;
  options.sampling.seed = flags.context.seed;
  loadWeights(flags.weights, *executor, printNotice, flags.step, flags.names);
  Progress progress;
  auto draw = [&](double share) {
    progress.draw(share, flags.kind == "samples" ? "writing" : "evaluating");
  };
  const std::string &model = executor->plan().model.name;
  if (flags.kind == "context") {
    ContextResult result = measureContext(*executor, files, flags.context, draw);
    progress.clear();
    report(flags, result, drawContext(result, model));
  } else if (flags.kind == "neighbours") {
    NeighbourResult result =
        measureNeighbours(*executor, files, stream.factor, flags.neighbours, draw);
    progress.clear();
    report(flags, result, drawNeighbours(result, model));
  } else if (flags.kind == "samples") {
    SampleResult result = measureSamples(*executor, counted, files, options, draw);
    progress.clear();
    report(flags, result, drawSamples(result, model));
  } else if (flags.kind == "completions") {
    CompletionResult result = measureCompletions(*executor, files, options, draw);
    progress.clear();
    report(flags, result, drawCompletions(result, model));
  } else {
    FrequencyResult result = measureFrequency(*executor, counted, files, flags.bins, draw);
    progress.clear();
    report(flags, result, drawFrequency(result, model));
  }
}

} // namespace

void registerAnalyze(CLI::App &program) {
  auto flags = std::make_shared<AnalyzeFlags>();
  CLI::App *command = program.add_subcommand(
      "analyze",
      "Measure what a model reads of its context, how it predicts rare tokens, what it writes");
  command
      ->add_option(
          "KIND", flags->kind,
          "context: how much worse tokens are predicted after a shuffled half, by distance; "
          "frequency: how well, by how common they are; samples: what is written after prompts, "
          "next to how the text continues; completions: which tokens a model of groups alone "
          "expects in the next one; neighbours: which groups of tokens have rows alike in a "
          "stream; "
          "attention: what the rows of a layer read of one text")
      ->check(CLI::IsMember(
          {"context", "frequency", "samples", "completions", "neighbours", "attention"}))
      ->required();
  addModelOptions(*command, flags->artifact, flags->weights, flags->names);
  addStep(*command, flags->step);
  addRaw(*command, flags->raw);
  addTokenizer(*command, flags->tokenizer, "default: the one of the run that --weights names");
  command
      ->add_option("--data", flags->data,
                   "Files to score, whose bytes, or whose tokens, are token ids")
      ->type_name("FILE")
      ->default_str("")
      ->required();
  command
      ->add_option("--length", flags->context.length,
                   "context: tokens a window, even; attention: most tokens of the text; 0 takes "
                   "the model's context")
      ->default_val(0);
  command
      ->add_option("--windows", flags->context.mostWindows,
                   "context: at most so many windows, evenly spread; 0 takes all")
      ->default_val(0);
  command
      ->add_option("--seed", flags->context.seed,
                   "context: seed of the shuffles; samples: of what is drawn; random draws one "
                   "and prints it")
      ->transform(drawnSeed("--seed"))
      ->default_val(0);
  command
      ->add_option("--train", flags->train,
                   "frequency, samples: files in which tokens or words are counted; else --data")
      ->type_name("FILE")
      ->default_str("");
  command
      ->add_option("--bins", flags->bins,
                   "frequency: bins of equal shares of the counted tokens, from 2 to 256")
      ->default_val(5);
  SampleOptions &samples = flags->samples;
  samples.sampling.temperature = 0.7;
  command
      ->add_option("--prompts", samples.prompts,
                   "samples, completions: prompts, evenly spread over the text")
      ->default_val(16);
  command
      ->add_option("--prompt-tokens", samples.promptTokens,
                   "samples, completions: tokens of a prompt; 0 takes a quarter of the context, "
                   "or what the model needs")
      ->default_val(0);
  command
      ->add_option("--tokens", samples.tokens,
                   "samples: tokens to write after each; 0 takes three times the prompt")
      ->default_val(0);
  command->add_option("--num", samples.completions, "samples: completions of each prompt")
      ->default_val(3);
  command->add_option("--temperature", samples.sampling.temperature, "samples: divides logits")
      ->default_val(0.7);
  command
      ->add_option("--top-k", samples.sampling.topK,
                   "samples: draws from the k likeliest; 0 from all")
      ->default_val(0);
  command
      ->add_option("--top-p", samples.sampling.topP,
                   "samples: draws from the likeliest that together reach this probability")
      ->default_val(1);
  command
      ->add_option("--stream", flags->stream,
                   "neighbours: whose rows, by a stage's \"to\" or its name, stages.1.inside.2")
      ->type_name("NAME")
      ->default_str("");
  command
      ->add_option("--queries", flags->neighbours.queries,
                   "neighbours: groups to look for others of, evenly spread")
      ->default_val(8);
  command->add_option("--nearest", flags->neighbours.nearest, "neighbours: how many of each")
      ->default_val(5);
  command->add_option("--picture", flags->picture, "Page to write, HTML; attention: SVG")
      ->type_name("FILE");
  addAttentionFlags(*command, flags->attention);
  addForce(*command, flags->force);
  command->add_flag("--json", flags->json, "Print one JSON object");
  addDeviceOptions(*command, flags->device);
  command->callback([flags, command] { runAnalyze(*flags, *command); });
}

} // namespace sluice::cli
