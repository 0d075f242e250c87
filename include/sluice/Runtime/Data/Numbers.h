// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Named inputs of numbers: .npy files with a row for each byte of a text.
#pragma once

#include "sluice/Runtime/Data/ByteFiles.h"
#include "sluice/Runtime/Data/Inputs.h"
#include "sluice/Runtime/Plan/Plan.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::runtime {

struct SourceFiles;

/// The files of a named input of numbers: .npy arrays of `width` numbers for each byte of a text.
struct NumberInput {
  std::vector<Path> paths;
  int64_t width = 1;
  bool isTarget = false; ///< rows are distributions; else weights, of at least 0
};
using NumberInputs = std::map<std::string, NumberInput>;

/// Numbers for one text: row i belongs to byte i.
struct NumberFile {
  Path path;
  FileContents bytes; ///< contents of the file
  size_t start = 0;   ///< offset of the f32 numbers in the file
  int64_t width = 1;
};

using NumberFiles = std::map<std::string, std::vector<NumberFile>>; ///< by name, then by text

/// Reads an f32 array and checks its shape and that all numbers are finite and at least 0. For a
/// target, each row must also sum to 1 within 1e-3. Throws UserError with the path and the row.
NumberFile readNumbers(const Path &path, const NumberInput &input, const ByteFile &text,
                       const ReadingOptions &reading = {});

/// Writes the numbers of `count` bytes of text `text`, starting at byte `start` and wrapping around
/// at the end, to row `row` of the batch. Names without files get zeros.
void writeNumbers(const NumberFiles &files, size_t text, int64_t start, int64_t count, int64_t row,
                  const BatchInputs &into);

/// Returns the names of the numbers that kernels of a plan read.
std::vector<std::string> getNumberNames(const Plan &plan);
/// Returns the plan's input that holds the numbers `name`.
std::string numbersInput(const std::string &name);
/// Returns how many numbers `name` has for each token.
int64_t getNumberWidth(const Plan &plan, const std::string &name);
/// Selects the files of numbers. With `areTrained`, all numbers are required; otherwise only the
/// numbers that evaluation reads are selected. Throws UserError for files of other numbers.
NumberInputs chooseNumbers(const Plan &plan, const SourceFiles &files, bool areTrained);

} // namespace sluice::runtime
