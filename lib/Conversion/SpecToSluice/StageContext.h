// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The function that stages are converted into, and helpers that stages share.
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

/// Symbol of a scale by its factor, on the axis of an input or of segments (empty: of the tokens).
std::string getScaleName(int64_t factor, llvm::StringRef axis = "");
constexpr llvm::StringLiteral lastScale = "last";

inline spec::StreamType getStreamType(mlir::Value stream) {
  return mlir::cast<spec::StreamType>(stream.getType());
}
/// Name of the segments that are a stream's rows; empty where rows are no segments.
llvm::StringRef getSegmentsName(spec::StreamType type);
/// Type of the rows of a stage's result; of a stage without a stream as result, of its input.
spec::StreamType getRowsType(mlir::Operation *stage);

/// Bits of a boundaries stage and the segments that they cut.
struct Segmentation {
  mlir::Value bits, counts, ends;
  mlir::Value chances;   ///< probabilities that a router rounded to bits
  llvm::StringRef outer; ///< segments that are cut into these; empty: groups of tokens are
  int64_t factor = 1;    ///< of the scale that is cut
  bool begins = false;   ///< bits begin segments
};

/// Rows and symbols of the matrix and bias that a loss scores its rows with.
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
};

/// A function under construction. Parameters are found by symbol in the module and read once.
struct StageContext {
  using Code = llvm::function_ref<mlir::Value(llvm::ArrayRef<ScalarValue>)>;

  StageContext(spec::ModelOp model, mlir::func::FuncOp function, Purpose purpose);

  /// Begins the conversion of a stage: the ops that follow have its name and type.
  void setStage(mlir::Operation *op);
  /// Gives the ops that follow an origin: the part of the stage, at the place of the stage.
  void setName(llvm::StringRef part);
  /// The same at another place, the one of the stage's mask for example.
  void setName(llvm::StringRef part, mlir::Location place);
  std::string getSymbol(llvm::StringRef part) const;

  /// A sequence on the axis of the stage.
  SequenceType getSequence(int64_t factor, int64_t width, mlir::Type element) const;
  /// A sequence on the scale of the tokens, f32.
  SequenceType getTokenSequence(int64_t width) const;
  int64_t getFactor() const { return type.getFactor(); }
  int64_t getWidth() const { return type.getWidth(); }
  mlir::Value getValue(mlir::Value stream) const { return streams.lookup(stream); }
  /// The function's first argument, or the argument of a named input.
  mlir::Value getTokens(llvm::StringRef input = "");
  const Segmentation &getSegmentation(mlir::Value segmentation);

  /// Reads a parameter as f32, or as `element`; null where the model has none of this symbol.
  mlir::Value read(llvm::StringRef symbol, mlir::Type element = {});
  /// Reads a weight in the type that linear maps multiply in.
  mlir::Value readWeight(llvm::StringRef symbol) { return read(symbol, computeType); }
  /// Reads a parameter of the stage as f32; null where it has none of this name.
  mlir::Value readOwn(llvm::StringRef part) { return read(getSymbol(part)); }

  ScalarValue createNumber(double value) { return {b, value}; }
  /// Creates a map whose region is `code` over one scalar per input, to the
  /// type of the first or to another.
  mlir::Value createMap(mlir::ValueRange inputs, Code code);
  mlir::Value createMap(SequenceType result, mlir::ValueRange inputs, Code code);
  /// Creates the products of two sequences' numbers, their sums likewise.
  mlir::Value createProduct(mlir::Value x, mlir::Value y);
  mlir::Value createSum(mlir::ValueRange terms);
  /// Creates a map of the first input to constants.
  mlir::Value createConstants(mlir::Value like, double number);
  /// Drops x or scales it up; returns x itself where nothing is dropped.
  ScalarValue createDropout(ScalarValue x, double rate, int64_t width);
  /// Creates the norm of x, stored as `element`; `block` precedes ".norm" in its name.
  mlir::Value createNorm(llvm::StringRef block, spec::NormFunction norm, double epsilon,
                         mlir::Value x, mlir::Type element);
  /// Creates a linear map, its weight read in the compute type and its result stored as `element`.
  mlir::Value createLinear(llvm::StringRef part, mlir::Value x, mlir::Type element);
  mlir::Value createShift(mlir::Value x, int64_t by);
  /// Sums the columns of each row: a sequence of width 0, as losses are.
  mlir::Value createColumnSum(mlir::Value x);
  /// Repeats one number per row in all columns of the rows of `like`.
  mlir::Value createRepeated(mlir::Value number, mlir::Value like);
  /// Returns x, or a copy where x is only read through other ops: rows of a
  /// linear map are stored, and a step knows the rows of stored values alone.
  mlir::Value materialize(llvm::StringRef part, mlir::Value x);

  spec::ModelOp model;
  mlir::func::FuncOp function;
  Purpose purpose;
  mlir::ImplicitLocOpBuilder b;
  mlir::Type computeType;  ///< of operands of linear maps and attention
  mlir::Type residualType; ///< of streams, and of branches that are added to them

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
