// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of papers' tables.
#pragma once

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>

namespace sluice::test {

/// True if a slow test includes the spec. Many rows of the papers' tables differ only in sizes, so
/// one of each kind is enough (test/paper-sample.txt). Most of models/small have the stages of
/// models/tiny.
inline bool isRepresentative(const std::filesystem::path &spec) {
  static const std::set<std::string> chosen = [] {
    std::ifstream file(SLUICE_SOURCE_DIR "/test/paper-sample.txt");
    std::set<std::string> names;
    for (std::string name; std::getline(file, name);) {
      names.insert(name);
    }
    if (names.empty()) {
      throw std::runtime_error("test/paper-sample.txt: expected names of specs, found none");
    }
    return names;
  }();
  std::string folder = spec.parent_path().filename(), name = spec.stem();
  if (folder == "small") {
    return name == "hourglass" || name == "vanilla";
  }
  bool isRow = name.starts_with("multiscale-") || name.starts_with("hourglass-") ||
               name.starts_with("dynamic-") || name.starts_with("umst-") ||
               name.starts_with("haed-");
  return !isRow || folder != "papers" || chosen.contains(name);
}

} // namespace sluice::test
