// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Small modules of the model dialect for tests: parsed from text, filled with random numbers,
// evaluated.
#pragma once

#include "sluice/Dialect/Sluice/Reference.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <random>
#include <string>

namespace sluice::testing {

/// A module of batch 3 and context 16 with scales @s1, @s2, @s3, @s4, @s6 and @s8 of those factors,
/// @one of one position, @w1 of at most 17 segments of @s1, @g1 of 16 given positions, @u1 of at
/// most 16 of its segments, and function @f.
class DialectModel {
public:
  /// `function` is the text of @f: `(%x: ...) -> ... { ... }`. Ends the program if the text is
  /// invalid.
  explicit DialectModel(const std::string &function);

  mlir::ModuleOp getModule() { return *module; }
  mlir::func::FuncOp getFunction(llvm::StringRef name = "f") {
    return module->lookupSymbol<mlir::func::FuncOp>(name);
  }
  mlir::MLIRContext *getContext() { return &context; }
  /// The first op of @f that is an `Op`.
  template <typename Op> Op find() { return *getFunction().getBody().getOps<Op>().begin(); }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

using Doubles = std::vector<double>;
using RandomEngine = std::mt19937_64;

/// Random numbers in [-1, 1], each a float.
Doubles randomNumbers(RandomEngine &generator, size_t count);

/// Contents of a function's arguments; tokens are integers in [0, vocabulary).
struct Arguments {
  std::vector<Doubles> values;
  template <typename T>
  void set(reference::Evaluator<T> &evaluator, mlir::func::FuncOp function) const;
};

/// Random arguments. Tokens: four more per row than the length.
Arguments randomArguments(RandomEngine &generator, mlir::func::FuncOp function,
                          reference::RuntimeValues setting, int64_t vocabulary);

/// Results of `function` on `arguments`: sequences on valid positions, tensors whole.
template <typename T>
std::vector<std::vector<T>> evaluate(mlir::func::FuncOp function, const Arguments &arguments,
                                     reference::RuntimeValues setting);

} // namespace sluice::testing
