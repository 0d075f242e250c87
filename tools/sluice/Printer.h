// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the output of `sluice generate`.
#pragma once

#include "sluice/Runtime/Generate/Generator.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// Form of the output.
struct PrintFormat {
  bool echoes = true;   ///< prompts precede the texts
  bool asLines = false; ///< a line a text, without prompts and headings
  bool asJson = false;
  bool areIds = false; ///< tokens are printed as numbers
  /// Bytes that no character has are printed as U+FFFD; JSON has them in hexadecimal.
  bool isUtf8 = false;
};

/// Prints texts in order: the first unfinished one while it is generated, the later ones after it.
/// As JSON a text is one line.
class Printer {
public:
  /// One prompt per text. Both must outlive the printer.
  Printer(const std::vector<std::string> &prompts, const std::vector<runtime::Text> &texts,
          uint64_t seed, PrintFormat format)
      : prompts(prompts), texts(texts), seed(seed), format(format),
        drawnBefore(texts.empty() ? 0 : texts.front().drawn), parts(prompts.size()) {}

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
  const PrintFormat format;
  const int64_t drawnBefore; ///< of the one text of a session
  std::vector<PrintPart> parts;
  size_t current = 0;
};

} // namespace sluice::cli
