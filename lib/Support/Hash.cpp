// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/Hash.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <fstream>
#include <memory>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdexcept>
#include <vector>

namespace sluice {

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

HashedFile hashFile(const Path &path, std::string_view what) {
  constexpr size_t piece = size_t(1) << 20;
  requireFile(path, what);
  std::ifstream file(path, std::ios::binary);
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX *)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  bool isSound = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  HashedFile result;
  std::vector<char> bytes(piece);
  while (isSound && file) {
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    auto count = static_cast<size_t>(file.gcount());
    isSound = EVP_DigestUpdate(context.get(), bytes.data(), count) == 1;
    result.bytes += static_cast<int64_t>(count);
  }
  Sha256 digest{};
  isSound = isSound && EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1;
  if (!isSound) {
    throw std::runtime_error("SHA-256 is not available in OpenSSL");
  }
  if (!file.eof()) {
    throw UserError(showPath(path.native()) + ": expected to read the " + std::string(what) +
                    ", found that it cannot be read; check its permissions and the disk");
  }
  result.sha256 = toHex(digest);
  return result;
}

} // namespace sluice
