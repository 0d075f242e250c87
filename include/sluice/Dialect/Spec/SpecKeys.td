// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys that several ops share, and objects that are values of keys.

#ifndef SLUICE_SPEC_KEYS_TD
#define SLUICE_SPEC_KEYS_TD

include "sluice/Dialect/Spec/SpecBase.td"

//===----------------------------------------------------------------------===//
// Layer settings
//===----------------------------------------------------------------------===//

def NormKey : WordKey<"norm", Spec_NormFunction, ["layer", "rms"],
                      "layer norm, or RMS norm: x / sqrt(mean(x^2) + epsilon) * weight", "layer">;
def NormEpsilonKey : PositiveKey<"epsilon", "added to the norm's variance", "1e-5", "1e-5">;

def HeadsKey : IntegerKey<"heads", "attention heads H", "required (here or in defaults)"> {
  let hint = "the number of attention heads, here or in \"defaults\"";
  let isRequired = 1;
}
def KeyValueHeadsKey
    : IntegerKey<"key_value_heads",
                 "key and value heads Hkv, for grouped-query attention: query head i uses head i "
                 "div (heads / key_value_heads)",
                 "heads"> {
  let type = "integer dividing heads";
}
def HeadSizeKey : IntegerKey<"head_size", "features per head D", "width / heads (must divide)"> {
  let type = "integer, even if rotary";
}
def PlacementKey : WordKey<"placement", Spec_NormPlacement, ["pre", "post"],
                           "applies the norm before each block, or after its residual sum", "pre">;
def ActivationKey : WordKey<"activation", Spec_ActivationFunction,
                            !filter(word, Spec_ActivationFunction.all, !ne(word, "none")),
                            "activation of the feed-forward block; gelu is exact (erf), swiglu is "
                            "Wout (silu(Wgate h) * (Win h))",
                            "gelu">;
class FeedForwardWidthKey<string meaning, string least>
    : IntegerKey<"feed_forward", meaning, "4 d", least>;
def FeedForwardKey
    : FeedForwardWidthKey<"hidden width of the feed-forward block; 0: no such block", "0">;
def DropoutKey
    : ProbabilityKey<"dropout", "dropout rate after each of the two blocks, before the residual "
                                "is added", "0",
                     "0">;
def FeedForwardDropoutKey
    : ProbabilityKey<"feed_forward_dropout", "on the hidden features of the feed-forward block",
                     "0", "0">;
def AttentionDropoutKey
    : ProbabilityKey<"attention_dropout", "dropout rate of attention probabilities", "0", "0">;
defvar maskType = "string, {\"window\": [a, b]}, {\"tokens\": [a, b]} or {\"block\": rows}";
class MaskValueKey<string meaning, string otherwise, Attr attr>
    : SpecialKey<"mask", maskType, meaning, otherwise, attr> {
  let words = ["causal", "complete", "bidirectional"];
  let section = "MaskSection";
}
def MaskKey
    : MaskValueKey<
          "key positions q visible to a query at position p; complete: on another scale, groups "
          "that have ended; window: p - b < q <= p - a; tokens: a window of the rows' last tokens; "
          "block: q <= p in the block of p",
          "causal", DefaultValuedAttr<Spec_Mask, "::sluice::spec::MaskShape::causal">>;
def RotaryKey
    : SpecialKey<"rotary", "false, true (base 10000) or {\"base\": number}",
                 "rotates pairs of query and key features by the position on the layer's own scale",
                 "false", OptionalAttr<Spec_Number>> {
  let excludesLeast = 1;
  let section = "RotarySection";
}
def RelativeKey : SpecialKey<"relative", "string or an object of one key, as {\"bias\": distances}",
                             "relative position terms of scores: learned biases or vectors by "
                             "distance, or Transformer-XL's terms, with biases per layer or "
                             "shared by all layers",
                             "none", OptionalAttr<Spec_Relative>> {
  let words = ["none", "xl", "xl_shared"];
  let section = "RelativeSection";
}
def DistancesKey : WordKey<"distances", Spec_DistanceUnit, ["tokens", "rows"],
                           "unit of distances in Transformer-XL's sinusoids: tokens, or rows of "
                           "the finer of the layer's scales",
                           "tokens">;
def LshKey : SpecialKey<"lsh", "false or {\"buckets\": number}",
                        "LSH attention: a row attends to earlier rows of its hash bucket, in its "
                        "own chunk of the bucket and in the previous chunk",
                        "false", OptionalAttr<Spec_Lsh>> {
  let section = "LshSection";
}
def BiasKey : BooleanKey<"bias", "adds biases to the layer's linear maps", "true">;
/// Biases of some of the linear maps.
class MapBiasKey<string key, string maps>
    : Key<key, BooleanKind, "boolean", "adds biases to the linear maps of "#maps, "bias",
          OptionalAttr<BoolAttr>>;
def AttentionInBiasKey : MapBiasKey<"attention_in_bias", "queries, keys and values">;
def AttentionOutBiasKey : MapBiasKey<"attention_out_bias", "attention's result">;
def FeedForwardInBiasKey : MapBiasKey<"feed_forward_in_bias", "the feed-forward block's input">;
def FeedForwardOutBiasKey : MapBiasKey<"feed_forward_out_bias", "the feed-forward block's result">;
def ScalesKey
    : SpecialKey<
          "scales", "list of {\"factor\": k, \"tokens\": [a, b]}",
          "splits the heads into one group per entry; a group attends to means of k rows inside "
          "its window",
          "[]",
          OptionalAttr<ConfinedAttr<
              TypedArrayAttrBase<Spec_Scale, "scales of groups of heads">, [ArrayMinCount<1>]>>> {
  let section = "ScaleSection";
}

/// Keys of `defaults`, and of every stage that contains layers.
defvar layerKeys = [HeadsKey, KeyValueHeadsKey, HeadSizeKey, NormKey, PlacementKey, NormEpsilonKey,
                    ActivationKey, DropoutKey, AttentionDropoutKey, MaskKey, RotaryKey, BiasKey,
                    FeedForwardKey, RelativeKey, DistancesKey, ScalesKey, LshKey,
                    FeedForwardDropoutKey, AttentionInBiasKey, AttentionOutBiasKey,
                    FeedForwardInBiasKey, FeedForwardOutBiasKey];

//===----------------------------------------------------------------------===//
// Keys of several stages
//===----------------------------------------------------------------------===//

def FirstRowKey : IntegerKey<"first", "first visible key row; earlier keys are masked in "
                                      "addition to the mask", "0",
                             "0", "", "0">;
class BlockKey<string otherwise>
    : IntegerKey<"block",
                 "rows of a block; as a mask, a query sees the keys of its block up to its own "
                 "position",
                 otherwise, "2">;
class BlockStartKey<string otherwise>
    : IntegerKey<"start", "first row of a full block; the rows before it form a shorter block",
                 otherwise, "0", "", "0"> {
  let type = "integer >= 0, below block";
}
def StartKey : WordKey<"start", Spec_StartRows, ["zeros", "null"],
                       "value of shifted-in rows: zeros, or a trained row", "zeros">;
def ShortenInsideKey : WordKey<"shorten", Spec_ShortenMethod, shortenWords,
                               "method of every shorten stage of the expansion", "average">;
def ShortenWindowKey
    : IntegerKey<
          "shorten_window",
          "window of every shorten stage of the expansion: the number of rows that a group pools, "
          "up to its last row",
          "the factor of each shorten stage">;
class ResultWidthKey<string meaning> : IntegerKey<"width", meaning, "the width of the stream">;
class ProjectionKey<string key, string meaning>
    : WordKey<key, Spec_ActivationFunction,
              !filter(word, Spec_ActivationFunction.all, !ne(word, "swiglu")), meaning, "none">;
class HierarchyKey<string meaning, string example>
    : SpecialKey<"hierarchy", "string", meaning, "required", StrAttr> {
  let hint = "levels such as \"" # example # "\"";
}

def TiedKey : BooleanKey<"tied", "shares the embedding's token.weight", "false">;
def HeadBiasKey : BooleanKey<"bias", "adds a bias [V]", "false">;
def LabelSmoothingKey
    : ProbabilityKey<
          "label_smoothing",
          "probability mass of the target that training spreads over all tokens", "0",
          "0">;
def HeadShiftKey
    : IntegerKey<"shift", "row t uses group (t - shift) div f and is scored against token t + 1",
                 "the scale's factor - 1", "0">;
def HeadFirstKey : IntegerKey<"first", "first scored row", "the shift", "0">;
def HeadTargetKey : TextKey<"target", "string",
                            "input with the target distributions of rows", "next token">;
def HeadWeightsKey
    : TextKey<"weights", "string", "input with the loss weights of rows, in training", "none">;
defvar headKeys = [TiedKey, HeadBiasKey, LabelSmoothingKey, HeadShiftKey, HeadFirstKey,
                   HeadTargetKey, HeadWeightsKey];

//===----------------------------------------------------------------------===//
// Objects that values may be
//===----------------------------------------------------------------------===//

class EndsKey<string key, string meaning, string otherwise>
    : SpecialKey<key, "[a, b], integers with 0 <= a < b", meaning, otherwise, UnitAttr> {
  let hint = "two integers [a, b] with 0 <= a < b";
}
def MaskSection
    : Section<"a mask", [EndsKey<"window", "a query at position p sees keys q with p - b < q <= p "
                                           "- a",
                                 "required">,
                         EndsKey<"tokens",
                                 "a query whose last token is t sees keys whose last token u "
                                 "satisfies t - b < u <= t - a",
                                 "window in its place">,
                         BlockKey<"window in its place">, BlockStartKey<"0, of a block">]>;
def SourceMaskKey
    : MaskValueKey<"mask of this source; as the key \"mask\" of the layer", "causal",
                   OptionalAttr<Spec_Mask>>;
def SourceStreamKey : StreamKey<"stream", "stream that keys and values are computed from",
                                "required"> {
  let hint = "the name of an earlier stage's result";
}
def SourceSection : Section<"a source of keys and values", [SourceStreamKey, SourceMaskKey]>;
def ScaleSection
    : Section<"a scale", [IntegerKey<"factor", "rows of the layer's input per key", "required">,
                          EndsKey<"tokens",
                                  "a query whose last token is t sees groups whose last token u "
                                  "satisfies t - b < u <= t - a",
                                  "required">,
                          WordKey<"grid", Spec_GridKind, ["fixed", "moving"],
                                  "fixed: groups of the input's rows; moving: full groups that "
                                  "end at t - a and every k rows before it",
                                  "fixed">]>;
def RelativeBiasKey
    : IntegerKey<"bias",
                 "a bias per head and distance: the number of distinct distances; larger ones "
                 "share the last bias",
                 "none"> {
  let hint = "the number of distances that are told apart";
}
def SignedBiasKey
    : IntegerKey<"signed_bias",
                 "a bias per head and signed distance: the largest one in either direction, to "
                 "which others are clipped",
                 "none"> {
  let hint = "the distance beyond which all keys have the same bias";
}
def VectorsKey
    : IntegerKey<"vectors",
                 "a vector per signed distance, for all heads, that is added to keys: the largest "
                 "distance in either direction, to which others are clipped",
                 "none"> {
  let hint = "the distance beyond which all keys have the same vector";
}
def RelativeSection : Section<"a relative setting", [RelativeBiasKey, SignedBiasKey, VectorsKey]>;
def RotarySection
    : Section<
          "a rotary setting",
          [PositiveKey<"base", "rotates pair (2i, 2i+1) by p * base^(-2i / head_size)",
                       "required">]>;
def BucketsKey : IntegerKey<"buckets", "buckets per hash", "required", "2", "65536"> {
  let type = "even integer >= 2";
  let hint = "the number of buckets of a hash";
}
def ChunkKey : IntegerKey<"chunk", "rows of a bucket per chunk", "128", "1",
                          "1048576", "128"> {
  let type = "power of two";
}
def HashesKey
    : IntegerKey<"hashes", "hash rounds; a row attends to the keys of all rounds", "2", "1", "64",
                 "2"> {
  let type = "integer >= 1";
}
def LshSection
    : Section<"an lsh setting",
              [BucketsKey, ChunkKey, HashesKey,
               BooleanKey<"causal",
                          "ranks count earlier rows only; false: all rows, as published, which "
                          "leaks future rows",
                          "true">]>;
def TopKey : NumberKey<"top", "number > 0 and <= 1",
                       "for the rule coding_rate, without threshold: share of rows with the "
                       "highest rates, which get bits; leaks future rows",
                       "none"> {
  let excludesLeast = 1;
  let largest = "1";
}
def CapacityKey
    : NumberKey<"capacity", "number > 0 and <= 1",
                "maximum number of segments per row of a batch, as a share of the context; more "
                "segments end the run with an error",
                "1; for the rule every: 1 / factor"> {
  let excludesLeast = 1;
  let largest = "1";
}

#endif // SLUICE_SPEC_KEYS_TD
