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
      Returns the type of the result, a stream or a segmentation; null if there is none. Reports an
      error and returns null if the operands do not fit the stage.
    }], "::mlir::Type", "computeResultType">,
    InterfaceMethod<"Prefix of the weights' names; null before paths are assigned.",
                    "::mlir::StringAttr", "getPathAttr">,
    InterfaceMethod<"Name of the result in the spec; null without one.", "::mlir::StringAttr",
                    "getToAttr">,
    InterfaceMethod<"Returns true if training does not update the weights.", "bool",
                    "getFrozen">,
    InterfaceMethod<"Name of the weights that the stage shares with others; null without one.",
                    "::mlir::StringAttr", "getShareAttr">,
    InterfaceMethod<"Tensors of other stages that this one reads, by the name of its own part; "
                    "null without any.", "::mlir::DictionaryAttr", "getSharedWeightsAttr">,
    InterfaceMethod<"Sets the tensors of other stages that this one reads.", "void",
                    "setSharedWeightsAttr", (ins "::mlir::DictionaryAttr":$weights)>,
    InterfaceMethod<"Number of tokens before the first row of the result that may be scored; "
                    "null means 0.", "::mlir::IntegerAttr", "getFirstTokensAttr">,
    InterfaceMethod<"Sets the number of tokens before the first row that may be scored.", "void",
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
      Adds the stage's tensors to the list, in the order of files. The weights of attention.query,
      key and value are adjacent, then their biases, so that this layout stores them as one matrix;
      likewise feed_forward.gate and in. With separate queries, only the weights of key and value
      are adjacent.
    }], "void", "listWeights", (ins "::sluice::spec::WeightList &":$list)>
  ];
}

def Spec_LayerSettingsInterface : OpInterface<"LayerSettingsInterface"> {
  let cppNamespace = "::sluice::spec";
  let description = [{
    A stage with the settings of layers. Verification sets `heads` and all settings that are derived
    from it.
  }];
  let methods =
      [InterfaceMethod<"Number of heads.", "std::optional<int64_t>", "getHeads">,
       InterfaceMethod<"Number of key and value heads.", "std::optional<int64_t>",
                       "getKeyValueHeads">,
       InterfaceMethod<"Columns per head.", "std::optional<int64_t>", "getHeadSize">,
       InterfaceMethod<"Function of every norm.", "::sluice::spec::NormFunction", "getNorm">,
       InterfaceMethod<"Position of the norms: before blocks or after residual sums.",
                       "::sluice::spec::NormPlacement",
                       "getPlacement">,
       InterfaceMethod<"Epsilon added to the norms' variance.", "double", "getEpsilon">,
       InterfaceMethod<"Elementwise function of the feed-forward block.",
                       "::sluice::spec::ActivationFunction", "getActivation">,
       InterfaceMethod<"Hidden width of the feed-forward block.", "std::optional<int64_t>",
                       "getFeedForward">,
       InterfaceMethod<"Rate of dropout after each block.", "double", "getDropout">,
       InterfaceMethod<"Rate of dropout of attention probabilities.", "double",
                       "getAttentionDropout">,
       InterfaceMethod<"Attention mask.", "::sluice::spec::MaskAttr", "getMask">,
       InterfaceMethod<"Sets the attention mask.", "void", "setMaskAttr",
                       (ins "::sluice::spec::MaskAttr":$mask)>,
       InterfaceMethod<"Sets the number of key and value heads.", "void", "setKeyValueHeadsAttr",
                       (ins "::mlir::IntegerAttr":$heads)>,
       InterfaceMethod<"Sets the columns per head.", "void", "setHeadSizeAttr",
                       (ins "::mlir::IntegerAttr":$columns)>,
       InterfaceMethod<"Sets the hidden width of the feed-forward block.", "void",
                       "setFeedForwardAttr", (ins "::mlir::IntegerAttr":$width)>,
       InterfaceMethod<"Base of rotary angles; std::nullopt without rotation.",
                       "std::optional<double>",
                       "getRotary">,
       InterfaceMethod<"Relative position terms of scores.",
                       "std::optional<::sluice::spec::RelativeAttr>", "getRelative">,
       InterfaceMethod<"Unit of Transformer-XL's distances.", "::sluice::spec::DistanceUnit",
                       "getDistances">,
       InterfaceMethod<"Parameters of LSH attention; std::nullopt for attention by the mask alone.",
                       "std::optional<::sluice::spec::LshAttr>", "getLsh">,
       InterfaceMethod<"True if linear maps have biases.", "bool", "getBias">,
       InterfaceMethod<"Scales that groups of heads attend to.", "std::optional<::mlir::ArrayAttr>",
                       "getScales">];
}

#endif // SLUICE_SPEC_INTERFACES_TD
