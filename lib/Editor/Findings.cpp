// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/Findings.h"

#include "sluice/Conversion/ParseSpec.h"

#include <algorithm>

using namespace sluice;
using namespace sluice::editor;
using nlohmann::json;

namespace {

constexpr size_t largestText = size_t(16) << 20; // as the reader of files has it
/// Maximum numbers of steps of a witness, and of warnings and notes, that are shown; only models of
/// thousands of stages have more.
constexpr size_t mostSteps = 64, mostWarnings = 64;

enum Severity { Error = 1, Warning = 2, Information = 3 };

/// Returns the end of the token at `at`; within a string, the end of the word at `at`.
size_t tokenEnd(const Document &document, size_t at) {
  std::string_view text = document.text;
  const Outline &outline = document.outline;
  Outline::Spot spot = outline.at(at);
  if (spot.node < 0) {
    return at;
  }
  const Node &node = outline.node(spot.node);
  size_t begin = spot.onKey ? node.keyBegin : node.begin;
  size_t end = spot.onKey ? node.keyEnd : node.end;
  if (begin == at) {
    bool bracket = !spot.onKey && (node.kind == Node::Object || node.kind == Node::Array);
    bool lines = text.substr(begin, end - begin).find('\n') != std::string_view::npos;
    return bracket && lines ? begin + 1 : end;
  }
  bool string = spot.onKey || node.kind == Node::String;
  return string ? std::min(text.find_first_of(" \"\r\n", at), end) : at;
}

json diagnostic(const Document &document, const spec::SourceLocation &place, Severity severity,
                const char *source, const std::string &message) {
  return {{"range", toJson(rangeAt(document, place))},
          {"severity", severity},
          {"source", source},
          {"message", message}};
}

json buildSteps(const CausalWitness &witness, const Document &document, const std::string &uri) {
  json steps = json::array();
  for (const CausalStep &step : witness.path) {
    if (steps.size() == mostSteps) {
      break;
    }
    json location = {{"uri", uri}, {"range", toJson(rangeAt(document, step.place))}};
    steps.push_back({{"location", location},
                     {"message", step.op + ": position " + std::to_string(step.from) + " into " +
                                     std::to_string(step.to)}});
  }
  return steps;
}

const char *getCode(VerdictKind kind) {
  switch (kind) {
  case VerdictKind::Leak:
    return "leak";
  case VerdictKind::Misaligned:
    return "misaligned";
  default:
    return "not-proved";
  }
}

json refusal(const CausalVerdict &verdict, const Document &document, const std::string &uri) {
  std::string mode = verdict.refusedMode.empty() ? "" : " (mode " + verdict.refusedMode + ")";
  std::string advice = verdict.fix ? "; advice: " + verdict.fix->words : "";
  json result =
      diagnostic(document, verdict.place, Error, "sluice check", verdict.message + mode + advice);
  result["code"] = getCode(verdict.kind);
  if (verdict.witness) {
    result["relatedInformation"] = buildSteps(*verdict.witness, document, uri);
  }
  return result;
}

} // namespace

Findings editor::examine(const std::string &text, const std::string &file, const Check &check,
                         const std::atomic<bool> &cancelled) {
  Findings findings;
  auto fail = [&](const std::string &message) {
    findings.error = spec::Diagnostic{{file}, message};
  };
  if (text.size() > largestText) {
    fail("expected a spec of at most 16 MiB, found more; no spec is that long");
    return findings;
  }
  try {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    spec::Diagnostic error;
    std::optional<ParsedSpec> spec = parseSpec(context, text, file, error);
    if (!spec) {
      findings.error = std::move(error);
      return findings;
    }
    findings.model = spec->getPlace("");
    findings.verdict = check(*spec, cancelled);
  } catch (const NotChecked &stopped) {
    findings.unchecked = stopped.why;
  } catch (const std::exception &error) {
    fail(std::string("the check ended early: ") + error.what() +
         "; this is a defect of sluice-spec-lsp, please report it");
  }
  return findings;
}

editor::Range editor::rangeAt(const Document &document, const spec::SourceLocation &place) {
  std::string_view view = document.text;
  const Text &text = document.lines;
  size_t begin = text.getOffsetAt(place.line, place.column);
  size_t end = place.line == 0 ? std::min(view.find('\n'), view.size()) : tokenEnd(document, begin);
  if (end > begin) {
    return text.range(begin, end);
  }
  auto within = [&](size_t at) { return (static_cast<unsigned char>(view[at]) & 0xC0) == 0x80; };
  if (begin < view.size() && view[begin] != '\n' && view[begin] != '\r') { // the character there
    for (end = begin + 1; end < view.size() && within(end); ++end) {
    }
    return text.range(begin, end);
  }
  end = begin; // at the end of a line or of the text: the character before
  for (begin -= begin > 0 ? 1 : 0; begin > 0 && within(begin); --begin) {
  }
  return text.range(begin, end);
}

json editor::buildDiagnostics(const Findings &findings, const Document &document,
                              const std::string &uri) {
  json result = json::array();
  if (findings.error) {
    result.push_back(
        diagnostic(document, findings.error->location, Error, "sluice", findings.error->message));
  }
  if (!findings.unchecked.empty()) {
    result.push_back(
        diagnostic(document, *findings.model, Information, "sluice check", findings.unchecked));
  }
  if (!findings.verdict) {
    return result;
  }
  if (!findings.verdict->isProved()) {
    result.push_back(refusal(*findings.verdict, document, uri));
  }
  for (const auto *list : {&findings.verdict->warnings, &findings.verdict->notes}) {
    for (size_t i = 0; i < std::min(list->size(), mostWarnings); ++i) {
      const CausalWarning &warning = (*list)[i];
      Severity severity = warning.isNote() ? Information : Warning;
      result.push_back(diagnostic(document, warning.place, severity, "sluice check", warning.text));
      result.back()["code"] = warning.getName();
    }
  }
  return result;
}

json editor::toJson(const Range &range) {
  auto position = [](const Position &p) {
    return json{{"line", p.line}, {"character", p.character}};
  };
  return {{"start", position(range.start)}, {"end", position(range.end)}};
}
