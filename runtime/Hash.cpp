// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Hash.h"

#include "sluice/Runtime/Files.h"

#include <openssl/sha.h>

namespace sluice::runtime {

Sha256 sha256(std::span<const uint8_t> bytes) {
  Sha256 digest{};
  SHA256(bytes.data(), bytes.size(), digest.data());
  return digest;
}

std::string toHex(std::span<const uint8_t> bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (uint8_t byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string sha256Hex(std::span<const uint8_t> bytes) { return toHex(sha256(bytes)); }
std::string sha256Hex(std::string_view text) { return sha256Hex(asBytes(text)); }

} // namespace sluice::runtime
