// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "AnalyzeAttention.h"

#include "DataOptions.h"
#include "Recompile.h"
#include "sluice/Runtime/Analyze/AttentionMap.h"
#include "sluice/Runtime/Data/Npy.h"
#include "sluice/Runtime/Data/Sources.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Runtime/Train/StartingWeights.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <iostream>
#include <utility>

namespace sluice::cli {
namespace {

using namespace sluice;
using namespace sluice::runtime;
using MapSide = driver::AttentionFacts::MapSide;

/// Returns the text of tokens on one line, without ambiguous spaces.
std::string showPiece(std::span<const int32_t> tokens, const TextEncoder *encoder) {
  std::string text = encoder ? encoder->decode(tokens) : std::string();
  for (size_t i = 0; !encoder && i < tokens.size(); ++i) {
    text += static_cast<char>(tokens[i]);
  }
  std::string shown;
  for (char byte : text) {
    shown += byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : byte == ' ' ? "_" : std::string(1, byte);
  }
  return showText(shown);
}

/// Returns the text of each row of a side; rows of segments have numbers.
std::vector<std::string> listPieces(Executor &executor, const MapSide &side, int64_t length,
                                    const TextEncoder *encoder) {
  std::vector<std::string> pieces;
  if (side.axis == MapSide::Axis::segments) {
    for (const Executor::SegmentRows &rows : executor.segmentRows()) {
      for (int64_t i = 0; rows.axis == side.name && i < rows.computed.front(); ++i) {
        pieces.push_back(std::to_string(i + 1));
      }
    }
    if (pieces.empty()) {
      throw UserError("--layer: expected rows of tokens, of an input or of segments of the tokens, "
                      "found segments of an input (" +
                      side.name + "); name another layer");
    }
    return pieces;
  }
  std::span<const int32_t> tokens = executor.tokens().first(static_cast<size_t>(length));
  BatchInputs inputs = executor.inputs();
  if (side.axis == MapSide::Axis::input) {
    const BatchInputs::Given &given = inputs.given.at(side.name);
    tokens = given.tokens.first(static_cast<size_t>(given.counts.front()));
  }
  for (size_t first = 0; first < tokens.size(); first += static_cast<size_t>(side.factor)) {
    pieces.push_back(showPiece(
        tokens.subspan(first, std::min(static_cast<size_t>(side.factor), tokens.size() - first)),
        encoder));
  }
  return pieces;
}

/// Writes the text, or a line with its inputs, to row 0 of the batch. Returns the number of its
/// tokens that the model reads.
int64_t writeInputs(Executor &executor, const AttentionFlags &flags, const AttentionCall &call,
                    const ReadingOptions &reading) {
  const Plan &plan = executor.plan();
  SourceFiles files;
  files.data = {call.data};
  files.inputs = parseInputFiles("--input", flags.inputs);
  files.reading = reading;
  int64_t most = call.length > 0 ? std::min(call.length, plan.model.context) : plan.model.context;
  executor.scalarI64("rows") = 1;
  if (std::unique_ptr<ItemSource> lines = openItems(files, plan, /*seed=*/0)) {
    if (call.length > 0) {
      throw UserError("expected no --length for a model with named inputs, whose lines are read "
                      "whole, found one; leave it out");
    }
    if (flags.line < 1 || flags.line > lines->rowsPerEpoch()) {
      throw UserError("--line: expected a line from 1 to " + std::to_string(lines->rowsPerEpoch()) +
                      ", found " + std::to_string(flags.line));
    }
    return executor.scalarI64("length") = lines->write(flags.line - 1, 0, executor.inputs());
  }
  if (flags.line != 1) {
    throw UserError("--line: expected a model with named inputs, found one without; leave it out");
  }
  ByteFile text =
      openTexts({call.data}, plan.model.vocabulary, 1, "one token to read", reading).front();
  int64_t length = std::min(most, text.tokenCount());
  text.readTokens(0, executor.tokens().first(static_cast<size_t>(length)));
  return executor.scalarI64("length") = length;
}

/// Loads all weights of the model; the two tensors that select a map have none.
void loadModel(Executor &executor, const AttentionCall &call) {
  std::vector<std::string> names;
  for (const Tensor &tensor : executor.plan().tensors) {
    if (tensor.name != driver::mapKeysName && tensor.name != driver::mapColumnsName) {
      names.push_back(tensor.name);
    }
  }
  startFromWeights(call.weights, names, executor, printNotice, call.names, call.step);
}

void print(const AttentionMap &map) {
  for (size_t query = 0; query < map.queries.size(); ++query) {
    std::vector<std::pair<float, size_t>> order;
    for (size_t key = 0; key < map.keys.size(); ++key) {
      order.emplace_back(-map.at(query, key), key);
    }
    std::ranges::sort(order);
    std::cout << format("%4zu  ", query + 1) << map.queries[query] << " reads";
    for (size_t i = 0; i < std::min<size_t>(3, order.size()); ++i) {
      auto [negative, key] = order[i];
      std::cout << format("  %.3f ", -static_cast<double>(negative)) << map.keys[key];
    }
    std::cout << "\n";
  }
}

/// Returns the stage to which a name of a stage's "to" belongs, or the name itself.
std::string findStage(const Plan &plan, const std::string &name) {
  for (const StreamName &each : requireFacts(plan).names) {
    if (each.name == name) {
      return each.stage;
    }
  }
  return name;
}

} // namespace

void addAttentionFlags(CLI::App &command, AttentionFlags &flags) {
  command
      .add_option("--layer", flags.layer,
                  "attention: the layer, by its name, stages.1.inside.2, or by its \"to\"")
      ->type_name("NAME")
      ->default_str("");
  command
      .add_option("--head", flags.head,
                  "attention: one head, from 0; default: the mean of all heads")
      ->type_name("N")
      ->default_str("");
  command
      .add_option("--part", flags.part,
                  "attention over rows and words: the map of rows, or the map of words for each "
                  "row; default: half their sum")
      ->type_name("rows|words")
      ->default_str("")
      ->check(CLI::IsMember({"rows", "words"}));
  command
      .add_option("--input", flags.inputs,
                  "attention: a file for a named input of the model; may be given several times")
      ->type_name("NAME=FILE")
      ->default_str("")
      ->allow_extra_args(false);
  command
      .add_option("--line", flags.line, "attention: the line of a model with named inputs, from 1")
      ->default_val(1);
  command
      .add_option("-o,--out", flags.out, "attention: file for the map, queries by keys (.npy, f32)")
      ->type_name("FILE")
      ->default_str("");
}

void analyzeAttention(const AttentionFlags &flags, const AttentionCall &call) {
  std::shared_ptr<const Artifact> artifact = Artifact::load(call.artifact, call.device.target);
  warnOfLeak(*artifact);
  checkPredicts(artifact->plan(), call.artifact);
  const ModelFacts &model = artifact->plan().model;
  driver::AttentionRequest asked = {findStage(artifact->plan(), flags.layer), flags.part};
  driver::AttentionFacts facts;
  driver::CompileRequest request;
  request.spec = model.name + ".json";
  request.text = model.spec;
  request.attention = asked;
  if (driver::Outcome found = driver::describeAttention(request, facts); found.status != 0) {
    throw UserError(found.message);
  }
  if (flags.head && (*flags.head < 0 || *flags.head >= facts.heads)) {
    throw UserError("--head: expected a head from 0 to " + std::to_string(facts.heads - 1) +
                    ", found " + std::to_string(*flags.head));
  }
  ReadingOptions reading = {
      .isRaw = call.raw,
      .encoder = findEncoder(call.tokenizer, call.weights, model.vocabulary, call.step),
      .tokenizer = readTokenizerHash(call.weights, call.step)};
  Progress progress;
  progress.draw(0, "compiling");
  driver::CompileRequest again;
  again.attention = asked;
  std::unique_ptr<Executor> executor = recompile(*artifact, again, call.device);
  loadModel(*executor, call);
  int64_t length = writeInputs(*executor, flags, call, reading);
  if (facts.queries.axis == MapSide::Axis::segments || facts.keys.axis == MapSide::Axis::segments) {
    executor->run("predict"); // counts the segments
  }
  AttentionMap map = {listPieces(*executor, facts.queries, length, reading.encoder.get()),
                      listPieces(*executor, facts.keys, length, reading.encoder.get()),
                      {}};
  MapShape shape = {facts.keys.capacity, facts.heads,         facts.keyHeads,
                    facts.headSize,      driver::mapKeysName, driver::mapColumnsName};
  map.numbers = computeMap(*executor, shape, flags.head, static_cast<int64_t>(map.queries.size()),
                           static_cast<int64_t>(map.keys.size()));
  progress.clear();
  std::string head = flags.head ? "head " + std::to_string(*flags.head) : "mean of the heads";
  if (!call.picture.empty()) {
    replaceFile(call.picture, asBytes(drawMap(map, model.name + ", " + flags.layer + ", " + head)));
  }
  if (!flags.out.empty()) {
    NpyWriter writer(flags.out, {std::ssize(map.queries), std::ssize(map.keys)});
    writer.append(map.numbers);
    writer.finish();
  }
  if (!call.json) {
    print(map);
    return;
  }
  nlohmann::json rows = nlohmann::json::array();
  for (size_t query = 0; query < map.queries.size(); ++query) {
    auto first = map.numbers.begin() + static_cast<std::ptrdiff_t>(query * map.keys.size());
    rows.push_back(std::vector<float>(first, first + std::ssize(map.keys)));
  }
  printJson({{"analysis", "attention"},
             {"layer", flags.layer},
             {"head", flags.head ? nlohmann::json(*flags.head) : nlohmann::json()},
             {"part", flags.part.empty() ? nlohmann::json() : nlohmann::json(flags.part)},
             {"queries", map.queries},
             {"keys", map.keys},
             {"map", rows}});
}

} // namespace sluice::cli
