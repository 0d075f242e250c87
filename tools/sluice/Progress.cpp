// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Progress.h"

#include "sluice/Support/Format.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sluice::cli {
namespace {

/// Returns the columns of the terminal on stderr; 80 if it reports none.
int terminalColumns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double readClock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string lineStart;

} // namespace

void setLineStart(const std::string &start) { lineStart = start; }

std::string describeDuration(double seconds) {
  constexpr long long minute = 60, hour = 60 * minute, day = 24 * hour;
  constexpr double most = 1e15; // fits the integer
  auto whole = static_cast<long long>(std::ceil(std::clamp(seconds, 0.0, most)));
  if (whole < 2 * minute) {
    return format("%lld s", whole);
  }
  if (whole < hour) {
    return format("%lld min", (whole + minute / 2) / minute);
  }
  if (whole < 2 * day) {
    whole = (whole + minute / 2) / minute * minute;
    return format("%lld h %lld min", whole / hour, whole % hour / minute);
  }
  whole = (whole + hour / 2) / hour * hour;
  return format("%lld days %lld h", whole / day, whole % day / hour);
}

Progress::Progress() : Progress(std::cerr, ::isatty(STDERR_FILENO) != 0, readClock) {}

Progress::Progress(std::ostream &out, bool terminal, std::function<double()> clock)
    : out(out), terminal(terminal), clock(std::move(clock)), lastLine(this->clock()) {}

void Progress::draw(double share, const std::string &text) {
  constexpr double redrawInterval = 0.1;
  double now = clock();
  if (!first) {
    first = {now, share};
  }
  std::string rest = describeRest(share);
  if (!terminal) {
    if (isLineDue() && share < 1) {
      plainLine(text + format(": %.0f%%", share * 100) + (rest.empty() ? "" : ", " + rest));
    }
    return;
  }
  if (share < 1 && now - lastDrawn < redrawInterval) {
    return;
  }
  lastDrawn = now;
  drawn = true;
  int columns = terminalColumns(), width = columns < 120 ? 16 : 28;
  int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  std::string bar = std::string(static_cast<size_t>(full), '#') +
                    std::string(static_cast<size_t>(width - full), '.');
  std::string line =
      "[" + bar + "] " + format("%3.0f%% ", share * 100) + (rest.empty() ? "" : rest + "  ") + text;
  line.resize(std::min(line.size(),
                       static_cast<size_t>(columns - 1))); // a wrapped line cannot be redrawn
  out << "\r\033[K" << line << std::flush;
}

void Progress::plainLine(const std::string &text) {
  clear();
  out << lineStart + showMessage(text) + "\n" << std::flush;
  lastLine = clock();
}

void Progress::clear() {
  if (drawn) {
    out << "\r\033[K" << std::flush;
    drawn = false;
  }
}

bool Progress::isLineDue() const {
  return clock() - lastLine >= (terminal ? terminalInterval : pipeInterval);
}

std::string Progress::describeRest(double share) const {
  if (!first || share <= first->share || share >= 1) {
    return "";
  }
  double seconds = (clock() - first->time) * (1 - share) / (share - first->share);
  return describeDuration(seconds) + " left";
}

} // namespace sluice::cli
