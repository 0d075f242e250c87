// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Specs of odd sizes.
#include "Specs.h"

namespace sluice::testing {

/// 3 inside 2; 13 fills neither the last pair nor the last group of six.
static const char *const postNorm =
    R"json({"sluice": 1, "vocabulary": 257, "context": 13, "batch": 3, "width": 40,
  "defaults": {"heads": 5, "placement": "post", "norm": "rms", "activation": "swiglu", "feed_forward": 27},
  "stages": [{"op": "embedding", "positions": "sinusoidal"},
             {"op": "hourglass", "hierarchy": "1@1 1@2 1@6 1@2 1@1"},
             {"op": "head", "tied": true, "bias": true}]})json";

/// Every dropout, with rotary positions and one key/value head.
static const char *const dropout =
    R"json({"sluice": 1, "vocabulary": 257, "context": 17, "batch": 3, "width": 40,
  "defaults": {"heads": 5, "key_value_heads": 1, "rotary": {"base": 500}, "feed_forward": 50, "dropout": 0.1,
               "attention_dropout": 0.2},
  "stages": [{"op": "embedding", "dropout": 0.15},
             {"op": "hourglass", "hierarchy": "1@1 1@3 1@1"},
             {"op": "dropout", "rate": 0.3},
             {"op": "head", "bias": true}]})json";

/// Separate blocks of layers. Queries, keys and values come from streams of two scales and two
/// widths, or two of them from one stream; every dropout; a scaled embedding; biases of some linear
/// maps.
static const char *const blocksApart =
    R"json({"sluice": 1, "vocabulary": 53, "context": 23, "batch": 3, "width": 20,
  "defaults": {"heads": 4, "key_value_heads": 2, "head_size": 6, "feed_forward": 24, "dropout": 0.1,
               "attention_dropout": 0.2, "feed_forward_dropout": 0.15,
               "attention_out_bias": false, "feed_forward_in_bias": false},
  "stages": [{"op": "embedding", "positions": "learned", "scale": 4.5, "deviation": 0.22},
             {"op": "layer", "feed_forward": 0, "rotary": true, "to": "x"},
             {"op": "feed_forward", "activation": "swiglu", "placement": "post", "to": "y"},
             {"op": "shift", "by": 2},
             {"op": "shorten", "factor": 3, "to": "keys"},
             {"op": "feed_forward", "bias": false},
             {"op": "project", "width": 12, "to": "values"},
             {"op": "attention", "from": "y", "query": "x", "key": "keys", "value": "values",
              "mask": {"window": [0, 4]}, "to": "z"},
             {"op": "attention", "query": "z", "key": "z", "value": "x", "placement": "post", "norm": "rms"},
             {"op": "head", "tied": true}]})json";

/// Windows, one of which is empty for the first rows; heads wider than the width and a head size of
/// 6.
static const char *const windows =
    R"json({"sluice": 1, "vocabulary": 100, "context": 21, "batch": 3, "width": 20,
  "defaults": {"heads": 4, "key_value_heads": 2, "head_size": 6, "activation": "relu", "bias": false},
  "stages": [{"op": "embedding", "positions": "learned"},
             {"op": "layer", "mask": {"window": [0, 3]}},
             {"op": "layer", "mask": {"window": [1, 6]}, "placement": "post", "norm": "rms"},
             {"op": "head", "tied": true}]})json";

static const char *const resampling =
    R"json({"sluice": 1, "vocabulary": 61, "context": 22, "batch": 2, "width": 24,
  "defaults": {"heads": 3, "activation": "gelu_tanh", "feed_forward": 33},
  "stages": [{"op": "embedding", "positions": "sinusoidal"},
             {"op": "hourglass", "hierarchy": "0@1 1@5 0@1", "shorten": "convolution", "shorten_window": 3, "upsample": "linear", "shift": 6},
             {"op": "head"}]})json";

/// Streams joined by name; shifts without shortening, a shift before an upsampling, a shift of an
/// upsampling.
static const char *const streams =
    R"json({"sluice": 1, "vocabulary": 37, "context": 19, "batch": 3, "width": 16,
  "defaults": {"heads": 2, "feed_forward": 20},
  "stages": [{"op": "embedding", "positions": "learned", "to": "fine"},
             {"op": "shift", "by": 4},
             {"op": "shorten", "factor": 2},
             {"op": "layer", "rotary": true, "to": "pairs"},
             {"op": "shorten", "factor": 2, "method": "linear"},
             {"op": "shift", "by": 1},
             {"op": "upsample", "factor": 2},
             {"op": "add", "with": "pairs"},
             {"op": "upsample", "factor": 2, "method": "linear"},
             {"op": "shift", "by": 1},
             {"op": "add", "with": "fine"},
             {"op": "norm", "norm": "rms"},
             {"op": "head"}]})json";

/// 134 rows: several blocks of the head's rows, and a vocabulary past a whole block of its tokens;
/// 67 positions: several tiles of attention; a hidden width beyond one panel.
static const char *const blocks =
    R"json({"sluice": 1, "vocabulary": 257, "context": 67, "batch": 2, "width": 72,
  "defaults": {"heads": 2, "feed_forward": 201, "rotary": true, "attention_dropout": 0.1},
  "stages": [{"op": "embedding"},
             {"op": "layers", "count": 1},
             {"op": "norm"},
             {"op": "head", "bias": true}]})json";

/// Three losses: of fine rows with a head of its own, of groups before and after a shift; smoothed
/// labels. The shortest input ends before any row of groups is scored.
static const char *const losses =
    R"json({"sluice": 1, "vocabulary": 61, "context": 19, "batch": 3, "width": 24,
  "defaults": {"heads": 3, "feed_forward": 33},
  "stages": [{"op": "embedding"},
             {"op": "layer", "to": "fine"},
             {"op": "loss", "name": "early", "factor": 0.25, "label_smoothing": 0.2},
             {"op": "shift", "by": 3},
             {"op": "shorten", "factor": 4},
             {"op": "layer"},
             {"op": "norm", "to": "coarse"},
             {"op": "loss", "name": "bag", "factor": 0.5, "tied": true, "bias": true},
             {"op": "loss", "name": "soon", "shift": 0},
             {"op": "upsample", "factor": 4},
             {"op": "add", "with": "fine"},
             {"op": "norm"},
             {"op": "head", "tied": true, "label_smoothing": 0.1}]})json";

/// Losses against distributions, of fine rows and of groups, tied and not; rows with weights, some
/// of them zero. The head's training target differs from its evaluation target.
static const char *const softTargets =
    R"json({"sluice": 1, "vocabulary": 37, "context": 19, "batch": 3, "width": 24,
  "inputs": {"teacher": {"axis": "tokens", "role": "target"},
             "mask": {"axis": "tokens", "type": "numbers", "role": "weight"}},
  "defaults": {"heads": 3, "feed_forward": 33},
  "stages": [{"op": "embedding"},
             {"op": "layer", "to": "fine"},
             {"op": "loss", "name": "distill", "factor": 0.5, "target": "teacher", "weights": "mask"},
             {"op": "shift", "by": 1},
             {"op": "shorten", "factor": 2},
             {"op": "layer"},
             {"op": "norm", "to": "coarse"},
             {"op": "loss", "name": "bag", "tied": true, "bias": true, "target": "teacher"},
             {"op": "upsample", "factor": 2},
             {"op": "add", "with": "fine"},
             {"op": "norm"},
             {"op": "head", "tied": true, "target": "teacher", "weights": "mask"}]})json";

/// The minimum of every size.
static const char *const least =
    R"json({"sluice": 1, "vocabulary": 2, "context": 1, "batch": 1, "width": 1,
  "defaults": {"heads": 1, "feed_forward": 1, "norm": "rms"},
  "stages": [{"op": "embedding"},
             {"op": "hourglass", "hierarchy": "1@1 1@2 1@1"},
             {"op": "head"}]})json";

/// A linear upsampling with two lazy readers: adds the folds of its two gradients.
static const char *const foldedTwice =
    R"json({"sluice": 1, "vocabulary": 29, "context": 14, "batch": 2, "width": 12,
  "defaults": {"heads": 2, "feed_forward": 16},
  "stages": [{"op": "embedding"},
             {"op": "shift", "by": 2},
             {"op": "shorten", "factor": 3, "method": "linear"},
             {"op": "layer"},
             {"op": "upsample", "factor": 3, "method": "linear"},
             {"op": "layer", "mask": {"window": [0, 3]}},
             {"op": "head"}]})json";

/// Attention resampling, both ways: coarse queries over fine keys, fine queries over coarse ones.
static const char *const overStreams =
    R"json({"sluice": 1, "vocabulary": 61, "context": 22, "batch": 2, "width": 24,
  "defaults": {"heads": 3, "feed_forward": 33},
  "stages": [{"op": "embedding", "positions": "sinusoidal"},
             {"op": "layer", "to": "x"},
             {"op": "shift", "by": 2},
             {"op": "shorten", "factor": 3},
             {"op": "layer", "over": "x", "to": "y"},
             {"op": "layer", "from": "x", "over": "y"},
             {"op": "add", "with": "x"},
             {"op": "head"}]})json";

/// Factors of which neither divides the other, complete groups, windows, a stream read by two
/// layers, and every dropout.
static const char *const overScales =
    R"json({"sluice": 1, "vocabulary": 43, "context": 37, "batch": 3, "width": 20,
  "defaults": {"heads": 4, "key_value_heads": 2, "head_size": 6, "placement": "post", "norm": "rms",
               "feed_forward": 24, "dropout": 0.1, "attention_dropout": 0.2},
  "stages": [{"op": "embedding", "to": "x"},
             {"op": "shorten", "factor": 3, "to": "threes"},
             {"op": "shorten", "from": "x", "factor": 2},
             {"op": "layer", "over": "threes", "mask": "complete", "bias": false, "to": "twos"},
             {"op": "layer", "from": "x", "over": "twos", "mask": "complete"},
             {"op": "layer", "over": "threes", "mask": {"window": [1, 4]}},
             {"op": "layer", "over": "x", "mask": {"window": [0, 5]}},
             {"op": "head"}]})json";

/// Maxima of groups, of maxima again, after shifts that leave empty groups, and of groups of an
/// hourglass.
static const char *const maxima =
    R"json({"sluice": 1, "vocabulary": 41, "context": 19, "batch": 3, "width": 20,
  "defaults": {"heads": 2, "feed_forward": 24, "activation": "relu_squared"},
  "stages": [{"op": "embedding", "positions": "learned", "to": "fine"},
             {"op": "shift", "by": 6},
             {"op": "shorten", "factor": 3, "method": "max", "to": "thirds"},
             {"op": "shift", "by": 2},
             {"op": "shorten", "factor": 2, "method": "max"},
             {"op": "layer"},
             {"op": "upsample", "factor": 2},
             {"op": "add", "with": "thirds"},
             {"op": "upsample", "factor": 3, "method": "linear"},
             {"op": "add", "with": "fine"},
             {"op": "hourglass", "hierarchy": "1@1 1@4 1@1", "shorten": "max", "shorten_window": 6},
             {"op": "head"}]})json";

/// Windows of another size than their step: complete groups and parts of them, gaps, a moving
/// maximum and a causal convolution; a transposed convolution, and a repeat read by windows past
/// its end.
static const char *const convolutions =
    R"json({"sluice": 1, "vocabulary": 41, "context": 19, "batch": 3, "width": 20,
  "defaults": {"heads": 2, "feed_forward": 24},
  "stages": [{"op": "embedding", "positions": "learned"},
             {"op": "shorten", "factor": 1, "window": 3},
             {"op": "norm"},
             {"op": "shorten", "factor": 1, "window": 4, "method": "convolution", "to": "fine"},
             {"op": "shift", "by": 2},
             {"op": "shorten", "factor": 3, "window": 7, "method": "convolution", "to": "thirds"},
             {"op": "shorten", "factor": 1, "window": 3, "method": "max"},
             {"op": "shift", "by": 1},
             {"op": "shorten", "factor": 2, "window": 5},
             {"op": "layer"},
             {"op": "upsample", "factor": 2, "window": 6, "method": "transposed"},
             {"op": "add", "with": "thirds"},
             {"op": "upsample", "factor": 3, "to": "wide"},
             {"op": "add", "with": "fine", "to": "sum"},
             {"op": "shift", "by": 3},
             {"op": "shorten", "factor": 4, "window": 8},
             {"op": "upsample", "factor": 4},
             {"op": "add", "with": "sum", "to": "again"},
             {"op": "shift", "by": 3},
             {"op": "shorten", "factor": 4, "window": 9, "method": "max", "to": "maxima"},
             {"op": "shift", "from": "wide", "by": 3},
             {"op": "shorten", "factor": 4, "window": 2},
             {"op": "add", "with": "maxima"},
             {"op": "upsample", "factor": 4},
             {"op": "add", "with": "again"},
             {"op": "head"}]})json";

/// An encoder of two streams that rotates and one that drops out, of different lengths, each read
/// by a decoder.
static const char *const encoders =
    R"json({"sluice": 1, "vocabulary": 37, "context": 13, "batch": 3, "width": 24,
  "inputs": {"source": {"context": 19, "vocabulary": 23}, "hint": {"context": 5},
             "tag": {"on": "source", "vocabulary": 5}},
  "defaults": {"heads": 3, "key_value_heads": 1, "feed_forward": 20},
  "stages": [{"op": "embedding", "positions": "sinusoidal", "to": "text"},
             {"op": "embedding", "input": "tag", "to": "tags"},
             {"op": "embedding", "input": "source", "positions": "learned"},
             {"op": "add", "with": "tags"},
             {"op": "layer", "mask": "bidirectional", "rotary": true},
             {"op": "layers", "count": 1, "mask": "bidirectional", "placement": "post"},
             {"op": "norm", "to": "memory"},
             {"op": "embedding", "input": "hint", "positions": "sinusoidal", "dropout": 0.1},
             {"op": "layer", "attention_dropout": 0.2, "to": "advice"},
             {"op": "layer", "from": "text"},
             {"op": "layer", "over": "memory", "attention_dropout": 0.1},
             {"op": "shift", "by": 1},
             {"op": "shorten", "factor": 2},
             {"op": "layer", "over": "advice", "placement": "post", "bias": false},
             {"op": "upsample", "factor": 2},
             {"op": "add", "with": "text"},
             {"op": "head", "tied": true}]})json";

/// Segments of inputs, by whitespace, by tokens of the input or of another one on its axis, and by
/// threes: means, sums, last rows and maxima, layers on words, words back to their rows, and a
/// decoder that reads words.
static const char *const givenSegments =
    R"json({"sluice": 1, "vocabulary": 37, "context": 13, "batch": 3, "width": 24,
  "inputs": {"source": {"context": 19}, "bits": {"context": 11, "vocabulary": 3},
             "ends": {"on": "source", "vocabulary": 2}},
  "defaults": {"heads": 3, "feed_forward": 20},
  "stages": [{"op": "embedding", "positions": "sinusoidal", "to": "text"},
             {"op": "embedding", "input": "source", "positions": "learned"},
             {"op": "layer", "mask": "bidirectional", "to": "rows"},
             {"op": "boundaries", "name": "words", "rule": "whitespace"},
             {"op": "shorten", "segments": "words", "to": "means"},
             {"op": "shorten", "from": "rows", "segments": "words", "method": "last"},
             {"op": "add", "with": "means"},
             {"op": "layer", "mask": "bidirectional", "attention_dropout": 0.1, "to": "coarse"},
             {"op": "project", "width": 16},
             {"op": "upsample", "segments": "words", "method": "own", "to": "spread"},
             {"op": "project", "from": "rows", "with": "spread", "to": "memory"},
             {"op": "boundaries", "name": "threes", "rule": "every", "factor": 3},
             {"op": "shorten", "segments": "threes", "method": "max"},
             {"op": "layer", "placement": "post", "to": "groups"},
             {"op": "boundaries", "from": "rows", "name": "ended", "rule": "bits", "bits": "ends"},
             {"op": "shorten", "from": "rows", "segments": "ended", "to": "endings"},
             {"op": "embedding", "input": "bits"},
             {"op": "boundaries", "name": "marked", "rule": "bits", "bits": "bits"},
             {"op": "shorten", "segments": "marked", "method": "sum"},
             {"op": "norm", "to": "sums"},
             {"op": "layer", "from": "text", "over": "coarse"},
             {"op": "layer", "over": "memory"},
             {"op": "layer", "over": "groups", "placement": "post"},
             {"op": "layer", "over": "endings"},
             {"op": "layer", "over": "sums"},
             {"op": "head", "tied": true}]})json";

/// Groups of an input's rows, whose number no group divides: every method in both directions,
/// windows, shifts and projections between scales, and a decoder that reads groups.
static const char *const givenGroups =
    R"json({"sluice": 1, "vocabulary": 37, "context": 13, "batch": 3, "width": 24,
  "inputs": {"source": {"context": 19}},
  "defaults": {"heads": 3, "feed_forward": 20},
  "stages": [{"op": "embedding", "positions": "sinusoidal", "to": "text"},
             {"op": "embedding", "input": "source", "positions": "learned"},
             {"op": "layer", "mask": "bidirectional", "to": "rows"},
             {"op": "shift", "by": 2},
             {"op": "shorten", "factor": 3, "method": "max", "to": "maxima"},
             {"op": "shorten", "from": "rows", "factor": 3, "window": 4},
             {"op": "project", "with": "maxima"},
             {"op": "layer", "mask": "bidirectional", "to": "threes"},
             {"op": "shorten", "factor": 2, "method": "convolution", "to": "sixes"},
             {"op": "upsample", "factor": 2, "method": "linear"},
             {"op": "add", "with": "threes"},
             {"op": "upsample", "factor": 3, "window": 6, "method": "transposed"},
             {"op": "project", "with": "rows", "activation": "gelu_tanh", "to": "fine"},
             {"op": "shorten", "factor": 4, "method": "concatenate"},
             {"op": "norm"},
             {"op": "upsample", "factor": 4, "method": "split"},
             {"op": "add", "with": "fine"},
             {"op": "norm", "to": "memory"},
             {"op": "layer", "from": "text", "over": "sixes"},
             {"op": "layer", "over": "threes"},
             {"op": "layer", "over": "memory"},
             {"op": "head", "tied": true}]})json";

const std::vector<Family> &familiesOfInputs() {
  static const std::vector<Family> all = {
      {"encoders", encoders}, {"given_segments", givenSegments}, {"given_groups", givenGroups}};
  return all;
}

/// Biases by distance on two scales, fewer and more distances than positions, with rotation,
/// grouped heads, a window and dropout.
static const char *const relativeBias =
    R"json({"sluice": 1, "vocabulary": 43, "context": 29, "batch": 3, "width": 20,
  "defaults": {"heads": 4, "key_value_heads": 2, "head_size": 6, "feed_forward": 24, "relative": {"bias": 7},
               "attention_dropout": 0.2},
  "stages": [{"op": "embedding"},
             {"op": "layer", "rotary": true},
             {"op": "hourglass", "hierarchy": "0@1 1@3 0@1", "relative": {"bias": 1000}},
             {"op": "layer", "mask": {"window": [2, 9]}, "placement": "post"},
             {"op": "head"}]})json";

/// Transformer-XL's terms: biases of layers and shared ones, on two scales, with grouped heads, a
/// window and dropout.
static const char *const transformerXl =
    R"json({"sluice": 1, "vocabulary": 47, "context": 29, "batch": 3, "width": 20,
  "defaults": {"heads": 4, "key_value_heads": 2, "head_size": 6, "feed_forward": 24, "relative": "xl_shared",
               "attention_dropout": 0.2},
  "stages": [{"op": "embedding"},
             {"op": "hourglass", "hierarchy": "1@1 1@3 0@1"},
             {"op": "layer", "mask": {"window": [2, 9]}, "placement": "post", "bias": false, "relative": "xl"},
             {"op": "head"}]})json";

/// Distance terms over several blocks of queries and keys, and a head of a width that fills no
/// whole vectors.
static const char *const distanceBlocks =
    R"json({"sluice": 1, "vocabulary": 37, "context": 67, "batch": 2, "width": 20,
  "defaults": {"heads": 1, "feed_forward": 24},
  "stages": [{"op": "embedding"},
             {"op": "layer", "relative": "xl"},
             {"op": "layer", "relative": {"bias": 50}},
             {"op": "head"}]})json";

/// Scales from the coarsest down, each from its own first row on, with losses of bags; every
/// dropout.
static const char *const topDown =
    R"json({"sluice": 1, "vocabulary": 47, "context": 29, "batch": 3, "width": 20,
  "defaults": {"heads": 2, "feed_forward": 24, "placement": "post", "dropout": 0.1,
               "attention_dropout": 0.2},
  "stages": [{"op": "embedding", "positions": "learned"},
             {"op": "top_down", "hierarchy": "1@8 1@4 1@1", "upsample": "linear", "shorten_window": 9,
              "projection_activation": "gelu", "bags": 0.3},
             {"op": "head", "first": 7}]})json";

/// Keys that begin past a block of them, and on a coarse scale; projections of one stream and two.
static const char *const firstKeys =
    R"json({"sluice": 1, "vocabulary": 31, "context": 90, "batch": 2, "width": 16,
  "defaults": {"heads": 2, "feed_forward": 20},
  "stages": [{"op": "embedding", "to": "fine"},
             {"op": "layer", "first": 70},
             {"op": "project", "activation": "relu", "bias": false},
             {"op": "shorten", "factor": 4, "method": "linear"},
             {"op": "layer", "mask": {"window": [0, 3]}, "first": 2},
             {"op": "upsample", "factor": 4},
             {"op": "shift", "by": 3},
             {"op": "project", "with": "fine"},
             {"op": "head", "bias": true, "first": 11}]})json";
/// Distances between scales: coarse queries over fine keys and vice versa, between ends, under a
/// window, and of factors with their own step.
static const char *const overDistances =
    R"json({"sluice": 1, "vocabulary": 37, "context": 43, "batch": 2, "width": 20,
  "defaults": {"heads": 2, "head_size": 6, "feed_forward": 24},
  "stages": [{"op": "embedding", "to": "x"},
             {"op": "shift", "by": 3},
             {"op": "shorten", "factor": 4},
             {"op": "layer", "over": "x", "relative": "xl_shared", "attention_norm": false, "to": "fours"},
             {"op": "layer", "from": "x", "over": "fours", "relative": "xl_shared", "to": "fine"},
             {"op": "shift", "from": "x", "by": 5},
             {"op": "shorten", "factor": 6},
             {"op": "layer", "over": "fours", "relative": "xl", "distances": "rows", "attention_dropout": 0.2, "to": "sixes"},
             {"op": "shorten", "from": "x", "factor": 3, "to": "threes"},
             {"op": "layer", "from": "fine", "over": "threes", "mask": "complete", "relative": {"bias": 9}},
             {"op": "layer", "over": "sixes", "mask": {"window": [1, 4]}, "relative": {"bias": 100}},
             {"op": "head"}]})json";

/// Learned first rows: of a shift, of rows that an hourglass upsampled on two levels, and of scales
/// from the coarsest down. Then means of groups that end at the query, in addition to a window of
/// tokens.
static const char *const starts =
    R"json({"sluice": 1, "vocabulary": 37, "context": 29, "batch": 3, "width": 20,
  "defaults": {"heads": 4, "key_value_heads": 2, "head_size": 4, "feed_forward": 24},
  "stages": [{"op": "embedding"},
             {"op": "shift", "by": 1, "start": "null"},
             {"op": "hourglass", "hierarchy": "0@1 0@2 0@6 0@2 0@1", "shifted": "output", "start": "null"},
             {"op": "top_down", "hierarchy": "0@4 0@1", "start": "null", "bags": 0.3},
             {"op": "layer", "attention_dropout": 0.2,
              "scales": [{"factor": 1, "tokens": [0, 5]}, {"factor": 4, "tokens": [3, 26], "grid": "moving"}]},
             {"op": "head", "first": 3}]})json";

/// Segments of segments, whose bits are by position and by the word-final token; groups of either.
static const char *const nestedSegments =
    R"json({"sluice": 1, "vocabulary": 37, "context": 29, "batch": 3, "width": 20,
  "defaults": {"heads": 2, "head_size": 6, "feed_forward": 24, "relative": {"bias": 5}},
  "stages": [{"op": "embedding", "to": "x"},
             {"op": "boundaries", "name": "words", "rule": "whitespace"},
             {"op": "shorten", "segments": "words", "to": "w"},
             {"op": "hourglass", "hierarchy": "0@1 1@2 1@1"},
             {"op": "boundaries", "name": "pairs", "rule": "every", "factor": 2},
             {"op": "shorten", "segments": "pairs", "method": "last"},
             {"op": "boundaries", "name": "all", "rule": "whitespace"},
             {"op": "shift", "by": 2, "start": "null"},
             {"op": "shorten", "factor": 2, "method": "linear"},
             {"op": "upsample", "factor": 2, "method": "linear", "to": "p"},
             {"op": "upsample", "segments": "pairs", "by": 0, "to": "back"},
             {"op": "shorten", "from": "p", "segments": "all"},
             {"op": "upsample", "segments": "all", "by": 2},
             {"op": "upsample", "segments": "pairs"},
             {"op": "add", "with": "back"}, {"op": "add", "with": "w"},
             {"op": "upsample", "segments": "words"}, {"op": "add", "with": "x"},
             {"op": "layer"}, {"op": "head"}]})json";

/// Predicted segments of groups of tokens, and of these segments.
static const char *const groupedSegments =
    R"json({"sluice": 1, "vocabulary": 37, "context": 31, "batch": 2, "width": 20,
  "defaults": {"heads": 2, "head_size": 6, "feed_forward": 24},
  "stages": [{"op": "embedding", "to": "x"},
             {"op": "shift", "by": 1},
             {"op": "shorten", "factor": 2}, {"op": "layer", "to": "twos"},
             {"op": "boundaries", "name": "parts", "rule": "every", "factor": 2, "predictor": 6},
             {"op": "shorten", "segments": "parts", "to": "parts"},
             {"op": "boundaries", "name": "wholes", "rule": "every", "factor": 3, "predictor": 5, "weight": 0.5},
             {"op": "shorten", "segments": "wholes"}, {"op": "layer"},
             {"op": "upsample", "segments": "wholes"}, {"op": "add", "with": "parts"},
             {"op": "upsample", "segments": "parts"}, {"op": "add", "with": "twos"},
             {"op": "upsample", "factor": 2}, {"op": "add", "with": "x"},
             {"op": "layer"}, {"op": "head"}]})json";

/// Segments that start at bits: of space-like bytes, whose first rows return only to them, and
/// means of threes.
static const char *const begunSegments =
    R"json({"sluice": 1, "vocabulary": 60, "context": 27, "batch": 3, "width": 20,
  "defaults": {"heads": 2, "head_size": 6, "feed_forward": 24, "norm": "rms", "rotary": true},
  "stages": [{"op": "embedding", "to": "x"},
             {"op": "boundaries", "name": "words", "rule": "space_like", "at": "start",
              "document_end": 50},
             {"op": "shorten", "segments": "words", "method": "first"}, {"op": "layer"},
             {"op": "upsample", "segments": "words", "method": "scatter"}, {"op": "add", "with": "x"},
             {"op": "layer", "to": "y"},
             {"op": "boundaries", "name": "threes", "rule": "every", "factor": 3, "at": "start"},
             {"op": "shorten", "segments": "threes"}, {"op": "norm"},
             {"op": "upsample", "segments": "threes"}, {"op": "add", "with": "y"},
             {"op": "head"}]})json";

/// Two stages of routers.
static const char *const routedSegments =
    R"json({"sluice": 1, "vocabulary": 37, "context": 27, "batch": 3, "width": 20,
  "defaults": {"heads": 2, "head_size": 6, "feed_forward": 24, "rotary": true},
  "stages": [{"op": "embedding"}, {"op": "layer", "to": "x"},
             {"op": "boundaries", "name": "routed", "ratio": 3, "at": "start", "weight": 0.5,
              "document_end": 5},
             {"op": "shorten", "segments": "routed", "method": "first"}, {"op": "layer", "to": "s"},
             {"op": "boundaries", "name": "outer", "ratio": 2, "at": "start", "weight": 0.25,
              "document_end": 5},
             {"op": "shorten", "segments": "outer", "method": "first"}, {"op": "layer"},
             {"op": "upsample", "segments": "outer", "method": "smooth"}, {"op": "add", "with": "s"},
             {"op": "upsample", "segments": "routed", "method": "smooth"}, {"op": "add", "with": "x"},
             {"op": "head"}]})json";

const std::vector<Family> &familiesOfRouters() {
  static const std::vector<Family> all = {{"RoutedSegments", routedSegments}};
  return all;
}

const std::vector<Family> &familiesOfSegments() {
  static const std::vector<Family> all = {{"NestedSegments", nestedSegments},
                                          {"GroupedSegments", groupedSegments},
                                          {"BegunSegments", begunSegments}};
  return all;
}

const std::vector<Family> &families() {
  static const std::vector<Family> all = {{"RelativeBias", relativeBias},
                                          {"TransformerXl", transformerXl},
                                          {"DistanceBlocks", distanceBlocks},
                                          {"OverDistances", overDistances},
                                          {"PostNorm", postNorm},
                                          {"Dropout", dropout},
                                          {"BlocksApart", blocksApart},
                                          {"Windows", windows},
                                          {"Resampling", resampling},
                                          {"Streams", streams},
                                          {"Blocks", blocks},
                                          {"FoldedTwice", foldedTwice},
                                          {"Maxima", maxima},
                                          {"Convolutions", convolutions},
                                          {"Least", least},
                                          {"OverStreams", overStreams},
                                          {"OverScales", overScales},
                                          {"Losses", losses},
                                          {"SoftTargets", softTargets},
                                          {"TopDown", topDown},
                                          {"FirstKeys", firstKeys},
                                          {"Starts", starts}};
  return all;
}

std::string buildStack(const std::string &stages) {
  return R"json({"sluice": 1, "vocabulary": 48, "context": 24, "batch": 2, "width": 32,
    "defaults": {"heads": 2, "feed_forward": 48},
    "stages": [{"op": "embedding"}, )json" +
         stages + R"json({"op": "head"}]})json";
}

} // namespace sluice::testing
