// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interfaces of stages.

#ifndef SLUICE_SPEC_INTERFACES_TD
#define SLUICE_SPEC_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Spec_StageInterface : OpInterface<"StageInterface"> {
  let cppNamespace = "::sluice::spec";
  let description = [{ A stage of a spec. }];
  let verify = [{ return ::sluice::spec::verifyStage($_op); }];
  let methods = [
    InterfaceMethod<[{
      Returns the type of the result, a stream or a segmentation; null where there is none. Reports
      an error and returns null where the operands do not fit the stage.
    }], "::mlir::Type", "computeResultType">,
    InterfaceMethod<"Prefix of the weights' names; null before paths are assigned.",
                    "::mlir::StringAttr", "getPathAttr">,
    InterfaceMethod<"Name of the result in the spec; null without one.", "::mlir::StringAttr",
                    "getToAttr">,
    InterfaceMethod<"Returns true if training leaves the weights as they were given.", "bool",
                    "getFrozen">,
    InterfaceMethod<"Tokens before the first row of the result that may be scored; null stands for "
                    "0.", "::mlir::IntegerAttr", "getFirstTokensAttr">,
    InterfaceMethod<"Sets the tokens before the first row that may be scored.", "void",
                    "setFirstTokensAttr", (ins "::mlir::IntegerAttr":$tokens)>,
    InterfaceMethod<[{
      Sets attributes whose defaults are derived from others or from the operands' types.
    }], "void", "setDerivedDefaults", (ins), "", "">
  ];
}

def Spec_WeightsInterface : OpInterface<"WeightsInterface"> {
  let cppNamespace = "::sluice::spec";
  let description = [{ A primitive stage that may have trained tensors. }];
  let methods = [
    InterfaceMethod<[{
      Adds the stage's tensors to the list, in the order of files. Weights of attention.query, key
      and value follow one another, then their biases, so that laid out in this order they are one
      matrix; likewise feed_forward.gate and in. With queries of their own, those of key and value
      do alone.
    }], "void", "listWeights", (ins "::sluice::spec::WeightList &":$list)>
  ];
}

def Spec_LayerSettingsInterface : OpInterface<"LayerSettingsInterface"> {
  let cppNamespace = "::sluice::spec";
  let description = [{
    A stage with the settings of layers. After verification, `heads` and all that is derived from it
    are there.
  }];
  let methods =
      [InterfaceMethod<"Number of heads.", "std::optional<int64_t>", "getHeads">,
       InterfaceMethod<"Number of key and value heads.", "std::optional<int64_t>",
                       "getKeyValueHeads">,
       InterfaceMethod<"Columns of a head.", "std::optional<int64_t>", "getHeadSize">,
       InterfaceMethod<"Function of every norm.", "::sluice::spec::NormFunction", "getNorm">,
       InterfaceMethod<"Norms before blocks or after sums.", "::sluice::spec::NormPlacement",
                       "getPlacement">,
       InterfaceMethod<"Added to the norms' variance.", "double", "getEpsilon">,
       InterfaceMethod<"Elementwise function of the feed-forward block.",
                       "::sluice::spec::ActivationFunction", "getActivation">,
       InterfaceMethod<"Hidden width of the feed-forward block.", "std::optional<int64_t>",
                       "getFeedForward">,
       InterfaceMethod<"Rate of dropout after each block.", "double", "getDropout">,
       InterfaceMethod<"Rate of dropout of attention probabilities.", "double",
                       "getAttentionDropout">,
       InterfaceMethod<"Positions that a query reads.", "::sluice::spec::MaskAttr", "getMask">,
       InterfaceMethod<"Sets the positions that a query reads.", "void", "setMaskAttr",
                       (ins "::sluice::spec::MaskAttr":$mask)>,
       InterfaceMethod<"Sets the number of key and value heads.", "void", "setKeyValueHeadsAttr",
                       (ins "::mlir::IntegerAttr":$heads)>,
       InterfaceMethod<"Sets the columns of a head.", "void", "setHeadSizeAttr",
                       (ins "::mlir::IntegerAttr":$columns)>,
       InterfaceMethod<"Sets the hidden width of the feed-forward block.", "void",
                       "setFeedForwardAttr", (ins "::mlir::IntegerAttr":$width)>,
       InterfaceMethod<"Base of rotary angles; none: no rotation.", "std::optional<double>",
                       "getRotary">,
       InterfaceMethod<"Terms of scores by distance.",
                       "std::optional<::sluice::spec::RelativeAttr>", "getRelative">,
       InterfaceMethod<"Unit of Transformer-XL's distances.", "::sluice::spec::DistanceUnit",
                       "getDistances">,
       InterfaceMethod<"Attention by hashes; none: by the mask.",
                       "std::optional<::sluice::spec::LshAttr>", "getLsh">,
       InterfaceMethod<"Biases of linear maps.", "bool", "getBias">,
       InterfaceMethod<"Scales that groups of heads read.", "std::optional<::mlir::ArrayAttr>",
                       "getScales">];
}

#endif // SLUICE_SPEC_INTERFACES_TD
