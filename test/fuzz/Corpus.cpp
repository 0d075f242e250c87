// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Corpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

using namespace sluice;
using namespace sluice::fuzz;

std::vector<std::string> fuzz::corpus(const std::string &folder) {
  std::vector<std::string> paths;
  for (const auto &entry :
       std::filesystem::directory_iterator(std::string(SLUICE_SOURCE_DIR) + "/" + folder)) {
    std::string kind = entry.path().extension().string();
    if (kind == ".json" || kind == ".mlir") {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string fuzz::readText(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    throw std::runtime_error("cannot read " + path);
  }
  return text.str();
}

CheckerResults fuzz::runCheckersOnFile(const std::string &path, bool replay) {
  return path.ends_with(".mlir") ? runCheckersOnIR(readText(path), path, replay)
                                 : runCheckersOnSpec(readText(path), path, replay);
}

std::string fuzz::modelIR(const std::string &path) {
  return path.ends_with(".mlir") ? readText(path) : importToText(readText(path), path);
}

Expected fuzz::readExpected(const std::string &path) {
  std::ifstream file(std::filesystem::path(path).replace_extension(".expected"));
  Expected expected;
  file >> expected.line >> std::ws;
  std::getline(file, expected.words);
  if (expected.line == 0 || expected.words.empty()) {
    throw std::runtime_error("expected a line and words in the .expected file of " + path);
  }
  for (std::string key, value; file >> key >> std::ws && std::getline(file, value);) {
    if (key == "place") {
      expected.isDefault = value == "defaults";
      continue;
    }
    std::string *field = key == "verdict"  ? &expected.verdict
                         : key == "mode"   ? &expected.mode
                         : key == "replay" ? &expected.replay
                                           : nullptr;
    if (!field) {
      throw std::runtime_error("unknown key " + key + " in the .expected file of " + path);
    }
    *field = value;
  }
  return expected;
}
