// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Hourglass paper's notation: "2@1 8@4 2@1" is 2 layers on tokens, 8 on groups of 4, 2 on
// tokens. A top_down has the same levels from the coarsest down: "2@16 4@4 8@1".

#include "Stages.h"

#include <algorithm>
#include <charconv>

namespace sluice::spec {
namespace {

// More levels or layers than this are a slip of the keyboard, and nesting is by recursion.
constexpr size_t mostLevels = 63;
constexpr int64_t mostLayers = 10000;
// Each is compiled.
constexpr size_t mostFactors = 16;

/// Whether factors read the same from both ends, around one level in the middle.
bool isMirrored(const std::vector<Hourglass::Level> &levels) {
  return levels.size() % 2 == 1 &&
         std::equal(levels.begin(), levels.end(), levels.rbegin(),
                    [](const auto &a, const auto &b) { return a.factor == b.factor; });
}

size_t coarsestOf(const std::vector<Hourglass::Level> &levels) {
  auto greatest = std::max_element(levels.begin(), levels.end(), [](const auto &a, const auto &b) {
    return a.factor < b.factor;
  });
  return isMirrored(levels) ? levels.size() / 2 : static_cast<size_t>(greatest - levels.begin());
}

/// Levels of an array as a string: of strings, or of pairs of layers and factor. Empty where it has
/// other items.
static std::string joinLevels(const JsonValue &array) {
  std::string levels;
  for (const JsonValue &item : array.items) {
    bool isPair = item.kind == JsonKind::Array && item.items.size() == 2 &&
                  item.items[0].kind == JsonKind::Integer &&
                  item.items[1].kind == JsonKind::Integer;
    std::string level = isPair ? item.items[0].text + "@" + item.items[1].text
                        : item.kind == JsonKind::String ? item.text
                                                        : "";
    if (level.find('@') == std::string::npos || level.find(' ') != std::string::npos) {
      return "";
    }
    levels += (levels.empty() ? "" : " ") + level;
  }
  return levels;
}

/// The value of `hierarchy`: a string that is not empty.
static const JsonValue &needLevels(const Fields &fields, const std::string &example) {
  const JsonValue &value = fields.need("hierarchy", "levels such as " + quote(example));
  if (value.kind != JsonKind::String || value.text.empty()) {
    std::string levels = value.kind == JsonKind::Array ? joinLevels(value) : "";
    fields.mismatch(value, "hierarchy", "a string of levels LAYERS@FACTOR",
                    "write " + quote(levels.empty() ? example : levels) +
                        (levels.empty() ? ", for example" : ""));
  }
  return value;
}

/// The value of `hierarchy` and, for each level, where in it the level stands.
class HierarchyReader {
public:
  HierarchyReader(const Fields &fields, const JsonValue &value) : fields(fields), value(value) {}

  /// Of a top_down: coarse to fine.
  std::vector<Hourglass::Level> readDownwards() {
    split();
    checkCount();
    for (size_t i = 0; i + 1 < levels.size(); ++i) {
      if (levels[i].factor % levels[i + 1].factor != 0) {
        fail(offsets[i + 1], "expected each factor to divide the one before it, found " +
                                 levelText(i + 1) + " behind " + levelText(i) +
                                 "; begin with the coarsest scale, as in \"2@16 4@4 8@1\"");
      }
    }
    if (levels.empty() || levels.back().factor != 1) {
      fail(levels.empty() ? 0 : offsets.back(),
           "expected the last level to have factor 1, the scale of the stage's input, found " +
               (levels.empty() ? "none" : levelText(levels.size() - 1)) +
               "; write the hierarchy as \"2@16 4@4 8@1\"");
    }
    return std::move(levels);
  }

  /// From fine to coarse.
  std::vector<Hourglass::Level> readRising() {
    split();
    if (levels.size() < 2) {
      fail(0, "expected at least two levels, from the finest to the coarsest, found " +
                  std::to_string(levels.size()) + "; write them as \"9@1 9@4 8@16\"");
    }
    checkCount();
    checkFirst("a scale of 0 layers is 0@1");
    for (size_t i = 1; i < levels.size(); ++i) {
      if (levels[i].factor <= levels[i - 1].factor ||
          levels[i].factor % levels[i - 1].factor != 0) {
        fail(offsets[i],
             "expected each factor to be a multiple of the finer one before it, found " +
                 levelText(i) + " behind " + levelText(i - 1));
      }
    }
    return std::move(levels);
  }

  /// With the factors that are drawn, of which levels have the first.
  std::vector<Hourglass::Level> read(std::vector<int64_t> &drawn) {
    mayDraw = true;
    split();
    if (levels.empty()) {
      fail(0, "expected levels from the finest to the coarsest and back, found none; write them as "
              "\"2@1 8@4 2@1\"");
    }
    checkCount();
    for (int64_t factor : factors) {
      setFactor(levels, factor);
      checkFactors();
    }
    if (factors.empty()) {
      checkFactors();
    } else {
      setFactor(levels, factors.front());
    }
    drawn = factors;
    return std::move(levels);
  }

private:
  [[noreturn]] void fail(size_t offset, const std::string &message) const {
    Position at = value.position;
    if (!value.escaped) {
      at.column += 1 + static_cast<unsigned>(offset);
    }
    fields.fail(at, message);
  }

  void checkCount() const {
    if (levels.size() > mostLevels) {
      fail(offsets[mostLevels], "expected at most " + std::to_string(mostLevels) +
                                    " levels, found " + std::to_string(levels.size()));
    }
    if (levels.size() == 1 && levels[0].layers == 0) {
      fail(0, "expected at least one layer, found " + levelText(0));
    }
  }

  std::string levelText(size_t i) const {
    return std::to_string(levels[i].layers) + "@" + std::to_string(levels[i].factor);
  }

  void split() {
    const std::string &text = value.text;
    size_t at = 0;
    while ((at = text.find_first_not_of(' ', at)) != std::string::npos) {
      size_t end = std::min(text.find(' ', at), text.size());
      readLevel(at, std::string_view(text).substr(at, end - at));
      at = end;
    }
  }

  void readLevel(size_t offset, std::string_view level) {
    Hourglass::Level result;
    size_t sign = level.find('@');
    result.isDrawn = sign != std::string_view::npos && level.substr(sign + 1).starts_with('{');
    if (result.isDrawn) {
      readSet(offset, level, level.substr(sign + 1));
    }
    bool good = sign != std::string_view::npos &&
                number(level.substr(0, sign), result.layers, 0, mostLayers) &&
                (result.isDrawn || number(level.substr(sign + 1), result.factor, 1, largestSize));
    if (!good) {
      fail(offset, "expected levels LAYERS@FACTOR with 0 to " + std::to_string(mostLayers) +
                       " layers and a factor of at least 1, found " + quote(level) +
                       "; write them as \"2@1 8@4 2@1\"");
    }
    levels.push_back(result);
    offsets.push_back(offset);
  }

  /// "{2,3,4}": factors of which each step of training draws one.
  void readSet(size_t offset, std::string_view level, std::string_view set) {
    if (!mayDraw) {
      fail(offset, "expected one factor a level, found " + quote(level) +
                       ", of which each step would draw one; only an hourglass has such levels");
    }
    std::vector<int64_t> found;
    bool good = set.ends_with('}');
    for (std::string_view rest = set.substr(1, set.size() - 1); good && !rest.empty();) {
      size_t end = std::min(rest.find_first_of(",}"), rest.size());
      good = number(rest.substr(0, end), found.emplace_back(), 1, largestSize) &&
             (found.size() == 1 || found[found.size() - 2] < found.back());
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (!good || found.size() < 2 || found.size() > mostFactors) {
      fail(offset, "expected 2 to " + std::to_string(mostFactors) +
                       " factors that rise, without spaces, found " + quote(level) +
                       "; write them as \"2@1 8@{2,3} 2@1\"");
    }
    if (!factors.empty() && factors != found) {
      fail(offset, "expected one set of factors in all levels that draw, as they draw together, "
                   "found another one, " +
                       quote(level) + "; write the same set");
    }
    factors = std::move(found);
  }

  static bool number(std::string_view text, int64_t &result, int64_t least, int64_t largest) {
    const char *begin = text.data(), *end = begin + text.size();
    auto [stop, error] = std::from_chars(begin, end, result);
    return error == std::errc() && stop == end && text[0] != '-' && result >= least &&
           result <= largest;
  }

  void checkFirst(const std::string &remedy) const {
    if (levels[0].factor != 1) {
      fail(offsets[0], "expected the first level to have factor 1, the scale of the stage's input, "
                       "found " +
                           levelText(0) + "; " + remedy);
    }
  }

  void checkFactors() const {
    checkFirst("begin and end with 0@1 to shorten at once");
    if (levels.back().factor != 1) {
      fail(offsets.back(), "expected the last level to have factor 1, the scale of the stage's "
                           "input, found " +
                               levelText(levels.size() - 1) + "; end with 0@1 to upsample at once");
    }
    size_t peak = coarsestOf(levels);
    for (size_t i = 1; i < levels.size(); ++i) {
      size_t inner = i <= peak ? i : i - 1, outer = i <= peak ? i - 1 : i;
      if (!isMirrored(levels) && levels[inner].factor <= levels[outer].factor) {
        fail(offsets[i], "expected factors that rise to one coarsest level and fall again, as they "
                         "do not read the same from both ends, found " +
                             levelText(i - 1) + " before " + levelText(i));
      }
      if (levels[inner].factor % levels[outer].factor != 0) {
        fail(offsets[i], "expected each factor to be a multiple of the one outside it, found " +
                             levelText(inner) + " inside " + levelText(outer));
      }
    }
  }

  const Fields &fields;
  const JsonValue &value;
  std::vector<Hourglass::Level> levels;
  std::vector<size_t> offsets;
  bool mayDraw = false;
  std::vector<int64_t> factors; ///< of the levels that draw one
};

} // namespace

size_t Hourglass::coarsest() const { return coarsestOf(hierarchy); }

std::vector<Hourglass::Level> readHierarchy(const Fields &fields, std::vector<int64_t> &factors) {
  return HierarchyReader(fields, needLevels(fields, "2@1 8@4 2@1")).read(factors);
}

std::vector<Hourglass::Level> readFallingHierarchy(const Fields &fields) {
  return HierarchyReader(fields, needLevels(fields, "2@16 4@4 8@1")).readDownwards();
}

std::vector<Hourglass::Level> readRisingHierarchy(const Fields &fields) {
  return HierarchyReader(fields, needLevels(fields, "9@1 9@4 8@16")).readRising();
}

} // namespace sluice::spec
