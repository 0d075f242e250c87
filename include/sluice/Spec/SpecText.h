// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text of a valid spec as a tree of byte ranges, and edits of it that keep every other byte:
// order of keys, white space and the form of numbers stay as the user wrote them.
#ifndef SLUICE_SPEC_SPECTEXT_H
#define SLUICE_SPEC_SPECTEXT_H

#include "sluice/Spec/Diagnostic.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::spec {

/// Replaces the bytes from `begin` to `end`.
struct TextEdit {
  size_t begin = 0, end = 0;
  std::string text;
};
using TextEdits = std::vector<TextEdit>;

/// Applies edits that do not overlap; of several at one place the first comes first.
std::string applyEdits(const std::string &text, TextEdits edits);

/// The offset in the original text of a byte of the edited one; of inserted bytes, the place of the
/// edit.
size_t offsetBefore(size_t offset, TextEdits edits);

/// A JSON value in a text.
struct TextNode {
  size_t begin = 0, end = 0; ///< with quotes or brackets
  size_t keyBegin = 0;       ///< of a member: its opening quote
  std::string key;           ///< without quotes, as it is written
  char kind = 0;             ///< its first byte: '{', '[', '"', or that of a word or number
  std::vector<TextNode> children;

  const TextNode *find(std::string_view name) const;
};

class SpecText {
public:
  /// `text` is a spec that the reader takes.
  explicit SpecText(const std::string &text);

  const TextNode &root() const { return tree; }
  /// The items of "stages".
  const std::vector<TextNode> &stages() const { return *list; }
  std::string_view slice(const TextNode &node) const {
    return std::string_view(text).substr(node.begin, node.end - node.begin);
  }
  /// A string without its quotes, as it is written.
  std::string_view contents(const TextNode &node) const;
  /// "layer"
  std::string_view getOpName(const TextNode &stage) const;
  /// The index of the stage that has this byte; -1: none.
  int64_t stageAt(size_t offset) const;

  SourceLocation locate(size_t offset, const std::string &file) const;
  size_t getOffsetAt(const SourceLocation &place) const;

  TextEdits setValue(const TextNode &value, const std::string &json) const;
  /// Adds a key last in its object.
  TextEdits addKey(const TextNode &object, const std::string &key, const std::string &json) const;
  TextEdits removeKey(const TextNode &object, size_t member) const;
  /// `stage` is JSON on one line, written `{ "op": "norm" }`; its spaces follow the stage that it
  /// precedes.
  TextEdits insertStage(size_t before, std::string stage) const;
  TextEdits removeStage(size_t stage) const;
  /// `before` is neither `stage` nor the one after it.
  TextEdits moveStage(size_t stage, size_t before) const;

private:
  TextEdits insertText(size_t before, const std::string &stage) const;
  bool startsLine(size_t offset) const;

  std::string text;
  TextNode tree;
  const std::vector<TextNode> *list = nullptr;
};

/// The changed lines of a text, as edits of its bytes: one edit a run of lines, without the bytes
/// at its ends that stay.
TextEdits diffLines(const std::string &before, const std::string &after);

/// A unified diff with three lines of context; empty where the texts are the same.
std::string formatDiff(const std::string &before, const std::string &after, const std::string &file,
                       const std::string &otherFile);

} // namespace sluice::spec

#endif // SLUICE_SPEC_SPECTEXT_H
