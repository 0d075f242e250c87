// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files read piece by piece while other programs change them.
#include "Fixture.h"

#include "sluice/Runtime/Data/FileContents.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/OutputFile.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

constexpr size_t large = 300'000; // more than is held in memory

std::string readFileText(const std::vector<uint8_t> &bytes) { return {bytes.begin(), bytes.end()}; }

std::string dataError(const std::function<void()> &action) {
  try {
    action();
  } catch (const DataError &error) {
    return error.what();
  }
  return "";
}

class Contents : public testing::Test {
protected:
  FileContents open(const std::string &text) {
    writeFile(folder / "data", text);
    return FileContents::open(folder / "data", "data file");
  }
  /// Sets another modification time, as writing does on a file system of any resolution.
  void makeOlder() {
    timespec times[2] = {{1'000'000, 0}, {1'000'000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, (folder / "data").c_str(), times, 0), 0);
  }

  TemporaryFolder folder;
};

TEST_F(Contents, ReadsSmallAndLargeFiles) {
  for (size_t size :
       {size_t(0), size_t(1), size_t(65536), size_t(65537), large, FileContents::pieceBytes + 3}) {
    std::string text = easyText(size);
    FileContents contents = open(text);
    EXPECT_EQ(contents.size(), size);
    EXPECT_EQ(readFileText(contents.readAll()), text);
    EXPECT_EQ(contents.sha256Hex(), sha256Hex(text));
    EXPECT_EQ(readFileText(contents.read(size / 2, 10)), text.substr(size / 2, 10));
    EXPECT_EQ(readFileText(contents.read(size, 10)), "");
    std::string pieces;
    contents.forEachPiece(
        [&](size_t start, std::span<const uint8_t> some) {
          EXPECT_EQ(start, 1 + pieces.size());
          pieces.append(some.begin(), some.end());
        },
        1, size - std::min<size_t>(size, 1));
    EXPECT_EQ(pieces, size < 2 ? "" : text.substr(1, size - 2));
  }
  EXPECT_EQ(FileContents().sha256Hex(), sha256Hex(std::string_view()));
}

TEST_F(Contents, FindsTheFirstByte) {
  std::string text = easyText(large);
  text[large - 2] = text[large - 1] = '\xff';
  FileContents contents = open(text);
  EXPECT_EQ(contents.find([](uint8_t byte) { return byte == 0xff; }), large - 2);
  EXPECT_EQ(contents.find([](uint8_t byte) { return byte == 0xfe; }), large);
}

TEST_F(Contents, ReportsTruncationWithBothSizes) {
  FileContents contents = open(easyText(large));
  ASSERT_EQ(::truncate((folder / "data").c_str(), 200'000), 0);
  std::string message = dataError([&] { contents.read(150'000, 100); });
  EXPECT_NE(message.find("data: expected the 300000 bytes that the file had when it was opened, "
                         "found 200000: another program cut it short; restore the file"),
            std::string::npos)
      << message;
  EXPECT_NE(dataError([&] { contents.sha256Hex(); }), "");
}

TEST_F(Contents, ReportsChangeAfterHashing) {
  std::string text = easyText(large);
  FileContents contents = open(text);
  contents.sha256Hex();
  makeOlder(); // touched, not written
  EXPECT_EQ(dataError([&] { contents.read(0, 10); }), "");
  writeFile(folder / "data", easyText(large, 5));
  makeOlder();
  timespec times[2] = {{2'000'000, 0}, {2'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (folder / "data").c_str(), times, 0), 0);
  EXPECT_NE(dataError([&] { contents.read(0, 10); }).find("another program wrote it"),
            std::string::npos);
}

/// Also before the hash is known, and if the file has grown.
TEST_F(Contents, ReportsRewrittenFile) {
  for (size_t size : {large, large + 5000}) {
    FileContents contents = open(easyText(large));
    makeOlder();
    EXPECT_EQ(dataError([&] { contents.read(0, 10); }), ""); // touched
    writeFile(folder / "data", easyText(size, 5));
    EXPECT_NE(dataError([&] { contents.read(0, 10); }).find("another program wrote it"),
              std::string::npos);
  }
}

TEST_F(Contents, IgnoresAppendedBytes) {
  std::string text = easyText(large);
  FileContents contents = open(text);
  contents.sha256Hex();
  writeFile(folder / "data", text + "more");
  makeOlder();
  EXPECT_EQ(readFileText(contents.read(large - 3, 100)), text.substr(large - 3));
}

TEST_F(Contents, ReadsOldContentsOfReplacedFile) {
  std::string text = easyText(large);
  FileContents contents = open(text);
  replaceFile(folder / "data", asBytes("other"));
  EXPECT_EQ(readFileText(contents.readAll()), text);
}

TEST_F(Contents, OpensManyLargeFilesAtOnce) {
  auto path = [&](int i) { return folder / ("data" + std::to_string(i)); };
  for (int i = 0; i < 60; ++i) {
    writeFile(path(i), easyText(70'000, unsigned(i)));
  }
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 40;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<FileContents> all;
  for (int i = 0; i < 60; ++i) {
    all.push_back(FileContents::open(path(i), "data file"));
  }
  EXPECT_EQ(readFileText(all[7].readAll()), easyText(70'000, 7));
  all.clear();
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(Contents, TemporaryFilesHaveNoNameBeforeSaving) {
  for (size_t size : {size_t(0), size_t(10), large}) {
    std::string text = easyText(size);
    TemporaryFile file(folder.path);
    file.write(asBytes(text.substr(0, size / 2)));
    file.write(asBytes(text.substr(size / 2)));
    FileContents contents = file.finish("standard input");
    EXPECT_TRUE(listFolder(folder.path).empty());
    EXPECT_EQ(readFileText(contents.readAll()), text);
    contents.saveAs(folder / "copy");
    contents.saveAs(folder / "copy"); // at the path of the first one
    EXPECT_EQ(readFile(folder / "copy"), text);
    removeAll(folder / "copy");
    contents.saveAs(folder / "copy"); // the file has no name anymore
    EXPECT_EQ(readFile(folder / "copy"), text);
    removeAll(folder / "copy");
  }
}

} // namespace
