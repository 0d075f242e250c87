// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Printer.h"
#include "Signals.h"
#include "sluice/Support/Files.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Text.h"

#include <nlohmann/json.hpp>

#include <iostream>

namespace sluice::cli {
namespace {

using runtime::StopReason;

bool hasUtf8(const std::string &text) {
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error &) {
    return false;
  }
}

const char *getReasonName(StopReason reason) {
  switch (reason) {
  case StopReason::Length:
    return "length";
  case StopReason::StopText:
    return "stop";
  case StopReason::Reader:
    return "interrupted";
  }
}

/// Adds the score of a text that beam search found.
void addScore(nlohmann::ordered_json &json, const runtime::Text &text) {
  if (text.score) {
    json["score"] = *text.score;
  }
}

} // namespace

std::string Printer::show(std::string_view bytes) const {
  std::string shown;
  while (format.isUtf8 && !bytes.empty()) {
    std::optional<size_t> invalid = countCharacters(bytes, 0, bytes.size()).invalid;
    if (!invalid) {
      break;
    }
    shown += bytes.substr(0, *invalid);
    shown += "\xef\xbf\xbd";
    bytes.remove_prefix(*invalid + 1);
  }
  return shown += bytes;
}

bool Printer::write(size_t text, std::string_view bytes) {
  parts[text].text += bytes;
  if (text == current && !format.asJson) {
    std::cout << show(bytes) << std::flush;
  }
  return std::cout.good() && caughtSignal() == 0; // silently if the reader has closed
}

void Printer::finish(size_t text, StopReason reason) {
  parts[text].end = reason;
  while (current < parts.size() && parts[current].end) {
    close();
    if (++current < parts.size()) {
      open();
    }
  }
}

void Printer::open() {
  if (format.asJson) {
    return;
  }
  if (parts.size() > 1 && !format.asLines) { // like head(1) for several files
    std::cout << (current == 0 ? "" : "\n") << "==> " << current + 1 << " <==\n";
  }
  std::cout << (format.echoes && !format.asLines ? prompts[current] : "")
            << show(parts[current].text) << std::flush;
}

void Printer::close() {
  const PrintPart &part = parts[current];
  if (format.asJson) {
    format.areIds ? printIds(part) : printLine(part);
  } else if (std::cout.good() && (format.echoes || format.asLines || parts.size() > 1)) {
    std::cout << std::endl;
  }
}

void Printer::printIds(const PrintPart &part) {
  const runtime::Text &text = texts[current];
  auto written = text.tokens.end() - (text.drawn - drawnBefore);
  nlohmann::ordered_json json = {
      {"prompt_ids", runtime::parseTokenIds("--prompt-tokens", prompts[current], INT32_MAX)},
      {"sample", text.sample},
      {"seed", seed},
      {"ids", std::vector<int32_t>(written, text.tokens.end())},
      {"stop", getReasonName(*part.end)},
      {"tokens", text.drawn - drawnBefore}};
  addScore(json, text);
  std::cout << json.dump() << std::endl;
}

void Printer::printLine(const PrintPart &part) {
  nlohmann::ordered_json json = {{"prompt", prompts[current]},
                                 {"sample", texts[current].sample},
                                 {"seed", seed},
                                 {"text", part.text},
                                 {"stop", getReasonName(*part.end)},
                                 {"tokens", texts[current].drawn - drawnBefore}};
  addScore(json, texts[current]);
  if (!hasUtf8(part.text)) {
    json["hex"] = toHex(asBytes(part.text)); // `text` then holds replacement characters
  }
  if (!hasUtf8(prompts[current])) {
    json["prompt_hex"] = toHex(asBytes(prompts[current]));
  }
  std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

} // namespace sluice::cli
