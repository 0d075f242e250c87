// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shape of a spec that is being typed. The spec reader gives up at the first error; this reads
// on through any text, so that hover, completion and symbols work in a spec that is not valid yet.
#pragma once

#include "sluice/Dialect/Spec/Keys.h"

#include <string_view>
#include <vector>

namespace sluice::editor {

/// A value, or a key whose value is still missing.
struct Node {
  enum Kind { Object, Array, String, Word, Missing } kind = Missing;
  size_t begin = 0, end = 0; ///< bytes, with quotes or brackets; an open bracket ends with the text
  size_t keyBegin = 0, keyEnd = 0; ///< with quotes; equal where the value has no key
  int parent = -1;
  size_t index = 0; ///< in the parent

  bool hasKey() const { return keyBegin < keyEnd; }
};

class Outline {
public:
  /// Linear in the text, without recursion: any text is safe. The text must outlive this.
  explicit Outline(std::string_view text);

  const std::vector<Node> &all() const { return nodes; } ///< parents before their children
  const Node &node(int id) const { return nodes[static_cast<size_t>(id)]; }

  /// A key or a string without its quotes, as it is written.
  std::string_view key(const Node &node) const;
  std::string_view contents(const Node &node) const;
  std::vector<int> children(int id) const;
  /// The member of an object with this key; -1: none.
  int member(int object, std::string_view key) const;

  /// The stages, in order.
  std::vector<int> stages() const;
  /// The stage that a node is, or lies in; -1: none.
  int getStageId(int id) const;
  /// The declaration of a stage's op; null where it has no known op.
  const spec::ObjectInfo *findInfo(int stage) const;
  /// The keys that an object may have; null where it is no object of a spec.
  const std::vector<spec::KeyInfo> *getKeyList(int object) const;

  /// The node at an offset; an end counts as within for strings and words, not for brackets.
  struct Spot {
    int node = -1;      ///< the innermost value or member there; -1: outside of everything
    bool onKey = false; ///< on its key
    int container = -1; ///< the innermost object or array around the offset
  };
  Spot at(size_t offset) const;

private:
  bool isDeeperThan(int id, int levels) const;
  /// The definition of an object that is no stage, "MaskSection" for example; empty: none.
  std::string_view getDefinition(int object) const;

  std::string_view text;
  std::vector<Node> nodes;
};

} // namespace sluice::editor
