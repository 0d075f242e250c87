// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice check` proves that a model is causal for every length, or reports a leak.
#include "CheckFix.h"
#include "Commands.h"
#include "Common.h"
#include "Failures.h"
#include "Recompile.h"
#include "Replay.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Spec/SpecText.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Files.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Text.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <tuple>

namespace sluice::cli {
namespace {

struct CheckFlags {
  std::string spec, picture, pictureText, certificate, smt, kernelCache, output;
  std::vector<std::string> settings;
  std::optional<int64_t> pictureRow;
  int64_t operations = WorkBudget::defaultOperations;
  bool json = false, strict = false, noReplay = false, noAdvice = false, force = false;
  bool fix = false;
};

nlohmann::ordered_json placeToJson(const spec::SourceLocation &place) {
  return {{"file", place.file}, {"line", place.line}, {"column", place.column}};
}

nlohmann::ordered_json witnessToJson(const CausalWitness &witness) {
  nlohmann::ordered_json path = nlohmann::ordered_json::array();
  for (const CausalStep &step : witness.path) {
    nlohmann::ordered_json json = placeToJson(step.place);
    json["op"] = step.op;
    json["from"] = step.from;
    json["to"] = step.to;
    path.push_back(std::move(json));
  }
  const char *replays[] = {"not run", "changed", "unchanged"};
  nlohmann::ordered_json replay = {{"result", replays[static_cast<int>(witness.replay)]}};
  if (!witness.whyNotRun.empty()) {
    replay["why"] = witness.whyNotRun;
  }
  if (witness.replay != Replay::NotRun) {
    const char *programs[] = {"reference", "compiled"};
    replay["program"] = programs[static_cast<int>(witness.program)];
    replay["change"] = witness.change;
  }
  return {{"length", witness.length},
          {"row", witness.row},
          {"token", witness.token},
          {"path", path},
          {"replay", replay}};
}

nlohmann::ordered_json lossesToJson(const std::vector<ProvedLoss> &losses) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ProvedLoss &loss : losses) {
    nlohmann::ordered_json json = placeToJson(loss.place);
    json["mode"] = loss.mode;
    json["target_offset"] = loss.offset;
    list.push_back(std::move(json));
  }
  return list;
}

/// Returns the extent of the search for advice: "complete", "stopped" (a note gives the location),
/// "left out" or, if there is none to give, "none".
std::string adviceState(const CausalVerdict &verdict, bool leftOut) {
  if (!verdict.isProved()) {
    return leftOut ? "left out" : verdict.fix || !verdict.noFix.empty() ? "complete" : "none";
  }
  bool stopped = std::any_of(verdict.notes.begin(), verdict.notes.end(),
                             [](const auto &note) { return note.kind == WarningKind::Unfinished; });
  return leftOut ? "left out" : stopped ? "stopped" : "complete";
}

/// Returns the derived step: null if the module is not proved or does not predict.
nlohmann::ordered_json stepToJson(const std::optional<driver::StepSummary> &step) {
  if (!step) {
    return nullptr;
  }
  if (!step->refusal.empty()) {
    nlohmann::ordered_json json = placeToJson(step->place);
    json["refused"] = step->refusal;
    return json;
  }
  nlohmann::ordered_json states = nlohmann::ordered_json::array();
  for (const driver::StepSummary::State &state : step->states) {
    states.push_back({{"name", state.name},
                      {"ring", state.ring},
                      {"all", state.keepsAll},
                      {"first", state.first},
                      {"period", state.period},
                      {"rise", state.rise},
                      {"burst", state.burst}});
  }
  return {{"values", step->values}, {"states", states}};
}

/// Returns the advised edit, as bytes of the checked text; null if there is none.
nlohmann::ordered_json fixToJson(const CausalVerdict &verdict, const std::string &text) {
  if (!verdict.fix) {
    return nullptr;
  }
  nlohmann::ordered_json json = placeToJson(verdict.fix->place);
  json["text"] = verdict.fix->words;
  json["edits"] = nlohmann::ordered_json::array();
  for (const spec::TextEdit &edit : spec::diffLines(text, verdict.fix->text)) {
    json["edits"].push_back({{"begin", edit.begin}, {"end", edit.end}, {"replacement", edit.text}});
  }
  return json;
}

nlohmann::ordered_json verdictToJson(const CausalVerdict &verdict, bool noAdvice) {
  const char *kinds[] = {"proved", "leak", "not proved", "misaligned"};
  nlohmann::ordered_json json = {{"verdict", kinds[static_cast<int>(verdict.kind)]},
                                 {"modes", verdict.modes},
                                 {"given", verdict.given}};
  json["obligations"] = verdict.obligations;
  json["losses"] = lossesToJson(verdict.losses);
  if (!verdict.factors.empty()) {
    json["factors"] = verdict.factors;
  }
  if (verdict.refusedFactor != 0) {
    json["refused_factor"] = verdict.refusedFactor;
  }
  if (!verdict.isProved()) {
    json["refused_mode"] = verdict.refusedMode;
    json["message"] = verdict.message;
    json["place"] = placeToJson(verdict.place);
  }
  if (verdict.exhausted > 0) {
    json["exhausted_operations"] = verdict.exhausted;
  }
  json["witness"] = verdict.witness ? witnessToJson(*verdict.witness) : nlohmann::ordered_json();
  json["advice"] = adviceState(verdict, noAdvice);
  json["warnings"] = nlohmann::ordered_json::array();
  for (const CausalWarning &warning : verdict.warnings) {
    json["warnings"].push_back(warning.format());
  }
  json["findings"] = nlohmann::ordered_json::array();
  for (const auto *list : {&verdict.warnings, &verdict.notes}) {
    for (const CausalWarning &finding : *list) {
      nlohmann::ordered_json entry = placeToJson(finding.place);
      entry["kind"] = finding.getName();
      entry["severity"] = finding.isNote() ? "note" : "warning";
      entry["text"] = finding.text;
      json["findings"].push_back(std::move(entry));
    }
  }
  return json;
}

void writePicture(const CheckFlags &flags, const driver::CheckOutcome &check) {
  if (!check.picture) {
    throw UserError("--picture: " + check.pictureError + "; no picture was written");
  }
  replaceFile(flags.picture, asBytes(renderSvg(*check.picture)));
}

/// Warnings do not affect the proof; --strict rejects them anyway.
void refuseWarnings(const CheckFlags &flags, const CausalVerdict &verdict) {
  if (flags.strict && verdict.isProved() && !verdict.warnings.empty()) {
    std::cerr << showPath(flags.spec)
              << ": proved causal, but rejected because of --strict: " << verdict.warnings.size()
              << (verdict.warnings.size() == 1 ? " warning" : " warnings")
              << "; fix the spec, or check without --strict" << std::endl;
    throw ExitStatus{1};
  }
}

/// Maximum number of ops of a program that is compiled only to show a leak; more would take
/// minutes.
constexpr int64_t mostOpsToReplay = 4000;

/// Replays a witness on the compiled program if possible, else on the reference. Numbers may hide a
/// path (an absent row reads as zeros): the reference then searches for a leak at another length
/// whose row does change, and the program replays that one.
driver::CheckOutcome replay(const CheckFlags &flags, driver::CheckRequest request,
                            driver::CheckOutcome check) {
  CausalVerdict &verdict = check.verdict;
  if (!verdict.witness) {
    return check;
  }
  if (flags.noReplay || flags.fix) {
    verdict.witness->whyNotRun = flags.noReplay ? "--no-replay" : "--fix";
    return check;
  }
  if (!verdict.witness->whyNotRun.empty()) {
    return check;
  }
  setLastWords(flags.json ? verdict.format() : ""); // text output has it already
  bool isSmall = check.ops <= mostOpsToReplay;
  bool ran = isSmall && replayCompiled(request, verdict, *verdict.witness);
  if (ran && verdict.witness->replay == Replay::Changed) {
    return check;
  }
  request.replay = true;
  request.advice = false;
  request.tell = {};
  request.certificate = request.smt = "";
  driver::CheckOutcome second = driver::check(request);
  std::optional<CausalWitness> &other = second.verdict.witness;
  bool shown = other && other->replay == Replay::Changed;
  if (!second.isDecided) {
    return check;
  }
  second.verdict.fix = verdict.fix;
  second.verdict.noFix = verdict.noFix;
  if (!ran || !shown) {
    return ran ? check : second;
  }
  CausalWitness compiled = *other;
  if (replayCompiled(request, second.verdict, compiled) && compiled.replay == Replay::Changed) {
    other = compiled;
  }
  return second;
}

[[noreturn]] void failWith(const driver::Outcome &outcome) {
  if (outcome.status == 2) {
    throw UserError(outcome.message);
  }
  throw JobError(outcome.message);
}

/// Fails if an output could not be written. A leak has priority: its status is preserved.
void finishOutputs(const CheckFlags &flags, const driver::CheckOutcome &check,
                   const driver::Outcome &outputs) {
  try {
    if (!outputs.message.empty()) {
      failWith(outputs);
    }
    if (!flags.picture.empty()) {
      writePicture(flags, check);
    }
  } catch (const std::runtime_error &error) {
    if (check.verdict.isProved()) {
      throw;
    }
    printError(error.what());
  }
}

/// If the numbers of the reported leak do not change, also reports a leak whose numbers do.
void printReplay(std::ostream &talk, const CausalVerdict &told, const CausalVerdict &replayed) {
  if (told.witness && replayed.witness) {
    const CausalWitness &first = *told.witness, &second = *replayed.witness;
    bool isOther = std::tie(first.length, first.row, first.token, told.message) !=
                   std::tie(second.length, second.row, second.token, replayed.message);
    talk << (isOther ? "no number shows that one; another leak does show:\n" +
                           showText(replayed.formatWithoutReplay()) + "\n"
                     : "")
         << "  " << showText(formatReplay(second)) << std::endl;
  }
}

driver::CheckRequest buildRequest(const CheckFlags &flags) {
  driver::CheckRequest request{flags.spec};
  request.settings = parseSettings(flags.settings);
  request.replay = false;
  request.picture = !flags.picture.empty();
  request.pictureRow = flags.pictureRow;
  request.pictureText = flags.pictureText;
  request.certificate = flags.certificate;
  request.smt = flags.smt;
  request.step = flags.json;
  request.advice = !flags.noAdvice;
  request.operations = flags.operations;
  request.kernelCache = flags.kernelCache;
  return request;
}

void runCheck(const CheckFlags &flags) {
  SpecFixer fixer(flags.spec, flags.output, flags.fix, flags.force);
  checkOutputs({{"--picture", flags.picture, FileKind::Svg},
                {"--certificate", flags.certificate, FileKind::Certificate},
                {"--smt", flags.smt, FileKind::Smt}},
               fixer.inputs(), flags.force);
  driver::CheckRequest request = buildRequest(flags);
  fixer.prepare(request, flags.json);
  std::ostream &talk = fixer.talk();
  if (!flags.json) {
    request.tell = [&](const CausalVerdict &verdict) {
      talk << (verdict.isProved() ? showPath(request.spec) + ": " : "")
           << showText(verdict.formatWithoutReplay()) << std::endl;
    };
  }
  driver::CheckOutcome check = driver::check(request);
  if (!check.isDecided) {
    failWith(check.outcome);
  }
  CausalVerdict told = check.verdict;
  std::string text = check.text;
  if (std::string advice = told.formatFix(); !flags.json && !advice.empty()) {
    talk << showText(advice) << std::endl;
  }
  driver::Outcome outputs = check.outcome;
  check = replay(flags, request, std::move(check));
  const CausalVerdict &verdict = check.verdict;
  for (const auto *list : {&verdict.warnings, &verdict.notes}) {
    for (const CausalWarning &finding : *list) {
      std::cerr << showMessage(finding.format()) << "\n";
    }
  }
  if (flags.json) {
    nlohmann::ordered_json json = verdictToJson(verdict, flags.noAdvice);
    json["fix"] = fixToJson(verdict, text);
    json["step"] = stepToJson(check.step);
    talk << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << std::endl;
  } else {
    printReplay(talk, told, verdict);
  }
  setLastWords("");
  finishOutputs(flags, check, outputs);
  if (flags.fix) {
    fixer.finish(request, verdict, text);
  } else if (!verdict.isProved()) {
    throw ExitStatus{1};
  }
  refuseWarnings(flags, verdict);
}

} // namespace

void registerCheck(CLI::App &program) {
  auto flags = std::make_shared<CheckFlags>();
  CLI::App *command = program.add_subcommand(
      "check",
      "Prove that no prediction reads its target or anything after it. The verdict is "
      "\"proved\", a leak with a witness, or \"not proved\"; status 0 is of a proof alone");
  command
      ->add_option("SPEC", flags->spec,
                   "Model spec, JSON (docs/spec.md), or model IR (.mlir); - reads a spec from "
                   "standard input")
      ->type_name("FILE")
      ->required();
  addSettings(
      *command, flags->settings,
      "Put a value into the spec before it is checked, as in stages.1.shift=0; may be given "
      "several times");
  command->add_flag("--json", flags->json, "Print one JSON object; positions count from 0");
  command->add_flag("--no-replay", flags->noReplay,
                    "Do not run a leak's witness; else the spec is compiled and run twice");
  auto *noAdvice =
      command->add_flag("--no-advice", flags->noAdvice,
                        "Do not look for blind spots, needless shifts and dead stages of what is "
                        "proved, or for an edit that repairs a spec that is not; else that may "
                        "take some seconds after the verdict is printed");
  CLI::Option *fix =
      command
          ->add_flag("--fix", flags->fix,
                     "Write the advised edit of a spec that is not proved (docs/causality.md): "
                     "into SPEC itself, or into --output; of standard input to standard output. "
                     "Status 0 where the edited spec is proved, which is checked again")
          ->excludes(noAdvice);
  command->add_option("-o,--output", flags->output, "File for the edited spec of --fix")
      ->type_name("FILE")
      ->needs(fix);
  command
      ->add_flag("--strict", flags->strict,
                 "Reject, with status 1, a spec that is proved but has warnings: blind spots, "
                 "needless shifts, stages that reach no loss")
      ->excludes(noAdvice);
  CLI::Option *picture =
      command
          ->add_option("--picture", flags->picture,
                       "Write what one row reads, or a leak's path, as an SVG picture")
          ->type_name("FILE");
  command
      ->add_option("--picture-row", flags->pictureRow,
                   "Row to draw; none draws the row of a period of the scales that cannot see the "
                   "most tokens, or the middle one. A leak is drawn at its own row")
      ->type_name("UINT")
      ->needs(picture);
  command
      ->add_option("--picture-text", flags->pictureText,
                   "Text over which segments are drawn: of a rule as its bytes decide, of a "
                   "predictor after each |, as sluice boundaries prints it, || where segments are "
                   "cut again. Without it segments are regular")
      ->type_name("TEXT")
      ->needs(picture);
  command
      ->add_option("--certificate", flags->certificate,
                   "Write the proof here, for sluice-certify (docs/certificate.md); only where "
                   "the spec is proved")
      ->type_name("FILE");
  command
      ->add_option("--smt", flags->smt,
                   "Write every obligation here as SMT-LIB: negated, so each is to be unsat")
      ->type_name("FILE");
  addOperations(*command, flags->operations);
  addForce(*command, flags->force);
  addKernelCache(*command, flags->kernelCache);
  command->callback([flags] { runCheck(*flags); });
}

} // namespace sluice::cli
