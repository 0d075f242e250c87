// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LSH attention: compares the reference with the explicit formula, with attention over all earlier
// rows, and with finite differences; checks the rows that a row does not depend on.
#include "Gradient.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace sluice;
using namespace sluice::testing;
using reference::RuntimeValues;

namespace {

constexpr int64_t columns = 4, heads = 2;
const std::string rows = "!sluice.seq<@s1, 4, f32>", lse = "!sluice.seq<@s1, 2, f32>";

/// @f of rows x (queries and keys), values v and rotations r.
std::string hashed(int64_t hashes, int64_t buckets, int64_t chunk, bool sorted = false) {
  std::string table = "tensor<" + std::to_string(hashes * buckets / 2) + "x4xf32>",
              found = "!sluice.seq<@s1, " + std::to_string(hashes) + ", f32>";
  return "(%x: " + rows + ", %v: " + rows + ", %r: " + table + ") -> " + rows +
         " { %b = sluice.hashed_buckets %x, %r : (" + rows + ", " + table + ") -> " + found +
         " %o, %l = sluice.hashed_attention %x, %x, %v, %b {heads = 2 : i64, head_size = 2 : "
         "i64, "
         "bucket_count = " +
         std::to_string(buckets) + " : i64, chunk = " + std::to_string(chunk) + " : i64" +
         (sorted ? ", sorted" : "") + "} : (" + rows + ", " + rows + ", " + rows + ", " + found +
         ") -> (" + rows + ", " + lse + ") return %o : " + rows + " }";
}

/// Softmax of products over all `keys`, a head at a time.
Doubles attend(const Doubles &x, const Doubles &v, int64_t p, const std::vector<int64_t> &keys) {
  Doubles result(columns);
  for (int64_t first = 0; first < columns; first += columns / heads) {
    Doubles weights;
    double sum = 0;
    for (int64_t q : keys) {
      double score = 0;
      for (int64_t c = first; c < first + columns / heads; ++c) {
        score += x[p * columns + c] * x[q * columns + c];
      }
      weights.push_back(std::exp(score / std::sqrt(double(columns / heads))));
      sum += weights.back();
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      for (int64_t c = first; c < first + columns / heads; ++c) {
        result[c] += weights[i] / sum * v[keys[i] * columns + c];
      }
    }
  }
  return result;
}

/// The bucket of each row: the first maximum of [y; -y].
std::vector<int64_t> computeBuckets(const Doubles &x, const Doubles &r, int64_t hash,
                                    int64_t half) {
  std::vector<int64_t> buckets;
  for (size_t p = 0; p < x.size() / columns; ++p) {
    Doubles y(2 * half);
    for (int64_t i = 0; i < half; ++i) {
      for (int64_t c = 0; c < columns; ++c) {
        y[i] += r[(hash * half + i) * columns + c] * x[p * columns + c];
      }
      y[half + i] = -y[i];
    }
    buckets.push_back(std::ranges::max_element(y) - y.begin());
  }
  return buckets;
}

/// Row p by the definition: rows of a bucket are listed, and the list is cut.
Doubles byDefinition(const Doubles &x, const Doubles &v, const Doubles &r, int64_t p,
                     int64_t hashes, int64_t half, int64_t chunk) {
  std::vector<int64_t> keys;
  for (int64_t hash = 0; hash < hashes; ++hash) {
    std::vector<int64_t> buckets = computeBuckets(x, r, hash, half), members;
    for (int64_t q = 0; q <= p; ++q) {
      if (buckets[q] == buckets[p]) {
        members.push_back(q);
      }
    }
    int64_t own = (int64_t(members.size()) - 1) / chunk;
    for (int64_t i = std::max<int64_t>(0, (own - 1) * chunk); i + 1 < int64_t(members.size());
         ++i) {
      keys.push_back(members[i]);
    }
  }
  return attend(x, v, p, keys.empty() ? std::vector<int64_t>{p} : keys);
}

TEST(Hashed, MatchesItsDefinition) {
  RandomEngine generator(3);
  for (auto [hashes, buckets, chunk] : {std::array<int64_t, 3>{1, 2, 2}, {2, 4, 1}, {3, 6, 4}}) {
    DialectModel model(hashed(hashes, buckets, chunk));
    for (int64_t length : {1, 2, 7, 16}) {
      RuntimeValues setting{.rows = 1, .length = length};
      Arguments arguments = randomArguments(generator, model.getFunction(), setting, 2);
      Doubles found = evaluate<double>(model.getFunction(), arguments, setting)[0];
      const auto &[x, v, r] =
          std::tie(arguments.values[0], arguments.values[1], arguments.values[2]);
      for (int64_t p = 0; p < length; ++p) {
        Doubles expected = byDefinition(x, v, r, p, hashes, buckets / 2, chunk);
        for (int64_t c = 0; c < columns; ++c) {
          EXPECT_NEAR(found[p * columns + c], expected[c], 1e-14) << "row " << p;
        }
      }
    }
  }
}

/// Zero rotations put every row into one bucket with one chunk.
TEST(Hashed, OneBucketIsAttentionOverEarlierRows) {
  RandomEngine generator(4);
  RuntimeValues setting{.rows = 1, .length = 16};
  for (bool sorted : {false, true}) {
    DialectModel model(hashed(2, 4, 16, sorted));
    Arguments arguments = randomArguments(generator, model.getFunction(), setting, 2);
    std::ranges::fill(arguments.values[2], 0);
    Doubles found = evaluate<double>(model.getFunction(), arguments, setting)[0];
    std::vector<int64_t> keys{0};
    for (int64_t p = 0; p < 16; ++p) {
      Doubles expected = attend(arguments.values[0], arguments.values[1], p, keys);
      for (int64_t c = 0; c < columns; ++c) {
        EXPECT_NEAR(found[p * columns + c], expected[c], 1e-14) << "row " << p;
      }
      if (p > 0) {
        keys.push_back(p);
      }
    }
  }
}

/// True if some row before the changed one, or before the moved end, changes.
bool dependsOnLaterRows(DialectModel &model, RandomEngine &generator) {
  RuntimeValues setting{.rows = 1, .length = 16}, shorter{.rows = 1, .length = 12};
  bool depends = false;
  for (int trial = 0; trial < 20; ++trial) {
    Arguments arguments = randomArguments(generator, model.getFunction(), setting, 2);
    Doubles before = evaluate<double>(model.getFunction(), arguments, setting)[0];
    for (int64_t q = 1; q < 16; ++q) {
      Arguments moved = arguments;
      for (int64_t c = 0; c < columns; ++c) {
        moved.values[0][q * columns + c] *= -1;
      }
      Doubles after = evaluate<double>(model.getFunction(), moved, setting)[0];
      depends |= !std::equal(before.begin(), before.begin() + q * columns, after.begin());
    }
    for (Doubles &numbers : arguments.values) {
      numbers.resize(std::min<size_t>(numbers.size(), 12 * columns));
    }
    Doubles cut = evaluate<double>(model.getFunction(), arguments, shorter)[0];
    depends |= !std::equal(cut.begin(), cut.end(), before.begin());
  }
  return depends;
}

TEST(Hashed, OnlySortedRowsDependOnLaterRows) {
  RandomEngine generator(5);
  DialectModel causal(hashed(2, 4, 2)), sorted(hashed(2, 4, 2, /*sorted=*/true));
  EXPECT_FALSE(dependsOnLaterRows(causal, generator));
  EXPECT_TRUE(dependsOnLaterRows(sorted, generator));
}

/// Rows move by far less than a change of bucket needs.
TEST(Hashed, GradientMatchesFiniteDifferences) {
  RandomEngine generator(6);
  for (bool sorted : {false, true}) {
    DialectModel model(hashed(2, 4, 2, sorted));
    std::vector<unsigned> indices = addGradient(model);
    ASSERT_EQ(indices, (std::vector<unsigned>{0, 1}));
    for (int64_t length : {1, 3, 11}) {
      RuntimeValues setting{.rows = 2, .length = length};
      Arguments all = randomArguments(generator, model.getFunction("gradient"), setting, 2);
      std::vector<Doubles> weights(all.values.begin() + 3, all.values.end());
      Arguments arguments{{all.values.begin(), all.values.begin() + 3}};
      std::vector<Doubles> gradients =
          evaluate<double>(model.getFunction("gradient"), all, setting);
      for (auto [index, gradient] : llvm::zip_equal(indices, gradients)) {
        Doubles expected = finiteDifference(model, arguments, index, weights, setting);
        ASSERT_EQ(gradient.size(), expected.size());
        for (size_t i = 0; i < gradient.size(); ++i) {
          EXPECT_NEAR(gradient[i], expected[i], 1e-9) << "argument " << index << ", element " << i;
        }
      }
    }
  }
}

} // namespace
