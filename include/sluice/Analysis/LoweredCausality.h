// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dependences after lowering: recomputed from the IR after each pass, and required to be a subset
// of the dependences before the pass.
#pragma once

#include "sluice/Analysis/ReadGraph.h"
#include <map>
#include <memory>

namespace sluice {

/// A dependence that a pass added, or that changes with the length.
struct AddedRead {
  enum class Kind {
    Row,       ///< the row depends on another row that it did not depend on before
    PastEnd,   ///< the row reads memory past the last row of the source, which is not part of the
               ///< sequence
    Length,    ///< the row depends on the length of the sequence
    Null,      ///< the length of the sequence determines whether the row reads the other row
    Transposed ///< a gradient depends on the gradient of a row that does not depend on its own row
  };
  Kind kind = Kind::Row;
  std::string function;
  std::string op, source; ///< the op that computes the value; the value that it now reads
  mlir::Location place, sourcePlace; ///< spec lines
  /// In a sequence of `length` tokens, row `row` reads row `read`.
  int64_t length = 0, row = 0, read = 0;
  /// Row of the first output, and token, of a dependence that this read adds to the output, if any.
  std::optional<std::pair<int64_t, int64_t>> token = {};

  std::string format() const;
};

/// Finds a row that `after` depends on and `before` does not: at every short length by following
/// all paths, and for every length where maps and masks can be compared directly. Values are
/// matched by name.
std::optional<AddedRead> findAddedRead(const ReadGraph &before, const ReadGraph &after);

/// Finds a read of `gradient` that is not the transpose of one of `forward`: the gradient of row q
/// of a value may depend on the gradient of row p of another value only if, in `forward`, row p of
/// the latter depends on row q of the former.
std::optional<AddedRead> findUntransposed(const ReadGraph &forward, const ReadGraph &gradient);

/// Watches a module from model IR through every pass.
class LoweringWatch {
public:
  /// Names the values of `module`, model IR, and records the dependences of each function.
  explicit LoweringWatch(mlir::ModuleOp module);
  /// Compares the module after a pass. Returns a description of a dependence that the pass added,
  /// or nothing; sets `place`, if given, to the location of the op.
  std::optional<std::string> find(mlir::ModuleOp module, llvm::StringRef pass,
                                  mlir::Location *place = nullptr);
  /// Removes the names, which are not part of an artifact.
  static void finish(mlir::ModuleOp module);

private:
  struct Promise {
    std::string name;
    std::unique_ptr<ReadGraph> graph;
  };
  const Promise *findPromise(mlir::func::FuncOp function) const;

  std::map<std::string, Promise> promises; ///< dependences by function
  int64_t names = 0;
};

} // namespace sluice
