// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an hourglass stage expands to.
#pragma once

#include "Fields.h"

#include <functional>

namespace certify {

/// Makes the values of one primitive stage, whose path is given first; each returns its result.
struct StageMaker {
  std::function<size_t(const std::string &, size_t x)> norm;
  std::function<size_t(const std::string &, int64_t by, size_t x)> shift;
  std::function<size_t(const std::string &, int64_t factor, bool linear, size_t x)> shorten,
      upsample;
  std::function<size_t(const std::string &, size_t x, size_t y)> add;
  std::function<size_t(const Layer &, const std::string &, size_t x, std::optional<size_t> over)>
      layer;
};

/// Down from level to level, each shortened from the one before, then up. The stream that a level
/// leaves on the way down is added where the way up comes back to its factor.
class Hourglass {
public:
  Hourglass(const Fields &fields, const StageMaker &make);

  size_t expand(const std::string &path, size_t x);

private:
  struct Names {
    std::string prefix;
    int64_t count = 0;
    std::string operator()() { return prefix + ".inside." + std::to_string(count++); }
  };

  size_t descend(size_t at, const std::string &path, size_t x);
  size_t stack(int64_t layers, Names &next, size_t x);
  size_t goDown(int64_t k, Names &next, size_t x);
  size_t goUp(int64_t k, Names &next, size_t x, std::optional<size_t> skip);
  Layer resampler(Mask mask) const;

  const StageMaker &make;
  std::vector<Level> levels;
  size_t bottom = 0, up = 0; ///< the coarsest level; the next one on the way up
  int64_t factor = 1;        ///< reached
  Layer settings;
  std::optional<int64_t> shift;
  bool shiftsOutput = false;  ///< what was upsampled is shifted, not what is shortened
  size_t down, upwards, keys; ///< index of the value of "shorten", "upsample", "shorten_keys"
};

} // namespace certify
