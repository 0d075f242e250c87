// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every spec in models/ is good, and those of papers are what their names say.

#include "sluice/Spec/Expansion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <regex>
#include <set>
#include <sstream>

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

std::vector<std::string> papersOf(const std::string &paper) {
  std::vector<std::string> files = filesUnder(SPEC_MODELS_DIR "/papers");
  std::erase_if(files, [&](const std::string &file) {
    return !std::filesystem::path(file).stem().string().starts_with(paper);
  });
  return files;
}

class MultiscaleRow : public testing::TestWithParam<std::string> {};

TEST_P(MultiscaleRow, IsWhatItsNameSays) {
  Model model = read(GetParam());
  std::string name = "multiscale";
  const Stage &stage = model.stages.at(model.stages.size() - 2);
  Layer layer;
  if (const auto *topDown = std::get_if<TopDown>(&stage.settings)) {
    layer = topDown->layer;
    name += "-top-down";
    int64_t factor = 1;
    for (size_t i = topDown->hierarchy.size(); i-- > 0; factor *= 4) {
      EXPECT_EQ(topDown->hierarchy[i].factor, factor);
    }
    for (const Hourglass::Level &level : topDown->hierarchy) {
      name += "-" + std::to_string(level.layers);
    }
    EXPECT_EQ(topDown->upsample, Upsampling::Linear);
    name += model.width == 768 ? "" : "-" + std::to_string(model.width);
    name += topDown->shorten == Shortening::Linear ? "-convolution" : "";
  } else {
    const auto &layers = std::get<Layers>(stage.settings);
    layer = layers.layer;
    const auto *shorten = std::get_if<Shorten>(&model.stages.at(1).settings);
    name += shorten ? "-coarse-" + std::to_string(shorten->factor)
                    : "-vanilla-" + std::to_string(layers.count);
    name += model.width == 768 ? "" : "-" + std::to_string(model.width);
    name += layer.mask.kind == MaskKind::Window ? "-window-" + std::to_string(layer.mask.end) : "";
  }
  EXPECT_EQ(std::filesystem::path(GetParam()).stem().string(), name);
  EXPECT_EQ(model.name, name);
  EXPECT_EQ(layer.headSize, 64);
  EXPECT_EQ(layer.feedForward, 4 * model.width);
  EXPECT_EQ(layer.placement, Placement::Post);
  EXPECT_EQ(layer.dropout, 0.1);
  EXPECT_EQ(layer.attentionDropout, 0.1);
  EXPECT_EQ(model.training.learningRate, 2.5e-4);
  EXPECT_EQ(model.training.schedule.warmup, 40000);
  EXPECT_EQ(model.batch * model.training.accumulate, 256);
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
  std::string name, drawn;
  for (int64_t factor : hourglass.factors) {
    drawn += (drawn.empty() ? "" : ",") + std::to_string(factor);
  }
  for (const Hourglass::Level &level : hourglass.hierarchy) {
    name += "-" + std::to_string(level.layers) + "@" +
            (level.isDrawn ? drawn : std::to_string(level.factor));
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

class GroupedRow : public testing::TestWithParam<std::string> {};

/// Bottom-up and retina models: layers from coarse to fine, or layers and windows.
TEST_P(GroupedRow, IsWhatItsNameSays) {
  Model model = read(GetParam());
  std::string name = "multiscale";
  const auto *bottomUp = std::get_if<BottomUp>(&model.stages.at(1).settings);
  const auto *layers = std::get_if<Layers>(&model.stages.at(1).settings);
  ASSERT_TRUE(bottomUp || layers);
  if (bottomUp) {
    name += "-bottom-up";
    for (size_t i = bottomUp->hierarchy.size(); i-- > 0;) {
      EXPECT_EQ(bottomUp->hierarchy[i].factor, int64_t{1} << (2 * i));
      name += "-" + std::to_string(bottomUp->hierarchy[i].layers);
    }
  } else {
    name += "-retina-" + std::to_string(layers->count);
    for (size_t i = 0; i < layers->layer.groups.size(); ++i) {
      const HeadGroup &group = layers->layer.groups[i];
      EXPECT_EQ(group.factor, int64_t{1} << (2 * i));
      name += "-" + std::to_string(group.mask.begin) + "-" + std::to_string(group.mask.end);
    }
  }
  EXPECT_EQ(std::filesystem::path(GetParam()).stem().string(), name);
  EXPECT_EQ(model.name, name);
  const Layer &layer = bottomUp ? bottomUp->layer : layers->layer;
  EXPECT_EQ(layer.headSize, 64);
  EXPECT_EQ(layer.placement, Placement::Post);
  EXPECT_EQ(layer.attentionDropout, 0.1);
  EXPECT_EQ(model.context, 512);
  EXPECT_EQ(model.training.schedule.warmup, 40000);
  EXPECT_EQ(model.batch * model.training.accumulate, 256);
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
INSTANTIATE_TEST_SUITE_P(Models, PaperRow, testing::ValuesIn(papersOf("hourglass-")), testName);
INSTANTIATE_TEST_SUITE_P(TopDown, MultiscaleRow,
                         testing::ValuesIn(papersOf("multiscale-top-down-")), testName);
INSTANTIATE_TEST_SUITE_P(Vanilla, MultiscaleRow, testing::ValuesIn(papersOf("multiscale-vanilla-")),
                         testName);
INSTANTIATE_TEST_SUITE_P(Coarse, MultiscaleRow, testing::ValuesIn(papersOf("multiscale-coarse-")),
                         testName);
INSTANTIATE_TEST_SUITE_P(BottomUp, GroupedRow, testing::ValuesIn(papersOf("multiscale-bottom-up-")),
                         testName);
INSTANTIATE_TEST_SUITE_P(Retina, GroupedRow, testing::ValuesIn(papersOf("multiscale-retina-")),
                         testName);

/// A row of a table in docs/papers.md: a spec, and its size beside the paper's.
struct SizeRow {
  std::string spec, ours;
  double printed = 0;
};

/// The rows of that page under `## SECTION` that begin with the name of a spec.
std::vector<SizeRow> sizesOnPage(const std::string &section) {
  std::ifstream page(SPEC_MODELS_DIR "/../docs/papers.md");
  const std::regex form(R"(\| `([^`]+)` \| ([0-9.]+) \| ([0-9.]+) \|.*)");
  std::vector<SizeRow> rows;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    inside = line.starts_with("## ") ? line == "## " + section : inside;
    std::smatch parts;
    if (inside && std::regex_match(line, parts, form)) {
      rows.push_back({parts[1], parts[2], std::stod(parts[3])});
    }
  }
  return rows;
}

std::string rounded(double number, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << number;
  return text.str();
}

/// Millions of parameters. Table 2 of the Hourglass paper has one layer more than it says.
void expectMillions(const std::string &section, const std::string &paper, size_t count) {
  std::vector<SizeRow> rows = sizesOnPage(section);
  EXPECT_EQ(rows.size(), count);
  for (const SizeRow &row : rows) {
    Model model = read(SPEC_MODELS_DIR "/papers/" + paper + "-" + row.spec + ".json");
    double millions = double(parameterCount(model)) / 1e6;
    EXPECT_EQ(row.ours, rounded(millions, 2)) << row.spec;
    double share = row.spec == "4@1-8@3-4@1" ? 0.06 : 0.02;
    EXPECT_NEAR(millions, row.printed, share * row.printed) << row.spec;
  }
}

TEST(Models, HourglassesHaveTheSizesThatThePageSays) {
  expectMillions("Hourglass", "hourglass", 16);
}

TEST(Models, DynamicOnesHaveTheSizesThatThePageSays) {
  expectMillions("Dynamic pooling", "dynamic", 13);
}

/// Table 8 prints gigabytes of half precision; the vocabulary is that of the paper's BookCorpus.
TEST(Models, MultiscaleOnesHaveTheSizesThatThePageSays) {
  std::vector<SizeRow> rows = sizesOnPage("Multi-scale transformers");
  EXPECT_EQ(rows.size(), 3u);
  for (const SizeRow &row : rows) {
    Model model = read(SPEC_MODELS_DIR "/papers/multiscale-" + row.spec + ".json");
    model.vocabulary = 31300;
    double gigabytes = 2 * double(parameterCount(model)) / 1e9;
    EXPECT_EQ(row.ours, rounded(gigabytes, 3)) << row.spec;
    EXPECT_NEAR(gigabytes, row.printed, 0.05 * row.printed) << row.spec;
  }
}

TEST(Models, SmallOnesHaveFiveToTenMillionParameters) {
  for (std::string name :
       {"vanilla", "hourglass", "top-down", "bottom-up", "retina", "hourglass-attention", "xl"}) {
    int64_t count = parameterCount(read(SPEC_MODELS_DIR "/small/" + name + ".json"));
    EXPECT_GE(count, 5000000) << name;
    EXPECT_LE(count, 10000000) << name;
  }
}

} // namespace
