// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Tokenizer/TrainTokenizer.h"

#include "Characters.h"
#include "PieceFile.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Text.h"

#include <sentencepiece_trainer.h>

#include <cstdio>
#include <unordered_map>

namespace sluice::runtime {
namespace {

/// The parts of a text, as the sentences of SentencePiece. A trainer skips sentences with U+2585,
/// so parts end there too.
class TextParts : public sentencepiece::SentenceIterator {
public:
  explicit TextParts(const std::vector<ByteFile> &files) : files(files) { advance(); }

  bool done() const override { return isDone; }
  void Next() override { advance(); }
  const std::string &value() const override { return part; }
  sentencepiece::util::Status status() const override { return {}; }

private:
  void advance() {
    for (;;) {
      while (at < text.size()) {
        std::string_view all(reinterpret_cast<const char *>(text.data()), text.size());
        size_t start = at, end = findPartEnd(all, start);
        end = std::min(end, all.substr(0, end).find(reservedMark, start));
        at = std::max(end, start + 1);
        if (end > start) {
          part = all.substr(start, end - start);
          return;
        }
      }
      if (file == files.size()) {
        isDone = true;
        return;
      }
      text = files[file++].bytes.readAll();
      at = 0;
    }
  }

  const std::vector<ByteFile> &files;
  std::vector<uint8_t> text; ///< of the current file
  std::string part;
  size_t file = 0, at = 0;
  bool isDone = false;
};

/// Explains an error of a trainer, whose text is not for users.
[[noreturn]] void failTraining(const std::string &status, const TokenizerTraining &training) {
  constexpr std::string_view tooFew = "required_chars. ";
  int64_t given = 0, needed = 0;
  if (size_t at = status.find(tooFew);
      at != std::string::npos &&
      std::sscanf(status.c_str() + at + tooFew.size(), "%ld vs %ld", &given, &needed) == 2) {
    throw UserError(format("--vocabulary: expected at least %ld (<unk>, 256 bytes, and the "
                           "characters that are %g%% of the text), found %ld; raise it, or lower "
                           "--coverage",
                           needed, training.coverage * 100, training.vocabulary));
  }
  throw UserError("--data: expected a text that SentencePiece can train on, found its error " +
                  quote(status, 300) + "; give more text or another --vocabulary");
}

} // namespace

Tokenizer trainTokenizer(const std::vector<ByteFile> &files, const TokenizerTraining &training) {
  TextParts parts(files);
  if (parts.done()) {
    throw UserError("--data: expected text in UTF-8 to train on, found no character of it except "
                    "line breaks; give a text");
  }
  bool isCharacters = training.kind == "characters";
  // The number of threads is fixed: sums of the unigram trainer depend on it.
  std::unordered_map<std::string, std::string> settings = {
      {"model_type", isCharacters ? "char" : training.kind},
      {"vocab_size", std::to_string(training.vocabulary)},
      {"character_coverage", format("%.17g", training.coverage)},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"byte_fallback", "true"},
      {"hard_vocab_limit", "false"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"pad_id", "-1"},
      {"num_threads", "16"},
      {"minloglevel", "3"},
  };
  sentencepiece::SetRandomGeneratorSeed(1);
  std::string model;
  auto status = sentencepiece::SentencePieceTrainer::Train(settings, &parts, &model);
  if (!status.ok()) {
    failTraining(status.ToString(), training);
  }
  return Tokenizer::fromModel(SubwordFormat::SentencePiece, std::move(model), "tokenizer");
}

ImportedTokenizer importTokenizer(const Path &path) {
  std::string shown = showPath(path.native());
  switch (FileKind found = recognizeFile(path)) {
  case FileKind::SubwordCodes:
    return {Tokenizer::fromModel(SubwordFormat::SubwordNmt, readText(path, "codes"), shown), {}};
  case FileKind::SentencePiece:
    break;
  case FileKind::Missing:
    requireFile(path, "SentencePiece model"); // throws
    [[fallthrough]];
  default:
    throw UserError(shown + ": expected a SentencePiece model or codes of subword-nmt, found " +
                    std::string(describe(found)) +
                    (found == FileKind::Tokenizer
                         ? "; name it where a tokenizer is expected, as it is"
                         : "; name one of these, or train a tokenizer with --data"));
  }
  std::string model = readText(path, "SentencePiece model");
  std::vector<std::string> notes;
  if (PieceFile file = parsePieceFile(model, shown); file.changesText()) {
    std::string changed = file.hasNormalization ? ", its normalization" : "";
    changed += file.addsPrefix ? ", the space before a text" : "";
    changed += file.removesWhitespace ? ", the removal of spaces" : "";
    notes.push_back(shown + ": switched off what changes text" + (changed.empty() ? "" : ": ") +
                    changed.substr(std::min<size_t>(changed.size(), 2)));
    model += getLosslessSettings();
  }
  return {Tokenizer::fromModel(SubwordFormat::SentencePiece, std::move(model), shown), notes};
}

} // namespace sluice::runtime
