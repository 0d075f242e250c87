// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Readers of external files and messages, as functions of bytes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace sluice::fuzz {

/// A reader of an input, which either accepts it or throws a message for the user. Anything else is
/// a finding: another exception, a sanitizer's report, more than 10 s or 2 GiB.
struct FuzzedReader {
  const char *name;
  void (*read)(std::string_view input);
};

std::span<const FuzzedReader> getRuntimeReaders();
std::span<const FuzzedReader> getSpecReaders();
std::span<const FuzzedReader> getCertificateReaders();

/// Splits an input at the first line "%%"; the second part is empty if there is none.
std::pair<std::string_view, std::string_view> cutInput(std::string_view input);

} // namespace sluice::fuzz
