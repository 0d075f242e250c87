// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every spec in models/ is valid, and specs of papers match their names.

#include "Specs.h"

#include "sluice/Dialect/Spec/Hierarchy.h"

#include "mlir/IR/Verifier.h"

#include <iomanip>
#include <regex>
#include <sstream>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace {

std::vector<std::string> listSpecs(const std::string &folder) {
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

class ShippedModel : public testing::TestWithParam<std::string> {};

TEST_P(ShippedModel, Expands) {
  ParsedSpec spec = readGoodFile(GetParam()).expand(0);
  SmallVector<Operation *> stages = getStages(spec);
  ASSERT_GE(stages.size(), 3u);
  EXPECT_TRUE(isa<EmbeddingOp>(stages.front()));
  EXPECT_TRUE((isa<HeadOp, ContrastOp>(stages.back())));
  EXPECT_TRUE(succeeded(verify(spec.getModel()))); // names of weights are unique
  for (Operation *stage : stages) {
    EXPECT_EQ(getKeyPlace(stage, "").file, GetParam());
  }
}

/// Returns the levels of a stage.
template <typename Op> Hierarchy getHierarchy(Op stage, HierarchyOrder order) {
  return *parseHierarchy(stage, stage.getHierarchy(), order);
}

std::vector<std::string> listPapers(const std::string &paper) {
  std::vector<std::string> files = listSpecs(SPEC_MODELS_DIR "/papers");
  std::erase_if(files, [&](const std::string &file) {
    return !std::filesystem::path(file).stem().string().starts_with(paper);
  });
  return files;
}

class MultiscaleRow : public testing::TestWithParam<std::string> {};

/// Settings of all layers of multi-scale transformers.
void expectMultiscale(const ParsedSpec &spec, Operation *stage) {
  ModelOp model = spec.getModel();
  auto layer = cast<LayerSettingsInterface>(stage);
  EXPECT_EQ(layer.getHeadSize(), 64);
  EXPECT_EQ(layer.getPlacement(), NormPlacement::post);
  EXPECT_EQ(layer.getAttentionDropout(), 0.1);
  EXPECT_EQ(getOnly<ScheduleOp>(spec).getWarmupOrDefault(), 40000);
  EXPECT_EQ(model.getBatch() * getOnly<TrainingOp>(spec).getAccumulate(), 256);
}

TEST_P(MultiscaleRow, HasTheStructureOfItsName) {
  ParsedSpec spec = readGoodFile(GetParam());
  ModelOp model = spec.getModel();
  std::string name = "multiscale";
  auto width = static_cast<int64_t>(model.getWidth());
  SmallVector<Operation *> stages = getStages(spec);
  auto layer = cast<LayerSettingsInterface>(stages[stages.size() - 2]);
  if (auto topDown = dyn_cast<TopDownOp>(layer.getOperation())) {
    name += "-top-down";
    int64_t factor = 1;
    Hierarchy hierarchy = getHierarchy(topDown, HierarchyOrder::Falling);
    for (const HierarchyLevel &level : llvm::reverse(hierarchy.levels)) {
      EXPECT_EQ(level.factor, factor);
      factor *= 4;
    }
    for (const HierarchyLevel &level : hierarchy.levels) {
      name += "-" + std::to_string(level.layers);
    }
    EXPECT_EQ(topDown.getUpsample(), UpsampleMethod::linear);
    name += width == 768 ? "" : "-" + std::to_string(width);
    bool isLinear = topDown.getShorten() == ShortenMethod::linear ||
                    topDown.getShorten() == ShortenMethod::convolution;
    name += isLinear ? "-convolution" : "";
  } else {
    auto shorten = dyn_cast<spec::ShortenOp>(stages[1]);
    name += shorten ? "-coarse-" + std::to_string(*shorten.getFactor())
                    : "-vanilla-" + std::to_string(cast<LayersOp>(layer.getOperation()).getCount());
    name += width == 768 ? "" : "-" + std::to_string(width);
    MaskAttr mask = layer.getMask();
    name += mask.getShape() == MaskShape::window ? "-window-" + std::to_string(mask.getEnd()) : "";
  }
  EXPECT_EQ(std::filesystem::path(GetParam()).stem().string(), name);
  EXPECT_EQ(model.getName(), name);
  expectMultiscale(spec, layer);
  EXPECT_EQ(layer.getFeedForward(), 4 * width);
  EXPECT_EQ(layer.getDropout(), 0.1);
  EXPECT_EQ(getOnly<TrainingOp>(spec).getLearningRate(), 2.5e-4);
}

/// Returns "-cifar" and so on; empty for enwik8.
std::string getDataset(const std::string &stem) {
  for (std::string set : {"-cifar", "-imagenet32", "-imagenet64"}) {
    if (stem.find(set) != std::string::npos) {
      return set;
    }
  }
  return "";
}

/// Returns the resampling of a data set's public configuration.
std::string getPublicResampling(const std::string &dataset) {
  return dataset.empty()            ? "-attention-attention_repeat"
         : dataset == "-imagenet64" ? "-linear-linear"
                                    : "-attention_linear-attention_linear";
}

/// Returns the hierarchy, then its resampling unless the public configuration has it:
/// "-repeat" with rotary positions instead of the paper's, else the two methods. "-xl" marks a
/// plain stack with the paper's positions.
std::string describeLevels(HourglassOp hourglass, const std::string &dataset) {
  std::string name, drawn;
  Hierarchy hierarchy = getHierarchy(hourglass, HierarchyOrder::DownAndUp);
  for (int64_t factor : hierarchy.drawn) {
    drawn += (drawn.empty() ? "" : ",") + std::to_string(factor);
  }
  for (const HierarchyLevel &level : hierarchy.levels) {
    name += "-" + std::to_string(level.layers) + "@" +
            (level.isDrawn ? drawn : std::to_string(level.factor));
  }
  bool isXl = !hourglass.getRotary();
  if (hierarchy.levels.size() == 1) {
    return name + (isXl ? "-xl" : "");
  }
  std::string down = stringifyShortenMethod(hourglass.getShorten()).str(),
              up = stringifyUpsampleMethod(hourglass.getUpsample()).str();
  if (!isXl) {
    return name + (down == "average" && up == "repeat" ? "-repeat" : "-unexpected");
  }
  std::string resampling = "-" + down + "-" + up;
  return name + (resampling == getPublicResampling(dataset) ? "" : resampling);
}

/// Expects the public code's norms and one rate of dropout, or the norms and rates of the paper's
/// text.
void expectReading(HourglassOp hourglass, bool isText) {
  bool resamples = StringRef(hourglass.getHierarchy()).contains(' '),
       attends = hourglass.attendsDown();
  double rate = isText ? 0 : hourglass.getDropout();
  EXPECT_EQ(hourglass.getStart(), attends && !isText ? StartRows::norm : StartRows::zeros);
  EXPECT_EQ(hourglass.getUpsampleNorm(), resamples && !hourglass.attendsUp());
  EXPECT_EQ(hourglass.getAttentionDropout(), rate);
  EXPECT_EQ(hourglass.getFeedForwardDropout(), rate);
}

class PaperRow : public testing::TestWithParam<std::string> {};

TEST_P(PaperRow, HasTheStructureOfItsName) {
  ParsedSpec spec = readGoodFile(GetParam());
  std::string stem = std::filesystem::path(GetParam()).stem().string();
  auto hourglass = getStage<HourglassOp>(spec, 1);
  std::string dataset = getDataset(stem);
  EXPECT_EQ(stem, "hourglass" + dataset + describeLevels(hourglass, dataset));
  if (!hourglass.getRotary()) {
    expectReading(hourglass, stem.ends_with("-attention-attention"));
  }
  EXPECT_EQ(spec.getModel().getName(), stem);
  EXPECT_EQ(hourglass.getHeads(), 8);
  EXPECT_EQ(hourglass.getFeedForward(), 4 * static_cast<int64_t>(spec.getModel().getWidth()));
  bool isShared =
      hourglass.getRelative() && hourglass.getRelative()->getTerms() == RelativeTerms::xl_shared;
  EXPECT_EQ(isShared, !hourglass.getRotary());
  EXPECT_EQ(getOnly<TrainingOp>(spec).getOptimizer(), OptimizerKind::adam);
  EXPECT_EQ(getOnly<TrainingOp>(spec).getWeightDecay(), 0);
}

class GroupedRow : public testing::TestWithParam<std::string> {};

/// Bottom-up and retina models: layers from coarse to fine, or layers and windows.
TEST_P(GroupedRow, HasTheStructureOfItsName) {
  ParsedSpec spec = readGoodFile(GetParam());
  std::string name = "multiscale";
  Operation *stage = getStages(spec)[1];
  if (auto bottomUp = dyn_cast<BottomUpOp>(stage)) {
    name += "-bottom-up";
    std::vector<HierarchyLevel> levels = getHierarchy(bottomUp, HierarchyOrder::Rising).levels;
    for (size_t i = levels.size(); i-- > 0;) {
      EXPECT_EQ(levels[i].factor, int64_t{1} << (2 * i));
      name += "-" + std::to_string(levels[i].layers);
    }
  } else {
    auto layers = cast<LayersOp>(stage);
    name += "-retina-" + std::to_string(layers.getCount());
    for (auto [i, attribute] : llvm::enumerate(*layers.getScales())) {
      auto scale = cast<ScaleAttr>(attribute);
      EXPECT_EQ(scale.getFactor(), int64_t{1} << (2 * i));
      name += "-" + std::to_string(scale.getMask().getBegin()) + "-" +
              std::to_string(scale.getMask().getEnd());
    }
  }
  EXPECT_EQ(std::filesystem::path(GetParam()).stem().string(), name);
  EXPECT_EQ(spec.getModel().getName(), name);
  expectMultiscale(spec, stage);
  EXPECT_EQ(spec.getModel().getLength(), 512u);
}

std::string testName(const testing::TestParamInfo<std::string> &info) {
  std::filesystem::path file = info.param;
  std::string name = file.parent_path().filename().string() + "_" + file.stem().string();
  for (char &c : name) {
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, ShippedModel, testing::ValuesIn(listSpecs(SPEC_MODELS_DIR)),
                         testName);
INSTANTIATE_TEST_SUITE_P(Models, PaperRow, testing::ValuesIn(listPapers("hourglass-")), testName);
INSTANTIATE_TEST_SUITE_P(TopDown, MultiscaleRow,
                         testing::ValuesIn(listPapers("multiscale-top-down-")), testName);
INSTANTIATE_TEST_SUITE_P(Vanilla, MultiscaleRow,
                         testing::ValuesIn(listPapers("multiscale-vanilla-")), testName);
INSTANTIATE_TEST_SUITE_P(Coarse, MultiscaleRow, testing::ValuesIn(listPapers("multiscale-coarse-")),
                         testName);
INSTANTIATE_TEST_SUITE_P(BottomUp, GroupedRow,
                         testing::ValuesIn(listPapers("multiscale-bottom-up-")), testName);
INSTANTIATE_TEST_SUITE_P(Retina, GroupedRow, testing::ValuesIn(listPapers("multiscale-retina-")),
                         testName);

/// A row of a table in docs/papers.md: a spec, its size and the size in the paper.
struct SizeRow {
  std::string spec, ours;
  double printed = 0;
};

/// Returns the rows of docs/papers.md under `## SECTION` that begin with the name of a spec.
std::vector<SizeRow> readSizes(const std::string &section) {
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

std::string formatRounded(double number, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << number;
  return text.str();
}

/// Millions of parameters. Table 2 of the Hourglass paper has one layer more than printed, and row
/// 2 of table 6 of UMST does not follow from the size of the whole model there.
void expectMillions(const std::string &section, const std::string &paper, size_t count) {
  std::vector<SizeRow> rows = readSizes(section);
  EXPECT_EQ(rows.size(), count);
  for (const SizeRow &row : rows) {
    ParsedSpec spec = readGoodFile(SPEC_MODELS_DIR "/papers/" + paper + "-" + row.spec + ".json");
    double millions = double(spec.countParameters()) / 1e6;
    EXPECT_EQ(row.ours, formatRounded(millions, 2)) << row.spec;
    double share = row.spec == "4@1-8@3-4@1" ? 0.06 : row.spec == "shared-blocks" ? 0.05 : 0.02;
    EXPECT_NEAR(millions, row.printed, share * row.printed) << row.spec;
  }
}

TEST(Models, HourglassesHaveTheDocumentedSizes) { expectMillions("Hourglass", "hourglass", 16); }

TEST(Models, DynamicModelsHaveTheDocumentedSizes) {
  expectMillions("Dynamic pooling", "dynamic", 13);
}

TEST(Models, WordModelsHaveTheDocumentedSizes) { expectMillions("Words and phrases", "umst", 7); }

TEST(Models, ChunkModelsHaveTheDocumentedSizes) {
  std::vector<SizeRow> rows = readSizes("Hierarchical encoder-decoders");
  EXPECT_EQ(rows.size(), 16u);
  for (const SizeRow &row : rows) {
    auto count = [&](const std::string &kind) {
      std::string path = SPEC_MODELS_DIR "/papers/haed-" + kind + "-" + row.spec + ".json";
      return formatRounded(double(readGoodFile(path).countParameters()) / 1e6, 2);
    };
    EXPECT_EQ(count("text"), row.ours) << row.spec;
    EXPECT_EQ(count("image"), formatRounded(row.printed, 2)) << row.spec;
  }
}

/// Table 8 prints gigabytes of half precision; the vocabulary is the one of the paper's BookCorpus.
TEST(Models, MultiscaleModelsHaveTheDocumentedSizes) {
  std::vector<SizeRow> rows = readSizes("Multi-scale transformers");
  EXPECT_EQ(rows.size(), 3u);
  for (const SizeRow &row : rows) {
    std::string path = SPEC_MODELS_DIR "/papers/multiscale-" + row.spec + ".json";
    spec::Diagnostic error;
    spec::SpecOverride vocabulary = {"--set vocabulary", {"vocabulary"}, "31300"};
    std::optional<ParsedSpec> spec = parseSpecFile(getContext(), path, error, {vocabulary});
    ASSERT_TRUE(spec) << error.format();
    double gigabytes = 2 * double(spec->countParameters()) / 1e9;
    EXPECT_EQ(row.ours, formatRounded(gigabytes, 3)) << row.spec;
    EXPECT_NEAR(gigabytes, row.printed, 0.05 * row.printed) << row.spec;
  }
}

TEST(Models, SmallModelsHaveFiveToTenMillionParameters) {
  for (std::string name :
       {"vanilla", "hourglass", "top-down", "bottom-up", "retina", "hourglass-attention", "xl"}) {
    int64_t count = readGoodFile(SPEC_MODELS_DIR "/small/" + name + ".json").countParameters();
    EXPECT_GE(count, 5000000) << name;
    EXPECT_LE(count, 10000000) << name;
  }
}

} // namespace
