// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Segments of the tokens: bits by a rule or predicted, pooling and spreading (Nawrot et al. 2023).
#include "ImportStages.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <algorithm>
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

std::string importing::boundariesName(const Primitive &stage) {
  const auto &settings = std::get<Boundaries>(stage.settings);
  return *settings.rule == BoundaryRule::Every
             ? "boundaries.every." + std::to_string(settings.factor) +
                   (settings.begins     ? ".starts"
                    : settings.asInCode ? ".code"
                                        : "") +
                   (stage.segments.empty() ? "" : ".segments") +
                   (stage.factor == 1 ? "" : "." + std::to_string(stage.factor))
             : "boundaries." + std::string(boundaryRuleNames[static_cast<size_t>(*settings.rule)]);
}

/// Like a space: no letter or digit of ASCII, and no later byte of a character of UTF-8.
static bool isSpaceLike(int64_t byte) {
  bool isWord =
      (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
  return !isWord && (byte & 0xC0) != 0x80;
}

std::string importing::firstName(const Model &model, const Primitive &stage) {
  return "boundaries.first." + std::to_string(spec::positionsOf(model, stage));
}

std::vector<int64_t> importing::membersOf(const Boundaries &settings, int64_t rows) {
  std::vector<int64_t> members;
  int64_t k = settings.factor;
  int64_t first = settings.begins || settings.asInCode ? 0 : k - 1;
  for (int64_t row = first; *settings.rule == BoundaryRule::Every && row < rows; row += k) {
    members.push_back(row);
  }
  for (int64_t id = 0;
       *settings.rule == BoundaryRule::SpaceLike && id < std::min<int64_t>(rows, 256); ++id) {
    if (isSpaceLike(id)) {
      members.push_back(id);
    }
  }
  for (char c : {'\t', '\n', '\v', '\f', '\r', ' '}) {
    if (*settings.rule == BoundaryRule::Whitespace && c < rows) {
      members.push_back(c);
    }
  }
  return members;
}

/// `one` where x is above `threshold`, else `zero`.
Value StageWriter::isAbove(Value x, Value threshold, Value one, Value zero) {
  Value above = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, threshold);
  return arith::SelectOp::create(b, above, one, zero);
}

/// Bits of a rule by token, f32 0 or 1: rows of a table of one column. A segment's is that of the
/// token that ends it.
Value StageWriter::tokenBits(const Boundaries &settings, const std::string &segments) {
  if (*settings.rule == BoundaryRule::Entropy) {
    return entropyBits(settings);
  }
  if (segments.empty()) {
    auto scale = FlatSymbolRefAttr::get(b.getContext(), scaleName(1));
    if (*settings.rule == BoundaryRule::Labels) {
      name("labels");
      auto type = SequenceType::get(b.getContext(), scale, 0, b.getF32Type());
      Value given = LabelsOp::create(b, type, tokensOf(""), settings.name);
      name("rule");
      return RepeatColumnsOp::create(b, SequenceType::get(b.getContext(), scale, 1, b.getF32Type()),
                                     given);
    }
    name("rule");
    Value like = EmbedOp::create(b, SequenceType::get(b.getContext(), scale, 1, b.getF32Type()),
                                 tokensOf(""), read(boundariesName(*current)));
    if (*settings.rule != BoundaryRule::SpaceLike) {
      return like;
    }
    name("before");
    Value before = sluice::ShiftOp::create(b, like.getType(), like, 1);
    name("change");
    return map({like, before}, [&](ArrayRef<Value> v) -> Value {
      return arith::MulFOp::create(b, v[0], arith::SubFOp::create(b, number(1), v[1]));
    });
  }
  const Segmentation &of = segmentations.at(segments);
  Value bits = tokenBits(settings, of.outer);
  name("rule");
  auto scale = cast<SequenceType>(of.ends.getType()).getScale();
  return SelectSegmentsOp::create(b, SequenceType::get(b.getContext(), scale, 1, b.getF32Type()),
                                  bits, of.counts, of.ends);
}

/// Bits of the rule, by token or by position.
Value StageWriter::bitsOfRule(const Boundaries &settings) {
  if (*settings.rule == BoundaryRule::CodingRate) {
    return forced(settings, bitsOfCodingRate(settings));
  }
  if (*settings.rule != BoundaryRule::Every) {
    return forced(settings, tokenBits(settings, current->segments));
  }
  name("rule"); // its table has the first row
  Value bits = PositionOp::create(b, sequence(current->factor, 1, b.getF32Type()),
                                  read(boundariesName(*current)));
  return settings.documentEnd ? forced(settings, bits) : bits;
}

/// Bits of segments that have ended. An axis has more rows than that, and all are computed.
Value StageWriter::ofClosed(Value bits) {
  if (current->segments.empty()) {
    return bits;
  }
  const Segmentation &of = segmentations.at(current->segments);
  name("ones");
  Value ones = map(of.bits, [&](ArrayRef<Value>) { return number(1); });
  name("closed");
  Value closed = SelectSegmentsOp::create(b, bits.getType(), ones, of.counts, of.ends);
  name("cut");
  return map({bits, closed},
             [&](ArrayRef<Value> v) -> Value { return arith::MulFOp::create(b, v[0], v[1]); });
}

/// One number a row of this stage's scale as one a token: a segment's stands at the token that ends
/// it, zeros elsewhere, and a group's is shared by its tokens.
Value StageWriter::toTokens(Value x) {
  int64_t factor = current->factor;
  for (std::string at = current->segments; !at.empty();) {
    const Segmentation &of = segmentations.at(at);
    Value all = SpreadSegmentsOp::create(b, of.bits.getType(), x, of.counts, of.ends, 1);
    x = map({all, of.bits}, [&](ArrayRef<Value> v) -> Value { // bits learn nothing from this
      Value isEnd = isAbove(v[1], number(0.5), number(1), number(0));
      return arith::MulFOp::create(b, v[0], isEnd);
    });
    at = of.outer;
    factor = of.factor;
  }
  if (factor == 1) {
    return x;
  }
  auto type = cast<SequenceType>(x.getType());
  auto scale = FlatSymbolRefAttr::get(b.getContext(), scaleName(1));
  x = UpsampleOp::create(
      b, SequenceType::get(b.getContext(), scale, type.getWidth(), type.getElement()), x, factor);
  return map(x, [&](ArrayRef<Value> v) -> Value {
    return arith::MulFOp::create(b, v[0], number(1 / static_cast<double>(factor)));
  });
}

/// One number a row as losses have it.
Value StageWriter::asLosses(Value x) {
  auto scale = cast<SequenceType>(x.getType()).getScale();
  return SumColumnsOp::create(b, SequenceType::get(b.getContext(), scale, 0, b.getF32Type()), x);
}

//===----------------------------------------------------------------------===//
// Predicted bits
//===----------------------------------------------------------------------===//

/// The logit of "a segment ends here", f32: two linear maps with GELU between.
Value StageWriter::predictBoundaries(Value x) {
  auto constant = [this](double value) { return number(value); };
  Value hidden = linear("in", x, computeType);
  name("activation");
  hidden =
      map(hidden, [&](ArrayRef<Value> v) { return activate(b, Activation::Gelu, v[0], constant); });
  return linear("out", hidden, b.getF32Type());
}

static Value sigmoid(ImplicitLocOpBuilder &b, Value x, Value one) {
  Value decay = math::ExpOp::create(b, arith::NegFOp::create(b, x));
  return arith::DivFOp::create(b, one, arith::AddFOp::create(b, one, decay));
}

/// Bits of logits: rounded probabilities. Where nothing labels them, training draws from the
/// Gumbel-sigmoid (Nawrot et al. 2023, equation 4), rounded, with its own derivative, and logits
/// may have the prior's added.
Value StageWriter::bitsOfLogits(const Boundaries &settings, Value logits) {
  bool isDrawn = (purpose == Purpose::Train || settings.asInCode) && !settings.rule;
  double shift = settings.computeLogitShift();
  name("bits");
  return map(logits, [&](ArrayRef<Value> v) -> Value {
    Value zero = number(0), one = number(1);
    if (!isDrawn) {
      return isAbove(v[0], number(-shift), one, zero);
    }
    constexpr double least = 1e-6; // of a draw's distance from 0 and 1
    Value draw = dispatch::RandomOp::create(b, b.getF32Type(), nextRandom++, 1);
    draw = arith::MaximumFOp::create(b, draw, number(least));
    draw = arith::MinimumFOp::create(b, draw, number(1 - least));
    Value odds = arith::DivFOp::create(b, draw, arith::SubFOp::create(b, one, draw));
    Value logit =
        settings.addsPriorLogit ? arith::AddFOp::create(b, v[0], number(shift)) : Value(v[0]);
    Value moved = arith::AddFOp::create(b, logit, math::LogOp::create(b, odds));
    Value soft = sigmoid(b, arith::MulFOp::create(b, moved, number(1 / settings.temperature)), one);
    Value hard = isAbove(soft, number(0.5), one, zero);
    return dispatch::StraightThroughOp::create(b, b.getF32Type(), hard, soft);
  });
}

/// Binary cross-entropy of logits l against labels y: max(l, 0) - l y + log(1 + exp(-|l|)).
/// The public code takes the sigmoid of them first, and so twice in all.
Value StageWriter::supervise(Value logits, Value labels, bool asInCode) {
  if (asInCode) {
    name("probability");
    logits = map(logits, [&](ArrayRef<Value> v) -> Value { return sigmoid(b, v[0], number(1)); });
  }
  name("supervision");
  return asLosses(toTokens(map({logits, labels}, [&](ArrayRef<Value> v) -> Value {
    Value zero = number(0);
    Value least = arith::MinimumFOp::create(b, v[0], arith::NegFOp::create(b, v[0])); // -|l|
    Value rest = math::Log1pOp::create(b, math::ExpOp::create(b, least));
    Value linear = arith::SubFOp::create(b, arith::MaximumFOp::create(b, v[0], zero),
                                         arith::MulFOp::create(b, v[0], v[1]));
    return arith::AddFOp::create(b, linear, rest);
  })));
}

Value importing::logGamma(ImplicitLocOpBuilder &b, Value x) {
  auto number = [&](double value) -> Value {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
  };
  auto mul = [&](Value u, Value v) -> Value { return arith::MulFOp::create(b, u, v); };
  auto add = [&](Value u, Value v) -> Value { return arith::AddFOp::create(b, u, v); };
  constexpr int steps = 4;
  Value product = x, z = add(x, number(steps));
  for (int i = 1; i < steps; ++i) {
    product = mul(product, add(x, number(i)));
  }
  Value inverse = arith::DivFOp::create(b, number(1), z), square = mul(inverse, inverse);
  Value series = add(number(-1.0 / 360), mul(square, number(1.0 / 1260)));
  series = mul(inverse, add(number(1.0 / 12), mul(square, series)));
  Value main = mul(arith::SubFOp::create(b, z, number(0.5)), math::LogOp::create(b, z));
  main = add(arith::SubFOp::create(b, main, z), number(0.5 * std::log(2 * std::numbers::pi)));
  return arith::SubFOp::create(b, add(main, series), math::LogOp::create(b, product));
}

/// -log Binomial(k; L, a) / L in every row, k of a row's L tokens end a segment (Nawrot et al.
/// 2023, equation 6).
Value StageWriter::binomialPrior(Value bits, const Boundaries &settings) {
  name("prior");
  Value ones = toTokens(map(bits, [&](ArrayRef<Value>) { return number(1); }));
  bits = toTokens(bits);
  Value count = asLosses(TotalOp::create(b, bits.getType(), bits));
  Value all = asLosses(TotalOp::create(b, bits.getType(), ones));
  return map(withUpdate({count, all}, settings), [&](ArrayRef<Value> v) -> Value {
    Value one = number(1), others = arith::SubFOp::create(b, v[1], v[0]);
    auto logFactorial = [&](Value n) { return logGamma(b, arith::AddFOp::create(b, n, one)); };
    Value ways = arith::AddFOp::create(b, logFactorial(v[0]), logFactorial(others));
    ways = arith::SubFOp::create(b, ways, logFactorial(v[1]));
    auto [set, unset] = costsOfBits(settings, v.drop_front(2));
    Value rate = arith::AddFOp::create(b, arith::MulFOp::create(b, v[0], set),
                                       arith::MulFOp::create(b, others, unset));
    // Of no tokens at all: a row of segments has none where nothing ends an outer one.
    Value tokens = arith::MaximumFOp::create(b, v[1], one);
    return arith::DivFOp::create(b, arith::AddFOp::create(b, ways, rate), tokens);
  });
}

/// Bits that a predictor makes of the stream, and its loss: against the rule's bits, or the prior.
Value StageWriter::bitsOfPredictor(const Boundaries &settings) {
  Value logits = predictBoundaries(stored("rows", streams[current->input]));
  Value bits = ofClosed(forced(settings, bitsOfLogits(settings, logits)));
  if (purpose == Purpose::Predict) {
    return bits;
  }
  bool waits = settings.rule == BoundaryRule::Entropy && !asked.contains(settings.loss);
  if (waits) {
    unlabelled[settings.loss].push_back({current, logits, terms.size()});
  }
  Value losses = waits           ? Value()
                 : settings.rule ? supervise(logits, bitsOfRule(settings), settings.asInCode)
                                 : binomialPrior(bits, settings);
  terms.push_back(
      {losses, settings.name + (settings.rule ? ".labels" : ".prior"), settings.weight, 0});
  return bits;
}

//===----------------------------------------------------------------------===//
// Routers (Hwang et al. 2025)
//===----------------------------------------------------------------------===//

/// <x, y>, one number a row.
Value StageWriter::productOf(StringRef part, Value x, Value y) {
  name(part.str() + ".terms");
  Value terms =
      map({x, y}, [&](ArrayRef<Value> v) -> Value { return arith::MulFOp::create(b, v[0], v[1]); });
  name(part);
  return asLosses(terms);
}

/// (1 - cos(W_q x[t], W_k x[t - 1])) / 2, one column (equation 4).
Value StageWriter::distanceToPrevious(Value x) {
  Value query = linear("own", x, b.getF32Type());
  Value key = linear("previous", x, b.getF32Type());
  name("before");
  key = sluice::ShiftOp::create(b, key.getType(), key, 1);
  Value both = productOf("cosine", query, key), queries = productOf("own.square", query, query),
        keys = productOf("previous.square", key, key);
  name("distance");
  Value distance = map({both, queries, keys}, [&](ArrayRef<Value> v) -> Value {
    constexpr double least = 1e-12; // of a square
    auto above = [&](Value square) -> Value {
      return arith::MaximumFOp::create(b, square, number(least));
    };
    Value size = math::SqrtOp::create(b, arith::MulFOp::create(b, above(v[1]), above(v[2])));
    Value rest = arith::SubFOp::create(b, number(1), arith::DivFOp::create(b, v[0], size));
    return arith::MulFOp::create(b, rest, number(0.5));
  });
  name("column");
  return RepeatColumnsOp::create(b, sequence(current->factor, 1, b.getF32Type()), distance);
}

/// N / (N - 1) ((N - 1) F G + (1 - F) (1 - G)) in every row: F is the share of bits, G the mean of
/// what was rounded to them (equation 10).
Value StageWriter::ratioLoss(Value bits, Value chances, const Boundaries &settings) {
  name("ratio");
  Value ones = toTokens(ofClosed(map(bits, [&](ArrayRef<Value>) { return number(1); })));
  auto total = [&](Value x) { return asLosses(TotalOp::create(b, x.getType(), x)); };
  Value count = total(toTokens(bits)), sum = total(toTokens(ofClosed(chances))), all = total(ones);
  return map(withUpdate({count, sum, all}, settings), [&](ArrayRef<Value> v) -> Value {
    auto [ratio, less] = ratioAndLess(settings, v.drop_front(3));
    Value one = number(1), rows = arith::MaximumFOp::create(b, v[2], one);
    Value share = arith::DivFOp::create(b, v[0], rows), mean = arith::DivFOp::create(b, v[1], rows);
    auto left = [&](Value x) -> Value { return arith::SubFOp::create(b, one, x); };
    Value set = arith::MulFOp::create(b, less, arith::MulFOp::create(b, share, mean));
    Value unset = arith::MulFOp::create(b, left(share), left(mean));
    return arith::MulFOp::create(b, ratio, arith::AddFOp::create(b, set, unset));
  });
}

/// Bits where a row is as far from the one before as near, or farther. Rounding has no derivative.
Value StageWriter::bitsOfRouter(const Boundaries &settings) {
  Value chances = forced(settings, distanceToPrevious(stored("rows", streams[current->input])));
  name("bits");
  Value bits = ofClosed(map(chances, [&](ArrayRef<Value> v) -> Value {
    Value isSet = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, v[0], number(0.5));
    return arith::SelectOp::create(b, isSet, number(1), number(0));
  }));
  if (purpose != Purpose::Predict) {
    Value losses = ratioLoss(bits, chances, settings);
    terms.push_back({losses, settings.name + ".ratio", settings.weight, 0});
  }
  segmentations[settings.name].chances = chances;
  return bits;
}

/// The share of tokens that end one of these segments is told beside the losses, and minimized by
/// nothing. Its inverse is the shortening factor.
Value StageWriter::stage(const Boundaries &settings) {
  Value bits = settings.ratio > 0    ? bitsOfRouter(settings)
               : settings.hidden > 0 ? bitsOfPredictor(settings)
                                     : ofClosed(bitsOfRule(settings));
  name("segment");
  auto ends = SequenceType::get(b.getContext(),
                                FlatSymbolRefAttr::get(b.getContext(), scaleName(1, settings.name)),
                                0, b.getI32Type());
  auto segment = SegmentOp::create(b, sequence(current->factor, 0, b.getI32Type()), ends, bits,
                                   settings.spare);
  Value chances = segmentations[settings.name].chances;
  segmentations[settings.name] = {bits,
                                  segment.getCounts(),
                                  segment.getEnds(),
                                  current->segments,
                                  current->factor,
                                  settings.begins,
                                  chances};
  if (purpose != Purpose::Predict) {
    name("share");
    terms.push_back({asLosses(toTokens(bits)), settings.name + std::string(boundaryShare), 0, 0});
  }
  return bits;
}

Value StageWriter::poolSegments(const Shorten &settings) {
  Value x = streams[current->input];
  const Segmentation &of = segmentations[settings.segments];
  if (of.begins && !settings.isSelection) { // rows from e(m - 1) on, before e(m)
    name("before");
    x = sluice::ShiftOp::create(b, x.getType(), x, 1);
  }
  x = stored("rows", x);
  SequenceType type = sequence(1, current->width, residualType);
  bool isMaximum = settings.method == Shortening::Max;
  x = isMaximum ? greatest(x, of) : x;
  name("pool");
  if (settings.isSelection || isMaximum) {
    return SelectSegmentsOp::create(b, type, x, of.counts, of.ends);
  }
  return PoolSegmentsOp::create(b, type, x, of.bits, of.counts, of.ends, false);
}

Value StageWriter::spreadSegments(const Upsample &settings) {
  Value x = stored("rows", streams[current->input]);
  const Segmentation &of = segmentations[settings.segments];
  x = settings.smooths ? smoothed(x, of) : x;
  name("spread");
  x = SpreadSegmentsOp::create(b, sequence(current->factor, current->width, residualType), x,
                               of.counts, of.ends, settings.by);
  return settings.scatters || settings.smooths ? gated(x, of, settings.scatters) : x;
}

/// One number a row in all columns of the rows of `like`.
Value StageWriter::repeated(Value number, Value like) {
  auto type = cast<SequenceType>(like.getType());
  return RepeatColumnsOp::create(
      b, SequenceType::get(b.getContext(), type.getScale(), type.getWidth(), b.getF32Type()),
      number);
}

/// Rows times a gate. One that scatters is 1 at bits and 0 elsewhere, and bits learn nothing from
/// it. A router's is 1 everywhere, and its derivative that of how sure the router was: of p at a
/// bit, of 1 - p elsewhere (Hwang et al. 2025, equations 6 to 9).
Value StageWriter::gated(Value x, const Segmentation &of, bool scatters) {
  name("gate");
  Value gate = map(scatters ? of.bits : of.chances, [&](ArrayRef<Value> v) -> Value {
    Value one = number(1), half = number(0.5);
    if (scatters) {
      return isAbove(v[0], half, one, number(0));
    }
    Value isSet = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, v[0], half);
    Value sure = arith::SelectOp::create(b, isSet, v[0], arith::SubFOp::create(b, one, v[0]));
    return dispatch::StraightThroughOp::create(b, b.getF32Type(), one, sure);
  });
  name("gate.number");
  gate = asLosses(gate);
  name("gate.wide");
  Value wide = repeated(gate, x);
  name("gated");
  return map({x, wide},
             [&](ArrayRef<Value> v) -> Value { return arith::MulFOp::create(b, v[0], v[1]); });
}
