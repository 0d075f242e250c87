// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the lines of a certificate and decides obligations, for all parts of a certificate.
#pragma once

#include "Bound.h"
#include "Certify.h"
#include "Graph.h"

#include <set>
#include <tuple>

namespace certify {

/// The lines of a certificate, in order.
class Lines {
public:
  explicit Lines(const std::string &text) : text(text) {}

  /// Returns the text after `start` on the next line; nothing if `start` must be all of it.
  std::string rest(const std::string &start, bool isAll = false) {
    ++number;
    size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    if (end == std::string::npos || line.substr(0, isAll ? line.size() : start.size()) != start) {
      throw Refusal("expected '" + start + (isAll ? "'" : "...'") + ", found " +
                    (end == std::string::npos ? "that the file was cut short" : "'" + line + "'"));
    }
    at = end + 1;
    return line.substr(start.size());
  }
  void expect(const std::string &line) { rest(line, true); }
  bool startsWith(const std::string &start) const {
    return text.compare(at, start.size(), start) == 0;
  }
  /// Reads this line if it is the next one.
  bool accept(const std::string &line) { return startsWith(line + "\n") && (expect(line), true); }
  void finish() {
    expect("end certificate " + std::to_string(number + 1) + " lines");
    if (at != text.size()) {
      ++number;
      throw Refusal("expected the end of the file, found more");
    }
  }
  int64_t number = 0; ///< of the last line, from 1

private:
  const std::string &text;
  size_t at = 0;
};

/// Decides obligations. Decides equal ones once.
class ObligationSolver {
public:
  /// Requires left(x) <= right(x) for every x >= 0, or for every integer; `name` is x in messages.
  void demand(const Bound &left, const Bound &right, bool everywhere, const std::string &name) {
    if (!known.emplace(left, right, everywhere).second) {
      return; // it holds, or this is not reached
    }
    if (hasEnds(left.candidates) || hasEnds(right.candidates)) {
      return certify::demand(!everywhere && isNeverAbove(left, right), undecided);
    }
    if (std::optional<int64_t> x = findAbove(left, right, everywhere)) {
      throw Refusal("the obligation does not hold at " + name + " = " + std::to_string(*x) + ": " +
                    std::to_string(left.at(*x)) + " > " + std::to_string(right.at(*x)));
    }
  }

private:
  std::set<std::tuple<Bound, Bound, bool>> known;
};

/// A part of a certificate that is being read.
struct LinePart {
  const ModelGraph &graph;
  Lines &lines;
  ObligationSolver &judge;
  int64_t obligations = 0; ///< read so far

  void obligation(const std::string &line) {
    lines.expect(line);
    ++obligations;
  }
  void end(const std::string &mode, size_t values) {
    lines.expect("end " + mode + " " + std::to_string(values) + " values " +
                 std::to_string(obligations) + " obligations");
  }
};

/// The incremental step: the step that computes each stored value's rows, and the stored rows.
struct LineStep {
  struct ScheduledValue {
    Bound schedule;   ///< row m is computed at step schedule(m)
    int64_t ring = 0; ///< number of newest rows that are stored; 0: the lines of one step; -1: all
    int64_t burst = 1;
  };
  std::vector<ScheduledValue> values; ///< as the graph's; lines of lazy values have no meaning
  int64_t obligations = 0;
};

/// Reads and decides "mode step". Throws Refusal if the step would read a row that does not exist.
LineStep readStep(const ModelGraph &graph, Lines &lines, ObligationSolver &judge);

/// Checks the step by enumeration: `length` steps, every read of every row. Throws Refusal.
void walkStep(const ModelGraph &graph, const LineStep &step, int64_t length);

} // namespace certify
