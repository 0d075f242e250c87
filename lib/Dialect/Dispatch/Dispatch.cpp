// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the dispatch dialect's attributes, verifiers and storage rules.
#include "IndexOperands.h"
#include "Terms.h"

#include "sluice/Dialect/Dispatch/Combiner.h"
#include "sluice/Dialect/Dispatch/ResultDomain.h"
#include "sluice/Dialect/Plan/Names.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice::dispatch;

#include "sluice/Dialect/Dispatch/DispatchDialect.cpp.inc"
#include "sluice/Dialect/Dispatch/DispatchEnums.cpp.inc"
#include "sluice/Dialect/Dispatch/DispatchInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "sluice/Dialect/Dispatch/DispatchAttributes.cpp.inc"

#define GET_OP_CLASSES
#include "sluice/Dialect/Dispatch/DispatchOps.cpp.inc"

void DispatchDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "sluice/Dialect/Dispatch/DispatchAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "sluice/Dialect/Dispatch/DispatchOps.cpp.inc"
      >();
}

int64_t sluice::dispatch::paddedWidth(int64_t width) {
  int64_t padded = (width + 15) / 16 * 16;
  return padded % 256 == 0 ? padded + 16 : padded;
}

int64_t sluice::dispatch::storageElements(RankedTensorType type) {
  int64_t elements = 1;
  int64_t rank = type.getRank();
  for (int64_t i = 0; i < rank; ++i) {
    bool padded = rank == 3 && i == 2;
    elements *= padded ? paddedWidth(type.getDimSize(i)) : type.getDimSize(i);
  }
  return elements;
}

Value sluice::dispatch::optionalOperand(OperandRange extras, unsigned bits, int64_t rank) {
  for (Value operand : extras) {
    auto type = cast<RankedTensorType>(operand.getType());
    if (type.getElementTypeBitWidth() == bits && type.getRank() == rank) {
      return operand;
    }
  }
  return {};
}

OperandRange sluice::dispatch::findRange(OperandRange extras) {
  auto isEnd = [](Value operand) {
    auto type = cast<RankedTensorType>(operand.getType());
    return type.getElementType().isInteger(32) && type.getRank() == 2;
  };
  while (extras.size() >= 2 && !isEnd(extras.back())) {
    extras = extras.drop_back();
  }
  return extras.take_back(extras.size() >= 2 ? 2 : 0);
}

std::string sluice::dispatch::computeLength(Operation *dispatch) {
  StringAttr axis = findSequenceAxis(dispatch);
  return axis ? plan::lengthName(axis.getValue()) : "length";
}

Value sluice::dispatch::findSchedule(Operation *dispatch) {
  auto kernel = dyn_cast<KernelInterface>(dispatch);
  return kernel && kernel.getDomain().getScheduled() && dispatch->getNumOperands() > 0
             ? dispatch->getOperand(dispatch->getNumOperands() - 1)
             : Value();
}

bool sluice::dispatch::isStorageType(Type element) { return element.isF32() || element.isBF16(); }

Type sluice::dispatch::getBodyType(Type element) {
  bool isConverted = element.isBF16() || element.isInteger(8);
  return isConverted ? Float32Type::get(element.getContext()) : element;
}

/// Verifies that the body of `region` takes `arguments` arguments and yields `results` values.
static LogicalResult verifyBody(Operation *op, Region &region, unsigned arguments, unsigned results,
                                StringRef name) {
  Block &block = region.front();
  if (block.getNumArguments() != arguments) {
    return op->emitOpError("D-001: expected ") << arguments << " arguments of the " << name
                                               << " body, found " << block.getNumArguments();
  }
  auto yield = dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield) {
    return op->emitOpError("D-002: expected the ") << name << " body to end in dispatch.yield";
  }
  if (yield.getNumOperands() != results) {
    return op->emitOpError("D-003: expected ") << results << " values yielded by the " << name
                                               << " body, found " << yield.getNumOperands();
  }
  return success();
}

static Type getTensorElementType(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

/// Verifies that the factors of a contraction have one type, in which it computes.
static LogicalResult verifyFactors(Operation *op, ValueRange factors) {
  Type first = getTensorElementType(factors.front());
  for (Value factor : factors) {
    if (!isStorageType(getTensorElementType(factor)) || getTensorElementType(factor) != first) {
      return op->emitOpError("D-013: expected factors of one type, f32 or bf16, found ")
             << first << " and " << getTensorElementType(factor);
    }
  }
  return success();
}

/// Verifies the factors of a contraction. A decode step, which is bound by reading weights, reads
/// them in fewer bits than it computes in.
static LogicalResult verifyContractFactors(ContractOp op) {
  Type input = getTensorElementType(op.getInput()), weight = getTensorElementType(op.getWeight());
  if (!op.getDomain().getScheduled() || input == weight) {
    return verifyFactors(op, {op.getInput(), op.getWeight()});
  }
  if (!isStorageType(input) || !(weight.isBF16() || weight.isInteger(8))) {
    return op.emitOpError(
               "D-013: expected rows of f32 or bf16, and a weight of their type, bf16 or "
               "i8, found ")
           << input << " and " << weight;
  }
  return success();
}

/// Verifies a weight in groups, and its scales.
static LogicalResult verifyGroups(ContractOp op) {
  auto weight = cast<RankedTensorType>(op.getWeight().getType());
  int64_t groups = llvm::divideCeil(op.getInner(), groupWeights);
  bool isGrouped = op.getDomain().getScheduled() && weight.getElementType().isInteger(8) &&
                   weight.getDimSize(1) == groupBytes && weight.getDimSize(0) % groups == 0;
  if (!isGrouped) {
    return op.emitOpError("D-087: expected a scheduled op and a weight of i8 [")
           << groups << " N, " << groupBytes << "], a row for each group, found " << weight;
  }
  auto scales = RankedTensorType::get({weight.getDimSize(0)}, Float32Type::get(op.getContext()));
  if (op.getExtras().empty() || op.getScales().getType() != scales ||
      cast<AccessAttr>(op.getAccesses().getValue().back()).getKind() != AccessKind::Vector) {
    InFlightDiagnostic error = op.emitOpError("D-087: expected a last extra of ")
                               << scales << " with access vector, found ";
    return op.getExtras().empty() ? error << "none" : error << op.getScales().getType();
  }
  return success();
}

/// Verifies results that may be stored as f32 or bf16.
static LogicalResult verifyStorage(Operation *op, ValueRange values) {
  for (Value value : values) {
    if (!isStorageType(getTensorElementType(value))) {
      return op->emitOpError("D-016: expected values of f32 or bf16, found ") << value.getType();
    }
  }
  return success();
}

/// Verifies results that are never stored as bf16. Values may be absent.
static LogicalResult verifyF32(Operation *op, ValueRange values) {
  for (Value value : values) {
    if (value && !getTensorElementType(value).isF32()) {
      return op->emitOpError("D-014: expected f32 for statistics, biases, tables, losses and the "
                             "gradients of weights, found ")
             << value.getType();
    }
  }
  return success();
}

/// Bodies compute in f32: the argument or yielded value of a tensor of bf16 or i8 is f32.
static LogicalResult verifyBodyTypes(Operation *op, ValueRange tensors, ValueRange inBody) {
  for (auto [tensor, value] : llvm::zip_equal(tensors, inBody)) {
    Type expected = getBodyType(getTensorElementType(tensor));
    if (getElementTypeOrSelf(value.getType()) != expected) {
      return op->emitOpError("D-015: expected the body to hold ")
             << tensor.getType() << " as " << expected << ", found " << value.getType();
    }
  }
  return success();
}

/// Verifies the schedule of a scheduled dispatch. `obstacle` is the reason why the dispatch cannot
/// be scheduled, or empty.
static LogicalResult verifySchedule(Operation *op, StringRef obstacle) {
  DomainAttr domain = cast<KernelInterface>(op).getDomain();
  if (!domain.getScheduled()) {
    return success();
  }
  if (!obstacle.empty()) {
    return op->emitOpError("D-019: expected a domain that is not scheduled, for ") << obstacle;
  }
  Value schedule = findSchedule(op);
  auto expected =
      RankedTensorType::get({domain.getBatch(), 3}, IntegerType::get(op->getContext(), 64));
  if (!schedule || schedule.getType() != expected) {
    InFlightDiagnostic error = op->emitOpError("D-018: expected a schedule of ")
                               << expected << " as the last operand, found ";
    return schedule ? error << schedule.getType() : error << "none";
  }
  return success();
}

static LogicalResult verifyAccesses(Operation *op, ArrayAttr accesses, size_t expected,
                                    StringRef what) {
  if (accesses.size() != expected) {
    return op->emitOpError("D-004: expected ")
           << expected << " accesses of " << what << ", found " << accesses.size();
  }
  for (Attribute access : accesses) {
    if (!isa<AccessAttr>(access)) {
      return op->emitOpError("D-005: expected #dispatch.access, found ") << access;
    }
  }
  return success();
}

/// Returns the reason why rows cannot be scheduled, or nothing. A scheduled row is a row of a
/// sequence: it has a position, but no number among all rows.
static StringRef findObstacle(RowsOp op) {
  bool onlyRows = llvm::all_of(op.getResultAccesses(), [](Attribute access) {
    return cast<AccessAttr>(access).getKind() == AccessKind::Row;
  });
  if (!onlyRows || op.getZeroInvalid()) {
    return "results that are not rows, or are written where rows are not valid";
  }
  return op.getBody().getOps<RandomOp>().empty() ? "" : "random numbers, which depend on the row";
}

LogicalResult RowsOp::verify() {
  if (failed(verifySchedule(*this, "")) ||
      failed(verifyAccesses(*this, getAccesses(), getInputs().size(), "operands")) ||
      failed(verifyAccesses(*this, getResultAccesses(), getOutputs().size(), "results"))) {
    return failure();
  }
  if (failed(verifyBody(*this, getBody(), getInputs().size(), getOutputs().size(), "rows"))) {
    return failure();
  }
  for (unsigned i = 0; i < getInputs().size(); ++i) {
    if (failed(detail::verifyIndexOperand(*this, i))) {
      return failure();
    }
  }
  Block &body = getBody().front();
  if (failed(verifySchedule(*this, findObstacle(*this)))) {
    return failure();
  }
  return failure(failed(verifyBodyTypes(*this, getInputs(), body.getArguments())) ||
                 failed(verifyBodyTypes(*this, getOutputs(), body.getTerminator()->getOperands())));
}

static StringRef findObstacle(ContractOp op) {
  if (op.getByInput()) {
    return "a contraction by input";
  }
  bool draws = !op.getEpilogue().empty() && !op.getEpilogue().getOps<RandomOp>().empty();
  return draws ? "random numbers, which depend on the row" : "";
}

/// Verifies a contraction that rotates: the last extra operand, before scales, is a table of angles
/// for pairs of columns.
static LogicalResult verifyRotation(ContractOp op) {
  if (!op.getRotatedColumns()) {
    return success();
  }
  int64_t columns = *op.getRotatedColumns();
  size_t extras = op.getExtras().size(), scales = op.getGrouped() ? 1 : 0;
  auto table =
      extras > scales ? cast<RankedTensorType>(op.getRotary().getType()) : RankedTensorType();
  bool isTable =
      table && table.getRank() == 2 && table.getElementType().isF32() &&
      cast<AccessAttr>(op.getAccesses()[extras - scales - 1]).getKind() == AccessKind::Table;
  if (!isTable || op.getOutputs().empty()) {
    return op.emitOpError(
        "D-017: expected a result, and a last extra of f32 [T, D] with access table "
        "to rotate it by");
  }
  auto result = cast<RankedTensorType>(op.getOutputs().front().getType());
  int64_t head = table.getDimSize(1);
  if (head < 2 || head % 2 != 0 || columns < 0 || columns % head != 0 ||
      columns > result.getShape().back() || table.getDimSize(0) < op.getDomain().getPositions()) {
    return op.emitOpError("D-017: expected whole heads of an even number of columns to be rotated, "
                          "and an angle for each position, found ")
           << columns << " of " << result << " by " << table;
  }
  return success();
}

LogicalResult ContractOp::verify() {
  if (failed(verifySchedule(*this, findObstacle(*this))) ||
      failed(verifyAccesses(*this, getAccesses(), getExtras().size(), "extra operands")) ||
      failed(verifyAccesses(*this, getResultAccesses(), getOutputs().size(), "results"))) {
    return failure();
  }
  auto weight = cast<RankedTensorType>(getWeight().getType());
  int64_t inner = weight.getDimSize(getByInput() ? 0 : 1);
  if (getInner() != inner && !getGrouped()) {
    return emitOpError("D-006: expected input rows of ")
           << inner << " columns, found " << getInner();
  }
  if ((getGrouped() && failed(verifyGroups(*this))) || failed(verifyContractFactors(*this)) ||
      failed(verifyRotation(*this)) ||
      failed(verifyBody(*this, getEpilogue(), getArgumentExtras().size() + 1, getOutputs().size(),
                        "epilogue"))) {
    return failure();
  }
  Block &epilogue = getEpilogue().front();
  return failure(
      failed(verifyBodyTypes(*this, getArgumentExtras(), epilogue.getArguments().drop_front())) ||
      failed(verifyBodyTypes(*this, getOutputs(), epilogue.getTerminator()->getOperands())));
}

LogicalResult WeightGradientOp::verify() {
  if (failed(verifySchedule(*this, "a sum over rows"))) {
    return failure();
  }
  int64_t left = cast<RankedTensorType>(getLeft().getType()).getShape().back();
  int64_t right = cast<RankedTensorType>(getRight().getType()).getShape().back();
  if (failed(verifyFactors(*this, {getLeft(), getRight()})) ||
      failed(verifyF32(*this, {getInitWeight(), getInitBias(), getWeight(), getBias()}))) {
    return failure();
  }
  if (!getWeight()) {
    return success();
  }
  auto weight = cast<RankedTensorType>(getWeight().getType());
  if (weight.getRank() != 2 || weight.getDimSize(0) != left || weight.getDimSize(1) != right) {
    return emitOpError("D-007: expected a gradient of ")
           << left << "x" << right << ", found " << weight;
  }
  return success();
}

/// Verifies the operands that both ops of head and cross-entropy have.
template <typename Op> static LogicalResult verifyCrossEntropy(Op op) {
  auto getRowType = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  RankedTensorType input = getRowType(op.getInput()), weight = getRowType(op.getWeight());
  if (input.getRank() != 3 || weight.getRank() != 2 ||
      input.getDimSize(2) != weight.getDimSize(1)) {
    return op.emitOpError("D-009: expected rows [B, T, d] and weights [V, d], found ")
           << input << " and " << weight;
  }
  if (!isStorageType(getTensorElementType(op.getInput())) ||
      getTensorElementType(op.getInput()) != getTensorElementType(op.getWeight())) {
    return op.emitOpError("D-010: expected rows and weights of one type, f32 or bf16, found ")
           << input << " and " << weight;
  }
  RankedTensorType tokens = getRowType(op.getTokens());
  if (tokens.getRank() != 2 || !tokens.getElementType().isInteger(32) ||
      tokens.getDimSize(0) != input.getDimSize(0)) {
    return op.emitOpError("D-011: expected tokens of i32, one row per row of the batch, found ")
           << tokens;
  }
  if (op.getRowGradient() &&
      getRowType(op.getRowGradient()).getShape() != input.getShape().drop_back()) {
    return op.emitOpError("D-050: expected one incoming gradient per row, ")
           << input.getShape().drop_back() << ", found " << op.getRowGradient().getType();
  }
  bool isGradient = isa<CrossEntropyWeightGradientOp>(op) || op->getNumResults() > 1;
  if (StringAttr axis = op.getDomain().getAxis(); axis && isGradient && !op.getRowGradient()) {
    return op.emitOpError("D-029: expected one incoming gradient per row, as texts of the axis ")
           << axis << " have different numbers of rows, found none";
  }
  float smoothing = op.getSmoothing().convertToFloat();
  if (int64_t(op.getFirst()) < 0 || !(smoothing >= 0 && smoothing < 1)) {
    return op.emitOpError(
               "D-051: expected a first row of at least 0 and smoothing in [0, 1), found ")
           << int64_t(op.getFirst()) << " and " << smoothing;
  }
  return success();
}

LogicalResult CrossEntropyOp::verify() {
  if (failed(verifySchedule(*this, "losses")) || failed(verifyCrossEntropy(*this))) {
    return failure();
  }
  auto getTensorShape = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  if (getInputGradient() && (getTensorShape(getInputGradient()) != getTensorShape(getInput()) ||
                             !isStorageType(getTensorElementType(getInputGradient())))) {
    return emitOpError("D-012: expected a gradient of ")
           << getInput().getType() << ", found " << getInputGradient().getType();
  }
  return verifyF32(*this, {getLosses(), getLse(), getBias(), getRowGradient()});
}

LogicalResult CrossEntropyWeightGradientOp::verify() {
  if (failed(verifySchedule(*this, "a sum over rows")) || failed(verifyCrossEntropy(*this))) {
    return failure();
  }
  auto weight = cast<RankedTensorType>(getWeight().getType());
  Type expected = weight.clone(Float32Type::get(getContext()));
  if (getWeightGradient().getType() != expected) {
    return emitOpError("D-012: expected a gradient of ")
           << expected << ", found " << getWeightGradient().getType();
  }
  return verifyF32(*this, {getLse(), getBias(), getRowGradient(), getInitWeight(), getInitBias(),
                           getBiasGradient()});
}

LogicalResult ScatterRowsOp::verify() {
  if (failed(verifySchedule(*this, "a sum over rows")) ||
      failed(verifyStorage(*this, {getValues()}))) {
    return failure();
  }
  return verifyF32(*this, {getInit(), getTable()});
}

/// Verifies that the last extra operands are a table of angles (`rotary`), ranges, the keys' counts
/// and rows and a schedule, each if it is present.
template <typename Op>
static LogicalResult verifyExtras(Op op, Value rotary, Value schedule, StringRef what) {
  Value counts = op.getKeyCounts(), rows = op.getKeyRows();
  auto expected =
      RankedTensorType::get({op.getDomain().getBatch()}, IntegerType::get(op->getContext(), 64));
  OperandRange range = op.getRange();
  auto fitsRange = [&](Value end) {
    return !schedule &&
           end.getType() ==
               RankedTensorType::get({op.getDomain().getBatch(), op.getDomain().getPositions()},
                                     IntegerType::get(op->getContext(), 32));
  };
  if (!llvm::all_of(range, fitsRange)) {
    return op.emitOpError("D-082: expected ranges of one i32 per query of a domain that is not "
                          "scheduled, found ")
           << range.getTypes();
  }
  SmallVector<Value> known{rotary};
  llvm::append_range(known, range);
  known.append({counts, rows, schedule});
  llvm::erase(known, Value());
  ValueRange extras = op.getExtras(); // gradients of terms first
  bool areLast =
      known.size() <= extras.size() && llvm::equal(known, extras.take_back(known.size()));
  Type numbers = expected.clone(IntegerType::get(op->getContext(), 32));
  bool haveRows = !rows || (counts && schedule && rows.getType() == numbers);
  if (areLast && haveRows && (!counts || counts.getType() == expected)) {
    return success();
  }
  InFlightDiagnostic error = op.emitOpError("D-024: expected ")
                             << what << ", or fewer of these, as extra operands, counts of "
                             << expected << ", found ";
  llvm::interleaveComma(op.getExtras().getTypes(), error);
  return error;
}

/// Verifies that queries and outputs have the rows of the domain, and keys and values the rows of
/// theirs. Rings of a scheduled op may have any number of rows.
template <typename Op> static LogicalResult verifyDomains(Op op) {
  DomainAttr domain = op.getDomain(), keys = op.getKeys();
  bool isScheduled = domain.getScheduled();
  auto has = [&](Value tensor, DomainAttr rows) {
    auto type = cast<RankedTensorType>(tensor.getType());
    return type.getRank() == 3 && type.getDimSize(0) == rows.getBatch() &&
           (isScheduled || type.getDimSize(1) == rows.getPositions());
  };
  if (keys.getScheduled() != (isScheduled && keys == domain) ||
      keys.getBatch() != domain.getBatch() || !has(op.getQuery(), domain) ||
      !has(op.getOutput(), domain) || !has(op.getKey(), keys) || !has(op.getValue(), keys)) {
    return op.emitOpError("D-021: expected queries and outputs of ")
           << domain << " and keys and values of " << keys << ", found " << op.getQuery().getType()
           << ", " << op.getKey().getType() << " and " << op.getValue().getType();
  }
  return success();
}

/// Verifies that `group` has k rows of the type of `row`.
static LogicalResult verifyGroup(Operation *op, Value group, Value row) {
  auto rows = cast<RankedTensorType>(group.getType()), one = cast<RankedTensorType>(row.getType());
  if (rows.getRank() != 2 ||
      one != RankedTensorType::get({rows.getShape().back()}, rows.getElementType())) {
    return op->emitOpError(
               "D-023: expected a group of rows [k, d] and a row [d] of its type, found ")
           << rows << " and " << one;
  }
  return success();
}

LogicalResult ReduceGroupOp::verify() {
  if (failed(verifyGroup(*this, getRows(), getResult()))) {
    return failure();
  }
  std::string fault = findFault(getCombiner(), getTensorElementType(getRows()), getIdentity());
  return fault.empty() ? success() : emitOpError("D-070: ") << fault;
}
LogicalResult SpreadOp::verify() { return verifyGroup(*this, getRows(), getRow()); }

/// Verifies the arguments of the score: (score, p, q, head), then one per term.
template <typename Op> static LogicalResult verifyScore(Op op) {
  unsigned arguments = DistanceTerms::firstArgument + op.getTerms().arguments();
  return verifyBody(op, op.getScore(), arguments, 1, "score");
}

LogicalResult AttentionOp::verify() {
  if (getMask().getNumDims() != 2) {
    return emitOpError("D-008: expected a mask over (p, q), found ") << getMaskAttr();
  }
  if (failed(verifyExtras(*this, Value(), getSchedule(),
                          "the keys' counts, their rows, then a schedule"))) {
    return failure();
  }
  if (getSchedule() && getDomain().getFactor() < 1) {
    return emitOpError(
               "D-020: expected a scheduled domain of a scale, whose lengths masks are for, found ")
           << getDomain();
  }
  if (failed(verifySchedule(*this, getDropout().isZero() ? "" : "dropout")) ||
      failed(verifyFactors(*this, {getQuery(), getKey(), getValue()})) ||
      failed(verifyStorage(*this, {getOutput()})) || failed(verifyF32(*this, {getLse()})) ||
      failed(verifyDomains(*this)) ||
      failed(verifyTerms(*this, (getSchedule() ? 1 : 0) + countSelections()))) {
    return failure();
  }
  return verifyScore(*this);
}

/// Verifies one gradient per sequence, with the rows of the sequence.
static LogicalResult verifyGradients(AttentionBackwardOp op) {
  size_t count = fitsTerms(op) ? op.getSourceGradients().size() : 0;
  auto getValueRows = [](Value tensor) {
    return cast<RankedTensorType>(tensor.getType()).getShape().drop_back();
  };
  bool fits = count >= 1 && count <= 3 && (count > 1 || op.getKeys() == op.getDomain());
  for (unsigned operand = 0; fits && operand < 3; ++operand) {
    Value gradient = op.getSourceGradients()[getGradientIndex(operand, count)];
    fits = cast<RankedTensorType>(gradient.getType()).getRank() == 3 &&
           getValueRows(gradient) == getValueRows(op->getOperand(operand));
  }
  if (fits) {
    return success();
  }
  InFlightDiagnostic error =
      op.emitOpError("D-022: expected a gradient of queries, keys and values, or one of queries "
                     "and one or two of keys and values, of as many rows as queries, keys and "
                     "values, then the gradients of the terms, found ");
  llvm::interleaveComma(op.getGradients().getTypes(), error);
  return error;
}

LogicalResult AttentionBackwardOp::verify() {
  if (failed(verifySchedule(*this, "a backward pass")) ||
      failed(
          verifyExtras(*this, getRotary(), Value(), "a table of angles, then the keys' counts"))) {
    return failure();
  }
  if (getMask().getNumDims() != 2) {
    return emitOpError("D-008: expected a mask over (p, q), found ") << getMaskAttr();
  }
  if (failed(verifyFactors(*this, {getQuery(), getKey(), getValue(), getOutputGradient()})) ||
      failed(verifyStorage(*this, {getOutput()})) || failed(verifyStorage(*this, getGradients())) ||
      failed(verifyF32(*this, {getRotary(), getLse()})) || failed(verifyDomains(*this)) ||
      failed(verifyTerms(*this, (getRotary() ? 1 : 0) + countSelections())) ||
      failed(verifyGradients(*this)) || failed(verifyScore(*this))) {
    return failure();
  }
  auto head = static_cast<int64_t>(getHeadSize());
  auto table = getRotary() ? cast<RankedTensorType>(getRotary().getType()) : RankedTensorType();
  if (table &&
      (head < 2 || head % 2 != 0 || table.getRank() != 2 || table.getDimSize(1) != head ||
       table.getDimSize(0) < std::max(getDomain().getPositions(), getKeys().getPositions()))) {
    return emitOpError("D-017: expected heads of an even number of columns to be rotated back, and "
                       "an angle for each position, found heads of ")
           << head << " by " << table;
  }
  unsigned terms = getTerms().arguments();
  return verifyBody(*this, getScoreGradient(), DistanceTerms::firstArgument + terms + 1, 1 + terms,
                    "derivative");
}
