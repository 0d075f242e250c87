// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions shared by the runtime's tests: a temporary folder, the bigram model as an artifact,
// texts.
#pragma once

#include "sluice/Runtime/Execute/Executor.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice::test {

using sluice::Path;

/// A folder that is removed with the object.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  Path operator/(const std::string &name) const { return path / name; }

  Path path;
};

void writeFile(const Path &path, const std::string &text);
std::string readFile(const Path &path);

/// The shared object of Inputs/bigram.c.
std::string bigramLibrary();

/// `elf` with a trailer, written here from docs/plan-and-artifact.md without the runtime's
/// makeTrailer.
std::string withTrailer(const std::string &elf);

/// Writes the bigram artifact into `folder` and loads it.
std::shared_ptr<const runtime::Artifact> bigramArtifact(const TemporaryFolder &folder);

/// The same model with GPU code for the fake of NVIDIA's driver (FakeCuda.cpp).
std::shared_ptr<const runtime::Artifact> gpuBigramArtifact(const TemporaryFolder &folder);

/// Text in which each letter predicts the next well: `length` bytes below 128.
std::string easyText(size_t length, unsigned seed = 1);

/// The message of the UserError that `action` throws; a test failure and "" if it throws none.
std::string userError(const std::function<void()> &action);

nlohmann::json bigramPlan();

} // namespace sluice::test
