// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The wrapper of the file system: rejected files, and the blamed flags.
#include "Fixture.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/MemoryFile.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Program.h"

#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

/// A limit of this process for the lifetime of the object.
class Limit {
public:
  Limit(__rlimit_resource which, rlim_t value) : which(which) {
    ::getrlimit(which, &before);
    rlimit now = {value, before.rlim_max};
    ::setrlimit(which, &now);
  }
  ~Limit() { ::setrlimit(which, &before); }

private:
  __rlimit_resource which;
  rlimit before{};
};

template <typename Job> std::string jobError(const Job &job) {
  try {
    job();
  } catch (const JobError &error) {
    return error.what();
  }
  return "no JobError";
}

bool has(const std::string &message, const std::string &piece) {
  return message.find(piece) != std::string::npos;
}

std::vector<std::string> namesIn(const TemporaryFolder &folder) { return listFolder(folder.path); }

TEST(Files, ReportsSymlinkLoopAsUserError) {
  TemporaryFolder folder;
  ::symlink("b", (folder / "a").c_str());
  ::symlink("a", (folder / "b").c_str());
  auto all = {
      +[](const Path &path) { isThere(path); },
      +[](const Path &path) { isFolder(path); },
      +[](const Path &path) { readText(path, "spec"); },
      +[](const Path &path) { requireWritable(path); },
      +[](const Path &path) { replaceFile(path, {}); },
      +[](const Path &path) { makeFolder(path / "inside"); },
      +[](const Path &path) { listFolder(path); },
  };
  for (auto job : all) {
    std::string message = userError([&] { job(folder / "a"); });
    EXPECT_TRUE(has(message, "oo many levels of symbolic links") && has(message, "fix the"))
        << message;
  }
}

TEST(Files, ReportsLongNameAsUserError) {
  TemporaryFolder folder;
  Path name = folder / std::string(300, 'n');
  for (auto message :
       {userError([&] { isThere(name); }), userError([&] { readText(name, "spec"); }),
        userError([&] { replaceFile(name, {}); }), userError([&] { makeFolder(name); })}) {
    EXPECT_TRUE(has(message, "File name too long; use a shorter name")) << message;
  }
}

TEST(Files, ReportsEmptyName) {
  EXPECT_TRUE(has(userError([] { readText("", "spec"); }), "found an empty name; name a file"));
  EXPECT_TRUE(has(userError([] { replaceFile("", {}); }), "found an empty one; name a file"));
  EXPECT_TRUE(has(userError([] { makeFolder(""); }), "found an empty one; name a directory"));
}

// A pipe without a writer would block the reader forever.
TEST(Files, DoesNotWaitForPipes) {
  TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (auto message : {userError([&] { readText(folder / "pipe", "spec"); }),
                       userError([&] { replaceFile(folder / "pipe", {}); })}) {
    EXPECT_TRUE(has(message, "something not a regular file")) << message;
  }
}

TEST(Files, ReportsFullDiskAsSystemError) {
  TemporaryFolder folder;
  writeFile(folder / "old", "what was there");
  auto before = std::signal(SIGXFSZ, SIG_IGN);
  std::string bytes(100000, 'x');
  {
    Limit small(RLIMIT_FSIZE, 5000);
    for (const char *name : {"old", "new"}) {
      std::string message = jobError([&] { replaceFile(folder / name, asBytes(bytes)); });
      EXPECT_TRUE(has(message, std::string(name) + ": cannot write: File too large")) << message;
    }
    EXPECT_TRUE(has(jobError([&] { writeSynced(folder / "third", asBytes(bytes)); }), "too large"));
  }
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(readFile(folder / "old"), "what was there");
  EXPECT_EQ(namesIn(folder), std::vector<std::string>{"old"});
  EXPECT_TRUE(has(jobError([] { failWith("full", ENOSPC); }), "full"));
  EXPECT_TRUE(has(jobError([] { failWith("broken", EIO); }), "broken"));
}

TEST(Files, ReportsHandleExhaustionAsSystemError) {
  TemporaryFolder folder;
  writeFile(folder / "text", "x");
  Limit none(RLIMIT_NOFILE, 3);
  for (auto message :
       {jobError([&] { readText(folder / "text", "spec"); }),
        jobError([&] { replaceFile(folder / "text", {}); }),
        jobError([&] { listFolder(folder.path); }), jobError([] { MemoryFile file("none"); })}) {
    EXPECT_TRUE(has(message, "Too many open files; raise the limit on open files")) << message;
  }
}

TEST(Files, NextWriteRemovesFilesOfKilledProcesses) {
  TemporaryFolder folder;
  pid_t dead = ::fork();
  if (dead == 0) {
    ::_exit(0);
  }
  ::waitpid(dead, nullptr, 0);
  std::string left = "art.tmp-" + std::to_string(dead);
  std::vector<std::string> kept = {"art.tmp-" + std::to_string(::getppid()), "art.tmp-notes",
                                   "art.tmp-", "other.tmp-" + std::to_string(dead)};
  writeFile(folder / left, "half");
  for (const std::string &name : kept) {
    writeFile(folder / name, "x");
  }
  replaceFile(folder / "art", asBytes("whole"));
  EXPECT_FALSE(isThere(folder / left));
  for (const std::string &name : kept) {
    EXPECT_TRUE(isThere(folder / name)) << name;
  }
  // A process of another container has a number that does not exist here, and holds its file open.
  writeFile(folder / left, "half");
  int held = ::open((folder / left).c_str(), O_RDONLY);
  ::flock(held, LOCK_EX);
  replaceFile(folder / "art", asBytes("whole"));
  EXPECT_TRUE(isThere(folder / left));
  ::close(held);
}

// A killed writer: the process ends without a destructor.
TEST(OutputFile, KilledWriterLeavesNoFile) {
  TemporaryFolder folder;
  writeFile(folder / "art", "old");
  for (const char *name : {"art", "new"}) {
    pid_t writer = ::fork();
    if (writer == 0) {
      OutputFile file(folder / name);
      file.write(asBytes("half"));
      ::raise(SIGKILL);
    }
    int status = 0;
    ::waitpid(writer, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  EXPECT_EQ(namesIn(folder), std::vector<std::string>{"art"});
  EXPECT_EQ(readFile(folder / "art"), "old");
}

TEST(OutputFile, StagedFilesGetTheirNamesTogetherOrNotAtAll) {
  TemporaryFolder folder;
  writeFile(folder / "a", "old a");
  auto before = std::signal(SIGXFSZ, SIG_IGN);
  jobError([&] {
    OutputFile a(folder / "a"), b(folder / "b");
    a.write(asBytes("new a"));
    a.stage();
    Limit small(RLIMIT_FSIZE, 5000);
    b.write(asBytes(std::string(100000, 'x')));
    b.stage();
    a.finish();
    b.finish();
  });
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(readFile(folder / "a"), "old a");
  EXPECT_EQ(namesIn(folder), std::vector<std::string>{"a"});
  {
    OutputFile a(folder / "a"), b(folder / "b");
    a.write(asBytes("new a"));
    b.write(asBytes("new b"));
    a.stage();
    b.stage();
    EXPECT_EQ(readFile(folder / "a"), "old a");
    a.finish();
    b.finish();
  }
  EXPECT_EQ(readFile(folder / "a"), "new a");
  EXPECT_EQ(readFile(folder / "b"), "new b");
  EXPECT_EQ(namesIn(folder), (std::vector<std::string>{"a", "b"}));
}

TEST(OutputFile, ReplacesTheTargetOfALinkWithItsPermissions) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "inside");
  writeFile(folder / "inside/file", "old");
  ::chmod((folder / "inside/file").c_str(), 0600);
  ::symlink("inside/file", (folder / "link").c_str());
  ::symlink("inside/missing", (folder / "dangling").c_str());
  replaceFile(folder / "link", asBytes("new"));
  replaceFile(folder / "dangling", asBytes("made"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(readFile(folder / "inside/file"), "new");
  EXPECT_EQ(readFile(folder / "inside/missing"), "made");
  struct stat status{};
  ::stat((folder / "inside/file").c_str(), &status);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(listFolder(folder / "inside"), (std::vector<std::string>{"file", "missing"}));
}

// The standard output may be a regular file. A rename would replace /dev/stdout, not that file.
TEST(OutputFile, RejectsStreamOfAProcess) {
  TemporaryFolder folder;
  int fd = ::open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  for (const std::string &name :
       {"/dev/fd/" + std::to_string(fd), "/proc/self/fd/" + std::to_string(fd)}) {
    ::unlink((folder / "link").c_str());
    ::symlink(name.c_str(), (folder / "link").c_str());
    for (const Path &path : {Path(name), folder / "link"}) {
      std::string message = userError([&] { replaceFile(path, asBytes("x")); });
      EXPECT_TRUE(has(message, "found a stream of a process; name a file")) << message;
    }
  }
  ::close(fd);
  EXPECT_TRUE(
      has(userError([] { replaceFile("-", {}); }), "found the sign for a stream; name a file"));
}

TEST(Files, PassesMemoryFilesToPrograms) {
  MemoryFile input("test-input"), output("test-output"), messages("test-messages");
  std::string text = "some words\n";
  input.write(asBytes(text));
  EXPECT_EQ(runProgram({"/bin/cat", input.path()}, output.descriptor(), messages.descriptor()), "");
  EXPECT_EQ(output.read(), text);
  EXPECT_EQ(runProgram({"/bin/cat", "/nowhere"}, output.descriptor(), messages.descriptor()),
            "exit status 1");
  EXPECT_TRUE(has(messages.read(), "No such file"));
  EXPECT_TRUE(has(runProgram({"/nowhere"}, output.descriptor(), messages.descriptor()),
                  "cannot be started: No such file"));
}

// The hash of half a GiB and more: a count of bits in 32 bits would wrap at 2^29 bytes. The digest
// is sha256sum's.
TEST(Hash, CountsBeyond32Bits) {
  std::vector<uint8_t> zeros((size_t(1) << 29) + 1);
  EXPECT_EQ(sha256Hex(zeros), "7c40fe5ce847740d0f0d0cdde3949d6585804cdec3ae61a15b923165699c8137");
}

} // namespace
