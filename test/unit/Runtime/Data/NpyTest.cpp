// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Data/Npy.h"
#include "sluice/Runtime/Data/NpyHeader.h"

#include <cstring>

using namespace sluice;
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

TEST(Npy, WritesIntegers) {
  TemporaryFolder folder;
  NpyWriter writer(folder / "a.npy", {3}, "<i4");
  std::vector<int32_t> numbers = {-1, 0, 1 << 30};
  writer.append(std::span<const int32_t>(numbers));
  writer.finish();
  std::string file = readFile(folder / "a.npy");
  NpyHeader header = parseNpyHeader(asBytes(file));
  EXPECT_EQ(header.type, "<i4");
  EXPECT_EQ(header.shape, std::vector<int64_t>{3});
  ASSERT_EQ(file.size(), header.start + 12);
  EXPECT_EQ(std::memcmp(file.data() + header.start, numbers.data(), 12), 0);
}

TEST(Npy, IncompleteFileIsRemoved) {
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

TEST(Npy, RejectsInvalidPaths) {
  TemporaryFolder folder;
  auto message = [](const Path &path) { return userError([&] { NpyWriter(path, {2}); }); };
  EXPECT_NE(message(folder.path).find("found a directory"), std::string::npos);
  EXPECT_NE(message("/dev/null").find("not a regular file"), std::string::npos);
  EXPECT_NE(message("").find("found an empty one"), std::string::npos);
  EXPECT_NE(message(folder / "nowhere/a.npy").find("found no folder"), std::string::npos);
}

// Each row holds the result of NumPy 2.4 (numpy.lib.format.read_array_header_1_0, Python 3.11).
// Besides, NumPy reads complex numbers, ... and set() as values that another of the same key
// replaces, characters by their names, and more than 64 brackets; this reader rejects them.
struct HeaderCase {
  const char *text, *shape; // null: rejected
  const char *type = "<f4";
};
constexpr HeaderCase headers[] = {
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (200, 256), }   \n", "(200, 256)"},
    {"{'descr':'<f4','fortran_order':False,'shape':(200,256)}", "(200, 256)"},
    {" \t{'shape':(200,),'fortran_order':False,\"descr\":\"<f4\"}", "(200,)"},
    {"\n# made by hand\n({'descr':'<f4','fortran_order':False,'shape':()}) # end\n", "()"},
    {"\n {'descr':'<f4','fortran_order':False,'shape':()}", nullptr},
    {"{'descr':'<f4',\\\n'fortran_order':False,#}\r\n'shape':(200,\n256)}\f", "(200, 256)"},
    {"{'descr':'<f4',\\ \n'fortran_order':False,'shape':(2,)}", nullptr},
    {"{'descr':'<f8','descr':'<f4','fortran_order':False,'shape':(2,)}", "(2,)"},
    {"{'descr':'<f4','descr':'<f8','fortran_order':False,'shape':(2,)}", "(2,)", "<f8"},
    {"{'descr':'<f4','shape':(200,256),'fortran_order':False,'shape':(3,)}", "(3,)"},
    {"{'descr':{'a':[1.5,-2e3]},'descr':'<f4','fortran_order':False,'shape':(2,)}", "(2,)"},
    {"{'descr':'<f4','fortran_order':False,'shape':(2,),'x':1}", nullptr},
    {"{'x': \"'descr': '<f4', 'fortran_order': False, 'shape': (2,)\"}", nullptr},
    {"{'descr':'<f4','shape':(2,)}", nullptr},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), ", nullptr},
    {"'descr': '<f4', 'fortran_order': False, 'shape': (2,), ", nullptr},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}}", nullptr},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)},", nullptr},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)};", nullptr},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,),,}", nullptr},
    {"{'descr':'<f4' 'fortran_order':False,'shape':(2,)}", nullptr},
    {"{'descr' '<f4','fortran_order':False,'shape':(2,)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(2,)} x", nullptr},
    {"{'descr':'<f4','fortran_order':0,'shape':(2,)}", nullptr},
    {"{'descr':'<f4','fortran_order':None,'shape':(2,)}", nullptr},
    {"{'descr':'<f4','fortran_order':false,'shape':(2,)}", nullptr},
    {"{'descr':'<f4','fortran_order':(False),'shape':(2,)}", "(2,)"},
    {"{'descr':'<f4','fortran_order':False,'shape':[200,256]}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':200}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(200)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(,)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(200 256)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(((200),256))}", "(200, 256)"},
    {"{'descr':'<f4','fortran_order':False,'shape':(0xC8,0o400,0b1_0,2_00,00)}",
     "(200, 256, 2, 200, 0)"},
    {"{'descr':'<f4','fortran_order':False,'shape':(2__00,256)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(200_,256)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(0200,256)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(200.0,256)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(2e2,256)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(True,+3,- 4)}", "(1, 3, -4)"},
    {"{'descr':'<f4','fortran_order':False,'shape':(--2,)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(200if 1else 2,)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(*(200,),256)}", nullptr},
    {"{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,)}",
     "(9223372036854775807,)"},
    {"{u'descr':r'<f4','''fortran_order''':False,\"\"\"shape\"\"\":(2,)}", "(2,)"},
    {"{'de' 'scr':'<'u'f4','fortran_order':False,'shape':(2,)}", "(2,)"},
    {"{'\\x64escr':'<f\\64','fortran_order':False,'sh\\u0061pe':(2,)}", "(2,)"},
    {"{'descr':'<f\\\n4','fortran_order':False,'shape':(2,)}", "(2,)"},
    {"{'descr':'<f4\n','fortran_order':False,'shape':(2,)}", nullptr},
    {"{r'\\x64escr':'<f4','fortran_order':False,'shape':(2,)}", nullptr},
    {"{b'descr':'<f4','fortran_order':False,'shape':(2,)}", nullptr},
    {"{'descr':f'<f4','fortran_order':False,'shape':(2,)}", nullptr},
    {"{'descr':[('a','<f4')],'fortran_order':False,'shape':(2,)}", "(2,)", "[('a','<f4')]"},
    {"{**{'descr':'<f4','fortran_order':False,'shape':(2,)}}", nullptr},
    {"dict(descr='<f4',fortran_order=False,shape=(2,))", nullptr},
    {"{[]:1,'descr':'<f4','fortran_order':False,'shape':(2,)}", nullptr},
    {"{'descr','fortran_order','shape'}", nullptr},
    {"", nullptr},
    {"{}", nullptr},
    {"[]", nullptr},
    {"'descr'", nullptr},
};

std::string npyStart(const std::string &text, int major = 1, int minor = 0) {
  std::string start = {'\x93', 'N', 'U', 'M', 'P', 'Y', char(major), char(minor)};
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    start += static_cast<char>(text.size() >> 8 * i & 255);
  }
  return start + text;
}

NpyHeader parseStart(const std::string &start) { return parseNpyHeader(asBytes(start)); }

TEST(NpyHeader, ReadsTheFormatsOfNumPy) {
  for (const HeaderCase &each : headers) {
    for (int major : {1, 2, 3}) {
      NpyHeader header = parseStart(npyStart(each.text, major));
      EXPECT_EQ(header.problem.empty(), each.shape != nullptr) << each.text << header.problem;
      if (each.shape != nullptr && header.problem.empty()) {
        EXPECT_EQ(header.showShape(), each.shape) << each.text;
        EXPECT_EQ(header.type, each.type) << each.text;
        EXPECT_EQ(header.isF32(), header.type == "<f4");
        EXPECT_EQ(header.start, (major == 1 ? 10 : 12) + std::string(each.text).size());
      }
    }
  }
}

TEST(NpyHeader, AcceptsSupportedVersions) {
  const std::string right = "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }";
  for (auto [major, minor] : {std::pair(1, 9), {0, 0}, {4, 0}, {2, 1}, {3, 255}}) {
    EXPECT_NE(parseStart(npyStart(right, major, minor)).problem.find("version"), std::string::npos);
  }
  EXPECT_TRUE(parseStart(npyStart(right)).fortranOrder);
  // Python 2 wrote long integers with an L; its formats are 1.0 and 2.0.
  const std::string old = "{'descr':'<f4','fortran_order':False,'shape':(200L,0xC8 L)}";
  EXPECT_EQ(parseStart(npyStart(old, 1)).showShape(), "(200, 200)");
  EXPECT_EQ(parseStart(npyStart(old, 2)).problem, "");
  EXPECT_NE(parseStart(npyStart(old, 3)).problem, "");
  EXPECT_NE(parseStart(npyStart("{'descr':'<f4','fortran_order':False,'shape':(2l,)}")).problem,
            "");
  // 1.0 and 2.0 are Latin-1, 3.0 is UTF-8.
  EXPECT_EQ(parseStart(npyStart(right + "#\xe9", 1)).problem, "");
  EXPECT_EQ(parseStart(npyStart(right + "#\xe9", 3)).problem, "a header that is not UTF-8");
  EXPECT_EQ(parseStart(npyStart(right + "#\xc3\xa9", 3)).problem, "");
}

TEST(NpyHeader, RejectsOversizedAndTruncatedFiles) {
  const std::string right = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  std::string longest = right + std::string(10000 - right.size(), ' ');
  EXPECT_EQ(parseStart(npyStart(longest)).problem, "");
  EXPECT_NE(parseStart(npyStart(longest + " ")).problem.find("10000"), std::string::npos);
  EXPECT_EQ(parseStart(npyStart(right + std::string(1, '\0'))).problem, "a header with a byte 0");
  for (int major : {1, 2}) {
    std::string file = npyStart(right, major);
    for (size_t size = 0; size < file.size(); ++size) {
      EXPECT_NE(parseStart(file.substr(0, size)).problem, "") << size;
    }
  }
  for (char bracket : {'(', '[', '{'}) {
    EXPECT_NE(parseStart(npyStart(std::string(9000, bracket))).problem, "");
  }
}

TEST(NpyHeader, AcceptsEveryNameOfF32) {
  auto isF32 = [](const std::string &type) {
    return parseStart(npyStart("{'descr':" + type + ",'fortran_order':False,'shape':(2,)}"))
        .isF32();
  };
  for (const char *type :
       {"'<f4'", "'f4'", "'=f4'", "'|f4'", "'float32'", "'f'", "'<f'", "'=f'", "'single'"}) {
    EXPECT_TRUE(isF32(type)) << type;
  }
  for (const char *type : {"'>f4'", "'>f'", "'<f8'", "'float'", "'i'", "'<F4'", "'f4 '", "'<<f4'",
                           "'<float32'", "'f4,'", "''", "None", "[('f','<f4')]"}) {
    EXPECT_FALSE(isF32(type)) << type;
  }
}

} // namespace
