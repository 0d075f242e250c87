// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that are given as text and hold something else.
#pragma once

#include "Decompress.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// A format that a file's structure verifies: more than a signature that text could begin with.
struct DataFormat {
  std::string name;   ///< "a ZIP archive"
  std::string remedy; ///< "unpack it (unzip)"
  Compression compression = Compression::None;
};

/// The format of a file that is no text; none where no structure is verified.
std::optional<DataFormat> findFormat(const FileContents &contents);

/// What looks unlike text in the first 256 KiB, for notes: JSON in every line, a byte order mark,
/// zero bytes where ids are bytes (`vocabulary` of 256 and more), the header of compressed data
/// that do not decompress. `name` begins each.
std::vector<std::string> describeOddities(const FileContents &contents, int64_t vocabulary,
                                          const std::string &name);

} // namespace sluice::runtime
