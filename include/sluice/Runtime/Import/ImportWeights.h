// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the weights of a model from another program's state dict by a map.
#pragma once

#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Runtime/Import/WeightMap.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// A weight of a model.
struct WeightShape {
  std::string name;
  std::vector<int64_t> shape;
  /// Head size, if the rows are queries or keys that are rotated by position; 0 if they are not;
  /// none if unknown.
  std::optional<int64_t> rotatedHead = {};
};

/// The model that the weights are for.
struct ImportModel {
  std::string origin;               ///< path of its spec or artifact, for messages
  std::vector<WeightShape> weights; ///< in the order of the new file
};

/// A weight with its numbers, dense and row-major.
struct ImportedWeight {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> data;
};

struct ImportedWeights {
  std::vector<ImportedWeight> weights; ///< in the model's order; without a model, the rules' order
  size_t used = 0, dropped = 0;        ///< tensors of the state
  size_t filled = 0;                   ///< weights that a rule filled with a number
};

/// One file of a state dict.
struct StateFile {
  std::string origin; ///< path, for messages
  SafetensorsFile tensors;
};

/// Applies a map to the tensors of all files. F32, F16 and BF16 convert to f32 exactly, F64 to the
/// nearest f32, ties to even.
///
/// Throws UserError, with the tensor or the rule's place, unless
/// - each tensor of the state is used by rules, or dropped by one;
/// - each rule finds a tensor, or is optional;
/// - each weight of the model, with its shape, is computed exactly once. Without a model, no weight
///   is computed twice;
/// - heads whose rows are reordered have the model's head size, and are rotated by the model;
/// - all numbers are finite in f32.
ImportedWeights importWeights(const WeightMap &map, std::span<const StateFile> files,
                              const std::optional<ImportModel> &model);

} // namespace sluice::runtime
