// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Conllu.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace sluice::runtime {

namespace {

constexpr size_t fieldCount = 10; // ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC
constexpr size_t idField = 0, formField = 1, headField = 6, depsField = 8;

using ConlluFields = std::array<std::string_view, fieldCount>;

/// Reads one sentence after another.
class ConlluParser {
public:
  ConlluParser(std::string_view text, const std::string &file) : rest(text), file(file) {
    constexpr std::string_view byteOrderMark = "\xef\xbb\xbf";
    rest.remove_prefix(rest.starts_with(byteOrderMark) ? byteOrderMark.size() : 0);
  }

  std::vector<ConlluSentence> parse() {
    while (!rest.empty()) {
      std::string_view line = takeLine();
      if (line.empty()) {
        finish();
      } else if (line.front() != '#') {
        addWord(splitFields(line));
      }
    }
    finish();
    return std::move(sentences);
  }

private:
  [[noreturn]] void fail(const std::string &message) const {
    throw UserError(showPath(file) + ":" + std::to_string(lineNumber) + ": expected " + message);
  }

  std::string_view takeLine() {
    ++lineNumber;
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    return line;
  }

  ConlluFields splitFields(std::string_view line) const {
    ConlluFields fields;
    size_t count = 0;
    for (std::string_view left = line;;) {
      std::string_view field = left.substr(0, left.find('\t'));
      if (count < fieldCount) {
        fields[count] = field;
      }
      ++count;
      if (field.size() == left.size()) {
        break;
      }
      left.remove_prefix(field.size() + 1);
    }
    if (count != fieldCount) {
      fail("a word of CoNLL-U with 10 fields between tabs, found " + std::to_string(count) +
           (count == 1 ? " field" : " fields") + ": " + quote(line) +
           "; give a CoNLL-U file, with an empty line after each sentence");
    }
    return fields;
  }

  /// Parses a whole number from `first` to `last`; none if the text is another one.
  static std::optional<int32_t> parseNumber(std::string_view text) {
    int32_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    bool fits = error == std::errc() && end == text.data() + text.size() && number >= 0 &&
                text.front() != '-';
    return fits ? std::optional(number) : std::nullopt;
  }

  /// Adds a line of a sentence: a word, a multiword token, or an empty node.
  void addWord(const ConlluFields &fields) {
    if (firstLine == 0) {
      firstLine = lineNumber;
    }
    std::string_view id = fields[idField];
    auto next = static_cast<int32_t>(wordOf.size() + 1);
    if (size_t dot = id.find('.'); dot != std::string_view::npos) {
      if (!parseNumber(id.substr(0, dot)) || !parseNumber(id.substr(dot + 1))) {
        fail("an id such as 3, 3-4 or 3.1, found " + quote(id) + "; correct it");
      }
      return; // an empty node is no word of the text
    }
    if (size_t dash = id.find('-'); dash != std::string_view::npos) {
      auto first = parseNumber(id.substr(0, dash)), last = parseNumber(id.substr(dash + 1));
      if (!first || !last || *first != next || *last < *first || next <= tokenEnd) {
        fail("a multiword token from " + std::to_string(next) + ", found " + quote(id) +
             "; correct the ids");
      }
      tokenEnd = *last;
      words.emplace_back(fields[formField]);
      return;
    }
    if (parseNumber(id) != next) {
      fail("the id " + std::to_string(next) + ", found " + quote(id) +
           "; number the words of a sentence from 1");
    }
    if (next > tokenEnd) {
      words.emplace_back(fields[formField]);
    }
    wordOf.push_back(static_cast<int32_t>(words.size()) - 1);
    addHeads(next, fields);
  }

  /// Records the heads of word `id`: HEAD, and of DEPS as in "2:nsubj|4:conj".
  void addHeads(int32_t id, const ConlluFields &fields) {
    if (fields[headField] != "_") {
      addHead(id, fields[headField]);
    }
    std::string_view list = fields[depsField];
    while (list != "_" && !list.empty()) {
      std::string_view item = list.substr(0, list.find('|'));
      list.remove_prefix(std::min(item.size() + 1, list.size()));
      size_t colon = item.find(':');
      if (colon == std::string_view::npos) {
        fail("heads such as 2:nsubj|4:conj, found " + quote(item) + "; correct the field DEPS");
      }
      std::string_view head = item.substr(0, colon);
      if (size_t dot = head.find('.'); dot == std::string_view::npos) {
        addHead(id, head);
      } else if (!parseNumber(head.substr(0, dot)) || !parseNumber(head.substr(dot + 1))) {
        fail("the id of a head or of an empty node, found " + quote(head) + "; correct it");
      }
    }
  }

  void addHead(int32_t id, std::string_view text) {
    auto head = parseNumber(text);
    if (!head) {
      fail("the id of a head, found " + quote(text) + "; correct it");
    }
    if (*head == id) {
      fail("a head that is another word, found the word's own id " + quote(text) + "; correct it");
    }
    if (*head != 0) {
      heads.push_back({id, *head, lineNumber});
    }
  }

  /// Ends a sentence, in which all heads must be words.
  void finish() {
    if (firstLine == 0) {
      return;
    }
    auto count = static_cast<int32_t>(wordOf.size());
    size_t end = lineNumber;
    if (tokenEnd > count) {
      fail("the words up to " + std::to_string(tokenEnd) + " of a multiword token, found " +
           std::to_string(count) + "; correct the ids");
    }
    Edges edges;
    for (const HeadOfWord &head : heads) {
      lineNumber = head.line;
      if (head.head > count) {
        fail("a head among the " + std::to_string(count) + " words of the sentence, found " +
             std::to_string(head.head) + "; correct the fields HEAD and DEPS");
      }
      int32_t u = wordOf[static_cast<size_t>(head.id - 1)],
              v = wordOf[static_cast<size_t>(head.head - 1)];
      if (u != v) {
        edges.push_back(std::minmax(u, v));
      }
    }
    lineNumber = end;
    std::ranges::sort(edges);
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    sentences.push_back({std::move(words), std::move(edges), firstLine});
    words.clear();
    wordOf.clear();
    heads.clear();
    firstLine = 0;
    tokenEnd = 0;
  }

  struct HeadOfWord {
    int32_t id, head;
    size_t line;
  };

  std::string_view rest;
  const std::string &file;
  size_t lineNumber = 0;
  size_t firstLine = 0; ///< of the current sentence; 0: none
  int32_t tokenEnd = 0; ///< last id of the current multiword token
  std::vector<std::string> words;
  std::vector<int32_t> wordOf; ///< of each syntactic word, its index in `words`
  std::vector<HeadOfWord> heads;
  std::vector<ConlluSentence> sentences;
};

} // namespace

std::vector<ConlluSentence> parseConllu(std::string_view text, const std::string &file) {
  return ConlluParser(text, file).parse();
}

} // namespace sluice::runtime
