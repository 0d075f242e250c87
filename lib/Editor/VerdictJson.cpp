// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/VerdictJson.h"

using namespace sluice;
using namespace sluice::editor;
using nlohmann::json;

namespace {

json placeToJson(const spec::SourceLocation &place) {
  return {place.file, place.line, place.column};
}

spec::SourceLocation placeFromJson(const json &json) {
  return {json.at(0), json.at(1), json.at(2)};
}

json warningsToJson(const std::vector<CausalWarning> &warnings) {
  json result = json::array();
  for (const CausalWarning &warning : warnings) {
    result.push_back({static_cast<int>(warning.kind), placeToJson(warning.place), warning.text});
  }
  return result;
}

std::vector<CausalWarning> warningsFromJson(const json &json) {
  std::vector<CausalWarning> result;
  for (const auto &each : json) {
    result.push_back(
        {static_cast<WarningKind>(each.at(0).get<int>()), placeFromJson(each.at(1)), each.at(2)});
  }
  return result;
}

json witnessToJson(const CausalWitness &witness) {
  json path = json::array();
  for (const CausalStep &step : witness.path) {
    path.push_back({placeToJson(step.place), step.op, step.from, step.to});
  }
  return {{"length", witness.length},
          {"row", witness.row},
          {"token", witness.token},
          {"path", path},
          {"replay", static_cast<int>(witness.replay)},
          {"change", witness.change}};
}

CausalWitness witnessFromJson(const json &json) {
  CausalWitness witness = {json.at("length"), json.at("row"), json.at("token"), {}};
  for (const auto &step : json.at("path")) {
    witness.path.push_back({placeFromJson(step.at(0)), step.at(1), step.at(2), step.at(3)});
  }
  witness.replay = static_cast<Replay>(json.at("replay").get<int>());
  witness.change = json.at("change");
  return witness;
}

json fixToJson(const SpecFix &fix) {
  return {fix.words, placeToJson(fix.place), fix.text, fix.hidesTokens};
}

SpecFix fixFromJson(const json &json) {
  return {json.at(0), placeFromJson(json.at(1)), json.at(2), json.at(3)};
}

} // namespace

json editor::verdictToJson(const CausalVerdict &verdict) {
  json losses = json::array();
  for (const ProvedLoss &loss : verdict.losses) {
    losses.push_back({loss.mode, placeToJson(loss.place), loss.offset});
  }
  return {{"kind", static_cast<int>(verdict.kind)},
          {"modes", verdict.modes},
          {"given", verdict.given},
          {"losses", losses},
          {"obligations", verdict.obligations},
          {"factors", verdict.factors},
          {"refusedFactor", verdict.refusedFactor},
          {"refusedMode", verdict.refusedMode},
          {"exhausted", verdict.exhausted},
          {"place", placeToJson(verdict.place)},
          {"message", verdict.message},
          {"fix", verdict.fix ? fixToJson(*verdict.fix) : json()},
          {"noFix", verdict.noFix},
          {"witness", verdict.witness ? witnessToJson(*verdict.witness) : json()},
          {"warnings", warningsToJson(verdict.warnings)},
          {"notes", warningsToJson(verdict.notes)}};
}

CausalVerdict editor::verdictFromJson(const json &json) {
  CausalVerdict verdict;
  verdict.kind = static_cast<VerdictKind>(json.at("kind").get<int>());
  verdict.modes = json.at("modes").get<std::vector<std::string>>();
  verdict.given = json.at("given").get<std::vector<std::string>>();
  for (const auto &loss : json.at("losses")) {
    verdict.losses.push_back({loss.at(0), placeFromJson(loss.at(1)), loss.at(2)});
  }
  verdict.obligations = json.at("obligations");
  verdict.factors = json.at("factors").get<std::vector<int64_t>>();
  verdict.refusedFactor = json.at("refusedFactor");
  verdict.refusedMode = json.at("refusedMode");
  verdict.exhausted = json.at("exhausted");
  verdict.place = placeFromJson(json.at("place"));
  verdict.message = json.at("message");
  if (!json.at("fix").is_null()) {
    verdict.fix = fixFromJson(json.at("fix"));
  }
  verdict.noFix = json.at("noFix");
  if (!json.at("witness").is_null()) {
    verdict.witness = witnessFromJson(json.at("witness"));
  }
  verdict.warnings = warningsFromJson(json.at("warnings"));
  verdict.notes = warningsFromJson(json.at("notes"));
  return verdict;
}
