// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cache of compiled kernels: the dependences of keys, and files that are damaged, evicted,
// shared among processes or cannot be written.
#include "sluice/Target/Cache/KernelCache.h"
#include "sluice/Support/Files.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Regex.h"
#include "gtest/gtest.h"
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace mlir;
using namespace sluice;

namespace {

namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

/// The hash of the one function in `text`, parsed in a context of its own.
std::string computeTextHash(const std::string &text) {
  MLIRContext context;
  context.loadDialect<arith::ArithDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context, "first.mlir");
  EXPECT_TRUE(module) << text;
  return module ? toHex(hashKernel(*module->getOps<func::FuncOp>().begin())) : "";
}

const std::string plain = R"(func.func @kernel(%x: f32, %y: f32, %i: index) -> f32 {
  %c = arith.constant 2.0 : f32
  %a = arith.mulf %x, %y : f32
  %b = arith.addf %a, %c : f32
  %z = arith.constant 0 : index
  %is = arith.cmpi slt, %i, %z : index
  return %b : f32
})";

std::string replace(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(KernelKey, HashIgnoresNamesAndLocations) {
  std::string hash = computeTextHash(plain);
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(hash, computeTextHash(plain));
  EXPECT_EQ(hash, computeTextHash(replace(plain, "@kernel", "@other")));
  EXPECT_EQ(hash, computeTextHash("\n\n" + replace(plain, "%a = ", "\n %a = ")));
  EXPECT_EQ(hash, computeTextHash(replace(replace(plain, "%a =", "%q ="), "%a,", "%q,")));
}

TEST(KernelKey, HashChangesWithTheComputation) {
  const std::pair<const char *, const char *> changes[] = {
      {"2.0", "2.5"},                                  // a constant
      {"arith.mulf %x, %y", "arith.mulf %y, %x"},      // an order of operands
      {"arith.mulf %x, %y", "arith.mulf %x, %x"},      // an operand
      {"arith.mulf", "arith.divf"},                    // an op
      {"%x, %y : f32", "%x, %y fastmath<fast> : f32"}, // a property
      {"slt", "ult"},                                  // a predicate
      {"constant 0", "constant 1"},
      {"return %b", "return %a"},
      {"%y: f32,", "%y: f32 {llvm.noalias},"}, // an attribute of an argument
      {"-> f32 {", "-> f32 attributes {hint} {"},
      {"  %is", "  %again = arith.mulf %x, %y : f32\n  %is"},
  };
  std::set<std::string> hashes{computeTextHash(plain)};
  for (auto [from, to] : changes) {
    hashes.insert(computeTextHash(replace(plain, from, to)));
  }
  EXPECT_EQ(hashes.size(), std::size(changes) + 1);
  EXPECT_NE(computeTextHash("func.func @k(%x: f32) { return }"),
            computeTextHash("func.func @k(%x: f64) { return }"));
}

TEST(KernelKey, HashChangesWithBlocks) {
  std::string branches = R"(func.func @kernel(%x: i1) -> i1 {
    cf.cond_br %x, ^one, ^two
  ^one:
    return %x : i1
  ^two:
    return %x : i1
  })";
  auto hash = [](const std::string &text) {
    MLIRContext context;
    context.allowUnregisteredDialects();
    context.loadDialect<func::FuncDialect>();
    auto module = parseSourceString<ModuleOp>(
        replace(text, "cf.cond_br %x, ^one, ^two", "\"cf.cond_br\"(%x)[^one, ^two] : (i1) -> ()"),
        &context);
    return toHex(hashKernel(*module->getOps<func::FuncOp>().begin()));
  };
  std::string swapped = replace(replace(branches, "^one:", "^three:"), "^two:", "^one:");
  EXPECT_NE(hash(branches), hash(replace(swapped, "^three:", "^two:")));
}

TEST(KernelKey, KeyChangesWithTargetAndName) {
  MLIRContext context;
  context.loadDialect<arith::ArithDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(plain, &context);
  func::FuncOp kernel = *module->getOps<func::FuncOp>().begin();
  KernelKey key = computeKernelKey(kernel, "cpu-avx2");
  EXPECT_EQ(key, computeKernelKey(kernel, "cpu-avx2"));
  EXPECT_NE(key, computeKernelKey(kernel, "cpu-avx512"));
  kernel.setName("other");
  EXPECT_NE(key, computeKernelKey(kernel, "cpu-avx2"));
}

/// A module's key includes its names and attributes, which the code of a GPU module contains.
TEST(KernelKey, ModuleKeyChangesWithEachOfItsParts) {
  MLIRContext context;
  context.loadDialect<arith::ArithDialect, func::FuncDialect>();
  auto computeKey = [&](const std::string &text, const char *target = "cuda-sm_80 sm_80 +ptx80") {
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return computeModuleKey(hashModule(*module), target);
  };
  std::string twoStages = plain + "\nfunc.func @other(%x: f32) { return }";
  std::set<KernelKey> keys{
      computeKey(plain),
      computeKey(plain, "cuda-sm_90a sm_90a +ptx80"),
      computeKey(replace(plain, "@kernel", "@k1")),
      computeKey(replace(plain, "2.0", "2.5")),
      computeKey(twoStages),
      computeKey(replace(twoStages, "@other", "@another")),
      computeKey("module attributes {cuda.chip = \"sm_80\"} {" + plain + "}"),
      computeKey("module attributes {cuda.chip = \"sm_90a\"} {" + plain + "}"),
  };
  EXPECT_EQ(keys.size(), 8u);
  EXPECT_EQ(computeKey(plain), computeKey("\n\n" + plain));
}

TEST(KernelKey, ToolKeySeparatesItsParts) {
  std::set<KernelKey> keys{computeToolKey({}),          computeToolKey({""}),
                           computeToolKey({"ab", "c"}), computeToolKey({"a", "bc"}),
                           computeToolKey({"abc"}),     computeToolKey({"c", "ab"})};
  EXPECT_EQ(keys.size(), 6u);
  EXPECT_EQ(computeToolKey({"ab", "c"}), computeToolKey({"ab", "c"}));
}

TEST(KernelKey, IdentityNamesSourcesAndLibraries) {
  // 64 digits of the sources' hash, LLVM's version, build IDs of at least 16 digits.
  EXPECT_TRUE(llvm::Regex("^[0-9a-f]+ LLVM [0-9.]+( [0-9a-f]{16,})+$").match(getLoweringIdentity()))
      << getLoweringIdentity();
  EXPECT_EQ(getLoweringIdentity().find(' '), 64u);
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

KernelKey buildKernelKey(int number) { return sha256(asBytes(std::to_string(number))); }

class KernelCacheTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "sluice-cache-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string path(int number) const {
    return (folder / (toHex(buildKernelKey(number)) + ".kernel")).string();
  }
  std::string read(int number) const {
    std::ifstream file(path(number), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(int number, const std::string &bytes) const {
    std::ofstream(path(number), std::ios::binary) << bytes;
  }
  size_t count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
  }
  /// Sets the last use of the entry to this many seconds after a fixed time.
  void setUsed(int number, time_t seconds) const {
    timespec times[] = {{1000000000 + seconds, 0}, {1000000000 + seconds, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path(number).c_str(), times, 0), 0);
  }

  fs::path folder;
};

TEST_F(KernelCacheTest, ReturnsTheStoredEntry) {
  KernelCache cache(folder / "new" / "folder");
  EXPECT_FALSE(cache.load(buildKernelKey(1)));
  cache.store(buildKernelKey(1), StringRef("an object\0with a zero", 21));
  cache.store(buildKernelKey(2), "");
  EXPECT_EQ(cache.load(buildKernelKey(1)), std::string("an object\0with a zero", 21));
  EXPECT_EQ(cache.load(buildKernelKey(2)), "");
  EXPECT_FALSE(cache.load(buildKernelKey(3)));
  EXPECT_EQ(KernelCache(folder / "new" / "folder").load(buildKernelKey(2)), "");
  EXPECT_EQ(cache.getHits(), 2);
  EXPECT_EQ(cache.getMisses(), 2);
  EXPECT_EQ(cache.getProblem(), "");
  struct stat status{};
  ASSERT_EQ(::stat((folder / "new").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 077, 0u) << "other users could inject code";
}

TEST_F(KernelCacheTest, ReturnsTheStoredParts) {
  using Parts = std::vector<std::string>;
  KernelCache cache(folder);
  EXPECT_FALSE(cache.loadParts(buildKernelKey(1), 2));
  cache.storeParts(buildKernelKey(1), {StringRef("bit\0code", 8), "ptx"});
  EXPECT_EQ(cache.loadParts(buildKernelKey(1), 2), (Parts{std::string("bit\0code", 8), "ptx"}));
  EXPECT_FALSE(cache.loadParts(buildKernelKey(1), 1));
  EXPECT_FALSE(cache.loadParts(buildKernelKey(1), 3));
  cache.storeParts(buildKernelKey(2), {"", ""});
  EXPECT_EQ(cache.loadParts(buildKernelKey(2), 2), (Parts{"", ""}));
  cache.storeParts(buildKernelKey(3), {});
  EXPECT_EQ(cache.loadParts(buildKernelKey(3), 0), Parts());
  // An entry stored as one part ends in the middle of a length, or has a length beyond its end.
  for (const char *object :
       {"objects", "\x09\0\0\0\0\0\0\0object", "\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    cache.store(buildKernelKey(4), StringRef(object, object[0] == 'o' ? 7
                                                     : object[0] == 9 ? 14
                                                                      : 8));
    EXPECT_TRUE(cache.load(buildKernelKey(4)));
    EXPECT_FALSE(cache.loadParts(buildKernelKey(4), 1));
  }
}

TEST_F(KernelCacheTest, WorksWithoutFolder) {
  KernelCache cache;
  cache.store(buildKernelKey(1), "object");
  EXPECT_FALSE(cache.load(buildKernelKey(1)));
  EXPECT_EQ(cache.getProblem(), "");
}

TEST_F(KernelCacheTest, DetectsEveryFlippedBit) {
  KernelCache cache(folder);
  cache.store(buildKernelKey(1), "the object's bytes");
  std::string good = read(1);
  for (size_t i = 0; i < 8 * good.size(); ++i) {
    std::string bad = good;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    write(1, bad);
    EXPECT_FALSE(cache.load(buildKernelKey(1))) << "bit " << i;
    EXPECT_FALSE(fs::exists(path(1))) << "bit " << i;
  }
  cache.store(buildKernelKey(1), "the object's bytes");
  EXPECT_EQ(read(1), good);
}

TEST_F(KernelCacheTest, DetectsEveryWrongLength) {
  KernelCache cache(folder);
  cache.store(buildKernelKey(1), "the object's bytes");
  std::string good = read(1);
  for (size_t size = 0; size < good.size(); ++size) {
    write(1, good.substr(0, size));
    EXPECT_FALSE(cache.load(buildKernelKey(1))) << size;
  }
  for (const std::string &more : {std::string(1, '\0'), std::string("x"), good}) {
    write(1, good + more);
    EXPECT_FALSE(cache.load(buildKernelKey(1)));
  }
  write(1, good);
  EXPECT_TRUE(cache.load(buildKernelKey(1)));
}

TEST_F(KernelCacheTest, DetectsEntryOfAnotherKey) {
  KernelCache cache(folder);
  cache.store(buildKernelKey(1), "one");
  fs::copy_file(path(1), path(2));
  EXPECT_FALSE(cache.load(buildKernelKey(2)));
  EXPECT_TRUE(cache.load(buildKernelKey(1)));
}

TEST_F(KernelCacheTest, IgnoresNonRegularFiles) {
  KernelCache cache(folder);
  fs::create_directory(path(1));
  ASSERT_EQ(::mkfifo(path(2).c_str(), 0600), 0);
  fs::create_symlink(path(3), path(3));
  for (int i : {1, 2, 3}) {
    EXPECT_FALSE(cache.load(buildKernelKey(i))) << i;
  }
}

// No file can be renamed onto a directory, so such an entry would be compiled every time.
TEST_F(KernelCacheTest, ReplacesDirectoryAtThePathOfAnEntry) {
  KernelCache cache(folder);
  fs::create_directories(fs::path(path(1)) / "inside");
  std::ofstream(folder / "file") << "text";
  fs::create_directory(folder / "other");
  fs::create_symlink(folder / "file", fs::path(path(1)) / "inside" / "link");
  fs::create_directory_symlink(folder / "other", path(2));
  for (int i : {1, 2}) {
    EXPECT_FALSE(cache.load(buildKernelKey(i))) << i;
    cache.store(buildKernelKey(i), "object");
    EXPECT_EQ(cache.load(buildKernelKey(i)), "object") << i;
  }
  EXPECT_EQ(cache.getProblem(), "");
  EXPECT_TRUE(fs::exists(folder / "file"));
  EXPECT_TRUE(fs::is_directory(folder / "other"));
}

TEST_F(KernelCacheTest, EvictsLeastRecentlyUsed) {
  std::string object(1000, 'x');
  KernelCache cache(folder, 10000);
  for (int i = 0; i < 12; ++i) {
    cache.store(buildKernelKey(i), object);
    setUsed(i, i);
  }
  EXPECT_TRUE(cache.load(buildKernelKey(0))); // the oldest is used again
  std::ofstream(folder / "notes.txt") << std::string(20000, 'n');
  cache.trim();
  EXPECT_TRUE(cache.load(buildKernelKey(0)));
  EXPECT_FALSE(cache.load(buildKernelKey(1)));
  EXPECT_FALSE(cache.load(buildKernelKey(4)));
  EXPECT_TRUE(cache.load(buildKernelKey(11)));
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
  uint64_t total = 0;
  for (int i = 0; i < 12; ++i) {
    total += read(i).size();
  }
  EXPECT_LE(total, 10000u);
  EXPECT_GT(total, 7500u);
}

TEST_F(KernelCacheTest, LimitBelowOneEntryStoresNothing) {
  KernelCache cache(folder, 100);
  cache.store(buildKernelKey(1), std::string(1000, 'x'));
  cache.trim();
  EXPECT_EQ(count(), 0u);
  EXPECT_EQ(cache.getProblem(), "");
}

TEST_F(KernelCacheTest, RemovesFilesOfKilledProcesses) {
  KernelCache cache(folder);
  std::string old = path(1) + ".tmp-1-0", fresh = path(1) + ".tmp-2-0";
  std::ofstream{old} << "part";
  std::ofstream{fresh} << "part";
  timespec times[] = {{1000000000, 0}, {1000000000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, old.c_str(), times, 0), 0);
  cache.store(buildKernelKey(2), "object");
  cache.trim();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh)) << "another process may be writing it";
}

TEST_F(KernelCacheTest, ReportsFolderThatCannotBeCreated) {
  std::ofstream(folder / "file") << "text";
  KernelCache cache((folder / "file").string());
  cache.store(buildKernelKey(1), "object");
  cache.store(buildKernelKey(2), "object");
  cache.trim();
  EXPECT_FALSE(cache.load(buildKernelKey(1)));
  EXPECT_NE(cache.getProblem().find("cannot store compiled kernels: Not a directory"),
            std::string::npos)
      << cache.getProblem();
}

/// A disk that is full, as the limit on the size of files.
TEST_F(KernelCacheTest, FullDiskLeavesNoPartialEntry) {
  pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{500, 500};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    KernelCache cache(folder);
    cache.store(buildKernelKey(1), std::string(1000, 'x'));
    ::_exit(cache.getProblem().find("File too large") == std::string::npos ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(count(), 0u);
}

/// Processes that store, load, damage and evict the same entries: every loaded result is right.
TEST_F(KernelCacheTest, ProcessesShareTheCache) {
  constexpr int processes = 4, rounds = 300, keys = 7;
  auto buildObject = [](int key) {
    return std::string(static_cast<size_t>(500 + key), char('a' + key));
  };
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    children.push_back(::fork());
    if (children.back() == 0) {
      KernelCache cache(folder, 3000);
      bool isGood = true;
      for (int round = 0; round < rounds; ++round) {
        int key = (round * (p + 1) + p) % keys;
        std::optional<std::string> loaded = cache.load(buildKernelKey(key));
        isGood &= !loaded || *loaded == buildObject(key);
        if (!loaded) {
          cache.store(buildKernelKey(key), buildObject(key));
        }
        if (round % 16 == p) {
          ::truncate(path(key).c_str(), 100 + round);
        }
        if (round % 8 == 0) {
          cache.trim();
        }
      }
      ::_exit(isGood && cache.getProblem().empty() && cache.getHits() > 0 ? 0 : 1);
    }
  }
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(KernelCacheTest, ThreadsShareTheCache) {
  KernelCache cache(folder);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        cache.store(buildKernelKey(i % 10), "object " + std::to_string(i % 10));
        EXPECT_EQ(cache.load(buildKernelKey(i % 10)), "object " + std::to_string(i % 10));
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(cache.getHits(), 200);
  EXPECT_EQ(count(), 10u);
}

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

class KernelCacheSettingTest : public testing::Test {
protected:
  void SetUp() override {
    for (const char *name : names) {
      const char *value = std::getenv(name);
      saved.emplace_back(value ? std::optional<std::string>(value) : std::nullopt);
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (size_t i = 0; i < std::size(names); ++i) {
      saved[i] ? ::setenv(names[i], saved[i]->c_str(), 1) : ::unsetenv(names[i]);
    }
  }
  static KernelCacheSetting find(const std::string &value) {
    llvm::Expected<KernelCacheSetting> setting = findKernelCache(value);
    EXPECT_TRUE(static_cast<bool>(setting));
    return setting ? *setting : KernelCacheSetting();
  }

  static constexpr const char *names[] = {"SLUICE_KERNEL_CACHE", "SLUICE_KERNEL_CACHE_SIZE",
                                          "XDG_CACHE_HOME", "HOME"};
  std::vector<std::optional<std::string>> saved;
};

TEST_F(KernelCacheSettingTest, FlagPrecedesVariableAndDefaultFolder) {
  EXPECT_EQ(find("").folder, "");
  ::setenv("HOME", "/elsewhere", 1);
  EXPECT_EQ(find("").folder, "/elsewhere/.cache/sluice/kernels");
  EXPECT_FALSE(find("").isNamed);
  ::setenv("XDG_CACHE_HOME", "relative", 1); // which the XDG specification ignores
  EXPECT_EQ(find("").folder, "/elsewhere/.cache/sluice/kernels");
  ::setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(find("").folder, "/caches/sluice/kernels");
  ::setenv("SLUICE_KERNEL_CACHE", "variable", 1);
  EXPECT_EQ(find("").folder, "variable");
  EXPECT_TRUE(find("").isNamed);
  EXPECT_EQ(find("flag").folder, "flag");
  EXPECT_EQ(find("off").folder, "");
  EXPECT_EQ(find("OFF").folder, "");
  ::setenv("SLUICE_KERNEL_CACHE", "off", 1);
  EXPECT_EQ(find("").folder, "");
  EXPECT_EQ(find("flag").folder, "flag");
}

TEST_F(KernelCacheSettingTest, ParsesTheLimitAsASize) {
  EXPECT_EQ(find("").mostBytes, KernelCache::defaultBytes);
  ::setenv("SLUICE_KERNEL_CACHE_SIZE", "1.5MiB", 1);
  EXPECT_EQ(find("").mostBytes, 1572864u);
  ::setenv("SLUICE_KERNEL_CACHE_SIZE", "much", 1);
  EXPECT_EQ(llvm::toString(findKernelCache("").takeError()),
            "SLUICE_KERNEL_CACHE_SIZE: expected a size such as 512MiB, 1.5GiB or 1000000 (bytes), "
            "found \"much\"; change or unset it");
}

} // namespace
