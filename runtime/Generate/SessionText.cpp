// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SessionText.h"

#include "sluice/Runtime/Data/Edges.h"

#include <algorithm>

namespace sluice::runtime {

nlohmann::json describe(const SamplingOptions &options) {
  return {{"repetition_penalty", options.repetitionPenalty},
          {"temperature", options.temperature},
          {"top_k", options.topK},
          {"top_p", options.topP},
          {"min_p", options.minP},
          {"typical", options.typical},
          {"seed", options.seed}};
}

void requireSession(const StrictJson &json) {
  json.keys({"format", "version", "text", "sample", "drawn", "sampling", "start", "seen",
             "artifact", "weights", "target"},
            {"inputs", "ids", "tokenizer"});
  json.at("format").matchChoice({"sluice-session"});
  json.at("version").integer(1, 1);
}

namespace {

SamplingOptions parseSampling(const StrictJson &json) {
  json.keys({"repetition_penalty", "temperature", "top_k", "top_p", "min_p", "typical", "seed"});
  SamplingOptions options;
  options.repetitionPenalty = json.at("repetition_penalty").number(0);
  options.temperature = json.at("temperature").number(0);
  options.topK = json.at("top_k").integer();
  options.topP = json.at("top_p").number(0);
  options.minP = json.at("min_p").number(0);
  options.typical = json.at("typical").number(0);
  options.seed = static_cast<uint64_t>(json.at("seed").integer());
  checkSampling(options);
  return options;
}

/// Parses the tokens of each named input of the model.
GivenLines parseInputs(const StrictJson &json, const Plan &plan) {
  GivenLines given;
  if (json.has("inputs") == plan.given.empty()) {
    json.fail(plan.given.empty() ? "no key \"inputs\"" : "the key \"inputs\"",
              plan.given.empty() ? "it" : "none");
  }
  if (plan.given.empty()) {
    return given;
  }
  const StrictJson inputs = json.at("inputs");
  inputs.object();
  for (const EdgeInput &edges : getEdgeInputs(plan)) {
    if (!inputs.has(edges.name.c_str())) {
      inputs.fail("the edges \"" + edges.name + "\"", "none");
    }
    const StrictJson rows = inputs.at(edges.name);
    if (edges.isDrawn() && rows.array().size() != 2) {
      rows.failType("the number by which they are drawn, and the number of rows");
    }
    int64_t last = edges.isDrawn() ? INT32_MAX : edges.rows - 1;
    for (const StrictJson &row : rows.array()) {
      given[edges.name].push_back(static_cast<int32_t>(row.integer(0, last)));
    }
    if (edges.isDrawn()) {
      continue;
    }
    if (std::ssize(given[edges.name]) > 2 * edges.capacity || given[edges.name].size() % 2 != 0) {
      rows.failType("at most " + std::to_string(edges.capacity) + " pairs of rows");
    }
  }
  for (const auto &[name, line] : inputs.members()) {
    if (!plan.given.contains(name) && !given.contains(name)) {
      inputs.fail("inputs of the model alone", '"' + name + '"');
    }
  }
  for (const auto &[name, input] : plan.given) {
    if (!inputs.has(name.c_str())) {
      inputs.fail("the input \"" + name + "\"", "none");
    }
    const StrictJson line = inputs.at(name);
    for (const StrictJson &token : line.array()) {
      given[name].push_back(static_cast<int32_t>(token.integer(0, input.vocabulary - 1)));
    }
    if (std::ssize(given[name]) > input.capacity) {
      line.failType("at most " + std::to_string(input.capacity) + " tokens");
    }
  }
  for (const auto &[name, input] : plan.given) {
    if (!input.on.empty() && given[name].size() != given[input.on].size()) {
      inputs.at(name.c_str()).failType("a token for each of the input \"" + input.on + "\"");
    }
  }
  return given;
}

} // namespace

Session parseSession(const StrictJson &json, const Plan &plan,
                     Predictor::GenerationWindow &window) {
  Session session;
  session.areIds = json.has("ids") && json.at("ids").boolean();
  session.tokenizer = json.has("tokenizer") ? json.at("tokenizer").string() : "";
  int64_t ids =
      session.areIds ? plan.model.vocabulary : std::min<int64_t>(plan.model.vocabulary, 256);
  for (const StrictJson &token : json.at("text").array()) {
    session.text.tokens.push_back(static_cast<int32_t>(token.integer(0, ids - 1)));
  }
  auto size = static_cast<int64_t>(session.text.tokens.size());
  if (size == 0) {
    json.at("text").failType("at least one token");
  }
  session.text.given = parseInputs(json, plan);
  session.text.sample = json.at("sample").integer();
  session.text.drawn = json.at("drawn").integer(0, size);
  session.options = parseSampling(json.at("sampling"));
  window.start = json.at("start").integer(0, size - 1);
  window.seen = json.at("seen").integer(-1, std::min(size - window.start, plan.model.context));
  return session;
}

} // namespace sluice::runtime
