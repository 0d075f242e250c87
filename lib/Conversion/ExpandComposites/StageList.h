// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds composite stages that are a list of other stages: each reads the result of the one before
// it.
#pragma once

#include "StageAppender.h"

namespace sluice::spec {

/// Creates the stages of a list. Their place is the brace of the composite stage; keys of "local",
/// "global" and "boundaries" have their own places.
class StageList {
public:
  StageList(mlir::Operation *composite, StageAppender &appender);

  /// Creates a stage that reads the result of the stage before it.
  mlir::Value add(llvm::StringRef word, llvm::ArrayRef<StageSetting> settings = {}) {
    return add(word, last, settings);
  }
  /// Creates a stage with these operands. The next stage reads its result.
  mlir::Value add(llvm::StringRef word, mlir::ValueRange operands,
                  llvm::ArrayRef<StageSetting> settings);

  /// Creates a stack of layers with the settings of the key `side`, "local" or "global". If `count`
  /// is 0, only verifies the settings.
  void addLayers(int64_t count, llvm::StringRef side, MaskAttr mask = {});
  /// Creates layers whose rows read their own block of `size` rows; a block starts at row size - 1.
  void addBlocks(int64_t count, int64_t size);
  /// Creates the norm after a pre-norm stack.
  void addNorm(llvm::StringRef side);
  /// Creates boundaries of `input` from the keys `own` with places `ownKeys`, which may be null,
  /// and from `settings` for keys without a value. Returns the segmentation.
  mlir::Value addBoundaries(mlir::Value input, mlir::DictionaryAttr own,
                            mlir::DictionaryAttr ownKeys, llvm::ArrayRef<StageSetting> settings);
  /// Creates attention from `input` over `over`, between a scale and its segments, with the heads
  /// and norms of local layers.
  void addAttend(mlir::Value input, mlir::Value over, mlir::Value segments, int64_t parts);
  /// Creates a linear map of rows to `width` columns, unless that is 0.
  void resize(int64_t width);

  /// Returns the result of the stage before, or the composite's input.
  mlir::Value getLast() const { return last; }

private:
  mlir::Location getLoc(llvm::ArrayRef<StageSetting> settings, mlir::DictionaryAttr ownKeys,
                        bool inherits);
  mlir::NamedAttrList getSide(llvm::StringRef side, llvm::ArrayRef<llvm::StringRef> keys) const;
  llvm::LogicalResult verifyDefaultHeads(llvm::StringRef side) const;
  llvm::LogicalResult dropUncountedDistances(llvm::StringRef side,
                                             mlir::NamedAttrList &settings) const;

  mlir::Operation *composite;
  StageAppender &appender;
  InsidePaths paths;
  const int64_t width; ///< width of the composite's input
  mlir::Value last;
};

/// Returns the i-th number of layers in the key "layers".
int64_t getCount(mlir::ArrayAttr layers, size_t i);
/// Returns the width of the stream if `inner`, the width of the coarse scale, is given; else 0: no
/// map between the two.
int64_t getOuterWidth(mlir::Operation *composite, std::optional<int64_t> inner);

} // namespace sluice::spec
