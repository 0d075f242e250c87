// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Transforms/ParameterGroups.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace sluice;
using Run = ParameterGroups::Run;

/// Returns the rate and the decay of a weight: of its group or, if it has none, of the training.
static Run getSettings(DictionaryAttr training, DictionaryAttr group, bool decays) {
  auto getNumber = [](DictionaryAttr from, StringRef name) {
    return static_cast<float>(from.getAs<FloatAttr>(name).getValueAsDouble());
  };
  Run run{0, 1, decays ? getNumber(training, "weight_decay") : 0};
  if (group) {
    run.factor = getNumber(group, "factor");
    run.decay = group.contains("weight_decay") ? getNumber(group, "weight_decay") : run.decay;
  }
  return run;
}

/// Returns the groups of weights, by the names of the weights.
static llvm::StringMap<DictionaryAttr> mapGroups(DictionaryAttr training) {
  llvm::StringMap<DictionaryAttr> groups;
  for (auto group : training.getAs<ArrayAttr>("groups").getAsRange<DictionaryAttr>()) {
    for (auto name : group.getAs<ArrayAttr>("weights").getAsRange<StringAttr>()) {
      groups.try_emplace(name, group);
    }
  }
  return groups;
}

/// Adds the numbers `begin` to `end` of the flat arena to the rows. Neighbours with the same
/// settings are one run.
static void addNumbers(std::vector<SmallVector<Run, 1>> &rows, int64_t begin, int64_t end,
                       Run settings) {
  for (int64_t at = begin; at < end; at = (at / flatRowElements + 1) * flatRowElements) {
    SmallVector<Run, 1> &row = rows[at / flatRowElements];
    if (row.empty() || row.back().factor != settings.factor || row.back().decay != settings.decay) {
      settings.begin = static_cast<int32_t>(at % flatRowElements);
      row.push_back(settings);
    }
  }
}

ParameterGroups::ParameterGroups(ModuleOp module, const ParameterLayout &layout) {
  auto training = getFact<SluiceDialect::TrainingAttrHelper>(module);
  if (!training || !training.contains("groups")) {
    return;
  }
  llvm::StringMap<DictionaryAttr> groups = mapGroups(training);
  std::vector<SmallVector<Run, 1>> rows(layout.rows);
  for (const ParameterLayout::Entry &entry : layout.entries) {
    ParameterOp parameter = entry.parameter;
    auto type = cast<RankedTensorType>(parameter.getType());
    int64_t inner = entry.elements / type.getDimSize(0);
    int64_t at = entry.row * flatRowElements;
    for (auto [name, size] : llvm::zip_equal(parameter.getNames(), parameter.getSizes())) {
      DictionaryAttr group = groups.lookup(cast<StringAttr>(name));
      addNumbers(rows, at, at + size * inner, getSettings(training, group, parameter.getDecay()));
      at += size * inner;
    }
  }
  size_t most = 1;
  for (const SmallVector<Run, 1> &row : rows) {
    most = std::max(most, row.size());
  }
  for (size_t i = 0; i < most; ++i) {
    std::vector<Run> &each = runs.emplace_back();
    for (const SmallVector<Run, 1> &row : rows) {
      each.push_back(i < row.size() ? row[i] : Run{static_cast<int32_t>(flatRowElements)});
    }
  }
}

std::string sluice::getRunName(StringRef table, size_t index) {
  return index == 0 ? table.str() : (table + "." + Twine(index)).str();
}
