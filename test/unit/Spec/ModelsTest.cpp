// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every spec in models/ is good, and those of papers are what their names say.

#include "sluice/Spec/Expansion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

using namespace sluice::spec;

namespace {

std::vector<std::string> filesUnder(const std::string &folder) {
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

Model read(const std::string &file) {
  Diagnostic error;
  std::optional<Model> model = readFile(file, error);
  if (!model) {
    ADD_FAILURE() << error.format();
    return {};
  }
  return std::move(*model);
}

class ShippedModel : public testing::TestWithParam<std::string> {};

TEST_P(ShippedModel, Expands) {
  Model model = read(GetParam());
  std::vector<Primitive> primitives = expand(model);
  ASSERT_GE(primitives.size(), 3u);
  EXPECT_EQ(primitives.front().op(), Op::Embedding);
  EXPECT_EQ(primitives.back().op(), Op::Head);
  for (size_t i = 0; i < primitives.size(); ++i) {
    EXPECT_EQ(primitives[i].id, static_cast<int64_t>(i));
    EXPECT_LT(primitives[i].input, primitives[i].id);
    EXPECT_LT(primitives[i].second, primitives[i].id);
    EXPECT_EQ(primitives[i].location.file, GetParam());
  }
  std::set<std::string> names;
  for (const Tensor &tensor : tensors(model, primitives)) {
    EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name << " twice";
  }
}

class PaperRow : public testing::TestWithParam<std::string> {};

TEST_P(PaperRow, IsWhatItsNameSays) {
  Model model = read(GetParam());
  std::string hierarchy = "hourglass";
  const auto &hourglass = std::get<Hourglass>(model.stages.at(1).settings);
  for (const Hourglass::Level &level : hourglass.hierarchy) {
    hierarchy += "-" + std::to_string(level.layers) + "@" + std::to_string(level.factor);
  }
  hierarchy += hourglass.hierarchy.size() > 1 ? "-repeat" : "";
  EXPECT_EQ(std::filesystem::path(GetParam()).stem().string(), hierarchy);
  EXPECT_EQ(model.name, hierarchy);
  EXPECT_EQ(model.width, 512);
  EXPECT_EQ(hourglass.layer.heads, 8);
  EXPECT_EQ(hourglass.layer.feedForward, 2048);
  EXPECT_EQ(hourglass.shorten, Shortening::Average);
  EXPECT_EQ(hourglass.upsample, Upsampling::Repeat);
  EXPECT_EQ(model.training.optimizer, Optimizer::Adam);
  EXPECT_EQ(model.training.weightDecay, 0);
}

std::string testName(const testing::TestParamInfo<std::string> &info) {
  std::filesystem::path file = info.param;
  std::string name = file.parent_path().filename().string() + "_" + file.stem().string();
  for (char &c : name) {
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, ShippedModel, testing::ValuesIn(filesUnder(SPEC_MODELS_DIR)),
                         testName);
INSTANTIATE_TEST_SUITE_P(Models, PaperRow, testing::ValuesIn(filesUnder(SPEC_MODELS_DIR "/papers")),
                         testName);

TEST(Models, SmallOnesHaveFiveToTenMillionParameters) {
  for (std::string name : {"vanilla", "hourglass"}) {
    int64_t count = parameterCount(read(SPEC_MODELS_DIR "/small/" + name + ".json"));
    EXPECT_GE(count, 5000000) << name;
    EXPECT_LE(count, 10000000) << name;
  }
}

} // namespace
