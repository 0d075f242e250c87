// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Data/Data.h"

#include <numeric>
#include <set>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

TEST(Data, PermuteIsAPermutation) {
  for (uint64_t count : {1, 2, 3, 5, 64, 65, 1000}) {
    std::set<uint64_t> images;
    for (uint64_t i = 0; i < count; ++i) {
      images.insert(permute(i, count, 42));
    }
    EXPECT_EQ(images.size(), count);
    EXPECT_LT(*images.rbegin(), count);
  }
}

TEST(Data, PermuteMovesAndDependsOnTheKey) {
  int fixed = 0, same = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    fixed += permute(i, 1000, 1) == i ? 1 : 0;
    same += permute(i, 1000, 1) == permute(i, 1000, 2) ? 1 : 0;
  }
  EXPECT_LT(fixed, 10); // one is expected of a random permutation
  EXPECT_LT(same, 10);
}

/// 3000 draws: each count's deviation is 26, and runs of different seeds are independent.
TEST(Data, StepsSampleFactorsUniformlyBySeed) {
  std::map<int64_t, int> counts;
  int same = 0;
  for (int64_t step = 1; step <= 3000; ++step) {
    ++counts[drawFactor({2, 3, 5}, 7, step)];
    same += drawFactor({2, 3, 5}, 7, step) == drawFactor({2, 3, 5}, 8, step) ? 1 : 0;
  }
  ASSERT_EQ(counts.size(), 3U);
  for (int64_t factor : {2, 3, 5}) {
    EXPECT_NEAR(counts[factor], 1000, 130) << factor;
  }
  EXPECT_NEAR(same, 1000, 130);
}

TEST(Data, EpochReadsEachRowOfEveryFileOnce) {
  TemporaryFolder folder;
  writeFile(folder / "a", easyText(1000));
  writeFile(folder / "b", std::string(17, 'X')); // exactly one row of context + 1
  TrainingData data({folder / "a", folder / "b"}, 128, 16, 5);
  EXPECT_EQ(data.rowsPerEpoch(), 999 / 16 - 1 + 1);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<TrainingData::Place> starts;
    int fromB = 0;
    for (int64_t i = 0; i < data.rowsPerEpoch(); ++i) {
      auto row = data.row({epoch, i});
      ASSERT_EQ(row.size(), 17u);
      starts.insert(data.findDataPlace({epoch, i}));
      fromB += row[0] == 'X' && row[16] == 'X' ? 1 : 0;
    }
    EXPECT_EQ(starts.size(), static_cast<size_t>(data.rowsPerEpoch()));
    EXPECT_EQ(fromB, 1);
  }
}

/// Each byte of a file is predicted once per epoch, except bytes that fill no row.
TEST(Data, CyclicFilesRepeat) {
  TemporaryFolder folder;
  std::string text(100, 0);
  std::iota(text.begin(), text.end(), 1); // byte b is at b - 1
  writeFile(folder / "a", text);
  writeFile(folder / "b", text.substr(0, 17)); // one row, of context + 1
  TrainingData data({folder / "a", folder / "b"}, 128, 16, 5, /*cyclic=*/true);
  EXPECT_EQ(data.rowsPerEpoch(), 100 / 16 + 1);
  std::set<int64_t> shifts;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    std::set<int> predicted;
    for (int64_t i = 0; i < data.rowsPerEpoch(); ++i) {
      std::vector<int32_t> row = data.row({epoch, i});
      TrainingData::Place place = data.findDataPlace({epoch, i});
      int64_t size = place.file == 0 ? 100 : 17;
      for (int64_t t = 0; t <= 16; ++t) {
        ASSERT_EQ(row[static_cast<size_t>(t)], (place.start + t) % size + 1);
      }
      if (place.file == 0) {
        predicted.insert(row.begin() + 1, row.end());
        shifts.insert(place.start % 16);
      }
    }
    EXPECT_EQ(predicted.size(), 96U);
  }
  EXPECT_GT(shifts.size(), 4U);
}

TEST(Data, LabelsAlignWithBytes) {
  TemporaryFolder folder;
  std::string text = easyText(100), labels(100, '0');
  for (size_t i = 0; i < text.size(); ++i) {
    labels[i] = text[i] == ' ' ? '1' : '0';
  }
  writeFile(folder / "short", "x"); // skipped, and only its labels are checked
  writeFile(folder / "a", text);
  writeFile(folder / "none", "0");
  writeFile(folder / "bits", labels);
  InputFiles given = {{"words", {folder / "none", folder / "bits"}}};
  std::vector<Path> texts = {folder / "short", folder / "a"};
  for (bool cyclic : {false, true}) {
    TrainingData data(texts, 128, 16, 5, cyclic, given);
    std::vector<int32_t> tokens(17 * 9);
    std::vector<float> bits(16 * 9, 7), other(16 * 9, 7);
    data.fill({0, 0}, 9,
              BatchInputs{tokens, {}, {}, {{"words", {16, bits}}, {"other", {16, other}}}});
    for (size_t i = 0; i < bits.size(); ++i) {
      EXPECT_EQ(bits[i], tokens[i / 16 * 17 + i % 16] == ' ' ? 1 : 0);
      EXPECT_EQ(other[i], 0);
    }
    EXPECT_NE(data.hash(), TrainingData(texts, 128, 16, 5, cyclic).hash());
  }
  auto message = [&](const std::string &written) {
    writeFile(folder / "bits", written);
    return userError([&] { TrainingData(texts, 128, 16, 5, false, given); });
  };
  EXPECT_NE(message(labels.substr(1))
                .find("bits: expected as many labels as " + (folder / "a").string() +
                      " has bytes, 100, found 99"),
            std::string::npos);
  EXPECT_NE(message(std::string(99, '0') + "2").find("bits: byte 99: expected the label 0 or 1"),
            std::string::npos);
  writeFile(folder / "none", "x");
  EXPECT_NE(message(labels).find("none: byte 0: expected the label 0 or 1"), std::string::npos);
  writeFile(folder / "none", "");
  EXPECT_NE(message(labels).find("short has bytes, 1, found 0"), std::string::npos);
  given["words"].pop_back();
  EXPECT_NE(message(labels).find("for each text, 2, found 1"), std::string::npos);
}

TEST(Data, RowsAreSlicesOfTheText) {
  TemporaryFolder folder;
  std::string text = easyText(500);
  writeFile(folder / "a", text);
  TrainingData data({folder / "a"}, 128, 16, 5);
  std::vector<int32_t> tokens(17 * 40);
  DataPosition end =
      data.fill({0, 3}, 40, BatchInputs{tokens, {}, {}}); // crosses an epoch of 30 rows
  EXPECT_EQ(end, (DataPosition{1, 3 + 40 - data.rowsPerEpoch()}));
  for (size_t row = 0; row < 40; ++row) {
    std::string piece(tokens.begin() + static_cast<int64_t>(row) * 17,
                      tokens.begin() + static_cast<int64_t>(row) * 17 + 17);
    EXPECT_NE(text.find(piece), std::string::npos);
  }
}

TEST(Data, OrderFollowsSeedAndEpoch) {
  TemporaryFolder folder;
  writeFile(folder / "a", easyText(5000));
  auto order = [&](uint64_t seed, int64_t epoch) {
    TrainingData data({folder / "a"}, 128, 16, seed);
    std::string text;
    for (int64_t i = 0; i < data.rowsPerEpoch(); ++i) {
      auto row = data.row({epoch, i});
      text.append(row.begin(), row.end());
    }
    return text;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(2, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
}

TEST(Data, RejectsShortFilesAndWrongBytes) {
  TemporaryFolder folder;
  writeFile(folder / "short", std::string(16, 'a'));
  writeFile(folder / "wide", std::string(100, 'a') + "\xc3" + std::string(100, 'a'));
  writeFile(folder / "empty", "");
  auto message = [&](const std::string &name) {
    return userError([&] { TrainingData({folder / name}, 128, 16, 0); });
  };
  EXPECT_NE(message("short").find("at least 17 bytes"), std::string::npos);
  EXPECT_NE(message("empty").find("found 0"), std::string::npos);
  EXPECT_NE(message("wide").find("byte 100: "), std::string::npos);
  EXPECT_NE(message("missing").find("no such file"), std::string::npos);
  EXPECT_NE(message(".").find("directory"), std::string::npos);
}

TEST(Data, SkipsShortFilesWithARemark) {
  TemporaryFolder folder;
  writeFile(folder / "long", easyText(200));
  writeFile(folder / "short", std::string(16, 'a'));
  writeFile(folder / "empty", "");
  TrainingData data({folder / "short", folder / "long", folder / "empty"}, 128, 16, 0);
  EXPECT_EQ(data.rowsPerEpoch(), 199 / 16 - 1);
  EXPECT_EQ(data.hash(), TrainingData({folder / "long"}, 128, 16, 0).hash());
  ASSERT_EQ(data.notes().size(), 1u);
  EXPECT_NE(data.notes()[0].find("skipped 2 of 3 files, shorter than 17 bytes"), std::string::npos)
      << data.notes()[0];
  EXPECT_NE(data.notes()[0].find((folder / "short").string()), std::string::npos);
  auto all = [&] { TrainingData({folder / "empty", folder / "short"}, 128, 16, 0); };
  EXPECT_NE(userError(all).find("at least 17 bytes"), std::string::npos);
  EXPECT_NE(userError([&] {
              readByteFiles({folder / "long", folder / "empty"}, 128, 2, "");
            }).find("at least 2 bytes"),
            std::string::npos) // only where the caller names the skipped rows
      << "a short file was skipped without a word";
}

TEST(Data, NotesIdsOutsideTheByteRange) {
  TemporaryFolder folder;
  writeFile(folder / "text", easyText(200));
  EXPECT_TRUE(TrainingData({folder / "text"}, 256, 16, 0).notes().empty());
  std::vector<std::string> notes = TrainingData({folder / "text"}, 1000, 16, 0).notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("ids 256 to 999 never occur"), std::string::npos) << notes[0];
}

TEST(Data, RejectsFolderAndSuggestsItsFiles) {
  TemporaryFolder folder;
  std::string message = userError([&] { TrainingData({folder.path}, 128, 16, 0); });
  EXPECT_NE(message.find("found a directory; name the files in it, as in "), std::string::npos)
      << message;
}

} // namespace
