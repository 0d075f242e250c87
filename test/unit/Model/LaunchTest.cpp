// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a stage adds to the launches of a training step. The whole list of one model is in
// test/Driver/launches.test.
#include "Harness.h"
#include "Specs.h"

#include <gtest/gtest.h>

using namespace sluice::testing;

namespace {

/// Launches of the entry `gradient`.
struct Launches {
  int64_t forward = 0, backward = 0;
  bool operator==(const Launches &) const = default;
};

std::ostream &operator<<(std::ostream &out, const Launches &launches) {
  return out << launches.forward << " forward, " << launches.backward << " backward";
}

int64_t count(const std::string &text, const std::string &word) {
  int64_t times = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++times;
  }
  return times;
}

/// Counted in plan IR, which needs no machine code.
Launches launchesOf(const std::string &stages) {
  Folder folder;
  std::string plan = emit(folder.write("model.json", stackOf(stages)), "plan");
  size_t begin = plan.find("plan.entry @gradient");
  std::string entry = plan.substr(begin, plan.find("\n  }", begin) - begin);
  return {count(entry, "phase \"forward\""), count(entry, "phase \"backward\"")};
}

Launches operator-(const Launches &left, const Launches &right) {
  return {left.forward - right.forward, left.backward - right.backward};
}

const std::string layer = R"({"op": "layer"}, )", norm = R"({"op": "norm"}, )";

/// Forward: norm, qkv, attention, output, norm, in, out. Backward: two a linear map, one for
/// attention, two a norm.
TEST(Launches, OfAPreNormLayer) {
  EXPECT_EQ(launchesOf(layer + layer + layer) - launchesOf(layer + layer), (Launches{7, 13}));
}

/// The norm's backward takes dropout's with it, so the last layer's wants one behind it, as every
/// pre-norm stack has.
TEST(Launches, DropoutAndActivationsAddNone) {
  EXPECT_EQ(
      launchesOf(
          R"({"op": "layer", "dropout": 0.1, "attention_dropout": 0.1, "activation": "relu", "rotary": true}, )" +
          norm),
      launchesOf(layer + norm));
}

/// An hourglass launches what its layers and norms launch on one scale.
TEST(Launches, ShiftShortenUpsampleAndSkipAddNone) {
  Launches flat = launchesOf(layer + norm + layer + layer + norm + layer + norm);
  EXPECT_EQ(launchesOf(R"({"op": "hourglass", "hierarchy": "1@1 2@3 1@1"}, )"), flat);
}

/// Two linear maps, and rows side by side, stored: forward what shortening reads, backward the
/// gradient of what upsampling wrote.
TEST(Launches, LinearResamplingAddsItsLinearMapsAndFolds) {
  Launches plain = launchesOf(R"({"op": "hourglass", "hierarchy": "1@1 2@3 1@1"}, )");
  Launches linear = launchesOf(
      R"({"op": "hourglass", "hierarchy": "1@1 2@3 1@1", "shorten": "linear", "upsample": "linear"}, )");
  EXPECT_EQ(linear - plain, (Launches{3, 5}));
}

} // namespace
