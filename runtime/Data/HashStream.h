// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the SHA-256 of bytes that arrive in pieces.
#pragma once

#include "sluice/Support/Hash.h"

#include <memory>
#include <openssl/evp.h>
#include <stdexcept>

namespace sluice::runtime {

class HashStream {
public:
  HashStream() { require(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr)); }

  void add(std::span<const uint8_t> bytes) {
    require(EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()));
  }
  /// Returns the hash in lower-case hexadecimal. Nothing may be added afterwards.
  std::string finish() {
    Sha256 digest{};
    require(EVP_DigestFinal_ex(context.get(), digest.data(), nullptr));
    return toHex(digest);
  }

private:
  static void require(int result) {
    if (result != 1) {
      throw std::runtime_error("SHA-256 is not available in OpenSSL");
    }
  }

  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX *)> context{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

} // namespace sluice::runtime
