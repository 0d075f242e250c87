// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Device/Tuning.h"
#include "sluice/Support/Json.h"

#include "Fixture.h"

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;
using sluice::Json;

namespace {

Tuning example() {
  Tuning tuning{"NVIDIA H200", 13000, 131000, {}};
  TunedProduct lost, won;
  won.target = lost.target = "sm_90a";
  won.product.rows = 4096;
  won.product.columns = 512;
  won.product.depth = 2048;
  won.product.byInput = true;
  won.product.type = Type::bf16;
  won.generatedSeconds = 0x1p-16;
  won.librarySeconds = 0x1p-17;
  won.libraryWins = true;
  won.algorithm = {1, 2, 3, 4, 5, 6, 7, ~uint64_t(0)};
  lost.product = won.product;
  lost.product.depth = 63;
  lost.generatedSeconds = 1e-3;
  tuning.products = {won, lost};
  return tuning;
}

Json exampleJson(const TemporaryFolder &folder) {
  writeTuning(folder / "t.json", example());
  return Json::parse(readFile(folder / "t.json"));
}

TEST(TuningFile, RoundTrips) {
  TemporaryFolder folder;
  writeTuning(folder / "t.json", example());
  Tuning read = readTuning(folder / "t.json");
  EXPECT_EQ(read.gpu, "NVIDIA H200");
  EXPECT_EQ(read.driverVersion, 13000);
  EXPECT_EQ(read.libraryVersion, 131000);
  ASSERT_EQ(read.products.size(), 2u);
  const TunedProduct &won = read.products[0], &lost = read.products[1];
  EXPECT_EQ(won.target, "sm_90a");
  EXPECT_TRUE(won.product.isSameShape(example().products[0].product));
  EXPECT_DOUBLE_EQ(won.generatedSeconds, 0x1p-16);
  EXPECT_DOUBLE_EQ(won.librarySeconds.value_or(0), 0x1p-17);
  EXPECT_TRUE(won.libraryWins);
  EXPECT_EQ(won.algorithm, example().products[0].algorithm);
  EXPECT_TRUE(lost.product.isSameShape(example().products[1].product));
  EXPECT_FALSE(lost.librarySeconds);
  EXPECT_FALSE(lost.libraryWins);
  size_t files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(folder.path)) {
    files += entry.is_regular_file();
  }
  EXPECT_EQ(files, 1u) << "a temporary file was left";
}

struct WrongTuning {
  const char *name;
  void (*change)(Json &);
  const char *message;
};

class TuningFileRefuses : public testing::TestWithParam<WrongTuning> {};

TEST_P(TuningFileRefuses, WithAMessageThatNamesTheField) {
  TemporaryFolder folder;
  Json json = exampleJson(folder);
  GetParam().change(json);
  writeFile(folder / "t.json", json.dump());
  std::string path = (folder / "t.json").string(), message = userError([&] { readTuning(path); });
  EXPECT_EQ(message.substr(0, path.size() + 8), path + ": tuning");
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  EXPECT_NE(message.find("; write it anew with sluice bench --device cuda --tune"),
            std::string::npos)
      << message;
}

const WrongTuning wrongTunings[] = {
    {"UnknownKey", [](Json &t) { t["extra"] = 1; }, "\"extra\""},
    {"MissingKey", [](Json &t) { t.erase("gpu"); }, "the key \"gpu\", found none"},
    {"NoTuning", [](Json &t) { t = Json::object(); }, "\"format\" and \"version\""},
    {"NoObject", [](Json &t) { t = Json::array(); }, "an object, found []"},
    {"Format", [](Json &t) { t["format"] = "sluice-plan"; }, "one of \"sluice-tuning\""},
    {"Version", [](Json &t) { t["version"] = 2; },
     "tuning.version: expected an integer from 1 to 1"},
    {"OtherLibrary", [](Json &t) { t["library"]["name"] = "cutlass"; }, "library.name"},
    {"LibraryVersion", [](Json &t) { t["library"]["version"] = "13"; }, "library.version"},
    {"ProductKey", [](Json &t) { t["products"][1]["batch"] = 4; }, "tuning.products[1]"},
    {"Target", [](Json &t) { t["products"][0]["target"] = "sm_70"; }, "\"sm_80\", \"sm_90a\""},
    {"NoRows", [](Json &t) { t["products"][0]["rows"] = 0; }, "products[0].rows"},
    {"FractionalDepth", [](Json &t) { t["products"][0]["depth"] = 2.5; }, "products[0].depth"},
    {"Type", [](Json &t) { t["products"][0]["type"] = "f16"; }, "\"f32\", \"bf16\""},
    {"ByInput", [](Json &t) { t["products"][0]["by_input"] = 1; }, "true or false"},
    {"NegativeTime", [](Json &t) { t["products"][0]["generated_us"] = -1; }, "generated_us"},
    {"TimeInWords", [](Json &t) { t["products"][0]["library_us"] = "fast"; }, "library_us"},
    {"Winner", [](Json &t) { t["products"][0]["winner"] = "both"; }, "products[0].winner"},
    {"WinnerWithoutTime", [](Json &t) { t["products"][1]["winner"] = "library"; },
     "expected \"generated\", for the library was not timed"},
    {"TimeWithoutAlgorithm", [](Json &t) { t["products"][0].erase("algorithm"); },
     "found a number with none"},
    {"AlgorithmWithoutTime", [](Json &t) { t["products"][0]["library_us"] = nullptr; },
     "found null with an algorithm"},
    {"ShortAlgorithm", [](Json &t) { t["products"][0]["algorithm"] = "01"; },
     "128 hexadecimal digits"},
    {"NoHexadecimal", [](Json &t) { t["products"][0]["algorithm"] = std::string(127, '0') + "G"; },
     "128 hexadecimal digits"},
    {"Twice", [](Json &t) { t["products"].push_back(t["products"][0]); },
     "expected each product once"},
};
INSTANTIATE_TEST_SUITE_P(Tuning, TuningFileRefuses, testing::ValuesIn(wrongTunings),
                         [](const auto &test) { return test.param.name; });

TEST(TuningFile, RejectsTruncation) {
  TemporaryFolder folder;
  exampleJson(folder);
  std::string text = readFile(folder / "t.json");
  for (size_t length = 0; length + 3 < text.size(); length += 37) {
    writeFile(folder / "t.json", text.substr(0, length));
    EXPECT_NE(userError([&] {
                readTuning(folder / "t.json");
              }).find("expected a tuning file, found text that is not JSON at line "),
              std::string::npos);
  }
  EXPECT_NE(userError([&] { readTuning(folder / "missing"); }).find("found no such file"),
            std::string::npos);
}

} // namespace
