// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages about a wrong command line, replacing the parser's own.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace sluice::cli {

/// Adds checks of values to every flag of the subcommand `command`: integers in range, numbers,
/// files that are not flags. Call it after the flags are added.
void checkValues(CLI::App &command);

/// Accepts an integer from `least` to `most`.
CLI::Validator wholeNumber(int64_t least, int64_t most);

/// Accepts a size: "512MiB", "1.5GiB", "100KiB", or plain bytes; at least one byte.
CLI::Validator byteSize();
/// Returns the bytes of a size that byteSize accepts.
int64_t parseByteSize(const std::string &text);

/// Accepts one of `names`.
CLI::Validator matchChoice(const std::vector<std::string> &names);

/// Lets a seed's flag accept "random" too: draws a seed and prints it, so the run can be repeated.
CLI::Validator drawnSeed(const std::string &flag);

/// Prints a note if `text`, the value of `flag`, contains a backslash and a letter that other
/// languages read as one character: a shell passes both on.
void noteEscapes(const std::string &flag, const std::string &text);

/// Returns the words of the command line for the parser: "-nan" and "-inf" after a flag are its
/// value, not flags.
std::vector<std::string> joinNumbers(int argc, char **argv);

/// Returns the message for `error`: the expected and the found value, and a remedy. `program` is in
/// the state after parsing `words`.
std::string explainParseError(const CLI::App &program, const CLI::ParseError &error,
                              const std::vector<std::string> &words);

} // namespace sluice::cli
