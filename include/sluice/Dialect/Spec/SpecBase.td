// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The spec dialect: its types, attributes and the classes that declare keys.

#ifndef SLUICE_SPEC_BASE_TD
#define SLUICE_SPEC_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"

def Spec_Dialect : Dialect {
  let name = "spec";
  let cppNamespace = "::sluice::spec";
  let summary = "A model spec as the user wrote it";
  let description = [{
    One op per stage of a spec, and ops for its other objects. Each key of a spec is declared once,
    as a `Key` of the op that has it: type, range, meaning and default. The JSON reader, the
    editor's hover texts and the tables of docs/spec.md are generated from these declarations.

    Streams are SSA values. Their type has the axis, the factor of the scale and the width. The
    location of a stage is a `FusedLoc` with the source location of its opening brace; its metadata
    is a dictionary with the source location of each key's value.

    `spec-expand-composites` replaces composite stages by primitive stages. After it,
    `spec-assign-weights` lists the trained tensors, and `convert-spec-to-sluice` converts stage by
    stage.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

/// Words that a key takes. A hyphen of a spec's word is an underscore here.
class Spec_Words<string name, string meaning, string mnemonic_, list<string> words>
    : I32EnumAttr<name, meaning,
                  !foreach(i, !range(!size(words)),
                           I32EnumAttrCase<!cond(!eq(words[i], "false"): "False",
                                                 true: words[i]),
                                           i, words[i]>)> {
  let cppNamespace = "::sluice::spec";
  let genSpecializedAttr = 0;
  string mnemonic = mnemonic_;
  list<string> all = words;
}
class Spec_WordAttr<Spec_Words words> : EnumAttr<Spec_Dialect, words, words.mnemonic>;

def Spec_AxisKind : Spec_Words<"AxisKind", "Axis of a stream's rows",
                               "axis", ["tokens", "input", "segments"]>;
def Spec_PositionTable : Spec_Words<"PositionTable", "Positional encoding added to embeddings",
                                    "positions",
                                    ["none", "learned", "sinusoidal"]>;
def Spec_NormFunction : Spec_Words<"NormFunction", "Norm over features", "norm", ["layer", "rms"]>;
def Spec_NormPlacement : Spec_Words<"NormPlacement", "Norm before a block or after its sum",
                                    "placement", ["pre", "post"]>;
def Spec_ActivationFunction
    : Spec_Words<"ActivationFunction", "Elementwise function",
                 "activation", ["none", "relu", "gelu", "gelu_tanh", "swiglu", "relu_squared"]>;
/// Methods of one linear map or none.
defvar shortenWords = ["average", "linear", "max", "convolution"];
def Spec_ShortenMethod : Spec_Words<"ShortenMethod", "Method that computes a coarse row",
                                    "shorten_method",
                                    !listconcat(shortenWords, ["concatenate", "sum",
                                                               "normalized", "last",
                                                               "first", "stack", "attention",
                                                               "attention_linear"])>;
def Spec_UpsampleMethod : Spec_Words<"UpsampleMethod", "Method that computes fine rows",
                                     "upsample_method",
                                     ["repeat", "linear", "transposed", "split", "scatter",
                                      "smooth", "own", "attention", "attention_linear",
                                      "attention_repeat"]>;
def Spec_InitialValues : Spec_Words<"InitialValues", "Initial values of a tensor",
                                    "initial", ["normal", "uniform", "zeros", "identity", "ones"]>;
def Spec_ShortenKeySet : Spec_Words<"ShortenKeySet", "Keys of shortening by attention",
                                    "shorten_keys", ["all", "group"]>;
def Spec_MaskShape
    : Spec_Words<
          "MaskShape", "Shape of an attention mask",
          "mask_shape", ["causal", "complete", "bidirectional", "window", "tokens", "block"]>;
def Spec_RelativeTerms : Spec_Words<"RelativeTerms", "Relative position terms of scores",
                                    "relative_terms", ["none", "bias", "xl", "xl_shared",
                                                       "signed_bias", "vectors"]>;
def Spec_DistanceUnit
    : Spec_Words<"DistanceUnit", "Unit of the distances of Transformer-XL's sinusoids",
                 "distances", ["tokens", "rows"]>;
def Spec_RecurrentCell : Spec_Words<"RecurrentCell", "Cell of a recurrence", "cell",
                                    ["lstm", "lstm_capped"]>;
def Spec_ResetRow : Spec_Words<"ResetRow", "Row of a segment that resets", "reset_row",
                               ["first", "last"]>;
def Spec_RowDirection : Spec_Words<"RowDirection", "Direction of a recurrence", "direction",
                                   ["forward", "backward"]>;
def Spec_SegmentRule
    : Spec_Words<"SegmentRule", "Rule that sets boundary bits",
                 "rule", ["whitespace", "every", "space_like", "labels", "entropy", "coding_rate",
                         "bits"]>;
def Spec_SegmentEdge
    : Spec_Words<"SegmentEdge", "Edge of a segment that a boundary bit marks", "at", ["end",
                 "start"]>;
def Spec_Fidelity : Spec_Words<"Fidelity", "The paper, or its public code where they differ",
                               "mode", ["paper", "reference_code"]>;
def Spec_StartRows : Spec_Words<"StartRows", "Value of shifted-in rows", "start",
                                ["zeros", "null", "norm"]>;
def Spec_ShiftedSide : Spec_Words<"ShiftedSide", "Side of an hourglass level that is shifted",
                                  "shifted", ["input", "output"]>;
def Spec_PoolingSource : Spec_Words<"PoolingSource", "Stream that coarse groups are pooled from",
                                    "pooling", ["cascaded", "repooled"]>;
def Spec_GridKind : Spec_Words<"GridKind", "Groups at fixed positions, or ending at the query",
                               "grid", ["fixed", "moving"]>;
def Spec_OptimizerKind : Spec_Words<"OptimizerKind", "Optimizer", "optimizer", ["adamw", "adam"]>;
def Spec_ScheduleShape : Spec_Words<"ScheduleShape", "Learning rate schedule",
                                    "schedule_kind", ["cosine", "constant", "inverse_root"]>;
def Spec_DataOrder
    : Spec_Words<"DataOrder", "Order of the data over epochs", "order", ["cut", "cyclic"]>;
def Spec_StorageType : Spec_Words<"StorageType", "Storage type of numbers", "storage", ["f32",
                                  "bf16"]>;
def Spec_InputAxis : Spec_Words<"InputAxis", "Axis of an input's rows", "input_axis", ["own",
                                "tokens"]>;
def Spec_InputContents
    : Spec_Words<"InputContents", "Contents of an input", "contents", ["tokens", "numbers",
                                                                       "edges"]>;
def Spec_GraphMethod : Spec_Words<"GraphMethod", "Weights of a row and its neighbours",
                                  "graph_method", ["normalized", "mean", "attention"]>;
def Spec_GraphUse : Spec_Words<"GraphUse", "Sums of neighbours inside a layer", "graph_use",
                               ["convolution", "pooling", "gat", "none"]>;
def Spec_GraphMaps : Spec_Words<"GraphMaps", "Sharing of linear maps of graph convolutions",
                                "graph_maps", ["own", "layers", "scales"]>;
def Spec_WordExpansion
    : Spec_Words<"WordExpansion", "Rows of which a row of attention over segments is made",
                 "word_expansion", ["own", "nearest", "linear"]>;
def Spec_InputUse
    : Spec_Words<"InputUse", "Use of an input of numbers", "role", ["target", "weight", "input"]>;
def Spec_DerivedBits : Spec_Words<"DerivedBits", "Bits that follow from an input's words",
                                  "derived_bits", ["word_end", "word_split", "shuffled_end"]>;
def Spec_EdgePattern : Spec_Words<"EdgePattern", "Edges that no file gives", "edge_pattern",
                                  ["chain", "random", "half"]>;
def Spec_WordRule
    : Spec_Words<"WordRule", "Rule by which words end", "word_rule", ["pieces", "whitespace",
                 "file"]>;

//===----------------------------------------------------------------------===//
// Types and attributes
//===----------------------------------------------------------------------===//

class Spec_Type<string name, string typeMnemonic> : TypeDef<Spec_Dialect, name> {
  let mnemonic = typeMnemonic;
}
class Spec_Attr<string name, string attrMnemonic> : AttrDef<Spec_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Spec_Stream : Spec_Type<"Stream", "stream"> {
  let summary = "A sequence of rows on a scale";
  let description = [{
    Row m represents `factor` positions of the axis, from `factor * m`. The axis is the tokens, a
    named input, or the segments of a boundaries stage; `name` is the name of the input or of the
    segments. A row has `width` numbers. Example: `!spec.stream<tokens by 4, 512>`,
    `!spec.stream<segments("words"), 512>`.
  }];
  let parameters = (ins "AxisKind":$axis, OptionalParameter<"::mlir::StringAttr">:$name,
                        DefaultValuedParameter<"int64_t", "1">:$factor, "int64_t":$width);
  let assemblyFormat = "`<` $axis (`(` $name^ `)`)? (`by` $factor^)? `,` $width `>`";
  let genVerifyDecl = 1;
}

def Spec_Segmentation : Spec_Type<"Segmentation", "segmentation"> {
  let summary = "A division of a stream's rows into segments";
  let description = [{
    Result of a boundaries stage on `stream`. `name` names the segments.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "StreamType":$stream);
  let assemblyFormat = "`<` $name `of` $stream `>`";
}

def Spec_Mask : Spec_Attr<"Mask", "mask"> {
  let summary = "Key positions q visible to a query at position p";
  let description = [{
    The scales of queries and keys have factors a and b.

    - causal: b q <= a p.
    - complete: b (q + 1) <= a (p + 1).
    - bidirectional: every q.
    - window: m - end < q <= m - begin, with m = a p div b.
    - tokens: a (p + 1) - end < b (q + 1) <= a (p + 1) - begin.
    - block, on one scale: q <= p in the block of p. Blocks have `end` rows, and one of them starts
      at row `begin` < `end`.

    Example: `#spec.mask<window from 0 to 128>`.
  }];
  let parameters = (ins "MaskShape":$shape, DefaultValuedParameter<"int64_t", "0">:$begin,
                        DefaultValuedParameter<"int64_t", "0">:$end);
  let constBuilderCall = "::sluice::spec::MaskAttr::get($_builder.getContext(), $0, 0, 0)";
  let assemblyFormat = "`<` $shape (`from` $begin^)? (`to` $end^)? `>`";
  let genVerifyDecl = 1;
}

def Spec_Relative : Spec_Attr<"Relative", "relative"> {
  let summary = "Relative position terms of attention scores";
  let description = [{ `#spec.relative<bias of 32>` has a table of 32 distances per head, and
    `#spec.relative<vectors of 8>` a vector for each of the distances -8 to 8. }];
  let parameters = (ins "RelativeTerms":$terms, DefaultValuedParameter<"int64_t", "0">:$distances);
  let assemblyFormat = "`<` $terms (`of` $distances^)? `>`";
  let genVerifyDecl = 1;
}

def Spec_Lsh : Spec_Attr<"Lsh", "lsh"> {
  let summary = "LSH attention, by locality-sensitive hashing (Kitaev et al. 2020)";
  let parameters = (ins "int64_t":$buckets, "int64_t":$chunk, "int64_t":$hashes, "bool":$causal);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Spec_Scale : Spec_Attr<"Scale", "scale"> {
  let summary =
      "Keys of a group of heads: means of `factor` rows of the layer's input inside a window";
  let parameters = (ins "int64_t":$factor, "bool":$moving, "MaskAttr":$mask);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Spec_Target : Spec_Attr<"Target", "target"> {
  let summary = "A constant number, or one that changes during training";
  let description = [{
    At update n it is `from` + min(1, (n - 1) / steps) (`to` - `from`), in `jumps` equal jumps
    unless that is 0. With `steps` 0 it is `to` throughout.
  }];
  let parameters = (ins "::mlir::FloatAttr":$to, OptionalParameter<"::mlir::FloatAttr">:$from,
      DefaultValuedParameter<"int64_t", "0">:$steps, DefaultValuedParameter<"int64_t", "0">:$jumps);
  let assemblyFormat = "`<` $to (`from` $from^)? (`steps` $steps^)? (`jumps` $jumps^)? `>`";
  let genVerifyDecl = 1;
}

def Spec_Integer : TypedSignlessIntegerAttrBase<I64, "int64_t", "integer"> {
  let convertFromStorage = "$_self.getValue().getSExtValue()";
}
/// Integers from `least` to `largest`; a `largest` of "" is mostSize of Limits.h.
class Spec_IntegerFrom<string least, string largest>
    : ConfinedAttr<
          Spec_Integer,
          [AttrConstraint<
              CPred<"::sluice::spec::isInRange(::llvm::cast<::mlir::IntegerAttr>($_self), "#least#
                    ", "#!if(!eq(largest, ""), "::sluice::mostSize", largest)#")">,
              "from "#least#" to "#!if(!eq(largest, ""), "2147483647", largest)>]>;
def Spec_Number
    : TypedAttrBase<F64, "FloatAttr",
                    And<[CPred<"::llvm::isa<::mlir::FloatAttr>($_self)">,
                         CPred<"::llvm::cast<::mlir::FloatAttr>($_self).getType().isF64()">,
                         CPred<"::llvm::cast<::mlir::FloatAttr>($_self).getValue().isFinite()">]>,
                    "finite number"> {
  let returnType = "double";
  let convertFromStorage = "$_self.getValueAsDouble()";
  let constBuilderCall = "$_builder.getF64FloatAttr($0)";
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

/// Parser of a key's value.
class KeyKind<string name_> { string name = name_; }
def IntegerKind : KeyKind<"Integer">;
def NumberKind : KeyKind<"Number">;
def BooleanKind : KeyKind<"Boolean">;
def WordKind : KeyKind<"Word">;
def TextKind : KeyKind<"Text">;
/// A name of a stream or of segments, which becomes an operand.
def StreamKind : KeyKind<"Stream">;
def SegmentsKind : KeyKind<"Segments">;
/// Values of a special form, parsed by the function `read` plus the attribute's name in camel case.
def SpecialKind : KeyKind<"Special">;

/// A key of an object of a spec.
///   type       its values, as tables show them
///   meaning    one line, as tables and hover texts show it
///   otherwise  the value if the key is absent, as tables show it; "required" for a required key
///   hint       ends the message for a required key that is absent: "add it: HINT"
///   attr       storage in the op; a key without it is an operand or has a reader of its own
class Key<string key_, KeyKind kind_, string type_, string meaning_, string otherwise_,
          Attr attr_> {
  string key = key_;
  /// Name of the op's attribute.
  string attrName = key_;
  KeyKind kind = kind_;
  string type = type_;
  string meaning = meaning_;
  string otherwise = otherwise_;
  string hint = "";
  Attr attr = attr_;
  bit isOperand = 0;
  /// Absence is an error; with `requiredUnless`, only if that key is absent too.
  bit isRequired = !eq(otherwise_, "required");
  string requiredUnless = "";
  // Bounds of integers and numbers.
  string least = "";
  string largest = "";
  bit excludesLeast = 0;
  bit excludesLargest = 0;
  /// Words that a spec may write; `wordsWithSegments` if the key "segments" is present.
  list<string> words = [];
  list<string> wordsWithSegments = [];
  string enumName = "";
  /// Name of the section that declares the object form of the value.
  string section = "";
}

/// The attribute of a key: required, with a default, or optional.
class KeyAttr<Attr base, string default, string otherwise> {
  Attr attr = !if(!ne(default, ""), DefaultValuedAttr<base, default>,
                  !if(!eq(otherwise, "required"), base, OptionalAttr<base>));
}

/// Integers from `least` to `largest`; a `largest` of "" is mostSize of Limits.h.
class IntegerKey<string key, string meaning, string otherwise, string least_ = "1",
                 string largest_ = "", string default = "">
    : Key<key, IntegerKind,
          !if(!eq(largest_, ""), "integer >= "#least_, "integer from "#least_#" to "#largest_),
          meaning, otherwise,
          KeyAttr<Spec_IntegerFrom<least_, largest_>, default, otherwise>.attr> {
  let least = least_;
  let largest = largest_;
}
class NumberKey<string key, string type, string meaning, string otherwise, string default = "">
    : Key<key, NumberKind, type, meaning, otherwise,
          KeyAttr<Spec_Number, default, otherwise>.attr> {
  let least = "0";
}
/// A number >= 0 and < 1.
class ProbabilityKey<string key, string meaning, string otherwise, string default = "">
    : NumberKey<key, "number >= 0 and < 1", meaning, otherwise, default> {
  let largest = "1";
  let excludesLargest = 1;
}
/// A number > 0.
class PositiveKey<string key, string meaning, string otherwise, string default = "">
    : NumberKey<key, "number > 0", meaning, otherwise, default> {
  let excludesLeast = 1;
}
class BooleanKey<string key, string meaning, string default>
    : Key<key, BooleanKind, "boolean", meaning, default, DefaultValuedAttr<BoolAttr, default>>;
class WordKey<string key, Spec_Words enum, list<string> words_, string meaning, string otherwise,
              string default = otherwise>
    : Key<key, WordKind, "string", meaning, otherwise,
          KeyAttr<Spec_WordAttr<enum>,
                  !if(!eq(default, ""), "",
                      "::sluice::spec::" # enum.className # "::" # default),
                  otherwise>.attr> {
  let words = words_;
  let enumName = enum.className;
}
class TextKey<string key, string type, string meaning, string otherwise>
    : Key<key, TextKind, type, meaning, otherwise, KeyAttr<StrAttr, "", otherwise>.attr>;
/// The name of a stream; the op has an operand of the same name.
class StreamKey<string key, string meaning, string otherwise>
    : Key<key, StreamKind, "name of a stream", meaning, otherwise, StrAttr> {
  let isOperand = 1;
}
class SegmentsKey<string type, string meaning, string otherwise>
    : Key<"segments", SegmentsKind, type, meaning, otherwise, StrAttr> {
  let isOperand = 1;
}
class SpecialKey<string key, string type, string meaning, string otherwise, Attr attr>
    : Key<key, SpecialKind, type, meaning, otherwise, attr>;

/// A key whose value becomes ops, an operand or a name.
class ObjectKey<string key, string type, string meaning, string otherwise>
    : SpecialKey<key, type, meaning, otherwise, UnitAttr> {
  let isOperand = 1;
}

/// Attributes of keys, as op arguments.
class KeyArguments<list<Key> keys> {
  defvar stored = !filter(k, keys, !not(k.isOperand));
  dag arguments = !dag(ins, !foreach(k, stored, k.attr), !foreach(k, stored, k.attrName));
}

/// An object of a spec that is neither a stage nor an op. `what` names it in messages.
class Section<string what_, list<Key> keys_> {
  string what = what_;
  list<Key> keys = keys_;
}

#endif // SLUICE_SPEC_BASE_TD
