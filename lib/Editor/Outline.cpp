// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/Outline.h"

using namespace sluice;
using namespace sluice::editor;

namespace {

constexpr std::string_view defaultsSection = "DefaultsSection";
constexpr std::string_view scheduleSection = "Spec_ScheduleOp";
constexpr std::string_view sourceSection = "SourceSection";

/// Builds the nodes in one pass; `open` is the innermost bracket that is not closed yet.
class Scanner {
public:
  Scanner(std::string_view text, std::vector<Node> &nodes) : text(text), nodes(nodes) {}

  void run() {
    while (at < text.size()) {
      step();
    }
    flush();
    for (; open >= 0; open = current().parent) {
      current().end = text.size();
    }
  }

private:
  Node &current() { return nodes[static_cast<size_t>(open)]; }

  void step() {
    switch (text[at]) {
    case '{':
    case '[':
      flushBeforeValue();
      add(text[at] == '{' ? Node::Object : Node::Array, at, at + 1);
      open = static_cast<int>(nodes.size()) - 1;
      counts.push_back(0);
      ++at;
      return;
    case '}':
    case ']':
      close();
      return;
    case ',':
      flush();
      ++at;
      return;
    case ':':
      colon = true;
      ++at;
      return;
    case ' ':
    case '\t':
    case '\r':
    case '\n':
      ++at;
      return;
    case '"':
      token(Node::String, stringEnd());
      return;
    default:
      token(Node::Word, wordEnd());
    }
  }

  /// Returns the end of the string that starts here: past its quote, or at the end of the line.
  size_t stringEnd() const {
    size_t end = at + 1;
    while (end < text.size() && text[end] != '"' && text[end] != '\n' && text[end] != '\r') {
      end += text[end] == '\\' && end + 1 < text.size() && text[end + 1] != '\n' ? 2 : 1;
    }
    return end < text.size() && text[end] == '"' ? end + 1 : end;
  }

  size_t wordEnd() const {
    return std::min(text.find_first_of(" \t\r\n,:{}[]\"", at), text.size());
  }

  void token(Node::Kind kind, size_t end) {
    if (open >= 0 && current().kind == Node::Object && !(hasKey() && colon)) {
      flush();
      keyBegin = at;
      keyEnd = end;
    } else {
      add(kind, at, end);
    }
    at = end;
  }

  void close() {
    flush();
    ++at;
    if (open >= 0) {
      current().end = at;
      open = current().parent;
      counts.pop_back();
    }
  }

  bool hasKey() const { return keyBegin < keyEnd; }

  /// Ends a key without a colon before a bracket, which is not its value.
  void flushBeforeValue() {
    if (hasKey() && !colon) {
      flush();
    }
  }

  /// Ends a key without a value.
  void flush() {
    if (hasKey()) {
      add(Node::Missing, keyEnd, keyEnd);
    }
    colon = false;
  }

  void add(Node::Kind kind, size_t begin, size_t end) {
    size_t index = counts.empty() ? 0 : counts.back()++;
    nodes.push_back({kind, begin, end, keyBegin, keyEnd, open, index});
    keyBegin = keyEnd = 0;
    colon = false;
  }

  std::string_view text;
  std::vector<Node> &nodes;
  std::vector<size_t> counts; ///< children so far of each open bracket
  size_t at = 0, keyBegin = 0, keyEnd = 0;
  bool colon = false;
  int open = -1;
};

std::string_view unquoted(std::string_view token) {
  if (token.starts_with('"')) {
    token.remove_prefix(1);
    token.remove_suffix(token.ends_with('"') ? 1 : 0);
  }
  return token;
}

} // namespace

Outline::Outline(std::string_view text) : text(text) { Scanner(text, nodes).run(); }

std::string_view Outline::key(const Node &node) const {
  return unquoted(text.substr(node.keyBegin, node.keyEnd - node.keyBegin));
}

std::string_view Outline::contents(const Node &node) const {
  return unquoted(text.substr(node.begin, node.end - node.begin));
}

std::vector<int> Outline::children(int id) const {
  std::vector<int> result;
  for (size_t i = static_cast<size_t>(id) + 1; i < nodes.size() && nodes[i].begin < node(id).end;
       ++i) {
    if (nodes[i].parent == id) {
      result.push_back(static_cast<int>(i));
    }
  }
  return result;
}

int Outline::member(int object, std::string_view name) const {
  for (int child : children(object)) {
    if (node(child).hasKey() && key(node(child)) == name) {
      return child;
    }
  }
  return -1;
}

std::vector<int> Outline::stages() const {
  int list = nodes.empty() || nodes[0].kind != Node::Object ? -1 : member(0, "stages");
  return list < 0 || node(list).kind != Node::Array ? std::vector<int>() : children(list);
}

int Outline::getStageId(int id) const {
  for (; id >= 0; id = node(id).parent) {
    int list = node(id).parent;
    if (list >= 0 && node(list).kind == Node::Array && node(list).parent == 0 &&
        key(node(list)) == "stages") {
      return id;
    }
  }
  return -1;
}

const spec::ObjectInfo *Outline::findInfo(int stage) const {
  int op = node(stage).kind == Node::Object ? member(stage, "op") : -1;
  return op < 0 ? nullptr : spec::findStage(contents(node(op)));
}

bool Outline::isDeeperThan(int id, int levels) const {
  while (levels-- >= 0 && id >= 0) {
    id = node(id).parent;
  }
  return id >= 0;
}

std::string_view Outline::getDefinition(int object) const {
  // The deepest object is a mask: stages, stage, local, over, source, mask. A text may nest far
  // deeper, and this function looks at parents.
  constexpr int deepestSection = 6;
  const Node &self = node(object);
  if (self.kind != Node::Object || isDeeperThan(object, deepestSection)) {
    return "";
  }
  if (object == 0) {
    return "Spec_ModelOp";
  }
  if (self.parent < 0) {
    return "";
  }
  std::string_view name = key(self);
  if (self.parent == 0) {
    return name == "defaults"    ? defaultsSection
           : name == "precision" ? "Spec_PrecisionOp"
           : name == "training"  ? "Spec_TrainingOp"
                                 : "";
  }
  const Node &around = node(self.parent);
  std::string_view outer = around.parent == 0 ? key(around) : "";
  if (outer == "training" && name == "schedule") {
    return scheduleSection;
  }
  if (name == "then" && getDefinition(self.parent) == scheduleSection) {
    return "Spec_FallOp";
  }
  if ((name == "local" || name == "global") && getStageId(self.parent) == self.parent) {
    return defaultsSection;
  }
  if (around.kind == Node::Array && key(around) == "groups" &&
      getDefinition(around.parent) == "Spec_TrainingOp") {
    return "Spec_GroupOp";
  }
  auto isLayer = [&](int id) {
    return getStageId(id) == id || getDefinition(id) == defaultsSection;
  };
  if (around.kind == Node::Array && around.parent > 0 && isLayer(around.parent)) {
    return key(around) == "over" ? sourceSection : key(around) == "scales" ? "ScaleSection" : "";
  }
  bool isSource = name == "mask" && getDefinition(self.parent) == sourceSection;
  if (isLayer(self.parent) || isSource) {
    return name == "mask"       ? "MaskSection"
           : name == "rotary"   ? "RotarySection"
           : name == "lsh"      ? "LshSection"
           : name == "relative" ? "RelativeSection"
                                : "";
  }
  return "";
}

const std::vector<spec::KeyInfo> *Outline::getKeyList(int object) const {
  static const std::vector<spec::KeyInfo> onlyOp = {*spec::findStage("norm")->find("op")};
  if (object < 0 || node(object).kind != Node::Object) {
    return nullptr;
  }
  if (getStageId(object) == object) {
    const spec::ObjectInfo *stage = findInfo(object);
    return stage ? &stage->keys : &onlyOp;
  }
  std::string_view definition = getDefinition(object);
  return definition.empty() ? nullptr : &spec::getObject(definition).keys;
}

Outline::Spot Outline::at(size_t offset) const {
  Spot spot;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node &self = nodes[i];
    int id = static_cast<int>(i);
    bool bracket = self.kind == Node::Object || self.kind == Node::Array;
    bool onKey = self.hasKey() && self.keyBegin <= offset && offset <= self.keyEnd;
    bool within = self.kind != Node::Missing && self.begin <= offset &&
                  (bracket ? offset < self.end : offset <= self.end);
    if (onKey || within) {
      spot.node = id;
      spot.onKey = onKey;
    }
    bool open = bracket && self.end == text.size() && offset == self.end &&
                text[self.end - 1] != (self.kind == Node::Object ? '}' : ']');
    if (bracket && self.begin < offset && (offset < self.end || open)) {
      spot.container = id;
    }
  }
  return spot;
}
