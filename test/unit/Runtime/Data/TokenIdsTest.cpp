// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Data/Data.h"

#include <cstring>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

template <typename Id> std::string encode(const std::vector<Id> &ids) {
  std::string bytes(ids.size() * sizeof(Id), 0);
  std::memcpy(bytes.data(), ids.data(), bytes.size());
  return bytes;
}

std::string makeNpy(const std::string &type, const std::string &shape, const std::string &numbers) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         numbers;
}

/// Reads a file of token ids.
std::vector<int32_t> readAll(const Path &path, int64_t vocabulary = 1 << 20) {
  ByteFile file = readByteFiles({path}, vocabulary, 1, "one", nullptr, {.takesIds = true}).front();
  return file.readTokens(0, file.tokenCount());
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

std::string findError(const Path &path, int64_t vocabulary = 1 << 20) {
  return userError([&] { readAll(path, vocabulary); });
}

TEST(TokenIds, EachFormatHasTheSameIds) {
  TemporaryFolder folder;
  const std::vector<int32_t> ids = {0, 1, 255, 256, 40000, 65535};
  const std::vector<uint16_t> shorts(ids.begin(), ids.end());
  writeFile(folder / "a.npy", makeNpy("<u2", "(6,)", encode(shorts)));
  writeFile(folder / "b", makeNpy("int32", "(6,)", encode(ids)));
  writeFile(folder / "c.bin", encode(shorts));
  EXPECT_EQ(readAll(folder / "a.npy"), ids);
  EXPECT_EQ(readAll(folder / "b"), ids); // the contents decide, not the name
  EXPECT_EQ(readAll("uint16:" + (folder / "c.bin").string()), ids);
  writeFile(folder / "text", "\x01\xff");
  EXPECT_EQ(readAll(folder / "text"), (std::vector<int32_t>{1, 255}));
}

/// A large file is read in pieces; the only wrong id is in the second one.
TEST(TokenIds, AnIdBeyondTheVocabularyHasItsPlace) {
  TemporaryFolder folder;
  std::vector<int32_t> ids((size_t(1) << 18) + 5, 999);
  writeFile(folder / "good", makeNpy("<i4", "(" + std::to_string(ids.size()) + ",)", encode(ids)));
  EXPECT_EQ(readAll(folder / "good", 1000), ids);
  ids[ids.size() - 2] = 1000;
  writeFile(folder / "a", makeNpy("<i4", "(" + std::to_string(ids.size()) + ",)", encode(ids)));
  EXPECT_TRUE(findError(folder / "a", 1000)
                  .ends_with("a: token 262147: expected token ids below the vocabulary of 1000, "
                             "found 1000; raise the spec's vocabulary, or give the ids of this "
                             "model's tokenizer"));
  writeFile(folder / "b", makeNpy("<i4", "(2,)", encode<int32_t>({1, -2})));
  EXPECT_TRUE(has(findError(folder / "b"), "token 1: expected token ids from 0 on, below the "
                                           "vocabulary of 1048576, found -2"));
}

TEST(TokenIds, RejectsOtherArraysAndPartsOfIds) {
  TemporaryFolder folder;
  auto error = [&](const std::string &contents, const std::string &prefix = "") {
    writeFile(folder / "a", contents);
    return findError(prefix + (folder / "a").string());
  };
  EXPECT_TRUE(has(error(makeNpy("<i8", "(1,)", std::string(8, 0))),
                  "found numbers of the type \"<i8\"; convert it: numpy.save(FILE, "
                  "ids.astype(numpy.int32))"));
  EXPECT_TRUE(has(error(makeNpy(">u2", "(1,)", "ab")), "found numbers of the type \">u2\""));
  EXPECT_TRUE(has(error(makeNpy("<u2", "(1, 2)", "abcd")),
                  "found the shape (1, 2); flatten it: numpy.save(FILE, ids.reshape(-1))"));
  EXPECT_TRUE(has(error(makeNpy("<u2", "(3,)", "abcde")),
                  "expected 3 ids of 2 bytes after the header, found 5 bytes"));
  EXPECT_TRUE(has(error("abc", "uint16:"), "expected an even number of bytes, as each uint16 id "
                                           "has 2, found 3; write the file again"));
  EXPECT_TRUE(has(error("", "uint16:"), "expected at least 1 token (one), found 0"));
  EXPECT_TRUE(has(findError("uint16:-"), "expected a file of token ids, found a stream"));
  EXPECT_TRUE(has(findError("uint16:" + folder.path.string()), "found a directory"));
  EXPECT_TRUE(
      has(userError([&] { readByteFiles({"uint16:" + (folder / "a").string()}, 9, 1, "one"); }),
          "expected a text, found token ids; train, eval and logits read them"));
}

/// Rows of ids are the rows of a text with the same tokens; the hash distinguishes the types.
TEST(TokenIds, TrainingDrawsTheSameRows) {
  TemporaryFolder folder;
  std::string text = easyText(500);
  std::vector<uint16_t> ids(text.begin(), text.end());
  writeFile(folder / "text", text);
  writeFile(folder / "ids", encode(ids));
  ReadingOptions reading{.takesIds = true};
  for (bool isCyclic : {false, true}) {
    TrainingData bytes({folder / "text"}, 128, 16, 5, isCyclic, {}, {}, reading);
    TrainingData shorts({"uint16:" + (folder / "ids").string()}, 128, 16, 5, isCyclic, {}, {},
                        reading);
    ASSERT_EQ(bytes.rowsPerEpoch(), shorts.rowsPerEpoch());
    for (int64_t i = 0; i < bytes.rowsPerEpoch(); ++i) {
      EXPECT_EQ(bytes.row({1, i}), shorts.row({1, i}));
    }
  }
  auto hash = [&](const std::string &path) {
    return hashFiles(readByteFiles({path}, 1 << 16, 1, "one", nullptr, reading));
  };
  EXPECT_NE(hash((folder / "ids").string()), hash("uint16:" + (folder / "ids").string()));
}

} // namespace
