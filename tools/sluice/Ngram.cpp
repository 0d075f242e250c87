// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Analyze/Ngram.h"
#include "Commands.h"
#include "Common.h"
#include "DataOptions.h"
#include "sluice/Runtime/Data/Data.h"

#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice;
using namespace sluice::runtime;

struct NgramFlags {
  std::vector<std::string> train, test;
  std::vector<int> orders = {2, 3, 5};
  bool json = false, raw = false;
};

void runNgram(const NgramFlags &flags) {
  std::vector<ByteFile> train = openTexts(flags.train, 256, 1, "a byte to count", {flags.raw});
  std::vector<ByteFile> test = openTexts(flags.test, 256, 2, "one byte to predict", {flags.raw});
  nlohmann::json results = nlohmann::json::array();
  for (int order : flags.orders) {
    NgramModel model(order);
    for (const ByteFile &file : train) {
      model.train(file.bytes.readAll());
    }
    double bits = 0;
    size_t tokens = 0;
    for (const ByteFile &file : test) {
      bits += model.bits(file.bytes.readAll());
      tokens += file.bytes.size() - 1;
    }
    double bitsPerByte = bits / static_cast<double>(tokens);
    results.push_back({{"order", order}, {"bits_per_byte", bitsPerByte}, {"tokens", tokens}});
    if (!flags.json) {
      std::cout << format("%d-gram  %.4f bits per byte", order, bitsPerByte) << std::endl;
    }
  }
  if (flags.json) {
    printJson({{"smoothing", "Witten-Bell, interpolated"}, {"orders", results}});
  }
}

} // namespace

void registerNgram(CLI::App &program) {
  auto flags = std::make_shared<NgramFlags>();
  CLI::App *command = program.add_subcommand(
      "ngram", "Measure bits per byte of Witten-Bell byte n-gram models, as baselines");
  command->add_option("--train", flags->train, "Files to count")
      ->type_name("FILE")
      ->default_str("")
      ->required();
  command->add_option("--test", flags->test, "Files to score; the first byte of each is not scored")
      ->type_name("FILE")
      ->default_str("")
      ->required();
  addRaw(*command, flags->raw);
  command->add_option("--order", flags->orders, "Orders: bytes of an n-gram, from 1 to 7");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { runNgram(*flags); });
}

} // namespace sluice::cli
