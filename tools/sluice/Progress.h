// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shows the progress of a long job on stderr: a bar on a terminal, lines at fixed intervals in a
// pipe.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

namespace sluice::cli {

/// Formats a duration: "42 s", "12 min", "3 h 20 min" or "2 days 5 h". `seconds` is at least 0.
std::string describeDuration(double seconds);

/// Sets what every permanent line of this process begins with, such as "rank 0: ".
void setLineStart(const std::string &start);

/// Shows on stderr the progress of a job and the remaining time. A terminal shows a bar, which is
/// redrawn; in a pipe a line appears every 30 s.
class Progress {
public:
  /// Seconds between permanent lines.
  static constexpr double terminalInterval = 5, pipeInterval = 30;

  Progress();
  /// Writes to `out`; `clock` returns seconds. For tests.
  Progress(std::ostream &out, bool terminal, std::function<double()> clock);
  ~Progress() { clear(); }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  bool onTerminal() const { return terminal; }

  /// Shows `text` and the done share of the job, 0 to 1. Redraws a terminal at most ten times a
  /// second unless `share` is 1; writes a line to a pipe when one is due.
  void draw(double share, const std::string &text);

  /// Prints a permanent line in one piece, on terminals and in pipes.
  void plainLine(const std::string &text);

  /// Removes the bar.
  void clear();

  /// Returns true if the next permanent line is due, by the time since the last one.
  bool isLineDue() const;

  /// Returns "12 min left" if `share` is done, by the time since the first share that `draw` got;
  /// empty without an estimate.
  std::string describeRest(double share) const;

private:
  struct Moment {
    double time, share;
  };

  std::ostream &out;
  bool terminal, drawn = false;
  std::function<double()> clock;
  double lastDrawn = -1, lastLine;
  std::optional<Moment> first; // that `draw` was called with
};

} // namespace sluice::cli
