// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Explain/Verdict.h"
#include "sluice/Support/Format.h"

#include <cstdio>

using namespace sluice;

std::string sluice::forcedName(size_t cut) { return "forced." + std::to_string(cut); }

std::string sluice::formatReplay(const CausalWitness &witness) {
  std::string row = "row " + std::to_string(witness.row),
              token = "token " + std::to_string(witness.token);
  std::string how =
      witness.token < witness.length ? token + " changed" : "the sequence continued to " + token;
  if (!witness.runs.empty()) {
    how = witness.shown > 0 ? witness.runs[witness.shown].what : token + " changed";
  }
  bool isCompiled = witness.program == ReplayProgram::Compiled;
  std::string where = isCompiled ? "replay of the compiled program: " : "replay of the reference: ";
  switch (witness.replay) {
  case Replay::NotRun:
    return "replay: not run" + (witness.whyNotRun.empty() ? "" : ": " + witness.whyNotRun);
  case Replay::Unchanged:
    return where + "the path exists, but with " + how + " " + row + " stayed the same";
  case Replay::Changed:
    break;
  }
  char change[32];
  std::snprintf(change, sizeof change, "%.3g", witness.change);
  return where + "with " + how + ", " + row +
         (isCompiled ? "'s loss changed by " : " changed by up to ") + change +
         (isCompiled ? " nats" : "");
}

const char *CausalWarning::getName() const {
  const char *names[] = {"blind-spot",      "waste",          "dead-stage",
                         "bounded-context", "not-enumerated", "unfinished"};
  return names[static_cast<int>(kind)];
}

std::string CausalWarning::format() const {
  return spec::toString(place) + (isNote() ? ": note: " : ": warning: ") + text;
}

/// Returns one line per step; equal steps of a stack of layers share one line.
static std::vector<std::string> buildLines(const std::vector<CausalStep> &path) {
  std::vector<std::string> lines;
  std::string last;
  int times = 1;
  for (const CausalStep &step : path) {
    std::string line = spec::toString(step.place) + ": " + step.op + ": position " +
                       std::to_string(step.from) + " into " + std::to_string(step.to);
    times = line == last ? times + 1 : 1;
    if (times > 1) {
      lines.back() = line + ", " + std::to_string(times) + " times";
    } else {
      lines.push_back(line);
    }
    last = std::move(line);
  }
  return lines;
}

/// Formats a path; shows only both ends of a path of thousands of reads.
static std::string formatPath(const std::vector<CausalStep> &path) {
  constexpr size_t shown = 16;
  std::vector<std::string> lines = buildLines(path);
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines.size() > 2 * shown + 1 && i == shown) {
      i = lines.size() - shown;
      text += "\n    ... " + std::to_string(lines.size() - 2 * shown) +
              " more lines of reads, which --json lists ...";
    }
    text += "\n    " + lines[i];
  }
  return text;
}

void CausalVerdict::dropRemedy() {
  if (message.ends_with(remedy)) {
    message.resize(message.size() - remedy.size());
  }
  remedy.clear();
}

std::string CausalVerdict::formatFix() const {
  std::string hidden =
      fix && fix->hidesTokens ? ", but its rows never see some earlier tokens" : "";
  return fix              ? "  advice: " + fix->words + "; the spec is proved with it" + hidden
         : !noFix.empty() ? "  advice: " + noFix
                          : "";
}

std::string CausalVerdict::formatWithoutReplay() const {
  if (isProved()) {
    return format();
  }
  std::string mode = refusedMode.empty() ? "" : " (mode " + refusedMode + ")";
  std::string at = refusedFactor == 0 ? "" : "with factor " + std::to_string(refusedFactor) + ": ";
  std::string text = spec::toString(place) + ": " + at + message + mode;
  if (!witness) {
    return text;
  }
  std::string token = std::to_string(witness->token), row = std::to_string(witness->row);
  bool grows = witness->token >= witness->length;
  return text + "\n  " +
         (grows ? "once token " + token + " is there, to row " + row + ":"
                : "from token " + token + " to row " + row + ":") +
         formatPath(witness->path);
}

std::string CausalVerdict::format() const {
  if (isProved()) {
    std::string list;
    for (int64_t factor : factors) {
      list += (list.empty() ? " and each factor of " : ", ") + std::to_string(factor);
    }
    std::string text = "proved causal for every length" + list + ", in";
    for (const std::string &mode : modes) {
      text += (&mode == &modes.front() ? " " : &mode == &modes.back() ? " and " : ", ") + mode;
    }
    std::string inputs;
    for (const std::string &name : given) {
      inputs += (inputs.empty() ? "" : ", ") + name;
    }
    return text +
           (given.empty()
                ? ""
                : "\n  given whole before the first token, so that reading all of it is no "
                  "leak: " +
                      inputs) +
           "\n  no row reads its target or a later token, and none changes as the sequence "
           "grows; " +
           describeCount(obligations, "obligation") + " decided";
  }
  std::string text = formatWithoutReplay(), advice = formatFix();
  text += advice.empty() ? "" : "\n" + advice;
  return witness ? text + "\n  " + formatReplay(*witness) : text;
}
