// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Holds the function that stages are converted into, and helpers that stages share.
#pragma once

#include "Scalars.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Dialect/Spec/Spec.h"

#include <map>

namespace sluice::spec_to_sluice {

/// Use of a function: scores each position, scores as training does, or returns
/// the logits of the last position.
enum class Purpose { Evaluate, Train, Predict };

/// Returns the symbol of a scale by its factor, on the axis of an input or of segments; an empty
/// axis is the tokens'.
std::string getScaleName(int64_t factor, llvm::StringRef axis = "");
constexpr llvm::StringLiteral lastScale = "last";

inline spec::StreamType getStreamType(mlir::Value stream) {
  return mlir::cast<spec::StreamType>(stream.getType());
}
/// Returns the name of the segments that are a stream's rows; empty if its rows are not segments.
llvm::StringRef getSegmentsName(spec::StreamType type);
/// Returns the type of the rows of a stage's result, or of its input if the result is not a stream.
spec::StreamType getRowsType(mlir::Operation *stage);

/// The bits of a boundaries stage, and the segments that they cut.
struct Segmentation {
  mlir::Value bits, counts, ends;
  mlir::Value chances;   ///< probabilities that a router rounded to bits
  llvm::StringRef outer; ///< segments that are cut into these; empty if groups of tokens are cut
  int64_t factor = 1;    ///< factor of the scale that is cut
  bool begins = false;   ///< bits begin segments
  int64_t longest = 0;   ///< most rows of a segment; 0 without a bound
};

/// Rows of a loss, and symbols of the matrix and bias with which it scores them.
struct ScoredRows {
  mlir::Value rows;
  std::string weight, bias;
};

/// A predictor whose labels the softmax of a later loss gives, and the index of its term.
struct WaitingPredictor {
  spec::BoundariesOp stage;
  mlir::Value logits;
  size_t term;
};

/// A term of the objective.
struct LossTerm {
  mlir::Value losses;
  std::string name;
  double factor;
  int64_t first;            ///< first row that counts
  std::string weights = {}; ///< name of the numbers that multiplied its rows
  mlir::Value counted = {}; ///< 1 in rows that its mean counts, which the model computes, else 0
};

/// A function under construction. Parameters are found by symbol in the module and read once.
struct StageContext {
  using ScalarBuilder = llvm::function_ref<mlir::Value(llvm::ArrayRef<ScalarValue>)>;

  StageContext(spec::ModelOp model, mlir::func::FuncOp function, Purpose purpose);

  /// Begins the conversion of a stage: the following ops have its name and type.
  void setStage(mlir::Operation *op);
  /// Sets the origin of the following ops: the part of the stage, at the place of the stage.
  void setName(llvm::StringRef part);
  /// Sets the origin at another place, for example the place of the stage's mask.
  void setName(llvm::StringRef part, mlir::Location place);
  /// Returns the symbol of a part of the stage, which may be a tensor of another stage.
  std::string getSymbol(llvm::StringRef part) const;

  /// Returns the type of a sequence on the axis of the stage.
  SequenceType getSequence(int64_t factor, int64_t width, mlir::Type element) const;
  /// Returns the type of an f32 sequence on the scale of the tokens.
  SequenceType getTokenSequence(int64_t width) const;
  int64_t getFactor() const { return type.getFactor(); }
  int64_t getWidth() const { return type.getWidth(); }
  mlir::Value getValue(mlir::Value stream) const { return streams.lookup(stream); }
  /// Returns the function's first argument, or the argument of a named input.
  mlir::Value getTokens(llvm::StringRef input = "");
  /// Returns true if texts are lines, which may end before the rows of their batch.
  bool hasLines();
  const Segmentation &getSegmentation(mlir::Value segmentation);

  /// Reads a parameter as f32, or as `element`; null if the model has no such symbol.
  mlir::Value read(llvm::StringRef symbol, mlir::Type element = {});
  /// Reads a weight in the factor type of linear maps.
  mlir::Value readWeight(llvm::StringRef symbol) { return read(symbol, computeType); }
  /// Reads a parameter of the stage as f32; null if it has none of this name.
  mlir::Value readOwn(llvm::StringRef part) { return read(getSymbol(part)); }

  ScalarValue createNumber(double value) { return {b, value}; }
  /// Creates a map whose region is `code` over one scalar per input; the result has the type of the
  /// first input, or another one.
  mlir::Value createMap(mlir::ValueRange inputs, ScalarBuilder code);
  mlir::Value createMap(SequenceType result, mlir::ValueRange inputs, ScalarBuilder code);
  /// Creates the elementwise product of two sequences; a sum likewise.
  mlir::Value createProduct(mlir::Value x, mlir::Value y);
  mlir::Value createSum(mlir::ValueRange terms);
  /// Creates a map of the first input to constants.
  mlir::Value createConstants(mlir::Value like, double number);
  /// Creates dropout: drops x or scales it up; returns x itself if the rate is 0.
  ScalarValue createDropout(ScalarValue x, double rate, int64_t width);
  /// Creates the norm of x, stored as `element`; `block` precedes ".norm" in its name.
  mlir::Value createNorm(llvm::StringRef block, spec::NormFunction norm, double epsilon,
                         mlir::Value x, mlir::Type element);
  /// Creates a linear map, its weight read in the compute type and its result stored as `element`.
  /// The map has the weights of the part `weights`, by default its own.
  mlir::Value createLinear(llvm::StringRef part, mlir::Value x, mlir::Type element,
                           std::optional<llvm::StringRef> weights = {});
  mlir::Value createShift(mlir::Value x, int64_t by);
  /// Sums the columns of each row: a sequence of width 0, as losses are.
  mlir::Value createColumnSum(mlir::Value x);
  /// Repeats one number per row in all columns of the rows of `like`.
  mlir::Value createRepeated(mlir::Value number, mlir::Value like);
  /// Returns rows of an input with `fill` in place of rows past each line's count, for the groups
  /// of `part`; x itself on another axis.
  mlir::Value clearPadding(llvm::StringRef part, mlir::Value x, float fill = 0);
  /// Returns x, or a copy if x is only read through other ops: rows of a linear map are stored, and
  /// a decode step only has rows of stored values.
  mlir::Value materialize(llvm::StringRef part, mlir::Value x);

  spec::ModelOp model;
  mlir::func::FuncOp function;
  Purpose purpose;
  mlir::ImplicitLocOpBuilder b;
  mlir::Type computeType;  ///< type of operands of linear maps and attention
  mlir::Type residualType; ///< type of streams, and of branches that are added to them

  mlir::Operation *stage = nullptr;
  spec::StreamType type;
  llvm::DenseMap<mlir::Value, mlir::Value> streams;
  std::map<llvm::StringRef, Segmentation> segmentations;        ///< by name
  std::map<std::string, ScoredRows> scored;                     ///< by the loss's name
  std::map<std::string, std::vector<WaitingPredictor>> waiting; ///< by the name of their loss
  std::vector<LossTerm> terms;
  int64_t nextRandom = 2; ///< streams 0 and 1 draw initial weights

private:
  mlir::SymbolTable symbols;
  llvm::DenseMap<std::pair<mlir::Attribute, mlir::Type>, mlir::Value> reads;
};

} // namespace sluice::spec_to_sluice
