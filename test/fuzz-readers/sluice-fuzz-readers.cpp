// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Entry points of libFuzzer. --reader=NAME selects a reader, --readers lists them; flags of
// libFuzzer follow.
#include "Readers.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace sluice::fuzz;

static const FuzzedReader *chosen = nullptr;

static std::vector<FuzzedReader> collectReaders() {
  std::vector<FuzzedReader> all;
  for (std::span<const FuzzedReader> part :
       {getRuntimeReaders(), getSpecReaders(), getCertificateReaders()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::pair<std::string_view, std::string_view> sluice::fuzz::cutInput(std::string_view input) {
  constexpr std::string_view mark = "\n%%\n";
  size_t at = input.find(mark);
  return at == std::string_view::npos
             ? std::pair(input, std::string_view())
             : std::pair(input.substr(0, at + 1), input.substr(at + mark.size()));
}

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  static const std::vector<FuzzedReader> readers = collectReaders();
  constexpr std::string_view flag = "--reader=";
  for (int i = 1; i < *argc; ++i) {
    std::string_view argument = (*argv)[i];
    for (const FuzzedReader &reader : readers) {
      if (argument == "--readers") {
        std::puts(reader.name);
      } else if (argument.starts_with(flag) && argument.substr(flag.size()) == reader.name) {
        chosen = &reader;
      }
    }
    if (argument == "--readers") {
      std::exit(0);
    }
  }
  if (chosen == nullptr) {
    std::fputs("expected --reader=NAME, found none that is known; --readers lists them\n", stderr);
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  chosen->read({reinterpret_cast<const char *>(data), size});
  return 0;
}
