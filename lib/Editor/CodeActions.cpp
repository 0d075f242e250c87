// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/CodeActions.h"
#include "sluice/Editor/Answers.h"
#include "sluice/Spec/SpecText.h"

#include <algorithm>

using namespace sluice;
using namespace sluice::editor;
using nlohmann::json;

namespace {

constexpr const char *quickFix = "quickfix";

bool isWanted(const json &only) {
  return !only.is_array() || std::any_of(only.begin(), only.end(), [](const json &kind) {
    return kind.is_string() && (kind == quickFix || kind == "");
  });
}

bool shareLine(const json &a, const json &b) {
  return a.at("start").at("line").get<size_t>() <= b.at("end").at("line").get<size_t>() &&
         b.at("start").at("line").get<size_t>() <= a.at("end").at("line").get<size_t>();
}

} // namespace

json editor::codeActionsAt(const Document &document, const std::string &uri, const json &range,
                           const json &only, const Findings &findings) {
  if (!findings.verdict || !findings.verdict->fix || !isWanted(only)) {
    return json::array();
  }
  const SpecFix &fix = *findings.verdict->fix;
  json edits = json::array();
  bool isHere = false;
  for (const spec::TextEdit &edit : spec::diffLines(document.text, fix.text)) {
    json place = toJson(document.lines.range(edit.begin, edit.end));
    isHere = isHere || shareLine(range, place);
    edits.push_back({{"range", std::move(place)}, {"newText", edit.text}});
  }
  json errors = buildDiagnostics(findings, document, uri); // the refusal comes first
  if (!isHere && !shareLine(range, errors.at(0).at("range"))) {
    return json::array();
  }
  return {{{"title", "sluice: " + fix.words},
           {"kind", quickFix},
           {"diagnostics", json::array({errors.at(0)})},
           {"isPreferred", true},
           {"edit", {{"changes", {{uri, std::move(edits)}}}}}}};
}
