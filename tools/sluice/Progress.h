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

/// Shows on stderr how far a job is and how long the rest takes. A terminal shows a bar, which is
/// drawn over; in a pipe a line appears every 30 s.
class Progress {
public:
  /// Seconds between lines that stay.
  static constexpr double terminalInterval = 5, pipeInterval = 30;

  Progress();
  /// Writes to `out`; `clock` returns seconds. For tests.
  Progress(std::ostream &out, bool terminal, std::function<double()> clock);
  ~Progress() { clear(); }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  bool onTerminal() const { return terminal; }

  /// Shows `text` and the share of the job that is done, 0 to 1. A terminal draws it at most ten
  /// times a second unless `share` is 1; a pipe gets a line where one is due.
  void draw(double share, const std::string &text);

  /// Prints a line that stays, on terminals and in pipes.
  void plainLine(const std::string &text);

  /// Removes the bar.
  void clear();

  /// Returns true if the last line that stays was printed so long ago that the next one is due.
  bool isLineDue() const;

  /// Returns "12 min left" if `share` is done, by the time since the first share that `draw` got;
  /// empty if nothing is known yet.
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
