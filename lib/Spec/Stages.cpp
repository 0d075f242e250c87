// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Stages.h"

#include "Hourglass.h"

#include <algorithm>
#include <array>

namespace sluice::spec {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Settings>> opNames = {
    "embedding", "layer",      "norm",    "shift",  "shorten",   "upsample", "add",
    "dropout",   "head",       "loss",    "layers", "hourglass", "project",  "top_down",
    "bottom_up", "boundaries", "replace", "attend", "dynamic",   "megabyte", "block_transformer",
    "spacebyte", "hnet",       "blt"};

constexpr Range anyShift = {0, largestSize}, anyWindow = {1, largestSize};

Shift readShift(const Fields &fields) {
  int64_t by = fields.integer("by", anyShift);
  return {by, readStart(fields, by)};
}

/// The name of segments in place of a factor, and of what goes with one.
bool readSegments(const Fields &fields, std::string &segments) {
  if (!fields.find("segments")) {
    return false;
  }
  segments = fields.text("segments");
  for (std::string_view key : {"factor", "window", "width"}) {
    if (fields.find(key)) {
      fields.fail(fields.position(key), "expected no " + quote(key) +
                                            " where \"segments\" says which rows belong together, "
                                            "found both; leave one out");
    }
  }
  return true;
}

/// The width of a result that is a linear map's; 0: that of the stream.
int64_t readWidth(const Fields &fields) { return fields.integer("width", {}, 0); }

/// Whether "method" is `method`, which gives each row of a group an equal part of the `width`
/// columns of the group.
bool readsParts(const Fields &fields, std::string_view method, int64_t factor, int64_t width) {
  const JsonValue *value = fields.find("method");
  if (!value || value->kind != JsonKind::String || value->text != method) {
    if (fields.find("width")) {
      fields.fail(fields.position("width"),
                  "expected \"width\" only beside \"method\": " + quote(method) +
                      ", whose result is a linear map's, found it beside another method; use a "
                      "project stage");
    }
    return false;
  }
  if (width % factor != 0) {
    fields.fail(fields.position("factor"),
                "expected a factor that divides the width of " + std::to_string(width) +
                    " for \"method\": " + quote(method) +
                    ", which gives each row an equal part of the columns, found " +
                    std::to_string(factor) + "; take another factor, or \"linear\"");
  }
  if (fields.find("window")) {
    fields.fail(fields.position("window"),
                "expected no \"window\" for \"method\": " + quote(method) +
                    ", whose rows are those of the group, found one; "
                    "leave it out, or say " +
                    quote(method == "split" ? "transposed" : "convolution"));
  }
  return true;
}

/// A linear map of other rows than the group's is a convolution.
void refuseWindow(const Fields &fields, std::string_view method, std::string_view key,
                  std::string_view other) {
  const JsonValue *value = fields.find(method);
  if (value && value->text == "linear" && fields.find(key)) {
    fields.fail(fields.position(key), "expected no " + quote(key) + " for " + quote(method) +
                                          ": \"linear\", whose rows are those of the group, found "
                                          "one; leave it out, or say " +
                                          quote(other));
  }
}

/// Zeros behind which nothing has a derivative at 0 would stay zeros.
InitialKind readInitial(const Fields &fields) {
  auto initial = fields.choice<InitialKind>("initial",
                                            {{"normal", InitialKind::Normal},
                                             {"zeros", InitialKind::Zeros},
                                             {"identity", InitialKind::Identity}},
                                            InitialKind::Normal);
  std::string activation = fields.text("activation", "none");
  if (initial == InitialKind::Zeros && activation.starts_with("relu")) {
    fields.fail(fields.position("initial"),
                "expected no \"initial\": \"zeros\" beside \"activation\": " + quote(activation) +
                    ", whose derivative at 0 is 0, so that nothing would train, found both; say "
                    "\"gelu\", or \"normal\"");
  }
  return initial;
}

Shorten readShorten(const Fields &fields, int64_t width) {
  Shorten pool;
  if (readSegments(fields, pool.segments)) {
    enum { Average, Max, Last, First };
    auto method = fields.choice<int>(
        "method", {{"average", Average}, {"max", Max}, {"last", Last}, {"first", First}}, Average);
    pool.method = method == Max ? Shortening::Max : Shortening::Average;
    pool.isSelection = method >= Last;
    pool.isFirst = method == First;
    return pool;
  }
  Shorten shorten;
  shorten.factor = fields.integer("factor", {});
  shorten.width = readWidth(fields);
  if (readsParts(fields, "concatenate", shorten.factor, shorten.width ? shorten.width : width)) {
    shorten.concatenates = true;
    return shorten;
  }
  Names<Shortening> methods = shortenMethods();
  methods.emplace_back("concatenate", Shortening::Average); // read above
  shorten.method = fields.choice<Shortening>("method", methods, Shortening::Average);
  refuseWindow(fields, "method", "window", "convolution");
  if (fields.find("window")) {
    shorten.window = fields.integer("window", anyWindow);
  }
  return shorten;
}

/// With a window, a transposed convolution of whole groups.
Upsample readUpsample(const Fields &fields, int64_t width) {
  Upsample spread;
  if (readSegments(fields, spread.segments)) {
    enum { Repeat, Scatter, Smooth };
    auto method = fields.choice<int>(
        "method", {{"repeat", Repeat}, {"scatter", Scatter}, {"smooth", Smooth}}, Repeat);
    spread.scatters = method == Scatter;
    spread.smooths = method == Smooth;
    spread.by = fields.integer("by", anyShift, 1);
    return spread;
  }
  if (fields.find("by")) {
    fields.fail(fields.position("by"),
                "expected \"by\" only beside \"segments\", found it alone; use a shift stage");
  }
  Upsample upsample;
  upsample.factor = fields.integer("factor", {});
  upsample.width = readWidth(fields);
  if (readsParts(fields, "split", upsample.factor, width)) {
    upsample.splits = true;
    return upsample;
  }
  upsample.method = fields.choice<Upsampling>("method",
                                              {{"repeat", Upsampling::Repeat},
                                               {"linear", Upsampling::Linear},
                                               {"transposed", Upsampling::Linear},
                                               {"split", Upsampling::Repeat}},
                                              Upsampling::Repeat);
  refuseWindow(fields, "method", "window", "transposed");
  if (!fields.find("window")) {
    return upsample;
  }
  int64_t window = fields.integer("window", anyWindow);
  if (window % upsample.factor != 0) {
    fields.fail(fields.position("window"),
                "expected a multiple of the factor " + std::to_string(upsample.factor) +
                    " for \"window\", found " + std::to_string(window) +
                    "; a window of whole groups reaches as far as one that ends inside the last");
  }
  if (upsample.method == Upsampling::Repeat && window != upsample.factor) {
    fields.fail(fields.position("window"),
                "expected no \"window\" apart from the factor " + std::to_string(upsample.factor) +
                    " for an upsample that repeats, found " + std::to_string(window) +
                    "; say \"method\": \"transposed\", or leave it out");
  }
  upsample.window = window;
  return upsample;
}

/// Of a key that says otherwise which keys are read.
[[noreturn]] void refuseWithLsh(const Fields &fields, std::string_view key) {
  fields.fail(fields.position(key), "expected no " + quote(key) +
                                        " with \"lsh\", whose keys are the queries and are found "
                                        "by their buckets, found both; say \"lsh\": false in this "
                                        "stage");
}

/// The first key. Groups of heads, whose keys are of scales of their own, have none.
int64_t readFirst(const Fields &fields, const Layer &layer) {
  int64_t first = fields.integer("first", anyShift, 0);
  if (first > 0 && layer.lsh) {
    refuseWithLsh(fields, "first");
  }
  if (first > 0 && !layer.groups.empty()) {
    fields.fail(fields.position("first"),
                "expected no \"first\" beside groups of heads, whose keys are rows of several "
                "scales, found both; leave it out");
  }
  return first;
}

/// Whether the attention block norms what it reads.
bool readAttentionNorm(const Fields &fields, const Layer &layer) {
  bool norms = fields.boolean("attention_norm", true);
  if (!norms && layer.placement == Placement::Post) {
    fields.fail(fields.position("attention_norm"),
                "expected \"attention_norm\" only where \"placement\" is \"pre\", as a post-norm "
                "block norms its sum, found false; leave it out");
  }
  if (!norms && !layer.groups.empty()) {
    fields.fail(
        fields.position("attention_norm"),
        "expected no \"attention_norm\" beside groups of heads, whose streams have norms of "
        "their own, found false; leave it out");
  }
  return norms;
}

/// Coarse scales, then a layer whose groups of heads read one each.
BottomUp readBottomUp(const Fields &fields, int64_t width) {
  BottomUp bottomUp;
  bottomUp.hierarchy = readRisingHierarchy(fields);
  bottomUp.shorten = readShortening(fields, "shorten");
  bottomUp.shortenWindow = readShortenWindow(fields);
  bottomUp.repooled =
      fields.choice<bool>("pooling", {{"cascaded", false}, {"repooled", true}}, false);
  bottomUp.layer = readLayer(fields, width);
  if (!bottomUp.layer.groups.empty()) {
    fields.fail(fields.position("scales"),
                "expected no \"scales\" in a bottom_up stage, which has scales of its own, found "
                "both; say \"scales\": [] in this stage");
  }
  Layer gathers = bottomUp.layer;
  gathers.groups.resize(bottomUp.hierarchy.size() - 1);
  checkGroups(fields, "hierarchy", gathers);
  return bottomUp;
}

/// A layer, whose keys and values may come from another stream, or from one a group of heads.
Layer readSingleLayer(const Fields &fields, int64_t width) {
  Layer layer = readLayer(fields, width);
  if (const JsonValue *over = fields.find("over"); over && !layer.groups.empty()) {
    fields.fail(over->position,
                "expected one of \"over\" and \"scales\", which both say what keys and values are "
                "made of, found both; leave one out, or say \"scales\": [] in this stage");
  }
  if (const JsonValue *over = fields.find("over"); over && over->kind == JsonKind::Array) {
    layer.groups = readSources(fields, layer.mask);
    checkGroups(fields, "over", layer);
    checkScoresOfGroups(fields, "over", layer);
  }
  layer.first = readFirst(fields, layer);
  if (layer.lsh && fields.find("over")) {
    refuseWithLsh(fields, "over");
  }
  layer.attentionNorm = readAttentionNorm(fields, layer);
  if (!layer.groups.empty()) {
    return layer;
  }
  layer.over = fields.text("over", "");
  layer.isOver = !layer.over.empty();
  if (layer.isOver && layer.rotaryBase) {
    fields.fail(fields.position("rotary"),
                "expected no \"rotary\" where \"over\" names another stream, whose positions are "
                "not those of the queries, found both; say \"rotary\": false in this stage");
  }
  return layer;
}

Head readHead(const Fields &fields) {
  Head head;
  head.tied = fields.boolean("tied", false);
  head.bias = fields.boolean("bias", false);
  head.labelSmoothing = fields.number("label_smoothing", probability, 0);
  if (fields.find("shift")) {
    head.shift = fields.integer("shift", anyShift);
  }
  if (fields.find("first")) {
    head.first = fields.integer("first", anyShift);
  }
  head.target = fields.text("target", "");
  head.weights = fields.text("weights", "");
  if (!head.target.empty() && head.labelSmoothing > 0) {
    fields.fail(fields.position("label_smoothing"),
                "expected no \"label_smoothing\" beside \"target\", whose distributions may be as "
                "smooth as they like, found both; leave one out");
  }
  return head;
}

Layers readLayers(const Fields &fields, int64_t width) {
  // Beyond 10000 layers it is a slip, and the expansion would only be slow to say so.
  Layers layers = {fields.integer("count", {1, 10000}), readLayer(fields, width)};
  layers.layer.first = readFirst(fields, layers.layer);
  return layers;
}

Loss readLoss(const Fields &fields) {
  fields.need("name", "what reports call this loss");
  std::string name = fields.text("name");
  bool isWord = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!isWord || name == mainLoss) {
    fields.fail(fields.position("name"),
                "expected small letters, digits and underscores for \"name\", and not \"" +
                    std::string(mainLoss) + "\", which is the head's loss, found " + quote(name) +
                    "; choose another");
  }
  Loss loss;
  loss.name = name;
  loss.factor = fields.number("factor", positive, 1);
  loss.head = readHead(fields);
  return loss;
}

Settings readSettings(Op op, const Fields &fields, const Fields *defaults, int64_t width,
                      int64_t context) {
  switch (op) {
  case Op::Embedding:
    return readEmbedding(fields);
  case Op::Layer:
    return readSingleLayer(fields, width);
  case Op::Norm:
    return readNorm(fields);
  case Op::Shift:
    return readShift(fields);
  case Op::Shorten:
    return readShorten(fields, width);
  case Op::Upsample:
    return readUpsample(fields, width);
  case Op::Add:
    fields.need("with", "the name of an earlier stage's result");
    return Add{fields.text("with")};
  case Op::Dropout:
    return Dropout{fields.number("rate", probability)};
  case Op::Head:
    return readHead(fields);
  case Op::Loss:
    return readLoss(fields);
  case Op::Layers:
    return readLayers(fields, width);
  case Op::Hourglass:
    return readHourglass(fields, width);
  case Op::Project:
    return Project{fields.text("with", ""), readProjection(fields, "activation"),
                   fields.boolean("bias", true), readWidth(fields), readInitial(fields)};
  case Op::TopDown:
    return readTopDown(fields, width);
  case Op::BottomUp:
    return readBottomUp(fields, width);
  case Op::Boundaries:
    return readBoundaries(fields, context);
  case Op::Replace: {
    fields.need("with", "the name of an earlier stage's result");
    Mask block = readBlock(fields);
    return Replace{fields.text("with"), block.end, block.begin};
  }
  case Op::Attend:
    return readAttend(fields);
  case Op::Dynamic:
    return Dynamic{composeDynamic(fields, defaults, width, context)};
  case Op::Megabyte:
    return Megabyte{composeMegabyte(fields, defaults, width, context)};
  case Op::BlockTransformer:
    return BlockTransformer{composeBlockTransformer(fields, defaults, width, context)};
  case Op::SpaceByte:
    return SpaceByte{composeSpaceByte(fields, defaults, width, context)};
  case Op::Hnet:
    return Hnet{composeHnet(fields, defaults, width, context)};
  case Op::Blt:
    return Blt{composeBlt(fields, defaults, width, context)};
  }
  return {};
}

bool hasLayerSettings(Op op) {
  return op == Op::Layer || op == Op::Layers || op == Op::Hourglass || op == Op::TopDown ||
         op == Op::BottomUp;
}

std::vector<std::string_view> keyNames(Op op) {
  std::vector<std::string_view> names;
  for (const KeyInfo &key : findStage(name(op))->keys) {
    names.push_back(key.name);
  }
  return names;
}

Op readOp(const JsonValue &value, const std::string &file) {
  Fields fields(value, file, "a stage");
  std::vector<std::string_view> names(opNames.begin(), opNames.end());
  std::string op = (fields.need("op", "one of the stages' kinds"), fields.text("op"));
  auto at = std::find(names.begin(), names.end(), op);
  if (at == names.end()) {
    fields.fail(fields.position("op"),
                "expected the kind of a stage for \"op\", found " + quote(op) + "; " +
                    suggestion(op, findStage("layer")->find("op")->words, "kinds"));
  }
  return static_cast<Op>(at - names.begin());
}

} // namespace

const std::vector<std::string_view> &projectionNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all = {"none"};
    for (size_t i = 0; i < activationNames.size(); ++i) {
      if (static_cast<Activation>(i) != Activation::SwiGlu) { // which takes two numbers
        all.push_back(activationNames[i]);
      }
    }
    return all;
  }();
  return names;
}

std::optional<Activation> readProjection(const Fields &fields, std::string_view key) {
  Names<std::optional<Activation>> names;
  for (std::string_view name : projectionNames()) {
    auto at = std::find(activationNames.begin(), activationNames.end(), name);
    bool isNone = at == activationNames.end();
    names.emplace_back(
        name, isNone ? std::nullopt
                     : std::optional(static_cast<Activation>(at - activationNames.begin())));
  }
  return fields.choice<std::optional<Activation>>(key, names, std::nullopt);
}

bool readStart(const Fields &fields, std::optional<int64_t> by) {
  bool isLearned = fields.choice<bool>("start", {{"zeros", false}, {"null", true}}, false);
  if (isLearned && by == 0) {
    fields.fail(fields.position("start"),
                "expected \"start\": \"null\" only where a shift of 1 or more has first rows to "
                "learn, found a shift of 0; leave it out, or shift by more");
  }
  return isLearned;
}

std::optional<int64_t> readShortenWindow(const Fields &fields) {
  refuseWindow(fields, "shorten", "shorten_window", "convolution");
  return fields.find("shorten_window") ? std::optional(fields.integer("shorten_window", anyWindow))
                                       : std::nullopt;
}

Names<Shortening> shortenMethods() {
  Names<Shortening> methods;
  for (size_t i = 0; i < shorteningNames.size(); ++i) {
    methods.emplace_back(shorteningNames[i], Shortening(i));
  }
  methods.emplace_back("convolution", Shortening::Linear); // whose window is any
  return methods;
}

Shortening readShortening(const Fields &fields, std::string_view key) {
  return fields.choice<Shortening>(key, shortenMethods(), Shortening::Average);
}

Upsampling readUpsampling(const Fields &fields, std::string_view key) {
  return fields.choice<Upsampling>(
      key, {{"repeat", Upsampling::Repeat}, {"linear", Upsampling::Linear}}, Upsampling::Repeat);
}

int64_t widthAfter(const Settings &settings, int64_t width) {
  const auto *project = std::get_if<Project>(&settings);
  const auto *shorten = std::get_if<Shorten>(&settings);
  const auto *upsample = std::get_if<Upsample>(&settings);
  int64_t own = project    ? project->width
                : shorten  ? shorten->width
                : upsample ? upsample->width
                           : 0;
  return own > 0 ? own : width;
}

Composed *composedOf(Settings &settings) {
  auto asComposed = [](auto &own) -> Composed * {
    if constexpr (std::is_base_of_v<Composed, std::decay_t<decltype(own)>>) {
      return &own;
    } else {
      return nullptr;
    }
  };
  return std::visit(asComposed, settings);
}

const Composed *composedOf(const Settings &settings) {
  return composedOf(const_cast<Settings &>(settings));
}

std::string_view name(Op op) { return opNames[static_cast<size_t>(op)]; }

Stage readStage(const JsonValue &value, const std::string &file, const Fields *defaults,
                int64_t width, int64_t context) {
  Op op = readOp(value, file);
  std::string article = op == Op::Embedding || op == Op::Upsample || op == Op::Add ||
                                op == Op::Hourglass || op == Op::Attend || op == Op::Hnet
                            ? "an "
                            : "a ";
  Fields fields(value, file, article + std::string(name(op)) + " stage");
  fields.allowOnly(keyNames(op));
  Stage stage;
  stage.location = fields.locate(value.position);
  stage.from = fields.text("from", "");
  stage.to = fields.text("to", "");
  stage.isFrozen = fields.boolean("frozen", false);
  // Keys of `defaults` are names of layer settings; `embedding` and `head` have keys of the same
  // spelling that do not come from there.
  if (hasLayerSettings(op) || op == Op::Norm || op == Op::Attend) {
    fields.inherit(defaults);
  }
  stage.settings = readSettings(op, fields, defaults, width, context);
  stage.keys = fields.locations();
  return stage;
}

} // namespace sluice::spec
