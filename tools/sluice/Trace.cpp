// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Trace.h"
#include "Common.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Files.h"
#include "sluice/Runtime/Text.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace sluice::cli {

using namespace sluice::runtime;

Trace::Trace(const std::string &name, const Executor &executor, bool isCached, TextSink &sink)
    : name(name) {
  if (name.empty()) {
    return;
  }
  if (!isCached || !executor.hasSegments()) {
    throw UserError("--trace: expected a model with segments, generated from step by step, found "
                    "one without " +
                    std::string(isCached ? "segments" : "a step, or --no-cache") +
                    "; leave it out");
  }
  file.open(name);
  requireWritten();
  sink.read = [this](size_t text, int64_t position, uint8_t token, auto segments) {
    nlohmann::ordered_json line = {{"text", text}, {"position", position}, {"token", token}};
    for (const Predictor::Segments &each : segments) {
      line["segments"][each.name] = {{"bit", each.isBoundary ? 1 : 0}, {"closed", each.closed}};
    }
    file << line.dump() << "\n";
    requireWritten();
  };
}

void Trace::close() {
  if (!name.empty()) {
    file.close();
    requireWritten();
  }
}

void Trace::requireWritten() const {
  if (!file) {
    throw JobError(showPath(name) + ": the trace cannot be written: " + std::strerror(errno));
  }
}

void checkTrace(const std::string &name, const std::vector<std::string> &read,
                const std::string &saved) {
  requireOther("--trace", name, read);
  requireWritable(name);
  if (std::filesystem::weakly_canonical(name) == std::filesystem::weakly_canonical(saved)) {
    throw UserError("expected different files for --trace and --save-session, found both at " +
                    showPath(name) + "; name another file");
  }
}

} // namespace sluice::cli
