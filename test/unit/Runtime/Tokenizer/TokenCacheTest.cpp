// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A cache of token ids is used for its own texts and tokenizer alone.
#include "Fixture.h"

#include "sluice/Runtime/Tokenizer/FileEncoder.h"
#include "sluice/Runtime/Tokenizer/TokenCache.h"
#include "sluice/Runtime/Tokenizer/TrainTokenizer.h"

#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

class TokenCacheTest : public testing::Test {
protected:
  /// Writes the texts, and trains a tokenizer on the first one.
  Tokenizer prepare() {
    writeFile(folder / "a", easyText(5000) + "\n" + easyText(3000, 2));
    writeFile(folder / "b", "second\xff text");
    writeFile(folder / "empty", "");
    return trainTokenizer(openTexts({"a"}), {300, "bpe", 1});
  }

  std::vector<ByteFile> openTexts(const std::vector<std::string> &names = {"a", "empty", "b"}) {
    std::vector<ByteFile> texts;
    for (const std::string &name : names) {
      texts.push_back(openByteFile(folder / name, "text"));
    }
    return texts;
  }

  std::string getFailure(const std::vector<ByteFile> &texts, const Tokenizer &tokenizer) {
    std::string message = userError([&] { TokenCache::open(path, texts, tokenizer); });
    std::string start = path.native() +
                        ": expected the token ids of these texts by this tokenizer, "
                        "found ";
    std::string end = "; remove the file, and it is written again";
    EXPECT_TRUE(message.starts_with(start) && message.ends_with(end)) << message;
    return message.substr(start.size(), message.size() - start.size() - end.size());
  }

  TemporaryFolder folder;
  Path path = folder / "ids";
  Tokenizer tokenizer = prepare();
};

TEST_F(TokenCacheTest, HasTheIdsOfEachText) {
  std::vector<ByteFile> texts = openTexts();
  for (int threads : {1, 3}) {
    std::filesystem::remove(path);
    TokenCache cache = tokenizeToCache(texts, tokenizer, path, threads);
    ASSERT_EQ(cache.texts().size(), 3u);
    int64_t start = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      const CachedText &text = cache.texts()[i];
      EXPECT_EQ(text.start, start);
      EXPECT_EQ(text.bytes, static_cast<int64_t>(texts[i].bytes.size()));
      EXPECT_EQ(text.sha256, texts[i].bytes.sha256Hex());
      std::vector<int32_t> ids(text.tokens);
      cache.read(text.start, ids);
      EXPECT_EQ(ids, tokenizer.encode(texts[i].bytes.readAll()));
      start += text.tokens;
    }
    EXPECT_EQ(cache.size(), start);
    EXPECT_EQ(std::filesystem::file_size(path), 64 + 2 * start + 3 * 48 + 144);
  }
}

TEST_F(TokenCacheTest, HoldsLargeIds) {
  std::string codes = "#version: 0.2\n";
  for (int i = 0; i < 40000; ++i) { // two new symbols each, so ids exceed 16 bits
    codes += "a" + std::to_string(i) + " b" + std::to_string(i) + "\n";
  }
  Tokenizer large = Tokenizer::fromModel(SubwordFormat::SubwordNmt, codes, "codes");
  ASSERT_GT(large.size(), 65536);
  std::vector<ByteFile> texts = openTexts({"b"});
  TokenCache cache = tokenizeToCache(texts, large, path);
  std::vector<int32_t> ids(cache.size());
  cache.read(0, ids);
  EXPECT_EQ(ids, large.encode(texts[0].bytes.readAll()));
  EXPECT_EQ(std::filesystem::file_size(path), 64 + 4 * ids.size() + 48 + 144);
}

TEST_F(TokenCacheTest, IsReusedAndReplaced) {
  tokenizeToCache(openTexts(), tokenizer, path);
  auto isReplaced = [&](const std::vector<ByteFile> &texts, const Tokenizer &by) {
    // Files written within a tick of the clock have the same time.
    auto earlier = std::filesystem::last_write_time(path) - std::chrono::hours(1);
    std::filesystem::last_write_time(path, earlier);
    tokenizeToCache(texts, by, path);
    return std::filesystem::last_write_time(path) != earlier;
  };
  EXPECT_FALSE(isReplaced(openTexts(), tokenizer));
  EXPECT_TRUE(isReplaced(openTexts({"a"}), tokenizer));
  Tokenizer other = trainTokenizer(openTexts({"a"}), {290, "bpe", 1});
  EXPECT_TRUE(isReplaced(openTexts({"a"}), other));
  EXPECT_FALSE(isReplaced(openTexts({"a"}), other));
}

TEST_F(TokenCacheTest, RejectsOtherTextsAndDamage) {
  tokenizeToCache(openTexts(), tokenizer, path);
  std::string file = readFile(path);
  Tokenizer other = trainTokenizer(openTexts({"a"}), {290, "bpe", 1});
  EXPECT_EQ(getFailure(openTexts(), other), "those of another tokenizer");
  EXPECT_EQ(getFailure(openTexts({"a"}), tokenizer), "those of 3 texts in place of 1");
  writeFile(folder / "b", "second\xfe text");
  EXPECT_EQ(getFailure(openTexts(), tokenizer),
            "those of other bytes than " + (folder / "b").native() + " has");
  writeFile(folder / "b", "second\xff text");
  auto failWith = [&](const std::string &contents) {
    writeFile(path, contents);
    return getFailure(openTexts(), tokenizer);
  };
  EXPECT_EQ(failWith(file.substr(0, 60)), "another file");
  EXPECT_EQ(failWith(file.substr(0, 100)), "a cache that is cut short");
  EXPECT_EQ(failWith(file.substr(0, file.size() - 2)), "a cache that is cut short or damaged");
  for (size_t at : {size_t(20), size_t(64), file.size() - 144 - 48, file.size() - 1}) {
    std::string changed = file;
    changed[at] ^= 1;
    EXPECT_EQ(failWith(changed), "a cache that is damaged: its checksum differs") << at;
  }
  tokenizeToCache(openTexts(), tokenizer, path); // damage is repaired
  EXPECT_EQ(readFile(path), file);
}

TEST_F(TokenCacheTest, HoldsTheIdsOfData) {
  ReadingOptions reading;
  reading.encoder = makeFileEncoder(tokenizer, 2, folder / "new/tokens");
  for (int time : {1, 2}) { // the second time from the file
    std::vector<ByteFile> files =
        readByteFiles({folder / "a", folder / "b"}, 300, 2, "two", nullptr, reading);
    ASSERT_EQ(files.size(), 2u);
    for (const ByteFile &file : files) {
      std::vector<int32_t> ids = tokenizer.encode(file.text.readAll());
      EXPECT_FALSE(file.isText());
      EXPECT_EQ(file.tokenCount(), static_cast<int64_t>(ids.size()));
      EXPECT_EQ(file.readTokens(0, file.tokenCount()), ids);
      EXPECT_EQ(file.encoder->decode(ids), readFile(file.path));
    }
    EXPECT_FALSE(lackText(files));
    EXPECT_EQ(listFolder(folder / "new/tokens").size(), 2u) << time;
  }
  EXPECT_NE(userError([&] {
              readByteFiles({folder / "b"}, 200, 2, "two", nullptr, reading);
            }).find("expected token ids below the vocabulary of 200, found "),
            std::string::npos);
}

TEST_F(TokenCacheTest, FolderIsBounded) {
  Path tokens = folder / "tokens";
  makeFolder(tokens);
  auto write = [&](const std::string &name, time_t secondsAgo) {
    writeFile(tokens / name, std::string(100, 'x'));
    const timespec used{::time(nullptr) - secondsAgo, 0}, times[2] = {used, used};
    ASSERT_EQ(::utimensat(AT_FDCWD, (tokens / name).c_str(), times, 0), 0);
  };
  auto getName = [](char digit) {
    return std::string(32, digit) + "-" + std::string(32, 'a') + ".ids";
  };
  write(getName('1'), 20);
  write(getName('2'), 40); // used least recently
  write(getName('3'), 30);
  write(getName('4') + ".tmp-12", 4000); // of a killed process
  write(getName('5') + ".tmp-12", 10);
  write("notes.ids", 5000);
  trimTokenFolder(tokens, 300);
  EXPECT_EQ(listFolder(tokens), (std::vector<std::string>{getName('1'), getName('2'), getName('3'),
                                                          getName('5') + ".tmp-12", "notes.ids"}));
  trimTokenFolder(tokens, 200);
  EXPECT_EQ(listFolder(tokens), (std::vector<std::string>{getName('1'), getName('3'),
                                                          getName('5') + ".tmp-12", "notes.ids"}));
  trimTokenFolder(tokens, 99);
  EXPECT_EQ(listFolder(tokens), (std::vector<std::string>{getName('5') + ".tmp-12", "notes.ids"}));
}

TEST_F(TokenCacheTest, RemovedFilesAreStillRead) {
  writeFile(folder / "a", easyText(200000)); // more than is held in memory
  ReadingOptions reading;
  reading.encoder = makeFileEncoder(tokenizer, 2, folder / "tokens");
  std::vector<ByteFile> files = readByteFiles({folder / "a"}, 300, 2, "two", nullptr, reading);
  trimTokenFolder(folder / "tokens", 0);
  EXPECT_TRUE(listFolder(folder / "tokens").empty());
  EXPECT_EQ(files[0].readTokens(0, files[0].tokenCount()),
            tokenizer.encode(files[0].text.readAll()));
}

TEST_F(TokenCacheTest, ReplacesNoOtherFile) {
  writeFile(path, "a text");
  EXPECT_EQ(userError([&] { tokenizeToCache(openTexts(), tokenizer, path); }),
            path.native() +
                ": expected a cache of token ids or no file, found text; name another file");
  EXPECT_EQ(readFile(path), "a text");
}

} // namespace
