// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/Answers.h"

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Editor/Describe.h"

#include <algorithm>

using namespace sluice;
using namespace sluice::editor;
using nlohmann::json;
using spec::KeyInfo;

namespace {

// Constants of the protocol.
enum CompletionKind { ValueItem = 12, PropertyItem = 10, ReferenceItem = 18 };
constexpr int objectSymbol = 19;

const KeyInfo *findKeyInfo(const Outline &outline, const Node &node) {
  const std::vector<KeyInfo> *keys = outline.getKeyList(node.parent);
  if (!keys || !node.hasKey()) {
    return nullptr;
  }
  auto found = std::find_if(keys->begin(), keys->end(),
                            [&](const KeyInfo &info) { return info.name == outline.key(node); });
  return found == keys->end() ? nullptr : &*found;
}

json computeRange(const Document &document, size_t begin, size_t end) {
  return toJson(document.lines.range(begin, end));
}

//===----------------------------------------------------------------------===//
// Hover
//===----------------------------------------------------------------------===//

std::string verdictText(const Findings *findings) {
  if (!findings) {
    return "\nbeing checked\n";
  }
  if (!findings->verdict) {
    return findings->unchecked.empty() ? "" : "\n" + findings->unchecked + "\n";
  }
  const CausalVerdict &verdict = *findings->verdict;
  return "\n" + (verdict.isProved() ? verdict.format() : verdict.message) + "\n";
}

/// Describes the spec of a text; nothing where it is not valid.
std::optional<std::string>
describeSpec(const Document &document, const std::string &file, const Findings *findings,
             const std::function<std::string(const ParsedSpec &)> &describe) {
  if (findings && !findings->model) {
    return std::nullopt;
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  spec::Diagnostic error;
  std::optional<ParsedSpec> spec = parseSpec(context, document.text, file, error);
  return spec ? std::optional(describe(*spec)) : std::nullopt;
}

std::string stageText(const Document &document, int stage, const std::string &file,
                      const Findings *findings) {
  const Outline &outline = document.outline;
  const spec::ObjectInfo *op = outline.findInfo(stage);
  if (!op) {
    return "";
  }
  size_t index = outline.node(stage).index;
  std::string text = "**" + std::string(op->word) + "** (stage " + std::to_string(index) +
                     "): " + std::string(op->sentence) + "\n\n";
  text += describeSpec(document, file, findings, [&](const ParsedSpec &spec) {
            return describeStage(spec, index);
          }).value_or("- scale, shape and weights show once the spec is valid\n");
  for (int child : outline.children(stage)) {
    const KeyInfo *info = findKeyInfo(outline, outline.node(child));
    if (info && info->name != "op") {
      text += "- `" + std::string(info->name) + "`: " + std::string(info->meaning) + "\n";
    }
  }
  return text;
}

/// Returns true if the verdict of the whole model is shown at this key.
bool isAboutModel(const Outline &outline, const Node &node) {
  std::string_view key = outline.key(node);
  return node.parent == 0 && (key == "sluice" || key == "name" || key == "stages");
}

} // namespace

json editor::hoverAt(const Document &document, size_t offset, const std::string &file,
                     const Findings *findings) {
  const Outline &outline = document.outline;
  Outline::Spot spot = outline.at(offset);
  if (spot.node < 0) {
    return nullptr;
  }
  const Node &node = outline.node(spot.node);
  const KeyInfo *info = findKeyInfo(outline, node);
  int stage = outline.getStageId(spot.node);
  bool bracket = node.kind == Node::Object || node.kind == Node::Array;
  bool onBracket = bracket && !spot.onKey;
  size_t begin = spot.onKey ? node.keyBegin : node.begin;
  size_t end = spot.onKey ? node.keyEnd : onBracket ? node.begin + 1 : node.end;
  std::string text;
  bool op = info && info->name == "op" && stage == node.parent;
  if (stage >= 0 && (spot.node == stage || op)) {
    text = stageText(document, stage, file, findings);
  } else if (info && (spot.onKey || !bracket)) {
    text = describeKey(*info);
  }
  if ((spot.node == 0 && onBracket && offset == node.begin) ||
      (info && isAboutModel(outline, node) && (spot.onKey || !bracket))) {
    std::optional<std::string> model = describeSpec(document, file, findings, describeModel);
    text += (text.empty() ? "" : "\n") + (model ? *model + verdictText(findings) : "");
  }
  if (text.empty()) {
    return nullptr;
  }
  return {{"contents", {{"kind", "markdown"}, {"value", text}}},
          {"range", computeRange(document, begin, end)}};
}

//===----------------------------------------------------------------------===//
// Completion
//===----------------------------------------------------------------------===//

namespace {

/// Collects items that replace the bytes from `begin` to `end`.
class Items {
public:
  Items(const Document &document, size_t begin, size_t end)
      : range(computeRange(document, begin, end)) {}

  /// `text` is inserted, quotes included; editors match typed text against it.
  void add(std::string_view label, const std::string &text, CompletionKind kind,
           std::string_view detail, const std::string &documentation = "") {
    json item = {{"label", label},
                 {"kind", static_cast<int>(kind)},
                 {"detail", detail},
                 {"filterText", text},
                 {"textEdit", {{"range", range}, {"newText", text}}}};
    if (!documentation.empty()) {
      item["documentation"] = {{"kind", "markdown"}, {"value", documentation}};
    }
    result.push_back(std::move(item));
  }

  json take() { return std::move(result); }

private:
  json range;
  json result = json::array();
};

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

/// Completes the keys that the object may have and lacks.
json completeKeys(const Document &document, int object, size_t begin, size_t end, int typed) {
  const Outline &outline = document.outline;
  const std::vector<KeyInfo> *keys = outline.getKeyList(object);
  if (!keys) {
    return json::array();
  }
  std::vector<std::string_view> present;
  for (int child : outline.children(object)) {
    if (child != typed && outline.node(child).hasKey()) {
      present.push_back(outline.key(outline.node(child)));
    }
  }
  size_t next = document.text.find_first_not_of(" \t\r\n", end);
  bool colon = next != std::string::npos && document.text[next] == ':';
  Items items(document, begin, end);
  for (const KeyInfo &key : *keys) {
    if (std::find(present.begin(), present.end(), key.name) == present.end()) {
      items.add(key.name, quoted(key.name) + (colon ? "" : ": "), PropertyItem, key.type,
                describeKey(key));
    }
  }
  return items.take();
}

/// Adds the names of the streams before a stage.
void addStreams(const Outline &outline, int stage, Items &items) {
  for (int other : outline.stages()) {
    if (other == stage) {
      return;
    }
    int to = outline.node(other).kind == Node::Object ? outline.member(other, "to") : -1;
    if (to >= 0 && outline.node(to).kind == Node::String) {
      std::string_view name = outline.contents(outline.node(to));
      items.add(name, quoted(name), ReferenceItem, "result of an earlier stage");
    }
  }
}

json completeValue(const Document &document, const Node &node, size_t begin, size_t end) {
  const Outline &outline = document.outline;
  const KeyInfo *info = findKeyInfo(outline, node);
  Items items(document, begin, end);
  if (!info) {
    return items.take();
  }
  for (std::string_view value : info->words) {
    items.add(value, quoted(value), ValueItem, info->name);
  }
  if (info->type == "boolean" || info->name == "rotary") {
    items.add("true", "true", ValueItem, info->name);
    items.add("false", "false", ValueItem, info->name);
  }
  if (info->name == "mask") {
    items.add("window", "{\"window\": [0, 64]}", ValueItem, info->meaning);
    items.add("tokens", "{\"tokens\": [0, 64]}", ValueItem, info->meaning);
  }
  if (info->name == "rotary") {
    items.add("base", "{\"base\": 10000}", ValueItem, info->meaning);
  }
  if (info->name == "lsh") {
    items.add("false", "false", ValueItem, info->name);
    items.add("buckets", "{\"buckets\": 32}", ValueItem, info->meaning);
  }
  if (info->name == "relative") {
    for (std::string term : {"bias", "signed_bias", "vectors"}) {
      items.add(term, "{\"" + term + "\": 32}", ValueItem, info->meaning);
    }
  }
  if (info->type == "name of a stream") {
    addStreams(outline, node.parent, items);
  }
  return items.take();
}

} // namespace

json editor::completionsAt(const Document &document, size_t offset) {
  const Outline &outline = document.outline;
  Outline::Spot spot = outline.at(offset);
  if (spot.container < 0) {
    return json::array();
  }
  if (spot.node == spot.container || spot.node < 0) { // in white space
    // A key whose value is missing and that ends before this place: `"op": |`.
    int open = -1;
    for (int child : outline.children(spot.container)) {
      const Node &node = outline.node(child);
      size_t colon = document.text.find_first_not_of(" \t\r\n", node.keyEnd);
      bool waits = node.kind == Node::Missing && colon != std::string::npos && colon < offset &&
                   document.text[colon] == ':';
      bool here = waits && document.text.find_first_not_of(" \t\r\n", colon + 1) >= offset;
      open = here ? child : open;
    }
    return open >= 0 ? completeValue(document, outline.node(open), offset, offset)
                     : completeKeys(document, spot.container, offset, offset, -1);
  }
  const Node &node = outline.node(spot.node);
  if (spot.onKey) {
    return completeKeys(document, node.parent, node.keyBegin, node.keyEnd, spot.node);
  }
  if (node.kind == Node::String || node.kind == Node::Word) {
    return completeValue(document, node, node.begin, node.end);
  }
  return json::array();
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

json editor::buildSymbols(const Document &document) {
  const Outline &outline = document.outline;
  json symbols = json::array();
  for (int stage : outline.stages()) {
    const Node &node = outline.node(stage);
    if (node.kind != Node::Object) {
      continue;
    }
    int op = outline.member(stage, "op"), to = outline.member(stage, "to");
    std::string name = std::to_string(node.index) + " " +
                       (op < 0 ? "(no op)" : std::string(outline.contents(outline.node(op))));
    std::string detail = to < 0 ? "" : "to " + std::string(outline.contents(outline.node(to)));
    const Node &selected = op < 0 ? node : outline.node(op);
    symbols.push_back({{"name", name},
                       {"detail", detail},
                       {"kind", objectSymbol},
                       {"range", computeRange(document, node.begin, node.end)},
                       {"selectionRange", computeRange(document, selected.begin, selected.end)}});
  }
  return symbols;
}
