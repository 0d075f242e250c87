// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Spec/Schema.h"

#include "LayerKeys.h"
#include "Stages.h"

#include <array>

namespace sluice::spec {
namespace {

const Keys topKeys = {
    {"sluice", "1", "version of this format", "required", {}},
    {"name", "string", "the model's name", "file stem", {}},
    {"vocabulary",
     "integer >= 2",
     "number of token ids; ids are bytes when it is 256 or more",
     "required",
     {}},
    {"context", "integer >= 1", "capacity N: most tokens in one row of a batch", "required", {}},
    {"batch", "integer >= 1", "capacity B: most rows in a batch", "required", {}},
    {"width", "integer >= 1", "model width d", "required", {}},
    {"inputs",
     "object of objects",
     "named inputs beside the tokens, as in {\"source\": {\"context\": 64}}: each has an axis of "
     "its "
     "own, with \"context\" and \"vocabulary\" (the model's), and is given before the first token; "
     "or "
     "numbers for each token, as in {\"teacher\": {\"axis\": \"tokens\", \"role\": \"target\"}}",
     "{}",
     {}},
    {"seed", "integer >= 0", "seed of initialization and of training's random numbers", "0", {}},
    {"defaults",
     "object",
     "settings every layer, layers, hourglass, top_down and bottom_up stage starts from",
     "{}",
     {}},
    {"stages",
     "array",
     "the model; first stage embedding of the tokens, last stage head",
     "required",
     {}},
    {"precision",
     "object",
     "how numbers are stored; arithmetic, weights, moments and sums are f32",
     R"({"compute": "f32", "residual": "f32"})",
     {}},
    {"training", "object", "optimizer and schedule", "every setting its default", {}}};

const Keys trainingKeys = {
    {"optimizer",
     "string",
     "adamw decays weights apart from the gradient, adam adds decay to the gradient",
     "adamw",
     {"adamw", "adam"}},
    {"learning_rate", "number > 0", "rate at the peak of the schedule", "3e-4", {}},
    {"betas", "array of two numbers >= 0 and < 1", "decay of the two moments", "[0.9, 0.95]", {}},
    {"epsilon", "number > 0", "added to the square root of the second moment", "1e-8", {}},
    {"weight_decay",
     "number >= 0",
     "applies to matrices, not to norms, biases or embeddings",
     "0.1",
     {}},
    {"clip", "number >= 0", "largest global norm of the gradient; 0 turns clipping off", "1.0", {}},
    {"accumulate",
     "integer from 1 to 1048576",
     "batches of an update, whose gradients are summed: it has accumulate * batch rows",
     "1",
     {}},
    {"schedule",
     "object",
     "learning rate over the steps",
     R"({"kind": "cosine", "warmup": 100, "steps": 1000, "floor": 0.1})",
     {}},
    {"order",
     "string",
     "each epoch cuts texts at other places, or shifts them around their ends",
     "cut",
     {"cut", "cyclic"}}};

const Keys scheduleKeys = {
    {"kind",
     "string",
     "how the rate falls after the warm-up: one cosine, not at all, or over the root of the step",
     "cosine",
     {scheduleNames.begin(), scheduleNames.end()}},
    {"warmup",
     "integer >= 0, at most steps",
     "steps over which the rate rises",
     "the smaller of 100 and steps",
     {}},
    {"steps", "integer >= 1", "step at which a cosine reaches its floor", "1000", {}},
    {"floor", "number >= 0", "least rate, as a fraction of the learning rate", "0.1", {}},
    {"then", "object", "a second phase behind steps: one cosine from the rate there", "none", {}}};

const Keys fallKeys = {
    {"steps", "integer >= 1", "steps over which the rate falls", "required", {}},
    {"floor", "number >= 0", "rate at its end, as a fraction of the learning rate", "0", {}}};

const Keys precisionKeys = {
    {"compute",
     "string",
     "of what linear maps and attention multiply; bf16: weights are rounded to it once a step",
     "f32",
     {"f32", "bf16"}},
    {"residual",
     "string",
     "of the streams between stages; bf16 only where compute is bf16",
     "f32",
     {"f32", "bf16"}}};

const Keys headKeys = {
    {"tied", "boolean", "uses the embedding's token.weight", "false", {}},
    {"bias", "boolean", "adds a bias [V]", "false", {}},
    {"label_smoothing",
     "number >= 0 and < 1",
     "share of the target's distribution that is spread over all tokens, in training",
     "0",
     {}},
    {"shift",
     "integer >= 0",
     "row t reads group (t - shift) div f and is scored against token t + 1",
     "the scale's factor - 1",
     {}},
    {"first", "integer >= 0", "rows before it are not scored", "the shift", {}},
    {"target", "string", "input of distributions that rows are scored against", "next token", {}},
    {"weights", "string", "input of numbers that rows count by, in training", "none", {}}};

/// Of layers of one scale.
const KeyInfo firstKey = {
    "first", "integer >= 0", "keys before this row are left out, whatever the mask", "0", {}};
const std::vector<std::string_view> upsamplingNames = {"repeat", "linear"};

/// Of stages that shift.
const KeyInfo start = {"start",
                       "string",
                       "rows before the first: zeros, or a trained row",
                       "zeros",
                       {"zeros", "null"}};

/// The methods of groups, and more.
std::vector<std::string_view> shortenings(std::initializer_list<std::string_view> more = {}) {
  std::vector<std::string_view> names;
  for (auto [name, method] : shortenMethods()) {
    names.push_back(name);
  }
  names.insert(names.end(), more);
  return names;
}

/// Of composite stages.
const KeyInfo shortenInside = {"shorten", "string", "method of every shorten stage inside",
                               "average", shortenings()};

const KeyInfo windowInside = {"shorten_window",
                              "integer >= 1",
                              "rows that a group of every shorten stage inside reads, which end "
                              "where the group ends",
                              "each one's factor",
                              {}};

/// Of stages whose result is a linear map's.
KeyInfo widthOf(std::string_view meaning) {
  return {"width", "integer >= 1", meaning, "that of the stream", {}};
}

/// The keys that stages of one op have beside op, from, to and layer settings.
Keys ownKeys(Op op) {
  auto factor = [](std::string_view meaning) {
    return KeyInfo{"factor", "integer >= 1", meaning, "required without segments", {}};
  };
  auto segments = [](std::string_view meaning) {
    return KeyInfo{"segments", "name of segments", meaning, "groups of the factor", {}};
  };
  switch (op) {
  case Op::Embedding:
    return {{"input", "name of an input", "what is embedded", "the tokens", {}},
            {"positions",
             "string",
             "what is added for a token's position",
             "none",
             {"none", "learned", "sinusoidal"}},
            {"dropout", "number >= 0 and < 1", "on the sum", "0", {}},
            {"ngrams", "list of integers from 2 to 16", "sizes of n-grams, hashed", "none", {}},
            {"ngram_rows", "integer from 1 to 16777216", "rows of each table", "65536 there", {}},
            {"document_end", "integer >= 0", "a token that no n-gram behind it reads", "none", {}}};
  case Op::Layer:
    return {{"over",
             "name of a stream, or list of {\"stream\": name, \"mask\": mask}",
             "the stream of keys and values, on any scale, or of an input's axis; a list: one for "
             "each of as many groups of heads",
             "the stream it reads",
             {}},
            {"attention_norm",
             "boolean",
             "norms of a pre-norm attention block; false: its streams come normed",
             "true",
             {}},
            firstKey};
  case Op::Norm:
    return {normKey, normEpsilonKey};
  case Op::Shift:
    return {{"by", "integer >= 0", "positions of this scale to delay by", "required", {}}, start};
  case Op::Shorten:
    return {
        factor("fine positions in one coarse position"),
        {"method", "string",
         "mean of the group, a linear map of its features, the maximum of each feature, a linear "
         "map of a window, or maps of its rows to width / factor columns side by side",
         "average", shortenings({"concatenate"})},
        {"window",
         "integer >= 1",
         "rows that a group reads, which end where the group ends; not of \"linear\"",
         "the factor",
         {}},
        segments("pools segments instead of groups: their averages or maxima, or with \"method\": "
                 "\"last\", "
                 "of those that begin at bits \"first\", their rows at bits"),
        widthOf("of \"concatenate\": numbers in a row of the result")};
  case Op::Upsample:
    return {
        factor("fine positions from one coarse position; divides the scale's factor"),
        {"method",
         "string",
         "repetition, a linear map to the group's features, sums of such maps to a window, or a "
         "linear map of a row's own part of the columns",
         "repeat",
         {"repeat", "linear", "transposed", "split"}},
        {"window",
         "integer >= 1",
         "of \"transposed\": rows that a group reaches, a multiple of the factor",
         "the factor",
         {}},
        segments("repeats rows of segments instead of groups, on the tokens that follow them; with "
                 "\"method\": \"scatter\" at bits alone, with \"smooth\" a router's averages"),
        {"by",
         "integer >= 0",
         "of segments: a token reads the row this many before that of its own segment",
         "1: the last that ended",
         {}},
        widthOf("of \"split\": numbers in a row of the result")};
  case Op::Add:
    return {{"with", "name of a stream", "the second stream, on the same scale", "required", {}}};
  case Op::Replace:
    return {{"with", "name of a stream", "rows where a block starts", "required", {}},
            blockKey("required"),
            blockStartKey("0")};
  case Op::Dropout:
    return {{"rate",
             "number >= 0 and < 1",
             "share of features that is dropped in training",
             "required",
             {}}};
  case Op::Head:
    return headKeys;
  case Op::Loss: {
    Keys keys = {
        {"name", "string", "what reports call this loss", "required", {}},
        {"factor", "number > 0", "what its mean counts in what training minimizes", "1", {}}};
    keys.insert(keys.end(), headKeys.begin(), headKeys.end());
    return keys;
  }
  case Op::Layers:
    return {{"count", "integer from 1 to 10000", "number of layers", "required", {}}, firstKey};
  case Op::Hourglass:
    return {
        {"hierarchy",
         "string",
         "N@f is N layers on a scale f times coarser than the stage's input: \"2@1 8@4 2@1\"; of "
         "8@{2,3} each step of training draws one factor",
         "required",
         {}},
        {"shorten", "string",
         "method of every shorten stage inside; attention: from the group's average, or a linear "
         "map of it, over the stream",
         "average", shortenings({"attention", "attention_linear"})},
        windowInside,
        {"shorten_keys",
         "string",
         "of attention that shortens: all positions up to the group, or the group's alone",
         "all",
         {"all", "group"}},
        {"upsample",
         "string",
         "method of every upsample stage inside; attention: from the stream before shortening, "
         "alone or with a linear upsampling, over the coarse one",
         "repeat",
         {"repeat", "linear", "attention", "attention_linear"}},
        {"shift",
         "integer >= 0",
         "shift before each shortening, the same on every level",
         "relative factor - 1",
         {}},
        {"shifted",
         "string",
         "what is shifted: the input of each shortening, or the output of each upsampling",
         "input",
         {"input", "output"}},
        start};
  case Op::Project:
    return {
        {"with", "name of a stream", "the second stream, on the same scale", "none", {}},
        {"activation", "string", "of the sum", "none", projectionNames()},
        {"bias", "boolean", "adds a bias", "true", {}},
        widthOf("numbers in a row of the result"),
        {"initial", "string", "how its matrices begin", "normal", {"normal", "zeros", "identity"}}};
  case Op::TopDown:
    return {
        {"hierarchy",
         "string",
         "N@f is N layers on a scale f times coarser than the stage's input, the coarsest "
         "first: \"2@16 4@4 8@1\"",
         "required",
         {}},
        shortenInside,
        windowInside,
        {"upsample", "string", "method of every upsample stage inside", "repeat", upsamplingNames},
        {"projection_activation", "string", "of the project stages that join two scales", "none",
         projectionNames()},
        {"bags",
         "number > 0",
         "gives each coarse scale a loss of this factor, against the tokens that follow a group",
         "no such losses",
         {}},
        start};
  case Op::BottomUp:
    return {{"hierarchy",
             "string",
             "N@f is N layers on groups of f, from fine to coarse: \"9@1 9@4 8@16\"",
             "required",
             {}},
            shortenInside,
            windowInside,
            {"pooling",
             "string",
             "what groups are made of: the finer scale's result, or the stage's input",
             "cascaded",
             {"cascaded", "repooled"}}};
  case Op::Attend:
    return {
        {"over", "name of a stream", "the stream of keys and values", "required", {}},
        {"segments", "string", "the segments of one of the two streams", "required", {}},
        {"heads",
         "integer >= 1",
         "number of attention heads",
         "required, here or in `defaults`",
         {}},
        {"head_size",
         "integer >= 1",
         "columns of a head",
         "the width of the stream that is cut / heads",
         {}},
        {"parts", "integer from 1 to 64", "queries of a segment, or keys that its row is", "1", {}},
        {"by",
         "integer >= 0",
         "of rows that read segments: which, as of an upsample",
         "1: the last that ended",
         {}},
        {"norm", "string", "of both streams", "layer", {"layer", "rms"}},
        {"epsilon", "number > 0", "of the norms", "1e-5", {}},
        {"bias", "boolean", "adds biases to its linear maps", "true", {}}};
  case Op::Boundaries:
    return boundaryKeys();
  default:
    return compositeKeys(op);
  }
}

Keys keysOfStage(Op op) {
  Keys keys = {{"op", "string", "the kind of the stage", "required", {}}};
  for (Op other : allOps()) {
    keys[0].values.push_back(name(other));
  }
  if (op != Op::Embedding) {
    keys.push_back(
        {"from", "name of a stream", "the stream it reads", "the result of the stage before", {}});
  }
  if (op != Op::Head && op != Op::Loss && op != Op::Boundaries) {
    keys.push_back({"to", "string", "names the result; defined once", "unnamed", {}});
  }
  if (op != Op::Shift && op != Op::Add && op != Op::Replace && op != Op::Dropout) {
    keys.push_back({"frozen",
                    "boolean",
                    "training leaves the stage's weights as they were given",
                    "false",
                    {}});
  }
  Keys own = ownKeys(op);
  keys.insert(keys.end(), own.begin(), own.end());
  if (op == Op::Layer || op == Op::Layers || op == Op::Hourglass || op == Op::TopDown ||
      op == Op::BottomUp) {
    keys.insert(keys.end(), layerSettings.begin(), layerSettings.end());
  }
  return keys;
}

} // namespace

const std::vector<KeyInfo> &keysOf(Section section) {
  switch (section) {
  case Section::Spec:
    return topKeys;
  case Section::Defaults:
    return layerSettings;
  case Section::Precision:
    return precisionKeys;
  case Section::Training:
    return trainingKeys;
  case Section::Schedule:
    return scheduleKeys;
  case Section::Fall:
    return fallKeys;
  case Section::Mask:
    return maskKeys;
  case Section::Relative:
    return relativeKeys;
  case Section::Source:
    return sourceKeys;
  case Section::Scale:
    return scaleKeys;
  case Section::Lsh:
    return lshKeys;
  case Section::Rotary:
    break;
  }
  return rotaryKeys;
}

const std::vector<KeyInfo> &keysOf(Op op) {
  static const auto tables = [] {
    std::array<Keys, std::variant_size_v<Settings>> result;
    for (Op each : allOps()) {
      result[static_cast<size_t>(each)] = keysOfStage(each);
    }
    return result;
  }();
  return tables[static_cast<size_t>(op)];
}

std::vector<Op> allOps() {
  std::vector<Op> ops;
  for (size_t i = 0; i < std::variant_size_v<Settings>; ++i) {
    ops.push_back(static_cast<Op>(i));
  }
  return ops;
}

std::string_view meaning(Op op) {
  switch (op) {
  case Op::Embedding:
    return "E[token], plus P[position] where positions are given.";
  case Op::Layer:
    return "One transformer layer: an attention block, then a feed-forward block.";
  case Op::Norm:
    return "Norm over features.";
  case Op::Shift:
    return "y[p] = x[p - by], zero before: delays, so that a coarse position holds no later token.";
  case Op::Shorten:
    return "Coarse group m from x[k m + i], 0 <= i < k: a scale k times coarser.";
  case Op::Upsample:
    return "Fine position p from y[p div k]: a scale k times finer.";
  case Op::Add:
    return "Sum of two streams of one scale.";
  case Op::Replace:
    return "Rows of another stream where a block starts, those of the input elsewhere.";
  case Op::Dropout:
    return "Drops features in training.";
  case Op::Head:
    return "Logits; cross-entropy of row t against token t + 1. On a coarse scale, of groups "
           "against "
           "the tokens that follow them.";
  case Op::Loss:
    return "Another loss: group g of a scale of factor f against tokens f (g + 1) to f (g + 2) - "
           "1.";
  case Op::Layers:
    return "A stack of transformer layers.";
  case Op::Hourglass:
    return "Layers on several scales: shift, shorten, inner levels, upsample, residual sum.";
  case Op::Project:
    return "act(W x + V z + b), of two streams of one scale.";
  case Op::TopDown:
    return "Scales of a pooled stream from the coarsest to the tokens; each reads the one before "
           "it.";
  case Op::BottomUp:
    return "Layers on scale after scale, a layer whose heads read them all, then fine layers.";
  case Op::Attend:
    return "Attention between a scale and its segments: from segments over their own rows, or from "
           "rows over the parts of a segment's row.";
  case Op::Boundaries:
    return "Bits that end or begin segments of the tokens, by a rule or predicted; a shorten and "
           "an "
           "upsample "
           "name them.";
  case Op::Dynamic:
    return "Dynamic token pooling: layers, means of segments, layers on these, layers.";
  case Op::Megabyte:
    return "MEGABYTE: layers on patches of bytes, then layers inside each patch.";
  case Op::BlockTransformer:
    return "Block Transformer: layers on blocks, then layers inside each block behind a prefix.";
  case Op::SpaceByte:
    return "SpaceByte: layers on the bytes behind spaces, between layers on all bytes.";
  case Op::Hnet:
    return "H-Net: layers on chunks that a router cuts, between layers on rows; levels nest.";
  case Op::Blt:
    return "Byte latent transformer: patches that attend to their bytes, and bytes to patches.";
  }
  return "";
}

} // namespace sluice::spec
