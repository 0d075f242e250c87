// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One function of the imported module, stage by stage.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Spec/Expansion.h"

namespace sluice::importing {

/// What the function is for: scoring every position, scoring with dropout, or the last position's
/// logits.
enum class Purpose { Evaluate, Train, Predict };

/// Symbol of a scale by its factor, on the axis of an input (empty: of the tokens).
std::string scaleName(int64_t factor, llvm::StringRef axis = "");
constexpr llvm::StringLiteral lastScale = "last";
/// Symbol of the table of angles that a layer on a scale of `positions` positions reads.
std::string rotaryName(double base, int64_t headSize, int64_t positions);
/// Symbol of the table of rotations of a layer that attends by hashes.
std::string rotationsName(const spec::Primitive &stage);
constexpr llvm::StringLiteral sinusoidalName = "sinusoidal";
/// Symbol of the table of sinusoids that Transformer-XL's layers on a scale of `factor` read.
std::string distancesName(const spec::Model &model, int64_t factor, int64_t width, bool countsRows);

/// Symbol of the table of bits that the rule of a boundaries stage reads, by token or by position.
std::string boundariesName(const spec::Primitive &stage);
/// Symbol of the table of one bit, of the first row of a stage's scale.
std::string firstName(const spec::Model &model, const spec::Primitive &stage);
/// Symbol of the table of bits by token that is 1 where a document ends.
std::string documentEndName(const spec::Boundaries &settings);
/// Its rows that are 1: tokens, or positions, with a bit.
std::vector<int64_t> membersOf(const spec::Boundaries &settings, int64_t rows);

/// An activation of one number.
mlir::Value activate(mlir::ImplicitLocOpBuilder &b, spec::Activation activation, mlir::Value x,
                     llvm::function_ref<mlir::Value(double)> number);
/// The logarithm of the gamma function of x >= 1, an f32, as straight-line code: Stirling's series
/// at x + 4, less the logarithm of x (x + 1) (x + 2) (x + 3). Its derivative is digamma.
mlir::Value logGamma(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

mlir::Location locationOf(mlir::MLIRContext *context, const spec::SourceLocation &location);

/// Writes the ops of every stage into a function. Parameters are found by symbol in the module and
/// read once.
class StageWriter {
public:
  StageWriter(mlir::func::FuncOp function, const spec::Model &model, Purpose purpose);

  void write(const spec::Primitive &primitive);
  /// Ends the function with the last position's logits, or with the objective and the losses, the
  /// head's first; its type is set here.
  void finish();

private:
  using Scalars = llvm::function_ref<mlir::Value(llvm::ArrayRef<mlir::Value>)>;

  mlir::Value stage(const spec::Embedding &settings);
  mlir::Value embedNumbers(const spec::Numbers &numbers);
  llvm::SmallVector<mlir::Value> ngrams(const spec::Embedding &settings, mlir::Value tokens);
  llvm::SmallVector<mlir::Value> ofDocument(llvm::ArrayRef<mlir::Value> last,
                                            std::optional<int64_t> end);
  mlir::Value stage(const spec::Layer &settings);
  mlir::Value stage(const spec::Norm &settings);
  mlir::Value stage(const spec::Shift &settings);
  mlir::Value stage(const spec::Shorten &settings);
  mlir::Value stage(const spec::Upsample &settings);
  mlir::Value stage(const spec::Add &settings);
  mlir::Value stage(const spec::Replace &settings);
  mlir::Value stage(const spec::Dropout &settings);
  mlir::Value stage(const spec::Head &settings);
  mlir::Value stage(const spec::Loss &settings);
  mlir::Value stage(const spec::Layers &settings);
  mlir::Value stage(const spec::Hourglass &settings);
  mlir::Value stage(const spec::Project &settings);
  mlir::Value stage(const spec::TopDown &settings);
  mlir::Value stage(const spec::BottomUp &settings);
  mlir::Value stage(const spec::Composed &settings);
  mlir::Value stage(const spec::Boundaries &settings);
  mlir::Value stage(const spec::Attend &settings);

  /// What stages between tokens and segments read (ImportSegments.cpp).
  struct Segmentation {
    mlir::Value bits, counts, ends;
    std::string outer = {};   ///< segments that are cut into these; empty: tokens are
    int64_t factor = 1;       ///< of the tokens' scale that is cut
    bool begins = false;      ///< bits begin segments
    mlir::Value chances = {}; ///< of a router: what was rounded to bits
  };
  /// What a loss's softmax is made of (ImportEntropy.cpp).
  struct Asked {
    mlir::Value rows;
    std::string weight, bias; ///< symbols
  };
  mlir::Value entropyBits(const spec::Boundaries &settings);
  llvm::SmallVector<mlir::Value> withBefore(mlir::Value entropies, int64_t count);
  mlir::Value spikes(const spec::Boundaries &settings, mlir::Value entropies);
  /// A predictor whose labels a later loss's softmax gives, and its term, whose losses are not
  /// there before.
  struct Unlabelled {
    const spec::Primitive *stage;
    mlir::Value logits;
    size_t term;
  };
  void labelEarlier(const std::string &loss);
  mlir::Value bitsOfCodingRate(const spec::Boundaries &settings); // ImportCodingRate.cpp
  mlir::Value greatestRates(mlir::Value rates, double share);
  mlir::Value asNumbers(llvm::StringRef part, mlir::Value x);
  mlir::Value isAbove(mlir::Value x, mlir::Value threshold, mlir::Value one, mlir::Value zero);
  /// Targets of losses, which may move in training (ImportTargets.cpp).
  llvm::SmallVector<mlir::Value> withUpdate(llvm::SmallVector<mlir::Value> numbers,
                                            const spec::Boundaries &settings);
  mlir::Value targetAt(const spec::Boundaries &settings, double last, mlir::Value update);
  std::pair<mlir::Value, mlir::Value> costsOfBits(const spec::Boundaries &settings,
                                                  llvm::ArrayRef<mlir::Value> update);
  std::pair<mlir::Value, mlir::Value> ratioAndLess(const spec::Boundaries &settings,
                                                   llvm::ArrayRef<mlir::Value> update);
  mlir::Value tokenBits(const spec::Boundaries &settings, const std::string &segments);
  mlir::Value ofClosed(mlir::Value bits);
  mlir::Value forcedAt(mlir::StringRef part, mlir::Value bits, mlir::Value where);
  mlir::Value documentBits(const spec::Boundaries &settings, const std::string &segments,
                           bool begins);
  mlir::Value forced(const spec::Boundaries &settings, mlir::Value bits);
  mlir::Value repeated(mlir::Value number, mlir::Value like);
  /// Scans over rows, by doubling (ImportScans.cpp).
  using Join =
      llvm::function_ref<mlir::Value(mlir::Value row, mlir::Value part, mlir::Value before)>;
  mlir::Value doubled(llvm::StringRef what, mlir::Value x, mlir::Value left, Join join);
  mlir::Value smoothed(mlir::Value x, const Segmentation &of);
  mlir::Value greatest(mlir::Value x, const Segmentation &of);
  mlir::Value gated(mlir::Value x, const Segmentation &of, bool scatters);
  mlir::Value toTokens(mlir::Value x);
  mlir::Value bitsOfRule(const spec::Boundaries &settings);
  mlir::Value predictBoundaries(mlir::Value x);
  mlir::Value bitsOfLogits(const spec::Boundaries &settings, mlir::Value logits);
  mlir::Value bitsOfPredictor(const spec::Boundaries &settings);
  mlir::Value productOf(llvm::StringRef part, mlir::Value x, mlir::Value y);
  mlir::Value distanceToPrevious(mlir::Value x);
  mlir::Value ratioLoss(mlir::Value bits, mlir::Value chances, const spec::Boundaries &settings);
  mlir::Value bitsOfRouter(const spec::Boundaries &settings);
  mlir::Value supervise(mlir::Value logits, mlir::Value labels, bool asInCode);
  mlir::Value binomialPrior(mlir::Value bits, const spec::Boundaries &settings);
  mlir::Value asLosses(mlir::Value x);
  mlir::Value poolSegments(const spec::Shorten &settings);
  mlir::Value spreadSegments(const spec::Upsample &settings);
  /// Attention between a scale and its segments (ImportAttend.cpp): what its maps add.
  llvm::SmallVector<mlir::Value> askSegments(const spec::Attend &settings, mlir::Value x,
                                             mlir::Value over);
  mlir::Value askParts(const spec::Attend &settings, mlir::Value x, mlir::Value over);
  /// Groups whose rows stand side by side, and rows of such (ImportBlocks.cpp).
  mlir::Value concatenate(const spec::Shorten &settings);
  mlir::Value split(const spec::Upsample &settings);

  /// A sequence of queries, one of keys and values, and their columns in it; then the terms by
  /// distance, and a table of angles.
  struct Sources {
    mlir::Value query, keys;
    int64_t keyColumn, valueColumn;
    llvm::SmallVector<mlir::Value> extras;
  };
  mlir::Value keyStream(const spec::Layer &settings, mlir::Value x);
  Sources attentionSources(const spec::Layer &settings, mlir::Value x);
  Sources relativeSources(const spec::Layer &settings, mlir::Value x);
  mlir::Value attention(const spec::Layer &settings, mlir::Value x);
  mlir::Value hashedAttention(const spec::Layer &settings, mlir::Value x);
  /// Scores and mixes, as `block`.mix, whose mask stands at `place`.
  mlir::Value mix(const std::string &block, const spec::Layer &settings, const Sources &sources,
                  const spec::SourceLocation &place);
  /// Attention of heads in groups, each with keys and values of its own (ImportHeadGroups.cpp).
  mlir::Value groupedAttention(const spec::Layer &settings, mlir::Value x);
  mlir::Value keysOf(const spec::Layer &settings, size_t group, mlir::Value x);
  mlir::Value feedForward(const spec::Layer &settings, mlir::Value x);
  mlir::Value rotaryTable(const spec::Layer &settings);
  mlir::Value residual(const spec::Layer &settings, const std::string &block, mlir::Value x,
                       llvm::function_ref<mlir::Value(mlir::Value)> inner);
  /// The norm of x, stored as `element`.
  mlir::Value norm(const std::string &block, spec::NormKind kind, double epsilon, mlir::Value x,
                   mlir::Type element);
  /// A linear map, its weight read in the compute type and its result stored as `element`.
  mlir::Value linear(const std::string &part, mlir::Value x, mlir::Type element);

  /// Names the ops that follow, "stages.1.inside.0.attention.mix" where `part` is "attention.mix":
  /// a NameLoc around the stage's place. Certificates name values so.
  void name(llvm::StringRef part) { name(part, current->location); }
  /// The same around the place of what the stage does there: its mask's.
  void name(llvm::StringRef part, const spec::SourceLocation &place);

  /// On this stage's axis, or on that of its segments.
  SequenceType sequence(int64_t factor, int64_t width, mlir::Type element);
  /// What an embedding reads: the function's first argument, or that of a named input.
  mlir::Value tokensOf(const std::string &input);
  /// This stage's parameter, or null where the model has none of that name.
  mlir::Value parameter(const std::string &name);
  mlir::Value read(const std::string &symbol);
  mlir::Value read(const std::string &symbol, mlir::Type element);
  /// A weight in the compute type.
  mlir::Value readWeight(const std::string &symbol);
  /// A map whose region is `code` over one f32 an input.
  mlir::Value map(mlir::ValueRange inputs, Scalars code);
  /// x scaled up or dropped, in scalar code; x itself where nothing is dropped.
  mlir::Value drop(mlir::Value x, double rate, int64_t width);
  mlir::Value number(double value);

  mlir::func::FuncOp function;
  const spec::Model &model;
  Purpose purpose;
  mlir::ImplicitLocOpBuilder b;
  mlir::Type computeType;  ///< of what linear maps and attention read and what only they read
  mlir::Type residualType; ///< of streams, and of branches as they are added to them
  /// x itself, or a copy of what is only read through: a linear map's rows lie in memory, and a
  /// step knows those of ops alone that store them.
  mlir::Value stored(llvm::StringRef part, mlir::Value x);
  /// The rows that a head scores, on the tokens' scale: row t reads group (t - shift) div f of x.
  mlir::Value rowsOf(const spec::Head &settings, mlir::Value x);
  /// The losses of rows, against the next token, from the first scored row on.
  mlir::Value score(const spec::Head &settings, mlir::Value x);
  mlir::Value ask(const std::string &loss, const spec::Head &settings);
  mlir::Value addLoss(const spec::Head &settings, const std::string &loss, double factor,
                      mlir::Value x);

  /// A term of what is minimized.
  struct Term {
    mlir::Value losses;
    std::string name;
    double factor;
    int64_t first;
    std::string weights = {}; ///< that its rows were multiplied by
  };
  std::string weightsOf(const spec::Head &settings) const;
  std::vector<Term> terms;
  std::map<std::string, Segmentation> segmentations;         ///< by name
  std::map<std::string, Asked> asked;                        ///< by the loss's name
  std::map<std::string, std::vector<Unlabelled>> unlabelled; ///< by that of the loss they wait for
  llvm::StringMap<ParameterOp> parameters;
  llvm::DenseMap<std::pair<mlir::Attribute, mlir::Type>, mlir::Value> reads;
  std::vector<mlir::Value> streams; ///< by stage
  const spec::Primitive *current = nullptr;
  std::string sharedBiases; ///< prefix of the layer that has the biases which layers share
  std::string embedding;    ///< symbol of the tokens' last table, which a tied head reads
  int64_t nextRandom = 2;   ///< 0 and 1 draw initial weights
};

} // namespace sluice::importing
