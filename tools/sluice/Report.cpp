// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Report.h"
#include "Commands.h"
#include "Common.h"
#include "sluice/Driver/Driver.h"

#include <iostream>

namespace sluice::cli {
namespace {

struct ReportFlags {
  std::string run, out;
};

/// Of the spec that was trained; nothing where the run holds none that can be read (it was compiled
/// from model IR).
std::optional<runtime::Causality> checkSpec(const runtime::Path &run) {
  driver::CheckRequest request{(run / "spec.json").string()};
  request.replay = false;
  request.picture = true;
  driver::CheckOutcome check = driver::check(request);
  if (check.outcome.status == 2) {
    return std::nullopt;
  }
  runtime::Causality causality{check.verdict.format(), {}, ""};
  for (const auto *list : {&check.verdict.warnings, &check.verdict.notes}) {
    for (const CausalWarning &finding : *list) {
      causality.findings.push_back(finding.format());
    }
  }
  if (check.picture) {
    causality.picture = renderSvg(*check.picture);
  } else {
    causality.findings.push_back("no picture: " + check.pictureError);
  }
  return causality;
}

void runReport(const ReportFlags &flags) {
  runtime::Path out =
      flags.out.empty() ? runtime::Path(flags.run) / "report.html" : runtime::Path(flags.out);
  runtime::replaceFile(out, runtime::asBytes(runtime::makeReport(flags.run, checkSpec(flags.run))));
  std::cerr << "wrote " << out.string() << std::endl;
}

} // namespace

void registerReport(CLI::App &program) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App *command =
      program.add_subcommand("report", "Write a run as one self-contained HTML page");
  command->add_option("RUN", flags->run, "Directory of a run, from sluice train")->required();
  command->add_option("-o,--out", flags->out, "Page to write; none writes RUN/report.html");
  command->callback([flags] { runReport(*flags); });
}

} // namespace sluice::cli
