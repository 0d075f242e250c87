// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CheckFix.h"

#include "Commands.h"
#include "Failures.h"
#include "sluice/Spec/SpecText.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Outputs.h"
#include "sluice/Support/Text.h"

#include <iostream>
#include <iterator>

namespace sluice::cli {

static constexpr const char *streamName = "<stdin>"; // in messages

SpecFixer::SpecFixer(const std::string &spec, const std::string &output, bool isAsked, bool force)
    : spec(spec), output(output), isAsked(isAsked) {
  if (!isStream()) {
    requireKind(spec, FileKind::Spec, "a model spec");
  }
  if (isAsked && spec.ends_with(".mlir")) {
    throw UserError(showPath(spec) + ": expected a spec for --fix, found model IR; change "
                                     "the IR itself");
  }
  if (!output.empty()) {
    checkOutputs({{"--output", output, FileKind::Spec}}, inputs(), force);
  } else if (isAsked && !isStream()) {
    checkOutputs({{"--fix", spec, FileKind::Spec}}, {}, force);
  }
}

std::vector<Path> SpecFixer::inputs() const {
  return isStream() ? std::vector<Path>() : std::vector<Path>{spec};
}

void SpecFixer::prepare(driver::CheckRequest &request, bool json) {
  if (isAsked && !request.settings.empty() && output.empty() && !isStream()) {
    throw UserError("--fix: expected --output FILE with --set, found none; the edit is of "
                    "the spec with what --set writes, which " +
                    showPath(spec) + " does not have");
  }
  if (isAsked && json && isStream() && output.empty()) {
    throw UserError("--fix: expected --output FILE with --json, found none; standard "
                    "output has the JSON, so the spec needs a file");
  }
  isJson = json;
  if (isStream()) {
    request.text = std::string{std::istreambuf_iterator<char>(std::cin), {}};
    request.spec = streamName;
  }
}

std::ostream &SpecFixer::talk() const {
  return isAsked && isStream() && output.empty() ? std::cerr : std::cout;
}

void SpecFixer::write(const std::string &original, const std::string &fixed) const {
  if (output.empty() && isStream()) {
    std::cout << fixed << std::flush;
    return;
  }
  if (output.empty() && readText(spec, "model spec") != original) {
    throw UserError(showPath(spec) + ": the file changed while it was checked; nothing was "
                                     "written, so check it again");
  }
  replaceFile(output.empty() ? spec : output, asBytes(fixed));
}

void SpecFixer::finish(driver::CheckRequest request, const CausalVerdict &verdict,
                       const std::string &text) const {
  std::string name = output.empty() ? request.spec : output;
  if (verdict.isProved()) {
    if (output.empty() && isStream()) {
      std::cout << text << std::flush;
    }
    std::cerr << showPath(request.spec) << ": proved as it is; --fix changed nothing" << std::endl;
    return;
  }
  if (!verdict.fix) {
    std::cerr << showPath(request.spec)
              << ": --fix found no edit that repairs it; nothing was written" << std::endl;
    throw ExitStatus{1};
  }
  const std::string &fixed = verdict.fix->text;
  driver::CheckRequest again{name};
  again.text = fixed;
  again.operations = request.operations;
  again.replay = again.advice = false;
  driver::CheckOutcome checked = driver::check(again);
  if (!checked.isDecided || !checked.verdict.isProved()) {
    throw JobError(showPath(name) + ": the edited spec was not proved again; nothing was "
                                    "written. This is a defect of sluice, please report it");
  }
  write(text, fixed);
  if (!isJson) { // of which standard output is one object
    talk() << showText(spec::formatDiff(text, fixed, request.spec, name)) << showPath(name) << ": "
           << checked.verdict.format() << std::endl;
  }
}

} // namespace sluice::cli
