// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Generate/GenerateLines.h"

#include "sluice/Runtime/Generate/Generator.h"

namespace sluice::runtime {

std::vector<std::string> generateLines(Executor &executor, const InputLines &inputs,
                                       const std::shared_ptr<const TextEncoder> &encoder,
                                       const std::optional<LineSearch> &search,
                                       const std::function<void(double)> &progress) {
  int64_t context = executor.plan().model.context;
  std::vector<int32_t> start = encoder ? encoder->encode("\n") : toTokens("\n");
  std::vector<Text> texts;
  for (int64_t line = 0; line < inputs.count(); ++line) {
    texts.push_back(
        {.tokens = start, .given = inputs.at(line), .room = context + 1 - std::ssize(start)});
  }
  std::vector<std::string> lines(texts.size());
  size_t finished = 0;
  TextSink sink;
  sink.write = [&](size_t text, std::string_view bytes) {
    lines[text] += bytes;
    return true;
  };
  sink.finish = [&](size_t, StopReason) {
    ++finished;
    if (progress) {
      progress(static_cast<double>(finished) / static_cast<double>(texts.size()));
    }
  };
  SamplingOptions options;
  options.temperature = 0;
  Predictor predictor(executor, options.cached);
  TokenSpelling spelling = encoder ? spellText(encoder) : TokenSpelling();
  if (search) {
    searchTexts(executor, predictor, texts, search->limit, search->options, sink, spelling);
  } else {
    writeTexts(executor, predictor, texts, context, options, {"\n"}, sink, spelling);
  }
  return lines;
}

} // namespace sluice::runtime
