// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the code around the model: outputs, gradient norm, schedule, optimizer, initialization.
#include "RowsBuilder.h"
#include "sluice/Dialect/Plan/Names.h"
#include "sluice/Transforms/Levels.h"
#include "sluice/Transforms/ParameterGroups.h"
#include "sluice/Transforms/ParameterLayout.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <numbers>

namespace sluice {
#define GEN_PASS_DEF_BUILDENTRIES
#include "sluice/Transforms/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;
using dispatch::AccessAttr;
using dispatch::AccessKind;

namespace {

/// Constants of Adam and of the schedule, from the module attribute `sluice.training`.
struct Training {
  explicit Training(ModuleOp module)
      : attributes(getFact<SluiceDialect::TrainingAttrHelper>(module)) {}
  double number(StringRef name) const {
    return attributes.getAs<FloatAttr>(name).getValueAsDouble();
  }
  StringRef text(StringRef name) const { return attributes.getAs<StringAttr>(name).getValue(); }
  DictionaryAttr attributes;
};

class EntryBuilder {
public:
  explicit EntryBuilder(ModuleOp module)
      : module(module), layout(module), training(module), b(module.getContext()),
        loc(module.getLoc()), f32(b.getF32Type()),
        row(RankedTensorType::get({flatRowElements}, f32)),
        flat(RankedTensorType::get({layout.rows, flatRowElements}, f32)),
        flatCopy(flat.clone(b.getBF16Type())), hasCopies(readsCopies(module)),
        gradients(batchesOfUpdate(module) > 1 ? "flat:gradient_sums" : "flat:gradients"),
        flatDomain(dispatch::DomainAttr::get(b.getContext(), 1, layout.rows, 0)),
        single(dispatch::DomainAttr::get(b.getContext(), 1, 1, 0)) {}

  void closeLosses(func::FuncOp func);
  void closePredict(func::FuncOp func);
  /// Builds @accumulate, which adds the gradients and losses of a batch to the sums over earlier
  /// batches, if an update has several batches.
  void buildAccumulate();
  void buildUpdate();
  void buildInitialize();
  /// Builds @prepare, which converts the parameters to the compute copies, if there are any.
  void buildPrepare();

private:
  static bool readsCopies(ModuleOp module);

  /// Creates the function of an entry, where the next ops are inserted.
  void beginEntry(StringRef name);
  Value bind(StringRef place, Type type) { return plan::BindOp::create(b, loc, type, place); }
  void store(StringRef place, Value value) { plan::StoreOp::create(b, loc, place, value); }
  Value buildMeans(RowsBuilder &rows, Value mean);
  Value schedule(RowsBuilder &rows, Value step);
  Value cosine(RowsBuilder &rows, Value step, double begin, double length, double from, double to);
  void accumulateLosses();
  void buildScalars(Value squares);
  std::pair<Value, Value> buildGroups(RowsBuilder &rows, Value rate, Value decay);
  void buildAdam();
  void storeParameters(dispatch::RowsOp op);

  ModuleOp module;
  ParameterLayout layout;
  Training training;
  OpBuilder b;
  Location loc;
  Type f32;
  RankedTensorType row, flat, flatCopy;
  bool hasCopies;      ///< kernels read bf16 weights, rounded once per step
  StringRef gradients; ///< place of the gradients that the optimizer reads
  dispatch::DomainAttr flatDomain, single;
};

/// Stores the losses of rows as outputs of the entry: `losses`, then `losses.1` and so on.
void EntryBuilder::closeLosses(func::FuncOp func) {
  Operation *terminator = func.getBody().front().getTerminator();
  b.setInsertionPoint(terminator);
  for (auto [i, losses] : llvm::enumerate(terminator->getOperands())) {
    store("output:" + plan::lossesName(i), losses);
  }
  terminator->setOperands({});
  func.setType(b.getFunctionType({}, {}));
}

void EntryBuilder::closePredict(func::FuncOp func) {
  Operation *terminator = func.getBody().front().getTerminator();
  b.setInsertionPoint(terminator);
  store(func.getSymName() == "step" ? "output:next_logits" : "output:logits",
        terminator->getOperand(0));
  terminator->setOperands({});
  func.setType(b.getFunctionType({}, {}));
}

void EntryBuilder::beginEntry(StringRef name) {
  b.setInsertionPointToEnd(module.getBody());
  auto func = func::FuncOp::create(b, loc, name, b.getFunctionType({}, {}));
  b.setInsertionPointToStart(func.addEntryBlock());
  b.setInsertionPoint(func::ReturnOp::create(b, loc));
}

/// Computes half a cosine wave from `from` at step `begin` to `to` at step `begin + length`;
/// constant outside that range.
Value EntryBuilder::cosine(RowsBuilder &rows, Value step, double begin, double length, double from,
                           double to) {
  Value progress = rows.div(rows.sub(step, rows.constant(begin, f32)),
                            rows.constant(std::max(1.0, length), f32));
  progress = arith::MinNumFOp::create(rows.body, progress, rows.constant(1, f32));
  progress = arith::MaxNumFOp::create(rows.body, progress, rows.constant(0, f32));
  Value wave =
      math::CosOp::create(rows.body, rows.mul(progress, rows.constant(std::numbers::pi, f32)));
  Value half = rows.mul(rows.add(wave, rows.constant(1, f32)), rows.constant((from - to) / 2, f32));
  return rows.add(half, rows.constant(to, f32));
}

/// Computes the learning rate at `step` (f32, from 1): linear warm-up, then the schedule of the
/// given kind, in one phase or two.
Value EntryBuilder::schedule(RowsBuilder &rows, Value step) {
  double warmup = training.number("warmup");
  double steps = training.number("steps");
  double floor = training.number("floor");
  Value rate = rows.constant(1, f32);
  auto until = [&](double last, Value before, Value behind) -> Value {
    Value isBefore =
        arith::CmpFOp::create(rows.body, arith::CmpFPredicate::OLE, step, rows.constant(last, f32));
    return arith::SelectOp::create(rows.body, isBefore, before, behind);
  };
  if (training.text("schedule") == "cosine") {
    rate = cosine(rows, step, warmup, steps - warmup, 1, floor);
  } else if (training.text("schedule") == "inverse_root") {
    rate =
        math::SqrtOp::create(rows.body, rows.div(rows.constant(std::max(1.0, warmup), f32), step));
    rate = arith::MaxNumFOp::create(rows.body, rate, rows.constant(floor, f32));
  }
  if (training.attributes.contains("then_steps")) {
    rate = until(steps, rate,
                 cosine(rows, step, steps, training.number("then_steps"),
                        training.number("then_from"), training.number("then_floor")));
  }
  if (warmup > 0) {
    rate = until(warmup, rows.div(step, rows.constant(warmup, f32)), rate);
  }
  return rows.mul(rate, rows.constant(training.number("learning_rate"), f32));
}

/// Computes the second stage of the gradient norm, and all scalars that the optimizer reads.
void EntryBuilder::buildScalars(Value squares) {
  RowsBuilder rows(b, loc, single);
  auto squaresType = cast<RankedTensorType>(squares.getType());
  Value values = rows.operand(squares, AccessKind::Vector, squaresType);
  Value loss = rows.scalar("scalar:loss", f32);
  Value step = arith::SIToFPOp::create(rows.body, f32, rows.scalar("scalar:step", b.getI64Type()));
  Value sum = dispatch::ReduceOp::create(rows.body, f32, dispatch::ReduceKind::Add, values);
  Value norm = math::SqrtOp::create(rows.body, sum);
  Value clip = rows.constant(1, f32);
  if (double limit = training.number("clip"); limit > 0) {
    clip = arith::MinNumFOp::create(rows.body, clip, rows.div(rows.constant(limit, f32), norm));
  }
  // x - x is zero exactly for finite x.
  Value sick = rows.add(rows.sub(norm, norm), rows.sub(loss, loss));
  Value isFinite =
      arith::CmpFOp::create(rows.body, arith::CmpFPredicate::OEQ, sick, rows.constant(0, f32));
  Value finite = arith::ExtUIOp::create(rows.body, b.getI32Type(), isFinite);
  // 1 - beta^step = -expm1(step ln beta): the plain difference would lose all but a few digits in
  // the first steps.
  auto correction = [&](StringRef beta) -> Value {
    Value exponent = rows.mul(step, rows.constant(std::log(training.number(beta)), f32));
    return arith::NegFOp::create(rows.body, math::ExpM1Op::create(rows.body, exponent));
  };
  Type scalar = RankedTensorType::get({}, f32);
  Value rate = schedule(rows, step);
  rows.result(norm, AccessKind::Scalar, scalar);
  rows.result(finite, AccessKind::Scalar, RankedTensorType::get({}, b.getI32Type()));
  rows.result(rate, AccessKind::Scalar, scalar);
  rows.result(clip, AccessKind::Scalar, scalar);
  rows.result(correction("beta1"), AccessKind::Scalar, scalar);
  rows.result(correction("beta2"), AccessKind::Scalar, scalar);
  dispatch::RowsOp op = rows.finish("update scalars");
  StringRef places[] = {"grad_norm",  "finite",      "learning_rate",
                        "clip_scale", "correction1", "correction2"};
  for (auto [place, value] : llvm::zip_equal(places, op.getResults())) {
    store(("scalar:" + place).str(), value);
  }
}

/// Returns the rate and the decay of the numbers of a flat row where the training has groups of
/// weights; `decay` is the decay of its first run. They are f32 if every row is one run, else
/// tensors of a row.
std::pair<Value, Value> EntryBuilder::buildGroups(RowsBuilder &rows, Value rate, Value decay) {
  size_t runs = ParameterGroups(module, layout).countRuns();
  auto readTable = [&](StringRef table, size_t run, Type type) {
    Value values =
        bind("constant:" + getRunName(table, run), RankedTensorType::get({layout.rows}, type));
    return rows.operand(values, AccessKind::Flat, type);
  };
  Value factor = readTable("rate", 0, f32);
  if (runs == 1) {
    return {rows.mul(rate, factor), decay};
  }
  Type i32 = b.getI32Type();
  auto columns = RankedTensorType::get({flatRowElements}, i32);
  Value column = dispatch::ColumnOp::create(rows.body, columns);
  factor = rows.splat(factor, row);
  decay = rows.splat(decay, row);
  for (size_t run = 1; run < runs; ++run) {
    Value begin = rows.splat(readTable("begin", run, i32), columns);
    Value isInRun = arith::CmpIOp::create(rows.body, arith::CmpIPredicate::sge, column, begin);
    auto select = [&](StringRef table, Value before) -> Value {
      Value value = rows.splat(readTable(table, run, f32), row);
      return arith::SelectOp::create(rows.body, isInRun, value, before);
    };
    factor = select("rate", factor);
    decay = select("decay", decay);
  }
  return {rows.mul(rows.splat(rate, row), factor), decay};
}

/// Builds Adam (Kingma and Ba, algorithm 1) or AdamW (Loshchilov and Hutter, algorithm 2) as one
/// update of all parameters.
void EntryBuilder::buildAdam() {
  RowsBuilder rows(b, loc, flatDomain);
  Value p = rows.operand(bind("flat:parameters", flat), AccessKind::Flat, row);
  Value m = rows.operand(bind("flat:adam.m", flat), AccessKind::Flat, row);
  Value v = rows.operand(bind("flat:adam.v", flat), AccessKind::Flat, row);
  Value g = rows.operand(bind(gradients, flat), AccessKind::Flat, row);
  Value decay = rows.operand(bind("constant:decay", RankedTensorType::get({layout.rows}, f32)),
                             AccessKind::Flat, f32);
  Value rate = rows.scalar("scalar:learning_rate", f32);
  Value clip = rows.scalar("scalar:clip_scale", f32);
  Value correction1 = rows.scalar("scalar:correction1", f32);
  Value correction2 = rows.scalar("scalar:correction2", f32);
  auto splat = [&](Value number) {
    return number.getType() == row ? number : rows.splat(number, row);
  };
  auto constant = [&](double value) { return rows.constant(value, row); };

  if (training.attributes.contains("groups")) {
    std::tie(rate, decay) = buildGroups(rows, rate, decay);
  } else {
    decay = rows.mul(decay, rows.constant(training.number("weight_decay"), f32));
  }
  correction1 = rate.getType() == row ? splat(correction1) : correction1;
  g = rows.mul(g, splat(clip));
  if (training.text("optimizer") == "adam") {
    g = rows.add(g, rows.mul(p, splat(decay)));
  } else {
    p = rows.sub(p, rows.mul(p, splat(rows.mul(rate, decay))));
  }
  double beta1 = training.number("beta1");
  double beta2 = training.number("beta2");
  m = rows.add(rows.mul(m, constant(beta1)), rows.mul(g, constant(1 - beta1)));
  v = rows.add(rows.mul(v, constant(beta2)), rows.mul(rows.mul(g, g), constant(1 - beta2)));
  Value one = rows.constant(1, f32);
  Value root = math::SqrtOp::create(rows.body, rows.mul(v, splat(rows.div(one, correction2))));
  Value scaled = rows.mul(m, splat(rows.div(rate, correction1)));
  p = rows.sub(p, rows.div(scaled, rows.add(root, constant(training.number("epsilon")))));
  rows.result(p, AccessKind::Flat, flat, 0);
  rows.result(m, AccessKind::Flat, flat, 1);
  rows.result(v, AccessKind::Flat, flat, 2);
  if (hasCopies) {
    rows.result(p, AccessKind::Flat, flatCopy);
  }
  dispatch::RowsOp op = rows.finish("optimizer");
  op.setGuard("finite");
  storeParameters(op);
}

/// Stores the results of the optimizer or the initialization to their places.
void EntryBuilder::storeParameters(dispatch::RowsOp op) {
  StringRef places[] = {"flat:parameters", "flat:adam.m", "flat:adam.v", "flat:compute"};
  for (auto [place, value] : llvm::zip(places, op.getResults())) {
    store(place, value);
  }
}

/// Adds the losses of `sluice.objective` for a batch to the sums of the update. Values carry the
/// sums between two launches, so that no launch reads a place that it writes.
void EntryBuilder::accumulateLosses() {
  SmallVector<std::string> names{"loss"};
  auto losses = getFact<plan::PlanDialect::LossesAttrHelper>(module);
  for (size_t i = 0; losses && losses.size() > 1 && i < losses.size(); ++i) {
    names.push_back(
        plan::meanName(cast<DictionaryAttr>(losses[i]).getAs<StringAttr>("name").getValue()));
  }
  Type scalar = RankedTensorType::get({}, f32);
  RowsBuilder add(b, loc, single), copy(b, loc, single);
  Value first = add.scalar("scalar:first_row", b.getI64Type());
  Value zero = arith::ConstantOp::create(add.body, b.getI64IntegerAttr(0));
  Value isFirst = arith::CmpIOp::create(add.body, arith::CmpIPredicate::eq, first, zero);
  for (const std::string &name : names) {
    Value now = add.scalar("scalar:" + name, f32), before = add.scalar("scalar:sum." + name, f32);
    Value sum = arith::SelectOp::create(add.body, isFirst, now, add.add(before, now));
    add.result(sum, AccessKind::Scalar, scalar);
  }
  for (Value sum : add.finish("sums of losses").getResults()) {
    Value value = copy.operand(sum, AccessKind::Scalar, f32);
    copy.result(value, AccessKind::Scalar, scalar);
    copy.result(value, AccessKind::Scalar, scalar);
  }
  dispatch::RowsOp copied = copy.finish("losses of the update");
  for (auto [i, name] : llvm::enumerate(names)) {
    store("scalar:" + name, copied.getResult(2 * i));
    store("scalar:sum." + name, copied.getResult(2 * i + 1));
  }
}

void EntryBuilder::buildAccumulate() {
  if (batchesOfUpdate(module) == 1) {
    return;
  }
  beginEntry("accumulate");
  RowsBuilder rows(b, loc, flatDomain);
  Value g = rows.operand(bind("flat:gradients", flat), AccessKind::Flat, row);
  Value sums = rows.operand(bind(gradients, flat), AccessKind::Flat, row);
  Value first =
      arith::SIToFPOp::create(rows.body, f32, rows.scalar("scalar:first_row", b.getI64Type()));
  // Selects instead of multiplying by 0, because memory before the first batch may hold NaN.
  Value isFirst = arith::CmpFOp::create(rows.body, arith::CmpFPredicate::OEQ,
                                        rows.splat(first, row), rows.constant(0, row));
  Value sum = arith::SelectOp::create(rows.body, isFirst, g, rows.add(sums, g));
  rows.result(sum, AccessKind::Flat, flat, 1);
  store(gradients, rows.finish("sums of gradients").getResult(0));
  accumulateLosses();
}

/// Indexes the random numbers of a batch by its rows in the update, or by its lines.
static void drawByUpdate(func::FuncOp gradient) {
  int64_t parts = getDrawParts(gradient->getParentOfType<ModuleOp>());
  gradient.walk([&](dispatch::DrawInterface op) {
    op.setDrawsByUpdate(op.drawsNumbers());
    op.setDrawParts(op.drawsNumbers() ? static_cast<uint64_t>(parts) : 1);
  });
}

void EntryBuilder::buildUpdate() {
  beginEntry("update");
  RowsBuilder rows(b, loc, flatDomain);
  Value g = rows.operand(bind(gradients, flat), AccessKind::Flat, row);
  Value square =
      dispatch::ReduceOp::create(rows.body, f32, dispatch::ReduceKind::Add, rows.mul(g, g));
  rows.result(square, AccessKind::Flat, RankedTensorType::get({layout.rows}, f32));
  buildScalars(rows.finish("gradient norm").getResult(0));
  buildAdam();
}

/// Returns the means of a flat row's numbers: the parameter's mean at every `period`-th number, and
/// 0 elsewhere. For an identity of n columns the period is n + 1. `place` is the distance from such
/// a number to the start of the row.
Value EntryBuilder::buildMeans(RowsBuilder &rows, Value mean) {
  bool hasIdentity = llvm::any_of(module.getOps<ParameterOp>(), [](ParameterOp parameter) {
    return parameter.getInitial() == "identity";
  });
  if (!hasIdentity) {
    return rows.splat(mean, row);
  }
  Type i32 = b.getI32Type();
  auto whole = RankedTensorType::get({flatRowElements}, i32);
  auto ofRow = [&](StringRef name) {
    Value constant =
        bind(("constant:initial." + name).str(), RankedTensorType::get({layout.rows}, i32));
    return rows.splat(rows.operand(constant, AccessKind::Flat, i32), whole);
  };
  Value period = ofRow("period"), place = ofRow("place");
  Value column = dispatch::ColumnOp::create(rows.body, whole);
  Value rest =
      arith::RemSIOp::create(rows.body, arith::AddIOp::create(rows.body, place, column), period);
  Value zero =
      arith::ConstantOp::create(rows.body, DenseElementsAttr::get(whole, b.getI32IntegerAttr(0)));
  Value holds = arith::CmpIOp::create(rows.body, arith::CmpIPredicate::eq, rest, zero);
  return arith::SelectOp::create(rows.body, holds, rows.splat(mean, row), rows.constant(0, row));
}

/// Builds the initialization with normal numbers by Box and Muller: mean + deviation sqrt(-2 ln(1 -
/// u1)) cos(2 pi u2), plus bound (2 u1 - 1). One of deviation and bound is 0.
void EntryBuilder::buildInitialize() {
  beginEntry("initialize");
  RowsBuilder rows(b, loc, flatDomain);
  auto perRow = RankedTensorType::get({layout.rows}, f32);
  Value mean = rows.operand(bind("constant:initial.mean", perRow), AccessKind::Flat, f32);
  Value deviation = rows.operand(bind("constant:initial.deviation", perRow), AccessKind::Flat, f32);
  Value u1 = dispatch::RandomOp::create(rows.body, row, 0, flatRowElements, true);
  Value u2 = dispatch::RandomOp::create(rows.body, row, 1, flatRowElements, true);
  Value logarithm = math::LogOp::create(rows.body, rows.sub(rows.constant(1, row), u1));
  Value radius = math::SqrtOp::create(rows.body, rows.mul(logarithm, rows.constant(-2, row)));
  Value angle =
      math::CosOp::create(rows.body, rows.mul(u2, rows.constant(2 * std::numbers::pi, row)));
  Value normal = rows.mul(rows.mul(radius, angle), rows.splat(deviation, row));
  Value parameters = rows.add(normal, buildMeans(rows, mean));
  if (llvm::any_of(module.getOps<ParameterOp>(),
                   [](ParameterOp each) { return each.getInitial() == "uniform"; })) {
    Value bound = rows.operand(bind("constant:initial.bound", perRow), AccessKind::Flat, f32);
    Value number = rows.add(rows.mul(u1, rows.constant(2, row)), rows.constant(-1, row));
    parameters = rows.add(parameters, rows.mul(number, rows.splat(bound, row)));
  }
  rows.result(parameters, AccessKind::Flat, flat);
  rows.result(rows.constant(0, row), AccessKind::Flat, flat);
  rows.result(rows.constant(0, row), AccessKind::Flat, flat);
  if (hasCopies) {
    rows.result(parameters, AccessKind::Flat, flatCopy);
  }
  storeParameters(rows.finish("initialize"));
}

bool EntryBuilder::readsCopies(ModuleOp module) {
  return module
      .walk([](plan::BindOp bind) {
        return bind.getPlace().starts_with("compute:") ? WalkResult::interrupt()
                                                       : WalkResult::advance();
      })
      .wasInterrupted();
}

void EntryBuilder::buildPrepare() {
  if (!hasCopies) {
    return;
  }
  beginEntry("prepare");
  RowsBuilder rows(b, loc, flatDomain);
  Value parameters = rows.operand(bind("flat:parameters", flat), AccessKind::Flat, row);
  rows.result(parameters, AccessKind::Flat, flatCopy);
  store("flat:compute", rows.finish("compute copies").getResult(0));
}

bool isStatic(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape();
}

/// Requires logits, which become the entry's output, or losses, of which there may be several.
LogicalResult requireResults(func::FuncOp func, bool several) {
  TypeRange types = func.getResultTypes();
  if (types.empty() || (types.size() > 1 && !several) || !llvm::all_of(types, isStatic)) {
    return func.emitError() << "expected @" << func.getSymName() << " to return "
                            << (several ? "tensors" : "one tensor")
                            << " of a static shape; run sluice-form-dispatches before, and "
                               "sluice-build-entries once";
  }
  return success();
}

struct BuildEntriesPass : sluice::impl::BuildEntriesBase<BuildEntriesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(verifyModel(module)) || failed(verifyTraining(module)) ||
        failed(verifyLevel(module, ModuleLevel::Dispatches))) {
      return signalPassFailure();
    }
    EntryBuilder builder(module);
    for (StringRef name : {"evaluate", "gradient"}) {
      if (auto func = module.lookupSymbol<func::FuncOp>(name)) {
        if (failed(requireResults(func, /*several=*/true))) {
          return signalPassFailure();
        }
        builder.closeLosses(func);
      }
    }
    auto count = module.lookupSymbol<func::FuncOp>("count");
    if (count && drawsByUpdate(module)) {
      drawByUpdate(count);
    }
    for (StringRef name : {"predict", "step"}) {
      if (auto func = module.lookupSymbol<func::FuncOp>(name)) {
        if (failed(requireResults(func, /*several=*/false))) {
          return signalPassFailure();
        }
        builder.closePredict(func);
      }
    }
    if (auto gradient = module.lookupSymbol<func::FuncOp>("gradient");
        gradient && drawsByUpdate(module)) {
      drawByUpdate(gradient);
    }
    builder.buildAccumulate();
    builder.buildUpdate();
    builder.buildInitialize();
    builder.buildPrepare();
    // Moves the entries of generation to the end, so that kernels of training have the same numbers
    // in models that only train.
    for (StringRef name : {"step", "prefill", "reset", "quantize"}) {
      if (auto func = module.lookupSymbol<func::FuncOp>(name)) {
        func->moveBefore(module.getBody(), module.getBody()->end());
      }
    }
  }
};

} // namespace
