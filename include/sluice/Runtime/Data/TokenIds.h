// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Token ids in files: bytes, or arrays of integers.
#pragma once

#include "sluice/Runtime/Data/FileContents.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::runtime {

/// A file of data that is neither text nor token ids: another known format, or damaged compressed
/// data. `--raw` reads its bytes.
class FormatError : public UserError {
public:
  using UserError::UserError;
};

/// The type of the token ids in a file.
enum class TokenType : uint8_t { Byte, Uint16, Int32 };

/// The layout of the token ids in a file: consecutive little-endian integers.
struct TokenLayout {
  TokenType type = TokenType::Byte;
  size_t start = 0;      ///< offset of the first id, in bytes
  size_t end = SIZE_MAX; ///< offset after the last id; beyond the file: its end

  /// Returns the number of bytes of an id.
  size_t idBytes() const;
  /// Returns the number of ids in a file of `bytes` bytes.
  size_t countIds(size_t bytes) const { return (std::min(bytes, end) - start) / idBytes(); }
  /// Returns the name of the type as NumPy spells it: "uint16".
  std::string_view typeName() const;
  bool isBytes() const { return type == TokenType::Byte; }
  bool operator==(const TokenLayout &) const = default;
};

/// Prefix of a file of 16-bit token ids without a header: "uint16:train.bin".
inline constexpr std::string_view uint16Prefix = "uint16:";

/// Splits "uint16:FILE" into "uint16" and FILE; the first part of other names is empty.
std::pair<std::string, Path> splitTokenPath(const Path &given);

/// Returns the layout of a NumPy array of token ids. Empty if the file is no NumPy array. Throws
/// FormatError unless the array has one dimension of uint16 or int32 and is complete.
std::optional<TokenLayout> findNpyIds(const FileContents &contents, const std::string &name);

/// Returns the layout of 16-bit ids without a header. Throws FormatError if the size is odd.
TokenLayout makeUint16Layout(const FileContents &contents, const std::string &name);

/// Reads token ids from `first` on into `into`; all of them exist. Throws as FileContents does.
void readIds(const FileContents &contents, const TokenLayout &layout, size_t first,
             std::span<int32_t> into);

/// Checks that each id is from 0 to `vocabulary` - 1. Throws UserError with the index of the first
/// other id. Does not read the file if every number of the type is below `vocabulary`.
void checkIds(const FileContents &contents, const TokenLayout &layout, int64_t vocabulary,
              const std::string &name);

} // namespace sluice::runtime
