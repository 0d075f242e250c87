// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice check`: is the model causal, for every length?
#include "Commands.h"
#include "Failures.h"
#include "Recompile.h"
#include "Replay.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Files.h"
#include "sluice/Runtime/Text.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace sluice::cli {
namespace {

struct CheckFlags {
  std::string spec, picture, certificate, smt;
  std::vector<std::string> settings;
  int64_t pictureRow = -1;
  bool json = false, strict = false, noReplay = false;
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

nlohmann::ordered_json verdictToJson(const CausalVerdict &verdict) {
  const char *kinds[] = {"proved", "leak", "not proved", "misaligned"};
  nlohmann::ordered_json json = {{"verdict", kinds[static_cast<int>(verdict.kind)]},
                                 {"modes", verdict.modes}};
  json["obligations"] = verdict.obligations;
  json["losses"] = lossesToJson(verdict.losses);
  if (!verdict.isProved()) {
    json["refused_mode"] = verdict.refusedMode;
    json["message"] = verdict.message;
    json["place"] = placeToJson(verdict.place);
  }
  json["witness"] = verdict.witness ? witnessToJson(*verdict.witness) : nlohmann::ordered_json();
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
  if (runtime::isSameFile(flags.picture, flags.spec)) {
    throw runtime::UserError("--picture: expected a file to write, found the spec itself, " +
                             flags.picture + "; name another file");
  }
  if (!check.picture) {
    throw runtime::UserError("--picture: " + check.pictureError + "; no picture was written");
  }
  runtime::replaceFile(flags.picture, runtime::asBytes(renderSvg(*check.picture)));
}

/// Warnings are no fault of the proof; --strict refuses them all the same.
void refuseWarnings(const CheckFlags &flags, const CausalVerdict &verdict) {
  if (flags.strict && verdict.isProved() && !verdict.warnings.empty()) {
    std::cerr << flags.spec
              << ": proved causal, but refused because of --strict: " << verdict.warnings.size()
              << (verdict.warnings.size() == 1 ? " warning" : " warnings")
              << "; mend the spec, or check without --strict" << std::endl;
    throw ExitStatus{1};
  }
}

/// The verdict, its witness replayed on the compiled program where that can be, else on the
/// reference. Numbers may hide a path (zeros read as a row that is not there): the reference then
/// looks for a leak of another length whose row does change, and the program replays that one.
driver::CheckOutcome checkAndReplay(const CheckFlags &flags, driver::CheckRequest request) {
  request.replay = false;
  driver::CheckOutcome check = driver::check(request);
  if (flags.noReplay || !check.verdict.witness) {
    return check;
  }
  setLastWords(check.verdict.format());
  CausalWitness &first = *check.verdict.witness;
  bool ran = replayCompiled(request, check.verdict.refusedMode, first);
  if (ran && first.replay == Replay::Changed) {
    return check;
  }
  request.replay = true;
  driver::CheckOutcome second = driver::check(request);
  std::optional<CausalWitness> &other = second.verdict.witness;
  bool shown = other && other->replay == Replay::Changed;
  if (!second.isDecided) {
    return check;
  }
  if (!ran || !shown) {
    return ran ? check : second;
  }
  CausalWitness compiled = *other;
  if (replayCompiled(request, second.verdict.refusedMode, compiled) &&
      compiled.replay == Replay::Changed) {
    other = compiled;
  }
  return second;
}

[[noreturn]] void failWith(const driver::Outcome &outcome) {
  if (outcome.status == 2) {
    throw runtime::UserError(outcome.message);
  }
  throw runtime::JobError(outcome.message);
}

void tellVerdict(const CheckFlags &flags, const CausalVerdict &verdict) {
  if (flags.json) {
    std::cout << verdictToJson(verdict).dump(2) << std::endl;
  } else {
    std::cout << (verdict.isProved() ? showPath(flags.spec) + ": " : "") << verdict.format()
              << std::endl;
  }
}

/// Fails where an output could not be written. A leak is the graver finding: its status stays.
void finishOutputs(const CheckFlags &flags, const driver::CheckOutcome &check) {
  try {
    if (!flags.picture.empty()) {
      writePicture(flags, check);
    }
    if (!check.outcome.message.empty()) {
      failWith(check.outcome);
    }
  } catch (const std::runtime_error &error) {
    if (check.verdict.isProved()) {
      throw;
    }
    printError(error.what());
  }
}

void runCheck(const CheckFlags &flags) {
  driver::CheckRequest request{flags.spec};
  request.settings = parseSettings(flags.settings);
  request.picture = !flags.picture.empty();
  if (flags.pictureRow >= 0) {
    request.pictureRow = flags.pictureRow;
  }
  request.certificate = flags.certificate;
  request.smt = flags.smt;
  driver::CheckOutcome check = checkAndReplay(flags, request);
  const CausalVerdict &verdict = check.verdict;
  if (!check.isDecided) {
    failWith(check.outcome);
  }
  for (const auto *list : {&verdict.warnings, &verdict.notes}) {
    for (const CausalWarning &finding : *list) {
      std::cerr << finding.format() << "\n";
    }
  }
  // Before anything that can fail.
  tellVerdict(flags, verdict);
  setLastWords("");
  finishOutputs(flags, check);
  if (!verdict.isProved()) {
    throw ExitStatus{1};
  }
  refuseWarnings(flags, verdict);
}

} // namespace

void registerCheck(CLI::App &program) {
  auto flags = std::make_shared<CheckFlags>();
  CLI::App *command = program.add_subcommand(
      "check", "Prove that no prediction reads its target or anything after it");
  command->add_option("SPEC", flags->spec, "Model spec, JSON (docs/spec.md), or model IR (.mlir)")
      ->type_name("FILE")
      ->required();
  addSettings(
      *command, flags->settings,
      "Put a value into the spec before it is checked, as in stages.1.shift=0; may be given "
      "several times");
  command->add_flag("--json", flags->json, "Print one JSON object; positions count from 0");
  command->add_flag("--no-replay", flags->noReplay,
                    "Do not run a leak's witness; else the spec is compiled and run twice");
  command->add_flag("--strict", flags->strict,
                    "Refuse, with status 1, what is proved but warned of: blind spots, needless "
                    "shifts, stages that reach no loss");
  command
      ->add_option("--picture", flags->picture,
                   "Write what one row reads, or a leak's path, as an SVG picture")
      ->type_name("FILE");
  command
      ->add_option("--picture-row", flags->pictureRow,
                   "Row to draw; none draws one in the middle of a period of the scales. A leak is "
                   "drawn at its own row")
      ->type_name("UINT");
  command
      ->add_option("--certificate", flags->certificate,
                   "Write the proof here, for sluice-certify (docs/certificate.md); only where "
                   "the spec is proved")
      ->type_name("FILE");
  command
      ->add_option("--smt", flags->smt,
                   "Write every obligation here as SMT-LIB: negated, so each is to be unsat")
      ->type_name("FILE");
  command->callback([flags] { runCheck(*flags); });
}

} // namespace sluice::cli
