// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice generate`: continues prompts.
#include "CommandLine.h"
#include "Commands.h"
#include "Common.h"
#include "DataOptions.h"
#include "GenerateBeam.h"
#include "GenerateImages.h"
#include "Printer.h"
#include "Score.h"
#include "Signals.h"
#include "Trace.h"
#include "sluice/Runtime/Data/LinePairs.h"
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Runtime/Generate/Session.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <iostream>
#include <iterator>

namespace sluice::cli {
namespace {

using namespace sluice;
using namespace sluice::runtime;

struct GenerateFlags {
  std::string artifact, weights, prompt, promptFile, session, saveSession, trace, tokenizer;
  ImageFlags images;
  BeamFlags beam;
  WeightNames names;
  std::vector<std::string> stops, inputs, continuations;
  std::optional<std::string> promptTokens;
  int64_t tokens = 256, samples = 1;
  DeviceOptions device;
  SamplingOptions options;
  std::optional<int64_t> factor, step;
  bool noCache = false, noEcho = false, lines = false, json = false, force = false, raw = false;
};

/// All prompts and answers stay in memory until the end.
constexpr int64_t mostTexts = 1 << 20;

/// Prompts as given, and the texts that start with them.
struct Job {
  std::vector<std::string> prompts; ///< by text
  std::vector<Text> texts;
};

std::string readStandardInput() { return {std::istreambuf_iterator<char>(std::cin), {}}; }

/// Reads lines, which end in a newline or a carriage return and a newline.
std::vector<std::string> readPrompts(const std::string &path) {
  std::string text = path == "-" ? readStandardInput() : readText(path, "file of prompts");
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    bool hasReturn = end > at && end < text.size() && text[end - 1] == '\r';
    lines.push_back(text.substr(at, end - at - (hasReturn ? 1 : 0)));
    at = end + 1;
  }
  if (lines.empty()) {
    throw UserError(showPath(path) +
                    ": expected one prompt a line, found an empty file; name another");
  }
  return lines;
}

std::vector<std::string> readPromptFlags(const GenerateFlags &flags) {
  if (!flags.promptFile.empty()) {
    return readPrompts(flags.promptFile);
  }
  if (flags.prompt == "-") {
    return {readStandardInput()};
  }
  return {flags.prompt};
}

/// Reads the files of a model with named inputs, unless a session contains them.
std::optional<InputLines> readInputLines(const GenerateFlags &flags, const Plan &plan,
                                         const std::shared_ptr<const TextEncoder> &encoder) {
  InputFiles files = parseInputFiles("--input", flags.inputs);
  if (!flags.session.empty() && files.empty()) {
    return std::nullopt;
  }
  if (!flags.session.empty()) {
    throw UserError("expected no --input with --session, which holds the inputs of its text, found "
                    "it; leave it out");
  }
  requireInputs(plan, files, "--input");
  std::optional<InputLines> lines;
  if (!files.empty()) {
    lines.emplace(files, plan,
                  ReadingOptions{.isRaw = flags.raw, .streams = {}, .encoder = encoder});
    for (const auto &[name, own] : lines->byName()) {
      if (std::string cut = own.describeCut("the input " + name); !cut.empty()) {
        printNotice(cut);
      }
    }
  }
  return lines;
}

/// Returns a prompt for each line of the inputs.
std::vector<std::string> promptsOfLines(const GenerateFlags &flags, int64_t lines) {
  std::vector<std::string> prompts = readPromptFlags(flags);
  if (flags.promptFile.empty()) {
    return std::vector<std::string>(static_cast<size_t>(lines), prompts.front());
  }
  if (static_cast<int64_t>(prompts.size()) != lines) {
    throw UserError(showPath(flags.promptFile) + ": expected a prompt for each of the " +
                    std::to_string(lines) + " lines of --input, found " +
                    std::to_string(prompts.size()) + "; give as many, or one --prompt for all");
  }
  return prompts;
}

/// Continues the token ids of --prompt-tokens.
Job makeIdJob(const GenerateFlags &flags, const Plan &plan) {
  if (!plan.given.empty()) {
    throw UserError("--prompt-tokens: expected a model without named inputs, which begin with a "
                    "line end of a text, found one with them; give --prompt");
  }
  std::vector<int32_t> ids =
      parseTokenIds("--prompt-tokens", *flags.promptTokens, plan.model.vocabulary);
  if (ids.empty() && flags.session.empty()) {
    throw UserError("--prompt-tokens: expected at least one token id, found none; give one, such "
                    "as the id that begins a document");
  }
  Job job;
  std::string prompt;
  for (int32_t id : ids) {
    prompt += std::to_string(id) + " ";
  }
  for (int64_t sample = 0; sample < flags.samples; ++sample) {
    job.prompts.push_back(prompt);
    job.texts.push_back({ids, sample});
  }
  return job;
}

/// With lines of named inputs, a prompt starts the line of each.
Job makeJob(const GenerateFlags &flags, int64_t vocabulary, const std::optional<InputLines> &given,
            const TextEncoder *encoder) {
  Job job;
  int64_t line = 0;
  std::vector<std::string> prompts =
      given ? promptsOfLines(flags, given->count()) : readPromptFlags(flags);
  bool hasSession = !flags.session.empty() || !flags.saveSession.empty();
  if (hasSession && prompts.size() > 1) {
    throw UserError("expected one text for a session, found the " + std::to_string(prompts.size()) +
                    " lines of --input; give one line");
  }
  if (static_cast<int64_t>(prompts.size()) > mostTexts / flags.samples) {
    throw UserError("expected at most " + std::to_string(mostTexts) + " texts, found " +
                    std::to_string(prompts.size()) + " prompts times --num " +
                    std::to_string(flags.samples) + "; split the prompts or lower --num");
  }
  for (const std::string &prompt : prompts) {
    // A model needs a first token: no prompt means the start of a line.
    std::string start = given || (prompt.empty() && flags.session.empty()) ? "\n" + prompt : prompt;
    std::string name = prompt.empty() ? "no prompt, which means a newline"
                       : flags.promptFile.empty()
                           ? "the prompt"
                           : showPath(flags.promptFile) + ":" + std::to_string(line + 1);
    GivenLines inputs = given ? given->at(line) : GivenLines();
    ++line;
    std::vector<int32_t> tokens = encoder ? encoder->encode(start) : toTokens(start);
    checkPrompt(tokens, vocabulary, name);
    for (int64_t sample = 0; sample < flags.samples; ++sample) {
      job.prompts.push_back(prompt);
      job.texts.push_back({tokens, sample, 0, inputs});
    }
  }
  return job;
}

/// Checks the outputs. --session F --save-session F continues F, which is read before it is
/// written.
void checkWritten(const GenerateFlags &flags) {
  if (!flags.session.empty()) {
    requireKind(flags.session, FileKind::Session, "a session");
  }
  std::vector<Path> read =
      joinPaths({{flags.artifact, flags.weights, flags.promptFile}, flags.inputs});
  checkOutputs({{"--trace", flags.trace, FileKind::Trace},
                {"--save-session", flags.saveSession, FileKind::Session}},
               read, flags.force);
  checkOutputs({{"--trace", flags.trace, FileKind::Trace}}, {flags.session}, flags.force);
}

void checkFlags(const GenerateFlags &flags) {
  checkSampling(flags.options);
  bool several = flags.samples > 1 || !flags.promptFile.empty();
  bool hasSession = !flags.session.empty() || !flags.saveSession.empty();
  if (hasSession && several) {
    throw UserError("expected one text for a session, found several; leave out --num and "
                    "--prompt-file, or --session and --save-session");
  }
  if (hasSession && flags.noCache) {
    throw UserError("expected a cache for a session, which is what it holds, found --no-cache; "
                    "leave it out");
  }
  for (const std::string &stop : flags.stops) {
    if (stop.empty()) {
      throw UserError("expected a stop text of at least one byte, found an empty one; "
                      "leave --stop out");
    }
  }
  checkWritten(flags);
  noteEscapes("--prompt", flags.prompt);
  for (const std::string &stop : flags.stops) {
    noteEscapes("--stop", stop);
  }
  for (const std::string &continuation : flags.continuations) {
    noteEscapes("--score", continuation);
  }
}

/// Rejects flags whose values are texts, which token ids do not have.
void refuseBesideIds(const CLI::App &command) {
  for (const char *flag : {"--stop", "--score"}) {
    if (command.count(flag) > 0) {
      throw UserError(std::string("expected no ") + flag +
                      " where tokens are ids, whose text is unknown, found it; leave it out");
    }
  }
}

void refuseBesideImages(const CLI::App &command) {
  for (const char *flag :
       {"--prompt", "--prompt-file", "--prompt-tokens", "--input", "--tokens", "--stop",
        "--no-echo", "--lines", "--json", "--session", "--save-session", "--trace"}) {
    if (command.count(flag) > 0) {
      throw UserError(std::string("expected no ") + flag +
                      " with --images, which writes images, found it; leave one of them out");
    }
  }
}

/// Returns the hash of the tokenizer; empty without one.
std::string hashTokenizer(const TextEncoder *encoder) {
  return encoder ? encoder->hash() : std::string();
}

/// Throws UserError if the text of a call cannot continue the tokens of a session.
void checkSessionTokens(const Session &session, const TextEncoder *encoder, bool hasText) {
  if (encoder && !session.areIds) {
    throw UserError("--session: expected tokens of the tokenizer, found a session of bytes; begin "
                    "another text, or use weights of bytes");
  }
  if (encoder && !session.tokenizer.empty() && session.tokenizer != hashTokenizer(encoder)) {
    throw UserError("--tokenizer: expected the tokenizer of the session (hash " +
                    session.tokenizer + "), found another (" + hashTokenizer(encoder) +
                    "); give the session's own");
  }
  if (session.areIds && !encoder && hasText) {
    throw UserError("--prompt: expected token ids to append, as the session's tokens are ids, "
                    "found text; give --prompt-tokens");
  }
}

/// Continues the text of a session in row 0, with its options unless flags give others. Returns
/// true if its tokens are ids.
bool resume(const GenerateFlags &flags, const CLI::App &command, Executor &executor,
            Predictor &predictor, SamplingOptions &options, Text &text,
            const TextEncoder *encoder) {
  Session session = loadSession(flags.session, executor, predictor);
  SamplingOptions given = options;
  options = session.options;
  auto take = [&](const char *flag, auto member) {
    if (command.count(flag) > 0) {
      options.*member = given.*member;
    }
  };
  take("--temperature", &SamplingOptions::temperature);
  take("--top-k", &SamplingOptions::topK);
  take("--top-p", &SamplingOptions::topP);
  take("--min-p", &SamplingOptions::minP);
  take("--typical", &SamplingOptions::typical);
  take("--repetition-penalty", &SamplingOptions::repetitionPenalty);
  take("--seed", &SamplingOptions::seed);
  checkSessionTokens(session, encoder, !flags.promptTokens && !text.tokens.empty());
  session.text.tokens.insert(session.text.tokens.end(), text.tokens.begin(), text.tokens.end());
  text = std::move(session.text);
  return session.areIds;
}

/// Limits a text with named inputs to one row of the context. Throws UserError if no position of
/// the row remains.
void limitToLines(const Plan &plan, Job &job, const std::string &unit) {
  if (plan.given.empty()) {
    return;
  }
  for (Text &text : job.texts) {
    text.room = plan.model.context + 1 - std::ssize(text.tokens);
    if (text.room <= 0) {
      throw UserError(format("expected a line of at most %lld %s with its prompt, of which some "
                             "are left to write (the model has named inputs and a context of "
                             "%lld), found %lld; shorten the prompt",
                             static_cast<long long>(plan.model.context), unit.c_str(),
                             static_cast<long long>(plan.model.context),
                             static_cast<long long>(std::ssize(text.tokens) - 1)));
    }
  }
}

/// Returns the texts that end a text; a text with named inputs ends with its line.
std::vector<std::string> getStops(const GenerateFlags &flags, const Plan &plan) {
  std::vector<std::string> stops = flags.stops;
  if (flags.lines || (!plan.given.empty() && stops.empty())) {
    stops.emplace_back("\n");
  }
  return stops;
}

void runGenerate(const GenerateFlags &flags, const CLI::App &command) {
  checkFlags(flags);
  if (flags.beam.width) {
    refuseBesideBeam(command);
  }
  if (!flags.continuations.empty()) {
    refuseBesideScore(command);
  }
  std::unique_ptr<Executor> executor = openExecutor(flags.artifact, flags.device);
  executor->chooseFactor(flags.factor);
  if (!flags.images.size.empty()) {
    refuseBesideImages(command);
    writeImages(flags.images, flags.samples, flags.noCache, flags.weights, flags.step, flags.names,
                flags.options, *executor);
    return;
  }
  const int64_t vocabulary = executor->plan().model.vocabulary;
  bool areIds = flags.promptTokens.has_value();
  std::shared_ptr<const TextEncoder> encoder =
      areIds ? nullptr : findEncoder(flags.tokenizer, flags.weights, vocabulary, flags.step);
  if (std::string needed = readTokenizerHash(flags.weights, flags.step);
      !areIds && !encoder && !needed.empty() && flags.session.empty()) {
    throw UserError("--tokenizer: expected the tokenizer of the weights (hash " +
                    needed.substr(0, 16) +
                    "), found none; give it, or token ids with "
                    "--prompt-tokens");
  }
  std::optional<InputLines> lines = readInputLines(flags, executor->plan(), encoder);
  Job job = areIds ? makeIdJob(flags, executor->plan())
                   : makeJob(flags, vocabulary, lines, encoder.get()); // checked before printed
  loadWeights(flags.weights, *executor, printNotice, flags.step, flags.names);
  SamplingOptions options = flags.options;
  Predictor predictor(*executor, !flags.noCache);
  bool hasSession = !flags.session.empty() || !flags.saveSession.empty();
  if (hasSession && !flags.noCache && !executor->hasStep() && executor->plan().generation) {
    throw UserError(format(
        "--factor: expected %lld, the factor of the steps whose states a session "
        "holds, found %lld; leave --factor out, or compile the spec with --factor "
        "%lld",
        static_cast<long long>(executor->plan().factors.front()),
        static_cast<long long>(executor->factor()), static_cast<long long>(executor->factor())));
  }
  if (hasSession && !predictor.isCached()) {
    throw UserError(flags.artifact +
                    ": expected an artifact that generates step by step, whose states a session "
                    "holds, found one without; compile a model that has a step (sluice compile "
                    "--emit step reports why not)");
  }
  if (!predictor.isCached() && !flags.noCache && executor->plan().generation) {
    printNotice(format("note: this artifact generates step by step with factor %lld, so that with "
                       "factor %lld each token recomputes all before it; sluice compile --factor "
                       "%lld makes one for it",
                       static_cast<long long>(executor->plan().factors.front()),
                       static_cast<long long>(executor->factor()),
                       static_cast<long long>(executor->factor())));
  } else if (!predictor.isCached() && !flags.noCache) {
    printNotice("note: this artifact has no incremental step, so that each token recomputes all "
                "before it; sluice compile --emit step reports why");
  }
  if (!flags.session.empty()) {
    bool hasIds =
        resume(flags, command, *executor, predictor, options, job.texts.front(), encoder.get());
    areIds |= hasIds && !encoder;
  }
  if (areIds) {
    refuseBesideIds(command);
  } else if (vocabulary > 256 && !encoder) {
    printNotice(format("note: the model has %lld token ids, but a text's tokens are bytes, so that "
                       "ids from 256 on are not drawn; --prompt-tokens reads and writes ids",
                       static_cast<long long>(vocabulary)));
  }
  limitToLines(executor->plan(), job, encoder ? "tokens" : "bytes");
  for (const Text &text : job.texts) { // before the first output
    checkContinues(*executor, text.tokens, areIds || encoder ? "token" : "byte");
  }
  if (!flags.continuations.empty()) {
    printScores(job.prompts, job.texts, flags.continuations, flags.json, *executor, predictor,
                encoder.get());
    return;
  }
  const TokenSpelling spelling = areIds    ? spellIds(vocabulary)
                                 : encoder ? spellText(encoder)
                                           : TokenSpelling();
  const std::vector<std::string> stops = getStops(flags, executor->plan());
  BeamOptions search;
  int64_t limit = 0;
  if (flags.beam.width) {
    search = readBeamOptions(flags.beam, stops, std::min(vocabulary, spelling.ids), encoder.get());
    limit = getBeamLimit(flags.beam, command, flags.tokens, executor->plan(), job.texts,
                         areIds || encoder ? "tokens" : "bytes");
    requireBeamRows(predictor, search);
  }
  Printer printer(job.prompts, job.texts, options.seed,
                  {.echoes = !flags.noEcho,
                   .asLines = flags.lines,
                   .asJson = flags.json,
                   .areIds = areIds,
                   .isUtf8 = encoder != nullptr});
  if (!flags.saveSession.empty() || !flags.trace.empty()) {
    catchSignals();
  }
  TextSink sink = printer.sink();
  Trace trace(flags.trace, *executor, predictor.isCached(), sink);
  printer.begin();
  if (flags.beam.width) {
    searchTexts(*executor, predictor, job.texts, limit, search, sink, spelling);
  } else {
    writeTexts(*executor, predictor, job.texts, flags.tokens, options, stops, sink, spelling);
  }
  trace.close();
  if (!flags.saveSession.empty() && std::cout.good()) { // else its reader lacks the sampled tokens
    saveSession(flags.saveSession, *executor, predictor,
                {job.texts.front(), options, areIds || encoder, hashTokenizer(encoder.get())});
  }
  if (caughtSignal() != 0) {
    throw ExitStatus{128 + caughtSignal()};
  }
}

/// Adds the flags for the written text and its length.
void addTextFlags(CLI::App &command, GenerateFlags &flags) {
  CLI::Option *prompt =
      command.add_option("-p,--prompt", flags.prompt,
                         "Text to continue; - reads it from the standard input; empty starts after "
                         "a newline. Where the text outgrows the context, the model continues from "
                         "its newest part, half of the context");
  command
      .add_option("--prompt-file", flags.promptFile,
                  "One prompt a line, answered in order, several at once; - is the standard input")
      ->type_name("FILE")
      ->excludes(prompt);
  command
      .add_option("--prompt-tokens", flags.promptTokens,
                  "Token ids to continue, as in \"5 0 17\", for a model that was trained on ids; "
                  "ids are written instead of text")
      ->type_name("IDS")
      ->default_str("")
      ->excludes("--prompt")
      ->excludes("--prompt-file");
  addInputs(command, flags.inputs, "a text for each of its lines is written, to its line's end");
  addRaw(command, flags.raw);
  addTokenizer(command, flags.tokenizer, "default: the one of the run that --weights names");
  addImageFlags(command, flags.images);
  command.add_option("-n,--tokens", flags.tokens, "Tokens (bytes, or ids) to write of each text")
      ->check(wholeNumber(0, INT64_MAX));
  command
      .add_option("--num", flags.samples,
                  "Samples of each prompt; each depends on the seed and its number alone")
      ->check(wholeNumber(1, 1 << 20));
  command
      .add_option("--stop", flags.stops,
                  "End a text before this, wherever it comes in what is written; may be repeated: "
                  "--stop A --stop B")
      ->expected(1)
      ->default_str("")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  addBeamFlags(command, flags.beam, "the token of --stop, or with its line",
               "--tokens, or the room in the context if that is less");
  addEndToken(command, flags.beam);
  addScoreFlag(command, flags.continuations);
  command.add_flag("--no-echo", flags.noEcho,
                   "Print the continuation alone: no prompt, no newline at the end");
  command.add_flag(
      "--lines", flags.lines,
      "Print one line a text: no prompts and no headings; a text ends before a newline");
  command.add_flag(
      "--json", flags.json,
      "Print one JSON object a line: prompt, sample, seed, text, stop (length, stop or "
      "interrupted), "
      "tokens; and hex and prompt_hex, the bytes of text or prompt, where these are not "
      "UTF-8. With --score: prompt, continuation, nats, tokens, per_token. With "
      "--prompt-tokens: prompt_ids and ids in place of prompt and text");
}

void addSamplingFlags(CLI::App &command, SamplingOptions &options) {
  command.add_option("-t,--temperature", options.temperature,
                     "Divides the logits; 0 takes the likeliest");
  command.add_option("--top-k", options.topK, "Sample among the k likeliest; 0 samples among all");
  command.add_option("--top-p", options.topP,
                     "Sample among the likeliest that together reach this probability, above 0 and "
                     "at most 1; 1 samples among all");
  command.add_option("--min-p", options.minP,
                     "Sample among those at least this likely, the likeliest counted as 1; from 0 "
                     "to 1");
  command.add_option("--typical", options.typical,
                     "Sample among the most typical that together reach this probability: those "
                     "whose -log p is nearest to the entropy; above 0 and at most 1, where 1 "
                     "samples among all");
  command.add_option("--repetition-penalty", options.repetitionPenalty,
                     "Divides positive logits of tokens that the text has, multiplies negative "
                     "ones; above 0, and 1 is none");
  command
      .add_option("--seed", options.seed, "Seed of the sampling; random draws one and prints it")
      ->transform(drawnSeed("--seed"));
}

} // namespace

void registerGenerate(CLI::App &program) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App *command =
      program.add_subcommand("generate", "Continue texts, byte by byte, to the standard output");
  addModelOptions(*command, flags->artifact, flags->weights, flags->names);
  addStep(*command, flags->step);
  addTextFlags(*command, *flags);
  addSamplingFlags(*command, flags->options);
  command
      ->add_option("--save-session", flags->saveSession,
                   "Write the states that the text's next token needs, to continue later; Ctrl-C "
                   "writes it too")
      ->type_name("FILE");
  command
      ->add_option("--session", flags->session,
                   "Continue a saved text, and its sampling flags where none are given; a prompt "
                   "is appended to it first")
      ->type_name("FILE");
  command
      ->add_option("--trace", flags->trace,
                   "Write a JSON object a line for each token that is read, from the prompt's last "
                   "on: text, position, token and, by segmentation, bit (1 where the token ends a "
                   "segment, or begins one where bits do so) and closed (segments that have ended, "
                   "or begun); Ctrl-C writes what there is")
      ->type_name("FILE");
  addForce(*command, flags->force);
  command->add_flag(
      "--no-cache", flags->noCache,
      "Recompute everything for each token, for comparison: probabilities are equal up to "
      "rounding, so the likeliest text is the same unless two bytes are almost equally likely, "
      "which happens more often in bf16 and with compile --weights int8 or int4");
  addFactor(*command, flags->factor,
            "generate with this one; default: that of sluice compile --factor, whose steps keep "
            "their states");
  addDeviceOptions(*command, flags->device);
  command->callback([flags, command] { runGenerate(*flags, *command); });
}

} // namespace sluice::cli
