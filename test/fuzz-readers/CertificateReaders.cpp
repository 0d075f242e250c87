// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The independent checker's two files.
#include "Certify.h"
#include "Readers.h"

#include <openssl/sha.h>

#include <string>

namespace {

/// A spec, "%%", its certificate. Replaces the hash of the spec in the second line by the correct
/// one, which no mutation finds.
void readCertificate(std::string_view input) {
  auto [spec, written] = sluice::fuzz::cutInput(input);
  std::string certificate(written), hash;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char *>(spec.data()), spec.size(), digest);
  for (unsigned char byte : digest) {
    hash += "0123456789abcdef"[byte >> 4];
    hash += "0123456789abcdef"[byte & 15];
  }
  size_t begin = certificate.find('\n'), end = certificate.find('\n', begin + 1);
  if (begin != std::string::npos && end != std::string::npos) {
    certificate.replace(begin, end - begin, "\nspec sha256 " + hash);
  }
  certify::certify({"spec.json", std::string(spec)}, {"certificate", certificate}, false);
}

constexpr sluice::fuzz::FuzzedReader readers[] = {{"certificate", readCertificate}};

} // namespace

std::span<const sluice::fuzz::FuzzedReader> sluice::fuzz::getCertificateReaders() {
  return readers;
}
