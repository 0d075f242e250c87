// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Stages.h"

namespace sluice::spec {
namespace {

std::optional<double> readRotary(const Fields &fields) {
  constexpr double usualBase = 10000;
  const JsonValue *value = fields.find("rotary");
  if (!value || (value->kind == JsonKind::Boolean && !value->boolean)) {
    return std::nullopt;
  }
  if (value->kind == JsonKind::Boolean) {
    return usualBase;
  }
  if (value->kind != JsonKind::Object) {
    fields.mismatch(*value, "rotary", "true, false or {\"base\": number}");
  }
  Fields rotary(*value, fields.fileName(), "a rotary setting");
  rotary.allowOnly({"base"});
  return rotary.number("base", positive);
}

std::optional<Hashing> readLsh(const Fields &fields) {
  const JsonValue *value = fields.find("lsh");
  if (!value || (value->kind == JsonKind::Boolean && !value->boolean)) {
    return std::nullopt;
  }
  if (value->kind != JsonKind::Object) {
    fields.mismatch(*value, "lsh", "false or {\"buckets\": number}");
  }
  Fields lsh(*value, fields.fileName(), "an lsh setting");
  lsh.allowOnly({"buckets", "chunk", "hashes", "causal"});
  lsh.need("buckets", "the number of buckets of a hash");
  Hashing hashing;
  constexpr int64_t mostBuckets = 65536, mostHashes = 64, mostRows = int64_t{1} << 20;
  hashing.buckets = lsh.integer("buckets", {2, mostBuckets});
  hashing.chunk = lsh.integer("chunk", {1, mostRows}, hashing.chunk);
  hashing.hashes = lsh.integer("hashes", {1, mostHashes}, hashing.hashes);
  hashing.isCausal = lsh.boolean("causal", true);
  if (hashing.buckets % 2 != 0) {
    lsh.fail(lsh.position("buckets"),
             "expected an even number of \"buckets\", as each rotation has "
             "two, found " +
                 std::to_string(hashing.buckets));
  }
  if ((hashing.chunk & (hashing.chunk - 1)) != 0) {
    lsh.fail(lsh.position("chunk"),
             "expected a \"chunk\" of a power of two rows, found " + std::to_string(hashing.chunk));
  }
  return hashing;
}

/// Buckets say which keys are read, and keys are the queries.
void checkLsh(const Fields &fields, const Layer &layer) {
  auto refuse = [&](std::string_view key, std::string_view remedy) {
    fields.fail(fields.position(key), "expected no \"" + std::string(key) +
                                          "\" with \"lsh\", whose keys are the queries and are "
                                          "found by their buckets, found both; " +
                                          std::string(remedy));
  };
  if (!layer.lsh) {
    return;
  }
  if (layer.mask.kind != MaskKind::Causal) {
    refuse("mask", "say \"mask\": \"causal\", or \"lsh\": false");
  }
  if (layer.rotaryBase) {
    refuse("rotary", "turn one of them off");
  }
  if (layer.relative != Relative::None) {
    refuse("relative", "turn one of them off");
  }
  if (layer.attentionDropout > 0) {
    refuse("attention_dropout", "say \"attention_dropout\": 0, or \"lsh\": false");
  }
  if (!layer.groups.empty()) {
    refuse("scales", "say \"scales\": [], or \"lsh\": false");
  }
  if (layer.keyValueHeads != layer.heads) {
    refuse("key_value_heads", "leave one of them out");
  }
}

/// Sets what scores have by distance: "relative" and "distances".
void readRelative(const Fields &fields, Layer &layer) {
  layer.countsRows = fields.choice<bool>("distances", {{"tokens", false}, {"rows", true}}, false);
  constexpr std::string_view expected = "\"none\", \"xl\", \"xl_shared\" or {\"bias\": distances}";
  const JsonValue *value = fields.find("relative");
  if (!value) {
    return;
  }
  if (value->kind == JsonKind::Object) {
    Fields bias(*value, fields.fileName(), "a relative setting");
    bias.allowOnly({"bias"});
    bias.need("bias", "the number of distances that are told apart");
    layer.relative = Relative::Bias;
    layer.distances = bias.integer("bias", {});
    return;
  }
  if (value->kind != JsonKind::String) {
    fields.mismatch(*value, "relative", expected);
  }
  layer.relative = fields.choice<Relative>(
      "relative",
      {{"none", Relative::None}, {"xl", Relative::Xl}, {"xl_shared", Relative::XlShared}},
      Relative::None);
}

/// Distances are those of keys at or before the query; angles and XL's terms are two ways to say
/// one thing.
void checkRelative(const Fields &fields, Layer &layer) {
  if (layer.countsRows && !layer.isXl()) {
    if (fields.isOwn("distances")) {
      fields.fail(
          fields.position("distances"),
          "expected \"distances\": \"rows\" only beside Transformer-XL's \"relative\" terms, "
          "found it without; leave it out of this stage, or say \"relative\": \"xl\"");
    }
    layer.countsRows = false; // defaults say it of the layers that have these terms
  }
  if (layer.relative == Relative::None) {
    return;
  }
  if (layer.mask.kind == MaskKind::Bidirectional) {
    fields.fail(fields.position("relative"),
                "expected a mask of keys at or before the query with \"relative\", found "
                "\"bidirectional\"; use \"causal\" or a window, or leave \"relative\" out");
  }
  if (layer.isXl() && layer.rotaryBase) {
    fields.fail(
        fields.position("relative"),
        "expected one of \"rotary\" and Transformer-XL's \"relative\" terms, found both; turn "
        "one of them off");
  }
}

/// Windows of scales take the place of the layer's mask.
void checkScales(const Fields &fields, const Layer &layer) {
  checkGroups(fields, "scales", layer);
  checkScoresOfGroups(fields, "scales", layer);
  if (layer.mask.kind != MaskKind::Causal) {
    fields.fail(fields.position("mask"),
                "expected no \"mask\" where \"scales\" gives each group of heads a window, found "
                "both; leave one of them out, or say \"mask\": \"causal\" in this stage");
  }
}

/// What can be read without knowing the width; sizes that were not given are 0.
Layer readWritten(const Fields &fields) {
  Layer layer;
  layer.heads = fields.integer("heads", {}, 0);
  layer.keyValueHeads = fields.integer("key_value_heads", {}, 0);
  layer.headSize = fields.integer("head_size", {}, 0);
  Norm norm = readNorm(fields);
  layer.norm = norm.norm;
  layer.epsilon = norm.epsilon;
  layer.placement = fields.choice<Placement>(
      "placement", {{"pre", Placement::Pre}, {"post", Placement::Post}}, Placement::Pre);
  layer.activation = fields.choice("activation", activationNames, Activation::Gelu);
  layer.feedForward = fields.integer("feed_forward", {}, 0);
  layer.dropout = fields.number("dropout", probability, 0);
  layer.attentionDropout = fields.number("attention_dropout", probability, 0);
  layer.mask = readMask(fields);
  layer.rotaryBase = readRotary(fields);
  readRelative(fields, layer);
  layer.lsh = readLsh(fields);
  layer.bias = fields.boolean("bias", true);
  layer.groups = readScales(fields);
  return layer;
}

} // namespace

const std::vector<std::string_view> &layerKeys() {
  static const std::vector<std::string_view> keys = {
      "heads",        "key_value_heads", "head_size",         "norm",   "placement", "epsilon",
      "activation",   "dropout",         "attention_dropout", "mask",   "rotary",    "bias",
      "feed_forward", "relative",        "distances",         "scales", "lsh"};
  return keys;
}

Norm readNorm(const Fields &fields) {
  Norm norm;
  norm.norm = fields.choice<NormKind>("norm", {{"layer", NormKind::Layer}, {"rms", NormKind::Rms}},
                                      NormKind::Layer);
  norm.epsilon = fields.number("epsilon", positive, norm.epsilon);
  return norm;
}

void checkDefaults(const Fields &fields) {
  fields.allowOnly(layerKeys());
  readWritten(fields);
}

Layer readLayer(const Fields &fields, int64_t width) {
  Layer layer = readWritten(fields);
  fields.need("heads", "the number of attention heads, here or in \"defaults\"");
  std::string heads = std::to_string(layer.heads);
  if (layer.keyValueHeads == 0) {
    layer.keyValueHeads = layer.heads;
  }
  if (layer.heads % layer.keyValueHeads != 0) {
    fields.fail(fields.position("key_value_heads"),
                "expected \"key_value_heads\" to divide \"heads\", found " +
                    std::to_string(layer.keyValueHeads) + " of " + heads +
                    "; each key and value head serves the same number of query heads");
  }
  if (layer.headSize == 0) {
    if (width % layer.heads != 0) {
      fields.fail(fields.position("heads"),
                  "expected \"heads\" to divide the width, found " + heads + " heads for width " +
                      std::to_string(width) + "; change one of the two or give \"head_size\"");
    }
    layer.headSize = width / layer.heads;
  }
  if (layer.rotaryBase && layer.headSize % 2 != 0) {
    bool given = fields.find("head_size");
    fields.fail(fields.position(given ? "head_size" : "rotary"),
                "expected an even head size with \"rotary\", which rotates pairs, found " +
                    std::to_string(layer.headSize) + (given ? "" : " (width / heads)") +
                    "; change the size or turn \"rotary\" off");
  }
  checkRelative(fields, layer);
  checkLsh(fields, layer);
  if (!layer.groups.empty()) {
    checkScales(fields, layer);
  }
  if (layer.feedForward == 0) {
    layer.feedForward = 4 * width;
  }
  return layer;
}

} // namespace sluice::spec
