// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last bytes of an artifact, as specified in docs/plan-and-artifact.md: the file's kind, and a
// hash that is verified before the contents are used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice {

constexpr size_t trailerBytes = 64;
constexpr uint32_t artifactVersion = 2;

/// Returns the trailer of `elf`. An artifact is `elf` followed by its trailer.
std::array<uint8_t, trailerBytes> makeTrailer(std::span<const uint8_t> elf);

/// Returns the ELF part of `file`. Throws UserError unless `file` ends with a matching trailer.
/// `origin` starts the message.
std::span<const uint8_t> checkTrailer(std::span<const uint8_t> file, const std::string &origin);

} // namespace sluice
