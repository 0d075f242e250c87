// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Formats of files that are given as text and are not.
#pragma once

#include "Decompress.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// A format that the structure of a file verifies. A signature alone does not: text may begin with
/// one.
struct DataFormat {
  std::string name;   ///< "a ZIP archive"
  std::string remedy; ///< "unpack it (unzip)"
  Compression compression = Compression::None;
};

/// Returns the format of a file that is not text, where the structure of the kind that `recognize`
/// returns is verified.
std::optional<DataFormat> findFormat(const FileContents &contents);

/// Notes signs in the first 256 KiB of something other than text: a format whose structure is not
/// verified, JSON in every line, a byte order mark, zero bytes where ids are bytes (`vocabulary` of
/// 256 and more). `name` begins each note.
std::vector<std::string> describeOddities(const FileContents &contents, int64_t vocabulary,
                                          const std::string &name);

} // namespace sluice::runtime
