// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Composite stages: those that are replaced by others.

#ifndef SLUICE_SPEC_COMPOSITES_TD
#define SLUICE_SPEC_COMPOSITES_TD

include "sluice/Dialect/Spec/SpecStages.td"

/// A composite stage with the settings of layers.
class Spec_LayerComposite<string mnemonic, string sentence, list<Key> keys>
    : Spec_StreamStage<mnemonic, sentence, !listconcat(keys, layerKeys), (ins Spec_Stream:$input),
                       [Spec_LayerSettingsInterface]> {
  let inherits = 1;
  let hasLayerKeys = 1;
}

def CountKey : IntegerKey<"count", "number of layers", "required", "1", "10000">;
def Spec_LayersOp : Spec_LayerComposite<"layers", "A stack of transformer layers.", [CountKey, FirstRowKey]>;

def Spec_HourglassOp
    : Spec_LayerComposite<
          "hourglass", "Layers on several scales: shift, shorten, inner levels, upsample, residual sum.",
          [HierarchyKey<"N@f is N layers on a scale f times coarser than the stage's input: \"2@1 8@4 2@1\"; of 8@{2,3} each step of "
                        "training draws one factor",
                        "2@1 8@4 2@1">,
           WordKey<"shorten", Spec_ShortenMethod, !listconcat(shortenWords, ["attention", "attention_linear"]),
                   "method of every shorten stage inside; attention: from the group's average, or a linear map of it, over the "
                   "stream",
                   "average">,
           ShortenWindowKey,
           WordKey<"shorten_keys", Spec_ShortenKeySet, ["all", "group"],
                   "of attention that shortens: all positions up to the group, or the group's alone", "all">,
           WordKey<"upsample", Spec_UpsampleMethod, ["repeat", "linear", "attention", "attention_linear"],
                   "method of every upsample stage inside; attention: from the stream before shortening, alone or with a linear "
                   "upsampling, over the coarse one",
                   "repeat">,
           IntegerKey<"shift", "shift before each shortening, the same on every level", "relative factor - 1", "0">,
           WordKey<"shifted", Spec_ShiftedSide, ["input", "output"],
                   "what is shifted: the input of each shortening, or the output of each upsampling", "input">,
           StartKey]> {
  let article = "an";
  let extraClassDeclaration = [{
    /// True where a stream is shortened, or upsampled, by attention from it.
    bool attendsDown();
    bool attendsUp();
  }];
}

def Spec_TopDownOp
    : Spec_LayerComposite<
          "top_down", "Scales of a pooled stream from the coarsest to the tokens; each reads the one before it.",
          [HierarchyKey<"N@f is N layers on a scale f times coarser than the stage's input, the coarsest first: \"2@16 4@4 8@1\"",
                        "2@16 4@4 8@1">,
           ShortenInsideKey, ShortenWindowKey,
           WordKey<"upsample", Spec_UpsampleMethod, ["repeat", "linear"], "method of every upsample stage inside", "repeat">,
           ProjectionKey<"projection_activation", "of the project stages that join two scales">,
           PositiveKey<"bags", "gives each coarse scale a loss of this factor, against the tokens that follow a group",
                       "no such losses">,
           StartKey]> {
  let extraClassDeclaration = [{
    /// Tokens before the first row that has a group of the coarsest scale.
    int64_t getTokensBefore();
  }];
}

def Spec_BottomUpOp
    : Spec_LayerComposite<
          "bottom_up", "Layers on scale after scale, a layer whose heads read them all, then fine layers.",
          [HierarchyKey<"N@f is N layers on groups of f, from fine to coarse: \"9@1 9@4 8@16\"", "9@1 9@4 8@16">,
           ShortenInsideKey, ShortenWindowKey,
           WordKey<"pooling", Spec_PoolingSource, ["cascaded", "repooled"],
                   "what groups are made of: the finer scale's result, or the stage's input", "cascaded">]>;

//===----------------------------------------------------------------------===//
// Lists of other stages
//===----------------------------------------------------------------------===//

class CountsKey<string type, string meaning, string hint_> : SpecialKey<"layers", type, meaning, "required", ArrayAttr> {
  let hint = hint_;
}
def ThreeCountsKey : CountsKey<"array of three integers >= 0", "layers before the segments, on them, and behind",
                               "an array of three numbers of layers, as in [2, 8, 2]">;
def TwoCountsKey : CountsKey<"array of two integers >= 0", "layers on patches, and in each",
                             "an array of two numbers of layers, as in [14, 14]">;
class LayerObjectKey<string key, string meaning> : SpecialKey<key, "object", meaning, "{}", OptionalAttr<DictionaryAttr>>;
def LocalKey : LayerObjectKey<"local", "settings of the layers on the finer scale">;
def GlobalKey : LayerObjectKey<"global", "settings of the layers on the coarse scale">;
def CoarseWidthKey : ResultWidthKey<"width of the coarse scale">;
class CutKey<string otherwise>
    : SpecialKey<"boundaries", "object", "settings of a boundaries stage", otherwise,
                 !if(!eq(otherwise, "required"), DictionaryAttr, OptionalAttr<DictionaryAttr>)> {
  let hint = "an object, the settings of boundaries";
}
class PoolingMethodKey<string otherwise>
    : WordKey<"method", Spec_ShortenMethod, ["average", "max", "last"], "what makes a row of a segment", otherwise>;
class GroupSizeKey<string key, string meaning> : IntegerKey<key, meaning, "required", "2">;

/// A composite stage that is a list of others. Keys of `defaults` are in `local` and `global`.
class Spec_ListComposite<string mnemonic, string sentence, list<Key> keys>
    : Spec_Stage<mnemonic, sentence, keys, (ins Spec_Stream:$input), (outs Spec_Stream:$result, Variadic<Spec_Segmentation>:$inside)> {
  let description = [{ Later stages may name the segments that a stage inside makes: `inside`, in the order of the levels. }];
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Spec_DynamicOp : Spec_ListComposite<"dynamic", "Dynamic token pooling: layers, means of segments, layers on these, layers.",
                                        [ThreeCountsKey, CutKey<"required">, PoolingMethodKey<"average">, CoarseWidthKey, LocalKey,
                                         GlobalKey]>;
def Spec_MegabyteOp : Spec_ListComposite<"megabyte", "MEGABYTE: layers on patches of bytes, then layers inside each patch.",
                                         [TwoCountsKey, GroupSizeKey<"patch", "bytes of a patch">, CoarseWidthKey, LocalKey,
                                          GlobalKey]>;
def Spec_BlockTransformerOp
    : Spec_ListComposite<"block_transformer", "Block Transformer: layers on blocks, then layers inside each block behind a prefix.",
                         [TwoCountsKey, GroupSizeKey<"block", "tokens of a block">, CoarseWidthKey, LocalKey, GlobalKey]>;
def Spec_SpaceByteOp
    : Spec_ListComposite<"spacebyte", "SpaceByte: layers on the bytes behind spaces, between layers on all bytes.",
                         [ThreeCountsKey, CutKey<"{\"rule\": \"space_like\", \"at\": \"start\"}">, CoarseWidthKey, LocalKey,
                          GlobalKey]>;
def LevelCountsKey
    : CountsKey<"array of three", "layers before the chunks, on them, and behind; an array in place of the second is another level",
                "an array of three numbers of layers, as in [4, 22, 4], the second of which may be another such array">;
def Spec_HnetOp
    : Spec_ListComposite<"hnet", "H-Net: layers on chunks that a router cuts, between layers on rows; levels nest.",
                         [LevelCountsKey,
                          SpecialKey<"boundaries", "object, or array of them by level",
                                     "settings of boundaries stages: routers, or rules", "{\"ratio\": 6, \"at\": \"start\"}",
                                     OptionalAttr<ArrayAttr>>,
                          SpecialKey<"width", "integer >= 1, or array of them by level", "width of the coarse scale",
                                     "that of the stream", OptionalAttr<DenseI64ArrayAttr>>,
                          LocalKey, GlobalKey]> {
  let article = "an";
}
def Spec_BltOp
    : Spec_ListComposite<"blt", "Byte latent transformer: patches that attend to their bytes, and bytes to patches.",
                         [ThreeCountsKey, CutKey<"required">, PoolingMethodKey<"max">,
                          IntegerKey<"parts", "queries of a patch, and keys that its row is", "2", "1", "64", "2">, CoarseWidthKey,
                          LocalKey, GlobalKey]>;

#endif // SLUICE_SPEC_COMPOSITES_TD
