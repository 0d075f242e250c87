// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Spec/SpecText.h"

#include <algorithm>

namespace sluice::spec {
namespace {

/// Reads valid JSON, nested at most 64 deep.
class Scanner {
public:
  explicit Scanner(std::string_view text) : text(text) {}

  TextNode value() {
    skip();
    TextNode node;
    node.begin = at;
    node.kind = peek();
    if (node.kind == '{' || node.kind == '[') {
      ++at;
      while (skip(), peek() != '}' && peek() != ']' && at < text.size()) {
        node.children.push_back(node.kind == '{' ? member() : value());
        skip();
        at += peek() == ',';
      }
      ++at;
    } else if (node.kind == '"') {
      string();
    } else {
      at = std::min(text.find_first_of(" \t\r\n,]}", at), text.size());
    }
    node.end = std::min(at, text.size());
    return node;
  }

private:
  char peek() const { return at < text.size() ? text[at] : '\0'; }
  void skip() { at = std::min(text.find_first_not_of(" \t\r\n", at), text.size()); }
  void string() {
    for (++at; at < text.size() && text[at] != '"'; ++at) {
      at += text[at] == '\\';
    }
    ++at;
  }
  TextNode member() {
    size_t key = at;
    string();
    std::string name(text.substr(key + 1, at - key - 2));
    skip();
    ++at; // the colon
    TextNode node = value();
    node.keyBegin = key;
    node.key = std::move(name);
    return node;
  }

  std::string_view text;
  size_t at = 0;
};

const std::vector<TextNode> noStages;

/// Sorts by place; edits at one place keep their order. There are a handful.
void sortByPlace(TextEdits &edits) {
  for (size_t i = 1; i < edits.size(); ++i) {
    for (size_t j = i; j > 0 && edits[j].begin < edits[j - 1].begin; --j) {
      std::swap(edits[j], edits[j - 1]);
    }
  }
}

} // namespace

std::string applyEdits(const std::string &text, TextEdits edits) {
  sortByPlace(edits);
  std::string result;
  size_t at = 0;
  for (const TextEdit &edit : edits) {
    result += text.substr(at, edit.begin - at) + edit.text;
    at = edit.end;
  }
  return result + text.substr(at);
}

size_t offsetBefore(size_t offset, TextEdits edits) {
  sortByPlace(edits);
  size_t shift = 0; // bytes that the edits so far removed, minus the inserted ones, modulo 2^64
  for (const TextEdit &edit : edits) {
    if (offset + shift < edit.begin) {
      break;
    }
    if (offset + shift < edit.begin + edit.text.size()) {
      return edit.begin;
    }
    shift += edit.end - edit.begin - edit.text.size();
  }
  return offset + shift;
}

const TextNode *TextNode::find(std::string_view name) const {
  auto found = std::find_if(children.begin(), children.end(),
                            [&](const TextNode &child) { return child.key == name; });
  return found == children.end() ? nullptr : &*found;
}

SpecText::SpecText(const std::string &text) : text(text), tree(Scanner(this->text).value()) {
  const TextNode *stages = tree.find("stages");
  list = stages ? &stages->children : &noStages;
}

std::string_view SpecText::contents(const TextNode &node) const {
  std::string_view written = slice(node);
  return node.kind == '"' ? written.substr(1, written.size() - 2) : written;
}

std::string_view SpecText::getOpName(const TextNode &stage) const {
  const TextNode *op = stage.find("op");
  return op ? contents(*op) : std::string_view();
}

int64_t SpecText::stageAt(size_t offset) const {
  for (size_t i = 0; i < list->size(); ++i) {
    if ((*list)[i].begin <= offset && offset < (*list)[i].end) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

SourceLocation SpecText::locate(size_t offset, const std::string &file) const {
  std::string_view before = std::string_view(text).substr(0, offset);
  size_t line = before.rfind('\n');
  size_t column = line == std::string_view::npos ? offset + 1 : offset - line;
  return {file, static_cast<unsigned>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<unsigned>(column)};
}

size_t SpecText::getOffsetAt(const SourceLocation &place) const {
  size_t at = 0;
  for (unsigned line = 1; line < place.line; ++line) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) {
      return text.size();
    }
    at = end + 1;
  }
  return std::min(at + (place.column == 0 ? 0 : place.column - 1), text.size());
}

bool SpecText::startsLine(size_t offset) const {
  size_t before = text.find_last_not_of(" \t", offset == 0 ? 0 : offset - 1);
  return offset == 0 || before == std::string::npos || text[before] == '\n';
}

TextEdits SpecText::setValue(const TextNode &value, const std::string &json) const {
  return {{value.begin, value.end, json}};
}

TextEdits SpecText::addKey(const TextNode &object, const std::string &key,
                           const std::string &json) const {
  std::string quoted = "\"" + key + "\"";
  if (object.children.empty()) {
    return {{object.begin, object.end, "{ " + quoted + ": " + json + " }"}};
  }
  const TextNode &last = object.children.back();
  size_t keyEnd = last.keyBegin + last.key.size() + 2;
  std::string colon = text.substr(keyEnd, last.begin - keyEnd);
  std::string comma = colon == ":" ? "," : ", ";
  if (startsLine(last.keyBegin) && object.children.size() > 1) { // a key a line
    size_t line = text.rfind('\n', last.keyBegin);
    comma = "," + text.substr(line, last.keyBegin - line);
  }
  return {{last.end, last.end, comma + quoted + colon + json}};
}

TextEdits SpecText::removeKey(const TextNode &object, size_t member) const {
  const std::vector<TextNode> &members = object.children;
  if (member > 0) {
    return {{members[member - 1].end, members[member].end, ""}};
  }
  size_t end = members.size() > 1 ? members[1].keyBegin : members[0].end;
  return {{members[0].keyBegin, end, ""}};
}

TextEdits SpecText::insertText(size_t before, const std::string &stage) const {
  const TextNode &next = (*list)[before];
  if (startsLine(next.begin)) {
    size_t line = text.rfind('\n', next.begin);
    std::string indent = line == std::string::npos ? " " : text.substr(line, next.begin - line);
    return {{next.begin, next.begin, stage + "," + indent}};
  }
  size_t previous = before > 0 ? (*list)[before - 1].end : next.begin;
  bool isTight = before > 0 && next.begin == previous + 1; // a comma alone
  return {{next.begin, next.begin, stage + (isTight ? "," : ", ")}};
}

TextEdits SpecText::insertStage(size_t before, std::string stage) const {
  std::string_view model = slice((*list)[before]);
  if (model.substr(0, 2) == "{\"") { // {"op": "norm"}
    stage = "{" + stage.substr(2, stage.size() - 4) + "}";
  }
  if (const TextNode *op = (*list)[before].find("op"); op && text[op->begin - 1] == ':') {
    for (size_t at; (at = stage.find("\": ")) != std::string::npos;) {
      stage.erase(at + 2, 1);
    }
    for (size_t at; (at = stage.find(", ")) != std::string::npos;) {
      stage.erase(at + 1, 1);
    }
  }
  return insertText(before, stage);
}

TextEdits SpecText::removeStage(size_t stage) const {
  const TextNode &item = (*list)[stage];
  bool isLast = stage + 1 == list->size();
  if (!isLast && (stage == 0 || startsLine(item.begin))) {
    return {{item.begin, (*list)[stage + 1].begin, ""}};
  }
  return {{stage == 0 ? item.begin : (*list)[stage - 1].end, item.end, ""}};
}

TextEdits SpecText::moveStage(size_t stage, size_t before) const {
  TextEdits edits = removeStage(stage);
  TextEdits added = insertText(before, std::string(slice((*list)[stage])));
  edits.insert(edits.end(), added.begin(), added.end());
  return edits;
}

//===----------------------------------------------------------------------===//
// Differences
//===----------------------------------------------------------------------===//

namespace {

/// Splits a text into lines with their ends.
std::vector<std::string_view> splitLines(const std::string &text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(std::string_view(text).substr(at, end - at));
    at = end;
  }
  return lines;
}

/// Lines of both texts that one run of changes replaces.
struct Hunk {
  size_t begin, end, otherBegin, otherEnd;
};

/// Computes changes by the longest common subsequence of the parts between the common ends. If that
/// would take too long, all of it is one change.
std::vector<Hunk> computeHunks(const std::vector<std::string_view> &before,
                               const std::vector<std::string_view> &after) {
  constexpr size_t most = 4'000'000;
  size_t first = 0, a = before.size(), b = after.size();
  while (first < std::min(a, b) && before[first] == after[first]) {
    ++first;
  }
  while (a > first && b > first && before[a - 1] == after[b - 1]) {
    --a;
    --b;
  }
  if (first == a && first == b) {
    return {};
  }
  size_t rows = a - first, columns = b - first;
  if ((rows + 1) * (columns + 1) > most) {
    return {{first, a, first, b}};
  }
  std::vector<std::vector<uint32_t>> common(rows + 1, std::vector<uint32_t>(columns + 1));
  for (size_t i = rows; i-- > 0;) {
    for (size_t j = columns; j-- > 0;) {
      common[i][j] = before[first + i] == after[first + j]
                         ? common[i + 1][j + 1] + 1
                         : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<Hunk> hunks;
  for (size_t i = 0, j = 0; i < rows || j < columns;) {
    if (i < rows && j < columns && before[first + i] == after[first + j]) {
      ++i;
      ++j;
      continue;
    }
    Hunk hunk{first + i, 0, first + j, 0};
    while ((i < rows || j < columns) &&
           !(i < rows && j < columns && before[first + i] == after[first + j])) {
      bool removes = j == columns || (i < rows && common[i + 1][j] >= common[i][j + 1]);
      (removes ? i : j) += 1;
    }
    hunk.end = first + i;
    hunk.otherEnd = first + j;
    hunks.push_back(hunk);
  }
  return hunks;
}

} // namespace

TextEdits diffLines(const std::string &before, const std::string &after) {
  std::vector<std::string_view> lines = splitLines(before), others = splitLines(after);
  auto join = [](const std::vector<std::string_view> &list, size_t begin, size_t end) {
    std::string text;
    for (size_t i = begin; i < end; ++i) {
      text += list[i];
    }
    return text;
  };
  auto getLineStart = [&](size_t line) {
    return line < lines.size() ? static_cast<size_t>(lines[line].data() - before.data())
                               : before.size();
  };
  TextEdits edits;
  for (const Hunk &hunk : computeHunks(lines, others)) {
    std::string old = join(lines, hunk.begin, hunk.end),
                text = join(others, hunk.otherBegin, hunk.otherEnd);
    size_t most = std::min(old.size(), text.size()), head = 0, tail = 0;
    while (head < most && old[head] == text[head]) {
      ++head;
    }
    while (tail < most - head && old[old.size() - 1 - tail] == text[text.size() - 1 - tail]) {
      ++tail;
    }
    auto isInside = [](const std::string &bytes, size_t at) { // of a character of UTF-8
      return at < bytes.size() && (static_cast<unsigned char>(bytes[at]) & 0xC0) == 0x80;
    };
    while (head > 0 && (isInside(old, head) || isInside(text, head))) {
      --head;
    }
    while (tail > 0 && (isInside(old, old.size() - tail) || isInside(text, text.size() - tail))) {
      --tail;
    }
    size_t start = getLineStart(hunk.begin);
    edits.push_back(
        {start + head, start + old.size() - tail, text.substr(head, text.size() - head - tail)});
  }
  return edits;
}

std::string formatDiff(const std::string &before, const std::string &after, const std::string &file,
                       const std::string &otherFile) {
  constexpr size_t context = 3;
  std::vector<std::string_view> lines = splitLines(before), others = splitLines(after);
  std::vector<Hunk> hunks = computeHunks(lines, others);
  if (hunks.empty()) {
    return "";
  }
  std::string text = "--- " + file + "\n+++ " + otherFile + "\n";
  auto add = [&](char mark, std::string_view line) {
    text += mark;
    text += line;
    text += line.ends_with('\n') ? "" : "\n\\ No newline at end of file\n";
  };
  for (size_t i = 0; i < hunks.size();) {
    size_t next = i + 1; // hunks whose contexts touch are shown together
    while (next < hunks.size() && hunks[next].begin - hunks[next - 1].end <= 2 * context) {
      ++next;
    }
    const Hunk &head = hunks[i], &tail = hunks[next - 1];
    size_t lead = std::min(context, head.begin), trail = std::min(context, lines.size() - tail.end);
    auto range = [](size_t begin, size_t count) {
      return std::to_string(count == 0 ? begin : begin + 1) + "," + std::to_string(count);
    };
    text += "@@ -" + range(head.begin - lead, tail.end + trail - head.begin + lead) + " +" +
            range(head.otherBegin - lead, tail.otherEnd + trail - head.otherBegin + lead) + " @@\n";
    size_t at = head.begin - lead;
    for (; i < next; ++i) {
      for (; at < hunks[i].begin; ++at) {
        add(' ', lines[at]);
      }
      for (; at < hunks[i].end; ++at) {
        add('-', lines[at]);
      }
      for (size_t j = hunks[i].otherBegin; j < hunks[i].otherEnd; ++j) {
        add('+', others[j]);
      }
    }
    for (; at < tail.end + trail; ++at) {
      add(' ', lines[at]);
    }
  }
  return text;
}

} // namespace sluice::spec
