// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shorten-factor dropout (Nawrot et al. 2021, section 4.1): one model for each factor of a set,
// with the same weights.

#include "Stages.h"
#include "sluice/Spec/Expansion.h"

#include <algorithm>

namespace sluice::spec {
namespace {

const Stage *findDrawing(const Model &model) {
  auto draws = [](const Stage &stage) {
    const auto *hourglass = std::get_if<Hourglass>(&stage.settings);
    return hourglass && !hourglass->factors.empty();
  };
  auto found = std::ranges::find_if(model.stages, draws);
  auto second = found == model.stages.end()
                    ? found
                    : std::find_if(std::next(found), model.stages.end(), draws);
  if (second != model.stages.end()) {
    throw Failure{{second->at("hierarchy"),
                   "expected one stage at most that draws its factor, found a second one; write "
                   "one factor a level here"}};
  }
  return found == model.stages.end() ? nullptr : &*found;
}

std::string shapeOf(std::vector<Tensor>::const_iterator tensor, const std::vector<Tensor> &list) {
  if (tensor == list.end()) {
    return "no more weights";
  }
  std::string text;
  for (int64_t size : tensor->shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  }
  return tensor->name + " of [" + text + "]";
}

constexpr const char *otherMethods =
    "shorten and upsample by methods whose weights do not depend on it, such as \"average\" and "
    "\"repeat\"";

/// Of weights that differ between two factors.
std::string remedyFor(const Tensor &one, const Tensor &other) {
  if (one.name == other.name && one.name.ends_with("attention.relative.table")) {
    return "rows at the greater factor are fewer than these distances; say \"relative\": "
           "{\"bias\": " +
           std::to_string(std::min(one.shape.front(), other.shape.front())) + "} or less";
  }
  return otherMethods;
}

/// Weights are shared, so they are the same at each factor.
void checkWeights(const Stage &stage, const std::vector<Model> &models,
                  const std::vector<int64_t> &factors) {
  std::vector<Tensor> first = tensors(models.front(), expand(models.front()));
  for (size_t i = 1; i < models.size(); ++i) {
    std::vector<Tensor> other = tensors(models[i], expand(models[i]));
    auto [a, b] = std::ranges::mismatch(first, other, [](const Tensor &x, const Tensor &y) {
      return x.name == y.name && x.shape == y.shape;
    });
    if (a != first.end() || b != other.end()) {
      throw Failure{
          {stage.at("hierarchy"),
           "expected weights that fit every factor, found " + shapeOf(a, first) + " at factor " +
               std::to_string(factors.front()) + " and " + shapeOf(b, other) + " at factor " +
               std::to_string(factors[i]) + "; " +
               (a != first.end() && b != other.end() ? remedyFor(*a, *b) : otherMethods)}};
    }
  }
}

} // namespace

void setFactor(std::vector<Hourglass::Level> &levels, int64_t factor) {
  for (Hourglass::Level &level : levels) {
    level.factor = level.isDrawn ? factor : level.factor;
  }
}

void checkVariants(const Model &model) {
  const Stage *stage = findDrawing(model);
  if (!stage) {
    return checkExpansion(model);
  }
  std::vector<Model> models = model.variants();
  std::ranges::for_each(models, checkExpansion);
  checkWeights(*stage, models, model.factors());
}

std::vector<int64_t> Model::factors() const {
  for (const Stage &stage : stages) {
    const auto *hourglass = std::get_if<Hourglass>(&stage.settings);
    if (hourglass && !hourglass->factors.empty()) {
      return hourglass->factors;
    }
  }
  return {};
}

Model Model::withFactor(int64_t factor) const {
  Model model = *this;
  for (Stage &stage : model.stages) {
    if (auto *hourglass = std::get_if<Hourglass>(&stage.settings)) {
      setFactor(hourglass->hierarchy, factor);
    }
  }
  return model;
}

std::vector<Model> Model::variants() const {
  std::vector<Model> models;
  for (int64_t factor : factors()) {
    models.push_back(withFactor(factor));
  }
  return models.empty() ? std::vector{*this} : models;
}

} // namespace sluice::spec
