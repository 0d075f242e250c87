// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "DataOptions.h"

#include "Common.h"

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

void addRaw(CLI::App &command, bool &isRaw) {
  command.add_flag("--raw", isRaw,
                   "Read the bytes of data files as they are: compressed files are not "
                   "decompressed, and files of other formats than text are accepted");
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
