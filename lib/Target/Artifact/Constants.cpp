// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constant tables, computed in float64 by the compiler and stored in the artifact.
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Target/Artifact.h"
#include "sluice/Transforms/ParameterGroups.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace mlir;
using namespace sluice;

namespace {

/// Returns a table of angles: entry (p, 2i) is `even` and (p, 2i + 1) is `odd` of p stride
/// base^(-2i / width).
std::vector<float> angleTable(ParameterOp parameter, double (*even)(double),
                              double (*odd)(double)) {
  auto type = cast<RankedTensorType>(parameter.getType());
  int64_t rows = type.getDimSize(0);
  int64_t width = type.getDimSize(1);
  std::vector<float> values(rows * width);
  for (int64_t p = 0; p < rows; ++p) {
    for (int64_t c = 0; c < width; ++c) {
      double exponent = -static_cast<double>(c / 2 * 2) / static_cast<double>(width);
      double angle = static_cast<double>(p * int64_t(parameter.getStride())) *
                     std::pow(parameter.getBase().convertToDouble(), exponent);
      values[p * width + c] = static_cast<float>(c % 2 == 0 ? even(angle) : odd(angle));
    }
  }
  return values;
}

/// Returns a column of zeros with ones in the rows that the parameter lists.
std::vector<float> memberTable(ParameterOp parameter) {
  std::vector<float> values(cast<RankedTensorType>(parameter.getType()).getNumElements());
  for (int64_t row : parameter.getMembers().value_or(ArrayRef<int64_t>())) {
    values[row] = 1;
  }
  return values;
}

/// Returns one number per flat row, from its parameter.
std::vector<float> perRow(const ParameterLayout &layout,
                          llvm::function_ref<double(ParameterOp)> value) {
  std::vector<float> values(layout.rows);
  for (const ParameterLayout::Entry &entry : layout.entries) {
    int64_t rows = (entry.elements + flatRowElements - 1) / flatRowElements;
    std::fill_n(values.begin() + entry.row, rows, static_cast<float>(value(entry.parameter)));
  }
  return values;
}

/// Stores, for each flat row of an identity matrix, the distance between its ones, and the distance
/// of the row's start from the last one before it. Every number of other parameters counts as a
/// one.
void putDiagonals(const ParameterLayout &layout,
                  llvm::function_ref<void(const std::string &, const void *, size_t)> put) {
  std::vector<int32_t> periods(layout.rows, 1), places(layout.rows, 0);
  for (const ParameterLayout::Entry &entry : layout.entries) {
    ParameterOp parameter = entry.parameter;
    int64_t period = cast<RankedTensorType>(parameter.getType()).getShape().back() + 1;
    for (int64_t at = 0; parameter.getInitial() == "identity" && at < entry.elements;
         at += flatRowElements) {
      int64_t row = entry.row + at / flatRowElements;
      periods[row] = static_cast<int32_t>(period);
      places[row] = static_cast<int32_t>(at % period);
    }
  }
  put("initial.period", periods.data(), periods.size() * sizeof(int32_t));
  put("initial.place", places.data(), places.size() * sizeof(int32_t));
}

/// Stores the rates and decays of the optimizer. Without groups of weights, a decay is 1 for
/// matrices and 0 elsewhere: the kernel multiplies it by the training's.
void putDecays(ModuleOp module, const ParameterLayout &layout,
               llvm::function_ref<void(const std::string &, const void *, size_t)> put) {
  auto putTable = [&](const std::string &name, const auto &values) {
    put(name, values.data(), values.size() * sizeof(values.front()));
  };
  ParameterGroups groups(module, layout);
  if (groups.countRuns() == 0) {
    putTable("decay", perRow(layout, [](ParameterOp parameter) {
               return parameter.getDecay() ? 1.0 : 0.0;
             }));
  }
  for (size_t i = 0; i < groups.countRuns(); ++i) {
    std::vector<int32_t> begins;
    std::vector<float> factors, decays;
    for (const ParameterGroups::Run &run : groups.getRuns(i)) {
      begins.push_back(run.begin);
      factors.push_back(run.factor);
      decays.push_back(run.decay);
    }
    putTable(getRunName("begin", i), begins);
    putTable(getRunName("rate", i), factors);
    putTable(getRunName("decay", i), decays);
  }
}

/// Returns the row of a table for each distance, repeated for all heads and rows of the batch. The
/// name has the distance of the middle row, and the number of rows and of distances.
std::vector<int32_t> clipDistances(StringRef name, Type type) {
  SmallVector<StringRef> words;
  name.split(words, '.');
  int64_t middle = 0, rows = 1, distances = 1;
  words[1].getAsInteger(10, middle);
  words[2].getAsInteger(10, rows);
  words[3].getAsInteger(10, distances);
  std::vector<int32_t> clipped(cast<RankedTensorType>(type).getNumElements());
  int64_t columns = cast<RankedTensorType>(type).getDimSize(1);
  for (size_t i = 0; i < clipped.size(); ++i) {
    int64_t distance = static_cast<int64_t>(i) % columns % distances;
    int64_t row = distance - middle + (rows - 1) / 2;
    clipped[i] = static_cast<int32_t>(std::clamp<int64_t>(row, 0, rows - 1));
  }
  return clipped;
}

} // namespace

std::vector<char> sluice::makeConstants(ModuleOp module, const MemoryPlan &memory) {
  std::vector<char> bytes(memory.constantsBytes);
  auto put = [&](const std::string &name, const void *data, size_t size) {
    auto place = memory.places.find("constant:" + name);
    if (place != memory.places.end()) {
      std::memcpy(bytes.data() + (place->second.offset - memory.constantsOffset), data, size);
    }
  };
  auto putFloats = [&](const std::string &name, const std::vector<float> &values) {
    put(name, values.data(), values.size() * sizeof(float));
  };
  for (auto parameter : module.getOps<ParameterOp>()) {
    if (parameter.getInitial() == "rotary") {
      putFloats(parameter.getSymName().str(), angleTable(parameter, std::cos, std::sin));
    } else if (parameter.getInitial() == "sinusoidal") {
      putFloats(parameter.getSymName().str(), angleTable(parameter, std::sin, std::cos));
    } else if (parameter.getInitial() == "members") {
      putFloats(parameter.getSymName().str(), memberTable(parameter));
    } else if (parameter.getInitial() == "rotations") {
      putFloats(parameter.getSymName().str(), drawRotations(parameter));
    }
  }
  ParameterLayout layout(module);
  putDecays(module, layout, put);
  putFloats("initial.mean", perRow(layout, [](ParameterOp parameter) {
              bool hasOnes =
                  parameter.getInitial() == "ones" || parameter.getInitial() == "identity";
              return hasOnes ? 1.0 : 0.0;
            }));
  putDiagonals(layout, put);
  putFloats("initial.deviation", perRow(layout, [](ParameterOp parameter) {
              return parameter.getInitial() == "normal" ? parameter.getDeviation().convertToDouble()
                                                        : 0.0;
            }));
  putFloats("initial.bound", perRow(layout, [](ParameterOp parameter) {
              return parameter.getInitial() == "uniform"
                         ? parameter.getDeviation().convertToDouble()
                         : 0.0;
            }));
  for (const auto &[name, place] : memory.places) {
    if (StringRef(name).starts_with("constant:clipped.")) {
      std::vector<int32_t> rows = clipDistances(name, place.type);
      put(name.substr(name.find(':') + 1), rows.data(), rows.size() * sizeof(int32_t));
    }
    if (StringRef(name).starts_with("constant:places.")) {
      std::vector<int32_t> places(cast<RankedTensorType>(place.type).getNumElements());
      std::iota(places.begin(), places.end(), 0);
      put(name.substr(name.find(':') + 1), places.data(), places.size() * sizeof(int32_t));
    }
    // One per length of an axis.
    if (StringRef(name).starts_with("constant:positions")) {
      auto type = cast<RankedTensorType>(place.type);
      std::vector<int32_t> positions(type.getNumElements());
      for (size_t i = 0; i < positions.size(); ++i) {
        positions[i] = static_cast<int32_t>(i % type.getDimSize(1));
      }
      put(name.substr(name.find(':') + 1), positions.data(), positions.size() * sizeof(int32_t));
    }
  }
  return bytes;
}
