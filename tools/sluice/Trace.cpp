// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Trace.h"
#include "Common.h"
#include "sluice/Support/Error.h"

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

Trace::Trace(const std::string &name, const Executor &executor, bool isCached, TextSink &sink) {
  if (name.empty()) {
    return;
  }
  if (!isCached || executor.plan().segments.empty()) {
    throw UserError("--trace: expected a model with segments, generated from step by step, found "
                    "one without " +
                    std::string(isCached ? "segments" : "a step, or --no-cache") +
                    "; leave it out");
  }
  file.emplace(name);
  sink.read = [this](size_t text, int64_t position, int32_t token, auto segments) {
    nlohmann::ordered_json line = {{"text", text}, {"position", position}, {"token", token}};
    for (const Predictor::SegmentProgress &each : segments) {
      line["segments"][each.name] = {{"bit", each.isBoundary ? 1 : 0}, {"closed", each.closed}};
    }
    lines += line.dump() + "\n";
    constexpr size_t mostHeld = 1 << 16;
    if (lines.size() >= mostHeld) {
      flush();
    }
  };
}

void Trace::flush() {
  file->write(asBytes(lines));
  lines.clear();
}

void Trace::close() {
  if (file) {
    flush();
    file->finish();
  }
}

} // namespace sluice::cli
