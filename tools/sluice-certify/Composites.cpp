// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expands composite stages that are lists of other stages (docs/spec.md), and has the table of
// their keys. Names of results inside such a stage are local to it.
#include "Deriver.h"

#include <utility>

using namespace certify;

namespace {

json readCounts(const Fields &fields, size_t count) {
  json counts = fields.get("layers", nullptr);
  fields.need(counts.is_array() && counts.size() == count,
              (count == 2 ? "two" : "three") + std::string(" numbers of \"layers\""));
  return counts;
}

int64_t readNumber(const Fields &fields, const json &n) {
  fields.need(n.is_number_integer() && n >= 0 && n <= 10000, "numbers of layers");
  return n;
}

class CompositeWriter {
public:
  CompositeWriter(const Fields &fields, const json &defaults)
      : fields(fields), defaults(defaults) {}

  /// The keys of each stage that is a list, and the method that expands it.
  static const auto &table() {
    using W = CompositeWriter;
    const std::string block =
        " segments activation dropout feed_forward_dropout feed_forward heads "
        "head_size norm epsilon attention_dropout bias from to";
    static const std::map<std::string, std::pair<std::string, void (W::*)()>> rows = {
        {"dynamic", {"layers boundaries method width local global from to", &W::dynamic}},
        {"megabyte", {"layers patch width local global from to", &W::patches}},
        {"block_transformer", {"layers block width local global from to", &W::patches}},
        {"spacebyte", {"layers boundaries width local global from to", &W::spaces}},
        {"hnet", {"layers boundaries width local global from to", &W::hnet}},
        {"blt", {"layers boundaries method parts width local global from to", &W::blt}},
        {"umst",
         {"count edges intra intra_edges inter graph_maps mode vectors shared_maps expand" + block,
          &W::umst}},
        {"tnt", {"count shared_layers" + block, &W::tnt}},
        {"multi_stage", {"layers edges" + block, &W::multiStage}},
    };
    return rows;
  }

  json write(const std::string &op) {
    (this->*table().at(op).second)();
    return list;
  }

private:
  void put(json stage, const json &more = json::object()) {
    stage.update(more);
    list.push_back(std::move(stage));
  }
  int64_t layers(const json &n, const json &settings) {
    if (readNumber(fields, n) > 0) {
      put({{"op", "layers"}, {"count", n}}, settings);
    }
    return readNumber(fields, n);
  }
  void norm(const char *settings) {
    json inherited = defaults.value("placement", json());
    if (fields.object(settings).value("placement", inherited) != "post") {
      put({{"op", "norm"}});
    }
  }
  void stack(const json &n, const char *settings, bool always = true) {
    layers(n, fields.object(settings)) > 0 || always ? norm(settings) : void();
  }
  /// Layers of a coarse scale. Its width is not part of the graph; a linear map to it is.
  template <typename Inner> void coarse(Inner inner) {
    resize(fields.find("width"));
    inner();
    resize(fields.find("width"));
  }
  std::string call(const std::string &name) {
    return list.empty() ? "input" : (list.back()["to"] = name).get<std::string>();
  }
  json cut(const json &own, const char *name, json otherwise) {
    fields.need(own.is_object(), "objects for \"boundaries\"");
    otherwise.update({{"op", "boundaries"}, {"name", name}});
    put(std::move(otherwise), own);
    return list.back()["name"];
  }
  void resize(bool is) { is ? put({{"op", "project"}}) : void(); }

  void dynamic() {
    json counts = readCounts(fields, 3);
    stack(counts[0], "local", false);
    std::string fine = call("fine");
    json name = cut(fields.get("boundaries", nullptr), "dynamic", json::object());
    put({{"op", "shorten"}, {"segments", name}, {"method", fields.get("method", "average")}});
    put({{"op", "shift"}, {"by", 1}, {"start", "null"}});
    coarse([&] { stack(counts[1], "global", false); });
    put({{"op", "upsample"}, {"segments", name}, {"by", 0}});
    put({{"op", "add"}, {"with", fine}});
    stack(counts[2], "local", false);
  }

  void patches() {
    bool isMegabyte = fields.text("op") == "megabyte";
    json counts = readCounts(fields, 2);
    int64_t k = fields.integer(isMegabyte ? "patch" : "block", 2);
    put({{"op", "shorten"}, {"factor", k}, {"method", "concatenate"}});
    stack(counts[0], "global");
    put({{"op", "upsample"}, {"factor", k}, {"method", isMegabyte ? "split" : "repeat"}});
    put({{"op", "shift"}, {"by", k - 1}, {"start", isMegabyte ? "null" : "zeros"}});
    resize(!isMegabyte);
    call("coarse");
    put({{"op", "project"}, {"from", "input"}});
    isMegabyte ? put({{"op", "add"}, {"with", "coarse"}}) : void();
    put({{"op", "replace"}, {"with", "coarse"}, {"block", k}, {"start", k - 1}});
    json local = fields.object("local");
    local["mask"] = {{"block", k}, {"start", k - 1}};
    layers(counts[1], local);
    norm("local");
  }

  void spaces() {
    json counts = readCounts(fields, 3);
    layers(counts[0], fields.object("local"));
    std::string local = call("local");
    json own = fields.object("boundaries");
    json rule = own.contains("ratio") ? json::object() : json{{"rule", "space_like"}};
    rule["at"] = "start";
    json name = cut(own, "spacebyte", rule);
    put({{"op", "shorten"}, {"segments", name}, {"method", "first"}});
    coarse([&] { layers(counts[1], fields.object("global")); });
    put({{"op", "upsample"}, {"segments", name}, {"method", "scatter"}});
    put({{"op", "add"}, {"with", local}});
    stack(counts[2], "local");
  }

  void hnet() { chunks(readCounts(fields, 3), 0); }
  void chunks(const json &counts, size_t depth) {
    std::string end = depth > 0 ? "_" + std::to_string(depth + 1) : "";
    json all = fields.get("boundaries", nullptr), own = all.is_array() || depth > 0 ? json() : all;
    own = all.is_array() && depth < all.size() ? all[depth] : own;
    own = own.is_null() ? json::object() : own;
    stack(counts[0], "local");
    std::string encoded = call("encoded" + end);
    put({{"op", "project"}});
    std::string residual = call("residual" + end);
    bool isRule = own.contains("rule");
    json otherwise = isRule ? json::object() : json{{"ratio", 6}};
    otherwise.update({{"at", "start"}, {"from", encoded}});
    json name = cut(own, ("hnet" + end).c_str(), otherwise);
    put({{"op", "shorten"}, {"from", encoded}, {"segments", name}, {"method", "first"}});
    coarse([&] {
      bool nests = counts[1].is_array();
      fields.need(!nests || (counts[1].size() == 3 && depth < 16), "three numbers of \"layers\"");
      nests ? chunks(counts[1], depth + 1) : stack(counts[1], "global");
    });
    put({{"op", "upsample"}, {"segments", name}, {"method", isRule ? "repeat" : "smooth"}});
    put({{"op", "add"}, {"with", residual}});
    stack(counts[2], "local");
  }

  void blt() {
    json counts = readCounts(fields, 3);
    layers(counts[0], fields.object("local"));
    std::string bytes = call("bytes");
    json name = cut(fields.get("boundaries", nullptr), "blt", json::object());
    json attend = {{"op", "attend"}, {"segments", name}, {"parts", fields.integer("parts", 1, 2)}};
    put({{"op", "shorten"}, {"segments", name}, {"method", fields.get("method", "max")}});
    resize(fields.find("width"));
    put(attend, {{"over", bytes}});
    layers(counts[1], fields.object("global"));
    call("global");
    attend["over"] = "global";
    for (int64_t i = 0; i < readNumber(fields, counts[2]); ++i) {
      put(attend, i == 0 ? json{{"from", bytes}} : json::object());
      layers(1, fields.object("local"));
    }
    norm("local");
  }

  /// Puts P drop(relu(P norm(x) W)) without the second P, P norm(x), drop(relu(A norm(x))) or
  /// nothing.
  void sums(const std::string &use, json by, bool isMean, bool isTwice) {
    std::string x = call(use + std::to_string(list.size()));
    size_t kind = fields.choice(use, {"convolution", "pooling", "none", "gat"});
    const char *mean = isMean || kind == 1 ? "mean" : "normalized";
    by.update({{"op", "graph_convolution"}, {"method", kind == 3 ? "attention" : mean}});
    by.update({{"activation", kind == 3 ? "relu" : "none"}});
    const json map = {{"op", "project"}, {"activation", "relu"}};
    const json drop = {{"op", "dropout"}, {"rate", fields.get("dropout", 0)}};
    const json parts = json::array({{{"op", "norm"}}, by, kind == 3 ? drop : map, drop, by, drop});
    int count = kind == 2 ? 0 : kind == 1 ? 2 : kind == 3 ? 3 : isTwice ? 6 : 4;
    list.insert(list.end(), parts.begin(), parts.begin() + count);
    if (count > 0) {
      put({{"op", "add"}, {"with", x}});
    }
  }
  void umst() {
    bool isCode = fields.choice("mode", {"paper", "reference-code"}) == 1;
    bool hasWords = fields.get("inter", "") != "none";
    auto get = [&](const char *key, const json &otherwise = 0) {
      return std::pair(key, fields.get(key, otherwise));
    };
    const json segments = {{"segments", fields.text("segments")}},
               edges = fields.get("intra_edges", "");
    const json own = edges != "" ? json{{"edges", edges}} : segments;
    for (int64_t i = 0; i < fields.integer("count", 1); ++i) {
      sums("intra", own, isCode, true);
      json attention = {{"op", "layer"}, {"mask", "bidirectional"}, {"feed_forward", 0}};
      if (hasWords) {
        attention = {{"op", "rectified_attention"}, {"from", call("rows" + std::to_string(i))}};
        attention.update({get("vectors"), get("expand", "own")});
        put({{"op", "shorten"}, {"method", isCode ? "normalized" : "average"}}, segments);
        sums("inter", {{"edges", fields.get("edges", "")}}, false, isCode);
        attention["words"] = call("words" + std::to_string(i));
      }
      put(attention);
      put({{"op", "feed_forward"}, get("activation", "gelu")});
    }
    put({{"op", "norm"}});
  }

  void tnt() {
    for (int64_t i = 0; i < fields.integer("count", 1); ++i) {
      put({{"op", "layer"}, {"within", fields.text("segments")}}, unmasked);
      put({{"op", "layer"}}, unmasked);
    }
    put({{"op", "norm"}});
  }
  void multiStage() {
    json counts = readCounts(fields, 3);
    layers(counts[0], unmasked);
    put({{"op", "shorten"}, {"segments", fields.text("segments")}});
    layers(counts[1], unmasked);
    sums("inter", {{"edges", fields.text("edges")}}, false, false);
    layers(counts[2], unmasked);
    put({{"op", "norm"}});
  }

  const Fields &fields;
  const json &defaults;
  /// Settings of layers that read all rows of an input.
  json unmasked = {{"mask", "bidirectional"}, {"activation", fields.get("activation", "gelu")}};
  json list = json::array();
};

} // namespace

void Deriver::addComposites(std::map<std::string, DerivedStage> &rows) {
  for (const auto &[name, row] : CompositeWriter::table()) {
    bool isBlock = Fields::hasWord(row.first, "heads");
    rows[name] = {row.first, &Deriver::composite, isBlock ? Block : OfTokens};
  }
}

size_t Deriver::composite(const Fields &fields, const std::string &path, size_t x) {
  std::string op = fields.text("op");
  json list = CompositeWriter(fields, defaults).write(op);
  auto outside = std::exchange(streams, {{"input", x}});
  bool isBlock = table().at(op).traits & Block; // gives its layers all their settings
  json inherited = std::exchange(defaults, isBlock ? json::object() : defaults);
  for (size_t i = 0; i < list.size(); ++i) {
    x = stage(list[i], path + ".inside." + std::to_string(i), x);
  }
  streams = std::move(outside);
  defaults = std::move(inherited);
  return x;
}
