// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice score`: scores the lines of a file against references.
#include "Commands.h"
#include "Common.h"
#include "DataOptions.h"
#include "TextMetric.h"

#include <iostream>

namespace sluice::cli {
namespace {

struct ScoreFlags {
  std::string hypotheses;
  std::vector<std::string> references;
  MetricFlags metric{.metric = "bleu"};
  bool json = false, raw = false;
};

void runScore(const ScoreFlags &flags, const CLI::App &command) {
  checkMetricFlags(command, flags.metric);
  TextLines texts = readTextLines(flags.hypotheses, flags.raw);
  std::vector<TextLines> references =
      readReferences(flags.references, flags.raw, std::ssize(texts.lines), texts.name);
  nlohmann::ordered_json result = computeMetric(flags.metric, texts, references);
  if (flags.json) {
    printJson(result);
  } else {
    std::cout << describeMetric(result) << std::endl;
  }
}

} // namespace

void registerScore(CLI::App &program) {
  auto flags = std::make_shared<ScoreFlags>();
  CLI::App *command = program.add_subcommand(
      "score", "Score lines of text against references, line by line: BLEU or ROUGE");
  command
      ->add_option("HYPOTHESES", flags->hypotheses,
                   "Text to score, one a line; also gzip or zstd; - is the standard input")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("REFERENCE", flags->references,
                   "References: line i of each file belongs to line i of HYPOTHESES")
      ->type_name("FILE")
      ->default_str("")
      ->required();
  addMetricFlags(*command, flags->metric);
  addRaw(*command, flags->raw);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, command] { runScore(*flags, *command); });
}

} // namespace sluice::cli
