// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Specs, settings of specs, and the messages of both language servers.
#include "Readers.h"
#include "sluice/Conversion/JsonToSpec.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Editor/IrMessages.h"
#include "sluice/Editor/Server.h"

#include <optional>
#include <sstream>

using namespace sluice;

namespace {

/// Maximum numbers of settings and of messages in an input: mutations insert hundreds of them,
/// without new edges.
constexpr size_t mostSettings = 6, mostMessages = 16;

/// Creating a context takes longer than reading a spec, so 1,000 inputs share one; a context keeps
/// the texts of all of them.
mlir::MLIRContext &getContext() {
  static std::optional<mlir::MLIRContext> context;
  static int inputs = 0;
  if (inputs++ % 1000 == 0) {
    context.emplace(mlir::MLIRContext::Threading::DISABLED);
  }
  return *context;
}

void readSpec(std::string_view input) {
  spec::Diagnostic error;
  parseSpec(getContext(), std::string(input), "spec.json", error);
}

/// KEY=VALUE per line, then "%%" and a spec.
void readSettings(std::string_view input) {
  auto [lines, text] = fuzz::cutInput(input);
  std::vector<spec::SpecOverride> settings;
  std::istringstream in{std::string(lines)};
  std::string line, mistake;
  for (size_t i = 0; i < mostSettings && std::getline(in, line); ++i) {
    if (std::optional<spec::SpecOverride> setting = spec::parseSetting(line, mistake)) {
      settings.push_back(*setting);
    }
  }
  spec::Diagnostic error;
  parseSpec(getContext(), std::string(text), "spec.json", error, settings);
}

/// One body per line, each of which is framed; else the bytes of a stream.
std::vector<editor::Incoming> readStream(std::string_view input, size_t most) {
  std::string stream;
  if (input.starts_with('{') || input.starts_with('[')) {
    std::istringstream lines{std::string(input)};
    for (std::string line; std::getline(lines, line);) {
      stream += "Content-Length: " + std::to_string(line.size()) + "\r\n\r\n" + line;
    }
  } else {
    stream = input;
  }
  std::istringstream in(stream);
  std::vector<editor::Incoming> messages;
  while (messages.size() < most) {
    std::optional<editor::Incoming> message = editor::readMessage(in);
    if (!message) {
      break;
    }
    messages.push_back(*message);
  }
  return messages;
}

/// The server for specs, without a check and without its second thread, so an input always reaches
/// the same edges; its answers must be JSON.
void readSpecMessages(std::string_view input) {
  auto check = [](const ParsedSpec &, const std::atomic<bool> &) -> CausalVerdict {
    throw editor::NotChecked{"not here"};
  };
  auto send = [](const nlohmann::json &message) { editor::frame(message); };
  editor::SpecServer server(send, check, std::nullopt, "0");
  for (const editor::Incoming &message : readStream(input, mostMessages)) {
    server.receive(message);
  }
}

/// Each message is checked on its own, so three in an input suffice.
void readIrMessages(std::string_view input) {
  constexpr size_t most = 3;
  for (const editor::Incoming &message : readStream(input, most)) {
    if (std::optional<nlohmann::json> answer = editor::refuseIrMessage(message)) {
      editor::frame(*answer);
    }
  }
}

constexpr fuzz::FuzzedReader readers[] = {
    {"spec", readSpec},
    {"settings", readSettings},
    {"spec-messages", readSpecMessages},
    {"ir-messages", readIrMessages},
};

} // namespace

std::span<const fuzz::FuzzedReader> fuzz::getSpecReaders() { return readers; }
