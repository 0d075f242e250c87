// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Small models for tests of the step, each with something of its own.
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

/// Segments whose rows close at different steps of a batch: means behind a learned first row and
/// attention by distance; last rows, groups of rows that stand ahead of the closed segments, and
/// predicted bits, read from the closed segment on.
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
    {"op": "boundaries", "name": "guessed", "predictor": 6, "prior": 0.4},
    {"op": "shorten", "segments": "guessed"}, {"op": "norm"},
    {"op": "upsample", "segments": "guessed", "by": 2},
    {"op": "add", "with": "more"}, {"op": "head"}]})json";

/// As many segments as the axis has rows, and rows by distance that are due ahead of them.
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

/// Two inputs, one that fills several parts of the kernel's keys, read on two scales; rows of the
/// batch have all of an input, none and some.
constexpr const char *encoders =
    R"json({"sluice": 1, "vocabulary": 17, "context": 7, "batch": 3, "width": 8,
  "inputs": {"source": {"context": 70}, "hint": {"context": 3, "vocabulary": 5}},
  "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding", "to": "text"},
    {"op": "embedding", "input": "source", "positions": "learned"},
    {"op": "layer", "mask": "bidirectional", "rotary": true}, {"op": "norm", "to": "memory"},
    {"op": "embedding", "input": "hint"}, {"op": "norm", "to": "advice"},
    {"op": "layer", "from": "text", "relative": {"bias": 3}}, {"op": "layer", "over": "memory", "to": "fine"},
    {"op": "shift", "by": 1}, {"op": "shorten", "factor": 2},
    {"op": "layer", "over": "advice", "key_value_heads": 1}, {"op": "upsample", "factor": 2},
    {"op": "add", "with": "fine"}, {"op": "head"}]})json";

/// Bits that begin segments: rows at bits of space-like bytes, spread to them alone, means of the
/// segments before by drawn bits, and a router's rows as moving averages.
constexpr const char *begun =
    R"json({"sluice": 1, "vocabulary": 64, "context": 21, "batch": 3, "width": 8,
  "defaults": {"heads": 2, "feed_forward": 8, "rotary": true},
  "stages": [{"op": "embedding"}, {"op": "layer", "mask": {"window": [0, 3]}, "to": "fine"},
    {"op": "boundaries", "name": "words", "rule": "space_like", "at": "start", "capacity": 0.8},
    {"op": "shorten", "segments": "words", "method": "first"}, {"op": "layer"},
    {"op": "upsample", "segments": "words", "method": "scatter"}, {"op": "add", "with": "fine", "to": "more"},
    {"op": "boundaries", "name": "guessed", "predictor": 6, "prior": 0.4, "at": "start"},
    {"op": "shorten", "segments": "guessed"}, {"op": "norm"},
    {"op": "upsample", "segments": "guessed"}, {"op": "add", "with": "more", "to": "sum"},
    {"op": "boundaries", "name": "routed", "ratio": 3, "at": "start"},
    {"op": "shorten", "segments": "routed", "method": "first"}, {"op": "layer"},
    {"op": "upsample", "segments": "routed", "method": "smooth"}, {"op": "add", "with": "sum"},
    {"op": "head"}]})json";

} // namespace sluice::testing
