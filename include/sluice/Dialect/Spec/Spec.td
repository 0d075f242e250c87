// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The spec dialect: the model, its objects other than stages, and its stages.

#ifndef SLUICE_SPEC_TD
#define SLUICE_SPEC_TD

include "mlir/IR/SymbolInterfaces.td"
include "sluice/Dialect/Spec/SpecComposites.td"

/// An object of a spec other than a stage. `what` names it in messages.
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
                "the stages of the model, from the embedding of the tokens to the head",
                "required"> {
  let hint = "an array of stages";
}
def DefaultsKey
    : ObjectKey<"defaults", "object",
                "default settings of every layer, layers, hourglass, top_down and bottom_up stage",
                "{}"> {
  let section = "DefaultsSection";
}
def DefaultsSection : Section<"the defaults", layerKeys>;

/// Renames the attribute: the accessor `getContext` is the op's own.
class ContextKey<string meaning, string otherwise> : IntegerKey<"context", meaning, otherwise> {
  let attrName = "length";
}

def SeedKey : IntegerKey<"seed", "seed of the initialization and of random numbers in training",
                         "0",
                         "0", "9223372036854775807", "0"> {
  let type = "integer >= 0";
}

def Spec_ModelOp
    : Spec_Object<
          "model", "the spec",
          [VersionKey, TextKey<"name", "string", "the model's name", "file stem">,
           IntegerKey<"vocabulary", "number of token ids; a text's ids are its bytes",
                      "required", "2">,
           ContextKey<"capacity N: maximum number of tokens in one row of a batch", "required">,
           IntegerKey<"batch", "capacity B: maximum number of rows in a batch", "required">,
           IntegerKey<"width", "model width d", "required">, SeedKey,
           ObjectKey<"inputs", "object of objects",
                     "named inputs: tokens on a separate axis, as in {\"source\": {\"context\": "
                     "64}}, or numbers per token, as in {\"teacher\": {\"axis\": \"tokens\", "
                     "\"role\": \"target\"}}",
                     "{}">,
           DefaultsKey, StagesKey,
           ObjectKey<"precision", "object",
                     "storage types of activations; arithmetic, weights, moments and sums are f32",
                     "{\"compute\": \"f32\", \"residual\": \"f32\"}">,
           ObjectKey<"training", "object", "optimizer and schedule", "default settings">],
          [SymbolTable, SingleBlock, NoTerminator, NoRegionArguments]> {
  let description = [{
    The region has the model's inputs, its settings, then its stages in order: the first embeds the
    tokens, the last is the head.
  }];
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{
    /// Returns the input of this name, or null.
    InputOp findInput(::llvm::StringRef name);
    /// Returns the maximum number of tokens per row on the axis of an input, or of the model's
    /// tokens if `input` is empty.
    int64_t getContextOfInput(::llvm::StringRef input);
    /// Returns the number of rows of a stream at full length. For segments, an upper bound for
    /// every capacity: one per token, and one before the first.
    int64_t countRows(StreamType stream);
    /// Returns the boundaries stage of the segments of this name, or null.
    BoundariesOp findBoundaries(::llvm::StringRef name);
  }];
  let assemblyFormat = "attr-dict-with-keyword $body";
}

def RoleKey
    : WordKey<
          "role", Spec_InputUse, ["target", "weight", "input"],
          "use of an input of numbers: target distributions of a loss, weights of its rows, or "
          "rows of a stream",
          "required of numbers", ""> {
  let hint = "\"target\", \"weight\" or \"input\"";
}
def Spec_InputOp
    : Spec_Object<
          "input", "an input",
          [ContextKey<"capacity: maximum number of its tokens in one row of a batch",
                      "required of tokens">,
           IntegerKey<"vocabulary", "number of its token ids", "the model's", "2">,
           WordKey<"axis", Spec_InputAxis, ["own", "tokens"],
                   "axis of its rows: its own, or one row per token", "own">,
           WordKey<"type", Spec_InputContents, ["tokens", "numbers", "edges"],
                   "contents: numbers on the axis tokens, tokens on its own axis, or edges between "
                   "rows of the input \"on\"",
                   "by axis", "">,
           RoleKey,
           IntegerKey<"capacity", "maximum number of edges of a line",
                      "of edges: twice the context of the input \"on\"", "1", "536870911">,
           WordKey<"pattern", Spec_EdgePattern, ["chain", "random", "half"],
                   "edges that no file gives: between neighbours in the line, from each row or "
                   "word to an earlier one, or half of all pairs; the seed and the line's tokens "
                   "draw them",
                   "none", "">,
           IntegerKey<"width", "numbers per row; a target has the vocabulary, a weight 1",
                      "the vocabulary for a target, else 1">,
           BooleanKey<"end", "appends a line end, a token, to each of its lines", "false">,
           TextKey<"on", "name of an input of tokens",
                   "input whose axis has this input's tokens, one for each token there, or whose "
                   "rows, or words that its bits end, the edges connect",
                   "none">,
           WordKey<"derived", Spec_DerivedBits, ["word_end", "word_split", "shuffled_end"],
                   "with on: bits in place of data: 1 at the last token of a word, at each token "
                   "of a word of several, or at the last token after the words' lengths are "
                   "permuted",
                   "none", "">,
           WordKey<"rule", Spec_WordRule, ["pieces", "whitespace", "file"],
                   "with derived: where words end: by the tokenizer's pieces, by the whitespace of "
                   "bytes, or by a file of bits",
                   "needed with derived", "">],
          [Symbol, HasParent<"ModelOp">]> {
  let arguments = !con((ins SymbolNameAttr:$sym_name), KeyArguments<keys>.arguments);
  let assemblyFormat = "$sym_name attr-dict";
  let extraClassDeclaration = [{
    /// Returns true for a row of numbers per token, false for other inputs.
    bool isNumbers() { return getType() == InputContents::numbers; }
    /// Returns true for tokens on a separate axis.
    bool isTokens() { return !isNumbers() && !isEdges(); }
    /// Returns true for edges between rows of another input.
    bool isEdges() { return getType() == InputContents::edges; }
    /// Returns the maximum number of edges of a line.
    int64_t countEdges();
    /// Returns the numbers per row, for example the vocabulary for a target.
    int64_t getRowWidth();
    /// Returns the number of its token ids.
    int64_t getTokenCount();
    /// Returns true for tokens on an axis that is named like the input.
    bool ownsAxis() { return isTokens() && !getOn(); }
    /// Returns the input that names the axis of its tokens: `on`, or its own name.
    ::llvm::StringRef getAxisName() { return getOn().value_or(getSymName()); }
  }];
}

def Spec_PrecisionOp
    : Spec_Object<
          "precision", "the precision",
          [WordKey<"compute", Spec_StorageType, ["f32", "bf16"],
                   "storage type of the factors in linear maps and attention; bf16: weights are "
                   "rounded once per step",
                   "f32">,
           WordKey<"residual", Spec_StorageType, ["f32", "bf16"],
                   "storage type of the streams between stages; bf16 requires compute bf16",
                   "f32">]>;

def FallStepsKey : IntegerKey<"steps", "steps over which the rate falls", "required"> {
  let hint = "the steps over which the rate falls";
}
def ShareOfRateKey : NumberKey<"floor", "number >= 0",
                               "minimum rate, as a fraction of the learning rate", "0.1", "0.1"> {
  let largest = "1";
}
def FallFloorKey : NumberKey<"floor", "number >= 0",
                             "final rate, as a fraction of the learning rate", "0", "0"> {
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
                   "decay of the rate after the warm-up: one cosine, none, or by the inverse "
                   "square root of the step",
                   "cosine">,
           WarmupKey,
           IntegerKey<"steps", "step at which a cosine reaches its floor", "1000", "1", "", "1000">,
           ShareOfRateKey,
           ObjectKey<"then", "object",
                     "a second phase after \"steps\": one cosine from the rate at that step",
                     "none">]> {
  let extraClassDeclaration = [{
    /// Returns the key "warmup", or the minimum of 100 and the steps.
    int64_t getWarmupOrDefault();
    /// Returns the rate at the last step, as a fraction of the learning rate.
    double computeLastRate();
  }];
}
def Spec_TrainingOp
    : Spec_Object<
          "training", "the training settings",
          [WordKey<"optimizer", Spec_OptimizerKind, ["adamw", "adam"],
                   "adamw decays weights directly, adam adds the decay to the gradient",
                   "adamw">,
           PositiveKey<"learning_rate", "rate at the peak of the schedule", "3e-4", "3e-4">,
           SpecialKey<"betas", "array of two numbers >= 0 and < 1", "decay rates of the two "
                                                                    "moments",
                      "[0.9, 0.95]",
                      DefaultValuedAttr<ConfinedAttr<DenseF64ArrayAttr, [DenseArrayCount<2>]>,
                                        "{0.9, 0.95}">>,
           PositiveKey<"epsilon", "added to the square root of the second moment", "1e-8", "1e-8">,
           NumberKey<"weight_decay", "number >= 0",
                     "weight decay of matrices; norms, biases and embeddings have none", "0.1",
                     "0.1">,
           NumberKey<"clip", "number >= 0",
                     "maximum global norm of the gradient; 0 disables clipping", "1.0", "1.0">,
           IntegerKey<
               "accumulate",
               "number of batches whose gradients an update sums; an update has accumulate * "
               "batch rows",
               "1", "1", "1048576", "1">,
           IntegerKey<
               "batch_tokens",
               "maximum number of tokens in a batch of lines, padding included, on each axis; "
               "lines are then batched by length",
               "batches of consecutive lines">,
           ObjectKey<"schedule", "object", "learning rate over the steps",
                     "{\"kind\": \"cosine\", \"warmup\": 100, \"steps\": 1000, \"floor\": 0.1}">,
           WordKey<"order", Spec_DataOrder, ["cut", "cyclic"],
                   "each epoch cuts texts at other places, or shifts them around their ends",
                   "cut">,
           ObjectKey<"groups", "list of objects",
                     "rates and decays of weights that have others than the keys above", "[]">]>;

def GroupMatchKey
    : TextKey<"match", "string",
              "pattern of the names of weights: * is any text, ? one character, [abc] one of them",
              "required"> {
  let hint = "a pattern of the names of weights, such as \"*.bias\"";
}
def Spec_GroupOp
    : Spec_Object<"group", "a group of weights",
                  [GroupMatchKey,
                   PositiveKey<"learning_rate",
                               "rate of these weights at the peak of the schedule",
                               "the training's">,
                   NumberKey<"weight_decay", "number >= 0",
                             "decay of these weights, also where they have none by default",
                             "by weight">],
                  [HasParent<"ModelOp">]> {
  let extraClassDeclaration = [{
    /// Returns the rate of the group as a multiple of the rate of the training.
    double computeRateFactor();
  }];
}

def Spec_WeightOp : Op<Spec_Dialect, "weight", [Symbol, HasParent<"ModelOp">]> {
  let summary = "A trained tensor";
  let description = [{
    The symbol is the tensor's name in files: the `path` of its stage, then the part of the stage.
    Matrices are [out, in]. Normal values have the standard deviation `deviation`. Adjacent tensors
    with the same `parameter` are stored as one, concatenated along dimension 0. `group` is the
    number, from 0, of the `spec.group` that sets its rate and decay. Weights follow the stages;
    `spec-assign-weights` adds them.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$path, DenseI64ArrayAttr:$shape,
      Spec_WordAttr<Spec_InitialValues>:$initial, DefaultValuedAttr<Spec_Number, "0">:$deviation,
      UnitAttr:$decay, UnitAttr:$frozen, OptionalAttr<StrAttr>:$parameter,
      OptionalAttr<I64Attr>:$group);
  let assemblyFormat = "$sym_name attr-dict";
}

#endif // SLUICE_SPEC_TD
