// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Settings of layers, and the objects that stand in them.
#include "LayerKeys.h"

namespace sluice::spec {

const KeyInfo normKey = {"norm",
                         "string",
                         "layer norm, or RMS norm: x / sqrt(mean(x^2) + epsilon) * weight",
                         "layer",
                         {"layer", "rms"}};
const KeyInfo normEpsilonKey = {
    "epsilon", "number > 0", "added to the norm's variance", "1e-5", {}};

const Keys layerSettings = {
    {"heads", "integer >= 1", "attention heads H", "required (here or in defaults)", {}},
    {"key_value_heads",
     "integer dividing heads",
     "key and value heads Hkv; query head i reads head i div (heads / key_value_heads)",
     "heads",
     {}},
    {"head_size",
     "integer, even if rotary",
     "features of a head D",
     "width / heads (must divide)",
     {}},
    normKey,
    {"placement",
     "string",
     "the norm stands before each block, or after its residual sum",
     "pre",
     {"pre", "post"}},
    normEpsilonKey,
    {"activation",
     "string",
     "of the feed-forward block; gelu is exact (erf), swiglu is Wout (silu(Wgate h) * (Win h))",
     "gelu",
     {activationNames.begin(), activationNames.end()}},
    {"feed_forward", "integer >= 1", "hidden width of the feed-forward block", "4 d", {}},
    {"dropout",
     "number >= 0 and < 1",
     "after each of the two blocks, before the residual is added",
     "0",
     {}},
    {"attention_dropout", "number >= 0 and < 1", "on attention probabilities", "0", {}},
    {"mask",
     "string, {\"window\": [a, b]}, {\"tokens\": [a, b]} or {\"block\": rows}",
     "which positions q a query at position p reads; complete: over another scale, groups that "
     "have ended; window: p - b < q <= p - a; tokens: the same of their last tokens; block: up to "
     "p "
     "in its block",
     "causal",
     {"causal", "complete", "bidirectional"}},
    {"rotary",
     "false, true (base 10000) or {\"base\": number}",
     "rotates pairs of query and key features by the position on the layer's own scale",
     "false",
     {}},
    {"relative",
     "string or {\"bias\": distances}",
     "what scores have by the distance of query and key: a learned bias a head, or "
     "Transformer-XL's "
     "terms, with biases of each layer or of all",
     "none",
     {"none", "xl", "xl_shared"}},
    {"distances",
     "string",
     "what sinusoids of Transformer-XL's terms count: tokens, or steps of the finer of the layer's "
     "scales",
     "tokens",
     {"tokens", "rows"}},
    {"lsh",
     "false or {\"buckets\": number}",
     "attention by hashes: a row reads earlier rows of its own bucket, in its chunk of the bucket "
     "and in the one before",
     "false",
     {}},
    {"bias", "boolean", "biases of the layer's linear maps", "true", {}},
    {"scales",
     "list of {\"factor\": k, \"tokens\": [a, b]}",
     "the heads in as many groups, of which each reads means of groups of k inside its window",
     "[]",
     {}}};

KeyInfo blockKey(std::string_view otherwise) {
  return {"block",
          "integer >= 2",
          "rows of a block; as a mask, a query reads the keys up to its own in its block",
          otherwise,
          {}};
}
KeyInfo blockStartKey(std::string_view otherwise) {
  return {"start",
          "integer >= 0, below block",
          "a row at which a block starts; the rows before it are a shorter one",
          otherwise,
          {}};
}

const Keys maskKeys = {{"window",
                        "[a, b], integers with 0 <= a < b",
                        "a query at position p reads q with p - b < q <= p - a",
                        "required",
                        {}},
                       {"tokens",
                        "[a, b], integers with 0 <= a < b",
                        "a query whose last token is t reads keys whose last token u has "
                        "t - b < u <= t - a",
                        "window in its place",
                        {}},
                       blockKey("window in its place"),
                       blockStartKey("0, of a block")};
const Keys sourceKeys = {
    {"stream", "name of a stream", "what keys and values are linear maps of", "required", {}},
    {"mask",
     "string, {\"window\": [a, b]}, {\"tokens\": [a, b]} or {\"block\": rows}",
     "which positions of it a query reads; otherwise as the layer's says",
     "causal",
     {"causal", "complete", "bidirectional"}}};
const Keys scaleKeys = {
    {"factor", "integer >= 1", "rows of the layer's input in one key", "required", {}},
    {"tokens",
     "[a, b], integers with 0 <= a < b",
     "a query whose last token is t reads groups whose last token u has t - b < u <= t - a",
     "required",
     {}},
    {"grid",
     "string",
     "groups of the input's rows, or whole ones that end at t - a and every k rows before",
     "fixed",
     {"fixed", "moving"}}};
const Keys relativeKeys = {{"bias",
                            "integer >= 1",
                            "distances that are told apart; those beyond share the last one's bias",
                            "required",
                            {}}};
const Keys rotaryKeys = {
    {"base", "number > 0", "pair (2i, 2i+1) turns by p * base^(-2i / head_size)", "required", {}}};

const Keys lshKeys = {
    {"buckets", "even integer >= 2", "buckets of a hash", "required", {}},
    {"chunk", "power of two", "rows of a bucket that are ranked together", "128", {}},
    {"hashes", "integer >= 1", "hashes, whose keys a row reads together", "2", {}},
    {"causal",
     "boolean",
     "ranks count earlier rows; false: all rows, as published, which leaks",
     "true",
     {}}};

} // namespace sluice::spec
