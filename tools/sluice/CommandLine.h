// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages about a wrong command line, in place of the parser's own.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace sluice::cli {

/// Makes every flag of the subcommand `command` check its values: whole numbers that fit, numbers,
/// files that are no flags. Call it after the flags are added.
void checkValues(CLI::App &command);

/// Accepts an integer from `least` to `most`.
CLI::Validator wholeNumber(int64_t least, int64_t most);

/// Accepts a size: "512MiB", "1.5GiB", "100KiB", or plain bytes; at least one byte.
CLI::Validator byteSize();
/// Returns the bytes of a size that byteSize accepts.
int64_t parseByteSize(const std::string &text);

/// Accepts one of `names`.
CLI::Validator matchChoice(const std::vector<std::string> &names);

/// Makes a seed's flag take "random" too: a seed is drawn then, and printed, so that the run can be
/// repeated.
CLI::Validator drawnSeed(const std::string &flag);

/// Prints a note where `text`, the value of `flag`, holds a backslash and a letter that other
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
