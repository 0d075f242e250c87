// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys that several ops have in common, and the objects that values of keys may be.

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
                 "key and value heads Hkv; query head i reads head i div (heads / key_value_heads)",
                 "heads"> {
  let type = "integer dividing heads";
}
def HeadSizeKey : IntegerKey<"head_size", "features of a head D", "width / heads (must divide)"> {
  let type = "integer, even if rotary";
}
def PlacementKey : WordKey<"placement", Spec_NormPlacement, ["pre", "post"],
                           "the norm precedes each block, or after its residual sum", "pre">;
def ActivationKey : WordKey<"activation", Spec_ActivationFunction,
                            !filter(word, Spec_ActivationFunction.all, !ne(word, "none")),
                            "of the feed-forward block; gelu is exact (erf), swiglu is Wout "
                            "(silu(Wgate h) * (Win h))",
                            "gelu">;
def FeedForwardKey : IntegerKey<"feed_forward", "hidden width of the feed-forward block", "4 d">;
def DropoutKey
    : ProbabilityKey<"dropout", "after each of the two blocks, before the residual is added", "0",
                     "0">;
def AttentionDropoutKey
    : ProbabilityKey<"attention_dropout", "on attention probabilities", "0", "0">;
defvar maskType = "string, {\"window\": [a, b]}, {\"tokens\": [a, b]} or {\"block\": rows}";
class MaskValueKey<string meaning, string otherwise, Attr attr>
    : SpecialKey<"mask", maskType, meaning, otherwise, attr> {
  let words = ["causal", "complete", "bidirectional"];
  let section = "MaskSection";
}
def MaskKey
    : MaskValueKey<
          "which positions q a query at position p reads; complete: over another scale, groups "
          "that have ended; window: p - b < q <= p - a; tokens: the same of their last tokens; "
          "block: up to p in its block",
          "causal", DefaultValuedAttr<Spec_Mask, "::sluice::spec::MaskShape::causal">>;
def RotaryKey
    : SpecialKey<"rotary", "false, true (base 10000) or {\"base\": number}",
                 "rotates pairs of query and key features by the position on the layer's own scale",
                 "false", OptionalAttr<Spec_Number>> {
  let excludesLeast = 1;
  let section = "RotarySection";
}
def RelativeKey : SpecialKey<"relative", "string or {\"bias\": distances}",
                             "what scores have by the distance of query and key: a learned bias a "
                             "head, or Transformer-XL's terms, with biases of each layer or of all",
                             "none", OptionalAttr<Spec_Relative>> {
  let words = ["none", "xl", "xl_shared"];
  let section = "RelativeSection";
}
def DistancesKey : WordKey<"distances", Spec_DistanceUnit, ["tokens", "rows"],
                           "what sinusoids of Transformer-XL's terms count: tokens, or steps of "
                           "the finer of the layer's scales",
                           "tokens">;
def LshKey : SpecialKey<"lsh", "false or {\"buckets\": number}",
                        "attention by hashes: a row reads earlier rows of its own bucket, in its "
                        "chunk of the bucket and in the one before",
                        "false", OptionalAttr<Spec_Lsh>> {
  let section = "LshSection";
}
def BiasKey : BooleanKey<"bias", "biases of the layer's linear maps", "true">;
def ScalesKey
    : SpecialKey<
          "scales", "list of {\"factor\": k, \"tokens\": [a, b]}",
          "the heads in as many groups, of which each reads means of groups of k inside its window",
          "[]",
          OptionalAttr<ConfinedAttr<
              TypedArrayAttrBase<Spec_Scale, "scales of groups of heads">, [ArrayMinCount<1>]>>> {
  let section = "ScaleSection";
}

/// Keys of `defaults`, and of every stage that has layers.
defvar layerKeys = [HeadsKey, KeyValueHeadsKey, HeadSizeKey, NormKey, PlacementKey, NormEpsilonKey,
                    ActivationKey, DropoutKey, AttentionDropoutKey, MaskKey, RotaryKey, BiasKey,
                    FeedForwardKey, RelativeKey, DistancesKey, ScalesKey, LshKey];

//===----------------------------------------------------------------------===//
// Keys of several stages
//===----------------------------------------------------------------------===//

def FirstRowKey : IntegerKey<"first", "keys before this row are left out, whatever the mask", "0",
                             "0", "", "0">;
class BlockKey<string otherwise>
    : IntegerKey<"block",
                 "rows of a block; as a mask, a query reads the keys up to its own in its block",
                 otherwise, "2">;
class BlockStartKey<string otherwise>
    : IntegerKey<"start", "a row at which a block starts; the rows before it are a shorter one",
                 otherwise, "0", "", "0"> {
  let type = "integer >= 0, below block";
}
def StartKey : WordKey<"start", Spec_StartRows, ["zeros", "null"],
                       "rows before the first: zeros, or a trained row", "zeros">;
def ShortenInsideKey : WordKey<"shorten", Spec_ShortenMethod, shortenWords,
                               "method of every shorten stage inside", "average">;
def ShortenWindowKey
    : IntegerKey<
          "shorten_window",
          "rows that a group of every shorten stage inside reads, which end where the group ends",
          "each one's factor">;
class ResultWidthKey<string meaning> : IntegerKey<"width", meaning, "that of the stream">;
class ProjectionKey<string key, string meaning>
    : WordKey<key, Spec_ActivationFunction,
              !filter(word, Spec_ActivationFunction.all, !ne(word, "swiglu")), meaning, "none">;
class HierarchyKey<string meaning, string example>
    : SpecialKey<"hierarchy", "string", meaning, "required", StrAttr> {
  let hint = "levels such as \"" # example # "\"";
}

def TiedKey : BooleanKey<"tied", "uses the embedding's token.weight", "false">;
def HeadBiasKey : BooleanKey<"bias", "adds a bias [V]", "false">;
def LabelSmoothingKey
    : ProbabilityKey<
          "label_smoothing",
          "share of the target's distribution that is spread over all tokens, in training", "0",
          "0">;
def HeadShiftKey
    : IntegerKey<"shift", "row t reads group (t - shift) div f and is scored against token t + 1",
                 "the scale's factor - 1", "0">;
def HeadFirstKey : IntegerKey<"first", "rows before it are not scored", "the shift", "0">;
def HeadTargetKey : TextKey<"target", "string",
                            "input of distributions that rows are scored against", "next token">;
def HeadWeightsKey
    : TextKey<"weights", "string", "input of numbers that rows count by, in training", "none">;
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
    : Section<"a mask", [EndsKey<"window", "a query at position p reads q with p - b < q <= p - a",
                                 "required">,
                         EndsKey<"tokens",
                                 "a query whose last token is t reads keys whose last token u has "
                                 "t - b < u <= t - a",
                                 "window in its place">,
                         BlockKey<"window in its place">, BlockStartKey<"0, of a block">]>;
def SourceMaskKey
    : MaskValueKey<"which positions of it a query reads; otherwise as the layer's says", "causal",
                   OptionalAttr<Spec_Mask>>;
def SourceStreamKey : StreamKey<"stream", "what keys and values are linear maps of", "required"> {
  let hint = "the name of an earlier stage's result";
}
def SourceSection : Section<"a source of keys and values", [SourceStreamKey, SourceMaskKey]>;
def ScaleSection
    : Section<"a scale", [IntegerKey<"factor", "rows of the layer's input in one key", "required">,
                          EndsKey<"tokens",
                                  "a query whose last token is t reads groups whose last token u "
                                  "has t - b < u <= t - a",
                                  "required">,
                          WordKey<"grid", Spec_GridKind, ["fixed", "moving"],
                                  "groups of the input's rows, or whole ones that end at t - a and "
                                  "every k rows before",
                                  "fixed">]>;
def RelativeBiasKey
    : IntegerKey<"bias", "distances that are told apart; those beyond share the last one's bias",
                 "required"> {
  let hint = "the number of distances that are told apart";
}
def RelativeSection : Section<"a relative setting", [RelativeBiasKey]>;
def RotarySection
    : Section<
          "a rotary setting",
          [PositiveKey<"base", "pair (2i, 2i+1) turns by p * base^(-2i / head_size)", "required">]>;
def BucketsKey : IntegerKey<"buckets", "buckets of a hash", "required", "2", "65536"> {
  let type = "even integer >= 2";
  let hint = "the number of buckets of a hash";
}
def ChunkKey : IntegerKey<"chunk", "rows of a bucket that are ranked together", "128", "1",
                          "1048576", "128"> {
  let type = "power of two";
}
def HashesKey
    : IntegerKey<"hashes", "hashes, whose keys a row reads together", "2", "1", "64", "2"> {
  let type = "integer >= 1";
}
def LshSection
    : Section<"an lsh setting",
              [BucketsKey, ChunkKey, HashesKey,
               BooleanKey<"causal",
                          "ranks count earlier rows; false: all rows, as published, which leaks",
                          "true">]>;

#endif // SLUICE_SPEC_KEYS_TD
