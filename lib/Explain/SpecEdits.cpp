// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SpecEdits.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

using namespace sluice;
using spec::SpecText;
using spec::TextEdits;
using spec::TextNode;

namespace {

constexpr int64_t mostSegments = 3; // maximum number of segments by which an edit delays a read
constexpr int64_t mostStarts = 16;  // maximum number of starts of a block that are tried
constexpr int64_t mostMoved = 16;   // maximum number of stages that a move may pass

std::string quoted(llvm::StringRef text) { return ("\"" + text + "\"").str(); }

std::optional<int64_t> parseInteger(const SpecText &text, const TextNode *node) {
  int64_t value = 0;
  bool isInteger = node && !llvm::StringRef(text.slice(*node)).getAsInteger(10, value);
  return isInteger ? std::optional(value) : std::nullopt;
}

/// Collects the edits of one text.
class Collector {
public:
  Collector(const SpecText &text, int64_t mostShift) : text(text), mostShift(mostShift) {}

  std::vector<SpecEdit> collect() {
    if (const TextNode *defaults = text.root().find("defaults")) {
      collectMasks(*defaults);
    }
    for (size_t i = 1; i < text.stages().size(); ++i) {
      collectStage(i);
    }
    return std::move(edits);
  }

private:
  void collectStage(size_t index);
  void collectMasks(const TextNode &object);
  void collectMask(const TextNode &mask);
  void collectMoves(size_t index);
  void collectAdditions(size_t index);
  void collectStreams(size_t index);
  void collectRemoval(size_t index);
  void addPredictor(const TextNode &boundaries);
  std::optional<size_t> findOwnInput(size_t index) const;

  /// Adds edits that set `key` to a number from `least` on, or add the key if it is absent.
  void raise(const TextNode &object, const char *key, int64_t otherwise, int64_t by);
  void setValue(const TextNode &value, const std::string &json, EditKind kind = EditKind::Value);
  void addKey(const TextNode &object, const std::string &key, const std::string &json);
  void removeKey(const TextNode &object, const char *key, EditKind kind = EditKind::Key);

  /// Returns true for a rule whose bits follow from the whole text, so that a predictor has to
  /// learn them: labels of a file, and the largest rates or entropies of a text.
  bool isRuleAhead(const TextNode &boundaries) const {
    const TextNode *rule = boundaries.find("rule");
    return (rule && text.contents(*rule) == "labels") || boundaries.find("top") ||
           boundaries.find("spike");
  }

  std::string getStageName(const TextNode &stage) const {
    std::string_view op = text.getOpName(stage);
    return op.empty() ? "object" : std::string(op);
  }

  const SpecText &text;
  int64_t mostShift;
  std::vector<SpecEdit> edits;
};

} // namespace

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

void Collector::setValue(const TextNode &value, const std::string &json, EditKind kind) {
  if (text.slice(value) == json) {
    return;
  }
  std::string words = "write " + (value.key.empty() ? "" : quoted(value.key) + ": ") + json +
                      ", not " + std::string(text.slice(value)) + ", at ";
  edits.push_back(
      {kind, value.begin, 0, 0, 0,
       [=, this, &value](int64_t) { return text.setValue(value, json); },
       [=, at = value.begin](int64_t, const Locate &locate) { return words + locate(at); }});
}

void Collector::addKey(const TextNode &object, const std::string &key, const std::string &json) {
  edits.push_back({EditKind::Key, object.begin, 0, 0, 0,
                   [=, this, &object](int64_t) { return text.addKey(object, key, json); },
                   [=, this, &object](int64_t, const Locate &locate) {
                     return "add " + quoted(key) + ": " + json + " to the " + getStageName(object) +
                            " at " + locate(object.begin);
                   }});
}

void Collector::removeKey(const TextNode &object, const char *key, EditKind kind) {
  for (size_t i = 0; i < object.children.size(); ++i) {
    const TextNode &member = object.children[i];
    if (member.key == key) {
      edits.push_back({kind, member.begin, 0, 0, 0,
                       [=, this, &object](int64_t) { return text.removeKey(object, i); },
                       [=, this, &object, &member](int64_t, const Locate &locate) {
                         return "remove " + quoted(key) + ": " + std::string(text.slice(member)) +
                                " of the " + getStageName(object) + ", at " + locate(member.begin);
                       }});
    }
  }
}

void Collector::raise(const TextNode &object, const char *key, int64_t otherwise, int64_t by) {
  const TextNode *value = object.find(key);
  if (!value) {
    edits.push_back(
        {EditKind::Key, object.begin, otherwise + 1, otherwise + by, 0,
         [=, this, &object](int64_t n) { return text.addKey(object, key, std::to_string(n)); },
         [=, this, &object](int64_t n, const Locate &locate) {
           return "add " + quoted(key) + ": " + std::to_string(n) + " to the " +
                  getStageName(object) + " at " + locate(object.begin);
         }});
    return;
  }
  std::optional<int64_t> old = parseInteger(text, value);
  if (!old) {
    return;
  }
  bool isShift = text.getOpName(object) == "shift";
  std::string lead = isShift ? "shift by " : "write " + quoted(key) + ": ";
  edits.push_back({EditKind::Value, value->begin, *old + 1, *old + by, 0,
                   [=, this](int64_t n) { return text.setValue(*value, std::to_string(n)); },
                   [=](int64_t n, const Locate &locate) {
                     return lead + std::to_string(n) + ", not " + std::to_string(*old) + ", at " +
                            locate(value->begin);
                   }});
}

/// Collects masks that let a row read less, at every place that has a mask.
void Collector::collectMask(const TextNode &mask) {
  if (mask.kind == '"') {
    for (const char *name : {"\"causal\"", "\"complete\""}) {
      setValue(mask, name);
    }
    return;
  }
  for (const TextNode &member : mask.children) {
    std::optional<int64_t> block = parseInteger(text, &member);
    if (member.key == "block" && block) {
      const TextNode *start = mask.find("start");
      for (int64_t s = 0; s < std::min(*block, mostStarts); ++s) {
        start ? setValue(*start, std::to_string(s)) : addKey(mask, "start", std::to_string(s));
      }
    }
  }
}

/// Collects edits of an object and everything in it: masks, windows of two numbers, and `"causal":
/// false`.
void Collector::collectMasks(const TextNode &object) {
  for (const TextNode &child : object.children) {
    if (child.key == "mask") {
      collectMask(child);
    } else if (child.key == "causal" && text.slice(child) == "false") {
      setValue(child, "true");
    }
    if ((child.key == "window" || child.key == "tokens") && child.children.size() == 2) {
      const TextNode &begin = child.children[0];
      std::optional<int64_t> a = parseInteger(text, &begin),
                             b = parseInteger(text, &child.children[1]);
      if (a && b && *a + 1 < *b) {
        std::string words = "begin this " + child.key + " at ";
        edits.push_back(
            {EditKind::Value, begin.begin, *a + 1, *b - 1, 0,
             [=, this, &begin](int64_t n) { return text.setValue(begin, std::to_string(n)); },
             [=, at = begin.begin](int64_t n, const Locate &locate) {
               return words + std::to_string(n) + ", not " + std::to_string(*a) + ", at " +
                      locate(at);
             }});
      }
    } else if (!child.children.empty()) {
      collectMasks(child);
    }
  }
}

/// Collects other streams for the keys that name a stream: streams with a name before the stage
/// and, for the stage's input, the result of the preceding stage.
void Collector::collectStreams(size_t index) {
  const TextNode &stage = text.stages()[index];
  for (const char *key : {"from", "with", "over", "query", "key", "value"}) {
    const TextNode *value = stage.find(key);
    if (!value || value->kind != '"') {
      continue;
    }
    if (llvm::StringRef(key) == "from") {
      removeKey(stage, key, EditKind::Stream);
    }
    for (size_t i = 0; i < index; ++i) {
      if (const TextNode *to = text.stages()[i].find("to")) {
        setValue(*value, std::string(text.slice(*to)), EditKind::Stream);
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Collects moves of a shift to every other place nearby. The stage after the new place reads the
/// shifted stream.
void Collector::collectMoves(size_t index) {
  const std::vector<TextNode> &stages = text.stages();
  auto from = static_cast<int64_t>(index), count = static_cast<int64_t>(stages.size());
  for (int64_t to = std::max<int64_t>(1, from - mostMoved);
       to < std::min(count, from + mostMoved + 2); ++to) {
    if (to == from || to == from + 1) {
      continue;
    }
    auto before = static_cast<size_t>(to);
    int64_t distance = to > from ? to - from - 1 : from - to;
    edits.push_back({EditKind::Move, stages[index].begin, 0, 0, distance,
                     [=, this](int64_t) { return text.moveStage(index, before); },
                     [=, this](int64_t, const Locate &locate) {
                       const TextNode &other = this->text.stages()[before - 1];
                       return "move the shift at " + locate(this->text.stages()[index].begin) +
                              " to directly after the " + getStageName(other) + " at " +
                              locate(other.begin);
                     }});
  }
}

/// Collects additions of shifts: before a stage, of the stream that the stage reads, and after a
/// stage, of its result under its name.
void Collector::collectAdditions(size_t index) {
  const TextNode &stage = text.stages()[index];
  const TextNode *from = stage.find("from");
  std::string source = from ? ", \"from\": " + std::string(text.slice(*from)) : "";
  edits.push_back({EditKind::Add, stage.begin, 1, mostShift, 0,
                   [=, this, &stage](int64_t n) {
                     TextEdits all =
                         text.insertStage(index, "{ \"op\": \"shift\"" + source +
                                                     ", \"by\": " + std::to_string(n) + " }");
                     if (from) {
                       auto member = static_cast<size_t>(from - stage.children.data());
                       TextEdits removed = text.removeKey(stage, member);
                       all.insert(all.end(), removed.begin(), removed.end());
                     }
                     return all;
                   },
                   [=, this, &stage](int64_t n, const Locate &locate) {
                     std::string what = from ? " of " + std::string(text.slice(*from)) : "";
                     return "add a shift by " + std::to_string(n) + what + " directly before the " +
                            getStageName(stage) + " at " + locate(stage.begin);
                   }});
  const TextNode *to = stage.find("to");
  if (!to || index + 1 == text.stages().size()) {
    return;
  }
  edits.push_back({EditKind::Add, stage.begin, 1, mostShift, 0,
                   [=, this, &stage](int64_t n) {
                     TextEdits all = text.insertStage(
                         index + 1, "{ \"op\": \"shift\", \"by\": " + std::to_string(n) +
                                        ", \"to\": " + std::string(text.slice(*to)) + " }");
                     auto member = static_cast<size_t>(to - stage.children.data());
                     TextEdits removed = text.removeKey(stage, member);
                     all.insert(all.end(), removed.begin(), removed.end());
                     return all;
                   },
                   [=, this, &stage](int64_t n, const Locate &locate) {
                     return "add a shift by " + std::to_string(n) + " to " +
                            std::string(text.slice(*to)) + " directly after the " +
                            getStageName(stage) + " at " + locate(stage.begin);
                   }});
}

/// Returns the member of "inputs" that only this stage reads: a spec with an input that no stage
/// reads is rejected.
std::optional<size_t> Collector::findOwnInput(size_t index) const {
  const TextNode *inputs = text.root().find("inputs");
  if (!inputs) {
    return std::nullopt;
  }
  auto reads = [&](const TextNode &stage, const std::string &input) {
    return llvm::any_of(stage.children, [&](const TextNode &member) {
      bool namesInput = member.key == "input" || member.key == "target" || member.key == "weights";
      return namesInput && member.kind == '"' && text.contents(member) == input;
    });
  };
  for (size_t i = 0; i < inputs->children.size(); ++i) {
    const std::string &input = inputs->children[i].key;
    auto readsInput = [&](const TextNode &stage) { return reads(stage, input); };
    if (readsInput(text.stages()[index]) && llvm::count_if(text.stages(), readsInput) == 1) {
      return i;
    }
  }
  return std::nullopt;
}

/// Removes a stage, together with the input that it alone reads.
void Collector::collectRemoval(size_t index) {
  const TextNode &stage = text.stages()[index], &root = text.root();
  std::optional<size_t> own = findOwnInput(index);
  const TextNode *inputs = own ? root.find("inputs") : nullptr;
  edits.push_back(
      {EditKind::Remove, stage.begin, 0, 0, 0,
       [=, this, &root](int64_t) {
         TextEdits all = text.removeStage(index);
         if (own) {
           bool isOnly = inputs->children.size() == 1;
           auto member = static_cast<size_t>(inputs - root.children.data());
           TextEdits removed =
               isOnly ? text.removeKey(root, member) : text.removeKey(*inputs, *own);
           all.insert(all.end(), removed.begin(), removed.end());
         }
         return all;
       },
       [=, this, &stage](int64_t, const Locate &locate) {
         std::string with = own ? ", with the input " + quoted(inputs->children[*own].key) +
                                      ", which "
                                      "no other stage reads"
                                : "";
         return "remove the " + getStageName(stage) + " at " + locate(stage.begin) + with;
       }});
}

/// Adds a predictor to the object of a rule that needs one.
void Collector::addPredictor(const TextNode &boundaries) {
  if (boundaries.kind == '{' && isRuleAhead(boundaries) && !boundaries.find("predictor")) {
    addKey(boundaries, "predictor", std::string(text.slice(*text.root().find("width"))));
  }
}

void Collector::collectStage(size_t index) {
  const TextNode &stage = text.stages()[index];
  llvm::StringRef op(text.getOpName(stage));
  bool isLast = index + 1 == text.stages().size();
  if (op == "shift") {
    raise(stage, "by", 0, mostShift);
    removeKey(stage, "start");
    collectMoves(index);
  }
  if (op == "hourglass") {
    raise(stage, "shift", 0, mostShift);
    removeKey(stage, "shift");
    removeKey(stage, "shifted");
  }
  if (op == "head" || op == "loss") {
    raise(stage, "shift", 0, mostShift);
    removeKey(stage, "shift");
  }
  if (stage.find("segments") && (op == "upsample" || op == "attend")) {
    raise(stage, "by", 1, mostSegments);
  }
  if (op == "boundaries") {
    addPredictor(stage);
  } else if (const TextNode *own = stage.find("boundaries")) { // of a composite
    addPredictor(*own);
    for (const TextNode &level : own->children) {
      addPredictor(level);
    }
  }
  if (op == "replace") {
    collectMask(stage);
  }
  if (op == "attention" && !stage.find("mask")) {
    addKey(stage, "mask", "\"complete\"");
  }
  collectMasks(stage);
  if (const TextNode *over = stage.find("over")) {
    if (over->kind == '"' && !stage.find("mask")) {
      addKey(stage, "mask", "\"complete\"");
    }
    for (const TextNode &group : over->children) {
      if (!group.find("mask")) {
        addKey(group, "mask", "\"complete\"");
      }
    }
  }
  collectStreams(index);
  collectAdditions(index);
  if (!isLast) {
    collectRemoval(index);
  }
}

std::vector<SpecEdit> sluice::collectEdits(const SpecText &text, int64_t mostShift) {
  // The edits share ownership of the collector, whose names of stages they use.
  auto collector = std::make_shared<Collector>(text, mostShift);
  std::vector<SpecEdit> edits = collector->collect();
  for (SpecEdit &edit : edits) {
    edit.describe = [collector, describe = std::move(edit.describe)](
                        int64_t n, const Locate &locate) { return describe(n, locate); };
    edit.apply = [collector, apply = std::move(edit.apply)](int64_t n) { return apply(n); };
  }
  return edits;
}
