// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Metrics.h"

#include "sluice/Runtime/Error.h"

#include <fstream>

namespace sluice::runtime {

using Json = nlohmann::json;

std::vector<Json> readLines(const Path &path) {
  std::vector<Json> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    Json line = Json::parse(text, nullptr, false);
    if (line.is_object()) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

void keepLinesUpTo(const Path &path, int64_t step) {
  if (!std::filesystem::exists(path)) {
    return;
  }
  std::string kept;
  for (const Json &line : readLines(path)) {
    if (line.contains("step") && line["step"].is_number_integer() && line["step"] <= step) {
      kept += line.dump() + "\n";
    }
  }
  replaceFile(path, asBytes(kept));
}

void appendLine(const Path &path, const Json &line) {
  std::ofstream file(path, std::ios::app);
  // Samples may hold bytes that are no UTF-8.
  file << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
  if (!file) {
    throw UserError(path.string() +
                    ": cannot write; free space on the disk or check the permissions");
  }
}

} // namespace sluice::runtime
