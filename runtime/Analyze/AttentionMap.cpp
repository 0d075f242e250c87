// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Analyze/AttentionMap.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Markup.h"

#include <algorithm>
#include <cmath>

namespace sluice::runtime {

/// Returns the numbers of a tensor, all zero, to be written.
static std::span<float> clearTensor(Executor &executor, const std::string &name) {
  auto tensor = std::ranges::find(executor.plan().tensors, name, &Tensor::name);
  std::span<float> numbers = executor.tensor(*tensor);
  std::ranges::fill(numbers, 0.0F);
  return numbers;
}

std::vector<float> computeMap(Executor &executor, const MapShape &shape,
                              std::optional<int64_t> head, int64_t queries, int64_t keys) {
  std::span<float> columns = clearTensor(executor, shape.columnsName);
  int64_t size = shape.headSize, width = shape.heads * size;
  float share = head ? 1.0F : 1.0F / static_cast<float>(shape.heads);
  for (int64_t h = head.value_or(0); h < (head ? *head + 1 : shape.heads); ++h) {
    for (int64_t d = 0; d < size; ++d) {
      columns[static_cast<size_t>(d * width + h * size + d)] = share;
    }
  }
  std::vector<float> numbers(static_cast<size_t>(queries * keys));
  for (int64_t first = 0; first < keys; first += size) {
    int64_t count = std::min(size, keys - first);
    std::span<float> ones = clearTensor(executor, shape.keysName);
    for (int64_t d = 0; d < count; ++d) {
      for (int64_t h = 0; h < shape.keyHeads; ++h) {
        ones[static_cast<size_t>((first + d) * shape.keyHeads * size + h * size + d)] = 1;
      }
    }
    executor.prepare();
    executor.run("predict");
    for (int64_t query = 0; query < queries; ++query) {
      std::span<const float> row = executor.outputRow("logits", query);
      if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); })) {
        throw JobError("the map is not finite; use the weights of an earlier checkpoint");
      }
      std::ranges::copy(row.first(static_cast<size_t>(count)),
                        numbers.begin() + query * keys + first);
    }
  }
  return numbers;
}

std::string drawMap(const AttentionMap &map, const std::string &title) {
  constexpr double cell = 14, letter = 7.2, gap = 4;
  auto findRoom = [&](const std::vector<std::string> &texts) {
    size_t longest = 1;
    for (const std::string &text : texts) {
      longest = std::max(longest, text.size());
    }
    return gap + letter * static_cast<double>(longest);
  };
  double left = findRoom(map.queries), top = 28 + findRoom(map.keys);
  double width = left + cell * static_cast<double>(map.keys.size()) + gap;
  double height = top + cell * static_cast<double>(map.queries.size()) + gap;
  float largest = 0;
  for (float number : map.numbers) {
    largest = std::max(largest, number);
  }
  std::string cells, labels;
  for (size_t key = 0; key < map.keys.size(); ++key) {
    std::string place = "translate(" +
                        showNumber(left + cell * (static_cast<double>(key) + 0.7), 1) + " " +
                        showNumber(top - gap, 1) + ") rotate(-90)";
    labels += textElement("text", map.keys[key], attributes("transform", place)) + "\n";
  }
  for (size_t query = 0; query < map.queries.size(); ++query) {
    double y = top + cell * static_cast<double>(query);
    labels += textElement("text", map.queries[query],
                          attributes("x", left - gap, "y", y + 0.7 * cell, "text-anchor", "end")) +
              "\n";
    for (size_t key = 0; key < map.keys.size(); ++key) {
      float number = map.at(query, key);
      if (number > 0) {
        std::string tip =
            map.queries[query] + " reads " + map.keys[key] + ": " + showNumber(number, 4);
        cells += element("rect", textElement("title", tip),
                         attributes("x", left + cell * static_cast<double>(key), "y", y, "width",
                                    cell - 1, "height", cell - 1, "fill-opacity",
                                    showNumber(number / largest, 3))) +
                 "\n";
      }
    }
  }
  std::string content =
      "\n" + textElement("title", title) + "\n" +
      element("style", "text{font:12px monospace;white-space:pre}") + "\n" +
      emptyElement("rect", attributes("width", "100%", "height", "100%", "fill", "#fff")) + "\n" +
      textElement("text", title, attributes("x", gap, "y", 16.0)) + "\n" + labels +
      element("g", "\n" + cells, attributes("fill", "#1f4e8c")) + "\n";
  width = std::max(width, 2 * gap + letter * static_cast<double>(title.size()));
  return element("svg", content,
                 attributes("xmlns", "http://www.w3.org/2000/svg", "viewBox",
                            "0 0 " + showNumber(width, 0) + " " + showNumber(height, 0), "width",
                            width, "height", height, "role", "img", "aria-label", title)) +
         "\n";
}

} // namespace sluice::runtime
