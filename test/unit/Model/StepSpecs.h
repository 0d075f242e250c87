// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Small models for tests of the step, each with one distinct feature.
#pragma once

namespace sluice::testing {

/// The prediction reads a coarse row that an earlier step computed, through lazy values.
constexpr const char *coarseHead = R"json({"sluice": 1, "vocabulary": 17, "context": 14, "batch": 3,
  "width": 8, "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding"}, {"op": "shift", "by": 3}, {"op": "shorten", "factor": 4},
    {"op": "layer"}, {"op": "upsample", "factor": 4}, {"op": "head"}]})json";

constexpr const char *lateHead = R"json({"sluice": 1, "vocabulary": 17, "context": 14, "batch": 3,
  "width": 8, "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding"}, {"op": "layer"}, {"op": "shift", "by": 2}, {"op": "head"}]})json";

/// The head reads a coarse scale through a shift; its last row is not the last one before it.
constexpr const char *lateGroups = R"json({"sluice": 1, "vocabulary": 17, "context": 14, "batch": 3,
  "width": 12, "defaults": {"heads": 2, "feed_forward": 12}, "stages": [{"op": "embedding"}, {"op": "shorten", "factor": 3},
  {"op": "layer"}, {"op": "upsample", "factor": 3}, {"op": "shift", "by": 2}, {"op": "head"}]})json";

/// Groups of heads over pooled scales, and over means of the layer's input by windows in tokens.
constexpr const char *bottomUpAndRetina =
    R"json({"sluice": 1, "vocabulary": 20, "context": 23, "batch": 3,
  "width": 12, "defaults": {"heads": 4, "key_value_heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding"}, {"op": "bottom_up", "hierarchy": "0@1 0@2 0@6", "shorten_window": 4},
    {"op": "layer", "scales": [{"factor": 1, "tokens": [0, 3]}, {"factor": 4, "tokens": [3, 15]}]},
    {"op": "head"}]})json";

/// Rows that wait for their group only at the rows that use them: at other rows, the operands that
/// a step's select does not use are not computed yet, or overwritten.
constexpr const char *replaced = R"json({"sluice": 1, "vocabulary": 17, "context": 14, "batch": 3,
  "width": 8, "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding", "to": "rows"}, {"op": "shift", "by": 1}, {"op": "shorten", "factor": 3},
    {"op": "upsample", "factor": 3}, {"op": "replace", "with": "rows", "block": 3, "to": "begun"},
    {"op": "shorten", "factor": 4}, {"op": "layer"}, {"op": "upsample", "factor": 4, "to": "groups"},
    {"op": "replace", "with": "groups", "block": 4, "start": 3, "from": "begun"}, {"op": "layer"},
    {"op": "head"}]})json";

constexpr const char *replacedOnce = R"json({"sluice": 1, "vocabulary": 9, "context": 6, "batch": 1,
  "precision": {"compute": "bf16"}, "width": 8, "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding", "to": "rows"}, {"op": "shorten", "factor": 3}, {"op": "upsample", "factor": 3, "to": "groups"},
    {"op": "replace", "with": "groups", "block": 3, "start": 2, "from": "rows"}, {"op": "layer"}, {"op": "head"}]})json";

/// Recurrences over tokens, over groups of which the first token makes three rows due, over words
/// and fives with a trained start, and over segments.
constexpr const char *recurrent = R"json({"sluice": 1, "vocabulary": 37, "context": 14, "batch": 3,
  "width": 8, "stages": [{"op": "embedding"}, {"op": "recurrence", "width": 11, "to": "rows"},
    {"op": "shift", "by": 5}, {"op": "shorten", "factor": 2}, {"op": "recurrence", "cell": "lstm_capped"},
    {"op": "upsample", "factor": 2}, {"op": "add", "with": "rows", "to": "both"},
    {"op": "boundaries", "name": "words", "rule": "whitespace"},
    {"op": "recurrence", "segments": "words", "every": 5, "at": 3, "start": "null"},
    {"op": "shorten", "segments": "words", "method": "last"}, {"op": "recurrence"},
    {"op": "upsample", "segments": "words"}, {"op": "add", "with": "both"}, {"op": "head", "tied": false}]})json";

/// Chunks that whitespace or a third byte ends: an LSTM inside each, their bytes side by side, a
/// capped LSTM and a layer over chunks, and an LSTM that decodes each from the chunk before.
constexpr const char *chunks =
    R"json({"sluice": 1, "vocabulary": 37, "context": 13, "batch": 3, "width": 6,
  "defaults": {"heads": 2, "head_size": 4, "feed_forward": 10}, "stages": [{"op": "embedding", "to": "bytes"},
    {"op": "boundaries", "name": "chunks", "rule": "whitespace", "longest": 3},
    {"op": "recurrence", "width": 9, "segments": "chunks"},
    {"op": "shorten", "segments": "chunks", "method": "last"}, {"op": "fit", "width": 8, "to": "ends"},
    {"op": "shorten", "from": "bytes", "segments": "chunks", "method": "stack"}, {"op": "fit", "width": 8},
    {"op": "positions", "columns": 3}, {"op": "add", "with": "ends"},
    {"op": "recurrence", "cell": "lstm_capped"}, {"op": "layer"}, {"op": "shift", "by": 1, "start": "null"},
    {"op": "upsample", "segments": "chunks", "by": 0}, {"op": "fit", "width": 14, "at": 6, "to": "before"},
    {"op": "clear", "from": "bytes", "segments": "chunks"}, {"op": "fit", "width": 14},
    {"op": "add", "with": "before"},
    {"op": "recurrence", "width": 10, "segments": "chunks", "reset": "last"}, {"op": "head", "bias": true}]})json";

/// Grouped heads, rotation, a window, several scales, and rows that one step computes together.
constexpr const char *allOfIt = R"json({"sluice": 1, "vocabulary": 70, "context": 10, "batch": 3,
  "width": 24, "precision": {"compute": "bf16", "residual": "bf16"},
  "defaults": {"heads": 4, "key_value_heads": 2, "head_size": 6, "activation": "swiglu", "feed_forward": 27,
               "rotary": true},
  "stages": [{"op": "embedding"}, {"op": "layer", "mask": {"window": [0, 3]}},
    {"op": "hourglass", "hierarchy": "0@1 0@2 1@4 0@2 0@1", "shorten": "linear"},
    {"op": "head", "bias": true}]})json";

/// Maxima of open groups, and of groups before the first token.
constexpr const char *maxima = R"json({"sluice": 1, "vocabulary": 50, "context": 9, "batch": 2,
  "precision": {"compute": "bf16", "residual": "bf16"},
  "width": 12, "defaults": {"heads": 2, "feed_forward": 20, "activation": "relu_squared"},
  "stages": [{"op": "embedding", "to": "fine"}, {"op": "shift", "by": 5},
    {"op": "shorten", "factor": 3, "method": "max"}, {"op": "layer"}, {"op": "upsample", "factor": 3},
    {"op": "add", "with": "fine"}, {"op": "head"}]})json";

/// Rows that do not exist on the fine scale, which reads the coarse one through a linear map.
constexpr const char *topDown = R"json({"sluice": 1, "vocabulary": 9, "context": 6, "batch": 1,
  "precision": {"compute": "bf16"}, "width": 8,
  "defaults": {"heads": 2, "feed_forward": 8, "placement": "post"},
  "stages": [{"op": "embedding"},
    {"op": "top_down", "hierarchy": "1@2 1@1", "upsample": "linear", "projection_activation": "gelu"},
    {"op": "head", "first": 1}]})json";

/// Groups of heads over means of the layer's input, by windows in tokens; then distances between
/// scales, each way.
constexpr const char *headGroups = R"json({"sluice": 1, "vocabulary": 9, "context": 6, "batch": 1,
  "precision": {"compute": "bf16"},
  "width": 8, "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding"},
    {"op": "layer", "scales": [{"factor": 1, "tokens": [0, 3]}, {"factor": 3, "tokens": [1, 6]}], "to": "x"},
    {"op": "shorten", "factor": 3},
    {"op": "layer", "over": "x", "mask": "complete", "relative": "xl", "to": "groups"},
    {"op": "layer", "from": "x", "over": "groups", "mask": "complete", "relative": {"bias": 4}},
    {"op": "head"}]})json";

/// For GPU code: means of words, and a text of the batch that ends no word for some steps.
constexpr const char *closedMeans = R"json({"sluice": 1, "vocabulary": 14, "context": 7, "batch": 2,
  "precision": {"compute": "bf16"}, "width": 8, "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding", "to": "fine"},
    {"op": "boundaries", "name": "words", "rule": "whitespace", "capacity": 0.9},
    {"op": "shorten", "segments": "words"}, {"op": "shift", "by": 1, "start": "null"}, {"op": "layer"},
    {"op": "upsample", "segments": "words", "by": 0}, {"op": "add", "with": "fine"}, {"op": "head"}]})json";

/// Last rows of pairs, after a shift; then rows at a router's bits, spread as moving averages.
constexpr const char *lastAndRouted =
    R"json({"sluice": 1, "vocabulary": 11, "context": 6, "batch": 2,
  "precision": {"compute": "bf16"}, "width": 8, "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding", "to": "fine"},
    {"op": "boundaries", "name": "twos", "rule": "every", "factor": 2},
    {"op": "shorten", "segments": "twos", "method": "last"}, {"op": "shift", "by": 2}, {"op": "norm"},
    {"op": "upsample", "segments": "twos", "by": 0}, {"op": "add", "with": "fine", "to": "more"},
    {"op": "boundaries", "name": "routed", "ratio": 2, "at": "start"},
    {"op": "shorten", "segments": "routed", "method": "first"}, {"op": "norm"},
    {"op": "upsample", "segments": "routed", "method": "smooth"}, {"op": "add", "with": "more"},
    {"op": "head"}]})json";

/// An encoder that a layer reads on a coarse scale, of inputs of any length.
constexpr const char *encoder = R"json({"sluice": 1, "vocabulary": 11, "context": 5, "batch": 3,
  "precision": {"compute": "bf16"}, "width": 8, "defaults": {"heads": 2, "feed_forward": 8},
  "inputs": {"source": {"context": 6, "vocabulary": 7}},
  "stages": [{"op": "embedding", "to": "text"}, {"op": "embedding", "input": "source"},
    {"op": "layer", "mask": "bidirectional", "rotary": true, "to": "memory"},
    {"op": "shift", "from": "text", "by": 1}, {"op": "shorten", "factor": 2},
    {"op": "layer", "over": "memory", "key_value_heads": 1}, {"op": "upsample", "factor": 2},
    {"op": "add", "with": "text"}, {"op": "head"}]})json";

/// Segments whose rows close at different steps of a batch: means after a learned first row and
/// attention by distance; last rows, groups of rows ahead of the closed segments, and predicted
/// bits, read from the closed segment on.
constexpr const char *words =
    R"json({"sluice": 1, "vocabulary": 40, "context": 23, "batch": 3, "width": 8,
  "defaults": {"heads": 2, "feed_forward": 8, "placement": "post", "relative": "xl_shared"},
  "stages": [{"op": "embedding"}, {"op": "layer", "to": "fine"},
    {"op": "boundaries", "name": "words", "rule": "whitespace", "capacity": 0.7},
    {"op": "shorten", "segments": "words"}, {"op": "shift", "by": 1, "start": "null"},
    {"op": "layer"}, {"op": "upsample", "segments": "words", "by": 0},
    {"op": "add", "with": "fine"}, {"op": "head"}]})json";

constexpr const char *lastAndPredicted =
    R"json({"sluice": 1, "vocabulary": 17, "context": 20, "batch": 3, "width": 12,
  "defaults": {"heads": 2, "feed_forward": 10, "rotary": true},
  "stages": [{"op": "embedding"}, {"op": "norm", "to": "fine"},
    {"op": "boundaries", "name": "threes", "rule": "every", "factor": 3},
    {"op": "shorten", "segments": "threes", "method": "last"}, {"op": "layer"},
    {"op": "shift", "by": 2}, {"op": "norm"}, {"op": "shorten", "factor": 3}, {"op": "upsample", "factor": 3},
    {"op": "upsample", "segments": "threes"}, {"op": "add", "with": "fine", "to": "more"},
    {"op": "boundaries", "name": "guessed", "predictor": 6, "prior": 0.4, "document_end": 3},
    {"op": "shorten", "segments": "guessed"}, {"op": "norm"},
    {"op": "upsample", "segments": "guessed", "by": 2},
    {"op": "add", "with": "more"}, {"op": "head"}]})json";

/// One segment per row of the axis, and rows by distance that are due ahead of them.
constexpr const char *fullAxis =
    R"json({"sluice": 1, "vocabulary": 17, "context": 7, "batch": 2, "width": 8,
  "defaults": {"heads": 2, "feed_forward": 8, "relative": "xl"},
  "stages": [{"op": "embedding", "to": "fine"},
    {"op": "boundaries", "name": "fours", "rule": "every", "factor": 4, "at": "start"},
    {"op": "shorten", "segments": "fours", "method": "first"}, {"op": "layer"},
    {"op": "upsample", "segments": "fours"}, {"op": "add", "with": "fine"}, {"op": "head"}]})json";

/// Every token ends a segment, so that rows ahead of the segments are more than the tokens; the
/// group of such rows alone runs ahead.
constexpr const char *everyToken =
    R"json({"sluice": 1, "vocabulary": 17, "context": 7, "batch": 3, "width": 8,
  "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding", "to": "fine"},
    {"op": "boundaries", "name": "ones", "rule": "every", "factor": 1},
    {"op": "shorten", "segments": "ones", "method": "last"}, {"op": "shift", "by": 2},
    {"op": "shorten", "factor": 2}, {"op": "layer"}, {"op": "upsample", "factor": 2},
    {"op": "upsample", "segments": "ones", "by": 0}, {"op": "add", "with": "fine"},
    {"op": "head"}]})json";

/// LSH attention on two scales, with chunks smaller than buckets.
constexpr const char *hashes = R"json({"sluice": 1, "vocabulary": 17, "context": 29, "batch": 3,
  "width": 10, "defaults": {"heads": 2, "feed_forward": 12},
  "stages": [{"op": "embedding", "positions": "learned"},
    {"op": "layer", "head_size": 3, "lsh": {"buckets": 2, "chunk": 4, "hashes": 3}},
    {"op": "hourglass", "hierarchy": "0@1 1@3 0@1", "lsh": {"buckets": 4, "chunk": 1}},
    {"op": "head"}]})json";

/// Two inputs, one of which fills several parts of the kernel's keys, read on two scales; rows of
/// the batch have a full input, none and some.
constexpr const char *encoders =
    R"json({"sluice": 1, "vocabulary": 17, "context": 7, "batch": 3, "width": 8,
  "inputs": {"source": {"context": 70}, "hint": {"context": 3, "vocabulary": 5}},
  "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding", "to": "text"},
    {"op": "embedding", "input": "source", "positions": "learned"},
    {"op": "recurrence", "direction": "backward"},
    {"op": "layer", "mask": "bidirectional", "rotary": true}, {"op": "norm", "to": "memory"},
    {"op": "embedding", "input": "hint"}, {"op": "norm", "to": "advice"},
    {"op": "layer", "from": "text", "relative": {"bias": 3}}, {"op": "layer", "over": "memory", "to": "fine"},
    {"op": "shift", "by": 1}, {"op": "shorten", "factor": 2},
    {"op": "layer", "over": "advice", "key_value_heads": 1}, {"op": "upsample", "factor": 2},
    {"op": "add", "with": "fine"}, {"op": "head"}]})json";

/// Bits that start segments: rows at bits of space-like bytes, spread only to them, means of the
/// segments before by sampled bits, and a router's rows as moving averages.
constexpr const char *begun =
    R"json({"sluice": 1, "vocabulary": 64, "context": 21, "batch": 3, "width": 8,
  "defaults": {"heads": 2, "feed_forward": 8, "rotary": true},
  "stages": [{"op": "embedding"}, {"op": "layer", "mask": {"window": [0, 3]}, "to": "fine"},
    {"op": "boundaries", "name": "words", "rule": "space_like", "at": "start", "capacity": 0.8, "document_end": 50},
    {"op": "shorten", "segments": "words", "method": "first"}, {"op": "layer"},
    {"op": "upsample", "segments": "words", "method": "scatter"}, {"op": "add", "with": "fine", "to": "more"},
    {"op": "boundaries", "name": "guessed", "predictor": 6, "prior": 0.4, "at": "start",
      "document_end": 51},
    {"op": "shorten", "segments": "guessed"}, {"op": "norm"},
    {"op": "upsample", "segments": "guessed"}, {"op": "add", "with": "more", "to": "sum"},
    {"op": "boundaries", "name": "routed", "ratio": 3, "at": "start", "document_end": 52},
    {"op": "shorten", "segments": "routed", "method": "first"}, {"op": "layer"},
    {"op": "upsample", "segments": "routed", "method": "smooth"}, {"op": "add", "with": "sum"},
    {"op": "head"}]})json";

/// Segments that attend to their rows, by two queries computed from maxima, and tokens to the parts
/// of a segment; then segments that bits start, with heads of one column.
constexpr const char *attends =
    R"json({"sluice": 1, "vocabulary": 40, "context": 19, "batch": 3, "width": 8,
  "defaults": {"heads": 2, "feed_forward": 8, "rotary": true},
  "stages": [{"op": "embedding"}, {"op": "layer", "to": "bytes"},
    {"op": "boundaries", "name": "words", "rule": "whitespace", "capacity": 0.9},
    {"op": "shorten", "segments": "words", "method": "max"}, {"op": "project", "width": 12},
    {"op": "attend", "over": "bytes", "segments": "words", "parts": 2}, {"op": "layer", "to": "global"},
    {"op": "attend", "from": "bytes", "over": "global", "segments": "words", "parts": 3, "to": "fine"},
    {"op": "boundaries", "name": "begun", "rule": "space_like", "at": "start"},
    {"op": "shorten", "segments": "begun"},
    {"op": "attend", "over": "fine", "segments": "begun", "heads": 3, "head_size": 1, "norm": "rms", "to": "means"},
    {"op": "attend", "from": "fine", "over": "means", "segments": "begun"}, {"op": "head"}]})json";

/// The same of GPU code.
constexpr const char *attendsOnce =
    R"json({"sluice": 1, "vocabulary": 14, "context": 7, "batch": 2,
  "precision": {"compute": "bf16"}, "width": 8, "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding", "to": "fine"},
    {"op": "boundaries", "name": "words", "rule": "whitespace", "capacity": 0.9},
    {"op": "shorten", "segments": "words", "method": "max"},
    {"op": "attend", "over": "fine", "segments": "words", "to": "global"},
    {"op": "attend", "from": "fine", "over": "global", "segments": "words", "parts": 2}, {"op": "head"}]})json";

/// Segments that start where a small model's entropy exceeds the entropies of the three rows
/// before, and a predictor that learns where the head's own entropy does.
constexpr const char *spikes =
    R"json({"sluice": 1, "vocabulary": 40, "context": 19, "batch": 3, "width": 8,
  "defaults": {"heads": 2, "feed_forward": 8, "rotary": true},
  "stages": [{"op": "embedding"}, {"op": "layer", "to": "bytes"}, {"op": "loss", "name": "small"},
    {"op": "boundaries", "name": "cuts", "rule": "entropy", "loss": "small", "spike": 3, "at": "start"},
    {"op": "shorten", "segments": "cuts"}, {"op": "layer"},
    {"op": "upsample", "segments": "cuts"}, {"op": "add", "with": "bytes", "to": "fine"},
    {"op": "boundaries", "name": "learned", "rule": "entropy", "loss": "next", "spike": 2, "predictor": 6,
      "mode": "reference-code"},
    {"op": "shorten", "segments": "learned"}, {"op": "upsample", "segments": "learned"},
    {"op": "add", "with": "fine"}, {"op": "head"}]})json";

/// The same of GPU code.
constexpr const char *spikesOnce =
    R"json({"sluice": 1, "vocabulary": 14, "context": 7, "batch": 2,
  "precision": {"compute": "bf16"}, "width": 8, "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding", "positions": "learned", "to": "bytes"}, {"op": "loss", "name": "small"},
    {"op": "boundaries", "name": "cuts", "rule": "entropy", "loss": "small", "spike": 2},
    {"op": "shorten", "segments": "cuts"}, {"op": "upsample", "segments": "cuts"},
    {"op": "add", "with": "bytes", "to": "fine"},
    {"op": "boundaries", "name": "learned", "rule": "entropy", "loss": "next", "spike": 1, "predictor": 4},
    {"op": "shorten", "segments": "learned"}, {"op": "upsample", "segments": "learned"},
    {"op": "add", "with": "fine"}, {"op": "head", "bias": true}]})json";

/// Segments of segments: two stages of routers whose documents end at one token.
constexpr const char *routersOfRouters =
    R"json({"sluice": 1, "vocabulary": 17, "context": 21, "batch": 3, "width": 8,
  "defaults": {"heads": 2, "feed_forward": 8, "rotary": true},
  "stages": [{"op": "embedding"}, {"op": "layer", "to": "x"},
    {"op": "boundaries", "name": "routed", "ratio": 3, "at": "start", "document_end": 5},
    {"op": "shorten", "segments": "routed", "method": "first"}, {"op": "layer", "to": "s"},
    {"op": "boundaries", "name": "outer", "ratio": 2, "at": "start", "document_end": 5},
    {"op": "shorten", "segments": "outer", "method": "first"}, {"op": "layer"},
    {"op": "upsample", "segments": "outer", "method": "smooth"}, {"op": "add", "with": "s"},
    {"op": "upsample", "segments": "routed", "method": "smooth"}, {"op": "add", "with": "x"},
    {"op": "head"}]})json";

/// Segments of groups of tokens, and segments of these: the clock of each moves with the rows
/// below.
constexpr const char *partsOfGroups =
    R"json({"sluice": 1, "vocabulary": 17, "context": 27, "batch": 3, "width": 8,
  "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding", "to": "x"}, {"op": "shift", "by": 1}, {"op": "shorten", "factor": 2},
    {"op": "layer", "to": "twos"},
    {"op": "boundaries", "name": "parts", "predictor": 6, "prior": 0.5},
    {"op": "shorten", "segments": "parts", "to": "parts"},
    {"op": "boundaries", "name": "wholes", "rule": "every", "factor": 2},
    {"op": "shorten", "segments": "wholes"}, {"op": "shift", "by": 1, "start": "null"}, {"op": "layer"},
    {"op": "upsample", "segments": "wholes", "by": 0}, {"op": "add", "with": "parts"},
    {"op": "upsample", "segments": "parts"}, {"op": "add", "with": "twos"},
    {"op": "upsample", "factor": 2}, {"op": "add", "with": "x"}, {"op": "head"}]})json";

/// Two segmentations of words: means of sampled segments that start at bits, after groups of them,
/// and last rows of threes.
constexpr const char *phrasesOfWords =
    R"json({"sluice": 1, "vocabulary": 17, "context": 24, "batch": 3, "width": 8,
  "defaults": {"heads": 2, "feed_forward": 8, "relative": "xl_shared"},
  "stages": [{"op": "embedding", "to": "x"},
    {"op": "boundaries", "name": "words", "rule": "whitespace", "document_end": 3},
    {"op": "shorten", "segments": "words", "method": "max"}, {"op": "layer", "to": "w"},
    {"op": "boundaries", "name": "phrases", "predictor": 6, "prior": 0.6, "at": "start", "document_end": 3},
    {"op": "shorten", "segments": "phrases"}, {"op": "layer"}, {"op": "shift", "by": 2},
    {"op": "shorten", "factor": 2}, {"op": "norm"}, {"op": "upsample", "factor": 2},
    {"op": "upsample", "segments": "phrases"}, {"op": "add", "with": "w", "to": "v"},
    {"op": "boundaries", "name": "threes", "rule": "every", "factor": 3},
    {"op": "shorten", "segments": "threes", "method": "last"}, {"op": "norm"},
    {"op": "upsample", "segments": "threes", "by": 2}, {"op": "add", "with": "v"},
    {"op": "upsample", "segments": "words"}, {"op": "add", "with": "x"}, {"op": "head"}]})json";

} // namespace sluice::testing
