// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Numbers.h"

#include "sluice/Runtime/Data/NpyHeader.h"
#include "sluice/Runtime/Data/Sources.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <cmath>

namespace sluice::runtime {

static const std::string numbersPrefix = "numbers.";

std::vector<std::string> getNumberNames(const Plan &plan) {
  std::vector<std::string> names;
  for (const auto &[name, region] : plan.inputs) {
    if (name.starts_with(numbersPrefix)) {
      names.push_back(name.substr(numbersPrefix.size()));
    }
  }
  return names;
}

std::string numbersInput(const std::string &name) { return numbersPrefix + name; }

/// Checks for numbers that are distributions over the vocabulary; else they are weights.
static bool isDistribution(const Plan &plan, const std::string &name) {
  return plan.inputs.at(numbersInput(name)).shape ==
         std::vector{plan.model.batch * plan.model.context, plan.model.vocabulary};
}

int64_t getNumberWidth(const Plan &plan, const std::string &name) {
  return isDistribution(plan, name) ? plan.model.vocabulary : 1;
}

/// Checks for a loss on these numbers other than the head's: evaluation computes the head's loss
/// from the tokens.
static bool isEvaluated(const Plan &plan, const std::string &name) {
  return std::any_of(plan.losses.begin() + (plan.losses.empty() ? 0 : 1), plan.losses.end(),
                     [&](const LossFacts &loss) { return loss.target == name; });
}

NumberInputs chooseNumbers(const Plan &plan, const SourceFiles &files, bool areTrained) {
  NumberInputs chosen;
  for (const std::string &name : getNumberNames(plan)) {
    auto found = files.inputs.find(name);
    if (found == files.inputs.end()) {
      if (areTrained) {
        throw UserError("expected " + files.inputFlag + " " + name +
                        "=FILE, as a loss of the model reads the input \"" + name +
                        "\", found none; give a .npy file with a row for each byte of the text");
      }
      continue;
    }
    if (!areTrained && !isEvaluated(plan, name)) {
      throw UserError(files.inputFlag + ": expected an input that evaluation reads, found \"" +
                      name +
                      "\", which training alone reads: evaluation counts every row once, and the "
                      "head's by the tokens; leave it out");
    }
    chosen[name] = {found->second, getNumberWidth(plan, name), isDistribution(plan, name)};
  }
  return chosen;
}

/// Throws UserError unless the file is an array of little-endian f32 in C order. Sets the offset of
/// its numbers and returns its shape.
static std::vector<int64_t> readHeader(NumberFile &file) {
  constexpr size_t longestHeader = size_t(1) << 16;
  NpyHeader header = parseNpyHeader(file.bytes.read(0, longestHeader));
  bool isWrong = !header.problem.empty() || !header.isF32() || header.fortranOrder;
  if (isWrong) {
    throw UserError(
        showPath(file.path.native()) +
        ": expected an array of little-endian f32 in C order, as numpy.save writes it, found " +
        (!header.problem.empty() ? header.problem
         : header.fortranOrder   ? "Fortran's order"
                                 : "numbers of the type " + quote(header.type)) +
        "; write it as numpy.float32");
  }
  file.start = header.start;
  return header.shape;
}

/// Fills `into` with the numbers from index `first` on.
static void copyNumbers(const NumberFile &file, int64_t first, std::span<float> into) {
  file.bytes.read(file.start + static_cast<size_t>(first) * sizeof(float),
                  {reinterpret_cast<uint8_t *>(into.data()), into.size_bytes()});
}

/// Bounds on weights, of which only ratios matter. Within these bounds the sum of an update's
/// weights, its reciprocal, and a loss times a weight are neither subnormal nor infinite in f32.
constexpr double leastWeight = 1e-18, greatestWeight = 1e18;

static void checkNumbers(const NumberFile &file, int64_t rows, bool isTarget) {
  constexpr double tolerance = 1e-3; // for rounded numbers, such as bf16
  auto refuse = [&](int64_t row, const std::string &expected, double found) {
    throw UserError(showPath(file.path.native()) + ": row " + std::to_string(row) + ": expected " +
                    expected + ", found " + format("%g", found) +
                    "; row i belongs to byte i of the text");
  };
  constexpr int64_t numbersAtOnce = 1 << 18;
  int64_t rowsAtOnce = std::max<int64_t>(1, numbersAtOnce / file.width);
  std::vector<float> some;
  for (int64_t row = 0; row < rows; ++row) {
    if (row % rowsAtOnce == 0) {
      some.resize(static_cast<size_t>(std::min(rowsAtOnce, rows - row) * file.width));
      copyNumbers(file, row * file.width, some);
    }
    double sum = 0;
    for (int64_t column = 0; column < file.width; ++column) {
      double number = some[static_cast<size_t>(row % rowsAtOnce * file.width + column)];
      if (!std::isfinite(number) || number < 0) {
        refuse(row, "finite numbers of at least 0", number);
      }
      if (!isTarget && number != 0 && (number < leastWeight || number > greatestWeight)) {
        refuse(row, "a weight of 0 or from 1e-18 to 1e+18, as ratios alone count", number);
      }
      sum += number;
    }
    if (isTarget && std::abs(sum - 1) > tolerance) {
      refuse(row, "probabilities that add up to 1 within 0.001", sum);
    }
  }
}

NumberFile readNumbers(const Path &path, const NumberInput &input, const ByteFile &text,
                       const ReadingOptions &reading) {
  ReadingOptions raw = reading;
  raw.isRaw = true; // an array is expected
  NumberFile file{path, openByteFile(path, "file of numbers", raw).bytes, 0, input.width};
  std::vector<int64_t> found = readHeader(file);
  int64_t rows = text.tokenCount();
  NpyHeader expected;
  expected.shape = {rows, input.width};
  if (found != expected.shape && (input.width > 1 || found != std::vector{rows})) {
    NpyHeader other;
    other.shape = found;
    throw UserError(showPath(file.path.native()) + ": expected an array of the shape " +
                    expected.showShape() + ", a row for each " +
                    (text.isText() ? "byte" : "token") + " of " + showPath(text.path.native()) +
                    ", found " + other.showShape() + "; row i belongs to it");
  }
  size_t size = static_cast<size_t>(rows * input.width) * sizeof(float);
  if (file.bytes.size() - file.start != size) {
    throw UserError(showPath(path.native()) + ": expected " + std::to_string(size) +
                    " bytes of numbers after the header, found " +
                    std::to_string(file.bytes.size() - file.start) + "; write the file again");
  }
  checkNumbers(file, rows, input.isTarget);
  return file;
}

void writeNumbers(const NumberFiles &files, size_t text, int64_t start, int64_t count, int64_t row,
                  const BatchInputs &into) {
  for (const auto &[name, numbers] : into.numbers) {
    int64_t size = numbers.context * numbers.stride;
    std::span<float> to =
        numbers.rows.subspan(static_cast<size_t>(row * size), static_cast<size_t>(size));
    std::ranges::fill(to, 0.0F);
    auto found = files.find(name);
    if (found == files.end()) {
      continue;
    }
    const NumberFile &file = found->second[text];
    int64_t all = static_cast<int64_t>(file.bytes.size() - file.start) /
                  static_cast<int64_t>(sizeof(float)) / file.width;
    std::vector<float> rows(static_cast<size_t>(count * file.width));
    int64_t first = start % all, ahead = std::min(count, all - first);
    auto before = static_cast<size_t>(ahead * file.width);
    copyNumbers(file, first * file.width, std::span(rows).first(before));
    copyNumbers(file, 0, std::span(rows).subspan(before)); // wraps around in a cyclic text
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(rows.begin() + i * file.width, file.width, to.begin() + i * numbers.stride);
    }
  }
}

} // namespace sluice::runtime
