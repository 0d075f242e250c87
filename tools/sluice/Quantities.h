// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Speeds and times with units in the values of flags.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::cli {

/// Parses "10GB/s", "1.5GiB/s" or "100Gbit/s" to bytes a second. None if the text is no bandwidth
/// above 0, or has no unit: a number alone could be of bytes or of bits.
std::optional<double> findBytesPerSecond(const std::string &text);
/// Parses "20us", "1.5ms" or "2s" to seconds. None if the text is no time above 0, or has no unit.
std::optional<double> findSeconds(const std::string &text);
/// Parses "250Gflop/s" or "2.5e11". None if the text is no speed above 0.
std::optional<double> findFlops(const std::string &text);
/// Parses an integer from `least` to `most`.
std::optional<int64_t> findWholeNumber(const std::string &text, int64_t least, int64_t most);

/// Accept the values that the functions above parse.
CLI::Validator bytesPerSecond();
CLI::Validator timeSpan();
CLI::Validator flopsPerSecond();

} // namespace sluice::cli
