// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening files of data: formats, streams, files that are too short.
#include "Fixture.h"

#include "sluice/Runtime/Data/ByteFiles.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <zlib.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

class ByteFiles : public testing::Test {
protected:
  void writeGzip(const std::string &name, const std::string &text) {
    gzFile file = gzopen((folder / name).c_str(), "wb");
    ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
              static_cast<int>(text.size()));
    ASSERT_EQ(gzclose(file), Z_OK);
  }

  ByteFile open(const std::string &name, const ReadingOptions &reading = {}) {
    return openByteFile(folder / name, "data file", reading);
  }

  /// The bytes that `open` reads from a pipe with `text`.
  ByteFile openPipe(const std::string &text, const ReadingOptions &reading = {}) {
    removeAll(folder / "pipe");
    EXPECT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    std::jthread writer([&] { writeFile(folder / "pipe", text); });
    return open("pipe", reading);
  }

  static std::string readFileText(const ByteFile &file) {
    std::vector<uint8_t> bytes = file.bytes.readAll();
    return {bytes.begin(), bytes.end()};
  }

  TemporaryFolder folder;
};

TEST_F(ByteFiles, DecompressesTextButNotRawBytes) {
  std::string text = easyText(100'000);
  writeGzip("text.gz", text);
  ByteFile file = open("text.gz");
  EXPECT_TRUE(file.isDecompressed);
  EXPECT_EQ(readFileText(file), text);
  EXPECT_EQ(file.bytes.sha256Hex(), sha256Hex(text)); // the same as for the text's own file
  ASSERT_EQ(file.notes.size(), 1u);
  EXPECT_NE(file.notes[0].find("text.gz: read as gzip data, 100000 bytes in "), std::string::npos);
  ByteFile raw = open("text.gz", {/*isRaw=*/true});
  EXPECT_FALSE(raw.isDecompressed);
  EXPECT_EQ(readFileText(raw), readFile(folder / "text.gz"));
  EXPECT_TRUE(raw.notes.empty());
}

TEST_F(ByteFiles, RejectsOtherFormatsAlsoInCompressedData) {
  std::string library = bigramLibrary();
  writeFile(folder / "program", library);
  std::string message = userError([&] { open("program"); });
  EXPECT_NE(
      message.find("program: expected the data file, whose bytes are tokens, found a compiled "
                   "program or library (ELF); give text, or read the file's own bytes with "
                   "--raw"),
      std::string::npos)
      << message;
  EXPECT_EQ(readFileText(open("program", {true})), library);
  writeGzip("program.gz", library);
  EXPECT_NE(userError([&] { open("program.gz"); }).find("(ELF) inside of compressed data"),
            std::string::npos);
  writeGzip("twice.gz", readFile(folder / "program.gz"));
  EXPECT_NE(userError([&] { open("twice.gz"); }).find("found gzip data inside of compressed data"),
            std::string::npos);
  EXPECT_THROW(open("program"), FormatError);
  std::string damaged = readFile(folder / "program.gz");
  damaged.replace(40, 8, 8, '\xff');
  writeFile(folder / "damaged.gz", damaged);
  EXPECT_THROW(open("damaged.gz"), FormatError); // a run on its own bytes resumes
}

TEST_F(ByteFiles, ReadsPipesWithoutACopy) {
  std::string text = easyText(300'000);
  EXPECT_EQ(readFileText(openPipe(text)), text);
  EXPECT_EQ(readFileText(openPipe("")), "");
  writeGzip("text.gz", text);
  EXPECT_EQ(readFileText(openPipe(readFile(folder / "text.gz"))), text);
  EXPECT_TRUE(openPipe(text).copy.empty());
}

/// A later run finds neither a file of the kernel nor an open file of this process.
TEST_F(ByteFiles, TreatsProcFilesAsStreams) {
  auto copies = std::make_shared<StreamCopies>(folder / "run", "data-", folder.path, false);
  ByteFile file = openByteFile("/proc/version", "data file", {false, copies});
  EXPECT_EQ(readFileText(file).substr(0, 5), "Linux");
  EXPECT_EQ(file.source(), folder / "run/data-1");
  writeFile(folder / "text", easyText(100));
  int fd = ::open((folder / "text").c_str(), O_RDONLY | O_CLOEXEC);
  file = openByteFile("/dev/fd/" + std::to_string(fd), "data file", {false, copies});
  ::close(fd);
  EXPECT_EQ(readFileText(file), easyText(100));
  EXPECT_EQ(file.source(), folder / "run/data-2");
}

/// No disk failed: it is not a system error.
TEST_F(ByteFiles, RejectsEmptyProcFiles) {
  std::string message = userError([&] { openByteFile("/proc/self/mem", "data file"); });
  EXPECT_NE(message.find("/proc/self/mem: expected a data file, found a file of the kernel that "
                         "cannot be read (Input/output error); name a file"),
            std::string::npos)
      << message;
}

TEST_F(ByteFiles, ReadsTheCopyOfAStream) {
  std::string text = easyText(300'000);
  auto copies = [&](bool reuse) {
    return std::make_shared<StreamCopies>(folder / "run", "data-", folder.path, reuse);
  };
  auto first = copies(false);
  ByteFile one = openPipe(text, {false, first}), two = openPipe("two", {false, first});
  EXPECT_EQ(one.source(), folder / "run/data-1");
  EXPECT_FALSE(isThere(folder / "run"));
  first->save();
  EXPECT_TRUE(first->hasRead());
  EXPECT_EQ(readFile(folder / "run/data-1"), text);
  EXPECT_EQ(readFile(folder / "run/data-2"), "two");
  auto again = copies(true);
  ByteFile reread = open("pipe", {false, again}); // no process writes to it
  EXPECT_EQ(readFileText(reread), text);
  EXPECT_FALSE(again->hasRead());
  ASSERT_EQ(reread.notes.size(), 1u);
  EXPECT_NE(reread.notes[0].find("the run's own copy is read instead"), std::string::npos);
  removeAll(folder / "run"); // as if a killed run restarts
  again->save();
  EXPECT_EQ(readFile(folder / "run/data-1"), text);
}

TEST_F(ByteFiles, RejectsIdsFromAStream) {
  std::string header = "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  std::string array = std::string("\x93NUMPY\x01\0v\0", 10) + header + "\na\0b\0";
  array.resize(10 + 118 + 4); // with the last zero byte
  std::string message = userError([&] { openPipe(array, {.takesIds = true}); });
  EXPECT_NE(message.find("found a NumPy array (.npy); write token ids to a file first"),
            std::string::npos)
      << message;
}

TEST_F(ByteFiles, CountsAndJoinsShortFiles) {
  std::vector<Path> paths;
  for (int i = 0; i < 300; ++i) {
    paths.push_back(folder / (std::to_string(i) + ".txt"));
    writeFile(paths.back(), easyText(static_cast<size_t>(1 + i % 64)));
  }
  std::vector<ByteFile> skipped;
  std::string message = userError([&] { readByteFiles(paths, 256, 65, "why", &skipped); });
  EXPECT_NE(
      message.find("expected at least 65 bytes (why) in a file, found 300 shorter files, of at "
                   "most 64 bytes: " +
                   paths[0].string() + ", " + paths[1].string()),
      std::string::npos)
      << message;
  EXPECT_NE(message.find(" and 295 more; join them into one file, as in: cat " +
                         (folder / "*.txt").string() + " > joined ("),
            std::string::npos)
      << message;
  std::filesystem::create_directory(folder / "it's a");
  writeFile(folder / "it's a/1", "a");
  Path quoted = folder / "it's a/1";
  message = userError([&] { readByteFiles({quoted, quoted}, 256, 65, "why"); });
  EXPECT_NE(message.find("in: cat '" + folder.path.string() + "/it'\\''s a'/* > joined"),
            std::string::npos)
      << message;
  writeFile(folder / "long", easyText(100));
  paths.push_back(folder / "long");
  EXPECT_EQ(readByteFiles(paths, 256, 65, "why", &skipped).size(), 1u);
  message = describeSkipped(skipped, paths.size(), 65, "why");
  EXPECT_NE(message.find("skipped 300 of 301 files"), std::string::npos) << message;
  EXPECT_NE(message.find("to read them too, join them into one file"), std::string::npos);
}

TEST_F(ByteFiles, SummarizesManyNotes) {
  std::vector<Path> paths;
  for (int i = 0; i < 9; ++i) {
    paths.push_back(folder / std::to_string(i));
    writeFile(paths.back(), "{\"a\": 1}\n{\"a\": 2}\n");
  }
  std::vector<std::string> notes = collectNotes(readByteFiles(paths, 256, 2, ""));
  ASSERT_EQ(notes.size(), 6u);
  EXPECT_EQ(notes.back(), "and 4 more notes like these");
}

} // namespace
