// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the model dialect: registration, verifiers, sizes of sequences.
#include "Scales/Windows.h"
#include "sluice/Dialect/Sluice/Gradients.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Recurrence.h"
#include "sluice/Dialect/Sluice/Step.h"
#include "sluice/Support/Limits.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;

#include "sluice/Dialect/Sluice/SluiceDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "sluice/Dialect/Sluice/SluiceTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "sluice/Dialect/Sluice/SluiceAttributes.cpp.inc"

#include "sluice/Dialect/Sluice/SluiceEnums.cpp.inc"

#include "sluice/Dialect/Sluice/SluiceInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/SluiceOps.cpp.inc"

void SluiceDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "sluice/Dialect/Sluice/SluiceAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "sluice/Dialect/Sluice/SluiceTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "sluice/Dialect/Sluice/SluiceOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "sluice/Dialect/Sluice/StepOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "sluice/Dialect/Sluice/HashedOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "sluice/Dialect/Sluice/RecurrenceOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "sluice/Dialect/Sluice/LabelsOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "sluice/Dialect/Sluice/GradientsOps.cpp.inc"
      >();
}

static ModuleOp getModule(Operation *op) {
  return isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
}

int64_t sluice::getBatch(Operation *op) {
  auto func = isa<func::FuncOp>(op) ? cast<func::FuncOp>(op) : op->getParentOfType<func::FuncOp>();
  auto own = func ? getFact<SluiceDialect::BatchAttrHelper>(func) : IntegerAttr();
  return (own ? own : getFact<SluiceDialect::BatchAttrHelper>(getModule(op))).getInt();
}

int64_t sluice::getContext(Operation *op) {
  return getFact<SluiceDialect::ContextAttrHelper>(getModule(op)).getInt();
}

int64_t sluice::getFactor(Operation *op, SequenceType type) {
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, type.getScale());
  assert(scale && "verified: every sequence's scale exists");
  return scale.getFactor();
}

static AxisOp findSequenceAxis(Operation *op, SequenceType type) {
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, type.getScale());
  return scale ? SymbolTable::lookupNearestSymbolFrom<AxisOp>(op, scale.getAxisAttr()) : AxisOp();
}

AxisOp sluice::getRootAxis(AxisOp axis) {
  for (int depth = 0; axis && axis.getSegmentsAttr(); ++depth) {
    constexpr int deepest = 16;
    auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(axis, axis.getSegmentsAttr());
    axis = scale && depth < deepest
               ? SymbolTable::lookupNearestSymbolFrom<AxisOp>(axis, scale.getAxisAttr())
               : AxisOp();
  }
  return axis;
}

bool sluice::isGiven(Operation *op, SequenceType type) {
  AxisOp root = getRootAxis(findSequenceAxis(op, type));
  return root && root.getCapacity();
}

bool sluice::isSegmented(Operation *op, SequenceType type) {
  AxisOp axis = findSequenceAxis(op, type);
  return axis && axis.getSegments();
}

std::string sluice::getAxisName(Operation *op, SequenceType type) {
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, type.getScale());
  return scale ? scale.getAxis().str() : "";
}

int64_t sluice::getDomainFactor(Operation *op, SequenceType type, StringRef axis) {
  bool isOfTokens = !isSegmented(op, type) && !isGiven(op, type);
  bool isCounted = axis.empty() ? isOfTokens : getAxisName(op, type) == axis;
  return isCounted ? getFactor(op, type) : 0;
}

std::string sluice::paddingScalar(int64_t first) {
  return first == 0 ? "scalar:padding" : "scalar:padding." + std::to_string(first);
}

std::string sluice::givenPlace(Operation *op, StringRef name) {
  auto symbol = op->getParentOfType<SymbolOpInterface>();
  if (auto function = dyn_cast<SymbolOpInterface>(op)) {
    symbol = function;
  }
  StringRef scope = symbol ? symbol.getName() : "";
  StringRef text = scope == "prefill" ? "prompt." : scope == "step" ? "text." : "";
  return ("input:" + text + name).str();
}

std::optional<InputTokens> sluice::findInputTokens(BlockArgument tokens) {
  Block *entry = tokens.getOwner();
  AxisOp axis = findSequenceAxis(entry->getParentOp(), cast<SequenceType>(tokens.getType()));
  if (!axis || !axis.getCapacity()) {
    return std::nullopt;
  }
  auto before = entry->getArguments().take_front(tokens.getArgNumber());
  auto index = static_cast<size_t>(llvm::count_if(
      before, [&](BlockArgument other) { return other.getType() == tokens.getType(); }));
  if (index == 0) {
    return InputTokens{axis.getSymName(), static_cast<int64_t>(*axis.getVocabulary())};
  }
  if (index > axis.listStreams().size()) {
    return std::nullopt;
  }
  NamedAttribute stream = axis.listStreams()[index - 1];
  return InputTokens{stream.getName(), cast<IntegerAttr>(stream.getValue()).getInt()};
}

std::string sluice::countsName(StringRef axis) { return (axis + ".count").str(); }

int64_t sluice::getPositions(Operation *op, SequenceType type) {
  AxisOp axis = findSequenceAxis(op, type);
  int64_t factor = getFactor(op, type);
  auto rows = axis && axis.getCapacity() ? static_cast<int64_t>(*axis.getCapacity())
              : axis && axis.getRows()   ? static_cast<int64_t>(*axis.getRows())
                                         : getContext(op);
  return factor == 0 ? 1 : (rows + factor - 1) / factor;
}

Value sluice::convertSequence(OpBuilder &b, Location loc, Value sequence, Type element) {
  auto type = cast<SequenceType>(sequence.getType());
  if (type.getElement() == element) {
    return sequence;
  }
  auto result = SequenceType::get(b.getContext(), type.getScale(), type.getWidth(), element);
  auto map = MapOp::create(b, loc, result, ValueRange{sequence});
  Block &block = map.getBody().emplaceBlock();
  Value number = block.addArgument(b.getF32Type(), loc);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&block);
  YieldOp::create(b, loc, ValueRange{number});
  return map.getResult();
}

Type sluice::getComputeType(Value weight) {
  return cast<RankedTensorType>(weight.getType()).getElementType();
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult AxisOp::verify() {
  if (getCapacity().has_value() != getVocabulary().has_value()) {
    return emitOpError("S-042: expected a capacity and a vocabulary, or neither, found one");
  }
  auto rows = static_cast<int64_t>(getRows().value_or(1)), least = static_cast<int64_t>(getLeast());
  if (getSegments().has_value() != getRows().has_value() || (getSegments() && getCapacity())) {
    return emitOpError("S-058: expected segments of a scale with a capacity, and none where the "
                       "axis is given, found otherwise");
  }
  if (rows < 1 || rows > mostSize || least < 1) {
    return emitOpError("S-058: expected a capacity of segments of at least 1 and below 2^31, and a "
                       "least distance of at least 1, found ")
           << rows << " and " << least;
  }
  for (NamedAttribute stream : listStreams()) {
    auto vocabulary = dyn_cast<IntegerAttr>(stream.getValue());
    if (!getCapacity() || !vocabulary || !vocabulary.getType().isInteger(64) ||
        vocabulary.getInt() < 1) {
      return emitOpError("S-151: expected streams of a given axis with a vocabulary of at least 1, "
                         "an i64, each, found otherwise for ")
             << stream.getName();
    }
  }
  return success();
}

LogicalResult ScaleOp::verify() {
  // Factor 0 is the scale of one position, on which `sluice.last` has its result.
  if (static_cast<int64_t>(getFactor()) < 0) {
    return emitOpError("S-001: expected a factor of at least 1, found ")
           << static_cast<int64_t>(getFactor());
  }
  return success();
}

LogicalResult ReadOp::verify() {
  Type element = cast<RankedTensorType>(getValue().getType()).getElementType();
  if (!dispatch::isStorageType(element)) {
    return emitOpError("S-025: expected a parameter to be read as f32 or bf16, found ") << element;
  }
  return success();
}

LogicalResult MapOp::verify() {
  auto result = getResult().getType();
  for (Value input : getInputs()) {
    auto type = cast<SequenceType>(input.getType());
    if (type.getScale() != result.getScale()) {
      InFlightDiagnostic diagnostic = emitOpError("S-002: sequences of different scales meet: ")
                                      << type.getScale() << " and " << result.getScale();
      diagnostic.attachNote(input.getLoc())
          << "the operand on scale " << type.getScale() << " comes from here";
      return diagnostic;
    }
    if (type.getWidth() != result.getWidth()) {
      return emitOpError("S-003: expected operands of width ")
             << result.getWidth() << ", found " << type.getWidth();
    }
  }
  if (getBody().getNumArguments() != getInputs().size()) {
    return emitOpError("S-004: expected ")
           << getInputs().size() << " arguments of the body, found " << getBody().getNumArguments();
  }
  auto isWhole = [](Value sequence) {
    return cast<SequenceType>(sequence.getType()).getElement().isInteger();
  };
  for (auto [input, argument] : llvm::zip_equal(getInputs(), getBody().getArguments())) {
    if (isWhole(input) != argument.getType().isInteger()) {
      return emitOpError("S-125: expected an argument of i32 for a sequence of i32, and of f32 for "
                         "another, found ")
             << argument.getType() << " for " << input.getType();
    }
  }
  Type yielded = getBody().front().getTerminator()->getOperand(0).getType();
  if (isWhole(getResult()) != yielded.isInteger()) {
    return emitOpError(
               "S-125: expected a yield of i32 for a result of i32, and of f32 for another, "
               "found ")
           << yielded << " for " << result;
  }
  return success();
}

LogicalResult LinearOp::verify() {
  auto weight = cast<RankedTensorType>(getWeight().getType());
  if (weight.getRank() != 2 || weight.getDimSize(1) != getInput().getType().getWidth()) {
    return emitOpError("S-005: expected a weight of ")
           << getInput().getType().getWidth() << " columns, found " << weight;
  }
  if (weight.getDimSize(0) != getResult().getType().getWidth()) {
    return emitOpError("S-006: expected a result of width ")
           << weight.getDimSize(0) << ", found " << getResult().getType().getWidth();
  }
  return success();
}

/// Verifies that sequences are on one scale.
static LogicalResult verifyOneScale(Operation *op, ValueRange sequences, StringRef what) {
  auto findScale = [](Value sequence) { return cast<SequenceType>(sequence.getType()).getScale(); };
  for (Value sequence : sequences) {
    if (findScale(sequence) != findScale(sequences.front())) {
      return op->emitOpError("S-035: expected ")
             << what << " on one scale, found " << findScale(sequences.front()) << " and "
             << findScale(sequence);
    }
  }
  return success();
}

static int64_t getScaleFactor(Operation *op, Value sequence) {
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(
      op, cast<SequenceType>(sequence.getType()).getScale());
  return scale ? static_cast<int64_t>(scale.getFactor()) : 0;
}

/// Verifies that tables of both directions have a middle row.
template <typename Op>
static LogicalResult verifyCentered(Op op, const dispatch::DistanceTerms &terms) {
  auto isOdd = [](Value table) {
    return !table || cast<RankedTensorType>(table.getType()).getDimSize(0) % 2 == 1;
  };
  if (!isOdd(terms.bias) || (terms.rows && !terms.hasRowTable()) || !isOdd(terms.rows)) {
    return op.emitOpError("S-150: expected tables of an odd number of rows with \"centered\"");
  }
  return success();
}

/// Verifies that a step of distance divides both the query's and the key's factor, and that no pair
/// of the mask has a distance below 0. verifyModel verifies distances of tables of both directions.
template <typename Op> static LogicalResult verifyDistance(Op op) {
  auto distance = dispatch::Distance::of(op.getDistance());
  if (!distance) {
    return op.emitOpError("S-080: expected a distance a * p - b * q + c with a and b of at least "
                          "1, found ")
           << op.getDistanceAttr();
  }
  auto terms = op.getTerms();
  int64_t query = getScaleFactor(op, op.getQuery()), key = getScaleFactor(op, op.getKey());
  bool isSequence = terms.rows && !terms.hasRowTable();
  int64_t step = isSequence ? getScaleFactor(op, terms.rows) : query / distance->query;
  if (step * distance->query != query || step * distance->key != key) {
    return op.emitOpError("S-081: expected queries and keys whose factors are ")
           << distance->query << " and " << distance->key
           << " times that of a step of distance, found " << query << ", " << key << " and "
           << step;
  }
  if (terms.isCentered) {
    return verifyCentered(op, terms);
  }
  if (terms.hasRowTable()) {
    return op.emitOpError("S-150: expected a table of rows by distance only with \"centered\"");
  }
  AffineExpr p = getAffineDimExpr(0, op.getContext());
  AffineExpr latest = distance->greatest(p).floorDiv(distance->key);
  bool isEarlier = llvm::any_of(solveMask(op.getMask()).upper, [&](AffineExpr bound) {
    auto ahead = dyn_cast<AffineConstantExpr>(simplifyAffineExpr(bound - latest, 1, 1));
    return ahead && ahead.getValue() <= 0;
  });
  if (!isEarlier) {
    return op.emitOpError("S-046: expected a mask that requires ")
           << (*distance == dispatch::Distance() ? "q <= p" : "a distance of at least 0")
           << " where scores have terms by distance, found " << op.getMaskAttr();
  }
  return success();
}

/// Verifies the operands of relative position terms: sequences before tables, with one column per
/// column of the heads.
template <typename Op> static LogicalResult verifyTerms(Op op) {
  auto isTable = dispatch::DistanceTerms::isTable;
  OperandRange range = op.getRange(), extras = op.getTermsAndRotary();
  auto fitsRange = [&](Value end) {
    auto type = dyn_cast<SequenceType>(end.getType());
    return type && type.getElement().isInteger(32) && type.getWidth() == 0 &&
           type.getScale() == op.getQuery().getType().getScale();
  };
  if (!range.empty() && (range.size() != 2 || !llvm::all_of(range, fitsRange) ||
                         op.getKey().getType().getScale() != op.getQuery().getType().getScale() ||
                         !isGiven(op, op.getQuery().getType()))) {
    InFlightDiagnostic error = op.emitOpError("S-169: expected ranges of one i32 per position of "
                                              "queries and keys, on a given axis, found ");
    llvm::interleaveComma(op.getExtras().getTypes(), error);
    return error;
  }
  size_t tables = llvm::count_if(extras, isTable), all = extras.size();
  size_t bias = op.getDistanceBias() ? 1 : 0;
  size_t byDistance = bias + (all == tables + 1 ? 1 : 0); // Qv alone is followed by a table of rows
  bool isOrdered = llvm::all_of(extras.take_back(tables), isTable) && tables >= byDistance &&
                   tables <= byDistance + 1 && all <= tables + 2 &&
                   llvm::all_of(extras.drop_back(tables),
                                [](Value extra) { return isa<SequenceType>(extra.getType()); });
  if (!isOrdered) {
    InFlightDiagnostic error =
        op.emitOpError(
            "S-044: expected, after the sequences, none or two of terms by distance, then ")
        << (bias ? "a table of biases and at most one" : "at most one table,")
        << " of angles, found ";
    llvm::interleaveComma(op.getExtras().getTypes(), error);
    return error;
  }
  auto terms = op.getTerms();
  if (terms.count() == 0) {
    return success();
  }
  auto getSequenceWidth = [](Value v) { return cast<SequenceType>(v.getType()).getWidth(); };
  auto heads = static_cast<int64_t>(op.getHeads());
  int64_t columns = heads * static_cast<int64_t>(op.getHeadSize());
  auto table = terms.bias ? cast<RankedTensorType>(terms.bias.getType()) : RankedTensorType();
  auto fitsRows = [&] {
    auto rows = dyn_cast<RankedTensorType>(terms.rows.getType());
    return getSequenceWidth(terms.query) == columns &&
           (rows ? rows.getRank() == 2 &&
                       rows.getDimSize(1) == static_cast<int64_t>(op.getHeadSize())
                 : getSequenceWidth(terms.rows) == columns);
  };
  if ((terms.rows && !fitsRows()) || (table && (table.getRank() != 2 || table.getDimSize(0) < 1 ||
                                                table.getDimSize(1) != heads))) {
    InFlightDiagnostic error = op.emitOpError("S-045: expected terms by distance of ")
                               << columns << " columns per row, or of " << heads
                               << " numbers per distance, found ";
    llvm::interleaveComma(op.getExtras().getTypes(), error);
    return error;
  }
  if (terms.rows && failed(verifyOneScale(op, {op.getQuery(), terms.query}, "queries"))) {
    return failure();
  }
  return verifyDistance(op);
}

/// Verifies the declared arguments of a region: a score, its place, and each term; a derivative has
/// a gradient after them.
template <typename Op>
static LogicalResult verifyScore(Op op, Region &region, bool isDerivative = false) {
  Block &score = region.front();
  dispatch::DistanceTerms terms = op.getTerms();
  unsigned expected = terms.firstArgument + terms.arguments() + (isDerivative ? 1 : 0);
  auto isNumber = [&](BlockArgument argument) {
    bool isPlace = argument.getArgNumber() >= 1 && argument.getArgNumber() <= 3;
    return isPlace ? argument.getType().isInteger(32) : argument.getType().isF32();
  };
  if (score.getNumArguments() == expected && llvm::all_of(score.getArguments(), isNumber)) {
    return success();
  }
  InFlightDiagnostic error = op.emitOpError("S-009: expected a ")
                             << (isDerivative ? "derivative" : "score")
                             << " region over (score, p, q, head" << (terms.rows ? ", product" : "")
                             << (terms.bias ? ", bias" : "") << (isDerivative ? ", gradient" : "")
                             << "), found " << score.getNumArguments() << " arguments";
  if (score.getNumArguments() == expected) {
    error << " of ";
    llvm::interleaveComma(score.getArgumentTypes(), error);
  }
  return error;
}

LogicalResult AttentionOp::verify() {
  if (getMask().getNumDims() != 2 || getMask().getNumSymbols() != 1) {
    return emitOpError("S-007: expected a mask over (p, q) with symbol n, found ") << getMaskAttr();
  }
  auto count = [](uint64_t value) { return static_cast<int64_t>(value); };
  if (count(getHeads()) < 1 || count(getKvHeads()) < 1 || count(getHeadSize()) < 1) {
    return emitOpError(
               "S-013: expected heads, key/value heads and a head size of at least 1, found ")
           << count(getHeads()) << ", " << count(getKvHeads()) << " and " << count(getHeadSize());
  }
  if (getHeads() % getKvHeads() != 0) {
    return emitOpError("S-008: expected heads divisible by key/value heads, found ")
           << getHeads() << " and " << getKvHeads();
  }
  auto fits = [&](uint64_t column, uint64_t heads, SequenceType type) {
    return count(column) >= 0 && count(column) <= type.getWidth() &&
           count(heads) <= (type.getWidth() - count(column)) / count(getHeadSize());
  };
  if (!fits(getQueryColumn(), getHeads(), getQuery().getType()) ||
      !fits(getKeyColumn(), getKvHeads(), getKey().getType()) ||
      !fits(getValueColumn(), getKvHeads(), getValue().getType())) {
    return emitOpError("S-014: expected the columns of queries, keys and values inside their rows");
  }
  if (failed(verifyTerms(*this))) {
    return failure();
  }
  auto table = getRotary() ? cast<RankedTensorType>(getRotary().getType()) : RankedTensorType();
  if (table && (getHeadSize() % 2 != 0 || table.getRank() != 2 ||
                table.getDimSize(1) != count(getHeadSize()))) {
    return emitOpError("S-027: expected heads of an even number of columns, and a table of as many "
                       "cosines and sines a position, found heads of ")
           << count(getHeadSize()) << " and " << table;
  }
  if (failed(verifyOneScale(*this, {getKey(), getValue()}, "keys and values")) ||
      failed(verifyOneScale(*this, {getQuery(), getOutput(), getLse()}, "queries and outputs"))) {
    return failure();
  }
  return verifyScore(*this, getScore());
}

/// Verifies that a gradient has the scale and the width of its value.
LogicalResult AttentionBackwardOp::verify() {
  if (failed(verifyTerms(*this)) || failed(verifyScore(*this, getScore())) ||
      failed(verifyScore(*this, getScoreGradient(), /*isDerivative=*/true))) {
    return failure();
  }
  auto terms = getTerms();
  size_t all = getGradients().size(), count = all - std::min(all, terms.count());
  if (count < 1 || count > 3) {
    return emitOpError("S-036: expected one, two or three gradients, and one per term, found ")
           << all;
  }
  for (unsigned operand = 0; operand < 3; ++operand) {
    Value gradient = getGradients()[dispatch::getGradientIndex(operand, count)];
    if (!isa<SequenceType>(gradient.getType())) {
      return emitOpError("S-036: expected the gradient of a sequence, found ")
             << gradient.getType();
    }
    auto found = cast<SequenceType>(gradient.getType());
    auto expected = cast<SequenceType>(getOperand(operand).getType());
    if (found.getScale() != expected.getScale() || found.getWidth() != expected.getWidth()) {
      return emitOpError("S-036: expected a gradient of ") << expected << ", found " << found;
    }
  }
  auto ofTerms = getGradients().take_back(terms.count());
  for (auto [gradient, term] : llvm::zip_equal(ofTerms, getExtras().take_front(terms.count()))) {
    auto found = dyn_cast<SequenceType>(gradient.getType());
    auto expected = dyn_cast<SequenceType>(term.getType());
    bool fits =
        found && expected
            ? found.getScale() == expected.getScale() && found.getWidth() == expected.getWidth()
            : isa<RankedTensorType>(term.getType()) &&
                  gradient.getType() ==
                      cast<RankedTensorType>(term.getType()).clone(Float32Type::get(getContext()));
    if (!fits) {
      return emitOpError("S-036: expected a gradient of ")
             << term.getType() << ", found " << gradient.getType();
    }
  }
  return success();
}

LogicalResult UpsampleOp::verify() {
  return facts::verifyScales(*this, getResult().getType(), getInput().getType(), getFactor());
}
LogicalResult FoldOp::verify() {
  if (failed(facts::verifyWindow(*this, getRowGroup()))) {
    return failure();
  }
  return facts::verifyScales(*this, getInput().getType(), getResult().getType(), getFactor(),
                             getRowGroup().window);
}
LogicalResult UnfoldOp::verify() {
  return facts::verifyScales(*this, getResult().getType(), getInput().getType(), getFactor(),
                             getFactor());
}
