// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Speeds and times with units in the values of flags.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::cli {

/// Parses "10GB/s", "1.5GiB/s", "100Gbit/s" or "1.2e9", bytes a second. None if the text is no
/// bandwidth above 0.
std::optional<double> findBytesPerSecond(const std::string &text);
/// Parses "20us", "1.5ms" or "2e-5", seconds. None if the text is no time above 0.
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
