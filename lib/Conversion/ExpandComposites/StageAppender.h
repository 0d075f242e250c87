// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates the stages that replace a composite stage.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

#include "mlir/IR/PatternMatch.h"

#include <variant>

namespace sluice::spec {

/// Numbers the stages inside another in the order of their creation: "stages.3.inside.0" and so on.
/// Paths are empty inside a stage without a path.
class InsidePaths {
public:
  explicit InsidePaths(std::string prefix) : prefix(std::move(prefix)) {}
  std::string next();

private:
  std::string prefix;
  int64_t count = 0;
};

/// A key of a new stage and its value. A word of an enumeration is a string; a null attribute, or a
/// width of 0, leaves the key out.
struct StageSetting {
  llvm::StringRef key;
  std::variant<int64_t, bool, llvm::StringRef, mlir::Attribute> value;

  bool isAbsent() const;
};

/// Place of a new stage in the file, and prefix of the names of its weights.
struct StageSite {
  mlir::Location location;
  std::string path;
};

/// Returns the path of a stage; empty if it has none.
std::string getPath(mlir::Operation *stage);
/// Returns the location of a stage inside `composite`: the place of a key, with all keys of
/// `composite`.
mlir::Location getInsideLoc(mlir::Operation *composite, llvm::StringRef key);
/// Returns a stage's attributes that are settings of layers.
mlir::NamedAttrList getLayerSettings(mlir::Operation *stage);
/// Returns a stage's attributes "norm" and "epsilon".
mlir::NamedAttrList getNormSettings(mlir::Operation *stage);
/// Fails with an error at `location` if the model has the maximum number of stages already.
mlir::LogicalResult verifyRoom(mlir::Location location, int64_t stages);

/// Creates stages before a composite stage, and replaces it by the last of them. After an error it
/// creates no more: `add` returns its first operand.
class StageAppender {
public:
  /// `stages` is the number of stages before the composite one.
  StageAppender(mlir::Operation *composite, int64_t stages, mlir::RewriterBase &rewriter)
      : composite(composite), rewriter(rewriter), stages(stages) {}

  /// Creates a stage with the attributes `own` and the keys `settings`, which take precedence. The
  /// stage is frozen if the composite one is, and shares weights by its name. Returns its result,
  /// or its first operand if it has none.
  mlir::Value add(llvm::StringRef word, const StageSite &site, mlir::ValueRange operands,
                  llvm::ArrayRef<StageSetting> settings, const mlir::NamedAttrList &own = {});
  /// Verifies such a stage without adding it.
  void verify(llvm::StringRef word, const StageSite &site, mlir::ValueRange operands,
              llvm::ArrayRef<StageSetting> settings, const mlir::NamedAttrList &own);
  /// Replaces the composite stage by `result`. Fails after an error.
  mlir::LogicalResult replaceBy(mlir::Value result);

  void fail() { isFailed = true; }
  bool hasFailed() const { return isFailed; }

private:
  mlir::Operation *create(llvm::StringRef word, const StageSite &site, mlir::ValueRange operands,
                          llvm::ArrayRef<StageSetting> settings, const mlir::NamedAttrList &own);

  mlir::Operation *composite;
  mlir::RewriterBase &rewriter;
  int64_t stages; ///< number of stages before the next one
  bool isFailed = false;
};

/// Creates stages inside a composite stage, numbered in the order of their creation.
class InsideStages {
public:
  InsideStages(mlir::Operation *composite, StageAppender &appender)
      : composite(composite), appender(appender), place(getInsideLoc(composite, "")),
        paths(getPath(composite)) {}

  mlir::Value add(llvm::StringRef word, mlir::ValueRange operands,
                  llvm::ArrayRef<StageSetting> settings = {}, const mlir::NamedAttrList &own = {}) {
    return appender.add(word, {place, paths.next()}, operands, settings, own);
  }
  /// Returns the settings of layers that see all rows.
  mlir::NamedAttrList getBidirectionalSettings();

private:
  mlir::Operation *composite;
  StageAppender &appender;
  const mlir::Location place;
  InsidePaths paths;
};

} // namespace sluice::spec
