// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RunSegments.h"

#include "CutText.h"
#include "DataOptions.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Runtime/Train/RunRecord.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

namespace {

constexpr int64_t mostShown = 1000; // as printed by `sluice boundaries`

struct ChosenText {
  ByteFile text;
  std::string source; ///< its kind; empty: there is no text
};

using Encoder = std::shared_ptr<const TextEncoder>;

/// Checks that the file has as much as the run read.
bool hasSize(const ByteFile &text, const DataFile &file) {
  return file.tokens ? text.tokenCount() == *file.tokens : std::ssize(text.bytes) == file.bytes;
}

/// Opens the run's held-out file as in the run: as text or, if it then has another size, raw.
ByteFile openHeldOut(const DataFile &file, int64_t vocabulary, const Encoder &encoder) {
  auto open = [&](bool isRaw) {
    return readByteFiles({file.path}, vocabulary, 1, "a token to cut", nullptr,
                         {.isRaw = isRaw, .takesIds = file.tokens.has_value(), .encoder = encoder})
        .front();
  };
  try {
    ByteFile text = open(false);
    return text.isDecompressed && !hasSize(text, file) ? open(true) : text;
  } catch (const FormatError &) {
    return open(true);
  }
}

/// Returns the first `most` tokens of a text, or all of them.
ByteFile keepFirst(const ByteFile &text, int64_t most) {
  return text.cut(0, std::min(most, text.tokenCount()));
}

/// Returns the first held-out file with the number of bytes that the run read. `notes` gets the
/// reasons for skipping others.
ChosenText chooseHeldOut(const RunRecord &record, int64_t vocabulary, const Encoder &encoder,
                         int64_t most, std::vector<std::string> &notes) {
  for (const DataFile &file : record.heldOut) {
    if (!file.used) {
      continue;
    }
    if (!isRegularFile(file.path)) {
      notes.push_back(showPath(file.path) + ": expected the run's held-out text, found no file; "
                                            "write the report from the folder of sluice train");
      continue;
    }
    std::string idsNote = showPath(file.path) + ": expected held-out text, found token ids, whose "
                                                "text is unknown";
    if (file.tokens && !encoder) {
      notes.push_back(idsNote);
      continue;
    }
    ByteFile all = openHeldOut(file, vocabulary, encoder);
    if (file.tokens && !all.encoder) {
      notes.push_back(idsNote);
      continue;
    }
    const char *unit = file.tokens ? " tokens" : " bytes";
    if (!hasSize(all, file)) {
      notes.push_back(showPath(file.path) + ": expected the run's held-out text of " +
                      std::to_string(file.tokens.value_or(file.bytes)) + unit + ", found " +
                      std::to_string(all.tokenCount()) + unit +
                      "; it has changed, or holds images");
      continue;
    }
    ByteFile text = keepFirst(all, most);
    std::string count = std::to_string(text.tokenCount());
    bool isAll = text.tokenCount() == all.tokenCount();
    return {std::move(text), "Held-out text " + showPath(file.path) + ", " +
                                 (isAll ? "all of its " : "its first ") + count + unit + "."};
  }
  return {};
}

/// Returns the newest sample, with its prompt, up to the first byte that is not text.
ChosenText chooseSample(const Path &run, int64_t vocabulary, const Encoder &encoder, int64_t most) {
  std::vector<nlohmann::json> samples = readLines(run / "samples.jsonl");
  if (samples.empty()) {
    return {};
  }
  const nlohmann::json &sample = samples.back();
  std::string written;
  for (const char *part : {"prompt", "text"}) {
    written +=
        sample.contains(part) && sample[part].is_string() ? sample[part].get<std::string>() : "";
  }
  // An invalid UTF-8 byte is U+FFFD in the file: the written bytes after it are unknown.
  size_t known = std::min(written.size(), written.find("\xef\xbf\xbd"));
  bool isAll = known == written.size();
  ChosenText chosen{
      {run / "samples.jsonl",
       std::vector<uint8_t>(written.begin(), written.begin() + std::ptrdiff_t(known))},
      "The sample of step " + sample["step"].dump() +
          (isAll ? "." : ", up to its first byte that is not UTF-8.")};
  if (encoder) {
    chosen.text.layout.type = TokenType::Int32;
    chosen.text.encoder = encoder;
    chosen.text =
        chosen.text.replaceTokens(encoder->encode(std::string_view(written).substr(0, known)));
  }
  chosen.text = keepFirst(chosen.text, most);
  bool isText = encoder || chosen.text.bytes.find([&](uint8_t id) { return id >= vocabulary; }) ==
                               chosen.text.bytes.size();
  return isText && !chosen.text.bytes.empty() ? chosen : ChosenText();
}

SegmentedText cutStage(const Path &run, const ModelFacts &model, const BoundaryFacts &boundaries,
                       const ByteFile &text, const std::string &kernelCache, Progress &progress) {
  driver::CompileRequest request;
  request.spec = (run / "spec.json").string();
  request.text = model.spec;
  request.everyRow = boundaries.value;
  request.kernelCache = kernelCache;
  progress.draw(0, "compiling the spec for its segments");
  std::unique_ptr<Executor> executor = compileForCpu(std::move(request), {});
  loadWeights(run, *executor, printNotice);
  return cutText(*executor, boundaries, text, mostShown,
                 [&](double share) { progress.draw(share, "cutting the text"); });
}

} // namespace

ShownSegments showSegments(const Path &run, const driver::SpecDescription &spec, int64_t most,
                           const std::string &kernelCache) {
  ShownSegments shown;
  const ModelFacts &model = spec.model;
  if (spec.facts.boundaries.empty() || most == 0) {
    return shown;
  }
  if (!spec.predicts) {
    shown.notes.emplace_back("Boundaries are not shown: the model ends in a contrast.");
    return shown;
  }
  try {
    std::optional<RunRecord> record = readRunRecord(run);
    Encoder encoder = findEncoder("", run.string(), model.vocabulary);
    ChosenText chosen;
    if (record) {
      chosen = chooseHeldOut(*record, model.vocabulary, encoder, most, shown.notes);
    }
    if (chosen.source.empty()) {
      chosen = chooseSample(run, model.vocabulary, encoder, most);
    }
    if (chosen.source.empty()) {
      shown.notes.push_back(
          "No text to show boundaries in: expected held-out text or a sample that "
          "is text, found neither; train with --eval-data or --sample-prompt.");
      return shown;
    }
    shown.source = chosen.source;
    Progress progress;
    for (const BoundaryFacts &each : spec.facts.boundaries) {
      if (std::string what = describeCut(each); what.empty()) {
        shown.cuts.push_back(cutStage(run, model, each, chosen.text, kernelCache, progress));
      } else {
        shown.notes.push_back("Boundaries of \"" + each.name + "\" are not shown: they cut " +
                              what + ".");
      }
    }
  } catch (const UserError &error) {
    shown.notes.push_back(std::string("No boundaries: ") + error.what());
  } catch (const JobError &error) {
    shown.notes.push_back(std::string("No boundaries: ") + error.what());
  }
  return shown;
}

} // namespace sluice::cli
