// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Numbers.h"

#include <algorithm>

namespace sluice::spec {

static std::string_view nameOf(Numbers::Role role) {
  return inputRoleNames[static_cast<size_t>(role)];
}

/// Tokens have an axis of their own, numbers that of the tokens.
static void checkCombination(const Fields &fields, bool isOfTokens, bool areNumbers) {
  if (isOfTokens != areNumbers) {
    bool saysType = fields.find("type") != nullptr;
    fields.fail(fields.position(saysType ? "type" : "axis"),
                std::string("expected an input of numbers on the axis \"tokens\", or of tokens on "
                            "its own axis, found ") +
                    (areNumbers ? "numbers on its own axis" : "tokens on the axis \"tokens\"") +
                    "; others are not there yet");
  }
}

std::optional<Numbers> readNumbers(const Fields &fields, const std::string &name,
                                   const SourceLocation &place, int64_t vocabulary) {
  fields.allowOnly({"context", "vocabulary", "axis", "type", "role", "width"});
  bool isOfTokens = fields.choice<bool>("axis", {{"own", false}, {"tokens", true}}, false);
  bool areNumbers = fields.choice<bool>("type", {{"tokens", false}, {"numbers", true}}, isOfTokens);
  checkCombination(fields, isOfTokens, areNumbers);
  auto role = fields.choice<Numbers::Role>("role", inputRoleNames, Numbers::Role::Input);
  for (std::string_view key : {"context", "vocabulary", "width"}) {
    if (areNumbers == (key != "width") && fields.find(key)) {
      fields.fail(
          fields.position(key),
          "expected no " + quote(key) + " of an input of " +
              (areNumbers ? "numbers on the axis \"tokens\", a row for each token" : "tokens") +
              ", found one; leave it out");
    }
  }
  if (!areNumbers) {
    if (role != Numbers::Role::Input) {
      fields.fail(fields.position("role"), "expected the role \"input\" of an input of tokens, "
                                           "found " +
                                               quote(nameOf(role)) +
                                               "; targets and weights are numbers on the axis "
                                               "\"tokens\"");
    }
    return std::nullopt;
  }
  fields.need("role", "\"target\", \"weight\" or \"input\"");
  int64_t usual = role == Numbers::Role::Target ? vocabulary : 1;
  int64_t width = fields.integer("width", {1}, usual);
  if (role != Numbers::Role::Input && width != usual) {
    fields.fail(fields.position("width"),
                "expected a width of " + std::to_string(usual) +
                    (role == Numbers::Role::Target ? ", the vocabulary, of a target, found "
                                                   : " of a weight, found ") +
                    std::to_string(width) + "; leave it out");
  }
  return Numbers{name, place, role, width};
}

void checkEmbedsNumbers(const Embedding &embedding, const Stage &stage, const Numbers &numbers) {
  if (numbers.role != Numbers::Role::Input) {
    throw Failure{{stage.at("input"), "expected an input of the role \"input\", found " +
                                          quote(numbers.name) + " of the role " +
                                          quote(nameOf(numbers.role)) +
                                          ", which losses alone read; name another"}};
  }
  if (embedding.positions != Positions::None || !embedding.ngrams.empty()) {
    throw Failure{
        {stage.at(embedding.ngrams.empty() ? "positions" : "ngrams"),
         "expected neither \"positions\" nor \"ngrams\" of an embedding of numbers, found "
         "one; add the result to a stream of the tokens that has them"}};
  }
}

static void checkNamed(const Stage &stage, const Model &model, const std::string &key,
                       const std::string &name, Numbers::Role role) {
  const Numbers *found = model.findNumbers(name);
  if (name.empty() || (found && found->role == role)) {
    return;
  }
  std::string known;
  for (const Numbers &each : model.numbers) {
    known += each.role == role ? (known.empty() ? "" : ", ") + quote(each.name) : "";
  }
  throw Failure{{stage.at(key), "expected the name of an input for " + quote(key) +
                                    " whose role is " + quote(nameOf(role)) + ", found " +
                                    quote(name) + "; " +
                                    (known.empty() ? R"(the spec has none: add it to "inputs")"
                                                   : "known inputs: " + known)}};
}

/// The head of a head or a loss; null of other stages.
static const Head *headOf(const Stage &stage) {
  if (const auto *loss = std::get_if<Loss>(&stage.settings)) {
    return &loss->head;
  }
  return std::get_if<Head>(&stage.settings);
}

void checkNumbersOfLoss(const Stage &stage, const Model &model) {
  if (const Head *head = headOf(stage)) {
    checkNamed(stage, model, "target", head->target, Numbers::Role::Target);
    checkNamed(stage, model, "weights", head->weights, Numbers::Role::Weight);
  }
}

void checkNumbersAreRead(const Model &model) {
  for (const Numbers &numbers : model.numbers) {
    bool isRead = std::ranges::any_of(model.stages, [&](const Stage &stage) {
      const Head *head = headOf(stage);
      const auto *embedding = std::get_if<Embedding>(&stage.settings);
      return (head && (head->target == numbers.name || head->weights == numbers.name)) ||
             (embedding && embedding->input == numbers.name);
    });
    if (!isRead) {
      throw Failure{
          {numbers.location,
           "expected a stage that reads the input " + quote(numbers.name) +
               ", found none; name it as \"target\" or \"weights\" of a loss or the head, "
               "or leave the input out"}};
    }
  }
}

} // namespace sluice::spec
