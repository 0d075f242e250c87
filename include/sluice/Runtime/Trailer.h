// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last bytes of an artifact, as docs/plan-and-artifact.md lays them out: what the file is, and
// a hash that is checked before anything of it is used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice::runtime {

constexpr size_t trailerBytes = 64;
constexpr uint32_t artifactVersion = 2;

/// The trailer of `elf`; an artifact is `elf` and then this.
std::array<uint8_t, trailerBytes> makeTrailer(std::span<const uint8_t> elf);

/// Throws UserError unless `file` ends in a trailer that fits it; returns the ELF part. `origin`
/// starts the message.
std::span<const uint8_t> checkTrailer(std::span<const uint8_t> file, const std::string &origin);

} // namespace sluice::runtime
