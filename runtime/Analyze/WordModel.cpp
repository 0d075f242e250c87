// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Analyze/WordModel.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <utility>

namespace sluice::runtime {
namespace {

Words gramAt(const Words &words, size_t at, size_t n) {
  auto first = words.begin() + static_cast<ptrdiff_t>(at);
  return {first, first + static_cast<ptrdiff_t>(n)};
}

} // namespace

Words splitWords(std::string_view text) {
  constexpr std::string_view between = " \t\n\v\f\r";
  Words words;
  for (size_t at = text.find_first_not_of(between); at != std::string_view::npos;) {
    size_t end = std::min(text.find_first_of(between, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(between, end);
  }
  return words;
}

GramCounts countGrams(std::span<const std::string> words, size_t n) {
  GramCounts counts;
  for (size_t at = 0; at + n <= words.size(); ++at) {
    std::string gram = words[at];
    for (const std::string &word : words.subspan(at + 1, n - 1)) {
      gram += ' ';
      gram += word;
    }
    ++counts[std::move(gram)];
  }
  return counts;
}

WordModel::WordModel(int order) : order(static_cast<size_t>(order)), orders(this->order) {
  if (order < 1 || order > 6) {
    throw std::invalid_argument("expected an order from 1 to 6");
  }
}

void WordModel::train(const Words &words) {
  for (const std::string &word : words) {
    ids.try_emplace(word, static_cast<char32_t>(ids.size() + 1));
  }
  Gram all = getIds(words);
  for (size_t at = 0; at + order <= all.size(); ++at) {
    ++orders.back().counts[all.substr(at, order)];
  }
  for (size_t n = order - 1; n > 0; --n) { // distinct words before each gram
    for (const auto &[gram, count] : orders[n].counts) {
      ++orders[n - 1].counts[gram.substr(1)];
    }
  }
  for (GramOrder &one : orders) {
    double once = 0, twice = 0;
    for (const auto &[gram, count] : one.counts) {
      Follow &follow = one.follows[gram.substr(0, gram.size() - 1)];
      follow.total += count;
      ++follow.kinds;
      once += count == 1;
      twice += count == 2;
    }
    one.discount = once > 0 && twice > 0 ? once / (once + 2 * twice) : 0.75;
  }
}

WordModel::Gram WordModel::getIds(const Words &words) const {
  Gram gram;
  for (const std::string &word : words) {
    auto found = ids.find(word);
    gram.push_back(found == ids.end() ? 0 : found->second);
  }
  return gram;
}

double WordModel::probability(const Gram &history, char32_t word) const {
  double p = 1 / (static_cast<double>(ids.size()) + 1);
  for (size_t n = 1; n <= std::min(order, history.size() + 1); ++n) {
    const GramOrder &one = orders[n - 1];
    Gram before = history.substr(history.size() - (n - 1));
    auto follow = one.follows.find(before);
    if (follow == one.follows.end()) {
      break; // longer histories have not been seen either
    }
    auto found = one.counts.find(before + word);
    double count = found == one.counts.end() ? 0 : found->second;
    p = (std::max(count - one.discount, 0.0) + one.discount * follow->second.kinds * p) /
        follow->second.total;
  }
  return p;
}

double WordModel::probability(const Words &history, const std::string &word) const {
  Gram before = getIds(history);
  size_t kept = std::min(before.size(), order - 1);
  return probability(before.substr(before.size() - kept), getIds({word}).front());
}

double WordModel::bits(const Words &words, size_t first) const {
  Gram all = getIds(words);
  double sum = 0;
  for (size_t at = first; at < all.size(); ++at) {
    size_t kept = std::min(at, order - 1);
    sum -= std::log2(probability(all.substr(at - kept, kept), all[at]));
  }
  return sum;
}

std::array<double, 4> repeats(const Words &words) {
  std::array<double, 4> shares{};
  for (size_t n = 1; n <= 4 && n <= words.size(); ++n) {
    std::set<Words> seen;
    double repeated = 0, all = double(words.size() - n + 1);
    for (size_t at = 0; at + n <= words.size(); ++at) {
      repeated += !seen.insert(gramAt(words, at, n)).second;
    }
    shares[n - 1] = repeated / all;
  }
  return shares;
}

} // namespace sluice::runtime
