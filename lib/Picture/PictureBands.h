// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts a function to bands. An op that works position by position joins the band that it reads;
// maps that are not stored become edges; consecutive layers of one kind are one band.
#pragma once

#include "sluice/Explain/Reach.h"
#include "sluice/Picture/Picture.h"

namespace sluice {

/// Returns the scan that an op is a part of, "smooth" or "greatest": a recurrence over rows. Empty
/// for any other op.
llvm::StringRef findScan(mlir::Operation *op);

/// A band under construction.
struct BandDraft {
  /// The op that computes the band; null for tokens.
  mlir::Operation *op = nullptr;
  std::string label;
  std::string mask; ///< mask of an attention
  int64_t layers = 0;
  bool residual = false;
  llvm::SmallVector<mlir::Value> values; ///< values that the band computes
  bool merged = false;                   ///< merged into a band above
  bool isScan = false;                   ///< a scan: a row reads all lower rows up to its own
};

/// One read of a band: the stored value at the end of a chain of maps.
struct BandSource {
  mlir::Value root;
  std::vector<mlir::Operation *> maps; ///< from the reader to the root
  mlir::Operation *reader = nullptr;
  unsigned operand = 0;
};

/// The bands that one loss reads, from the tokens up.
class Bands {
public:
  explicit Bands(CrossEntropyOp loss);
  Picture finish(const ReachGraph &graph, int64_t row) const;
  /// Returns the band that shows a value, if there is one.
  std::optional<size_t> findBand(mlir::Value value) const;

private:
  void add(mlir::Operation *op);
  bool addToScan(mlir::Operation *op);
  void addSource(mlir::Operation *op, unsigned operand, llvm::SmallVector<int> &pointwise,
                 std::vector<BandSource> &sources);
  int bandToJoin(size_t sources, llvm::ArrayRef<int> pointwise);
  int bandFor(mlir::Value value);
  BandSource findSource(mlir::Operation *op, unsigned operand) const;
  int makeBand(mlir::Operation *op, std::vector<BandSource> sources);
  void dropOwnPosition(mlir::Operation *op, std::vector<BandSource> &sources);
  void mergeLayers();
  size_t getBandIndex(size_t draft) const;
  PictureBand finishBand(const ReachGraph &graph, const BandDraft &draft,
                         const ReachSets &sets) const;
  PictureEdge finishEdge(const ReachGraph &graph, size_t above, const BandSource &source) const;
  void appendReads(const ReachGraph &graph, const BandDraft &draft, const BandSource &source,
                   PictureEdge &edge) const;

  mutable CrossEntropyOp loss; ///< mutable, because its accessors are not const
  std::vector<BandDraft> drafts;
  std::vector<std::pair<size_t, BandSource>> edges; ///< index of the upper band, and the source
  llvm::DenseMap<mlir::Value, int> known;
};

} // namespace sluice
