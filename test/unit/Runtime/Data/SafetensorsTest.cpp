// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Support/Error.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

struct Tensors {
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {-1};
  std::vector<NamedTensor> list() { return {{"a", {2, 3}, a}, {"b", {}, b}}; }
};

/// A file of one tensor with this header and `dataBytes` zero bytes.
std::vector<uint8_t> buildFile(const std::string &header, size_t dataBytes) {
  uint64_t length = header.size();
  std::vector<uint8_t> file(8);
  std::memcpy(file.data(), &length, 8);
  file.insert(file.end(), header.begin(), header.end());
  file.resize(file.size() + dataBytes);
  return file;
}

TEST(Safetensors, RoundTrips) {
  Tensors from, to;
  std::vector<uint8_t> file = encodeSafetensors(from.list());
  uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  EXPECT_EQ((8 + header) % 8, 0u);
  EXPECT_EQ(file.size(), 8 + header + 28);
  to.a.assign(6, 0);
  to.b.assign(1, 0);
  decodeSafetensors(file, "w", to.list());
  EXPECT_EQ(to.a, from.a);
  EXPECT_EQ(to.b, from.b);
}

TEST(Safetensors, RejectsNumbersThatAreNotFinite) {
  Tensors from, to;
  from.a[4] = std::numeric_limits<float>::quiet_NaN();
  std::vector<uint8_t> file = encodeSafetensors(from.list());
  std::string message = userError([&] { decodeSafetensors(file, "w", to.list()); });
  EXPECT_NE(message.find("\"a\": expected finite numbers, found nan at element 4"),
            std::string::npos)
      << message;
  EXPECT_EQ(to.b, Tensors().b);
}

TEST(Safetensors, ReportsPrefixAndRemovesItOnRequest) {
  Tensors from, to;
  for (std::string prefix : {"_orig_mod.", "model."}) {
    std::vector<NamedTensor> named = from.list();
    for (NamedTensor &tensor : named) {
      tensor.name = prefix + tensor.name;
    }
    std::vector<uint8_t> file = encodeSafetensors(named);
    std::string message = userError([&] { decodeSafetensors(file, "w", to.list()); });
    EXPECT_NE(message.find("found \"" + prefix + "a\", and likewise for the others"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("take it off with --weights-prefix " + prefix), std::string::npos)
        << message;
    to.a.assign(6, 0);
    to.b.assign(1, 0);
    decodeSafetensors(file, "w", to.list(), {prefix, {}});
    EXPECT_EQ(to.a, from.a);
    EXPECT_EQ(to.b, from.b);
    EXPECT_NE(userError([&] {
                decodeSafetensors(file, "w", to.list(), {"other.", {}});
              }).find("--weights-prefix: expected a prefix of the names"),
              std::string::npos);
  }
}

TEST(Safetensors, IgnoresTensorCopiesWithANote) {
  Tensors from, to;
  std::vector<float> copy = from.a, other = {9, 9};
  std::vector<NamedTensor> stored = from.list();
  stored.push_back({"lm_head.weight", {2, 3}, copy});
  std::vector<std::string> notes;
  auto notice = [&](const std::string &text) { notes.push_back(text); };
  decodeSafetensors(encodeSafetensors(stored), "w", to.list(), {}, notice);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "w: left out \"lm_head.weight\", which holds the numbers of \"a\" once more");
  copy[5] += 1; // not a copy anymore
  std::string message =
      userError([&] { decodeSafetensors(encodeSafetensors(stored), "w", to.list()); });
  EXPECT_NE(message.find("found \"lm_head.weight\"; give weights of this model, or leave out what "
                         "it has no use for with --ignore \"lm_head.weight\""),
            std::string::npos)
      << message;
  stored.push_back({"rope", {2}, other});
  decodeSafetensors(encodeSafetensors(stored), "w", to.list(), {"", {"lm_head.*", "rope"}});
  EXPECT_EQ(to.a, from.a);
  message = userError(
      [&] { decodeSafetensors(encodeSafetensors(stored), "w", to.list(), {"", {"none*"}}); });
  EXPECT_NE(message.find("--ignore: expected a pattern that names a tensor of the file"),
            std::string::npos)
      << message;
}

TEST(Safetensors, ReportsOtherContextAndOtherType) {
  std::vector<float> table(8), shorter(4);
  std::vector<NamedTensor> stored = {{"stages.0.position.weight", {4, 2}, table}};
  std::string message = userError([&] {
    decodeSafetensors(encodeSafetensors(stored), "w",
                      std::vector<NamedTensor>{{"stages.0.position.weight", {2, 2}, shorter}});
  });
  EXPECT_NE(message.find("expected positions for the artifact's context of 2, found those of a "
                         "context of 4; compile the spec with --set context=4"),
            std::string::npos)
      << message;
  message = userError([&] {
    decodeSafetensors(buildFile(R"({"x":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8),
                      "w", std::vector<NamedTensor>{{"x", {1}, std::span(shorter).first(1)}});
  });
  EXPECT_NE(message.find("expected dtype F32, F16 or BF16, found \"F64\"; convert it"),
            std::string::npos)
      << message;
}

TEST(Safetensors, RejectsBytesAfterTheData) {
  Tensors from, to;
  std::vector<uint8_t> file = encodeSafetensors(from.list());
  file.resize(file.size() + 4);
  EXPECT_NE(userError([&] { decodeSafetensors(file, "w", to.list()); }).find("expected 28 bytes"),
            std::string::npos);
}

TEST(Safetensors, ReadsMetadataOfOtherWriters) {
  std::vector<float> x(2, 9);
  std::vector<NamedTensor> into = {{"x", {2}, x}};
  bool checked = decodeSafetensors(
      buildFile(
          R"({"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
          8),
      "w", into);
  EXPECT_EQ(x, std::vector<float>(2, 0));
  EXPECT_FALSE(checked);
}

// Every bit of the file: in a name, a number, a checksum or the data.
TEST(Safetensors, FlippedBitIsDetectedOrHarmless) {
  Tensors from;
  const std::vector<uint8_t> whole = encodeSafetensors(from.list());
  int64_t found = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::vector<uint8_t> file = whole;
    file[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    Tensors to;
    to.a.assign(6, 7);
    to.b.assign(1, 7);
    try {
      decodeSafetensors(file, "w", to.list());
      EXPECT_EQ(to.a, from.a) << "bit " << bit;
      EXPECT_EQ(to.b, from.b) << "bit " << bit;
    } catch (const UserError &) {
      ++found;
    }
  }
  EXPECT_EQ(found, static_cast<int64_t>(8 * whole.size())); // the header has no spare bit
}

TEST(Safetensors, ReportsDamagedData) {
  Tensors from, to;
  std::vector<uint8_t> file = encodeSafetensors(from.list());
  EXPECT_TRUE(decodeSafetensors(file, "w", to.list()));
  file.back() ^= 1;
  std::string message = userError([&] { decodeSafetensors(file, "w", to.list()); });
  EXPECT_NE(message.find("the file is damaged"), std::string::npos) << message;
}

/// Reads one tensor "x" of `values` from data of another type.
std::vector<float> readAs(const std::string &type, const std::vector<uint16_t> &values) {
  std::string bytes = std::to_string(2 * values.size()), count = std::to_string(values.size());
  std::vector<uint8_t> file = buildFile(R"({"x":{"dtype":")" + type + R"(","shape":[)" + count +
                                            R"(],"data_offsets":[0,)" + bytes + "]}}",
                                        2 * values.size());
  std::memcpy(file.data() + file.size() - 2 * values.size(), values.data(), 2 * values.size());
  std::vector<float> x(values.size());
  decodeSafetensors(file, "w",
                    std::vector<NamedTensor>{{"x", {static_cast<int64_t>(x.size())}, x}});
  return x;
}

TEST(Safetensors, ReadsEveryFiniteNumberOfF16Exactly) {
  std::vector<uint16_t> halves;
  std::vector<float> expected;
  for (uint32_t half = 0; half < 0x10000; ++half) {
    int exponent = static_cast<int>(half >> 10 & 31), mantissa = static_cast<int>(half & 0x3ff);
    if (exponent < 31) {
      float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                 : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
      halves.push_back(static_cast<uint16_t>(half));
      expected.push_back(half & 0x8000 ? -size : size);
    }
  }
  std::vector<float> found = readAs("F16", halves);
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), expected.size() * 4), 0); // and -0
  EXPECT_NE(userError([] { readAs("F16", {0x7c00}); }).find("found inf"), std::string::npos);
  EXPECT_NE(userError([] { readAs("F16", {0x7e01}); }).find("found nan"), std::string::npos);
}

TEST(Safetensors, ReadsBF16Exactly) {
  EXPECT_EQ(readAs("BF16", {0x3f80, 0xc040, 0x0001, 0x7f7f}),
            (std::vector<float>{1, -3, 0x1p-133f, 0x1.fep127f}));
  EXPECT_NE(userError([] { readAs("BF16", {0xff80}); }).find("found -inf"), std::string::npos);
}

TEST(Safetensors, RejectsTruncationAndCopiesNothing) {
  Tensors from, to;
  to.a.assign(6, 7);
  std::vector<uint8_t> file = encodeSafetensors(from.list());
  for (size_t length = 0; length < file.size(); ++length) {
    userError([&] { decodeSafetensors(std::span(file).first(length), "w", to.list()); });
  }
  EXPECT_EQ(to.a, std::vector<float>(6, 7));
}

TEST(Safetensors, RejectsTensorsThatDoNotFitTheModel) {
  Tensors from;
  std::vector<uint8_t> file = encodeSafetensors(from.list());
  auto message = [&](std::vector<NamedTensor> into) {
    return userError([&] { decodeSafetensors(file, "w", into); });
  };
  std::vector<float> c(1);
  EXPECT_NE(message({{"a", {2, 3}, from.a}}).find("only the model's tensors, found \"b\""),
            std::string::npos);
  EXPECT_NE(message({{"a", {2, 3}, from.a}, {"b", {}, from.b}, {"c", {1}, c}})
                .find("\"c\" [1], found none"),
            std::string::npos);
  EXPECT_NE(
      message({{"a", {3, 2}, from.a}, {"b", {}, from.b}}).find("expected shape [3,2], found [2,3]"),
      std::string::npos);
}

TEST(Safetensors, RejectsWrongHeaders) {
  std::vector<float> x(2);
  auto refused = [&](const std::string &header, const std::string &expected) {
    std::string message = userError([&] {
      decodeSafetensors(buildFile(header, 8), "w", std::vector<NamedTensor>{{"x", {2}, x}});
    });
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  };
  refused(R"({"x":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", "found \"I64\"");
  refused(R"({"x":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", "found \"F99\"");
  refused(R"({"x":{"dtype":"F16","shape":[2],"data_offsets":[0,8]}})", "a range of 4 bytes");
  refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}})", "range");
  refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[4,8]}})", "range");
  refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "range");
  refused(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "shape");
  refused(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "shape");
  refused(R"({"x":{"dtype":"F32"}})", "the key \"shape\"");
  refused(R"([1])", "an object");
  refused(R"({"x":)", "text that is not JSON at line 1, column 6");
  const std::string good = R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  auto with = [&](const std::string &entry) { return "{" + good + "," + entry + "}"; };
  refused(with(good), "the key \"x\" twice");
  refused(with(R"("y":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), "overlap");
  refused(with(R"("y":{"dtype":"U8","shape":[3],"data_offsets":[5,8]})"), "bytes of no tensor");
  refused(with(R"("y":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
               R"("z":{"dtype":"F16","shape":[1],"data_offsets":[6,8]},)"
               R"("e":{"dtype":"F32","shape":[0],"data_offsets":[8,8]})"),
          "expected shape [2], found [1]"); // else well-formed
  refused(R"({"y":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
          R"("x":{"dtype":"F32","shape":[1],"data_offsets":[2,6]},)"
          R"("z":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}})",
          "starts at a multiple of 4");
  refused(with(R"("y":{"dtype":"F32","shape":[0],"data_offsets":[4,4]})"), "expected 4 bytes");
  const std::string both = R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  refused("{" + both + R"(,"__metadata__":{"sluice.data_sha256":"0"}})", "damaged");
  refused("{" + both + R"(,"__metadata__":[]})", "an object");
}

/// The extents of an empty tensor are limited before and after the 0: sizes of parts of it do not
/// overflow.
TEST(Safetensors, LimitsTheExtentsOfEmptyTensors) {
  auto read = [](const std::string &shape) {
    std::string header = R"({"x":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,0]}})";
    SafetensorsFile(buildFile(header, 0), "w");
  };
  for (const char *shape : {"[0]", "[0,268435456]", "[16384,0,16384]", "[0,0,1]"}) { // 2^30 bytes
    EXPECT_NO_THROW(read(shape)) << shape;
  }
  for (const char *shape : {"[0,268435457]", "[268435457,0]", "[16384,0,16385]",
                            "[0,4294967296,4294967296]", "[4294967296,0,4294967296]"}) {
    std::string message = userError([&] { read(shape); });
    EXPECT_NE(message.find("expected a shape that fits the file"), std::string::npos) << message;
  }
}

} // namespace
