// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a certificate line by line. The parts that the spec determines (values, operands,
// obligations) must match exactly; bounds are arbitrary, and their obligations are decided.
#include "Certify.h"
#include "Lines.h"

#include <openssl/sha.h>

using namespace certify;

namespace {

std::string sha256(const std::string &text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char *>(text.data()), text.size(), digest);
  std::string hex;
  for (unsigned char byte : digest) {
    hex += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  }
  return hex;
}

/// Reads one mode's graph and its bounds, and decides the theorem about it without the spec.
class ModeReader : public LinePart {
public:
  ModeReader(Lines &lines, ObligationSolver &judge) : LinePart{graph, lines, judge} {}

  void read(const std::string &mode) {
    lines.expect("mode " + mode);
    while (lines.startsWith("value ")) {
      value();
    }
    while (lines.startsWith("no-leak ")) {
      conclude();
    }
    end(mode, graph.values.size());
    demand(!graph.losses.empty(), "expected a loss, found none");
    graph.markSampled();
  }

  ModelGraph graph;
  std::vector<Bound> bounds;

private:
  void value();
  void read(size_t index, size_t operand);
  void conclude();
};

/// Parses NAME OP of OPERAND... scale FACTOR [segments ENDS] stored|lazy|given
ModelValue parseValue(Line line) {
  ModelValue value;
  value.name = line.word();
  line.need(" ");
  value.op = &findOp(line.word());
  line.need(" of");
  while (!line.accept(" scale ")) {
    line.need(" ");
    value.operands.push_back(static_cast<size_t>(line.natural()));
  }
  value.factor = line.natural();
  if (line.accept(" segments ")) {
    value.segments = static_cast<size_t>(line.natural());
  }
  value.isGiven = line.accept(" given");
  line.need(value.isGiven ? "" : value.op->isLazy() ? " lazy" : " stored");
  line.finish();
  return value;
}

void ModeReader::value() {
  size_t index = graph.values.size();
  std::string number = std::to_string(index);
  graph.values.push_back(parseValue(Line(lines.rest("value " + number + " "))));
  ModelValue &value = graph.values.back();
  value.line = lines.number;
  checkOperands(graph, index);
  bounds.push_back(parseBound(lines.rest("bound " + number + " ")));
  if (value.op->trait == Op::Tokens && !value.isGiven) {
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
  bool ends = value.op->endsSegments(); // where a segment ends is a position that must exist
  const ModelValue &on = ends ? graph.values[value.operands[0]] : value;
  if (value.op->trait != Op::Tokens && !value.op->isLazy() && !on.isGiven && !on.segments) {
    obligation("exist " + number + " " + std::to_string(on.factor));
    Expression end = {Expression::End, static_cast<int64_t>(index), {makeVariable()}};
    judge.demand({{makeLinear(on.factor, 0).of(ends ? end : makeVariable())}}, bounds[index], false,
                 "p");
  }
}

/// Decides that (p, q) in the relation implies u_operand(q) <= u_value(p). Eliminates q by
/// replacing it with the positions that bound the others. With more than one q this requires a
/// bound that never falls.
void ModeReader::read(size_t index, size_t operand) {
  const ModelValue &value = graph.values[index];
  size_t source = value.operands[operand];
  const Bound &from = bounds[source], &to = bounds[index];
  const RowRelation &relation = value.reads[operand];
  if (!relation.last) { // no position of a given value may need a token
    return demand(graph.values[source].isGiven && from.candidates.empty(),
                  "every position reads all of the sequence, later tokens too");
  }
  if (relation.hasEnds() || hasEnds(from.candidates) || hasEnds(to.candidates)) {
    return demand(EndsRead(graph, index, operand).isNeverAbove(from, to), undecided);
  }
  demand(relation.hasSample(), vacuous);
  demand(relation.kind == RowRelation::At || isNonDecreasing(from),
         "the operand's bound falls somewhere, so that the latest position that is read does not "
         "bound the others");
  // Begins at the first row that reads anything: before 0 only lazy values have rows.
  bool everywhere = value.op->isLazy() && graph.values[source].op->isLazy();
  int64_t first = relation.firstRow();
  for (const Expression &row : relation.rows()) {
    Expression p = row.of(makeLinear(1, first));
    judge.demand(from.of(relation.last->of(p)), to.of(p), everywhere, spellLinear(1, -first));
  }
}

void ModeReader::conclude() {
  Line line(lines.rest("no-leak "));
  Loss loss = {"", static_cast<size_t>(line.natural())};
  line.need(" ");
  loss.name = line.word();
  line.need(" 1");
  line.finish();
  std::string at = std::to_string(loss.row) + " " + loss.name;
  demand(loss.row < graph.values.size(), "expected a value after 'no-leak', found " + at);
  judge.demand(bounds[loss.row], {{makeVariable()}}, false, "p"); // decides both obligations
  ++obligations;
  obligation("prefix-invariance " + at);
  graph.losses.push_back(loss);
}

std::string spell(const ModelGraph &graph, size_t index) {
  const ModelValue &value = graph.values[index];
  std::string text =
      "value " + std::to_string(index) + " " + value.name + " " + value.op->name + " of";
  for (size_t operand : value.operands) {
    text += " " + std::to_string(operand);
  }
  return text + " scale " + std::to_string(value.factor) +
         (value.segments ? " segments " + std::to_string(*value.segments) : "");
}

/// Checks that a certificate's graph is the expansion of the stages of its spec.
void demandSame(const ModelGraph &graph, const ModelGraph &stages, Lines &lines) {
  auto same = [](bool holds, const std::string &expected, const std::string &found) {
    demand(holds, "expected " + expected + ", as the stages of the spec expand, found " + found);
  };
  const int64_t last = lines.number;
  for (size_t i = 0; i < std::min(graph.values.size(), stages.values.size()); ++i) {
    const ModelValue &value = graph.values[i], &expected = stages.values[i];
    std::string stage = spell(stages, i), found = spell(graph, i);
    lines.number = value.line;
    same(stage == found && value.isGiven == expected.isGiven, "'" + stage + "'", "'" + found + "'");
    for (size_t j = 0; j < value.reads.size(); ++j) {
      same(value.isUnread(j) || value.reads[j].isSame(expected.reads[j]),
           "the rows that operand " + std::to_string(j) + " of '" + found + "' is read at",
           "others");
    }
  }
  lines.number = last;
  same(std::ranges::equal(graph.losses, stages.losses) &&
           graph.values.size() == stages.values.size(),
       "as many values and losses", "others");
}

/// Checks a certificate against a model with each factor that it draws; returns a description.
std::string check(const std::vector<Model> &models, const std::string &specText, Lines &lines,
                  bool walks) {
  std::string version = lines.rest("sluice-certificate ");
  demand(version == "3", "expected a certificate of version 3, found one of version " + version +
                             "; have sluice check --certificate write it again");
  lines.expect("spec sha256 " + sha256(specText));
  int64_t obligations = 0, longest = 0;
  std::string factors, given; // cases outside the theorem
  const Model &first = models.front();
  for (const ModelValue &value : first.evaluate.values) {
    if (value.op->trait == Op::Tokens && value.isGiven) {
      given += (given.empty() ? ", whatever the inputs that are given before the first token hold ("
                              : ", ") +
               value.name;
    }
  }
  bool hasStep = true, generates = first.evaluate.head().name.ends_with(".head");
  for (const Model &model : models) {
    if (model.factor > 0) {
      lines.expect("factor " + std::to_string(model.factor));
      factors += (factors.empty() ? " and each factor of " : ", ") + std::to_string(model.factor);
    }
    ObligationSolver judge;
    auto mode = [&](const char *name, const ModelGraph &stages) {
      ModeReader reader(lines, judge);
      reader.read(name);
      demandSame(reader.graph, stages, lines);
      obligations += reader.obligations;
      longest = walks ? std::max(longest, enumerate(reader.graph, reader.bounds)) : 0;
      return std::move(reader.graph);
    };
    const ModelGraph graph = mode("eval", model.evaluate);
    if (lines.accept("mode train is eval")) {
      demandSame(graph, model.train, lines);
    } else {
      mode("train", model.train);
    }
    // The token sampled from the head's row becomes token t + 1.
    if (generates) {
      lines.expect("mode generate");
      lines.expect("aligned " + graph.head().name + " " + graph.values[graph.head().row].name +
                   " 1");
    }
    bool isNone = lines.accept("mode step is none");
    hasStep &= !isNone;
    if (!isNone) {
      LineStep step = readStep(graph, lines, judge);
      obligations += step.obligations;
      if (walks) {
        walkStep(graph, step, longest);
      }
    }
  }
  lines.finish();
  std::string what =
      "causal for every length" + factors +
      (generates ? ", in eval, train and generate" : ", in eval and train") +
      (hasStep ? ", and step by step" : "") + given + (given.empty() ? "" : ")") +
      (first.evaluate.hasSegments() ? ", for all boundaries that its axes have rows for" : "") +
      "; " + std::to_string(obligations) + " obligations";
  return walks ? what + ", and all paths at lengths up to " + std::to_string(longest) : what;
}

} // namespace

Answer certify::certify(const CertificateSource &spec, const CertificateSource &certificate,
                        bool enumerate) {
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
