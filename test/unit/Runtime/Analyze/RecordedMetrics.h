// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Corpora with the values that sacrebleu and rouge-score compute for them (Inputs/metrics.py).
#pragma once

#include "Fixture.h"

namespace sluice::test {

struct RecordedCorpus {
  std::vector<std::string> texts;
  std::vector<std::vector<std::string>> references; ///< by reference and text
  std::string separator;                            ///< of sentences; may be empty
  nlohmann::json values;

  /// Returns the references of a text, each converted by `convert`.
  template <typename Convert> auto getReferences(size_t text, Convert convert) const {
    std::vector<decltype(convert(texts[text]))> converted;
    for (const std::vector<std::string> &lines : references) {
      converted.push_back(convert(lines[text]));
    }
    return converted;
  }
};

/// Returns a list of the file: "corpora" or "tokens_13a".
inline nlohmann::json readRecorded(const std::string &list) {
  nlohmann::json values = nlohmann::json::parse(readFile(METRICS_VALUES)).at(list);
  EXPECT_GE(values.size(), 16u);
  return values;
}

inline std::vector<RecordedCorpus> readRecordedCorpora() {
  std::vector<RecordedCorpus> corpora;
  for (const nlohmann::json &json : readRecorded("corpora")) {
    RecordedCorpus corpus{json["texts"], json["references"], "", json["values"]};
    corpus.separator = json["sentences"].is_null() ? "" : json["sentences"].get<std::string>();
    auto decode = [&](std::string &line) { // bytes that are not UTF-8 are in hexadecimal
      std::string bytes;
      for (size_t at = 0; at < line.size(); at += 2) {
        bytes += static_cast<char>(std::stoi(line.substr(at, 2), nullptr, 16));
      }
      line = bytes;
    };
    if (json.contains("hex")) {
      std::ranges::for_each(corpus.texts, decode);
      for (std::vector<std::string> &lines : corpus.references) {
        std::ranges::for_each(lines, decode);
      }
    }
    corpora.push_back(std::move(corpus));
  }
  return corpora;
}

} // namespace sluice::test
