// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The step of models with segments: runs accepted steps token by token under every bit string, with
// the schedules and rings of the certificate.
#include "Corpus.h"

using namespace certify;
using namespace sluice::test;

namespace {

constexpr int64_t length = 6;
constexpr int64_t never = 1000; ///< a segment that does not end

/// The values in the part "mode step".
struct Claims {
  std::map<size_t, Bound> schedules;
  std::map<size_t, int64_t> rings, bursts; ///< -1: all

  explicit Claims(const std::string &text) {
    std::istringstream stream(text.substr(text.find("mode step\n")));
    for (std::string line; std::getline(stream, line);) {
      std::istringstream words(line);
      std::string kind, rest;
      size_t value = 0;
      words >> kind >> value;
      std::getline(words >> std::ws, rest);
      if (kind == "schedule") {
        schedules[value] = parseBound(rest);
      } else if (kind == "keep") {
        rings[value] = rest == "all" ? -1 : std::stoll(rest);
      } else if (kind == "burst") {
        bursts[value] = std::stoll(rest);
      }
    }
  }
};

/// Steps under one bit string, the same for all segmentations.
class BitWalk {
public:
  BitWalk(const ModelGraph &graph, const Claims &claims, unsigned bits)
      : graph(graph), claims(claims), before(graph.values.size()), computed(before) {
    for (int64_t t = 0; t < length; ++t) {
      if (bits >> t & 1) {
        ends.push_back(t);
      }
    }
  }

  /// True if each row that a step reads exists, and no step computes too many.
  bool runs() {
    for (int64_t t = 0; t < length && good; ++t) {
      before = computed;
      for (size_t i = 0; i < graph.values.size(); ++i) {
        if (!graph.values[i].op->isLazy() && graph.values[i].isSampled) {
          compute(i, t);
        }
      }
      read(graph.head().row, t);
    }
    return good;
  }

private:
  int64_t end(int64_t m) const {
    return m < 0 ? m : m < static_cast<int64_t>(ends.size()) ? ends[static_cast<size_t>(m)] : never;
  }
  int64_t at(const Expression &e, int64_t p) const {
    int64_t x = e.parts.empty() ? p : at(e.parts[0], p);
    switch (e.kind) {
    case Expression::Constant:
      return e.number;
    case Expression::Variable:
      return p;
    case Expression::Sum:
      return x + at(e.parts[1], p);
    case Expression::Multiple:
      return x * e.number;
    case Expression::Floor:
      return floorDivide(x, e.number);
    case Expression::End:
      return end(x);
    case Expression::Count:
      return std::ranges::count_if(ends, [&](int64_t position) { return position <= x; });
    }
    return never;
  }
  int64_t getStepOfRow(size_t value, int64_t row) const {
    int64_t step = -1;
    for (const Expression &candidate : claims.schedules.at(value).candidates) {
      step = std::max(step, at(candidate, row));
    }
    return step;
  }

  void compute(size_t index, int64_t t) {
    const ModelValue &value = graph.values[index];
    for (; getStepOfRow(index, computed[index]) <= t; ++computed[index]) {
      int64_t row = computed[index];
      // The number of closed segments is an accumulated count, and an end is the step's own
      // position.
      bool isCounted = value.op->readsOwnRow() && value.op->trait != Op::Recurs;
      good &= !isCounted || at(*value.reads[0].last, row) == t;
      good &= row - before[index] < claims.bursts.at(index);
      for (size_t i = 0; i < value.operands.size(); ++i) {
        readOperand(value, i, row);
      }
      if (!good) {
        return;
      }
    }
  }

  void readOperand(const ModelValue &value, size_t operand, int64_t p) {
    size_t source = value.operands[operand];
    if (value.isUnread(operand) || value.getPattern(operand) == Pattern::Bits) {
      return;
    }
    const RowRelation &relation = value.reads[operand];
    int64_t last = at(*relation.last, p);
    int64_t first = relation.first ? at(*relation.first, p) : relation.from;
    for (int64_t q = value.op->readsOwnRow() ? last : first; q <= last; ++q) {
      if (relation.step == 1 || (last - q) % relation.step == 0) {
        read(source, q);
      }
    }
  }

  void read(size_t index, int64_t row) {
    const ModelValue &value = graph.values[index];
    if (value.op->isLazy()) {
      return read(value.operands[0], value.reads[0].last->at(row));
    }
    int64_t ring = claims.rings.at(index);
    int64_t oldest = ring == 0 ? before[index] : ring < 0 ? 0 : computed[index] - ring;
    good &= row < 0 || (oldest <= row && row < computed[index]);
  }

  const ModelGraph &graph;
  const Claims &claims;
  std::vector<int64_t> ends, before, computed;
  bool good = true;
};

bool runsUnderAllBits(const CorpusCase &subject, const std::string &text) {
  ModelGraph graph = deriveModels(subject.spec.text).front().evaluate;
  Claims claims(text);
  for (unsigned bits = 0; bits < 1U << length; ++bits) {
    if (!BitWalk(graph, claims, bits).runs()) {
      return false;
    }
  }
  return true;
}

/// Rows of segments after shifts, in groups and windows; two segmentations of one sequence.
CorpusCase makeMixed() {
  return makeCase("mixed", R"({"sluice": 1, "vocabulary": 40, "context": 16, "batch": 1, "width": 4,
    "defaults": {"heads": 1, "feed_forward": 2}, "stages": [{"op": "embedding", "to": "x"},
    {"op": "boundaries", "name": "words", "rule": "whitespace"},
    {"op": "boundaries", "name": "pairs", "predictor": 2, "rule": "every", "factor": 2},
    {"op": "shorten", "segments": "words"}, {"op": "shift", "by": 2},
    {"op": "layer", "mask": {"window": [0, 2]}}, {"op": "upsample", "segments": "words", "by": 0},
    {"op": "add", "with": "x", "to": "y"},
    {"op": "shorten", "segments": "pairs", "method": "last"}, {"op": "shift", "by": 1},
    {"op": "shorten", "factor": 2}, {"op": "norm"}, {"op": "upsample", "factor": 2},
    {"op": "norm"}, {"op": "upsample", "segments": "pairs"}, {"op": "add", "with": "y"},
    {"op": "shift", "by": 1}, {"op": "head"}]})");
}

/// Every number of the step, incremented and decremented: accepted steps run under all bits.
TEST(StepSegments, RejectsChangedNumberUnlessTheStepRuns) {
  CorpusCase original = makeMixed();
  Answer whole = original.check();
  ASSERT_EQ(whole.status, 0) << whole.message;
  EXPECT_NE(whole.message.find("step by step"), std::string::npos) << whole.message;
  ASSERT_TRUE(runsUnderAllBits(original, original.certificate.text));
  std::vector<std::string> lines = splitLines(original.certificate.text);
  size_t at = std::find(lines.begin(), lines.end(), "mode step\n") - lines.begin();
  int refused = 0, looser = 0, failing = 0;
  for (; at < lines.size(); ++at) {
    EXPECT_EQ(original.checkText(with(lines, at, "")).status, 1) << lines[at];
    std::string kind = lines[at].substr(0, lines[at].find(' '));
    bool isNumber = kind == "keep" || kind == "burst";
    for (const std::string &mutant : numberMutants(lines[at])) {
      std::string text = with(lines, at, mutant);
      Answer answer = original.checkText(text);
      if (answer.status == 0) {
        EXPECT_TRUE(isNumber || kind == "schedule") << mutant;
        EXPECT_TRUE(runsUnderAllBits(original, text)) << mutant;
      } else if (isNumber && answer.message.find("does not hold") != std::string::npos) {
        EXPECT_FALSE(runsUnderAllBits(original, text)) << mutant;
        ++failing;
      }
      ++(answer.status == 0 ? looser : refused);
    }
  }
  std::cout << refused << " refused, " << looser << " looser, " << failing << " seen to fail\n";
  EXPECT_GT(refused, 500);
  EXPECT_GT(failing, 20);
}

} // namespace
