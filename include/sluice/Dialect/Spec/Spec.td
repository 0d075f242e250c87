// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The spec dialect: a model, its objects that are no stages, and its stages.

#ifndef SLUICE_SPEC_TD
#define SLUICE_SPEC_TD

include "mlir/IR/SymbolInterfaces.td"
include "sluice/Dialect/Spec/SpecComposites.td"

/// An object of a spec that is no stage. `what` names it in messages.
class Spec_Object<string mnemonic, string what_, list<Key> keys_, list<Trait> traits = []>
    : Op<Spec_Dialect, mnemonic, traits> {
  string what = what_;
  let summary = what_;
  list<Key> keys = keys_;
  let arguments = KeyArguments<keys_>.arguments;
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def VersionKey : ObjectKey<"sluice", "1", "version of this format", "required"> {
  let hint = "1, the version of the spec's format";
}
def StagesKey
    : ObjectKey<"stages", "array",
                "the model; first stage embedding of the tokens, last stage head", "required"> {
  let hint = "an array of stages";
}
def DefaultsKey
    : ObjectKey<"defaults", "object",
                "settings every layer, layers, hourglass, top_down and bottom_up stage starts from",
                "{}"> {
  let section = "DefaultsSection";
}
def DefaultsSection : Section<"the defaults", layerKeys>;

/// The accessor `getContext` is the op's own.
class ContextKey<string meaning, string otherwise> : IntegerKey<"context", meaning, otherwise> {
  let attrName = "length";
}

def SeedKey : IntegerKey<"seed", "seed of initialization and of training's random numbers", "0",
                         "0", "9223372036854775807", "0"> {
  let type = "integer >= 0";
}

def Spec_ModelOp
    : Spec_Object<
          "model", "the spec",
          [VersionKey, TextKey<"name", "string", "the model's name", "file stem">,
           IntegerKey<"vocabulary", "number of token ids; ids are bytes when it is 256 or more",
                      "required", "2">,
           ContextKey<"capacity N: most tokens in one row of a batch", "required">,
           IntegerKey<"batch", "capacity B: most rows in a batch", "required">,
           IntegerKey<"width", "model width d", "required">, SeedKey,
           ObjectKey<"inputs", "object of objects",
                     "named inputs: tokens on an axis of their own, as in {\"source\": "
                     "{\"context\": 64}}, or numbers for each token, as in {\"teacher\": "
                     "{\"axis\": \"tokens\", \"role\": \"target\"}}",
                     "{}">,
           DefaultsKey, StagesKey,
           ObjectKey<"precision", "object",
                     "how numbers are stored; arithmetic, weights, moments and sums are f32",
                     "{\"compute\": \"f32\", \"residual\": \"f32\"}">,
           ObjectKey<"training", "object", "optimizer and schedule", "every setting its default">],
          [SymbolTable, SingleBlock, NoTerminator, NoRegionArguments]> {
  let description = [{
    The region has the model's inputs, its settings, then its stages in their order: the first
    embeds the tokens, the last is the head.
  }];
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{
    /// The input of this name, or null.
    InputOp findInput(::llvm::StringRef name);
    /// Most tokens of a row of the axis of an input, or, where `input` is empty, of the tokens.
    int64_t getContextOfInput(::llvm::StringRef input);
    /// Rows of a stream at full length. Of segments it is the most that any capacity gives: one a
    /// token, and one before the first.
    int64_t countRows(StreamType stream);
    /// The boundaries stage that makes segments of this name, or null.
    BoundariesOp findBoundaries(::llvm::StringRef name);
  }];
  let assemblyFormat = "attr-dict-with-keyword $body";
}

def RoleKey
    : WordKey<
          "role", Spec_InputUse, ["target", "weight", "input"],
          "what numbers are for: distributions of a loss, weights of its rows, or rows of a stream",
          "required of numbers", ""> {
  let hint = "\"target\", \"weight\" or \"input\"";
}
def Spec_InputOp
    : Spec_Object<
          "input", "an input",
          [ContextKey<"capacity: most of its tokens in one row of a batch", "required of tokens">,
           IntegerKey<"vocabulary", "number of its token ids", "the model's", "2">,
           WordKey<"axis", Spec_InputAxis, ["own", "tokens"],
                   "which rows it has: its own, or one for each token", "own">,
           WordKey<"type", Spec_InputContents, ["tokens", "numbers"],
                   "contents; numbers on the axis tokens, tokens on its own", "by axis", "">,
           RoleKey,
           IntegerKey<"width", "numbers of a row; of a target the vocabulary, of a weight 1",
                      "that">],
          [Symbol, HasParent<"ModelOp">]> {
  let arguments = !con((ins SymbolNameAttr:$sym_name), KeyArguments<keys>.arguments);
  let assemblyFormat = "$sym_name attr-dict";
  let extraClassDeclaration = [{
    /// True for a row of numbers per token; false for tokens on an axis of their own.
    bool isNumbers() { return getType() == InputContents::numbers; }
    /// Numbers of a row, the vocabulary of a target for example.
    int64_t getRowWidth();
    /// Number of its token ids.
    int64_t getTokenCount();
  }];
}

def Spec_PrecisionOp
    : Spec_Object<
          "precision", "the precision",
          [WordKey<"compute", Spec_StorageType, ["f32", "bf16"],
                   "of what linear maps and attention multiply; bf16: weights are rounded to it "
                   "once a step",
                   "f32">,
           WordKey<"residual", Spec_StorageType, ["f32", "bf16"],
                   "of the streams between stages; bf16 only where compute is bf16", "f32">]>;

def FallStepsKey : IntegerKey<"steps", "steps over which the rate falls", "required"> {
  let hint = "the steps over which the rate falls";
}
def ShareOfRateKey : NumberKey<"floor", "number >= 0",
                               "least rate, as a fraction of the learning rate", "0.1", "0.1"> {
  let largest = "1";
}
def FallFloorKey : NumberKey<"floor", "number >= 0",
                             "rate at its end, as a fraction of the learning rate", "0", "0"> {
  let largest = "1";
}
def Spec_FallOp
    : Spec_Object<"fall", "a second phase", [FallStepsKey, FallFloorKey], [HasParent<"ModelOp">]>;
def WarmupKey
    : IntegerKey<"warmup", "steps over which the rate rises", "the smaller of 100 and steps", "0"> {
  let type = "integer >= 0, at most steps";
}
def Spec_ScheduleOp
    : Spec_Object<
          "schedule", "a schedule",
          [WordKey<"kind", Spec_ScheduleShape, ["cosine", "constant", "inverse_root"],
                   "how the rate falls after the warm-up: one cosine, not at all, or over the root "
                   "of the step",
                   "cosine">,
           WarmupKey,
           IntegerKey<"steps", "step at which a cosine reaches its floor", "1000", "1", "", "1000">,
           ShareOfRateKey,
           ObjectKey<"then", "object",
                     "a second phase after steps: one cosine from the rate there", "none">]> {
  let extraClassDeclaration = [{
    /// The key "warmup", or the smaller of 100 and the steps.
    int64_t getWarmupOrDefault();
    /// Rate at the last step, as a fraction of the learning rate.
    double computeLastRate();
  }];
}
def Spec_TrainingOp
    : Spec_Object<
          "training", "the training settings",
          [WordKey<"optimizer", Spec_OptimizerKind, ["adamw", "adam"],
                   "adamw decays weights apart from the gradient, adam adds decay to the gradient",
                   "adamw">,
           PositiveKey<"learning_rate", "rate at the peak of the schedule", "3e-4", "3e-4">,
           SpecialKey<"betas", "array of two numbers >= 0 and < 1", "decay of the two moments",
                      "[0.9, 0.95]",
                      DefaultValuedAttr<ConfinedAttr<DenseF64ArrayAttr, [DenseArrayCount<2>]>,
                                        "{0.9, 0.95}">>,
           PositiveKey<"epsilon", "added to the square root of the second moment", "1e-8", "1e-8">,
           NumberKey<"weight_decay", "number >= 0",
                     "applies to matrices, not to norms, biases or embeddings", "0.1", "0.1">,
           NumberKey<"clip", "number >= 0",
                     "largest global norm of the gradient; 0 turns clipping off", "1.0", "1.0">,
           IntegerKey<
               "accumulate",
               "batches of an update, whose gradients are summed: it has accumulate * batch rows",
               "1", "1", "1048576", "1">,
           ObjectKey<"schedule", "object", "learning rate over the steps",
                     "{\"kind\": \"cosine\", \"warmup\": 100, \"steps\": 1000, \"floor\": 0.1}">,
           WordKey<"order", Spec_DataOrder, ["cut", "cyclic"],
                   "each epoch cuts texts at other places, or shifts them around their ends",
                   "cut">]>;

def Spec_WeightOp : Op<Spec_Dialect, "weight", [Symbol, HasParent<"ModelOp">]> {
  let summary = "A trained tensor";
  let description = [{
    The symbol is the name that files know the tensor by: the `path` of its stage, then the part of
    the stage. Matrices are [out, in]. Normal values have the standard deviation `deviation`. With
    `parameter`, this tensor and its neighbours with the same `parameter` are stored as one, one
    after the other along dimension 0. Weights follow the stages; `spec-assign-weights` adds them.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$path, DenseI64ArrayAttr:$shape,
      Spec_WordAttr<Spec_InitialValues>:$initial, DefaultValuedAttr<Spec_Number, "0">:$deviation,
      UnitAttr:$decay, UnitAttr:$frozen, OptionalAttr<StrAttr>:$parameter);
  let assemblyFormat = "$sym_name attr-dict";
}

#endif // SLUICE_SPEC_TD
