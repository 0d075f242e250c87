// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of papers' tables.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace sluice::test {

/// Whether a spec of models/ is tried where a test takes long: the rows of the multi-scale
/// transformers' tables differ in sizes alone, so of each kind one stands for all.
inline bool standsForItsKind(const std::filesystem::path &spec) {
  static const std::set<std::string> chosen = {
      "multiscale-vanilla-12-window-64", "multiscale-top-down-2-4-8-12",
      "multiscale-top-down-7-7-8-8-convolution", "multiscale-coarse-16"};
  std::string name = spec.stem().string();
  return !name.starts_with("multiscale-") || chosen.contains(name);
}

} // namespace sluice::test
