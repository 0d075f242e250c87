// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reads of one row of a model, as a picture: the model's streams as bands over the tokens. In
// plain C++: programs without MLIR draw it too. Reach.h makes it from a module.
#pragma once

#include "sluice/Explain/Verdict.h"

namespace sluice {

/// The positions of one stream, drawn as a row of boxes.
struct PictureBand {
  std::string label; ///< "8 layers, causal"
  spec::SourceLocation place;
  int64_t factor = 1;
  std::string axis;            ///< whose segments are grouped by `factor`; empty: tokens are
  std::vector<int64_t> starts; ///< of segments: the first token of each position, and the end
  std::vector<bool> seen;      ///< per position: whether the row reads it
};

/// How one band reads another below it.
struct PictureEdge {
  enum class Kind {
    Same,      ///< each position its own
    Map,       ///< one position each: shifts, upsampling
    Group,     ///< a group each: shortening
    Attention, ///< many
    Scan       ///< many, one position after the other
  };
  struct PictureRead {
    int64_t position, first, last; ///< of the band above; of the band below
  };
  Kind kind = Kind::Same;
  size_t below = 0, above = 0; ///< indices of bands
  std::string label;           ///< "shift 3"; empty where there is nothing to say
  bool shifts = false;
  std::vector<PictureRead> reads;
};

struct Picture {
  std::string name;
  std::vector<std::string> text;  ///< what stands at each token; empty where it may be any
  int64_t length = 0, row = 0;    ///< tokens drawn; the row whose reads are shown
  int64_t target = 0;             ///< the token that it predicts
  std::vector<PictureBand> bands; ///< from the tokens up; the head reads the last
  std::vector<PictureEdge> edges; ///< in order of the band above
  std::optional<int64_t> leak;    ///< a token that the row must not depend on: the witness's
  std::vector<int64_t> leaks;     ///< all tokens that it must not read and does
  bool leakByGrowing = false;     ///< the row changes once that token is there, without reading it
  std::vector<std::pair<size_t, int64_t>>
      leakPath;       ///< bands and positions from the token to the row
  std::string advice; ///< below the legend: what to change; may be empty
};

/// A self-contained SVG document on a white ground; the same picture gives the same text.
std::string renderSvg(const Picture &picture);

} // namespace sluice
