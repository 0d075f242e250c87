// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A picture of the reads of one row of a model: the model's streams as bands over the tokens. Uses
// no MLIR, so that other programs can draw it too. PictureModel.h builds the picture from a module.
#pragma once

#include "sluice/Explain/Verdict.h"

namespace sluice {

/// The positions of one stream, drawn as a row of boxes.
struct PictureBand {
  std::string label; ///< the label of the band, such as "8 layers, causal"
  spec::SourceLocation place;
  int64_t factor = 1;
  std::string axis;            ///< axis whose segments are grouped by `factor`; empty if tokens are
  std::vector<int64_t> starts; ///< with segments: the first token of each position, and the end
  std::vector<bool> seen;      ///< per position: true if the row reads it
};

/// The reads of one band from another band below it.
struct PictureEdge {
  enum class Kind {
    Same,      ///< each position reads its own position
    Map,       ///< each position reads one position: shifts, upsampling
    Group,     ///< each position reads a group: shortening
    Attention, ///< each position reads many positions
    Scan       ///< each position reads many positions, one after the other
  };
  struct PictureRead {
    /// A position of the upper band, and the range of the lower band.
    int64_t position, first, last;
  };
  Kind kind = Kind::Same;
  size_t below = 0, above = 0; ///< indices of bands
  std::string label;           ///< label of the edge, such as "shift 3"; may be empty
  bool shifts = false;
  std::vector<PictureRead> reads;
};

struct Picture {
  std::string name;
  std::vector<std::string> text;  ///< the text of each token; empty for arbitrary tokens
  int64_t length = 0, row = 0;    ///< number of drawn tokens; the row whose reads are drawn
  int64_t target = 0;             ///< the token that the row predicts
  std::vector<PictureBand> bands; ///< from the tokens upward; the head reads the last band
  std::vector<PictureEdge> edges; ///< sorted by the upper band
  std::optional<int64_t> leak;    ///< the witness's token, on which the row must not depend
  std::vector<int64_t> leaks;     ///< all tokens that the row reads and must not read
  bool leakByGrowing = false;     ///< the row changes once the token exists, without reading it
  std::vector<std::pair<size_t, int64_t>>
      leakPath;       ///< bands and positions from the token to the row
  std::string advice; ///< the recommended change, drawn below the legend; may be empty
};

/// Renders a self-contained SVG document on a white background; equal pictures give equal
/// documents.
std::string renderSvg(const Picture &picture);

} // namespace sluice
