// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the output of `sluice generate`.
#pragma once

#include "sluice/Runtime/Generate/Generator.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// Prints texts in order: the first unfinished one while it is generated, the later ones after it.
/// Prompts precede them if it `echoes`; as JSON a text is one line.
class Printer {
public:
  /// One prompt per text. Both must outlive the printer. With `isUtf8`, printed texts have U+FFFD
  /// in place of bytes that no character has; JSON has them in hexadecimal.
  Printer(const std::vector<std::string> &prompts, const std::vector<runtime::Text> &texts,
          uint64_t seed, bool echoes, bool asJson, bool areIds, bool isUtf8 = false)
      : prompts(prompts), texts(texts), seed(seed), echoes(echoes), asJson(asJson), areIds(areIds),
        isUtf8(isUtf8), drawnBefore(texts.empty() ? 0 : texts.front().drawn),
        parts(prompts.size()) {}

  runtime::TextSink sink() {
    return {[this](size_t text, std::string_view bytes) { return write(text, bytes); },
            [this](size_t text, runtime::StopReason reason) { finish(text, reason); }};
  }
  void begin() {
    if (!parts.empty()) {
      open();
    }
  }

private:
  struct PrintPart {
    std::string text;
    std::optional<runtime::StopReason> end;
  };

  bool write(size_t text, std::string_view bytes);
  void finish(size_t text, runtime::StopReason reason);
  /// Prints the heading before a text's bytes, and the bytes so far.
  void open();
  void close();
  void printLine(const PrintPart &part);
  void printIds(const PrintPart &part);
  /// Returns written bytes as they are printed.
  std::string show(std::string_view bytes) const;

  const std::vector<std::string> &prompts;
  const std::vector<runtime::Text> &texts;
  const uint64_t seed; ///< of the sampling
  const bool echoes, asJson;
  const bool areIds; ///< tokens are printed as numbers
  const bool isUtf8;
  const int64_t drawnBefore; ///< of the one text of a session
  std::vector<PrintPart> parts;
  size_t current = 0;
};

} // namespace sluice::cli
