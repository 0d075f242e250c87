// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Memory.h"

#include "llvm/Support/FormatVariadic.h"
#include <cstring>

using namespace mlir;
using namespace sluice;
using namespace sluice::oracle;

template <typename T> static double decode(const uint8_t *from) {
  T number{};
  std::memcpy(&number, from, sizeof number);
  return double(number);
}

static double decodeBf16(const uint8_t *from) {
  uint32_t bits = 0;
  std::memcpy(reinterpret_cast<uint8_t *>(&bits) + 2, from, 2);
  float number = 0;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

/// Returns the function that reads a number of `type` from memory.
static double (*getDecoder(Type type))(const uint8_t *) {
  return type.isF32()                         ? decode<float>
         : type.isF64()                       ? decode<double>
         : type.isBF16()                      ? decodeBf16
         : type.isInteger(8)                  ? decode<int8_t>
         : type.getIntOrFloatBitWidth() == 32 ? decode<int32_t>
                                              : decode<int64_t>;
}

TensorRows::TensorRows(Value tensor, const void *data) {
  auto type = cast<RankedTensorType>(tensor.getType());
  ofBf16 = type.getElementType().isBF16();
  ofWholes = type.getElementType().isInteger(8);
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  columnCount = type.getRank() == 0 ? 1 : type.getShape().back();
  rowCount = type.getNumElements() / std::max<int64_t>(1, columnCount);
  int64_t stride = type.getRank() == 3 ? dispatch::paddedWidth(columnCount) : columnCount;
  const auto *first = static_cast<const uint8_t *>(data);
  double (*decoder)(const uint8_t *) = getDecoder(type.getElementType());
  numbers.reserve(size_t(rowCount * columnCount));
  for (int64_t row = 0; row < rowCount; ++row) {
    for (int64_t column = 0; column < columnCount; ++column) {
      numbers.push_back(decoder(first + (row * stride + column) * bytes));
    }
  }
}

ValueComparison::ValueComparison(Operation *dispatch, const OracleLaunch &launch, unsigned result,
                                 Judgement &judgement)
    : launch(launch), result(result), judgement(judgement),
      memory(dispatch->getResult(result), launch.results[result]) {
  if (judgement.results.size() <= result) {
    judgement.results.resize(result + 1);
  }
}

ValueComparison::~ValueComparison() {
  ResultJudgement &own = judgement.results[result];
  own.meanSignedUlps = own.rounded ? signedUlps / double(own.rounded) : 0;
}

/// Counts the sign of the last rounding, only if that is the entire error; otherwise other errors
/// determine the signs.
void ValueComparison::count(double found, Number expected) {
  double ulp = std::exp2(std::floor(std::log2(std::abs(expected.value))) - 7);
  bool isLast = std::isfinite(ulp) && ulp > 0 && expected.error < ulp / 64;
  // Counts each rounded number once, because equal values round alike (equal rows, biases after
  // their first step).
  if (memory.isBf16() && isLast && counted.insert(found).second) {
    ++judgement.results[result].rounded;
    signedUlps += (found - expected.value) / ulp * (expected.value < 0 ? -1 : 1);
  }
}

constexpr double leastBound = 0x1p-126; // below it numbers lose digits, or are flushed to zero

void ValueComparison::check(int64_t row, int64_t column, Number expected) {
  Number stored = memory.isBf16()    ? roundedToBf16(expected)
                  : memory.isWhole() ? roundedToWhole(expected)
                                     : expected;
  double found = memory.at(row, column).value;
  count(found, expected);
  judge(row, column, stored, found, stored.error + leastBound);
}

void ValueComparison::checkSum(int64_t column, Number expected) {
  double found = 0;
  for (int64_t row = 0; row < memory.rows(); ++row) {
    found += memory.at(row, column).value;
  }
  judge(-1, column, expected, found, expected.error + leastBound);
}

void ValueComparison::judge(int64_t row, int64_t column, Number stored, double found,
                            double bound) {
  constexpr int64_t most = 4;
  ResultJudgement &own = judgement.results[result];
  if (launch.observe) {
    launch.observe({result, row, column, stored.value, bound});
  }
  ++own.checked;
  own.unbounded += std::isinf(bound) ? 1 : 0;
  // Accepts any finite number without a bound, but a finite number must not become infinite or NaN.
  bool isRight =
      std::isfinite(stored.value)
          ? std::abs(found - stored.value) <= bound || (std::isinf(bound) && !std::isnan(found))
          : found == stored.value || (std::isnan(found) && std::isnan(stored.value));
  if (isRight) {
    return;
  }
  if (++own.mismatches <= most) {
    judgement.worst.push_back({result, row, column, found, stored.value, bound});
  }
}

int64_t sluice::oracle::validLength(const OracleLaunch &launch, int64_t batch, int64_t factor,
                                    int64_t all) {
  int64_t length = launch.lengths ? launch.lengths[batch] : launch.length;
  return factor == 0 ? all : std::min(all, (length + factor - 1) / factor);
}

DomainRows::DomainRows(Operation *dispatch, const OracleLaunch &launch)
    : domain(cast<dispatch::KernelInterface>(dispatch).getDomain()),
      positionCount(domain.getPositions()), domainFactor(domain.getFactor()), launch(launch) {
  if (domain.getScheduled()) {
    schedule = static_cast<const int64_t *>(launch.operands[dispatch->getNumOperands() - 1]);
  }
}

int64_t DomainRows::position(int64_t row) const {
  const int64_t *run = getRun(row);
  return (run ? run[0] : 0) + row % positions();
}

int64_t DomainRows::length(int64_t row, int64_t factor, int64_t all) const {
  const int64_t *run = getRun(row);
  return run && factor != 0 ? (run[2] + factor - 1) / factor
                            : validLength(launch, batch(row), factor, all);
}

bool DomainRows::isValid(int64_t row) const {
  if (const int64_t *run = getRun(row)) {
    return row % positions() < run[1];
  }
  return domainFactor == 0 ||
         (row / positions() < launch.rows &&
          row % positions() < validLength(launch, batch(row), domainFactor, positions()));
}

int64_t DomainRows::validRows() const {
  int64_t valid = 0;
  for (int64_t row = 0; row < count(); ++row) {
    valid += isValid(row);
  }
  return valid;
}

/// Returns four standard deviations of the mean of roundings to nearest, each uniform over an ulp.
static double biasAllowed(int64_t rounded) { return 4 * 0.29 / std::sqrt(double(rounded)); }

bool ResultJudgement::isBiased() const {
  return rounded > 0 && std::abs(meanSignedUlps) > biasAllowed(rounded);
}

bool Judgement::isBiased() const {
  return llvm::any_of(results, [](const ResultJudgement &result) { return result.isBiased(); });
}

bool Judgement::isWrong() const {
  return llvm::any_of(results, [](const ResultJudgement &result) { return result.mismatches > 0; });
}

bool Judgement::passed() const { return !isWrong() && !isBiased(); }

std::string Judgement::str() const {
  std::string text;
  for (const Mismatch &m : worst) {
    std::string row = m.row < 0 ? "sum of all rows" : "row " + std::to_string(m.row);
    text += llvm::formatv("result {0}, {1}, column {2}: expected {3} within {4}, found {5}\n",
                          m.result, row, m.column, m.expected, m.bound, m.found);
  }
  for (auto [i, result] : llvm::enumerate(results)) {
    if (result.mismatches > 0) {
      text += llvm::formatv("result {0}: {1} of {2} elements are farther off than rounding\n", i,
                            result.mismatches, result.checked);
    }
    if (result.isBiased()) {
      text += llvm::formatv("result {0}: the mean error of {1} roundings is {2} ulp: expected to "
                            "nearest, within {3} of zero\n",
                            i, result.rounded, result.meanSignedUlps, biasAllowed(result.rounded));
    }
  }
  return text;
}
