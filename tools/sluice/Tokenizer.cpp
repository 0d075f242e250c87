// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sluice tokenizer: trains, imports and applies tokenizers.
#include "sluice/Runtime/Tokenizer/Tokenizer.h"
#include "CommandLine.h"
#include "Commands.h"
#include "Common.h"
#include "DataOptions.h"
#include "sluice/Runtime/Data/Npy.h"
#include "sluice/Runtime/Data/NpyHeader.h"
#include "sluice/Runtime/Tokenizer/TrainTokenizer.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Text.h"

#include <cstdlib>
#include <cstring>
#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice::runtime;

struct TokenizerFlags {
  std::vector<std::string> data, encode;
  std::string import, tokenizer, decode, output, exported;
  TokenizerTraining training;
  bool json = false, raw = false, force = false;
};

void printTokenizer(const Tokenizer &tokenizer, bool asJson) {
  if (asJson) {
    printJson(
        {{"kind", tokenizer.kind()}, {"vocabulary", tokenizer.size()}, {"hash", tokenizer.hash()}});
    return;
  }
  std::cout << tokenizer.kind() << ", " << tokenizer.size() << " ids, hash "
            << tokenizer.hash().substr(0, 16) << std::endl;
}

/// Checks that `output` may be written. `flag` names it in messages.
void checkOutput(const TokenizerFlags &flags, const std::string &flag, const std::string &output,
                 FileKind kind) {
  checkOutputs({{flag, output, kind}},
               joinPaths({flags.data, flags.encode, {flags.import, flags.tokenizer, flags.decode}}),
               flags.force);
}

void trainOne(const TokenizerFlags &flags) {
  std::vector<ByteFile> files = openTexts(flags.data, 256, 1, "a byte to train on", {flags.raw});
  Tokenizer tokenizer = trainTokenizer(files, flags.training);
  if (tokenizer.size() < flags.training.vocabulary) {
    printNotice(format("the text has pieces for %lld ids, fewer than --vocabulary %lld",
                       static_cast<long long>(tokenizer.size()),
                       static_cast<long long>(flags.training.vocabulary)));
  }
  tokenizer.save(flags.output);
  printTokenizer(tokenizer, flags.json);
}

void importOne(const TokenizerFlags &flags) {
  ImportedTokenizer imported = importTokenizer(flags.import);
  for (const std::string &note : imported.notes) {
    printNotice(note);
  }
  imported.tokenizer.save(flags.output);
  printTokenizer(imported.tokenizer, flags.json);
}

/// Writes the ids of all texts as one array.
void encodeTexts(const Tokenizer &tokenizer, const TokenizerFlags &flags) {
  std::vector<int32_t> all;
  int64_t bytes = 0;
  for (const ByteFile &file : openTexts(flags.encode, 256, 0, "", {flags.raw})) {
    std::vector<int32_t> ids = tokenizer.encode(file.bytes.readAll());
    all.insert(all.end(), ids.begin(), ids.end());
    bytes += static_cast<int64_t>(file.bytes.size());
  }
  NpyWriter array(flags.output, {static_cast<int64_t>(all.size())}, "<i4");
  array.append(std::span<const int32_t>(all));
  array.finish();
  if (flags.json) {
    printJson({{"tokens", all.size()}, {"bytes", bytes}});
  } else {
    std::cout << all.size() << " tokens of " << bytes << " bytes" << std::endl;
  }
}

/// Reads a list of int32 in a .npy file.
std::vector<int32_t> readIds(const Path &path) {
  requireKind(path, FileKind::Npy, "token ids (.npy)");
  std::vector<uint8_t> file = readBytes(path, "token ids");
  std::string start = showPath(path.native()) + ": expected a list of int32 (.npy), found ";
  if (!isNpy(file)) {
    throw UserError(start + "another file; name a file that sluice tokenizer --encode wrote");
  }
  NpyHeader header = parseNpyHeader(file);
  int64_t count = header.shape.size() == 1 ? header.shape[0] : 0;
  if (!header.problem.empty() || header.type != "<i4" || header.shape.size() != 1) {
    throw UserError(start +
                    (header.problem.empty() ? header.type + " of shape " + header.showShape()
                                            : header.problem) +
                    "; convert it: array.astype(\"int32\").ravel()");
  }
  std::span<const uint8_t> numbers = std::span<const uint8_t>(file).subspan(header.start);
  if (numbers.size() / sizeof(int32_t) != static_cast<uint64_t>(count) ||
      numbers.size() % sizeof(int32_t) != 0) {
    throw UserError(start + "one of shape " + header.showShape() + " with " +
                    describeCount(static_cast<int64_t>(numbers.size()), "byte") +
                    "; write the file again");
  }
  std::vector<int32_t> ids(count);
  if (!ids.empty()) {
    std::memcpy(ids.data(), numbers.data(), numbers.size());
  }
  return ids;
}

void applyOne(const TokenizerFlags &flags) {
  Tokenizer tokenizer = Tokenizer::open(flags.tokenizer);
  if (!flags.encode.empty()) {
    encodeTexts(tokenizer, flags);
  } else if (!flags.decode.empty()) {
    std::string text = tokenizer.decode(readIds(flags.decode));
    replaceFile(flags.output, asBytes(text));
  } else {
    printTokenizer(tokenizer, flags.json);
  }
  if (!flags.exported.empty()) {
    replaceFile(flags.exported, asBytes(tokenizer.model()));
  }
}

void runTokenizer(const TokenizerFlags &flags) {
  bool isApplied = !flags.tokenizer.empty();
  int jobs = (flags.data.empty() ? 0 : 1) + (flags.import.empty() ? 0 : 1) + (isApplied ? 1 : 0);
  if (jobs != 1) {
    throw UserError("sluice tokenizer: expected one of --data, --import and --tokenizer, found " +
                    std::string(jobs == 0 ? "none" : "several") +
                    "; give --data FILE --vocabulary N -o TOK to train a tokenizer");
  }
  bool writes = !isApplied || !flags.encode.empty() || !flags.decode.empty();
  if (writes == flags.output.empty()) {
    throw UserError(std::string("--output: expected ") +
                    (writes ? "the file to write, found none; give -o FILE"
                            : "--encode or --decode with it, found none; leave it out"));
  }
  if (!flags.data.empty() && flags.training.vocabulary == 0) {
    throw UserError("--vocabulary: expected the number of ids, found none; give --vocabulary N, "
                    "such as 4000");
  }
  if (writes) {
    checkOutput(flags, "--output", flags.output,
                !isApplied              ? FileKind::Tokenizer
                : !flags.encode.empty() ? FileKind::Npy
                                        : FileKind::Text);
  }
  if (!flags.exported.empty()) {
    checkOutput(flags, "--export", flags.exported, FileKind::SentencePiece);
  }
  if (!flags.data.empty()) {
    trainOne(flags);
  } else if (!flags.import.empty()) {
    importOne(flags);
  } else {
    applyOne(flags);
  }
}

/// Accepts the shares of characters that SentencePiece accepts.
CLI::Validator checkCoverage() {
  return {[](std::string &text) {
            char *end = nullptr;
            double share = std::strtod(text.c_str(), &end);
            return !text.empty() && !*end && share >= 0.98 && share <= 1
                       ? std::string()
                       : "expected a share from 0.98 to 1, found " + quote(text);
          },
          "", "share"};
}

} // namespace

void registerTokenizer(CLI::App &program) {
  auto flags = std::make_shared<TokenizerFlags>();
  CLI::App *command = program.add_subcommand(
      "tokenizer", "Train a tokenizer on text, import one, or encode and decode with one");
  CLI::Option *data =
      command->add_option("--data", flags->data, "Files of text to train one tokenizer on")
          ->type_name("FILE")
          ->default_str("");
  command
      ->add_option("--vocabulary", flags->training.vocabulary,
                   "Number of ids, 257 of which are <unk> and the bytes")
      ->check(wholeNumber(257, 1000000))
      ->default_str("")
      ->needs(data);
  command
      ->add_option("--kind", flags->training.kind, "Kind of the pieces: bpe, unigram or characters")
      ->check(matchChoice({"bpe", "unigram", "characters"}))
      ->needs(data);
  command
      ->add_option(
          "--coverage", flags->training.coverage,
          "Share of the text's characters that get ids of their own, 0.98 to 1; the others "
          "are written in bytes")
      ->check(checkCoverage())
      ->needs(data);
  command
      ->add_option("--import", flags->import,
                   "SentencePiece model with byte fallback, or codes of subword-nmt, to import")
      ->type_name("FILE");
  CLI::Option *tokenizer =
      command->add_option("--tokenizer", flags->tokenizer, "Tokenizer to show or to use")
          ->type_name("TOK");
  CLI::Option *encode =
      command
          ->add_option("--encode", flags->encode, "Files of text whose ids to write (.npy, int32)")
          ->type_name("FILE")
          ->default_str("")
          ->needs(tokenizer);
  command->add_option("--decode", flags->decode, "File of ids (.npy, int32) whose bytes to write")
      ->type_name("FILE")
      ->needs(tokenizer)
      ->excludes(encode);
  command
      ->add_option("--export", flags->exported,
                   "File for the SentencePiece model (or the codes) in the tokenizer")
      ->type_name("FILE")
      ->needs(tokenizer);
  command->add_option("-o,--output", flags->output, "File to write")->type_name("FILE");
  addRaw(*command, flags->raw);
  addForce(*command, flags->force);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { runTokenizer(*flags); });
}

} // namespace sluice::cli
