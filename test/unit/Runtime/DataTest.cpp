// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Data.h"

#include <set>

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

/// 3000 draws: each count's deviation is 26, and a run of one seed says nothing of another's.
TEST(Data, StepsDrawEachFactorAsOftenAndBySeed) {
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

TEST(Data, AnEpochDrawsEachRowOnceFromEveryFile) {
  TemporaryFolder folder;
  writeFile(folder / "a", easyText(1000));
  writeFile(folder / "b", std::string(17, 'X')); // exactly one row of context + 1
  TrainingData data({folder / "a", folder / "b"}, 128, 16, 5);
  EXPECT_EQ(data.rowsPerEpoch(), 999 / 16 - 1 + 1);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<const uint8_t *> starts;
    int fromB = 0;
    for (int64_t i = 0; i < data.rowsPerEpoch(); ++i) {
      auto row = data.row({epoch, i});
      ASSERT_EQ(row.size(), 17u);
      starts.insert(row.data());
      fromB += row[0] == 'X' && row[16] == 'X' ? 1 : 0;
    }
    EXPECT_EQ(starts.size(), static_cast<size_t>(data.rowsPerEpoch()));
    EXPECT_EQ(fromB, 1);
  }
}

TEST(Data, RowsArePiecesOfTheText) {
  TemporaryFolder folder;
  std::string text = easyText(500);
  writeFile(folder / "a", text);
  TrainingData data({folder / "a"}, 128, 16, 5);
  std::vector<int32_t> tokens(17 * 40);
  DataPosition end = data.fill({0, 3}, 40, tokens); // crosses an epoch of 30 rows
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

TEST(Data, RefusesShortFilesAndWrongBytes) {
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

TEST(Data, SkipsShortFilesAmongOthersAndSaysSo) {
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
            std::string::npos) // only where the caller says what was skipped
      << "a short file was skipped without a word";
}

TEST(Data, NotesIdsThatBytesNeverAre) {
  TemporaryFolder folder;
  writeFile(folder / "text", easyText(200));
  EXPECT_TRUE(TrainingData({folder / "text"}, 256, 16, 0).notes().empty());
  std::vector<std::string> notes = TrainingData({folder / "text"}, 1000, 16, 0).notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("ids 256 to 999 never occur"), std::string::npos) << notes[0];
}

TEST(Data, AFolderNamesTheWayToItsFiles) {
  TemporaryFolder folder;
  std::string message = userError([&] { TrainingData({folder.path}, 128, 16, 0); });
  EXPECT_NE(message.find("found a directory; name the files in it, as in --data "),
            std::string::npos)
      << message;
}

} // namespace
