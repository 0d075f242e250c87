// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a spec into the graph of its values, independently of the compiler, following docs/spec.md.
// Reads only what determines the graph: stages, their order and names, factors, shifts, masks,
// placement, activation, dropout.
#include "Deriver.h"

using namespace certify;

/// Returns "line 2, column 7"; `position` counts bytes, including the wrong one.
static std::string describePlace(const std::string &text, size_t position) {
  std::string before = text.substr(0, position > 0 ? position - 1 : 0);
  size_t lines = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  size_t start = before.rfind('\n'); // npos is -1
  return "line " + std::to_string(lines) + ", column " + std::to_string(before.size() - start);
}

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
      throw BadInput("expected each key once, found " + parsed.dump() + " twice");
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::parse_error &error) {
    throw BadInput("expected a model spec, JSON, found text that is not JSON at " +
                   describePlace(text, error.byte) + "; name the spec first, then its certificate");
  } catch (const json::exception &) { // of the parser, only the range of numbers remains
    throw BadInput("expected a model spec, JSON, found a number that double has no room for; "
                   "correct the spec");
  }
}

static const std::string layerKeys =
    "heads key_value_heads head_size norm placement epsilon activation dropout attention_dropout "
    "mask rotary bias feed_forward feed_forward_dropout relative distances scales lsh";

ModelGraph Deriver::run() {
  size_t previous = make("tokens", "tokens", {});
  const json given = spec.contains("inputs") ? spec["inputs"] : json::object();
  for (bool isShared : {false, true}) { // axes by name, then further tokens on them
    for (const auto &[name, input] : given.items()) {
      Fields own(input, nullptr, "inputs." + name);
      own.needKeys("context vocabulary axis type role width end on derived rule capacity");
      bool isTokens = own.choice("axis", {"own", "tokens"}) == 0 && own.get("type", "") != "edges";
      if (isTokens && input.contains("on") == isShared) {
        axis = isShared ? own.text("on") : name;
        own.need(!isShared || inputs.contains(axis), "the name of an input with an axis");
        inputs[name] = make("tokens", name, {});
      }
    }
  }
  axis.clear();
  Fields(getDefaults(spec), nullptr, "defaults").needKeys(layerKeys);
  const json &stages = spec["stages"];
  for (size_t i = 0; i < stages.size(); ++i) {
    std::string path = "stages." + std::to_string(i);
    Fields own(stages[i], nullptr, path);
    std::string op = own.text("op");
    bool embeds = op == "embedding" && !stages[i].contains("input");
    own.need((i > 0 || embeds) && (op == "head") == (i + 1 == stages.size()),
             "an embedding first and a head last");
    previous = stage(stages[i], path, previous);
  }
  return finish();
}

size_t Deriver::stage(const json &stage, const std::string &path, size_t previous) {
  Fields own(stage, nullptr, path);
  std::string op = own.text("op");
  auto known = table().find(op);
  own.need(known != table().end(), "the kind of a stage");
  const DerivedStage &row = known->second;
  bool isLayered = row.traits & Layered;
  own.needKeys("op frozen share " + row.keys + (isLayered ? " " + layerKeys : ""));
  json whole = stage; // with the defaults of a block's own keys
  for (const auto &[key, value] : getDefaults(spec).items()) {
    if ((row.traits & Block) && Fields::hasWord(row.keys, key) && !whole.contains(key)) {
      whole[key] = value;
    }
  }
  Fields fields(whole, isLayered ? &getDefaults(spec) : nullptr, path);
  size_t input = stage.contains("from") ? stream(own.text("from"), own) : previous;
  bool isRelative = isLayered && readLayer(fields).isXl;
  own.need(op == "embedding" || !graph.values[input].isGiven ||
               !((row.traits & OfTokens) || isRelative),
           "a stream of the tokens for " + op + (isRelative ? " with \"relative\"" : ""));
  size_t made = (this->*row.expand)(fields, path, input);
  previous = (row.traits & Aside) ? previous : made;
  own.need(!stage.contains("to") || streams.try_emplace(own.text("to"), previous).second,
           "a name that no earlier result has");
  return previous;
}

/// Retains the values from which the losses are computed, in order, and spells its relations.
ModelGraph Deriver::finish() const {
  ModelGraph whole, kept;
  std::vector<size_t> rows, numbers(graph.values.size());
  whole.values.assign(graph.values.begin(), graph.values.end());
  for (const Loss &loss : graph.losses) {
    rows.push_back(loss.row);
  }
  std::vector<bool> live = whole.findLive(rows);
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) {
      continue;
    }
    numbers[i] = kept.values.size();
    ModelValue &value = kept.values.emplace_back(std::move(whole.values[i]));
    for (size_t &operand : value.operands) {
      operand = numbers[operand];
    }
    if (value.segments) {
      value.segments = numbers[*value.segments];
    }
    const Draft &draft = graph.values[i];
    for (size_t j = 0; j < value.operands.size(); ++j) {
      Pattern pattern = value.getPattern(j);
      bool isOpen = pattern >= Pattern::Moved && pattern <= Pattern::Keys;
      std::string choice = pattern == Pattern::OnRows    ? " on " + draft.rows
                           : pattern == Pattern::OffRows ? " off " + draft.rows
                                                         : "";
      value.reads.push_back(parseRelation(isOpen ? draft.rows
                                          : pattern == Pattern::Distances
                                              ? draft.distances
                                              : spellPattern(value, j, draft.by) + choice));
    }
  }
  for (const Loss &loss : graph.losses) {
    kept.losses.push_back({loss.name, numbers[loss.row]});
  }
  kept.markSampled();
  return kept;
}

/// Replaces the set of sampled factors of an hourglass, as in "2@1 8@{2,3} 2@1", by its factor i.
/// Returns the factor: 0 if no stage has such a set, -1 after the last of 2 to 16. Leaves a set in
/// another form, which readLevels() rejects.
static int64_t chooseFactor(json &spec, size_t i) {
  static const std::string positive = "0{0,9}[1-9][0-9]{0,9}";
  static const std::regex set("\\{(" + positive + "(," + positive + "){1,15})\\}"), word("[0-9]+");
  int64_t factor = 0;
  for (json &stage : spec["stages"]) {
    if (stage.value("op", json()) != "hourglass" || !stage.value("hierarchy", json()).is_string()) {
      continue;
    }
    auto text = stage["hierarchy"].get<std::string>();
    for (std::smatch found; std::regex_search(text, found, set);) {
      std::string list = found[1];
      std::vector<std::string> words(std::sregex_token_iterator(list.begin(), list.end(), word),
                                     {});
      factor = factor < 0 || i >= words.size() ? -1 : std::stoll(words[i]);
      text.replace(found.position(), found.length(), std::to_string(factor));
    }
    stage["hierarchy"] = text;
  }
  return factor;
}

std::vector<Model> certify::deriveModels(const std::string &text) {
  json spec = parseSpec(text);
  Fields own(spec, nullptr, "the spec");
  own.need(spec.is_object() && spec.value("sluice", json()) == 1 &&
               spec.value("stages", json()).is_array() && spec["stages"].size() >= 2 &&
               std::ranges::all_of(spec["stages"], [](const json &s) { return s.is_object(); }),
           "version 1, an object with \"sluice\" and \"stages\" of at least two objects");
  own.needKeys("sluice name vocabulary context batch width seed inputs defaults stages precision "
               "training");
  for (std::vector<Model> models;;) {
    json chosen = spec;
    int64_t factor = chooseFactor(chosen, models.size());
    if (factor < 0 || (factor == 0 && !models.empty())) {
      return models;
    }
    Deriver evaluate(chosen, false);
    models.push_back({{}, evaluate.run(), std::nullopt, factor});
    models.back().inputs = evaluate.listInputs();
    if (evaluate.trainsOtherwise()) {
      models.back().train = Deriver(chosen, true).run();
    }
  }
}
