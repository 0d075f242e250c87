// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Stages.h"

#include "Hourglass.h"

#include "sluice/Spec/Schema.h"

#include <algorithm>
#include <array>

namespace sluice::spec {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Settings>> opNames = {
    "embedding", "layer",   "norm", "shift", "shorten", "upsample",
    "add",       "dropout", "head", "loss",  "layers",  "hourglass"};

constexpr Range anyShift = {0, largestSize};

Shortening readShortening(const Fields &fields, std::string_view key) {
  return fields.choice(key, shorteningNames, Shortening::Average);
}

Upsampling readUpsampling(const Fields &fields, std::string_view key) {
  return fields.choice<Upsampling>(
      key, {{"repeat", Upsampling::Repeat}, {"linear", Upsampling::Linear}}, Upsampling::Repeat);
}

Embedding readEmbedding(const Fields &fields) {
  Embedding embedding;
  embedding.input = fields.text("input", "");
  embedding.positions = fields.choice<Positions>("positions",
                                                 {{"none", Positions::None},
                                                  {"learned", Positions::Learned},
                                                  {"sinusoidal", Positions::Sinusoidal}},
                                                 Positions::None);
  embedding.dropout = fields.number("dropout", probability, 0);
  return embedding;
}

/// A layer, whose keys and values may come from another stream.
Layer readSingleLayer(const Fields &fields, int64_t width) {
  Layer layer = readLayer(fields, width);
  layer.over = fields.text("over", "");
  layer.isOver = !layer.over.empty();
  layer.attentionNorm = fields.boolean("attention_norm", true);
  if (!layer.attentionNorm && layer.placement == Placement::Post) {
    fields.fail(fields.position("attention_norm"),
                "expected \"attention_norm\" only where \"placement\" is \"pre\", as a post-norm "
                "block norms its sum, found false; leave it out");
  }
  if (layer.isOver && layer.rotaryBase) {
    fields.fail(fields.position("rotary"),
                "expected no \"rotary\" where \"over\" names another stream, whose positions are "
                "not those of the queries, found both; say \"rotary\": false in this stage");
  }
  return layer;
}

Head readHead(const Fields &fields) {
  return {fields.boolean("tied", false), fields.boolean("bias", false),
          fields.number("label_smoothing", probability, 0)};
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
  if (fields.find("shift")) {
    loss.shift = fields.integer("shift", anyShift);
  }
  loss.head = readHead(fields);
  return loss;
}

Settings readSettings(Op op, const Fields &fields, int64_t width) {
  switch (op) {
  case Op::Embedding:
    return readEmbedding(fields);
  case Op::Layer:
    return readSingleLayer(fields, width);
  case Op::Norm:
    return readNorm(fields);
  case Op::Shift:
    return Shift{fields.integer("by", anyShift)};
  case Op::Shorten:
    return Shorten{fields.integer("factor", {}), readShortening(fields, "method")};
  case Op::Upsample:
    return Upsample{fields.integer("factor", {}), readUpsampling(fields, "method")};
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
    // Beyond 10000 layers it is a slip, and the expansion would only be slow to say so.
    return Layers{fields.integer("count", {1, 10000}), readLayer(fields, width)};
  case Op::Hourglass:
    return readHourglass(fields, width);
  }
  return {};
}

bool hasLayerSettings(Op op) { return op == Op::Layer || op == Op::Layers || op == Op::Hourglass; }

std::vector<std::string_view> keyNames(Op op) {
  std::vector<std::string_view> names;
  for (const KeyInfo &key : keysOf(op)) {
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
    fields.fail(fields.position("op"), "expected the kind of a stage for \"op\", found " +
                                           quote(op) + "; " + suggestion(op, names, "kinds"));
  }
  return static_cast<Op>(at - names.begin());
}

} // namespace

std::string_view name(Op op) { return opNames[static_cast<size_t>(op)]; }

Stage readStage(const JsonValue &value, const std::string &file, const Fields *defaults,
                int64_t width) {
  Op op = readOp(value, file);
  std::string article =
      op == Op::Embedding || op == Op::Upsample || op == Op::Add || op == Op::Hourglass ? "an "
                                                                                        : "a ";
  Fields fields(value, file, article + std::string(name(op)) + " stage");
  fields.allowOnly(keyNames(op));
  Stage stage;
  stage.location = fields.locate(value.position);
  stage.from = fields.text("from", "");
  stage.to = fields.text("to", "");
  // Keys of `defaults` are names of layer settings; `embedding` and `head` have keys of the same
  // spelling that do not come from there.
  if (hasLayerSettings(op) || op == Op::Norm) {
    fields.inherit(defaults);
  }
  stage.settings = readSettings(op, fields, width);
  stage.keys = fields.locations();
  return stage;
}

} // namespace sluice::spec
