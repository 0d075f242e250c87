// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Primitive stages: those that become ops of the model dialect.

#ifndef SLUICE_SPEC_STAGES_TD
#define SLUICE_SPEC_STAGES_TD

include "sluice/Dialect/Spec/SpecInterfaces.td"
include "sluice/Dialect/Spec/SpecKeys.td"

/// sluice-tblgen adds the words: the names of all stages.
def OpKey : ObjectKey<"op", "string", "the kind of the stage", "required"> {
  let hint = "one of the stages' kinds";
}
def FromKey : ObjectKey<"from", "name of a stream", "the stream it reads",
                        "the result of the stage before">;
def ToKey : ObjectKey<"to", "string", "names the result; defined once", "unnamed">;
def FrozenKey : ObjectKey<"frozen", "boolean",
                          "training leaves the stage's weights as they were given", "false">;

/// A stage. `article` precedes its name in messages. With `inherits`, keys of the spec's `defaults`
/// hold where it has none.
///   path          prefix of its weights' names
///   to            name of the result, as the spec has it
///   first_tokens  tokens before the first row of the result that may be scored; absent: 0
class Spec_Stage<string mnemonic, string sentence_, list<Key> keys_, dag operands, dag outputs,
                 list<Trait> traits = []>
    : Op<Spec_Dialect, mnemonic,
         !listconcat([HasParent<"ModelOp">],
                     traits, [DeclareOpInterfaceMethods<Spec_StageInterface>])> {
  string sentence = sentence_;
  let summary = sentence_;
  list<Key> keys = keys_;
  list<Key> commonKeys = [OpKey, FromKey, ToKey, FrozenKey];
  /// Attributes that no key sets.
  dag assigned = (ins);
  string article = "a";
  bit inherits = 0;
  bit hasLayerKeys = 0;
  let arguments = !con(operands, KeyArguments<keys_>.arguments,
                       (ins OptionalAttr<StrAttr>:$path, OptionalAttr<StrAttr>:$to,
                           UnitAttr:$frozen, OptionalAttr<Spec_IntegerFrom<"0", "">>:$first_tokens),
                       assigned);
  let results = outputs;
  let hasVerifier = 1;
}
class Spec_StreamStage<string mnemonic, string sentence, list<Key> keys,
                       dag operands = (ins Spec_Stream:$input), list<Trait> traits = []>
    : Spec_Stage<mnemonic, sentence, keys, operands, (outs Spec_Stream:$result), traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Spec_EmbeddingOp
    : Spec_StreamStage<
          "embedding", "E[token], plus P[position] where positions are given.",
          [TextKey<"input", "name of an input", "what is embedded", "the tokens">,
           WordKey<"positions", Spec_PositionTable, ["none", "learned", "sinusoidal"],
                   "what is added for a token's position", "none">,
           ProbabilityKey<"dropout", "on the sum", "0", "0">,
           SpecialKey<"ngrams", "list of integers from 2 to 16", "sizes of n-grams, hashed", "none",
                      OptionalAttr<DenseI64ArrayAttr>>,
           IntegerKey<"ngram_rows", "rows of each table", "65536 there", "1", "16777216">,
           IntegerKey<"document_end", "a token that no n-gram behind it reads", "none", "0">],
          (ins), [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let commonKeys = [OpKey, ToKey, FrozenKey];
  let article = "an";
}

def Spec_LayerOp
    : Spec_StreamStage<
          "layer", "One transformer layer: an attention block, then a feed-forward block.",
          !listconcat(
              [SpecialKey<
                   "over", "name of a stream, or list of {\"stream\": name, \"mask\": mask}",
                   "the stream of keys and values, on any scale, or of an input's axis; a list: "
                   "one for each of as many groups of heads",
                   "the stream it reads",
                   OptionalAttr<ConfinedAttr<TypedArrayAttrBase<Spec_Mask, "a mask for each group">,
                                             [ArrayMinCount<1>]>>>,
               BooleanKey<"attention_norm",
                          "norms of a pre-norm attention block; false: its streams come normed",
                          "true">,
               FirstRowKey],
              layerKeys),
          (ins Spec_Stream:$input, Variadic<Spec_Stream>:$sources),
          [Spec_LayerSettingsInterface, DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let description = [{
    Keys and values are of `sources`, where there is any: of the one, or with `over` of one for each
    group of heads, whose masks `over` has.
  }];
  let inherits = 1;
  let hasLayerKeys = 1;
  /// Path of the layer whose biases of `xl_shared` this one reads. Set by `spec-assign-weights`.
  let assigned = (ins OptionalAttr<StrAttr>:$biases_from);
  let extraClassDeclaration = [{
    /// True with Transformer-XL's terms by distance.
    bool isXl();
    /// True with keys and values of one other stream.
    bool readsOther();
    /// True where groups of heads have keys, values and masks of their own.
    bool isGrouped() { return getGroupCount() > 0; }
    /// Number of such groups.
    int64_t getGroupCount();
    /// Width of the rows that keys and values of a group are linear maps of.
    int64_t getGroupWidth(int64_t group);
    /// True where each group reads another stream, with a norm of its own.
    bool normsGroups();
    /// True where queries are a sequence apart from keys and values.
    bool hasOwnQueries() { return readsOther() || isGrouped() || isXl(); }
    /// True where the other stream has a norm of its own.
    bool normsOther();
    /// Factor of a step of distance: the finest scale that queries and keys are whole numbers of.
    int64_t getDistanceStep();
    /// Number of such steps in the context.
    int64_t getDistanceCount();
  }];
}

def Spec_NormOp
    : Spec_StreamStage<
          "norm", "Norm over features.", [NormKey, NormEpsilonKey],
          (ins Spec_Stream:$input), [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let inherits = 1;
}

def ShiftByKey : IntegerKey<"by", "positions of this scale to delay by", "required", "0">;
def Spec_ShiftOp
    : Spec_StreamStage<
          "shift",
          "y[p] = x[p - by], zero before: delays, so that a coarse position holds no later token.",
          [ShiftByKey, StartKey],
          (ins Spec_Stream:$input), [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let commonKeys = [OpKey, FromKey, ToKey];
}

class FactorKey<string meaning> : IntegerKey<"factor", meaning, "required without segments"> {
  let requiredUnless = "segments";
}
def ShortenMethodKey
    : WordKey<"method", Spec_ShortenMethod, !listconcat(shortenWords, ["concatenate"]),
              "mean of the group, a linear map of its features, the maximum of each feature, a "
              "linear map of a window, or maps of its rows to width / factor columns side by side",
              "average"> {
  let wordsWithSegments = ["average", "max", "last", "first"];
}
def Spec_ShortenOp
    : Spec_StreamStage<
          "shorten", "Coarse group m from x[k m + i], 0 <= i < k: a scale k times coarser.",
          [FactorKey<"fine positions in one coarse position">, ShortenMethodKey,
           IntegerKey<"window",
                      "rows that a group reads, which end where the group ends; not of \"linear\"",
                      "the factor">,
           SegmentsKey<"name of segments",
                       "pools segments instead of groups: their averages or maxima, or with "
                       "\"method\": \"last\", of those that begin at bits \"first\", their rows at "
                       "bits",
                       "groups of the factor">,
           ResultWidthKey<"of \"concatenate\": numbers in a row of the result">],
          (ins Spec_Stream:$input, Optional<Spec_Segmentation>:$segments),
          [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let extraClassDeclaration = [{
    /// True where a row is a linear map of a group's rows.
    bool isLinear();
    /// Number of rows that a group reads.
    int64_t getRows();
  }];
}

def UpsampleMethodKey
    : WordKey<"method", Spec_UpsampleMethod, ["repeat", "linear", "transposed", "split"],
              "repetition, a linear map to the group's features, sums of such maps to a window, or "
              "a linear map of a row's own part of the columns",
              "repeat"> {
  let wordsWithSegments = ["repeat", "scatter", "smooth"];
}
def Spec_UpsampleOp
    : Spec_StreamStage<
          "upsample", "Fine position p from y[p div k]: a scale k times finer.",
          [FactorKey<"fine positions from one coarse position; divides the scale's factor">,
           UpsampleMethodKey,
           IntegerKey<"window",
                      "of \"transposed\": rows that a group reaches, a multiple of the factor",
                      "the factor">,
           SegmentsKey<"name of segments",
                       "repeats rows of segments instead of groups, on the tokens that follow "
                       "them; with \"method\": \"scatter\" at bits alone, with \"smooth\" a "
                       "router's averages",
                       "groups of the factor">,
           IntegerKey<"by",
                      "of segments: a token reads the row this many before that of its own segment",
                      "1: the last that ended", "0">,
           ResultWidthKey<"of \"split\": numbers in a row of the result">],
          (ins Spec_Stream:$input, Optional<Spec_Segmentation>:$segments),
          [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let extraClassDeclaration = [{
    /// True where rows are linear maps of coarse rows.
    bool isLinear();
    /// Number of coarse rows that a row reads.
    int64_t getGroups();
  }];
  let article = "an";
}

class WithKey<string meaning, string otherwise> : StreamKey<"with", meaning, otherwise> {
  let hint = "the name of an earlier stage's result";
}
def Spec_AddOp : Spec_StreamStage<"add", "Sum of two streams of one scale.",
                                  [WithKey<"the second stream, on the same scale", "required">],
                                  (ins Spec_Stream:$input, Spec_Stream:$with)> {
  let commonKeys = [OpKey, FromKey, ToKey];
  let article = "an";
}
def Spec_ReplaceOp
    : Spec_StreamStage<"replace",
                       "Rows of another stream where a block starts, those of the input elsewhere.",
                       [WithKey<"rows where a block starts", "required">, BlockKey<"required">,
                        BlockStartKey<"0">],
                       (ins Spec_Stream:$input, Spec_Stream:$with)> {
  let commonKeys = [OpKey, FromKey, ToKey];
}
def Spec_ProjectOp
    : Spec_StreamStage<"project", "act(W x + V z + b), of two streams of one scale.",
                       [StreamKey<"with", "the second stream, on the same scale", "none">,
                        ProjectionKey<"activation", "of the sum">,
                        BooleanKey<"bias", "adds a bias", "true">,
                        ResultWidthKey<"numbers in a row of the result">,
                        WordKey<"initial", Spec_InitialValues, ["normal", "zeros", "identity"],
                                "how its matrices begin", "normal">],
                       (ins Spec_Stream:$input, Optional<Spec_Stream>:$with),
                       [DeclareOpInterfaceMethods<Spec_WeightsInterface>]>;
def Spec_DropoutOp
    : Spec_StreamStage<
          "dropout", "Drops features in training.",
          [ProbabilityKey<"rate", "share of features that is dropped in training", "required">]> {
  let commonKeys = [OpKey, FromKey, ToKey];
}

class Spec_Sink<string mnemonic, string sentence, list<Key> keys,
                dag operands = (ins Spec_Stream:$input), dag outputs = (outs)>
    : Spec_Stage<mnemonic, sentence, keys, operands,
                 outputs, [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let commonKeys = [OpKey, FromKey, FrozenKey];
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
/// Name of the table that a tied head reads. Set by `spec-assign-weights`.
defvar tableAttribute = (ins OptionalAttr<StrAttr>:$table);
def Spec_HeadOp : Spec_Sink<"head",
                            "Logits; cross-entropy of row t against token t + 1. On a coarse "
                            "scale, of groups against the tokens that follow them.",
                            headKeys> {
  let assigned = tableAttribute;
  let extraClassDeclaration = [{
    /// Row t reads group (t - shift) div f: the key "shift", or the scale's factor - 1.
    int64_t getShiftOrDefault();
    /// First row that is scored: the key "first", or the shift.
    int64_t getFirstOrDefault();
  }];
}
def LossNameKey : TextKey<"name", "string", "what reports call this loss", "required"> {
  let hint = "what reports call this loss";
}
def Spec_LossOp
    : Spec_Sink<
          "loss",
          "Another loss: group g of a scale of factor f against tokens f (g + 1) to f (g + 2) - 1.",
          !listconcat([LossNameKey,
                       PositiveKey<"factor", "what its mean counts in what training minimizes", "1",
                                   "1">],
                      headKeys)> {
  /// `bag` marks losses of a top_down's coarse scales, which score every row that has a group of
  /// their own scale.
  let assigned = !con(tableAttribute, (ins UnitAttr:$bag));
  let extraClassDeclaration = [{
    /// Row t reads group (t - shift) div f: the key "shift", or the scale's factor - 1.
    int64_t getShiftOrDefault();
    /// First row that is scored: the key "first", or the shift.
    int64_t getFirstOrDefault();
  }];
}

def SegmentsNameKey : TextKey<"name", "string", "names the segments", "required"> {
  let hint = "the name of the segments";
}
def RuleKey : WordKey<"rule", Spec_SegmentRule,
                      ["whitespace", "every", "space_like", "labels", "entropy", "coding_rate"],
                      "where bits are set: ASCII whitespace, every factor-th position, a "
                      "space-like byte after another, labels of a file, high entropy of a loss, or "
                      "high coding rate; with a predictor, its labels",
                      "required without `predictor` and `ratio`", ""> {
  let hint = "what ends a segment, such as \"whitespace\"; or add a \"predictor\"";
}
/// Above `least` and, unless that is "", below `largest`.
class MovingKey<string key, string type, string least_, string largest_, string meaning,
                string otherwise>
    : SpecialKey<key, type, meaning, otherwise, OptionalAttr<Spec_Target>> {
  let least = least_;
  let largest = largest_;
  let excludesLeast = 1;
  let excludesLargest = !ne(largest_, "");
  let section = "MovingSection";
}
def MovingSection
    : Section<"a target that moves",
              [NumberKey<"from", "number", "the target of the first update", "required">,
               NumberKey<"to", "number", "the target after the last step, and of evaluation",
                         "required">,
               IntegerKey<"steps", "updates over which it moves", "required", "1", "16777215">,
               IntegerKey<"jumps", "equal jumps in which it moves", "evenly">]>;
def SegmentsLossKey : TextKey<"loss", "name of a loss",
                              "of the rule entropy: whose softmax it is of; in addition to a "
                              "predictor a later one too, or next, the head's",
                              "needed there"> {
  let hint = "the name of the loss whose softmax says where segments end";
}
def SpikeKey
    : IntegerKey<
          "spike",
          "of the rule entropy: a bit is where it is above the entropy of each of so many rows "
          "before",
          "none", "1", "8">;
def TopKey : NumberKey<"top", "number > 0 and <= 1",
                       "of the rule coding_rate, without threshold: the share of rows, namely the "
                       "rows with the greatest rates; it leaks",
                       "none"> {
  let excludesLeast = 1;
  let largest = "1";
}
def CapacityKey
    : NumberKey<"capacity", "number > 0 and <= 1",
                "most segments of a row of a batch, as a share of the context; more end the run",
                "1, of the rule every 1 / factor"> {
  let excludesLeast = 1;
  let largest = "1";
}
defvar boundaryKeys =
    [SegmentsNameKey, RuleKey,
     IntegerKey<"factor", "positions of a segment of the rule every", "needed there">,
     SegmentsLossKey,
     NumberKey<"rise", "number >= 0", "of the rule entropy: a bit is where it rises by more",
               "none">,
     SpikeKey,
     NumberKey<"threshold", "number >= 0",
               "of the rules entropy and coding_rate, in nats: a bit is above it",
               "needed there without `rise`, `spike` or `top`">,
     TopKey, PositiveKey<"epsilon", "of the rule coding_rate: distortion of a column", "1 there">,
     IntegerKey<"window", "of it: rows before that a row is compared with", "4 there", "1", "8">,
     WordKey<"at", Spec_SegmentEdge, ["end", "start"], "the effect of a bit's token on its segment",
             "end">,
     WordKey<"mode", Spec_Fidelity, ["paper", "reference-code"],
             "where the paper of dynamic pooling and its public code differ, whose way this goes",
             "paper">,
     MovingKey<
         "ratio", "number > 1, or one that moves", "1", "",
         "of a router, which compares each row with the one before: rows of a segment it aims at",
         "none">,
     IntegerKey<"predictor",
                "hidden width of two linear maps that predict boundaries from the stream", "none">,
     MovingKey<"prior", "number > 0 and < 1, or one that moves", "0", "1",
               "of a predictor without rule: the share of tokens that should end a segment",
               "needed there">,
     Key<"prior_logit", BooleanKind, "boolean",
         "of a predictor without rule: adds the logit of its (first) prior to its prediction, so "
         "that probabilities begin near the prior",
         "false there", OptionalAttr<BoolAttr>>,
     PositiveKey<"temperature", "of its Gumbel-sigmoid, in training", "0.5 there">,
     PositiveKey<"weight", "the weight of the loss of a predictor or router",
                 "1, of a router 0.03">,
     IntegerKey<"document_end",
                "a token that ends a segment, whatever the rule, predictor or router computes",
                "none",
                "0">,
     CapacityKey];
def Spec_BoundariesOp
    : Spec_Sink<"boundaries",
                "Bits that end or begin segments of the tokens, by a rule or predicted; a shorten "
                "and an upsample name them.",
                boundaryKeys, (ins Spec_Stream:$input), (outs Spec_Segmentation:$result)> {
  let extraClassDeclaration = [{
    /// Most segments in a row of a batch.
    int64_t getMostSegments();
    /// Rows beyond the segments that some stage reads.
    int64_t getSpareRows();
    /// Added to predicted logits: log(a / (1 - a)) of the first prior a, or 0.
    double computeLogitShift();
    /// True where a bit begins a segment.
    bool beginsSegments() { return getAt() == SegmentEdge::start; }
    /// True where the paper's public code is followed, not the paper.
    bool followsCode() { return getMode() == Fidelity::reference_code; }
  }];
}

def AttendOverKey : StreamKey<"over", "the stream of keys and values", "required"> {
  let hint = "the name of the stream that is read";
}
def AttendSegmentsKey
    : SegmentsKey<"string", "the segments of one of the two streams", "required"> {
  let hint = "the name of the segments of one of the two streams";
}
def AttendHeadsKey
    : IntegerKey<"heads", "number of attention heads", "required, here or in `defaults`"> {
  let hint = "the number of attention heads, here or in \"defaults\"";
  let isRequired = 1;
}
def Spec_AttendOp
    : Spec_StreamStage<
          "attend",
          "Attention between a scale and its segments: from segments over their own rows, or from "
          "rows over the parts of a segment's row.",
          [AttendOverKey, AttendSegmentsKey, AttendHeadsKey,
           IntegerKey<"head_size", "columns of a head",
                      "the width of the stream that is cut / heads">,
           IntegerKey<"parts", "queries of a segment, or keys that its row is", "1", "1", "64",
                      "1">,
           IntegerKey<"by", "of rows that read segments: which, as of an upsample",
                      "1: the last that ended", "0">,
           WordKey<"norm", Spec_NormFunction, ["layer", "rms"], "of both streams", "layer">,
           PositiveKey<"epsilon", "of the norms", "1e-5", "1e-5">,
           BooleanKey<"bias", "adds biases to its linear maps", "true">],
          (ins Spec_Stream:$input, Spec_Stream:$over, Spec_Segmentation:$segments),
          [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let extraClassDeclaration = [{
    SegmentationType getSegmentation() {
      return ::mlir::cast<SegmentationType>(getSegments().getType());
    }
    /// True where queries are of segments, which read their own rows.
    bool readsRows();
  }];
  let article = "an";
  let inherits = 1;
}

#endif // SLUICE_SPEC_STAGES_TD
