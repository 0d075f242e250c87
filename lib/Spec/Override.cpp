// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Spec/Override.h"

#include "Json.h"

#include <algorithm>

namespace sluice::spec {
namespace {

/// The byte at a position; lines and columns count from 1, columns in bytes.
size_t offsetOf(const std::string &text, Position position) {
  size_t at = 0;
  for (unsigned line = 1; line < position.line; ++line) {
    at = text.find('\n', at) + 1;
  }
  return at + position.column - 1;
}

const JsonValue *find(const JsonValue &object, std::string_view key) {
  auto found = std::find_if(object.members.begin(), object.members.end(),
                            [&](const JsonMember &member) { return member.key == key; });
  return found == object.members.end() ? nullptr : &found->value;
}

/// Puts `member` first in an object.
std::string insertFirst(std::string text, const JsonValue &object, const std::string &member) {
  return text.insert(offsetOf(text, object.position) + 1,
                     " " + member + (object.members.empty() ? " " : ","));
}

std::string replaceCompute(const std::string &text, const JsonValue &root,
                           const std::string &compute) {
  std::string member = "\"compute\": \"" + compute + "\"";
  const JsonValue *precision = find(root, "precision");
  if (!precision) {
    return insertFirst(text, root, "\"precision\": { " + member + " }");
  }
  if (precision->kind != JsonKind::Object) {
    return text; // the reader says what is wrong with it
  }
  const JsonValue *old = find(*precision, "compute");
  if (!old) {
    return insertFirst(text, *precision, member);
  }
  if (old->kind != JsonKind::String || old->escaped) {
    return text;
  }
  size_t at = offsetOf(text, old->position);
  return std::string(text).replace(at, old->text.size() + 2, "\"" + compute + "\"");
}

} // namespace

std::string withCompute(const std::string &text, const std::string &file,
                        const std::string &compute) {
  try {
    JsonValue root = parseJson(text, file);
    return root.kind == JsonKind::Object ? replaceCompute(text, root, compute) : text;
  } catch (const Failure &) {
    return text; // the reader says it
  }
}

} // namespace sluice::spec
