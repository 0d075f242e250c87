// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognizes files that are given as text but have another format.
#pragma once

#include "Decompress.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// A format that was verified by the structure of a file. A signature is not sufficient, since text
/// may start with one.
struct DataFormat {
  std::string name;   ///< "a ZIP archive"
  std::string remedy; ///< "unpack it (unzip)"
  Compression compression = Compression::None;
};

/// Returns the format of a file that is not text, if the structure of the kind that `recognize`
/// returns is verified.
std::optional<DataFormat> findFormat(const FileContents &contents);

/// Describes signs in the first 256 KiB of a format other than text: a signature without a verified
/// structure, JSON in every line, a byte order mark, carriage returns at all ends of lines, or zero
/// bytes with byte ids (`vocabulary` >= 256). `name` starts each note.
std::vector<std::string> describeOddities(const FileContents &contents, int64_t vocabulary,
                                          const std::string &name);

/// Returns a note if a file of 16-bit ids without a header starts like a text; else an empty text.
/// Ids of which every byte is a character of a text are rare, but possible.
std::string describeTextAsIds(const FileContents &contents, const std::string &name);

} // namespace sluice::runtime
