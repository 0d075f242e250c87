// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "DataOptions.h"

#include "Common.h"
#include "sluice/Runtime/Tokenizer/FileEncoder.h"
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
                  "Tokenizer of texts, from sluice tokenizer; " + otherwise)
      ->type_name("FILE");
}

std::shared_ptr<const TextEncoder> findEncoder(const std::string &tokenizer,
                                               const std::string &weights, int64_t vocabulary) {
  Path path = tokenizer;
  if (tokenizer.empty() && !weights.empty()) {
    Path folder = std::filesystem::absolute(weights).lexically_normal();
    // The run itself, a checkpoint RUN/checkpoints/STEP, or a file in a checkpoint.
    for (int level = 0; level < 4 && path.empty(); ++level, folder = folder.parent_path()) {
      if (isRunFolder(folder) && isThere(folder / runTokenizer)) {
        path = folder / runTokenizer;
      }
    }
  }
  if (path.empty()) {
    return nullptr;
  }
  Tokenizer found = Tokenizer::open(path);
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
