// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Composite stages of models with segments and patches: each is written as a list of other stages,
// which are then read like any. docs/spec.md has the lists.
#include "StreamWidths.h"

#include <algorithm>
#include <array>

namespace sluice::spec {
namespace {

/// A setting of a stage that a composite one writes; not where it is an empty word or a width of 0.
struct Written {
  std::string_view key;
  std::variant<int64_t, bool, std::string, JsonValue> value;
};

class Composer {
public:
  Composer(const Fields &fields, const Fields *defaults, int64_t width, int64_t context)
      : fields(fields), defaults(defaults), width(width), context(context), widths(width) {
    widths.name("input", width);
  }

  /// Appends a stage with these settings, then the members of `own`, which may be null.
  void add(std::string_view op, const std::vector<Written> &settings = {},
           const JsonValue *own = nullptr) {
    stages.push_back(read(op, settings, own));
    widths.add(stages.back(), widthRead);
  }

  /// Layers with the settings of `settings`, a key of the composite stage.
  void layers(int64_t count, std::string_view settings, const std::vector<Written> &more = {}) {
    const JsonValue *own = layerSettingsOf(settings);
    if (count == 0 && !own) {
      return;
    }
    std::vector<Written> all = more;
    all.push_back({"count", std::max<int64_t>(1, count)});
    Stage made = read("layers", all, own); // refuses what is wrong, where it makes no layer too
    if (count > 0) {
      stages.push_back(std::move(made));
    }
  }

  /// Layers of bytes, each of which reads its own block: one starts at row size - 1.
  void blocks(int64_t count, int64_t size) {
    JsonValue mask = objectAt(fields.position());
    for (const Written &one : {Written{"block", size}, Written{"start", size - 1}}) {
      mask.members.push_back({std::string(one.key), fields.position(), valueOf(one)});
    }
    layers(count, "local", {{"mask", std::move(mask)}});
  }

  /// Attention between bytes and patches, with the heads and norms of the byte layers.
  void attend(const std::vector<Written> &settings) {
    JsonValue shared = objectAt(fields.position());
    const JsonValue *local = layerSettingsOf("local");
    for (std::string_view key : {"heads", "head_size", "norm", "epsilon", "bias"}) {
      if (const JsonValue *value = ownOf(local, key)) {
        shared.members.push_back({std::string(key), value->position, *value});
      }
    }
    add("attend", settings, &shared);
  }

  /// Names what the stage before has made, or the input where there is none.
  std::string call(const std::string &name) {
    if (stages.empty()) {
      return "input";
    }
    stages.back().to = name;
    widths.name(name, widths.last());
    return name;
  }

  /// The norm behind layers of a pre-norm stack.
  void normBehind(std::string_view settings) {
    const JsonValue *own = layerSettingsOf(settings), *placement = ownOf(own, "placement");
    placement = placement || !defaults ? placement : defaults->find("placement");
    if (placement && placement->text == "post") {
      return;
    }
    JsonValue norm = objectAt(fields.position());
    for (std::string_view key : {"norm", "epsilon"}) {
      if (const JsonValue *value = ownOf(own, key)) {
        norm.members.push_back({std::string(key), value->position, *value});
      }
    }
    add("norm", {}, &norm);
  }

  /// The bits of segments, by the settings in `own`, a value of the key "boundaries", or by
  /// `otherwise`. Returns their name.
  std::string cut(const JsonValue *own, const std::string &name, std::vector<Written> otherwise,
                  const std::string &from = "") {
    if (own) {
      checkBoundaries(*own);
    }
    std::erase_if(otherwise, [&](const Written &one) { return own && ownOf(own, one.key); });
    const JsonValue *named = own ? ownOf(own, "name") : nullptr;
    if (!named) {
      otherwise.push_back({"name", name});
    }
    otherwise.push_back({"from", from});
    add("boundaries", otherwise, own);
    return named ? named->text : name;
  }

  /// A linear map of rows to `columns`, where that is said.
  void resize(int64_t columns) {
    if (columns > 0) {
      add("project", {{"bias", false}, {"width", columns}});
    }
  }

  /// `count` items, the value of "layers".
  const std::vector<JsonValue> &counts(size_t count, std::string_view meaning) const {
    const JsonValue &value = fields.need("layers", meaning);
    return fields.itemsAt(value, "layers", count, meaning);
  }
  int64_t countAt(const JsonValue &value) const {
    return fields.integerAt(value, "layers", {0, 10000});
  }

  int64_t innerWidth() const { return fields.integer("width", {}, 0); }
  int64_t outerWidth() const { return innerWidth() > 0 ? width : 0; }
  const Fields &own() const { return fields; }
  std::vector<Stage> take() { return std::move(stages); }

  const JsonValue *layerSettingsOf(std::string_view key) const {
    const JsonValue *own = fields.find(key);
    if (own) {
      Fields(*own, fields.fileName(), "the settings of " + quote(key) + " layers")
          .allowOnly(layerKeys());
    }
    return own;
  }

  static const JsonValue *ownOf(const JsonValue *object, std::string_view key) {
    if (!object) {
      return nullptr;
    }
    auto found = std::ranges::find(object->members, key, &JsonMember::key);
    return found == object->members.end() ? nullptr : &found->value;
  }

private:
  static JsonValue objectAt(Position position) {
    JsonValue object;
    object.kind = JsonKind::Object;
    object.position = position;
    return object;
  }

  void checkBoundaries(const JsonValue &own) const {
    std::vector<std::string_view> known;
    for (const KeyInfo &key : findStage("boundaries")->keys) {
      if (key.name != "op" && key.name != "from" && key.name != "frozen") {
        known.push_back(key.name);
      }
    }
    Fields(own, fields.fileName(), "the boundaries").allowOnly(known);
  }

  JsonValue valueOf(const Written &setting) const {
    if (const auto *made = std::get_if<JsonValue>(&setting.value)) {
      return *made;
    }
    JsonValue value;
    value.position = fields.position();
    if (const auto *number = std::get_if<int64_t>(&setting.value)) {
      value.kind = JsonKind::Integer;
      value.integer = *number;
      value.number = static_cast<double>(*number);
      value.text = std::to_string(*number);
    } else if (const auto *flag = std::get_if<bool>(&setting.value)) {
      value.kind = JsonKind::Boolean;
      value.boolean = *flag;
    } else {
      value.kind = JsonKind::String;
      value.text = std::get<std::string>(setting.value);
    }
    return value;
  }

  Stage read(std::string_view op, const std::vector<Written> &settings, const JsonValue *own) {
    JsonValue object = objectAt(fields.position());
    auto member = [&](const Written &setting) {
      object.members.push_back({std::string(setting.key), fields.position(), valueOf(setting)});
    };
    member({"op", std::string(op)});
    for (const Written &setting : settings) {
      const auto *word = std::get_if<std::string>(&setting.value);
      const auto *number = std::get_if<int64_t>(&setting.value);
      bool isAbsent = (word && word->empty()) || (number && *number == 0 && setting.key == "width");
      if (!isAbsent) {
        member(setting);
      }
    }
    if (own) {
      object.members.insert(object.members.end(), own->members.begin(), own->members.end());
    }
    widthRead = widths.before(object);
    if (op == "layers") {
      checkHeads(own);
    }
    Stage stage = readStage(object, fields.fileName(), defaults, widthRead, context);
    stage.isFrozen = fields.boolean("frozen", false);
    return stage;
  }

  /// Blames the stage's width where heads of `defaults` do not divide it.
  void checkHeads(const JsonValue *own) const {
    auto find = [&](std::string_view key) {
      const JsonValue *value = ownOf(own, key);
      return value || !defaults ? value : defaults->find(key);
    };
    const JsonValue *heads = find("heads");
    bool divides = !heads || heads->kind != JsonKind::Integer || heads->integer <= 0 ||
                   widthRead % heads->integer == 0;
    if (!divides && widthRead != width && !ownOf(own, "heads") && !find("head_size")) {
      std::string number = std::to_string(heads->integer);
      fields.fail(fields.position("width"),
                  "expected a width that the " + number + " heads of \"defaults\" divide, found " +
                      std::to_string(widthRead) + "; write a multiple of " + number +
                      ", or give \"heads\" or \"head_size\" in \"global\"");
    }
  }

  const Fields &fields;
  const Fields *defaults;
  int64_t width, context;
  StreamWidths widths;
  int64_t widthRead = 0; ///< by the stage that was read last
  std::vector<Stage> stages;
};

/// Of a key of a composite's boundaries: the stages inside would speak of keys that it has not.
[[noreturn]] void refuseCut(const Composer &make, const JsonValue &value,
                            const std::string &expected, const std::string &found) {
  make.own().fail(value.position, "expected " + expected + " in the boundaries of " +
                                      make.own().name() + ", " + found);
}

/// Rows of segments that are those at bits.
void requireBegun(const Composer &make, const JsonValue *own) {
  const JsonValue *at = Composer::ownOf(own, "at");
  if (at && at->text == "end") {
    refuseCut(make, *at, "\"start\" for \"at\"",
              "whose rows of segments are those at bits, found \"end\"; leave it out, or say "
              "\"start\"");
  }
}

/// Rows of segments that have no derivative by bits.
void requireRule(const Composer &make, const JsonValue *own) {
  const JsonValue *predictor = Composer::ownOf(own, "predictor");
  if (predictor && !Composer::ownOf(own, "rule") && !Composer::ownOf(own, "ratio")) {
    refuseCut(make, *predictor, "a \"rule\" beside \"predictor\"",
              "whose rows of segments have no derivative by bits, found none; give the \"rule\" "
              "whose bits it learns");
  }
}

/// Rows of whole segments: a router's are those at bits, and the last one is known where bits end
/// segments.
void requireWhole(const Composer &make, const JsonValue *own) {
  if (const JsonValue *ratio = Composer::ownOf(own, "ratio")) {
    refuseCut(
        make, *ratio, "no \"ratio\"",
        "whose rows are of whole segments and not those at a router's bits, found one; give a "
        "\"rule\" in its place, or take an hnet stage");
  }
  const JsonValue *at = Composer::ownOf(own, "at"), *method = make.own().find("method");
  if (at && at->text == "start" && method && method->text == "last") {
    refuseCut(make, *at, "\"end\" for \"at\"",
              "whose \"method\" is \"last\", found \"start\"; leave it out, or say \"method\": "
              "\"average\"");
  }
}

/// The layers' windows are the stage's own.
void refuseMask(const Composer &make, std::string_view settings, std::string_view why) {
  const JsonValue *own = make.layerSettingsOf(settings);
  if (const JsonValue *mask = Composer::ownOf(own, "mask")) {
    make.own().fail(mask->position, "expected no \"mask\" for " + quote(settings) +
                                        " layers, which read " + std::string(why) +
                                        ", found one; leave it out");
  }
}

/// A level of an H-Net: an encoder, a router, what stands between, the decoder. "layers" of the
/// stage has a list in place of the middle number where another level stands there.
class HnetLevels {
public:
  HnetLevels(Composer &make, int64_t width) : make(make), fields(make.own()) {
    inner.push_back(width);
    readAll("width",
            [&](const JsonValue &value) { inner.push_back(fields.integerAt(value, "width", {})); });
    readAll("boundaries", [&](const JsonValue &value) { cuts.push_back(&value); });
  }

  void run() {
    constexpr std::string_view meaning =
        "an array of three numbers of layers, as in [4, 22, 4], the second of which may be another "
        "such array";
    level(fields.itemsAt(fields.need("layers", meaning), "layers", 3, meaning), 0, meaning);
    expectLevels("width", inner.size() - 1);
    expectLevels("boundaries", cuts.size());
  }

private:
  /// A value for each level, or one for a stage of one.
  void readAll(std::string_view key, const std::function<void(const JsonValue &)> &read) const {
    const JsonValue *value = fields.find(key);
    if (value && value->kind == JsonKind::Array) {
      std::ranges::for_each(value->items, read);
    } else if (value) {
      read(*value);
    }
  }

  void expectLevels(std::string_view key, size_t found) const {
    if (found > 0 && found != levels) {
      fields.fail(fields.position(key), "expected " + std::to_string(levels) + " values for " +
                                            quote(key) + ", one a level of \"layers\", found " +
                                            std::to_string(found) +
                                            "; give a list of as many, from the outermost level");
    }
  }

  void level(const std::vector<JsonValue> &counts, size_t depth, std::string_view meaning) {
    levels = depth + 1;
    std::string end = depth > 0 ? "_" + std::to_string(depth + 1) : "";
    make.layers(make.countAt(counts[0]), "local");
    make.normBehind("local");
    std::string encoded = make.call("encoded" + end);
    int64_t outer = inner[std::min(depth, inner.size() - 1)];
    int64_t width = depth + 1 < inner.size() ? inner[depth + 1] : 0;
    make.add("project", {{"bias", false}, {"initial", std::string("zeros")}});
    std::string residual = make.call("residual" + end);
    const JsonValue *own = depth < cuts.size() ? cuts[depth] : nullptr;
    requireBegun(make, own);
    requireRule(make, own);
    bool isRule = own && Composer::ownOf(own, "rule");
    std::vector<Written> settings = {{"at", std::string("start")}};
    if (!isRule) {
      settings.push_back({"ratio", int64_t{6}});
    }
    std::string segments = make.cut(own, "hnet" + end, settings, encoded);
    make.add("shorten",
             {{"from", encoded}, {"segments", segments}, {"method", std::string("first")}});
    make.resize(width);
    if (counts[1].kind == JsonKind::Array) {
      level(fields.itemsAt(counts[1], "layers", 3, meaning), depth + 1, meaning);
    } else {
      make.layers(make.countAt(counts[1]), "global");
      make.normBehind("global");
    }
    make.resize(width > 0 ? outer : 0);
    make.add("upsample",
             {{"segments", segments}, {"method", std::string(isRule ? "repeat" : "smooth")}});
    make.add("add", {{"with", residual}});
    make.layers(make.countAt(counts[2]), "local");
    make.normBehind("local");
  }

  Composer &make;
  const Fields &fields;
  std::vector<int64_t> inner;          ///< widths, the stream's first
  std::vector<const JsonValue *> cuts; ///< a level each
  size_t levels = 0;
};

constexpr std::string_view threeCounts = "an array of three numbers of layers, as in [2, 8, 2]";
/// What makes a row of a segment.
std::string methodOf(const Fields &fields, const std::string &otherwise) {
  return fields.choice<std::string>(
      "method", {{"average", "average"}, {"max", "max"}, {"last", "last"}}, otherwise);
}

constexpr std::string_view twoCounts = "an array of two numbers of layers, as in [14, 14]";

} // namespace

std::vector<Stage> composeDynamic(const Fields &fields, const Fields *defaults, int64_t width,
                                  int64_t context) {
  Composer make(fields, defaults, width, context);
  const std::vector<JsonValue> &counts = make.counts(3, threeCounts);
  const JsonValue &cuts = fields.need("boundaries", "an object, the settings of boundaries");
  requireWhole(make, &cuts);
  auto stack = [&](const JsonValue &count, std::string_view settings) {
    make.layers(make.countAt(count), settings);
    if (make.countAt(count) > 0) {
      make.normBehind(settings);
    }
  };
  stack(counts[0], "local");
  std::string fine = make.call("fine");
  std::string segments = make.cut(&cuts, "dynamic", {});
  make.add("shorten", {{"segments", segments}, {"method", methodOf(fields, "average")}});
  make.add("shift", {{"by", int64_t{1}}, {"start", std::string("null")}});
  make.resize(make.innerWidth());
  stack(counts[1], "global");
  make.resize(make.outerWidth());
  make.add("upsample", {{"segments", segments}, {"by", int64_t{0}}});
  make.add("add", {{"with", fine}});
  stack(counts[2], "local");
  return make.take();
}

std::vector<Stage> composeMegabyte(const Fields &fields, const Fields *defaults, int64_t width,
                                   int64_t context) {
  Composer make(fields, defaults, width, context);
  const std::vector<JsonValue> &counts = make.counts(2, twoCounts);
  int64_t patch = fields.integer("patch", {2});
  refuseMask(make, "local", "their patch");
  make.add(
      "shorten",
      {{"factor", patch}, {"method", std::string("concatenate")}, {"width", make.innerWidth()}});
  make.layers(make.countAt(counts[0]), "global");
  make.normBehind("global");
  make.add("upsample",
           {{"factor", patch}, {"method", std::string("split")}, {"width", make.outerWidth()}});
  make.add("shift", {{"by", patch - 1}, {"start", std::string("null")}});
  make.call("patches");
  make.add("project", {{"from", std::string("input")}, {"bias", false}});
  make.add("add", {{"with", std::string("patches")}});
  make.add("replace", {{"with", std::string("patches")}, {"block", patch}, {"start", patch - 1}});
  make.blocks(make.countAt(counts[1]), patch);
  make.normBehind("local");
  return make.take();
}

std::vector<Stage> composeBlockTransformer(const Fields &fields, const Fields *defaults,
                                           int64_t width, int64_t context) {
  Composer make(fields, defaults, width, context);
  const std::vector<JsonValue> &counts = make.counts(2, twoCounts);
  int64_t block = fields.integer("block", {2});
  refuseMask(make, "local", "their block");
  make.add(
      "shorten",
      {{"factor", block}, {"method", std::string("concatenate")}, {"width", make.innerWidth()}});
  make.layers(make.countAt(counts[0]), "global");
  make.normBehind("global");
  make.add("upsample", {{"factor", block}});
  make.add("shift", {{"by", block - 1}});
  make.add("project", {{"bias", false}, {"width", make.outerWidth()}});
  make.call("prefix");
  make.add("project", {{"from", std::string("input")}, {"bias", false}});
  make.add("replace", {{"with", std::string("prefix")}, {"block", block}, {"start", block - 1}});
  make.blocks(make.countAt(counts[1]), block);
  make.normBehind("local");
  return make.take();
}

std::vector<Stage> composeSpaceByte(const Fields &fields, const Fields *defaults, int64_t width,
                                    int64_t context) {
  Composer make(fields, defaults, width, context);
  const std::vector<JsonValue> &counts = make.counts(3, threeCounts);
  requireBegun(make, fields.find("boundaries"));
  make.layers(make.countAt(counts[0]), "local");
  std::string local = make.call("local");
  const JsonValue *own = fields.find("boundaries");
  std::vector<Written> settings = {{"at", std::string("start")}};
  if (!Composer::ownOf(own, "ratio")) {
    settings.push_back({"rule", std::string("space_like")});
  }
  std::string segments = make.cut(own, "spacebyte", settings);
  make.add("shorten", {{"segments", segments}, {"method", std::string("first")}});
  make.resize(make.innerWidth());
  make.layers(make.countAt(counts[1]), "global");
  make.resize(make.outerWidth());
  make.add("upsample", {{"segments", segments}, {"method", std::string("scatter")}});
  make.add("add", {{"with", local}});
  make.layers(make.countAt(counts[2]), "local");
  make.normBehind("local");
  return make.take();
}

std::vector<Stage> composeHnet(const Fields &fields, const Fields *defaults, int64_t width,
                               int64_t context) {
  Composer make(fields, defaults, width, context);
  HnetLevels(make, width).run();
  return make.take();
}

std::vector<Stage> composeBlt(const Fields &fields, const Fields *defaults, int64_t width,
                              int64_t context) {
  Composer make(fields, defaults, width, context);
  const std::vector<JsonValue> &counts = make.counts(3, threeCounts);
  const JsonValue &cuts = fields.need("boundaries", "an object, the settings of boundaries");
  requireWhole(make, &cuts);
  requireRule(make, &cuts);
  int64_t parts = fields.integer("parts", {}, 2), behind = make.countAt(counts[2]);
  if (behind == 0) {
    fields.fail(counts[2].position, "expected a layer or more behind the patches, each of which "
                                    "reads them, found 0; make the third number 1");
  }
  make.layers(make.countAt(counts[0]), "local");
  std::string bytes = make.call("bytes");
  std::string segments = make.cut(&cuts, "blt", {});
  make.add("shorten", {{"segments", segments}, {"method", methodOf(fields, "max")}});
  make.resize(make.innerWidth());
  make.attend({{"over", bytes}, {"segments", segments}, {"parts", parts}});
  make.layers(make.countAt(counts[1]), "global");
  make.call("global");
  for (int64_t i = 0; i < behind; ++i) {
    make.attend({{"from", i == 0 ? bytes : ""},
                 {"over", std::string("global")},
                 {"segments", segments},
                 {"parts", parts}});
    make.layers(1, "local");
  }
  make.normBehind("local");
  return make.take();
}

} // namespace sluice::spec
