// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Composite stages, which `spec-expand-composites` replaces.

#ifndef SLUICE_SPEC_COMPOSITES_TD
#define SLUICE_SPEC_COMPOSITES_TD

include "sluice/Dialect/Spec/SpecLosses.td"

/// A stage that expands to other stages: lib/Conversion/ExpandComposites defines `expandNAME` for
/// `Spec_NAMEOp`. Its result has the type of its input. With `checksKeys`,
/// lib/Dialect/Spec/Composites.cpp defines its verifier.
class Spec_Composite;

/// A composite stage with the settings of layers.
class Spec_LayerComposite<string mnemonic, string sentence, list<Key> keys, bit checksKeys = 1>
    : Spec_StreamStage<mnemonic, sentence, !listconcat(keys, layerKeys), (ins Spec_Stream:$input),
                       [Spec_LayerSettingsInterface]>,
      Spec_Composite {
  let inherits = 1;
  let hasLayerKeys = 1;
  let extraClassDefinition = [{
    ::mlir::Type $cppClass::computeResultType() { return getInput().getType(); }
    void $cppClass::setDerivedDefaults() {
      setLayerDefaults(*this, getStream(getInput()).getWidth());
    }
  }]#!if(checksKeys, "", [{
    ::llvm::LogicalResult $cppClass::verify() {
      return ::mlir::failure(failed(verifyLayerSettings(*this)) ||
                             failed(verifyAxis(*this, getInput())));
    }
  }]);
}

def CountKey : IntegerKey<"count", "number of layers", "required", "1", "10000">;
def Spec_LayersOp
    : Spec_LayerComposite<"layers", "A stack of transformer layers.", [CountKey, FirstRowKey]>;

def Spec_HourglassOp
    : Spec_LayerComposite<
          "hourglass",
          "Layers on several scales: shift, shorten, inner levels, upsample, residual sum.",
          [HierarchyKey<"N@f is N layers on a scale f times coarser than the stage's input: \"2@1 "
                        "8@4 2@1\"; for 8@{2,3} each training step draws one factor",
                        "2@1 8@4 2@1">,
           WordKey<"shorten", Spec_ShortenMethod,
                   !listconcat(shortenWords, ["attention", "attention_linear"]),
                   "method of every shorten stage of the expansion; attention: cross-attention "
                   "from the group's average, or a linear map of the group, to the stream",
                   "average">,
           ShortenWindowKey,
           WordKey<
               "shorten_keys", Spec_ShortenKeySet, ["all", "group"],
               "keys of shortening by attention: all positions up to the group, or the positions "
               "of the group only",
               "all">,
           WordKey<
               "upsample", Spec_UpsampleMethod,
               ["repeat", "linear", "attention", "attention_linear", "attention_repeat"],
               "method of every upsample stage of the expansion; attention: cross-attention "
               "to the coarse stream, from the stream before shortening alone or plus a "
               "linear upsampling or a repetition",
               "repeat">,
           BooleanKey<"upsample_norm", "adds a norm after every upsample stage of the expansion",
                      "false">,
           IntegerKey<"shift", "shift before each shortening, equal on all levels",
                      "relative factor - 1", "0">,
           WordKey<
               "shifted", Spec_ShiftedSide, ["input", "output"],
               "position of the shift: the input of each shortening, or the output of each "
               "upsampling",
               "input">,
           WordKey<"start", Spec_StartRows, ["zeros", "null", "norm"],
                   "value of shifted-in rows: zeros, a trained row, or, in shortening by "
                   "attention, the norm of zeros, as if the shift preceded the norm",
                   "zeros">]> {
  let article = "an";
  let extraClassDeclaration = [{
    /// Return true if attention computes the shortened, or the upsampled, stream.
    bool attendsDown();
    bool attendsUp();
  }];
}

def Spec_TopDownOp
    : Spec_LayerComposite<
          "top_down",
          "Scales of a pooled stream from the coarsest to the tokens; each scale takes the "
          "previous one as input.",
          [HierarchyKey<"N@f is N layers on a scale f times coarser than the stage's input, the "
                        "coarsest first: \"2@16 4@4 8@1\"",
                        "2@16 4@4 8@1">,
           ShortenInsideKey, ShortenWindowKey,
           WordKey<"upsample", Spec_UpsampleMethod, ["repeat", "linear"],
                   "method of every upsample stage of the expansion", "repeat">,
           ProjectionKey<"projection_activation", "activation of the project stages that join "
                                                  "two scales">,
           PositiveKey<"bags",
                       "adds a loss of this factor to each coarse scale, against the tokens that "
                       "follow a group",
                       "no such losses">,
           StartKey]> {
  let extraClassDeclaration = [{
    /// Returns the number of tokens before the first row that has a group of the coarsest scale.
    int64_t getTokensBefore();
  }];
}

def Spec_BottomUpOp
    : Spec_LayerComposite<
          "bottom_up",
          "Layers on successively coarser scales, a layer whose heads attend to all of them, then "
          "fine layers.",
          [HierarchyKey<"N@f is N layers on groups of f, from fine to coarse: \"9@1 9@4 8@16\"",
                        "9@1 9@4 8@16">,
           ShortenInsideKey, ShortenWindowKey,
           WordKey<"pooling", Spec_PoolingSource, ["cascaded", "repooled"],
                   "stream that groups are pooled from: the finer scale's result, or the stage's "
                   "input",
                   "cascaded">]>;

class GraphKey<string key, string between>
    : WordKey<key, Spec_GraphUse, ["convolution", "pooling", "gat", "none"],
              "sums " # between # ": a graph convolution, a mean without weights, graph attention, "
              "or none",
              "convolution">;

/// Encoder layers of an input whose rows segments group to words. `type` is the type of the result.
class Spec_WordComposite<string mnemonic, string sentence, list<Key> keys,
                         string type = "getInput().getType()">
    : Spec_StreamStage<mnemonic, sentence,
                       !listconcat([SegmentsKey<"name of segments", "the words of the stream",
                                                "required">],
                                   keys,
                                   [ActivationKey, DropoutKey, FeedForwardDropoutKey,
                                    FeedForwardWidthKey<"hidden width of the feed-forward block",
                                                        "1">]),
                       (ins Spec_Stream:$input, Spec_Segmentation:$segments)>,
      Spec_Composite {
  let inherits = 1;
  let extraClassDefinition = [{
    ::mlir::Type $cppClass::computeResultType() { return }]#type#[{; }
    void $cppClass::setDerivedDefaults() {}
  }];
}
def Spec_UmstOp
    : Spec_WordComposite<
          "umst",
          "Encoder layers of an input that exchange rows inside words and between words, with "
          "attention over both (UMST).",
          !listconcat(
              [CountKey,
               GraphEdgesKey<"required without \"inter\": \"none\"">, GraphKey<"intra",
               "inside words">,
               GraphEdgesKey<"rows of a word are neighbours", "intra_edges",
                             "in place of words in \"intra\": edges between rows">,
               GraphKey<"inter", "between words">,
               WordKey<"graph_maps", Spec_GraphMaps, ["own", "layers", "scales"],
                       "linear maps of graph convolutions: own, shared by all layers, or shared by "
                       "both scales of a layer",
                       "own">,
               WordKey<"mode", Spec_Fidelity, ["paper", "reference-code"],
                       "behavior where the paper and its public code differ", "paper">],
              wordAttentionKeys)> {
  let article = "an";
}
def Spec_TntOp
    : Spec_WordComposite<
          "tnt",
          "Encoder layers of an input in pairs: over the rows of a word, then over all rows "
          "(Transformer in Transformer).",
          !listconcat([CountKey,
                       BooleanKey<"shared_layers", "both layers of a pair have one set of weights",
                                  "false">],
                      attentionBlockKeys)>;

//===----------------------------------------------------------------------===//
// Lists of other stages
//===----------------------------------------------------------------------===//

/// An array of `count` layer counts. With `nests`, the second of three may be another such array.
class Spec_Counts<int count, bit nests = 0>
    : ConfinedAttr<
          ArrayAttr,
          [AttrConstraint<
              CPred<"::sluice::spec::isCounts(::llvm::cast<::mlir::ArrayAttr>($_self), "#count#", "#
                    !if(nests, "true", "false")#")">,
              "of "#count#" numbers of layers from 0 to 10000">]>;
class CountsKey<string type, string meaning, string hint_, Attr attr>
    : SpecialKey<"layers", type, meaning, "required", attr> {
  let hint = hint_;
}
def ThreeCountsKey
    : CountsKey<"array of three integers >= 0", "layers before the segments, on the segments, and "
                                                "after them",
                "an array of three numbers of layers, as in [2, 8, 2]", Spec_Counts<3>>;
def TwoCountsKey : CountsKey<"array of two integers >= 0", "layers on patches, and inside each "
                                                           "patch",
                             "an array of two numbers of layers, as in [14, 14]", Spec_Counts<2>>;
def StageCountsKey
    : CountsKey<"array of three integers >= 0", "layers on rows, on words before the graph "
                                                "convolution, and on words after it",
                "an array of three numbers of layers, as in [2, 2, 2]", Spec_Counts<3>>;
def Spec_MultiStageOp
    : Spec_WordComposite<
          "multi_stage",
          "An encoder of an input whose result is its words: layers on rows, means of words, and "
          "layers on words around a graph convolution.",
          !listconcat([StageCountsKey, GraphEdgesKey<"required", "edges", "edges between words">],
                      attentionBlockKeys),
          "getResultStream()"> {
  let extraClassDeclaration = [{
    /// Returns the type of the stream of words.
    StreamType getResultStream();
  }];
}
class LayerObjectKey<string key, string meaning>
    : SpecialKey<key, "object", meaning, "{}", OptionalAttr<DictionaryAttr>>;
def LocalKey : LayerObjectKey<"local", "settings of the layers on the finer scale">;
def GlobalKey : LayerObjectKey<"global", "settings of the layers on the coarse scale">;
def CoarseWidthKey : ResultWidthKey<"width of the coarse scale">;
class CutKey<string otherwise>
    : SpecialKey<"boundaries", "object", "settings of a boundaries stage", otherwise,
                 !if(!eq(otherwise, "required"), DictionaryAttr, OptionalAttr<DictionaryAttr>)> {
  let hint = "an object, the settings of boundaries";
}
class PoolingMethodKey<string otherwise>
    : WordKey<"method", Spec_ShortenMethod, ["average", "max", "last"],
              "method that computes a segment's row", otherwise>;
class GroupSizeKey<string key, string meaning> : IntegerKey<key, meaning, "required", "2">;

/// A composite stage that expands to a list of stages. Keys of `defaults` go into `local` and
/// `global`.
class Spec_ListComposite<string mnemonic, string sentence, list<Key> keys, bit checksKeys = 1>
    : Spec_Stage<mnemonic, sentence, keys, (ins Spec_Stream:$input),
                 (outs Spec_Stream:$result, Variadic<Spec_Segmentation>:$inside)>,
      Spec_Composite {
  let description = [{
    Later stages may refer to the segments of a stage of the expansion: `inside`, in the order of
    the levels.
  }];
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = [{
    ::mlir::Type $cppClass::computeResultType() { return getInput().getType(); }
    void $cppClass::setDerivedDefaults() {}
  }]#!if(checksKeys, "",
         "::llvm::LogicalResult $cppClass::verify() { return verifyAxis(*this, getInput()); }");
}

def Spec_DynamicOp
    : Spec_ListComposite<
          "dynamic", "Dynamic token pooling: layers, means of segments, layers on these, layers.",
          [ThreeCountsKey, CutKey<"required">, PoolingMethodKey<"average">, CoarseWidthKey,
           LocalKey, GlobalKey]>;
def Spec_MegabyteOp
    : Spec_ListComposite<"megabyte",
                         "MEGABYTE: layers on patches of bytes, then layers inside each patch.",
                         [TwoCountsKey, GroupSizeKey<"patch", "bytes of a patch">, CoarseWidthKey,
                          LocalKey, GlobalKey]>;
def Spec_BlockTransformerOp
    : Spec_ListComposite<
          "block_transformer",
          "Block Transformer: layers on blocks, then layers inside each block after a prefix.",
          [TwoCountsKey, GroupSizeKey<"block", "tokens of a block">, CoarseWidthKey, LocalKey,
           GlobalKey]>;
def Spec_SpaceByteOp
    : Spec_ListComposite<
          "spacebyte", "SpaceByte: layers on the bytes after spaces, between layers on all bytes.",
          [ThreeCountsKey, CutKey<"{\"rule\": \"space_like\", \"at\": \"start\"}">, CoarseWidthKey,
           LocalKey, GlobalKey]>;
/// Sizes from 1 to mostSize of Limits.h.
def Spec_Sizes
    : ConfinedAttr<
          DenseI64ArrayAttr,
          [AttrConstraint<
              CPred<"::sluice::spec::isSizes(::llvm::cast<::mlir::DenseI64ArrayAttr>($_self))">,
              "each from 1 to 2147483647">]>;
def LevelCountsKey : CountsKey<"array of three",
                               "layers before the chunks, on the chunks, and after them; an array "
                               "as the second entry nests another level, up to 16",
                               "an array of three numbers of layers, as in [4, 22, 4], the second "
                               "of which may be another such array",
                               Spec_Counts<3, 1>>;
def Spec_HnetOp
    : Spec_ListComposite<
          "hnet",
          "H-Net: layers on the chunks of a router, between layers on rows; levels nest.",
          [LevelCountsKey,
           SpecialKey<
               "boundaries", "object, or array of them by level",
               "settings of boundaries stages: routers, or rules",
               "{\"ratio\": 6, \"at\": \"start\"}",
               OptionalAttr<TypedArrayAttrBase<DictionaryAttr, "settings of boundaries by level">>>,
           SpecialKey<"width", "integer >= 1, or array of them by level",
                      "width of the coarse scale", "that of the stream", OptionalAttr<Spec_Sizes>>,
           LocalKey, GlobalKey]> {
  let article = "an";
}
def Spec_BltOp
    : Spec_ListComposite<
          "blt",
          "Byte latent transformer: patches attend to their bytes, and bytes attend to patches.",
          [ThreeCountsKey, CutKey<"required">, PoolingMethodKey<"max">,
           IntegerKey<"parts", "queries per patch, and keys that a patch's row is split into", "2",
                      "1", "64", "2">,
           CoarseWidthKey, LocalKey, GlobalKey]>;

#endif // SLUICE_SPEC_COMPOSITES_TD
