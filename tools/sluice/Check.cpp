// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice check`: is the model causal, for every length?
#include "Commands.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Runtime/Error.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace sluice::cli {
namespace {

struct CheckFlags {
  std::string spec;
  bool json = false;
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
  json["warnings"] = verdict.warnings;
  return json;
}

void runCheck(const CheckFlags &flags) {
  auto [outcome, verdict] = driver::check({flags.spec});
  if (outcome.status == 2) {
    throw runtime::UserError(outcome.message);
  }
  for (const std::string &warning : verdict.warnings) {
    std::cerr << warning << "\n";
  }
  if (flags.json) {
    std::cout << verdictToJson(verdict).dump(2) << std::endl;
  } else {
    std::cout << (verdict.isProved() ? flags.spec + ": " : "") << verdict.format() << std::endl;
  }
  if (!verdict.isProved()) {
    throw ExitStatus{1};
  }
}

} // namespace

void registerCheck(CLI::App &program) {
  auto flags = std::make_shared<CheckFlags>();
  CLI::App *command = program.add_subcommand(
      "check", "Prove that no prediction reads its target or anything after it");
  command->add_option("SPEC", flags->spec, "Model spec, JSON (docs/spec.md), or model IR (.mlir)")
      ->type_name("FILE")
      ->required();
  command->add_flag("--json", flags->json, "Print one JSON object; positions count from 0");
  command->callback([flags] { runCheck(*flags); });
}

} // namespace sluice::cli
