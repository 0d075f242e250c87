// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/SideStreams.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace sluice::runtime {

/// Maximum vocabulary of a file with a digit for each token.
constexpr int64_t digitValues = 10;

bool isComputed(const GivenInput &stream) { return !stream.rule.empty() && stream.rule != "file"; }

uint64_t computeLineKey(uint64_t seed, std::span<const int32_t> tokens) {
  uint64_t key = mix64(seed);
  for (int32_t token : tokens) {
    key = mix64(key + static_cast<uint32_t>(token));
  }
  return key;
}

static bool isWhitespace(int32_t byte) { return (byte >= '\t' && byte <= '\r') || byte == ' '; }

/// Replaces the bits at the last tokens of words by bits at each token of a word of several.
static void markSplitWords(std::vector<int32_t> &ends) {
  for (size_t first = 0, i = 0; i < ends.size(); ++i) {
    if (ends[i] != 0) {
      std::fill(ends.begin() + static_cast<std::ptrdiff_t>(first),
                ends.begin() + static_cast<std::ptrdiff_t>(i + 1), i > first ? 1 : 0);
      first = i + 1;
    }
  }
}

/// Permutes the lengths of words, whose last tokens have bits, by `key`; the last word keeps its
/// length unless it is one of the others.
static void shuffleWords(std::vector<int32_t> &ends, bool keepsLast, uint64_t key) {
  std::vector<size_t> lengths;
  for (size_t first = 0, i = 0; i < ends.size(); ++i) {
    if (ends[i] != 0) {
      lengths.push_back(i + 1 - std::exchange(first, i + 1));
    }
  }
  size_t words = lengths.size();
  for (size_t i = words == 0 || !keepsLast ? words : words - 1; i > 1; --i) { // Fisher and Yates
    std::swap(lengths[i - 1], lengths[mix64(key ^ mix64(i)) % i]);
  }
  std::ranges::fill(ends, 0);
  size_t end = 0;
  for (size_t length : lengths) {
    ends[(end += length) - 1] = 1;
  }
}

static void requireRule(const std::string &name, const GivenInput &stream, bool isEncoded) {
  std::string start = "the input \"" + name + "\": expected ";
  if (stream.rule == "pieces" && !isEncoded) {
    throw UserError(start + "a tokenizer for the rule \"pieces\", whose words consist of its "
                            "pieces, found none; give --tokenizer TOK, or use the rule "
                            "\"whitespace\" in the spec");
  }
  if (stream.rule == "whitespace" && isEncoded) {
    throw UserError(start + "bytes for the rule \"whitespace\", found the tokens of a tokenizer; "
                            "use the rule \"pieces\" in the spec, or leave --tokenizer out");
  }
}

SideStream::SideStream(const std::string &name, const GivenInput &stream, const Lines &axis,
                       const std::vector<Path> &files, const ReadingOptions &reading, int64_t seed)
    : name(name), stream(stream), axis(&axis), encoder(reading.encoder),
      seed(static_cast<uint64_t>(seed)) {
  requireRule(name, stream, axis.isEncoded());
  if (isComputed(stream)) {
    return;
  }
  constexpr int64_t byteValues = 256;
  ReadingOptions plain = reading;
  plain.encoder = nullptr;
  plain.tokenizer.clear();
  plain.lineEnd = '\n';
  file = std::make_unique<Lines>(files, byteValues, axis.count(), plain);
  file->requireCount(axis.count(), showPath(axis.files().front().path.native()));
  for (int64_t index = 0; index < file->count(); ++index) {
    auto found = static_cast<int64_t>(parse(index).size());
    if (found != axis.measure(index)) {
      throw UserError(file->describePlace(index) + ": expected " +
                      std::to_string(axis.measure(index)) + " tokens, one for each token of " +
                      axis.describePlace(index) + ", found " + std::to_string(found) +
                      (axis.isEncoded() ? "; write the line anew for the pieces of this tokenizer"
                                        : "; write one for each byte of the line"));
    }
  }
}

std::vector<int32_t> SideStream::parse(int64_t index) const {
  std::vector<int32_t> bytes = file->whole(index), tokens;
  std::string text(bytes.begin(), bytes.end());
  bool areDigits = stream.vocabulary <= digitValues;
  for (size_t at = 0; at < text.size();) {
    size_t end = areDigits ? at + 1 : std::min(text.find(' ', at), text.size());
    int32_t id = -1;
    auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (error != std::errc() || rest != text.data() + end || id < 0 || id >= stream.vocabulary) {
      throw UserError(file->describePlace(index) + ":" + std::to_string(at + 1) +
                      ": expected ids from 0 to " + std::to_string(stream.vocabulary - 1) +
                      " of the input \"" + name + "\"" +
                      (areDigits ? ", a digit for each token" : ", with a space between them") +
                      ", found " + quote(text.substr(at, end - at)) + "; correct the line");
    }
    tokens.push_back(id);
    at = end + (areDigits ? 0 : 1);
  }
  return tokens;
}

std::vector<int32_t> SideStream::findEnds(int64_t index, std::span<const int32_t> line) const {
  if (stream.rule == "pieces") {
    return encoder->findWordEnds(line);
  }
  std::vector<int32_t> ends;
  if (stream.rule == "whitespace") {
    std::ranges::transform(line, std::back_inserter(ends), isWhitespace);
  } else {
    ends = parse(index);
    ends.resize(line.size());
  }
  if (!ends.empty()) {
    ends.back() = 1; // the end of the line ends its last word
  }
  return ends;
}

std::vector<int32_t> SideStream::at(int64_t index, std::span<const int32_t> line,
                                    bool hasEnd) const {
  std::span<const int32_t> own = line.first(line.size() - (hasEnd ? 1 : 0));
  std::vector<int32_t> tokens;
  if (stream.derived.empty()) {
    tokens = parse(index);
    tokens.resize(own.size());
  } else {
    tokens = findEnds(index, own);
  }
  if (stream.derived == "word_split") {
    markSplitWords(tokens);
  } else if (stream.derived == "shuffled_end") {
    shuffleWords(tokens, /*keepsLast=*/!hasEnd, computeLineKey(seed, axis->whole(index)));
  }
  if (hasEnd) { // a word of one token
    bool isBitOfEnd = stream.derived == "word_end" || stream.derived == "shuffled_end";
    tokens.push_back(isBitOfEnd ? 1 : 0);
  }
  return tokens;
}

} // namespace sluice::runtime
