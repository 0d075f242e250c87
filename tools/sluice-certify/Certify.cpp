// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A certificate, line by line. What the spec alone decides (values, operands, obligations) must
// stand there exactly; bounds are free, and every obligation about them is decided.
#include "Certify.h"
#include "Lines.h"

#include <algorithm>
#include <openssl/sha.h>
#include <sstream>

using namespace certify;

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

/// Reads one mode's graph and its bounds, and decides the theorem about it. Nothing here knows of a
/// spec.
class ModeReader : Part {
public:
  ModeReader(Lines &lines, Judge &judge) : Part{graph, lines, judge} {}

  void read(const std::string &mode) {
    lines.expect("mode " + mode);
    while (lines.startsWith("value ")) {
      value();
    }
    while (lines.startsWith("no-leak ")) {
      conclude();
    }
    end(mode, graph.values.size());
    if (graph.losses.empty()) {
      throw Refusal("expected a loss, found none");
    }
    graph.markSampled();
  }
  int64_t countObligations() const { return obligations; }

  Graph graph;
  std::vector<Bound> bounds;

private:
  void value();
  void read(size_t index, size_t operand);
  void conclude();
};

/// NAME OP of OPERAND... scale FACTOR [segments ENDS] stored|lazy|given
Value parseValue(const std::string &text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; std::getline(stream, word, ' ');) {
    words.push_back(word);
  }
  Value value;
  size_t at = 0;
  auto next = [&] { return at < words.size() ? words[at++] : std::string(); };
  auto need = [&](bool isThere, const char *what) {
    if (!isThere) {
      throw Refusal(std::string("expected ") + what + " of a value, found '" + text + "'");
    }
  };
  value.name = next();
  value.op = &findOp(next());
  need(next() == "of", "'of'");
  std::string word = next();
  for (; word != "scale"; word = next()) {
    value.operands.push_back(static_cast<size_t>(parseNatural(word)));
  }
  value.factor = parseNatural(next());
  word = next();
  if (word == "segments") {
    value.segments = static_cast<size_t>(parseNatural(next()));
    word = next();
  }
  value.isGiven = word == "given";
  need(at == words.size() && !text.ends_with(' ') &&
           (value.isGiven || word == (value.op->isLazy() ? "lazy" : "stored")),
       "whether it is stored, as its op is,");
  return value;
}

void ModeReader::value() {
  size_t index = graph.values.size();
  std::string number = std::to_string(index);
  if (index >= mostValues) {
    throw Refusal("expected fewer than " + std::to_string(mostValues) + " values, found more");
  }
  graph.values.push_back(parseValue(lines.rest("value " + number + " ")));
  Value &value = graph.values.back();
  value.line = lines.number;
  checkOperands(graph, index);
  bounds.push_back(parseBound(lines.rest("bound " + number + " ")));
  if (value.op->takesTokens() && !value.isGiven) {
    obligation("token " + number);
    judge.demand({{makeVariable()}}, bounds[index], false, "p");
  }
  value.reads.resize(value.operands.size());
  for (size_t i = 0; i < value.operands.size(); ++i) {
    if (!value.isUnread(i)) {
      value.reads[i] = parseRelation(lines.rest("read " + number + " " + std::to_string(i) + " " +
                                                std::to_string(value.operands[i]) + " "));
      ++obligations;
      checkRelation(graph, index, i);
      read(index, i);
    }
  }
  if (value.op->endsSegments()) { // where a segment ends is a position that must exist
    const Value &bits = graph.values[value.operands[0]];
    if (!bits.segments) {
      obligation("exist " + number + " " + std::to_string(bits.factor));
      Expression own = {Expression::End, static_cast<int64_t>(index), {makeVariable()}};
      judge.demand({{{Expression::Multiple, bits.factor, {own}}}}, bounds[index], false, "p");
    }
  } else if (!value.op->takesTokens() && !value.op->isLazy() && !value.isGiven && !value.segments) {
    obligation("exist " + number + " " + std::to_string(value.factor));
    judge.demand({{makeLinear(value.factor, 0)}}, bounds[index], false, "p");
  }
}

/// (p, q) in the relation implies u_operand(q) <= u_value(p): q is eliminated by hand, each time to
/// the positions that bound the others. Where there is more than one q, that takes a bound that
/// never falls.
void ModeReader::read(size_t index, size_t operand) {
  const Value &value = graph.values[index];
  size_t source = value.operands[operand];
  const Bound &from = bounds[source], &to = bounds[index];
  const Relation &relation = value.reads[operand];
  if (relation.hasEnds() || hasEnds(from.candidates) || hasEnds(to.candidates)) {
    return demandOfEnds(EndsRead(graph, index, operand).isNeverAbove(from, to));
  }
  if (!relation.hasSample()) {
    throw Refusal("vacuous: nothing is read at all, so that a proof about it would be empty");
  }
  if (relation.kind != Relation::At && !isNonDecreasing(from)) {
    throw Refusal("the operand's bound falls somewhere, so that the latest position that is read "
                  "does not bound the others");
  }
  if (!relation.last) {
    if (graph.values[source].isGiven && from.candidates.empty()) {
      return; // no position of it needs a token
    }
    throw Refusal("every position reads all of the sequence, later tokens too");
  }
  // From the first row that reads anything: a stored operand is null before 0, and a stored value
  // has no position there. Only what is lazy may be read everywhere.
  bool everywhere = value.op->isLazy() && graph.values[source].op->isLazy();
  int64_t first = relation.firstRow();
  Expression p = makeLinear(1, first);
  judge.demand(from.of(relation.last->of(p)), to.of(p), everywhere, nameBehind(first));
}

void ModeReader::conclude() {
  std::istringstream words(lines.rest("no-leak "));
  std::string row, name, offset, more;
  std::getline(std::getline(words, row, ' '), name, ' ') >> offset;
  Loss loss = {name, static_cast<size_t>(parseNatural(row))};
  std::string at = std::to_string(loss.row) + " " + loss.name;
  if (loss.row >= graph.values.size() || words.str() != at + " 1") {
    throw Refusal("expected a value, a loss and '1' behind 'no-leak', found '" + words.str() + "'");
  }
  judge.demand(bounds[loss.row], {{makeVariable()}}, false, "p");
  ++obligations;
  obligation("prefix-invariance " + at);
  judge.demand(bounds[loss.row], {{makeVariable()}}, false, "p");
  graph.losses.push_back(loss);
}

//===----------------------------------------------------------------------===//
// The spec
//===----------------------------------------------------------------------===//

std::string spell(const Graph &graph, size_t index) {
  const Value &value = graph.values[index];
  std::string text =
      "value " + std::to_string(index) + " " + value.name + " " + value.op->name + " of";
  for (size_t operand : value.operands) {
    text += " " + std::to_string(operand);
  }
  return text + " scale " + std::to_string(value.factor) +
         (value.segments ? " segments " + std::to_string(*value.segments) : "");
}

/// Whether a certificate's graph is what the stages of its spec expand to.
void demandSame(const Graph &graph, const Graph &stages, Lines &lines) {
  for (size_t i = 0; i < std::max(graph.values.size(), stages.values.size()); ++i) {
    if (i == graph.values.size() || i == stages.values.size()) {
      throw Refusal("expected the " + std::to_string(stages.values.size()) +
                    " values that the stages of the spec expand to, found " +
                    std::to_string(graph.values.size()));
    }
    const Value &value = graph.values[i], &expected = stages.values[i];
    lines.number = value.line;
    if (spell(graph, i) != spell(stages, i) || value.isGiven != expected.isGiven) {
      throw Refusal("expected '" + spell(stages, i) +
                    "', as the stages of the spec expand, found '" + spell(graph, i) + "'");
    }
    for (size_t j = 0; j < value.reads.size(); ++j) {
      if (!value.isUnread(j) && !value.reads[j].isSame(expected.reads[j])) {
        throw Refusal("expected operand " + std::to_string(j) + " of " + value.name +
                      " read as the stages of the spec say, found other rows");
      }
    }
  }
  auto isSame = [](const Loss &x, const Loss &y) { return x.name == y.name && x.row == y.row; };
  if (!std::ranges::equal(graph.losses, stages.losses, isSame)) {
    throw Refusal("expected the losses of the spec, found others");
  }
}

/// Checks a certificate against a model with each factor that it draws; returns what it proves, for
/// people.
std::string check(const std::vector<Model> &models, const std::string &specText, Lines &lines,
                  bool walks) {
  if (lines.startsWith("sluice-certificate 2\n")) {
    throw Refusal("expected a certificate of version 3, found one of version 2; have sluice check "
                  "--certificate write it again");
  }
  lines.expect("sluice-certificate 3");
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
    auto mode = [&](const char *name, const Graph &stages) {
      ModeReader reader(lines, judge);
      reader.read(name);
      int64_t line = lines.number;
      demandSame(reader.graph, stages, lines);
      lines.number = line;
      obligations += reader.countObligations();
      longest = walks ? std::max(longest, enumerate(reader.graph, reader.bounds)) : 0;
      return std::move(reader.graph);
    };
    const Graph graph = mode("eval", model.evaluate);
    if (model.train) {
      mode("train", *model.train);
    } else {
      lines.expect("mode train is eval");
    }
    // What is sampled from the head's row becomes token t + 1.
    lines.expect("mode generate");
    lines.expect("aligned " + graph.head().name + " " + graph.values[graph.head().row].name + " 1");
    hasStep &= !graph.hasSegments() || !lines.accept("mode step is none");
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
      (first.evaluate.hasSegments() ? ", for all boundaries that its axes have rows for" : "") +
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
