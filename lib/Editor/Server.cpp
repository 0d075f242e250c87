// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/Server.h"

#include "sluice/Editor/Answers.h"
#include "sluice/Editor/CodeActions.h"

using namespace sluice;
using namespace sluice::editor;
using nlohmann::json;

SpecServer::SpecServer(std::function<void(const Json &)> send, Check check,
                       std::optional<Examiner::Duration> rest, std::string version)
    : send(std::move(send)), rest(rest.value_or(Examiner::Duration(0))),
      version(std::move(version)), dispatcher([this](const Json &message) { sendLocked(message); }),
      examiner(
          std::move(check),
          [this](const Examiner::Job &job, auto findings) { publish(job, std::move(findings)); },
          rest.has_value()) {
  registerHandlers();
}

void SpecServer::registerHandlers() {
  dispatcher.onRequest("initialize", [this](const Json &params) { return initialize(params); });
  dispatcher.onRequest("textDocument/hover", [this](const Json &params) {
    Spot spot = findSpot(params);
    std::string file = getFilePath(params.at("textDocument").at("uri"));
    return hoverAt(*spot.open.document, spot.offset, file, spot.open.findings.get());
  });
  dispatcher.onRequest("textDocument/completion", [this](const Json &params) {
    Spot spot = findSpot(params);
    return completionsAt(*spot.open.document, spot.offset);
  });
  dispatcher.onRequest("textDocument/codeAction", [this](const Json &params) {
    Open open = find(params);
    const Json &context = params.at("context");
    return open.findings
               ? codeActionsAt(*open.document, params.at("textDocument").at("uri"),
                               params.at("range"),
                               context.contains("only") ? context["only"] : Json(), *open.findings)
               : Json::array();
  });
  dispatcher.onRequest("textDocument/documentSymbol",
                       [this](const Json &params) { return buildSymbols(*find(params).document); });
  dispatcher.onNotification("textDocument/didOpen", [this](const Json &params) {
    const Json &document = params.at("textDocument");
    take(document, document.at("text"), Examiner::Duration(0));
  });
  dispatcher.onNotification("textDocument/didChange",
                            [this](const Json &params) { change(params); });
  dispatcher.onNotification("textDocument/didSave", [this](const Json &params) {
    examiner.hurry(params.at("textDocument").at("uri"));
  });
  dispatcher.onNotification("textDocument/didClose", [this](const Json &params) { close(params); });
}

json SpecServer::initialize(const Json &params) const {
  params.at("capabilities"); // required by the protocol
  constexpr int wholeTexts = 1;
  Json sync = {{"openClose", true}, {"change", wholeTexts}, {"save", {{"includeText", false}}}};
  Json capabilities = {{"positionEncoding", "utf-16"},
                       {"textDocumentSync", sync},
                       {"hoverProvider", true},
                       {"completionProvider", {{"triggerCharacters", {"\""}}}},
                       {"codeActionProvider", {{"codeActionKinds", {"quickfix"}}}},
                       {"documentSymbolProvider", true}};
  return {{"capabilities", capabilities},
          {"serverInfo", {{"name", "sluice-spec-lsp"}, {"version", version}}}};
}

void SpecServer::take(const Json &document, std::string text, Examiner::Duration wait) {
  std::string uri = document.at("uri");
  Open open;
  if (document.contains("version") && document["version"].is_number_integer()) {
    open.version = document["version"].get<int64_t>();
  }
  open.document = std::make_shared<const Document>(std::move(text));
  {
    std::lock_guard lock(mutex);
    documents[uri] = open;
  }
  examiner.submit({uri, open.document, open.version}, wait);
}

void SpecServer::change(const Json &params) {
  find(params);
  const Json &changes = params.at("contentChanges");
  if (changes.empty()) {
    return;
  }
  const Json &last = changes.at(changes.size() - 1);
  if (last.contains("range")) {
    throw RpcFailure{RpcError::InvalidParams, "expected the whole text, as agreed, found a part"};
  }
  take(params.at("textDocument"), last.at("text"), rest);
}

void SpecServer::close(const Json &params) {
  std::string uri = params.at("textDocument").at("uri");
  examiner.forget(uri);
  {
    std::lock_guard lock(mutex);
    documents.erase(uri);
  }
  sendLocked({{"jsonrpc", "2.0"},
              {"method", "textDocument/publishDiagnostics"},
              {"params", {{"uri", uri}, {"diagnostics", Json::array()}}}});
}

void SpecServer::publish(const Examiner::Job &job, std::shared_ptr<const Findings> findings) {
  Json params = {{"uri", job.uri},
                 {"diagnostics", buildDiagnostics(*findings, *job.document, job.uri)}};
  if (job.version) {
    params["version"] = *job.version;
  }
  {
    std::lock_guard lock(mutex);
    auto open = documents.find(job.uri);
    if (open == documents.end() || open->second.document != job.document) {
      return; // a newer text came, and its findings follow
    }
    open->second.findings = std::move(findings);
  }
  sendLocked({{"jsonrpc", "2.0"},
              {"method", "textDocument/publishDiagnostics"},
              {"params", std::move(params)}});
}

void SpecServer::sendLocked(const Json &message) {
  std::lock_guard lock(sending);
  send(message);
}

SpecServer::Open SpecServer::find(const Json &params) {
  std::string uri = params.at("textDocument").at("uri");
  std::lock_guard lock(mutex);
  auto found = documents.find(uri);
  if (found == documents.end()) {
    throw RpcFailure{RpcError::InvalidParams, "expected a document that is open, found " + uri};
  }
  return found->second;
}

SpecServer::Spot SpecServer::findSpot(const Json &params) {
  Open open = find(params);
  const Json &at = params.at("position");
  for (const char *part : {"line", "character"}) {
    if (!at.at(part).is_number_integer() || at[part].get<int64_t>() < 0) {
      throw RpcFailure{RpcError::InvalidParams,
                       std::string("expected an integer >= 0 for ") + part};
    }
  }
  Position position = {at["line"].get<size_t>(), at["character"].get<size_t>()};
  return {open, open.document->lines.offset(position)};
}
