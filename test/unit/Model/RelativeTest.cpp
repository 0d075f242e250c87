// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Explicit scores by distance of docs/spec.md: one layer on a scale of factor 2, every pair
// separately, in float64. Only weights come from the compiler's reference.
#include "Harness.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace sluice::testing;

namespace {

constexpr int64_t width = 6, heads = 2, size = 4, factor = 2, distances = 3;

std::string buildSpec(const std::string &relative) {
  return R"({"sluice": 1, "vocabulary": 13, "context": 15, "batch": 1, "width": 6,
    "defaults": {"heads": 2, "key_value_heads": 1, "head_size": 4, "feed_forward": 3, "norm": "rms", "relative": )" +
         relative + R"(},
    "stages": [{"op": "embedding", "to": "fine"}, {"op": "shift", "by": 1},
               {"op": "shorten", "factor": 2}, {"op": "layer"}, {"op": "upsample", "factor": 2},
               {"op": "add", "with": "fine"}, {"op": "head"}]})";
}

using RowValues = std::vector<double>;

double dot(const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

struct Layer {
  const Tensors &weights;

  const std::vector<double> &at(const std::string &name) const {
    return weights.at("stages.3.attention." + name);
  }
  /// W x, with W [out, in] of that name.
  RowValues times(const std::string &name, const RowValues &x) const {
    const std::vector<double> &matrix = at(name);
    RowValues result;
    for (size_t first = 0; first < matrix.size(); first += x.size()) {
      result.push_back(dot(matrix.data() + first, x.data(), int64_t(x.size())));
    }
    return result;
  }
  RowValues plus(RowValues x, const std::string &name) const {
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] += at(name)[i];
    }
    return x;
  }
  RowValues normed(const RowValues &x) const {
    double rstd = 1 / std::sqrt(dot(x.data(), x.data(), width) / width + 1e-5);
    RowValues result;
    for (int64_t c = 0; c < width; ++c) {
      result.push_back(x[c] * rstd * at("norm.weight")[c]);
    }
    return result;
  }
  /// Row `distance` of W_r s: sinusoids of the distance in tokens, which models store as f32.
  RowValues distanceRow(int64_t distance) const {
    RowValues sinusoids;
    for (int64_t c = 0; c < width; ++c) {
      double angle = double(factor * distance) / std::pow(10000, double(c / 2 * 2) / double(width));
      sinusoids.push_back(float(c % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
    return times("relative.weight", sinusoids);
  }
  double xlScore(const RowValues &x, const RowValues &key, int64_t distance, int64_t h) const {
    RowValues query = times("query.weight", x), row = distanceRow(distance);
    RowValues content = plus(query, "relative.content.bias"),
              position = plus(query, "relative.position.bias");
    return (dot(content.data() + h * size, key.data(), size) +
            dot(position.data() + h * size, row.data() + h * size, size)) /
           std::sqrt(double(size));
  }
  double biasedScore(const RowValues &x, const RowValues &key, int64_t distance, int64_t h) const {
    RowValues query = plus(times("query.weight", x), "query.bias");
    return dot(query.data() + h * size, key.data(), size) / std::sqrt(double(size)) +
           at("relative.table")[std::min(distance, distances - 1) * heads + h];
  }
  /// x + Wo attention(norm(x)), row by row.
  std::vector<RowValues> run(const std::vector<RowValues> &x, bool isXl) const {
    std::vector<RowValues> result;
    for (size_t p = 0; p < x.size(); ++p) {
      RowValues mixed(heads * size);
      for (int64_t h = 0; h < heads; ++h) {
        RowValues terms;
        double sum = 0;
        for (size_t q = 0; q <= p; ++q) {
          RowValues key = plus(times("key.weight", normed(x[q])), "key.bias");
          auto distance = int64_t(p - q);
          terms.push_back(std::exp(isXl ? xlScore(normed(x[p]), key, distance, h)
                                        : biasedScore(normed(x[p]), key, distance, h)));
          sum += terms.back();
        }
        for (size_t q = 0; q <= p; ++q) {
          RowValues value = plus(times("value.weight", normed(x[q])), "value.bias");
          for (int64_t c = 0; c < size; ++c) {
            mixed[h * size + c] += terms[q] / sum * value[c];
          }
        }
      }
      result.push_back(plus(times("output.weight", mixed), "output.bias"));
      for (int64_t c = 0; c < width; ++c) {
        result.back()[c] += x[p][c];
      }
    }
    return result;
  }
};

/// Logits of the last token's row.
RowValues predict(const Tensors &weights, const std::vector<int32_t> &tokens, int64_t length,
                  bool isXl) {
  auto embedded = [&](int64_t t, int64_t c) {
    return t < 0 ? 0 : weights.at("stages.0.token.weight")[tokens[t] * width + c];
  };
  std::vector<RowValues> groups;
  for (int64_t m = 0; factor * m < length; ++m) {
    groups.emplace_back();
    for (int64_t c = 0; c < width; ++c) {
      groups[m].push_back((embedded(factor * m - 1, c) + embedded(factor * m, c)) / factor);
    }
  }
  RowValues last = Layer{weights}.run(groups, isXl)[(length - 1) / factor], logits;
  for (int64_t c = 0; c < width; ++c) {
    last[c] += embedded(length - 1, c);
  }
  const std::vector<double> &head = weights.at("stages.6.weight");
  for (size_t first = 0; first < head.size(); first += width) {
    logits.push_back(dot(head.data() + first, last.data(), width));
  }
  return logits;
}

TEST(ByDistance, EqualsTheSpecification) {
  for (bool isXl : {true, false}) {
    Folder folder;
    std::string relative = isXl ? "\"xl\"" : "{\"bias\": " + std::to_string(distances) + "}";
    ReferenceModel reference(emit(folder.write("relative.json", buildSpec(relative)), "model"));
    Tensors weights = randomWeights(reference.shapes(), 5);
    for (const char *name : {"weight", "bias"}) { // omits only attention
      std::ranges::fill(weights.at(std::string("stages.3.feed_forward.out.") + name), 0);
    }
    for (int64_t length : {1, 2, 8, 15}) {
      Inputs inputs = randomInputs(reference.size("vocabulary"), 1, length, 3);
      RowValues expected =
          predict(weights, {inputs.tokens.begin(), inputs.tokens.end()}, length, isXl);
      std::vector<double> found = reference.predict(inputs, weights, Precision::F64);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], 1e-12) << relative << ", " << length << " tokens";
      }
    }
  }
}

} // namespace
