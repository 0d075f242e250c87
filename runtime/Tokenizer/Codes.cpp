// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Codes of subword-nmt 0.2: merges of symbols inside words, which spaces separate. A token inside a
// word is written with @@ there. Sennrich, Haddow, Birch (2016), https://aclanthology.org/P16-1162
//
// subword-nmt drops repeated spaces and knows no fallback. Here, bytes that it has no token for are
// 256 tokens of their own, which no implied space precedes or follows.
#include "Codes.h"

#include "Characters.h"

#include "sluice/Support/ByteString.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <limits>
#include <map>
#include <set>
#include <unordered_map>

namespace sluice::runtime {
namespace {

constexpr std::string_view wordEnd = "</w>";
constexpr int32_t byteTokens = 256;
constexpr size_t mostWordBytes = 4096; // encoding a word takes quadratic time

struct Symbol {
  std::string text;
  bool endsWord = false;
  auto operator<=>(const Symbol &) const = default;
};

Symbol parseSymbol(std::string_view text) {
  bool endsWord = text.size() > wordEnd.size() && text.ends_with(wordEnd);
  return {std::string(endsWord ? text.substr(0, text.size() - wordEnd.size()) : text), endsWord};
}

/// Splits a valid UTF-8 text, or any bytes, into characters and bytes that belong to none.
std::vector<std::string_view> splitCharacters(std::string_view text) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    CharacterStart character = matchCharacter(text);
    all.push_back(text.substr(0, character.isWhole() ? character.length : 1));
    text.remove_prefix(all.back().size());
  }
  return all;
}

struct Merge {
  size_t rank;
  int32_t result;
};

class Codes : public SubwordModel {
public:
  Codes(std::string_view codes, const std::string &origin) : origin(origin) {
    for (int byte = 0; byte < byteTokens; ++byte) {
      all.push_back({std::string(1, static_cast<char>(byte)), true, false});
    }
    std::vector<std::pair<Symbol, Symbol>> pairs = parse(codes);
    addCharacters(pairs);
    for (const auto &[left, right] : pairs) {
      int32_t first = add(left), second = add(right);
      int32_t result = add({left.text + right.text, right.endsWord});
      merges.try_emplace(getKey(first, second), merges.size(), result); // the first of equal ones
    }
  }

  std::string_view kind() const override { return "subword-nmt"; }
  const std::vector<SubwordToken> &tokens() const override { return all; }

  void encode(std::string_view text, std::vector<int32_t> &ids) const override {
    Output output{ids};
    while (!text.empty()) {
      size_t end = std::min(text.find('\n'), text.size());
      encodeLine(text.substr(0, end), output);
      if (end < text.size()) {
        output.addBytes("\n");
        ++end;
      }
      text.remove_prefix(end);
    }
  }

private:
  /// The ids of a text so far, and of the words in it.
  struct Output {
    std::vector<int32_t> &ids;
    bool impliesSpace = false; ///< a space follows the last token unless a byte does
    std::unordered_map<std::string_view, std::vector<int32_t>> words = {};

    void addBytes(std::string_view bytes) {
      for (char c : bytes) {
        ids.push_back(static_cast<uint8_t>(c));
      }
      impliesSpace &= bytes.empty();
    }
  };

  [[noreturn]] void fail(size_t line, const std::string &expected, std::string_view found) const {
    throw UserError(origin + ": line " + std::to_string(line) + ": expected " + expected +
                    ", found " + quote(found) + "; give the file that subword-nmt learn-bpe wrote");
  }

  std::vector<std::pair<Symbol, Symbol>> parse(std::string_view codes) const {
    std::vector<std::pair<Symbol, Symbol>> pairs;
    for (size_t number = 1; !codes.empty(); ++number) {
      std::string_view line = codes.substr(0, codes.find('\n'));
      codes.remove_prefix(std::min(codes.size(), line.size() + 1));
      line = line.substr(0, line.find_last_not_of("\r ") + 1);
      if (number == 1) {
        if (line != "#version: 0.2") {
          fail(number, "#version: 0.2", line);
        }
        continue;
      }
      line.remove_prefix(std::min(line.size(), line.find_first_not_of("\r ")));
      size_t space = line.find(' ');
      if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos ||
          !isUtf8(line)) {
        fail(number, "two symbols with a space between them", line);
      }
      pairs.emplace_back(parseSymbol(line.substr(0, space)), parseSymbol(line.substr(space + 1)));
    }
    if (pairs.empty()) {
      throw UserError(origin + ": expected codes of subword-nmt, found none; give the file that "
                               "subword-nmt learn-bpe wrote");
    }
    return pairs;
  }

  /// Adds each character of the codes, inside a word and at its end.
  void addCharacters(const std::vector<std::pair<Symbol, Symbol>> &pairs) {
    std::set<std::string> characters;
    for (const auto &[left, right] : pairs) {
      for (const Symbol *symbol : {&left, &right}) {
        for (std::string_view character : splitCharacters(symbol->text)) {
          characters.emplace(character);
        }
      }
    }
    for (bool endsWord : {false, true}) {
      for (const std::string &character : characters) {
        add({character, endsWord});
      }
    }
  }

  int32_t add(const Symbol &symbol) {
    if (all.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      throw UserError(origin + ": expected fewer than 2^31 symbols, found more; give fewer codes");
    }
    auto [place, isNew] = symbolIds.try_emplace(symbol, static_cast<int32_t>(all.size()));
    if (isNew) {
      all.push_back({symbol.text, false, symbol.endsWord});
    }
    return place->second;
  }

  static uint64_t getKey(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }

  /// Encodes a line without its line break. White space at its ends is no part of a word.
  void encodeLine(std::string_view line, Output &output) const {
    constexpr std::string_view outside = "\r ";
    size_t begin = std::min(line.find_first_not_of(outside), line.size());
    size_t end = line.find_last_not_of(outside) + 1; // 0 without words
    output.addBytes(line.substr(0, begin));
    for (size_t at = begin; at < end;) {
      size_t spaces = std::min(line.find_first_not_of(' ', at), end) - at;
      size_t next = std::min(line.find(' ', at + spaces), end);
      addWord(line.substr(at + spaces, next - at - spaces), spaces, output);
      at = next;
    }
    output.addBytes(line.substr(std::max(begin, end)));
  }

  void addWord(std::string_view word, size_t spaces, Output &output) const {
    auto [place, isNew] = output.words.try_emplace(word);
    if (isNew) {
      place->second = encodeWord(word);
    }
    const std::vector<int32_t> &ids = place->second;
    bool isImplied = spaces == 1 && output.impliesSpace && !all[ids.front()].isByte;
    if (!isImplied) {
      output.addBytes(std::string(spaces, ' '));
    }
    output.ids.insert(output.ids.end(), ids.begin(), ids.end());
    output.impliesSpace = all[ids.back()].endsWord;
  }

  /// Returns the tokens of a word after its merges, as subword-nmt does: the pair of the first code
  /// is merged everywhere in the word, from left to right, until no code has a pair.
  std::vector<int32_t> encodeWord(std::string_view word) const {
    std::vector<int32_t> ids = getCharacterIds(word);
    for (;;) {
      const Merge *best = nullptr;
      uint64_t bestKey = 0;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        auto found = merges.find(getKey(ids[i], ids[i + 1]));
        if (found != merges.end() && (best == nullptr || found->second.rank < best->rank)) {
          best = &found->second;
          bestKey = found->first;
        }
      }
      if (best == nullptr) {
        return ids;
      }
      size_t kept = 0;
      for (size_t i = 0; i < ids.size(); ++i) {
        bool isPair = i + 1 < ids.size() && getKey(ids[i], ids[i + 1]) == bestKey;
        ids[kept++] = isPair ? best->result : ids[i];
        i += isPair ? 1 : 0;
      }
      ids.resize(kept);
    }
  }

  /// Returns a token for each character, or tokens of its bytes where the codes do not have it.
  std::vector<int32_t> getCharacterIds(std::string_view word) const {
    std::vector<int32_t> ids;
    bool isLong = word.size() > mostWordBytes;
    std::vector<std::string_view> characters = splitCharacters(word);
    for (size_t i = 0; i < characters.size(); ++i) {
      auto found = symbolIds.find({std::string(characters[i]), i + 1 == characters.size()});
      if (found != symbolIds.end() && !isLong) {
        ids.push_back(found->second);
        continue;
      }
      for (char c : characters[i]) {
        ids.push_back(static_cast<uint8_t>(c));
      }
    }
    return ids;
  }

  std::string origin;
  std::vector<SubwordToken> all;
  std::map<Symbol, int32_t> symbolIds;
  std::unordered_map<uint64_t, Merge> merges;
};

} // namespace

std::unique_ptr<SubwordModel> loadCodes(std::string_view codes, const std::string &origin) {
  return std::make_unique<Codes>(codes, origin);
}

} // namespace sluice::runtime
