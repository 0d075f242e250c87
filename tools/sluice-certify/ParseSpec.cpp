// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A spec as JSON.
#include "Fields.h"

#include <set>

using namespace certify;

json certify::parseSpec(const std::string &text) {
  constexpr int deepest = 64;
  std::vector<std::set<std::string>> open;
  auto watch = [&](int depth, json::parse_event_t event, json &parsed) {
    if (depth > deepest) {
      throw BadInput("expected at most 64 levels of nesting, found more");
    }
    if (event == json::parse_event_t::object_start) {
      open.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open.pop_back();
    } else if (event == json::parse_event_t::key && !open.back().insert(parsed).second) {
      throw BadInput("expected keys that stand once, found " + parsed.dump() + " twice");
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::exception &error) {
    throw BadInput(std::string("expected JSON, found ") + error.what());
  }
}
