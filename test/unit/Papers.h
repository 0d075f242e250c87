// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of papers' tables.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace sluice::test {

/// Whether a spec of models/ is tried where a test takes long: many rows of the papers' tables
/// differ in sizes alone, so of each kind one stands for all.
inline bool standsForItsKind(const std::filesystem::path &spec) {
  static const std::set<std::string> chosen = {
      "hourglass-10@1",
      "hourglass-10@1-xl",
      "hourglass-2@1-1@2-4@4-1@2-2@1-repeat",
      "hourglass-4@1-8@4-4@1",
      "hourglass-2@1-24@4-2@1-attention_linear-attention_linear",
      "hourglass-cifar-1@1-8@3-1@1-average-attention_linear",
      "multiscale-vanilla-12-window-64",
      "multiscale-top-down-2-4-8-12",
      "multiscale-top-down-7-7-8-8-convolution",
      "multiscale-coarse-16"};
  std::string name = spec.stem().string();
  bool isRow = name.starts_with("multiscale-") || name.starts_with("hourglass-");
  return !isRow || spec.parent_path().filename() != "papers" || chosen.contains(name);
}

} // namespace sluice::test
