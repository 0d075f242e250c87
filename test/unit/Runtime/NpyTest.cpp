// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Npy.h"

#include <cstring>

using namespace sluice::runtime;
using namespace sluice::test;

namespace {

TEST(Npy, WritesTheFormat) {
  TemporaryFolder folder;
  for (const auto &[shape, shown] :
       {std::pair<std::vector<int64_t>, std::string>{{3, 2}, "(3, 2)"}, {{6}, "(6,)"}}) {
    NpyWriter writer(folder / "a.npy", shape);
    std::vector<float> numbers = {1, -0.0f, 3.5f, 1e-40f, 5, 6};
    writer.append(std::span(numbers).first(2));
    EXPECT_FALSE(std::filesystem::exists(folder / "a.npy")) << "a part of it can be seen";
    writer.append(std::span(numbers).subspan(2));
    writer.finish();
    std::string file = readFile(folder / "a.npy");
    size_t header = 10 + static_cast<uint8_t>(file[8]) + 256 * static_cast<uint8_t>(file[9]);
    EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\0", 8));
    EXPECT_EQ(header % 64, 0u);
    EXPECT_EQ(file[header - 1], '\n');
    std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shown + ", }";
    EXPECT_EQ(file.substr(10, text.size()), text);
    ASSERT_EQ(file.size(), header + 24);
    EXPECT_EQ(std::memcmp(file.data() + header, numbers.data(), 24), 0);
    std::filesystem::remove(folder / "a.npy");
  }
}

TEST(Npy, LeavesNothingUnlessItIsWhole) {
  TemporaryFolder folder;
  writeFile(folder / "a.npy", "old");
  {
    NpyWriter writer(folder / "a.npy", {2});
  }
  {
    NpyWriter writer(folder / "a.npy", {2});
    EXPECT_THROW(writer.finish(), std::logic_error);
  }
  {
    NpyWriter writer(folder / "a.npy", {2});
    auto files = std::filesystem::directory_iterator(folder.path);
    EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "a killed process leaves a file";
  }
  EXPECT_EQ(readFile(folder / "a.npy"), "old");
  auto files = std::filesystem::directory_iterator(folder.path);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(Npy, RefusesWhatIsNoPlaceForAFile) {
  TemporaryFolder folder;
  auto message = [](const Path &path) { return userError([&] { NpyWriter(path, {2}); }); };
  EXPECT_NE(message(folder.path).find("found a directory"), std::string::npos);
  EXPECT_NE(message("/dev/null").find("not a regular file"), std::string::npos);
  EXPECT_NE(message("").find("found an empty one"), std::string::npos);
  EXPECT_NE(message(folder / "nowhere/a.npy").find("found no folder"), std::string::npos);
}

} // namespace
