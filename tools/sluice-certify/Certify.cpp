// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A certificate, line by line. What the spec alone decides (values, operands, obligations) must
// stand there exactly; bounds are free, and every obligation about them is decided.
#include "Certify.h"
#include "Lines.h"

#include <algorithm>
#include <openssl/sha.h>

using namespace certify;

Expression certify::latestRead(const Relation &relation) {
  return makeFloor(makeLinear(relation.queryFactor, relation.offset), relation.keyFactor);
}

Expression certify::earliestRead(const Relation &relation) {
  return makeFloor(makeLinear(relation.queryFactor, relation.earliest), relation.keyFactor);
}

namespace {

std::string sha256(const std::string &text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char *>(text.data()), text.size(), digest);
  std::string hex;
  for (unsigned char byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

/// Checks one mode's part of a certificate.
class ModeChecker : Part {
public:
  ModeChecker(const Graph &graph, Lines &lines, Judge &judge) : Part{graph, lines, judge} {}

  int64_t check(const std::string &mode) {
    lines.expect("mode " + mode);
    for (size_t i = 0; i < graph.values.size(); ++i) {
      value(i);
    }
    conclude();
    end(mode, graph.values.size());
    return obligations;
  }
  const std::vector<Bound> &getBounds() const { return bounds; }

private:
  void value(size_t index);
  void read(size_t index, size_t operand);
  void conclude();

  std::vector<Bound> bounds;
};

void ModeChecker::value(size_t index) {
  const Value &value = graph.values[index];
  std::string number = std::to_string(index), operands;
  for (size_t operand : value.operands) {
    operands += " " + std::to_string(operand);
  }
  lines.expect("value " + number + " " + value.name + " " + value.spell() + " of" + operands +
               " scale " + std::to_string(value.factor) +
               (value.segments ? " segments " + std::to_string(*value.segments) : "") +
               (value.isGiven()  ? " given"
                : value.isLazy() ? " lazy"
                                 : " stored"));
  bounds.push_back(parseBound(lines.rest("bound " + number + " ")));
  if (value.kind == Kind::Tokens && !value.isGiven()) {
    obligation("token " + number);
    judge.demand({{makeVariable()}}, bounds[index], false, "p");
  }
  for (size_t i = 0; i < value.operands.size(); ++i) {
    if (!isUnread(value, i)) {
      read(index, i);
    }
  }
  if (value.kind == Kind::Ends) { // where a segment ends is a position that must exist
    const Value &bits = graph.values[value.operands[0]];
    if (!bits.segments) {
      obligation("exist " + number + " " + std::to_string(bits.factor));
      Expression own = {Expression::End, static_cast<int64_t>(index), {makeVariable()}};
      judge.demand({{{Expression::Multiple, bits.factor, {own}}}}, bounds[index], false, "p");
    }
  } else if (value.kind != Kind::Tokens && !value.isLazy() && !value.isGiven() && !value.segments) {
    obligation("exist " + number + " " + std::to_string(value.factor));
    judge.demand({{makeLinear(value.factor, 0)}}, bounds[index], false, "p");
  }
}

/// (p, q) in the relation implies u_operand(q) <= u_value(p): q is eliminated by hand, each time to
/// the positions that bound the others. Where there is more than one q, that takes a bound that
/// never falls.
void ModeChecker::read(size_t index, size_t operand) {
  const Value &value = graph.values[index];
  size_t source = value.operands[operand];
  obligation("read " + std::to_string(index) + " " + std::to_string(operand) + " " +
             std::to_string(source));
  const Bound &from = bounds[source], &to = bounds[index];
  if (isReadThroughEnds(value, operand) || hasEnds(from.candidates) || hasEnds(to.candidates)) {
    return demandOfEnds(EndsRead(graph, index, operand).isNeverAbove(from, to));
  }
  Relation relation = relationOf(value, operand);
  if (!relation.findSample()) {
    throw Refusal("vacuous: nothing is read at all, so that a proof about it would be empty");
  }
  // A stored operand is null before 0, and a stored value has no position there.
  bool everywhere = value.isLazy() && graph.values[source].isLazy();
  bool isOne = relation.kind == Relation::One;
  if (!isOne && !isNonDecreasing(from)) {
    throw Refusal("the operand's bound falls somewhere, so that the latest position that is read "
                  "does not bound the others");
  }
  if (relation.kind == Relation::All) {
    if (graph.values[source].isGiven() && from.candidates.empty()) {
      return; // no position of it needs a token
    }
    throw Refusal("every position reads all of the sequence, later tokens too");
  }
  if (isOne && relation.keyFactor == 1) { // p = q + k
    bool shifts = value.kind == Kind::Shift || value.kind == Kind::Start;
    return judge.demand(from, to.of(makeLinear(1, -relation.offset)), everywhere,
                        shifts ? "q" : "p");
  }
  // From the first row that reads anything. Only what is upsampled may be read everywhere.
  std::string row = relation.isOfAttention() ? "p - " + std::to_string(relation.firstRow()) : "p";
  Expression p = makeLinear(1, relation.firstRow());
  judge.demand(from.of(latestRead(relation).of(p)), to.of(p), everywhere, row);
}

void ModeChecker::conclude() {
  for (const Loss &loss : graph.losses) {
    std::string at = std::to_string(loss.row) + " " + loss.name;
    obligation("no-leak " + at + " 1");
    judge.demand(bounds[loss.row], {{makeVariable()}}, false, "p");
    obligation("prefix-invariance " + at);
    judge.demand(bounds[loss.row], {{makeVariable()}}, false, "p");
  }
}

/// Checks a certificate against a model with each factor that it draws; returns what it proves, for
/// people.
std::string check(const std::vector<Model> &models, const std::string &specText, Lines &lines,
                  bool walks) {
  lines.expect("sluice-certificate 2");
  lines.expect("spec sha256 " + sha256(specText));
  int64_t obligations = 0, longest = 0;
  std::string factors, given; // what the theorem does not speak of
  const Model &first = models.front();
  for (const std::string &input : first.inputs) {
    given += (given.empty() ? ", whatever the inputs that are given before the first token hold ("
                            : ", ") +
             input;
  }
  bool hasStep = true;
  for (const Model &model : models) {
    if (model.factor > 0) {
      lines.expect("factor " + std::to_string(model.factor));
      factors += (factors.empty() ? " and each factor of " : ", ") + std::to_string(model.factor);
    }
    Judge judge;
    auto mode = [&](const char *name, const Graph &graph) {
      ModeChecker checker(graph, lines, judge);
      obligations += checker.check(name);
      longest = walks ? std::max(longest, enumerate(graph, checker.getBounds())) : 0;
    };
    mode("eval", model.evaluate);
    if (model.train) {
      mode("train", *model.train);
    } else {
      lines.expect("mode train is eval");
    }
    // What is sampled from the head's row becomes token t + 1.
    const Graph &graph = model.evaluate;
    lines.expect("mode generate");
    lines.expect("aligned " + graph.head().name + " " + graph.values[graph.head().row].name + " 1");
    hasStep &= !hasSegments(graph) || !lines.accept("mode step is none");
    if (hasStep) {
      Step step = readStep(graph, lines, judge);
      obligations += step.obligations;
      if (walks) {
        walkStep(graph, step, longest);
      }
    }
  }
  lines.finish();
  std::string what =
      "causal for every length" + factors + ", in eval, train and generate" +
      (hasStep ? ", and step by step" : "") + given + (given.empty() ? "" : ")") +
      (hasSegments(first.evaluate) ? ", for all boundaries that its axes have rows for" : "") +
      "; " + std::to_string(obligations) + " obligations";
  return walks ? what + ", and all paths at lengths up to " + std::to_string(longest) : what;
}

} // namespace

Answer certify::certify(const Source &spec, const Source &certificate, bool enumerate) {
  Lines lines(certificate.text);
  try {
    return {0, spec.name +
                   ": certified: " + check(deriveModels(spec.text), spec.text, lines, enumerate)};
  } catch (const Refusal &why) {
    std::string line = std::to_string(lines.number);
    return {1, certificate.name + ":" + line + ": refused: " + why.what()};
  } catch (const std::exception &mistake) {
    return {2, spec.name + ": " + mistake.what()};
  }
}
