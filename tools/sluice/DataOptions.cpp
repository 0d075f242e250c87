// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "DataOptions.h"

#include "Common.h"
#include "sluice/Runtime/Tokenizer/FileEncoder.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/FileKind.h"
#include "sluice/Support/Text.h"

#include <thread>

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

void addRaw(CLI::App &command, bool &isRaw) {
  command.add_flag("--raw", isRaw,
                   "Read the bytes of data files as they are: compressed files are not "
                   "decompressed, and files of other formats than text are accepted");
}

void addTokenizer(CLI::App &command, std::string &tokenizer, const std::string &otherwise) {
  command
      .add_option("--tokenizer", tokenizer,
                  "Tokenizer of texts, from sluice tokenizer, or a run that has one; " + otherwise)
      ->type_name("FILE");
}

namespace {

/// Returns the tokenizer's file of the run to which `weights` belongs; empty if there is none.
Path findRunTokenizer(const std::string &weights) {
  if (weights.empty()) {
    return {};
  }
  Path folder = std::filesystem::absolute(weights).lexically_normal();
  if (!folder.has_filename()) {
    folder = folder.parent_path(); // of a name that ends in a slash
  }
  // The run itself, a checkpoint RUN/checkpoints/STEP, or a file in a checkpoint.
  for (int level = 0; level < 4; ++level, folder = folder.parent_path()) {
    if (isFolder(folder) && (level == 0 || isRunFolder(folder)) && isThere(folder / runTokenizer)) {
      return folder / runTokenizer;
    }
  }
  return {};
}

std::string showHash(const std::string &hash) {
  constexpr size_t shownDigits = 16; // as `sluice tokenizer` prints
  return "hash " + hash.substr(0, shownDigits);
}

/// Throws UserError unless `found`, from the file `path`, is the tokenizer of the weights, whose
/// run has the file `own` if that is not empty.
void requireTokenizerOfWeights(const Tokenizer &found, const Path &path, const Path &own,
                               const std::string &weights, std::optional<int64_t> step) {
  std::string needed = weights.empty() ? "" : readTokenizerHash(weights, step);
  if (needed.empty() && !own.empty() && path != own) {
    needed = Tokenizer::open(own).hash();
  }
  if (needed.empty() || needed == found.hash()) {
    return;
  }
  std::string shown = showPath(path.native());
  std::string remedy = path == own
                           ? "restore the run's file, or name the tokenizer with --tokenizer"
                       : own.empty() ? "give the tokenizer that they were trained with"
                                     : "leave --tokenizer out, as the run has its own";
  throw UserError("--tokenizer: expected the tokenizer of the weights " + showPath(weights) + " (" +
                  showHash(needed) + "), found another, " + shown + " (" + showHash(found.hash()) +
                  "); " + remedy);
}

} // namespace

std::shared_ptr<const TextEncoder> findEncoder(const std::string &tokenizer,
                                               const std::string &weights, int64_t vocabulary,
                                               std::optional<int64_t> step) {
  Path own = findRunTokenizer(weights), path = tokenizer.empty() ? own : Path(tokenizer);
  if (path.empty()) {
    return nullptr;
  }
  if (isFolder(path) && isThere(path / runTokenizer)) {
    path /= runTokenizer;
  }
  Tokenizer found = Tokenizer::open(path);
  requireTokenizerOfWeights(found, path, own, weights, step);
  if (found.size() > vocabulary) {
    throw UserError(showPath(path.native()) + ": expected a tokenizer of at most " +
                    std::to_string(vocabulary) + " ids, the vocabulary of the artifact, found " +
                    std::to_string(found.size()) +
                    "; compile the spec with --set vocabulary=" + std::to_string(found.size()));
  }
  return makeFileEncoder(found, static_cast<int>(std::thread::hardware_concurrency()));
}

std::vector<ByteFile> openTexts(const std::vector<std::string> &names, int64_t vocabulary,
                                int64_t least, const std::string &why,
                                const ReadingOptions &reading) {
  std::vector<ByteFile> files =
      readByteFiles({names.begin(), names.end()}, vocabulary, least, why, nullptr, reading);
  for (const std::string &note : collectNotes(files)) {
    printNotice(note);
  }
  return files;
}

} // namespace sluice::cli
