// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints ops of a function as the statements of a Python method.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sluice::pytorch {

/// The argument that may have the buckets of layers with LSH attention.
constexpr llvm::StringLiteral bucketsArgument = "buckets";

/// Names that all methods of a file share.
struct FileNames {
  std::set<std::string> helpers;
  llvm::DenseMap<mlir::Value, std::string> values; ///< variables, and arguments of functions
  /// Arguments of the methods in addition to tokens, in order of first use, with a description of
  /// each.
  std::vector<std::pair<std::string, std::string>> inputs;
  std::set<std::string> taken;           ///< names of arguments and variables
  llvm::StringMap<std::string> inputIds; ///< arguments, by the names of inputs in the spec
  llvm::StringMap<int> uses;             ///< number of variables with a name
  bool hasLines = false;                 ///< texts are lines, whose tokens end with -1
  std::string mistake; ///< the first op, else the first table, that has no printer

  /// Returns the identifier of an input or a given axis, which no other one and no variable has:
  /// "a-b" and "a_b" are `a_b` and `a_b_2`.
  std::string getInputId(llvm::StringRef name);
  /// Adds an argument of the methods for an input, once. Returns its identifier.
  std::string addInput(llvm::StringRef name, const std::string &what);
  /// Adds an argument with this identifier, once.
  void addArgument(const std::string &id, const std::string &what);
  /// Adds the argument that may have the buckets of layers with LSH attention. Returns its name.
  std::string addBuckets();

  void reject(const std::string &text) { mistake = mistake.empty() ? text : mistake; }
};

/// Prints one method. Rows of a sequence with columns are tensors [B, rows, columns], others
/// [B, rows]. Lazy ops and parameters are printed where they are used.
class MethodBody {
public:
  /// With `targets` the last tokens are only targets: a method has that many more tokens than rows.
  MethodBody(mlir::ModuleOp module, FileNames &names, int64_t targets)
      : module(module), names(names), targets(targets) {}

  /// Prints ops until the first that has no printer, which it stores in `names.mistake`.
  void print(llvm::ArrayRef<mlir::Operation *> ops);
  /// Returns the statements, after the definitions of the lengths that they use.
  std::string finish() const;
  /// Returns variables of other methods that this one uses.
  const llvm::SetVector<mlir::Value> &getForeign() const { return foreign; }

  /// Returns the rows of an operand as an expression: cut to its scale if its op is lazy.
  std::string read(mlir::Value value);
  /// Returns a lazy value without a cut, with this number in null rows; other values like `read`.
  std::string readLazy(mlir::Value value, llvm::StringRef null = "");
  /// Returns a parameter's value.
  std::string readParameter(mlir::Value value);
  /// Returns the number of rows of a scale.
  std::string getLength(mlir::Value sequence);
  /// Returns the count of valid rows per text; "None" unless the axis is given.
  std::string getCount(mlir::Value sequence);
  /// Returns the number of texts.
  std::string getBatch();
  void use(llvm::StringRef helper);
  /// Returns the names that all methods share, to add arguments.
  FileNames &getNames() { return names; }

  /// Prints `name = expression` for a result of an op, rounded if the result is bf16.
  void define(mlir::Value result, const std::string &expression, bool isRounded = false);
  /// Prints `names = expression` for results of one op, none of them bf16.
  void defineAll(mlir::ValueRange results, const std::string &expression);
  /// Prints a line.
  void line(const std::string &text);
  /// Returns a new variable that is named after the op.
  std::string addName(mlir::Operation *op, llvm::StringRef fallback = "");
  /// Returns the name of the variable that stores `value`.
  std::string getName(mlir::Value value);
  /// Reports that an op, or a part of it, has no printer.
  void reject(mlir::Operation *op, const std::string &what);

  /// Prints the region as the body of a local function, or as a lambda. Returns its expression.
  std::string printFunction(mlir::Operation *op, mlir::Region &region,
                            llvm::ArrayRef<std::string> arguments, llvm::StringRef name,
                            bool isTuple);

private:
  void printOp(mlir::Operation *op);
  std::string printWeight(llvm::StringRef name);

  mlir::ModuleOp module;
  FileNames &names;
  int64_t targets;
  std::string text_, stage;
  std::optional<size_t> stageStart; ///< place in the text to define `w`, while it is undefined
  llvm::SetVector<mlir::Value> foreign;
  llvm::DenseSet<mlir::Value> own;
  std::map<int64_t, std::string> lengths;    ///< by factor, of scales of tokens
  std::map<std::string, std::string> counts; ///< by input
  bool usesBatch = false, usesLength = false;
};

/// Returns a name as a Python identifier that is no keyword and no name of every exported file.
/// Different names may have one identifier.
std::string toIdentifier(llvm::StringRef name);
/// Returns a text with the escapes of a Python string or docstring: of backslashes, double
/// quotes, and characters that cannot be printed.
std::string escapeText(llvm::StringRef text);

} // namespace sluice::pytorch
