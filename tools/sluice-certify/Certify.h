// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The independent checker of causality certificates (docs/certificate.md). It shares no code with
// the compiler, so that it does not repeat the compiler's mistakes.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace certify {

/// An invalid spec or command line.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The reason why a certificate proves nothing.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Rejects a certificate that does not hold.
inline void demand(bool holds, const std::string &otherwise) {
  if (!holds) {
    throw Refusal(otherwise);
  }
}

struct Answer {
  int status = 0; ///< 0 certified, 1 rejected, 2 bad input
  std::string message;
};

/// A file's name and its bytes.
struct CertificateSource {
  std::string name, text;
};

/// Checks that `certificate` is a proof about `spec`. With `enumerate`, all paths at all small
/// lengths are walked as well and compared with the proof. Throws nothing.
Answer certify(const CertificateSource &spec, const CertificateSource &certificate, bool enumerate);

} // namespace certify
