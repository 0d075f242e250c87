// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "AttentionMap.h"

#include "CompileInput.h"
#include "Failures.h"
#include "RowLogits.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Support/Text.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::driver;

namespace {

/// The attention ops of a layer.
struct LayerAttention {
  AttentionOp rows, words; ///< `words` is null unless the layer attends over rows and words
  Operation *pooled;       ///< computes the values of `words`
  Value spread, half;      ///< the result of `words` for each row, and half its sum with `rows`
};

} // namespace

/// Returns the only user of a value with one of the types, or null.
template <typename... Ops> static Operation *findUser(Value value) {
  for (Operation *user : value.getUsers()) {
    if (isa<Ops...>(user)) {
      return user;
    }
  }
  return nullptr;
}

/// Returns the name by which a user selects an attention op: its stage, or its part of a stage that
/// has several.
static std::string getMapName(AttentionOp op) {
  OriginAttr origin = getOrigin(op);
  return origin ? origin.getName() : "";
}

/// Lists the names of a function's attention ops.
static std::string listMaps(func::FuncOp predict) {
  constexpr size_t most = 12;
  std::vector<std::string> names;
  for (AttentionOp op : predict.getOps<AttentionOp>()) {
    std::string stage = getOriginStage(op).str();
    bool isNew = !llvm::is_contained(names, stage);
    if (isNew && !stage.empty()) {
      names.push_back(stage);
    }
  }
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more"
                             : text;
}

/// Fills in the ops of attention over rows and words; false if the two ops are not of this form.
static bool findWords(AttentionOp rows, AttentionOp words, LayerAttention &found) {
  Operation *pooled = words.getValue().getDefiningOp(),
            *spread = findUser<SpreadSegmentsOp, ResampleOp>(words.getOutput()),
            *half = findUser<MapOp>(rows.getOutput());
  if (!isa_and_present<PoolSegmentsOp, ResampleOp>(pooled) ||
      pooled->getOperand(0) != rows.getValue() || !spread || !half) {
    return false;
  }
  found = {rows, words, pooled, spread->getResult(0), half->getResult(0)};
  return true;
}

/// Finds the attention ops of a layer. Returns a message if there is not exactly one map.
static std::string findAttention(func::FuncOp predict, const AttentionRequest &request,
                                 LayerAttention &found) {
  SmallVector<AttentionOp> ops;
  for (AttentionOp op : predict.getOps<AttentionOp>()) {
    OriginAttr origin = getOrigin(op);
    if (origin && !request.layer.empty() && origin.isWithin(request.layer)) {
      ops.push_back(op);
    }
  }
  if (ops.empty()) {
    std::string all = listMaps(predict);
    return "--layer: expected a stage with softmax attention" +
           (all.empty() ? ", which this model lacks" : " (" + all + ")") + ", found " +
           (request.layer.empty() ? "none" : quote(request.layer)) +
           (all.empty() ? "" : "; name one of these");
  }
  found.rows = ops.front();
  bool hasWords = ops.size() == 2 && findWords(ops[0], ops[1], found);
  if (ops.size() > 1 && !hasWords) {
    std::string names;
    for (AttentionOp op : ops) {
      names += (names.empty() ? "" : ", ") + getMapName(op);
    }
    return "--layer: expected one attention, found " + std::to_string(ops.size()) + " in " +
           quote(request.layer) + " (" + names + "); name one of these";
  }
  if (!request.part.empty() && !hasWords) {
    return "--part: expected a layer with attention over rows and words, found " +
           quote(request.layer) + "; leave --part out";
  }
  return "";
}

static AttentionFacts::MapSide describeSide(func::FuncOp predict, SequenceType type) {
  AttentionFacts::MapSide side;
  side.factor = getFactor(predict, type);
  side.capacity = getPositions(predict, type);
  if (isSegmented(predict, type)) {
    side.axis = AttentionFacts::MapSide::Axis::segments;
  } else if (isGiven(predict, type)) {
    side.axis = AttentionFacts::MapSide::Axis::input;
  }
  if (side.axis != AttentionFacts::MapSide::Axis::tokens) {
    side.name = getAxisName(predict, type);
  }
  return side;
}

/// Adds a parameter, zero at first, and returns its value before `op`.
static Value createTable(ModuleOp module, Operation *op, StringRef name, ArrayRef<int64_t> shape,
                         Type element) {
  OpBuilder b(module.getContext());
  b.setInsertionPointToStart(module.getBody());
  for (Operation &each : *module.getBody()) {
    if (isa<ParameterOp>(each)) { // tables are the last parameters
      b.setInsertionPointAfter(&each);
    }
  }
  ParameterOp::create(b, op->getLoc(), name, RankedTensorType::get(shape, b.getF32Type()),
                      b.getStrArrayAttr({name}), ArrayRef<int64_t>(shape.front()), "zeros",
                      llvm::APFloat(0.0), llvm::APFloat(10000.0), /*decay=*/false,
                      /*frozen=*/false, /*stride=*/1, DenseI64ArrayAttr());
  b.setInsertionPoint(op);
  return ReadOp::create(b, op->getLoc(), RankedTensorType::get(shape, element), name);
}

std::string driver::returnAttention(ModuleOp module, const AttentionRequest &request,
                                    AttentionFacts &facts) {
  auto predict = module.lookupSymbol<func::FuncOp>("predict");
  if (!predict) {
    return "--layer: expected a model that predicts, found none";
  }
  LayerAttention found;
  std::string mistake = findAttention(predict, request, found);
  if (!mistake.empty()) {
    return mistake;
  }
  AttentionOp op = found.rows;
  auto values = cast<SequenceType>(op.getValue().getType());
  auto heads = static_cast<int64_t>(op.getHeads()),
       keyHeads = static_cast<int64_t>(op.getKvHeads()),
       size = static_cast<int64_t>(op.getHeadSize()), width = keyHeads * size;
  facts = {describeSide(predict, cast<SequenceType>(op.getOutput().getType())),
           describeSide(predict, values), heads, keyHeads, size};

  OpBuilder b(module.getContext());
  setFact<SluiceDialect::BatchAttrHelper>(module, b.getI64IntegerAttr(1));
  Value table = createTable(module, op, mapKeysName, {facts.keys.capacity, width}, b.getF32Type());
  b.setInsertionPoint(op);
  auto type = SequenceType::get(b.getContext(), values.getScale(), width, values.getElement());
  Value ones = PositionOp::create(b, op.getLoc(), type, table);
  op.getValueMutable().assign(ones);
  op.setValueColumn(0);
  if (found.words) {
    found.pooled->setOperand(0, ones);
  }

  Value map = !found.words              ? op.getOutput()
              : request.part == "rows"  ? op.getOutput()
              : request.part == "words" ? found.spread
                                        : found.half;
  auto rows = cast<SequenceType>(map.getType());
  Operation *last = predict.getBody().front().getTerminator();
  Value columns =
      createTable(module, last, mapColumnsName, {size, heads * size}, rows.getElement());
  b.setInsertionPoint(last);
  auto result = SequenceType::get(b.getContext(), rows.getScale(), size, b.getF32Type());
  returnRows(predict, LinearOp::create(b, op.getLoc(), result, map, columns, Value()));
  return "";
}

Outcome driver::describeAttention(const CompileRequest &request, AttentionFacts &facts) {
  return explainFailures([&] {
    MLIRContext context(MLIRContext::Threading::DISABLED);
    CompileInput input;
    if (auto outcome = readInput(request, {}, context, input)) {
      return *outcome;
    }
    std::string mistake =
        returnAttention(*input.variants.front().module, *request.attention, facts);
    return mistake.empty() ? Outcome() : badInput(mistake);
  });
}
