// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Specs in folders, as parameters of tests, and short ways to write and read specs.
#pragma once

#include "sluice/Conversion/ParseSpec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace sluice {

inline std::string readAll(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Paths of all specs below a folder, without their extension.
inline std::vector<std::string> listSpecs(const std::filesystem::path &folder) {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      names.push_back(std::filesystem::relative(entry.path(), folder).replace_extension().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string toTestName(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

/// Returns a spec of width 12 and 2 heads whose stages between embedding and head are `stages`,
/// each followed by a comma. They start on line 7.
inline std::string specText(const std::string &stages,
                            const std::string &defaults = R"("heads": 2)",
                            const std::string &embedding = "", const std::string &head = "") {
  return R"({
  "sluice": 1,
  "vocabulary": 11, "context": 9, "batch": 2, "width": 12,
  "defaults": { )" +
         defaults + R"( },
  "stages": [
    { "op": "embedding")" +
         embedding + " },\n" + stages + R"(
    { "op": "head")" +
         head + " }\n  ]\n}\n";
}

/// Returns the context of the specs of a test program.
inline mlir::MLIRContext &getContext() {
  static mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  return context;
}

/// Reads a valid spec.
inline ParsedSpec readGood(const std::string &text) {
  spec::Diagnostic error;
  std::optional<ParsedSpec> spec = parseSpec(getContext(), text, "dir/test.json", error);
  EXPECT_TRUE(spec) << error.format() << "\n" << text;
  return std::move(*spec);
}

/// Reads the file of a valid spec.
inline ParsedSpec readGoodFile(const std::string &path) {
  spec::Diagnostic error;
  std::optional<ParsedSpec> spec = parseSpecFile(getContext(), path, error);
  EXPECT_TRUE(spec) << error.format();
  return std::move(*spec);
}

/// Returns the error of a spec that is not valid.
inline spec::Diagnostic readBad(const std::string &text, const std::string &file = "f") {
  spec::Diagnostic error;
  EXPECT_FALSE(parseSpec(getContext(), text, file, error)) << "accepted: " << text;
  return error;
}

/// Returns the stages of a spec in their order.
inline llvm::SmallVector<mlir::Operation *> getStages(const ParsedSpec &spec) {
  llvm::SmallVector<mlir::Operation *> stages;
  for (auto stage : spec.getModel().getBody().getOps<spec::StageInterface>()) {
    stages.push_back(stage);
  }
  return stages;
}

template <typename Op> Op getStage(const ParsedSpec &spec, size_t index) {
  return mlir::cast<Op>(getStages(spec)[index]);
}

/// Returns the one op of this kind in the model.
template <typename Op> Op getOnly(const ParsedSpec &spec) {
  return *spec.getModel().getBody().getOps<Op>().begin();
}

/// "dir/test.json:7:5"
inline std::string showPlace(mlir::Operation *op, llvm::StringRef key) {
  return spec::toString(getKeyPlace(op, key));
}

} // namespace sluice
