// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SHA-256 (through OpenSSL's libcrypto) and small deterministic mixing functions.
#pragma once

#include "sluice/Support/Files.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::span<const uint8_t> bytes);
std::string toHex(std::span<const uint8_t> bytes);

/// Returns the SHA-256 of `bytes` in lower-case hexadecimal, 64 characters.
std::string sha256Hex(std::span<const uint8_t> bytes);
std::string sha256Hex(std::string_view text);

struct HashedFile {
  int64_t bytes = 0;
  std::string sha256; ///< as returned by `sha256Hex`
};

/// Hashes a regular file piece by piece. Throws as `readBytes` does; `what` is the file's role in
/// messages.
HashedFile hashFile(const Path &path, std::string_view what);

/// The finalizer of SplitMix64: a bijection of 64-bit integers in which every input bit affects all
/// output bits.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

} // namespace sluice
