// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Report/Report.h"
#include "Commands.h"
#include "Common.h"
#include "RunSegments.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Driver/SpecFacts.h"
#include "sluice/Runtime/Train/RunRecord.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>

namespace sluice::cli {
namespace {

struct ReportFlags {
  std::vector<std::string> runs;
  std::string out, curve, kernelCache;
  int64_t segmentTokens = 16384;
  bool force = false;
};

/// Adds a part of the spec, value by value: "stages.1.hierarchy".
void addValues(runtime::Facts &facts, const nlohmann::json &spec, const char *part,
               const std::string &prefix = "") {
  if (spec.is_object() && spec.contains(part)) {
    nlohmann::json values = nlohmann::json{{part, spec[part]}}.flatten();
    for (const auto &[path, value] : values.items()) {
      std::string name = path.substr(1);
      std::replace(name.begin(), name.end(), '/', '.');
      facts.emplace_back(prefix + name,
                         value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

void addTraining(runtime::Facts &facts, const runtime::SpecFacts &spec) {
  auto add = [&](const char *name, double value) {
    facts.emplace_back(std::string("training.") + name, format("%g", value));
  };
  const runtime::OptimizerFacts &optimizer = spec.optimizer;
  const runtime::ScheduleFacts &schedule = spec.schedule;
  facts.emplace_back("training.optimizer", optimizer.kind);
  add("learning_rate", optimizer.learningRate);
  facts.emplace_back("training.schedule.kind", schedule.kind);
  add("schedule.warmup", static_cast<double>(schedule.warmup));
  if (schedule.kind != "constant" || schedule.then) {
    add("schedule.steps", static_cast<double>(schedule.steps));
    add("schedule.floor", schedule.floor);
  }
  if (schedule.then) {
    add("schedule.then.steps", static_cast<double>(schedule.then->steps));
    add("schedule.then.floor", schedule.then->floor);
  }
  facts.emplace_back("training.betas", format("%g, %g", optimizer.beta1, optimizer.beta2));
  add("epsilon", optimizer.epsilon);
  add("weight_decay", optimizer.weightDecay);
  add("clip", optimizer.clip);
}

/// Facts of the trained spec, with defaults filled in; none if the run has no spec.
std::optional<driver::SpecDescription> describeRun(const Path &run) {
  return driver::describeSpec((run / "spec.json").string());
}

runtime::Facts listHyperparameters(const std::optional<driver::SpecDescription> &spec) {
  if (!spec) {
    return {};
  }
  const runtime::ModelFacts &model = spec->model;
  runtime::Facts facts = {{"vocabulary", std::to_string(model.vocabulary)},
                          {"context", std::to_string(model.context)},
                          {"batch", std::to_string(model.batch)},
                          {"width", std::to_string(model.width)}};
  if (spec->batchTokens > 0) {
    facts.emplace_back("training.batch_tokens", std::to_string(spec->batchTokens));
  }
  nlohmann::json text = nlohmann::json::parse(model.spec, nullptr, false);
  addValues(facts, text, "defaults");
  addValues(facts, text, "stages");
  facts.emplace_back("precision", spec->facts.compute + ", residual " + spec->facts.residual);
  addTraining(facts, spec->facts);
  if (text.is_object() && text.contains("training")) {
    addValues(facts, text["training"], "groups", "training.");
  }
  return facts;
}

/// Facts of the trained spec; none if the run has no readable one (it was compiled from model IR).
std::optional<runtime::Causality> checkSpec(const Path &run) {
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

/// Rejects a run that is given twice: all of its numbers would be equal.
void requireDifferentRuns(const std::vector<std::string> &runs) {
  std::error_code ignored;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (std::filesystem::equivalent(runs[i], runs[j], ignored)) {
        throw UserError("sluice report: expected different runs, found " + showPath(runs[i]) +
                        " twice; name each run once");
      }
    }
  }
}

/// Returns the files that a run was trained and evaluated on, as far as its record has them.
std::vector<Path> listRecordedFiles(const Path &run) {
  std::vector<Path> files;
  try {
    std::optional<runtime::RunRecord> record = runtime::readRunRecord(run);
    if (!record) {
      return files;
    }
    for (const auto *data : {&record->data, &record->heldOut}) {
      for (const runtime::DataFile &file : *data) {
        files.emplace_back(file.path);
      }
    }
    if (record->weights) {
      files.emplace_back(record->weights->file);
    }
    if (record->command) {
      for (const runtime::CommandFile &file : record->command->files) {
        files.push_back(file.isStream() ? Path() : run / file.path);
      }
    }
  } catch (const UserError &) { // a damaged record, which the page describes
  }
  return files;
}

void runReport(const ReportFlags &flags) {
  requireDifferentRuns(flags.runs);
  bool compares = flags.runs.size() > 1;
  if (compares && !flags.curve.empty()) {
    throw UserError("sluice report: expected one run with --curve, found " +
                    std::to_string(flags.runs.size()) + "; draw each run's curve alone");
  }
  Path first = flags.runs.front();
  Path out =
      flags.out.empty() ? first / (compares ? "comparison.html" : "report.html") : Path(flags.out);
  std::vector<Path> inputs = joinPaths({flags.runs});
  for (const std::string &run : flags.runs) {
    if (!isFolder(run) || isCheckpointFolder(run)) {
      requireKind(run, FileKind::Run, "a run");
    }
    std::ranges::copy(listRecordedFiles(run), std::back_inserter(inputs));
  }
  if (isFolder(first)) { // else the page has no folder
    checkOutputs({{"--out", out, FileKind::Html}, {"--curve", flags.curve, FileKind::Svg}}, inputs,
                 flags.force);
  }
  std::string page;
  if (compares) {
    std::vector<runtime::ComparedRun> runs;
    for (const std::string &run : flags.runs) {
      runs.push_back({run, listHyperparameters(describeRun(run))});
    }
    page = runtime::makeComparison(runs);
  } else {
    if (flags.segmentTokens < 0) {
      throw UserError("--segment-tokens: expected a number of tokens of at least 0, found " +
                      std::to_string(flags.segmentTokens));
    }
    std::optional<driver::SpecDescription> spec = describeRun(first);
    page = runtime::makeReport(
        first, checkSpec(first), listHyperparameters(spec),
        spec ? showSegments(first, *spec, flags.segmentTokens, flags.kernelCache)
             : runtime::ShownSegments());
  }
  replaceFile(out, asBytes(page));
  std::cerr << "wrote " << showPath(out.string()) << std::endl;
  if (!flags.curve.empty()) {
    replaceFile(flags.curve, asBytes(runtime::makeCurve(first)));
    std::cerr << "wrote " << showPath(flags.curve) << std::endl;
  }
}

} // namespace

void registerReport(CLI::App &program) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App *command = program.add_subcommand(
      "report", "Write a run, or a comparison of runs, as one self-contained HTML page");
  command
      ->add_option("RUN", flags->runs,
                   "Directory of a run, from sluice train; several are compared with each other")
      ->default_str("")
      ->required();
  command->add_option("-o,--out", flags->out,
                      "Page to write; none writes RUN/report.html, or comparison.html into the "
                      "first of several");
  command->add_option("--curve", flags->curve,
                      "SVG file to write the run's bits per byte to as well, of one run");
  addForce(*command, flags->force);
  command->add_option(
      "--segment-tokens", flags->segmentTokens,
      "Held-out tokens whose segments are counted, in the page of one run; 0 shows no "
      "segments");
  addKernelCache(*command, flags->kernelCache);
  command->callback([flags] { runReport(*flags); });
}

} // namespace sluice::cli
