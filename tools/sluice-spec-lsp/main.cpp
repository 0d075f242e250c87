// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program `sluice-spec-lsp`, which an editor starts and uses over standard input and output.
#include "ChildCheck.h"
#include "sluice/Editor/Server.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdlib>
#include <iostream>

using namespace sluice;

namespace {

void sendMessage(const nlohmann::json &message) {
  std::cout << editor::frame(message) << std::flush;
  if (!std::cout) { // the editor has exited
    std::_Exit(1);
  }
}

int serve(int64_t rest, int64_t limit) {
  auto check = [limit](const ParsedSpec &spec, const std::atomic<bool> &cancelled) {
    return editor::checkInChild(spec, cancelled, std::chrono::milliseconds(limit));
  };
  editor::SpecServer server(sendMessage, check, std::chrono::milliseconds(rest), SLUICE_VERSION);
  while (!server.exitStatus()) {
    std::optional<editor::Incoming> incoming = editor::readMessage(std::cin);
    if (!incoming) {
      break; // the editor ended without notification
    }
    server.receive(*incoming);
  }
  // Exits without cleanup: a check may still run, but its verdict is unused.
  std::_Exit(server.exitStatus().value_or(1));
}

} // namespace

int main(int argc, char **argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr); // two threads write
  CLI::App program("Language server for model specs: errors, the causality verdict, hover, "
                   "completion and symbols.",
                   "sluice-spec-lsp");
  program.set_version_flag("--version", std::string("sluice-spec-lsp ") + SLUICE_VERSION);
  int64_t rest = 200;
  program.add_option("--delay", rest, "Milliseconds that a text must rest before it is checked")
      ->type_name("MS")
      ->capture_default_str()
      ->check(CLI::Range(0, 60000));
  int64_t limit = 10000;
  program.add_option("--limit", limit, "Milliseconds that a check may take")
      ->type_name("MS")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600000));
  std::string checked;
  program.add_option("--check-one", checked)->group(""); // for itself: ChildCheck.h
  bool stdio = false;
  program.add_flag("--stdio", stdio, "Use standard input and output, as always");
  program.footer("An editor starts this program for specs; see docs/editors.md.\n"
                 "Exit status: 0 after shutdown and exit; 1 where the editor ended otherwise; "
                 "2 bad flags.");
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return program.exit(error) == 0 ? 0 : 2;
  }
  return checked.empty() ? serve(rest, limit) : editor::runChild(checked);
}
