// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Safetensors.h"

#include <cstring>
#include <limits>

using namespace sluice::runtime;
using namespace sluice::test;

namespace {

struct Tensors {
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {-1};
  std::vector<NamedTensor> list() { return {{"a", {2, 3}, a}, {"b", {}, b}}; }
};

/// A file of one tensor with this header and `dataBytes` zero bytes.
std::vector<uint8_t> fileOf(const std::string &header, size_t dataBytes) {
  uint64_t length = header.size();
  std::vector<uint8_t> file(8);
  std::memcpy(file.data(), &length, 8);
  file.insert(file.end(), header.begin(), header.end());
  file.resize(file.size() + dataBytes);
  return file;
}

TEST(Safetensors, RoundTrip) {
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

TEST(Safetensors, RefusesNumbersThatAreNotFinite) {
  Tensors from, to;
  from.a[4] = std::numeric_limits<float>::quiet_NaN();
  std::vector<uint8_t> file = encodeSafetensors(from.list());
  std::string message = userError([&] { decodeSafetensors(file, "w", to.list()); });
  EXPECT_NE(message.find("\"a\": expected finite numbers, found nan at element 4"),
            std::string::npos)
      << message;
  EXPECT_EQ(to.b, Tensors().b);
}

TEST(Safetensors, RefusesBytesAfterTheData) {
  Tensors from, to;
  std::vector<uint8_t> file = encodeSafetensors(from.list());
  file.resize(file.size() + 4);
  EXPECT_NE(userError([&] { decodeSafetensors(file, "w", to.list()); }).find("expected 28 bytes"),
            std::string::npos);
}

TEST(Safetensors, ReadsMetadataOfOtherWriters) {
  std::vector<float> x(2, 9);
  std::vector<NamedTensor> into = {{"x", {2}, x}};
  decodeSafetensors(
      fileOf(
          R"({"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
          8),
      "w", into);
  EXPECT_EQ(x, std::vector<float>(2, 0));
}

TEST(Safetensors, RefusesTruncationAndCopiesNothing) {
  Tensors from, to;
  to.a.assign(6, 7);
  std::vector<uint8_t> file = encodeSafetensors(from.list());
  for (size_t length = 0; length < file.size(); ++length) {
    userError([&] { decodeSafetensors(std::span(file).first(length), "w", to.list()); });
  }
  EXPECT_EQ(to.a, std::vector<float>(6, 7));
}

TEST(Safetensors, RefusesWhatDoesNotFitTheModel) {
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

TEST(Safetensors, RefusesWrongHeaders) {
  std::vector<float> x(2);
  auto refused = [&](const std::string &header, const std::string &expected) {
    std::string message = userError([&] {
      decodeSafetensors(fileOf(header, 8), "w", std::vector<NamedTensor>{{"x", {2}, x}});
    });
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  };
  refused(R"({"x":{"dtype":"F16","shape":[2],"data_offsets":[0,8]}})", "found F16");
  refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}})", "range");
  refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[4,8]}})", "range");
  refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "range");
  refused(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "shape");
  refused(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "shape");
  refused(R"({"x":{"dtype":"F32"}})", "malformed");
  refused(R"([1])", "not JSON");
}

} // namespace
