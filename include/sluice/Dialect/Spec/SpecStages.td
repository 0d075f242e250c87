// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Primitive stages, which become ops of the model dialect.

#ifndef SLUICE_SPEC_STAGES_TD
#define SLUICE_SPEC_STAGES_TD

include "sluice/Dialect/Spec/SpecInterfaces.td"
include "sluice/Dialect/Spec/SpecKeys.td"

/// sluice-tblgen adds the words, the names of all stages.
def OpKey : ObjectKey<"op", "string", "the kind of the stage", "required"> {
  let hint = "one of the stages' kinds";
}
def FromKey : ObjectKey<"from", "name of a stream", "the input stream",
                        "the result of the previous stage">;
def ToKey : ObjectKey<"to", "string", "names the result; defined once", "unnamed">;
def FrozenKey : ObjectKey<"frozen", "boolean",
                          "training does not update the stage's weights", "false">;
def ShareKey : ObjectKey<"share", "string",
                         "a name: stages that have it share one set of weights", "none">;

/// A stage. `article` precedes its name in messages. With `inherits`, the spec's `defaults` supply
/// keys that the stage does not set.
///   path            prefix of its weights' names
///   to              name of the result in the spec
///   share           name of the weights that it shares
///   shared_weights  tensors of other stages that it uses, by the name of its own part: a
///                   dictionary that `spec-assign-weights` sets
///   first_tokens    tokens before the first row of the result that may be scored; absent: 0
class Spec_Stage<string mnemonic, string sentence_, list<Key> keys_, dag operands, dag outputs,
                 list<Trait> traits = []>
    : Op<Spec_Dialect, mnemonic,
         !listconcat([HasParent<"ModelOp">],
                     traits, [DeclareOpInterfaceMethods<Spec_StageInterface>])> {
  string sentence = sentence_;
  let summary = sentence_;
  list<Key> keys = keys_;
  list<Key> commonKeys = [OpKey, FromKey, ToKey, FrozenKey, ShareKey];
  /// Attributes that no key sets.
  dag assigned = (ins);
  string article = "a";
  bit inherits = 0;
  bit hasLayerKeys = 0;
  let arguments = !con(operands, KeyArguments<keys_>.arguments,
                       (ins OptionalAttr<StrAttr>:$path, OptionalAttr<StrAttr>:$to,
                           UnitAttr:$frozen, OptionalAttr<StrAttr>:$share,
                           OptionalAttr<DictionaryAttr>:$shared_weights,
                           OptionalAttr<Spec_IntegerFrom<"0", "">>:$first_tokens),
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
          "embedding", "E[token], plus P[position] if positions are given.",
          [TextKey<"input", "name of an input", "the embedded tokens", "the tokens">,
           WordKey<"positions", Spec_PositionTable, ["none", "learned", "sinusoidal"],
                   "positional encoding that is added", "none">,
           ProbabilityKey<"dropout", "dropout rate of the sum", "0", "0">,
           SpecialKey<"ngrams", "list of integers from 2 to 16", "sizes of the hashed n-grams "
                                                                 "that are added", "none",
                      OptionalAttr<DenseI64ArrayAttr>>,
           IntegerKey<"ngram_rows", "rows of each table", "65536 with ngrams", "1", "16777216">,
           IntegerKey<"document_end", "token that ends a document; n-grams do not extend across "
                                      "it", "none", "0">,
           PositiveKey<"scale", "multiplies the rows, before positions are added", "1", "1">,
           PositiveKey<"deviation",
                       "standard deviation of the initial values of the tables of tokens and of "
                       "n-grams",
                       "0.02">],
          (ins), [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let commonKeys = [OpKey, ToKey, FrozenKey, ShareKey];
  let article = "an";
}

def Spec_LayerOp
    : Spec_StreamStage<
          "layer", "One transformer layer: an attention block, then a feed-forward block.",
          !listconcat(
              [SpecialKey<
                   "over", "name of a stream, or list of {\"stream\": name, \"mask\": mask}",
                   "stream of keys and values for cross-attention, on any scale or on an input's "
                   "axis; a list has one stream per group of heads",
                   "the input stream",
                   OptionalAttr<ConfinedAttr<TypedArrayAttrBase<Spec_Mask, "a mask for each group">,
                                             [ArrayMinCount<1>]>>>,
               BooleanKey<"attention_norm",
                          "norms before a pre-norm attention block; false: its streams are "
                          "already normalized",
                          "true">,
               TextKey<"within", "name of segments",
                       "segments of the rows of an input: keys are the rows of the query's own "
                       "segment",
                       "all keys of the mask">,
               FirstRowKey],
              layerKeys),
          (ins Spec_Stream:$input, Variadic<Spec_Stream>:$sources),
          [Spec_LayerSettingsInterface, DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let description = [{
    Keys and values are computed from `sources`, if there are any: from a single source, or with
    `over` from one source per group of heads, with the masks in `over`.
  }];
  let inherits = 1;
  let hasLayerKeys = 1;
  let extraClassDeclaration = [{
    /// Returns true with Transformer-XL's relative position terms.
    bool isXl();
    /// Returns true with a vector per signed distance.
    bool hasVectors();
    /// Returns true for cross-attention to one other stream.
    bool readsOther();
    /// Returns true if groups of heads have separate keys, values and masks.
    bool isGrouped() { return getGroupCount() > 0; }
    /// Returns the number of such groups.
    int64_t getGroupCount();
    /// Returns the width of the rows that a group's keys and values are computed from.
    int64_t getGroupWidth(int64_t group);
    /// Returns true if each group attends to another stream, with a separate norm.
    bool normsGroups();
    /// Returns true if queries are a different sequence from keys and values.
    bool hasOwnQueries() { return readsOther() || isGrouped() || isXl() || hasVectors(); }
    /// Returns true if the other stream has a separate norm.
    bool normsOther();
    /// Returns the factor of a distance step: the greatest common divisor of the query and key
    /// factors.
    int64_t getDistanceStep();
    /// Returns the number of distance steps in the context.
    int64_t getDistanceCount();
  }];
}

class BlockDropoutKey<string where>
    : ProbabilityKey<"dropout", "after " # where # ", before the residual is added", "0", "0">;
def Spec_FeedForwardOp
    : Spec_StreamStage<
          "feed_forward", "The feed-forward block of a layer, with its norm and its residual sum.",
          [NormKey, PlacementKey, NormEpsilonKey, ActivationKey, BlockDropoutKey<"the block">,
           FeedForwardDropoutKey, BiasKey, FeedForwardWidthKey<"hidden width of the block", "1">,
           FeedForwardInBiasKey, FeedForwardOutBiasKey],
          (ins Spec_Stream:$input), [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let inherits = 1;
}

class AttentionStreamKey<string key, string meaning> : StreamKey<key, meaning, "required"> {
  let hint = "the name of an earlier stage's result";
}
def Spec_AttentionOp
    : Spec_StreamStage<
          "attention",
          "The attention block of a layer, with its norms and its residual sum, whose queries, "
          "keys and values are of streams of their own.",
          [AttentionStreamKey<"query", "the stream of queries, on the scale of the result">,
           AttentionStreamKey<"key", "the stream of keys, on any scale, or of an input's axis">,
           AttentionStreamKey<"value", "the stream of values, on the scale of the keys">,
           BooleanKey<"attention_norm",
                      "norms of a pre-norm block; false: its streams come normed", "true">,
           FirstRowKey, HeadsKey, KeyValueHeadsKey, HeadSizeKey, NormKey, PlacementKey,
           NormEpsilonKey, BlockDropoutKey<"the block">, AttentionDropoutKey, MaskKey, BiasKey,
           AttentionInBiasKey, AttentionOutBiasKey],
          (ins Spec_Stream:$input, Spec_Stream:$query, Spec_Stream:$key, Spec_Stream:$value),
          [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let article = "an";
  let inherits = 1;
  let extraClassDeclaration = [{
    /// True where the block norms the streams that it reads.
    bool normsStreams();
  }];
}

def Spec_NormOp
    : Spec_StreamStage<
          "norm", "Norm over features.", [NormKey, NormEpsilonKey],
          (ins Spec_Stream:$input), [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let inherits = 1;
}

def ShiftByKey : IntegerKey<"by", "delay, in positions of this scale", "required", "0">;
def Spec_ShiftOp
    : Spec_StreamStage<
          "shift",
          "y[p] = x[p - by], zero for p < by: delays rows, so that a coarse position contains no "
          "later token.",
          [ShiftByKey, StartKey],
          (ins Spec_Stream:$input), [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let commonKeys = [OpKey, FromKey, ToKey, ShareKey];
}

class FactorKey<string meaning> : IntegerKey<"factor", meaning, "required without segments"> {
  let requiredUnless = "segments";
}
def ShortenMethodKey
    : WordKey<"method", Spec_ShortenMethod, !listconcat(shortenWords, ["concatenate", "stack"]),
              "pooling: mean of the group, a linear map of its concatenated features, maximum per "
              "feature, a linear map of a window, concatenated maps of its rows to width / "
              "factor columns each, or its rows side by side",
              "average"> {
  let wordsWithSegments = ["average", "sum", "normalized", "max", "last", "first", "stack"];
}
def Spec_ShortenOp
    : Spec_StreamStage<
          "shorten", "Coarse group m from x[k m + i], 0 <= i < k: a scale k times coarser.",
          [FactorKey<"fine positions per coarse position">, ShortenMethodKey,
           IntegerKey<"window",
                      "number of rows that a group pools, up to its last row; not for \"linear\"",
                      "the factor">,
           SegmentsKey<"name of segments",
                       "pools segments instead of groups: their averages, sums or maxima, or their "
                       "rows at boundary bits: \"method\": \"last\", or \"first\" for segments "
                       "that begin at bits",
                       "groups of the factor">,
           ResultWidthKey<"width of the result, for \"concatenate\", and of segments for "
                          "\"stack\", there by default the columns of the longest segment">,
           WordKey<"start", Spec_StartRows, ["zeros", "norm"],
                   "rows before the first that the shift before this stage adds to the first "
                   "group: zeros, or the norm of zeros by the norm before that shift",
                   "zeros">],
          (ins Spec_Stream:$input, Optional<Spec_Segmentation>:$segments),
          [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let extraClassDeclaration = [{
    /// Returns true if a row is a linear map of a group's rows.
    bool isLinear();
    /// Returns the number of rows that a group pools.
    int64_t getRows();
  }];
}

def UpsampleMethodKey
    : WordKey<"method", Spec_UpsampleMethod, ["repeat", "linear", "transposed", "split"],
              "repetition, a linear map to the group's features, sums of overlapping maps to a "
              "window, or a linear map of each row's share of the columns",
              "repeat"> {
  let wordsWithSegments = ["repeat", "own", "scatter", "smooth"];
}
def Spec_UpsampleOp
    : Spec_StreamStage<
          "upsample", "Fine position p from y[p div k]: a scale k times finer.",
          [FactorKey<"fine positions per coarse position; divides the scale's factor">,
           UpsampleMethodKey,
           IntegerKey<"window",
                      "for \"transposed\": rows that a group contributes to, a multiple of the "
                      "factor",
                      "the factor">,
           SegmentsKey<"name of segments",
                       "repeats rows of segments instead of groups, on the tokens that follow "
                       "them; with \"scatter\" at boundary bits only, with \"smooth\" with a "
                       "router's moving averages, with \"own\" on an input's rows of the segment",
                       "groups of the factor">,
           IntegerKey<"by",
                      "for segments: offset, in segments, from a token's own segment back to the "
                      "row that the token receives",
                      "1: the last segment that ended; for \"own\" 0", "0">,
           ResultWidthKey<"width of the result, for \"split\"">],
          (ins Spec_Stream:$input, Optional<Spec_Segmentation>:$segments),
          [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let extraClassDeclaration = [{
    /// Returns true if rows are linear maps of coarse rows.
    bool isLinear();
    /// Returns the number of coarse rows that a row depends on.
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
                       "Rows of another stream at block starts, rows of the input elsewhere.",
                       [WithKey<"stream of the rows at block starts", "required">,
                                BlockKey<"required">,
                        BlockStartKey<"0">],
                       (ins Spec_Stream:$input, Spec_Stream:$with)> {
  let commonKeys = [OpKey, FromKey, ToKey];
}
include "sluice/Dialect/Spec/SpecColumns.td"
def Spec_ProjectOp
    : Spec_StreamStage<"project", "act(W x + V z + b), for two streams x and z of one scale.",
                       [StreamKey<"with", "the second stream, on the same scale", "none">,
                        ProjectionKey<"activation", "activation of the sum">,
                        BooleanKey<"bias", "adds a bias", "true">,
                        ResultWidthKey<"width of the result">,
                        WordKey<"initial", Spec_InitialValues, ["normal", "zeros", "identity"],
                                "initialization of the matrices", "normal">],
                       (ins Spec_Stream:$input, Optional<Spec_Stream>:$with),
                       [DeclareOpInterfaceMethods<Spec_WeightsInterface>]>;
def Spec_RecurrenceOp
    : Spec_StreamStage<"recurrence", "A recurrence over the rows: an LSTM.",
                       [WordKey<"cell", Spec_RecurrentCell, ["lstm", "lstm_capped"],
                                "the cell; \"lstm_capped\" caps the input gate by 1 minus the "
                                "forget gate", "lstm">,
                        ResultWidthKey<"width of the state">,
                        WordKey<"direction", Spec_RowDirection, ["forward", "backward"],
                                "order of the rows: from the first row, or from the last row of an "
                                "input", "forward">,
                        WordKey<"start", Spec_StartRows, ["zeros", "null"],
                                "state at the beginning: zeros, or trained numbers", "zeros">,
                        SegmentsKey<"name of segments",
                                    "begins anew at a row of each of these segments",
                                    "once, at the first row">,
                        WordKey<"reset", Spec_ResetRow, ["first", "last"],
                                "for segments: the row that begins anew, in the order of the rows",
                                "first">,
                        IntegerKey<"every", "begins anew at every k-th row", "once">,
                        IntegerKey<"at", "for \"every\": the first row that begins anew", "0",
                                   "0">],
                       (ins Spec_Stream:$input, Optional<Spec_Segmentation>:$segments),
                       [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let extraClassDeclaration = [{
    /// Returns true if the last rows of segments begin anew: the first ones that are met backward.
    bool resetsAtEnds() {
      return (getReset() == ResetRow::last) != (getDirection() == RowDirection::backward);
    }
  }];
}
class GraphEdgesKey<string otherwise, string key = "edges",
                    string meaning = "edges between the rows of the stream">
    : TextKey<key, "name of an input of edges", meaning, otherwise> {
  let hint = "the name of an input of edges";
}
def EdgesKey : GraphEdgesKey<"required without segments"> { let requiredUnless = "segments"; }
def Spec_GraphConvolutionOp
    : Spec_StreamStage<
          "graph_convolution",
          "Weighted sums of each row and its neighbours, by the edges of an input, or of each row "
          "and its segment.",
          [EdgesKey,
           SegmentsKey<"name of segments",
                       "in place of edges: sums over the segment of each row of an input",
                       "rows are joined by edges">,
           WordKey<"method", Spec_GraphMethod, ["normalized", "mean", "attention"],
                   "weights: 1 / sqrt(n[p] n[q]) for n[p] - 1 neighbours of p, the mean, or a "
                   "learned softmax",
                   "normalized">,
           ProjectionKey<"activation", "activation of the sums">],
          (ins Spec_Stream:$input, Optional<Spec_Segmentation>:$segments),
          [DeclareOpInterfaceMethods<Spec_WeightsInterface>]>;

def AttendHeadsKey
    : IntegerKey<"heads", "number of attention heads", "required, here or in `defaults`"> {
  let hint = "the number of attention heads, here or in \"defaults\"";
  let isRequired = 1;
}
def WordVectorsKey
    : IntegerKey<"vectors",
                 "adds learned vectors to the keys by signed distance, in rows and in segments: "
                 "the largest distance",
                 "none", "1", "65535">;
def SharedMapsKey
    : BooleanKey<"shared_maps",
                 "the queries and keys of segments have the linear maps of those of rows",
                 "false">;
def ExpandKey
    : WordKey<"expand", Spec_WordExpansion, ["own", "nearest", "linear"],
              "from segments to rows and back: by each row's own segment, or by numbers of rows "
              "alone, the nearest one or a linear interpolation",
              "own">;
/// Settings of attention over rows and segments.
defvar attentionBlockKeys = [AttendHeadsKey,
                             IntegerKey<"head_size", "features per head D",
                                        "width / heads (must divide)">,
                             NormKey, NormEpsilonKey, AttentionDropoutKey, BiasKey];
defvar wordAttentionKeys = !listconcat(attentionBlockKeys,
                                       [WordVectorsKey, SharedMapsKey, ExpandKey]);
def Spec_RectifiedAttentionOp
    : Spec_StreamStage<
          "rectified_attention",
          "The attention block of a pre-norm layer of an input: half the sum of attention over its "
          "rows and of attention over their segments.",
          !listconcat([AttentionStreamKey<"words", "the stream of the segments of the rows">,
                       BlockDropoutKey<"the block">],
                      wordAttentionKeys),
          (ins Spec_Stream:$input, Spec_Stream:$words),
          [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let inherits = 1;
}
def Spec_DropoutOp
    : Spec_StreamStage<
          "dropout", "Drops features in training.",
          [ProbabilityKey<"rate", "share of features that training drops", "required">]> {
  let commonKeys = [OpKey, FromKey, ToKey];
}

class Spec_Sink<string mnemonic, string sentence, list<Key> keys,
                dag operands = (ins Spec_Stream:$input), dag outputs = (outs)>
    : Spec_Stage<mnemonic, sentence, keys, operands,
                 outputs, [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let commonKeys = [OpKey, FromKey, FrozenKey, ShareKey];
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
def Spec_HeadOp : Spec_Sink<"head",
                            "Logits and the cross-entropy of row t against token t + 1; on a "
                            "coarse scale, of groups against the tokens that follow them.",
                            headKeys> {
  let extraClassDeclaration = [{
    /// Returns the shift: row t uses group (t - shift) div f. The key "shift", or the scale's
    /// factor - 1.
    int64_t getShiftOrDefault();
    /// Returns the first row that is scored: the key "first", or the shift.
    int64_t getFirstOrDefault();
  }];
}
def LossNameKey : TextKey<"name", "string", "name of this loss in reports", "required"> {
  let hint = "what reports call this loss";
}
def Spec_LossOp
    : Spec_Sink<
          "loss",
          "Auxiliary loss: group g of a scale of factor f against tokens f (g + 1) to f (g + 2) - "
          "1.",
          !listconcat([LossNameKey,
                       PositiveKey<"factor", "weight of its mean in the training objective", "1",
                                   "1">],
                      headKeys)> {
  /// `bag` marks the losses of a top_down's coarse scales, which score every row that has a group
  /// of that scale.
  let assigned = (ins UnitAttr:$bag);
  let extraClassDeclaration = [{
    /// Returns the shift: row t uses group (t - shift) div f. The key "shift", or the scale's
    /// factor - 1.
    int64_t getShiftOrDefault();
    /// Returns the first row that is scored: the key "first", or the shift.
    int64_t getFirstOrDefault();
  }];
}

def SegmentsNameKey : TextKey<"name", "string", "name of the segments", "required"> {
  let hint = "the name of the segments";
}
def RuleKey : WordKey<"rule", Spec_SegmentRule,
                      ["whitespace", "every", "space_like", "labels", "entropy", "coding_rate",
                       "bits"],
                      "rule that sets boundary bits, or a predictor's labels: ASCII whitespace, "
                      "every factor-th position, a space-like byte after a byte of another kind, "
                      "labels from a file, high entropy of a loss, high coding rate, or an "
                      "input's tokens",
                      "required without `predictor` and `ratio`", ""> {
  let hint = "what ends a segment, such as \"whitespace\"; or add a \"predictor\"";
}
/// Above `least` and, if `largest` is not "", below `largest`.
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
               NumberKey<"to", "number", "the target after the last step, and in evaluation",
                         "required">,
               IntegerKey<"steps", "number of updates over which the target moves", "required", "1",
                          "16777215">,
               IntegerKey<"jumps", "number of equal jumps of the target",
                          "moves at every update">]>;
def SegmentsLossKey : TextKey<"loss", "name of a loss",
                              "for the rule entropy: the loss whose softmax defines the entropy; "
                              "with a predictor, also a later loss, or \"next\" for the head",
                              "needed for that rule"> {
  let hint = "the name of the loss whose softmax says where segments end";
}
def SpikeKey
    : IntegerKey<
          "spike",
          "for the rule entropy: sets a bit if the entropy exceeds the entropy of each of this "
          "many previous rows",
          "none", "1", "8">;
defvar boundaryKeys =
    [SegmentsNameKey, RuleKey,
     IntegerKey<"factor", "positions per segment, for the rule every", "needed for that rule">,
     TextKey<"bits", "name of an input",
             "for the rule bits: tokens on the axis of the stream; each but 0 sets a bit",
             "needed for that rule">,
     SegmentsLossKey,
     NumberKey<"rise", "number >= 0", "for the rule entropy: sets a bit if the entropy rises by "
                                      "more than this",
               "none">,
     SpikeKey,
     NumberKey<"threshold", "number >= 0",
               "for the rules entropy and coding_rate, in nats: sets a bit above this value",
               "needed for those rules without `rise`, `spike` or `top`">,
     TopKey,
     PositiveKey<"epsilon", "for the rule coding_rate: distortion per column", "1 for that rule">,
     IntegerKey<"window", "for the rule coding_rate: number of previous rows that a row is "
                          "compared with", "4 for that rule", "1", "8">,
     WordKey<"at", Spec_SegmentEdge, ["end", "start"], "whether the token of a bit ends or starts "
                                                       "a segment",
             "end">,
     WordKey<"mode", Spec_Fidelity, ["paper", "reference-code"],
             "behavior where the dynamic pooling paper and its public code differ",
             "paper">,
     MovingKey<
         "ratio", "number > 1, or one that moves", "1", "",
         "enables a router, which compares each row with the previous one: target number of rows "
         "per segment",
         "none">,
     IntegerKey<"predictor",
                "hidden width of the two linear maps that predict boundaries from the stream",
                "none">,
     MovingKey<"prior", "number > 0 and < 1, or one that moves", "0", "1",
               "for a predictor without rule: target share of tokens that end a segment",
               "needed without rule">,
     Key<"prior_logit", BooleanKind, "boolean",
         "for a predictor without rule: adds the logit of the (initial) prior to the prediction, "
         "so that initial probabilities are near the prior",
         "false without rule", OptionalAttr<BoolAttr>>,
     PositiveKey<"temperature", "temperature of the predictor's Gumbel-sigmoid, in training",
                 "0.5 without rule">,
     PositiveKey<"weight", "weight of the loss of a predictor or router",
                 "1; for a router 0.03">,
     IntegerKey<"document_end",
                "token that always ends a segment, in addition to the rule, predictor or router",
                "none",
                "0">,
     IntegerKey<"longest",
                "most rows of a segment: a row also ends one if its distance to the last row "
                "before it that the rule or a document ends is a multiple of this",
                "none">,
     CapacityKey];
def Spec_BoundariesOp
    : Spec_Sink<"boundaries",
                "Boundary bits that end or begin segments of the tokens, set by a rule or "
                "predicted; shorten and upsample stages refer to the segments.",
                boundaryKeys, (ins Spec_Stream:$input), (outs Spec_Segmentation:$result)> {
  let extraClassDeclaration = [{
    /// Returns the maximum number of segments per row of a batch.
    int64_t getMostSegments();
    /// Returns the number of rows beyond the segments that some stage accesses.
    int64_t getSpareRows();
    /// Returns the most rows of a segment, or 0 without a bound.
    int64_t getLongestSegment();
    /// Returns the shift of predicted logits: log(a / (1 - a)) for the initial prior a, or 0.
    double computeLogitShift();
    /// Returns true if a bit begins a segment.
    bool beginsSegments() { return getAt() == SegmentEdge::start; }
    /// Returns true if the stage follows the paper's public code instead of the paper.
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
def Spec_AttendOp
    : Spec_StreamStage<
          "attend",
          "Cross-attention between a scale and its segments: from segments to their own rows, or "
          "from rows to the parts of a segment's row.",
          [AttendOverKey, AttendSegmentsKey, AttendHeadsKey,
           IntegerKey<"head_size", "columns per head",
                      "width of the segmented stream / heads">,
           IntegerKey<"parts", "queries per segment, or keys that a segment's row is split into",
                      "1", "1", "64",
                      "1">,
           IntegerKey<"by", "for rows that attend to segments: offset back to the segment, as for "
                            "an upsample stage",
                      "1: the last segment that ended", "0">,
           WordKey<"norm", Spec_NormFunction, ["layer", "rms"], "norm of both streams", "layer">,
           PositiveKey<"epsilon", "epsilon of the norms", "1e-5", "1e-5">,
           BooleanKey<"bias", "adds biases to its linear maps", "true">],
          (ins Spec_Stream:$input, Spec_Stream:$over, Spec_Segmentation:$segments),
          [DeclareOpInterfaceMethods<Spec_WeightsInterface>]> {
  let extraClassDeclaration = [{
    SegmentationType getSegmentation() {
      return ::mlir::cast<SegmentationType>(getSegments().getType());
    }
    /// Returns true if queries are segments, which attend to their own rows.
    bool readsRows();
  }];
  let article = "an";
  let inherits = 1;
}

#endif // SLUICE_SPEC_STAGES_TD
