// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Spec/Override.h"

#include "Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace sluice::spec {
namespace {

/// Returns the offset of a position; lines and columns count from 1, columns in bytes.
size_t getOffsetAt(const std::string &text, Position position) {
  size_t at = 0;
  for (unsigned line = 1; line < position.line; ++line) {
    at = text.find('\n', at) + 1;
  }
  return at + position.column - 1;
}

/// Returns the number of bytes from `at` to the end of the JSON value that begins there, in valid
/// JSON.
size_t valueBytes(const std::string &text, size_t at) {
  int depth = 0;
  bool inString = false;
  for (size_t i = at; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      i += c == '\\' ? 1 : 0;
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (depth == 0 && std::string_view(" \t\r\n,]}").find(c) != std::string_view::npos) {
      return i - at;
    } else if (c == '}' || c == ']') {
      --depth;
    }
    if (depth == 0 && !inString && std::string_view("\"]}").find(c) != std::string_view::npos) {
      return i + 1 - at;
    }
  }
  return text.size() - at;
}

/// The node of a path, as far as the spec has it.
struct OverrideTarget {
  const JsonValue *value; ///< of the last step that was found
  Position start;         ///< of its key, or of the value itself in an array
  size_t found;           ///< steps of the path
};

/// Follows one step of the path from `value`; null if an object lacks the key.
const JsonValue *follow(const JsonValue &value, const SpecOverride &setting, size_t step,
                        const std::string &file, Position &start) {
  auto fail = [&](const std::string &expected, const std::string &found) {
    throw Failure{{{file, value.position.line, value.position.column},
                   setting.flag + ": expected " + expected + ", found " + found}};
  };
  const std::string &key = setting.path[step];
  if (value.kind == JsonKind::Object) {
    auto member = std::find_if(value.members.begin(), value.members.end(),
                               [&](const JsonMember &each) { return each.key == key; });
    if (member == value.members.end()) {
      return nullptr;
    }
    start = member->position;
    return &member->value;
  }
  if (value.kind != JsonKind::Array) {
    fail("an object or an array that holds " + quote(key), describe(value));
  }
  size_t index = 0;
  std::errc problem = std::from_chars(key.data(), key.data() + key.size(), index).ec;
  if (problem != std::errc() || std::to_string(index) != key || index >= value.items.size()) {
    fail(value.items.empty() ? "an array that is not empty"
                             : "an index from 0 to " + std::to_string(value.items.size() - 1),
         quote(key));
  }
  start = value.items[index].position;
  return &value.items[index];
}

OverrideTarget resolve(const JsonValue &root, const SpecOverride &setting,
                       const std::string &file) {
  OverrideTarget target{&root, root.position, 0};
  while (target.found < setting.path.size()) {
    const JsonValue *next = follow(*target.value, setting, target.found, file, target.start);
    if (!next) {
      break;
    }
    target.value = next;
    ++target.found;
  }
  return target;
}

/// Replaces the value at the path, or adds the first missing key with the levels below it.
std::string apply(std::string text, const SpecOverride &setting, const std::string &file) {
  JsonValue root = parseJson(text, file);
  if (root.kind != JsonKind::Object) {
    return text; // the reader reports it
  }
  OverrideTarget target = resolve(root, setting, file);
  size_t at = getOffsetAt(text, target.value->position);
  if (target.found == setting.path.size()) {
    return text.replace(at, valueBytes(text, at), setting.value);
  }
  std::string member = setting.value;
  for (size_t i = setting.path.size(); i-- > target.found;) {
    member = nlohmann::json(setting.path[i])
                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
             ": " + member;
    member = i > target.found ? "{ " + member + " }" : member;
  }
  return text.insert(at + 1, " " + member + (target.value->members.empty() ? " " : ","));
}

/// Returns true if an offset of the changed spec is in the text of the setting.
bool wrote(const std::string &text, const JsonValue &root, const SpecOverride &setting,
           const std::string &file, size_t offset) {
  OverrideTarget target = resolve(root, setting, file);
  size_t at = getOffsetAt(text, target.value->position),
         last = at + valueBytes(text, at); // values of flags are on one line
  return offset >= getOffsetAt(text, target.start) && offset < last;
}

} // namespace

std::string withSettings(std::string text, const std::string &file,
                         const std::vector<SpecOverride> &settings) {
  for (const SpecOverride &setting : settings) {
    text = apply(std::move(text), setting, file);
  }
  return text;
}

void blameSettings(Diagnostic &error, const std::string &changed,
                   const std::vector<SpecOverride> &settings,
                   const std::function<bool()> &isOriginalValid) {
  std::string flags = flagAt(changed, settings, error.location);
  if (flags.empty() && !settings.empty() && isOriginalValid()) {
    flags = allFlags(settings);
  }
  error.message = flags.empty() ? error.message : flags + ": " + error.message;
}

std::string flagAt(const std::string &changed, const std::vector<SpecOverride> &settings,
                   const SourceLocation &place) {
  std::string flag;
  JsonValue root;
  try {
    root = parseJson(changed, place.file);
  } catch (const Failure &) {
    return flag;
  }
  if (root.kind != JsonKind::Object || place.line == 0) {
    return flag;
  }
  size_t offset = getOffsetAt(changed, {place.line, place.column});
  for (const SpecOverride &setting : settings) {
    try {
      flag = wrote(changed, root, setting, place.file, offset) ? setting.flag : flag;
    } catch (const Failure &) { // a later setting replaced a node on its path
    }
  }
  return flag;
}

std::string allFlags(const std::vector<SpecOverride> &settings) {
  std::string all;
  for (const SpecOverride &setting : settings) {
    all += (all.empty() ? "" : " ") + setting.flag;
  }
  return all;
}

std::optional<SpecOverride> parseSetting(const std::string &written, std::string &mistake) {
  size_t equals = written.find('=');
  SpecOverride setting{"--set " + written, {}, ""};
  std::string key = written.substr(0, equals);
  for (size_t from = 0; from <= key.size();) {
    size_t dot = std::min(key.find('.', from), key.size());
    setting.path.push_back(key.substr(from, dot - from));
    from = dot + 1;
  }
  auto isEmpty = [](const std::string &step) { return step.empty(); };
  if (equals == std::string::npos ||
      std::any_of(setting.path.begin(), setting.path.end(), isEmpty)) {
    mistake = "--set: expected KEY=VALUE, as in training.learning_rate=1e-4 or "
              "stages.1.hierarchy='1@1 2@2 1@1', found " +
              quote(written);
    return std::nullopt;
  }
  setting.value = written.substr(equals + 1);
  std::replace(setting.value.begin(), setting.value.end(), '\n', ' ');
  std::replace(setting.value.begin(), setting.value.end(), '\r', ' ');
  try {
    parseJson(setting.value, "--set " + key);
  } catch (const Failure &failure) {
    if (setting.value.find_first_of("{[\"") == 0) {
      mistake = "--set " + key + ": expected JSON or a plain word, found " + quote(setting.value) +
                ": " + failure.diagnostic.message;
      return std::nullopt;
    }
    setting.value = nlohmann::json(setting.value)
                        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return setting;
}

SpecOverride computeSetting(const std::string &compute) {
  return {"--precision " + compute, {"precision", "compute"}, "\"" + compute + "\""};
}

} // namespace sluice::spec
