// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Block sizes of attention, and the requirements of the generators.
#include "../TensorCore/TensorCore.h"
#include "Attention.h"

#include "mlir/Analysis/FlatLinearValueConstraints.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

static constexpr int64_t widestPart = 128, widestHead = 256;

static Type getTensorElementType(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// Rejects sizes that no kernel supports.
template <typename Op> static LogicalResult checkSizes(Op op) {
  if (failed(checkAttention(op))) {
    return failure();
  }
  int64_t head = op.getHeadSize();
  if (head > widestHead) {
    return op.emitError("expected heads of at most ")
           << widestHead << " columns on a GPU, found " << head
           << "; use more heads, or compile for a CPU";
  }
  dispatch::Distance distance = op.getTerms().distance;
  if (std::gcd(distance.query, distance.key) != 1) {
    return op.emitError("expected a distance a p - b q + c with coprime a and b on a GPU, found ")
           << distance.query << " and " << distance.key;
  }
  return success();
}

/// Requires bf16 factors of products, and f32 statistics and angles.
template <typename Op> static LogicalResult checkTypes(Op op) {
  SmallVector<Value> factors{op.getQuery(), op.getKey(), op.getValue()};
  SmallVector<Value> numbers{op.getLse()}, results{op.getOutput()};
  dispatch::DistanceTerms terms = op.getTerms();
  if (terms.rows) {
    factors.append({terms.query, terms.rows});
  }
  if (terms.bias) {
    numbers.push_back(terms.bias);
  }
  if constexpr (std::is_same_v<Op, dispatch::AttentionBackwardOp>) {
    factors.push_back(op.getOutputGradient());
    llvm::append_range(results, op.getGradients());
    if (op.getRotary()) {
      numbers.push_back(op.getRotary());
    }
  }
  for (Value factor : factors) {
    if (!getTensorElementType(factor).isBF16()) {
      return op.emitError("expected queries, keys, values, output gradients and rows by distance "
                          "of bf16 on a GPU, found ")
             << factor.getType() << R"(; write "precision": {"compute": "bf16"} in the spec)";
    }
  }
  for (Value result : results) {
    if (!getTensorElementType(result).isBF16() && !getTensorElementType(result).isF32()) {
      return op.emitError("expected outputs and gradients of bf16 or f32, found ")
             << result.getType();
    }
  }
  for (Value number : numbers) {
    if (!getTensorElementType(number).isF32()) {
      return op.emitError("expected log-sum-exps, biases and angles of f32, found ")
             << number.getType();
    }
  }
  return success();
}

/// Decides exactly whether some q >= 0 and p >= 0 (with p < n in one domain) meet all constraints.
static bool isPossible(ArrayRef<AffineExpr> constraints, ArrayRef<bool> equalities,
                       bool isOneDomain) {
  MLIRContext *context = constraints.front().getContext();
  AffineExpr p = getAffineDimExpr(0, context), q = getAffineDimExpr(1, context),
             n = getAffineSymbolExpr(0, context);
  SmallVector<AffineExpr> all(constraints);
  SmallVector<bool> equal(equalities);
  all.append({p, isOneDomain ? n - 1 - p : p, q});
  equal.append(3, false);
  return !FlatLinearValueConstraints(IntegerSet::get(2, 1, all, equal)).isIntegerEmpty();
}

/// Returns true if the mask has no pair of a valid query and an invalid key.
static bool boundsKeys(IntegerSet mask, bool isOneDomain) {
  SmallVector<AffineExpr> constraints(mask.getConstraints());
  SmallVector<bool> equalities(mask.getEqFlags());
  MLIRContext *context = mask.getContext();
  constraints.push_back(getAffineDimExpr(1, context) - getAffineSymbolExpr(0, context));
  equalities.push_back(false);
  return !isPossible(constraints, equalities, isOneDomain);
}

/// Drops constraints that the others imply for valid positions.
static IntegerSet withoutRedundant(IntegerSet mask, bool isOneDomain) {
  MLIRContext *context = mask.getContext();
  AffineExpr zero = getAffineConstantExpr(0, context);
  AffineExpr validKey = getAffineSymbolExpr(0, context) - 1 - getAffineDimExpr(1, context);
  SmallVector<AffineExpr> constraints(mask.getConstraints());
  SmallVector<bool> equalities(mask.getEqFlags());
  for (size_t i = 0; i < constraints.size(); ++i) {
    SmallVector<AffineExpr> others(constraints);
    SmallVector<bool> equal(equalities);
    others[i] = -1 - constraints[i];
    others.push_back(validKey);
    equal.push_back(false);
    if (!equalities[i] && !isPossible(others, equal, isOneDomain)) {
      constraints[i] = zero; // 0 >= 0
    }
  }
  return IntegerSet::get(2, 1, constraints, equalities);
}

/// Elementary functions expand to dozens of operations each.
static bool isLong(Region &region) {
  auto work = region.front().without_terminator();
  return std::distance(work.begin(), work.end()) > 4 ||
         llvm::any_of(work, [](Operation &op) { return isa<math::MathDialect>(op.getDialect()); });
}

/// Returns c if the region yields `argument` times a constant c > 0.
static std::optional<float> findConstantFactor(Region &region, Value argument) {
  Value result = region.front().getTerminator()->getOperand(0);
  if (result == argument) {
    return 1.0f;
  }
  auto product = result.getDefiningOp<arith::MulFOp>();
  if (!product || (product.getLhs() != argument && product.getRhs() != argument)) {
    return std::nullopt;
  }
  Value other = product.getLhs() == argument ? product.getRhs() : product.getLhs();
  auto constant = other.getDefiningOp<arith::ConstantOp>();
  auto value = constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
  if (!value || !(value.getValueAsDouble() > 0)) {
    return std::nullopt;
  }
  return float(value.getValueAsDouble());
}

/// Returns the factor of the score, or of the sum of score and product by distance.
static std::optional<float> getScoreFactor(Region &region, const dispatch::DistanceTerms &terms) {
  if (terms.bias) { // the bias is not scaled
    return std::nullopt;
  }
  Operation *sum = terms.rows ? sumOfProducts(region) : nullptr;
  return terms.rows && !sum
             ? std::nullopt
             : findConstantFactor(region, sum ? sum->getResult(0) : Value(region.getArgument(0)));
}

/// Sets the properties of `s` that depend on the derivative of the score region.
static void readDerivative(Region &derivative, const dispatch::DistanceTerms &terms,
                           AttentionShape &s) {
  Value g = derivative.getArguments().back();
  auto yielded = derivative.front().getTerminator()->getOperands();
  s.gradientFactor = findConstantFactor(derivative, g);
  s.addsRows = terms.rows && yielded[1] == yielded[0];
  s.addsBiases = terms.bias && yielded.back() == g;
  bool readsProducts =
      terms.rows && (!derivative.getArgument(0).use_empty() ||
                     !derivative.getArgument(dispatch::DistanceTerms::firstArgument).use_empty());
  s.scoreFactor = readsProducts ? std::nullopt : s.scoreFactor;
}

template <typename Op> FailureOr<AttentionShape> attention::makeShape(Op op) {
  if (failed(checkSizes(op)) || failed(checkTypes(op)) || failed(checkRegion(op.getScore()))) {
    return failure();
  }
  AttentionShape s{};
  static_cast<AttentionSizes &>(s) = attentionSizes(op);
  s.queryFactor = op.getDomain().getFactor();
  s.keyFactor = op.getKeys().getFactor();
  if (Value counts = op.getKeyCounts()) {
    s.keyCounts = static_cast<unsigned>(llvm::find(op->getOperands(), counts).getIndex());
  }
  if (!op.getRange().empty()) {
    s.range = op.getRange().getBeginOperandIndex();
  }
  dispatch::DistanceTerms terms = op.getTerms();
  s.hasRows = bool(terms.rows);
  auto makeTable = [&](Value table) -> AttentionShape::TermTable {
    int64_t rows = cast<RankedTensorType>(table.getType()).getDimSize(0);
    return {rows, terms.firstDistance(rows)};
  };
  int64_t all = terms.countDistances(s.queries);
  s.biasTable = terms.bias ? makeTable(terms.bias) : AttentionShape::TermTable{};
  s.biasRows = terms.bias && terms.isCentered ? all : s.biasTable.rows;
  s.distance = terms.count() > 0 ? terms.distance : dispatch::Distance();
  if (terms.hasRowTable()) {
    s.rowTable = makeTable(terms.rows);
    s.distances = all;
  } else {
    s.distances = terms.rows ? cast<RankedTensorType>(terms.rows.getType()).getDimSize(1) : 0;
    s.distanceFactor = distanceStep(op);
  }
  s.firstTerm = op->getNumOperands() - unsigned(op.getExtras().size());
  s.scoreFactor = getScoreFactor(op.getScore(), terms);
  if constexpr (std::is_same_v<Op, dispatch::AttentionBackwardOp>) {
    if (failed(checkRegion(op.getScoreGradient()))) {
      return failure();
    }
    readDerivative(op.getScoreGradient(), terms, s);
  }
  s.mask = withoutRedundant(op.getMask(), s.isOneDomain());
  s.boundsKeys = boundsKeys(s.mask, s.isOneDomain());
  s.heavy = s.dropout > 0 || isLong(op.getScore()) || s.hasTerms();
  s.parts = llvm::divideCeil(s.head, widestPart);
  s.partWidth = llvm::alignTo(llvm::divideCeil(s.head, s.parts), fragmentInner);
  s.width = s.parts * s.partWidth;
  return s;
}

template FailureOr<AttentionShape> attention::makeShape(dispatch::AttentionOp op);
template FailureOr<AttentionShape> attention::makeShape(dispatch::AttentionBackwardOp op);

double attention::headBytes(const AttentionShape &shape, Value tensor, int64_t heads) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return double(shape.batch * type.getDimSize(1) * heads * shape.head) *
         type.getElementTypeBitWidth() / 8;
}

double attention::rotaryBytes(const AttentionShape &shape, Value rotary) {
  return rotary ? double(shape.queries * shape.head) * sizeof(float) : 0;
}

double attention::termBytes(const AttentionShape &shape, const dispatch::DistanceTerms &terms) {
  double rows = terms.rows ? headBytes(shape, terms.query, shape.heads) : 0;
  if (shape.rowTable) {
    rows += double(shape.rowTable->rows * shape.head) * 2;
  } else if (terms.rows) {
    rows += headBytes(shape, terms.rows, shape.heads);
  }
  return rows + double(shape.biasTable.rows * shape.heads) * sizeof(float);
}

int64_t attention::columnsTogether(const AttentionShape &shape, int64_t column) {
  return std::gcd(4, std::gcd(shape.head, column));
}
