// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A spec with its composite stages expanded into primitive ones, and the tensors that it trains.
// This is the one place that decides names, shapes, order and initialization of weights.

#ifndef SLUICE_SPEC_EXPANSION_H
#define SLUICE_SPEC_EXPANSION_H

#include "sluice/Spec/Spec.h"

namespace sluice::spec {

/// A primitive stage. Its result is the stream `id`; streams are single-assignment.
struct Primitive {
  int64_t id = 0;       ///< its index in the expansion
  int64_t input = -1;   ///< id of the stream it reads; -1: the tokens (embedding only)
  int64_t second = -1;  ///< id of the other operand of `add`, `project`, an `over`; -1: none
  int64_t factor = 1;   ///< of the result's scale: position m stands for tokens from factor * m
  int64_t width = 0;    ///< of the result: numbers a row; of a head, of what it reads
  std::string axis;     ///< of the result: the name of an input; empty: of the tokens
  std::string segments; ///< of the result: the segmentation whose segments its rows are
  Settings settings;    ///< never those of a composite stage
  std::string prefix;   ///< of the names of its weights: "stages.1.inside.0"
  /// The stage as written; in an hourglass or a top_down its `hierarchy` (or `shift`, for a shift
  /// that an hourglass overrides).
  SourceLocation location;
  KeyLocations keys; ///< of the stage as written
  /// Of a layer whose heads are grouped: id of the stream that each group's keys and values are of.
  std::vector<int64_t> sources;
  bool isFrozen = false; ///< its weights are given, and training leaves them as they are

  Op op() const { return static_cast<Op>(settings.index()); }
  /// Where the value of `key` stands, or `location` where the key was not given.
  const SourceLocation &at(std::string_view key) const;
};

/// The model's primitive stages in execution order: the first is the embedding, the last the head.
std::vector<Primitive> expand(const Model &model);

/// The width of what a stage makes of a stream of `width`.
int64_t widthAfter(const Settings &settings, int64_t width);

/// Rows of a stage's result at full length. Of segments it is the most that any capacity gives: one
/// a token, and one before the first.
int64_t positionsOf(const Model &model, const Primitive &stage);

/// The factor of a step of distance in a layer: the finest scale that queries and keys are whole
/// numbers of.
int64_t distanceStep(const std::vector<Primitive> &primitives, const Primitive &layer);

/// How many such steps the context has.
int64_t distanceCount(const Model &model, const std::vector<Primitive> &primitives,
                      const Primitive &layer);

struct Initial {
  InitialKind kind = InitialKind::Zeros;
  double deviation = 0; ///< of Normal
};

/// A trained tensor, dense and row-major.
struct Tensor {
  std::string name;           ///< "stages.1.inside.0.attention.query.weight"
  std::vector<int64_t> shape; ///< matrices are [out, in]
  Initial initial;
  bool decay = false;    ///< whether weight decay applies: matrices, but no embedding, norm or bias
  int64_t stage = 0;     ///< id of the primitive stage that owns it
  bool isFrozen = false; ///< training leaves it as it was given

  int64_t elements() const;
};

/// Every trained tensor in spec order. Weights of attention.query, key and value follow one
/// another, then their biases, so that laid out in this order they are one matrix [H D + 2 Hkv D,
/// d]; likewise feed_forward.gate and in. Over another stream, and of a group of heads, those of
/// key and value do alone.
std::vector<Tensor> tensors(const Model &model, const std::vector<Primitive> &primitives);

/// Elements of all trained tensors together.
int64_t parameterCount(const Model &model);

} // namespace sluice::spec

#endif // SLUICE_SPEC_EXPANSION_H
