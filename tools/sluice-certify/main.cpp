// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Certify.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <fstream>
#include <iostream>

using namespace certify;

static CertificateSource readSource(const std::string &name) {
  std::error_code code;
  auto refuse = [&](const char *found) {
    throw BadInput(name + ": expected a file that can be read, found " + found);
  };
  std::filesystem::file_status status = std::filesystem::status(name, code);
  if (!std::filesystem::exists(status)) {
    refuse("none; check its name");
  }
  if (!std::filesystem::is_regular_file(status)) { // to open a pipe would wait for its writer
    refuse("something not a regular file; save the contents to a file and name that");
  }
  std::ifstream file(name, std::ios::binary);
  if (!file) {
    refuse("one that cannot; check its permissions");
  }
  return {name, {std::istreambuf_iterator<char>(file), {}}};
}

/// Escapes bytes of names and lines of files that a terminal could interpret as commands.
static std::string showMessage(const std::string &message) {
  std::string shown;
  for (size_t i = 0; i < message.size(); ++i) {
    auto byte = static_cast<unsigned char>(message[i]);
    auto next = static_cast<unsigned char>(i + 1 < message.size() ? message[i + 1] : 0);
    bool isLong = byte == 0xC2 && next >= 0x80 && next < 0xA0; // a control character of two bytes
    if ((byte < 0x20 && byte != '\n') || byte == 0x7F || isLong) {
      shown += {'\\', 'x', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    } else {
      shown += message[i];
    }
  }
  return shown;
}

int main(int argc, char **argv) {
  CLI::App program(
      "Checks that a certificate, from sluice check --certificate, proves a spec causal. "
      "Shares no code with the compiler.\n"
      "Exit status: 0 certified, 1 refused, 2 bad input.",
      "sluice-certify");
  std::string spec, certificate;
  bool enumerates = false;
  program.add_option("SPEC", spec, "Model spec, JSON (docs/spec.md)")
      ->type_name("FILE")
      ->required();
  program.add_option("CERTIFICATE", certificate, "Its certificate (docs/certificate.md)")
      ->type_name("FILE")
      ->required();
  program.add_flag(
      "--enumerate", enumerates,
      "Also walk all paths, at all lengths up to twice the product of the factors plus "
      "the largest shift or window");
  program.set_version_flag("--version",
                           "sluice-certify " SLUICE_VERSION ", certificates of version 3");
  try {
    program.parse(argc, argv);
    Answer answer = certify::certify(readSource(spec), readSource(certificate), enumerates);
    (answer.status == 0 ? std::cout : std::cerr) << showMessage(answer.message) << std::endl;
    return answer.status != 0 ? answer.status : std::cout ? 0 : 2;
  } catch (const CLI::Success &done) {
    return program.exit(done);
  } catch (const CLI::ParseError &error) {
    std::cerr << "sluice-certify: " << error.what() << "; see sluice-certify --help" << std::endl;
    return 2;
  } catch (const BadInput &mistake) {
    std::cerr << showMessage(mistake.what()) << std::endl;
    return 2;
  }
}
