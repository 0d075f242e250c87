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

/// "-cifar" and the like; nothing: enwik8.
std::string datasetOf(const std::string &stem) {
  for (std::string set : {"-cifar", "-imagenet32", "-imagenet64"}) {
    if (stem.find(set) != std::string::npos) {
      return set;
    }
  }
  return "";
}

/// The hierarchy, then how it resamples where that is not by attention as in the paper: "-repeat"
/// with rotary positions in place of the paper's, else the two methods. "-xl" tells a plain stack
/// with the paper's from one with rotary positions.
std::string nameOf(const Hourglass &hourglass) {
  std::string name;
  for (const Hourglass::Level &level : hourglass.hierarchy) {
    name += "-" + std::to_string(level.layers) + "@" + std::to_string(level.factor);
  }
  if (hourglass.hierarchy.size() == 1) {
    return name + (hourglass.layer.isXl() ? "-xl" : "");
  }
  bool isLinear = hourglass.shorten == Shortening::Linear;
  std::string down = isLinear ? "linear" : "average", up = "linear";
  if (hourglass.attendsDown) {
    down = isLinear ? "attention_linear" : "attention";
  }
  bool repeats = hourglass.upsample == Upsampling::Repeat;
  if (hourglass.attendsUp) {
    up = repeats ? "attention" : "attention_linear";
  } else if (repeats) {
    up = "repeat";
  }
  if (!hourglass.layer.isXl()) {
    return name + (down == "average" && up == "repeat" ? "-repeat" : "-unexpected");
  }
  return down == "attention" && up == "attention" ? name : name + "-" + down + "-" + up;
}

class PaperRow : public testing::TestWithParam<std::string> {};

TEST_P(PaperRow, IsWhatItsNameSays) {
  Model model = read(GetParam());
  std::string stem = std::filesystem::path(GetParam()).stem().string();
  const auto *found = std::get_if<Hourglass>(&model.stages.at(1).settings);
  if (!stem.starts_with("hourglass")) {
    GTEST_SKIP() << "a row of another paper";
  }
  ASSERT_TRUE(found);
  const Hourglass &hourglass = *found;
  EXPECT_EQ(stem, "hourglass" + datasetOf(stem) + nameOf(hourglass));
  EXPECT_EQ(model.name, stem);
  EXPECT_EQ(hourglass.layer.heads, 8);
  EXPECT_EQ(hourglass.layer.feedForward, 4 * model.width);
  EXPECT_EQ(hourglass.layer.relative == Relative::XlShared, !hourglass.layer.rotaryBase);
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

/// Table 1 of the Hourglass paper prints millions of parameters.
TEST(Models, HaveThePaperSizes) {
  const std::pair<const char *, double> printed[] = {{"6@1-xl", 21},
                                                     {"2@1-1@3-2@1", 24},
                                                     {"2@1-4@4-2@1", 34},
                                                     {"8@1-xl", 28},
                                                     {"2@1-4@3-2@1", 34},
                                                     {"2@1-8@4-2@1", 48},
                                                     {"2@1-1@2-4@4-1@2-2@1", 48},
                                                     {"2@1-8@3-2@1", 48},
                                                     {"10@1-xl", 34},
                                                     {"3@1-8@4-3@1", 55},
                                                     {"12@1-xl", 41},
                                                     {"4@1-8@4-4@1", 62},
                                                     {"2@1-16@3-2@1", 75},
                                                     {"14@1-xl", 48},
                                                     {"5@1-8@2-5@1", 69}};
  for (auto [row, millions] : printed) {
    auto count = double(
        parameterCount(read(SPEC_MODELS_DIR "/papers/hourglass-" + std::string(row) + ".json")));
    EXPECT_NEAR(count / 1e6, millions, 0.02 * millions) << row;
  }
}

TEST(Models, SmallOnesHaveFiveToTenMillionParameters) {
  for (std::string name : {"vanilla", "hourglass", "hourglass-attention", "xl"}) {
    int64_t count = parameterCount(read(SPEC_MODELS_DIR "/small/" + name + ".json"));
    EXPECT_GE(count, 5000000) << name;
    EXPECT_LE(count, 10000000) << name;
  }
}

} // namespace
