// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Selects results of the forward pass to store, for a memory budget.
#include "sluice/Transforms/Recompute.h"
#include "RepeatedDispatches.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Transforms/MemoryPlan.h"

using namespace mlir;
using namespace sluice;

namespace {

/// Searches for a set of values to rematerialize, by planning memory for candidates.
///
/// A starting point drops all values except those that are live at cuts: points of the forward pass
/// with few live bytes, for example between two halves of a layer. All values between two cuts are
/// live again at the same time, so few cuts store little but need much memory during recomputation.
/// From a starting point, the search stores dispatches again while the budget allows it, in order
/// of decreasing operations per byte: attention before maps, maps before norms.
class Search {
public:
  Search(ModuleOp module, func::FuncOp gradient, const RecomputeRequest &request)
      : module(module), request(request), limit(request.budgetBytes), dispatches(gradient) {}

  FailureOr<Recomputation> run();

private:
  /// A set of dropped values, and its cost.
  struct RecomputeState {
    ValueSet dropped;
    int64_t bytes = 0;
    double operations = 0;
  };
  /// A forward dispatch whose results can be dropped.
  struct Unit {
    Operation *op = nullptr;
    double operationsByByte = 0;
    size_t number = 0; ///< position in the forward pass, counted from its end
  };

  LogicalResult measure(RecomputeState &state);
  bool fits(const RecomputeState &state) const { return state.bytes <= limit; }
  void findUnits();
  std::vector<size_t> findCuts(bool areEqualsCuts) const;
  RecomputeState startFrom(ArrayRef<size_t> cuts, int64_t spacing) const;
  LogicalResult findStarts();
  static RecomputeState without(const RecomputeState &state, ArrayRef<Unit> units);
  LogicalResult takeBack(RecomputeState &state);
  FailureOr<const RecomputeState *> findBest();
  LogicalResult takeBackOneByOne(RecomputeState &state, ArrayRef<Unit> rest);

  /// Maximum number of single dispatches tried from one starting point: planning takes
  /// milliseconds.
  static constexpr int mostTries = 32;

  ModuleOp module;
  const RecomputeRequest &request;
  int64_t limit; ///< the budget, or the size of the leanest starting point
  RepeatedDispatches dispatches;
  std::vector<Unit> units;
  std::vector<RecomputeState> starts;
};

LogicalResult Search::measure(RecomputeState &state) {
  dispatches.repeat(state.dropped);
  FailureOr<MemoryPlan> plan = planMemory(module, request.workspaceBytes, request.counterBytes);
  state.operations = 0;
  for (auto [original, copy] : dispatches.copies()) {
    state.operations += request.countDispatchOperations(original);
  }
  dispatches.undo();
  if (failed(plan)) {
    return failure();
  }
  state.bytes = plan->arenaBytes;
  return success();
}

/// Sorts by decreasing operations per byte. The last dispatch breaks ties, because values that the
/// backward pass reads first are not live for long.
void Search::findUnits() {
  for (Operation *op : llvm::reverse(dispatches.forward())) {
    int64_t bytes = 0;
    for (Value result : op->getResults()) {
      bytes += dispatches.isRepeatable(result) ? storedBytes(result) : 0;
    }
    if (bytes > 0) {
      units.push_back(
          {op, request.countDispatchOperations(op) / static_cast<double>(bytes), units.size()});
    }
  }
  llvm::sort(units, [](const Unit &a, const Unit &b) {
    return std::tuple(-a.operationsByByte, a.number) < std::tuple(-b.operationsByByte, b.number);
  });
}

/// Returns the local minima of live bytes. For a run of equal minima, returns all points or,
/// without `areEqualsCuts`, only the last point, if more bytes are live before the run.
std::vector<size_t> Search::findCuts(bool areEqualsCuts) const {
  std::vector<int64_t> bytes = dispatches.bytesBetween();
  std::vector<size_t> cuts;
  bool falls = areEqualsCuts;
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    falls = i > 0 && bytes[i] != bytes[i - 1] ? bytes[i] < bytes[i - 1] : falls;
    if (falls && (areEqualsCuts ? bytes[i + 1] >= bytes[i] : bytes[i + 1] > bytes[i])) {
      cuts.push_back(i);
    }
  }
  return cuts;
}

/// Stores the values that are live across cuts; skips cuts such that at least `spacing` bytes are
/// computed between consecutive ones.
Search::RecomputeState Search::startFrom(ArrayRef<size_t> cuts, int64_t spacing) const {
  RecomputeState state;
  SmallVector<Value> kept;
  int64_t between = 0;
  for (auto [i, op] : llvm::enumerate(dispatches.forward())) {
    for (Value result : op->getResults()) {
      if (dispatches.isRepeatable(result)) {
        state.dropped.insert(result);
        between += storedBytes(result);
      }
    }
    if (between >= spacing && llvm::is_contained(cuts, i)) {
      kept.append(dispatches.valuesAcross(i));
      between = 0;
    }
  }
  for (Value value : kept) {
    state.dropped.erase(value);
  }
  return state;
}

LogicalResult Search::findStarts() {
  starts.push_back(startFrom(findCuts(/*areEqualsCuts=*/false), 0));
  std::vector<size_t> cuts = findCuts(/*areEqualsCuts=*/true);
  int64_t all = 0;
  for (Value value : startFrom({}, 0).dropped) {
    all += storedBytes(value);
  }
  int64_t mean = all / static_cast<int64_t>(cuts.size() + 1);
  for (int64_t spacing = mean + 1; spacing < all; spacing *= 2) {
    starts.push_back(startFrom(cuts, spacing));
  }
  for (RecomputeState &start : starts) {
    if (failed(measure(start))) {
      return failure();
    }
  }
  return success();
}

Search::RecomputeState Search::without(const RecomputeState &state, ArrayRef<Unit> units) {
  RecomputeState smaller = state;
  for (const Unit &unit : units) {
    for (Value result : unit.op->getResults()) {
      smaller.dropped.erase(result);
    }
  }
  return smaller;
}

/// Tries to store further dispatches one by one: one that does not fit may be followed by a smaller
/// one that does. Skips dispatches that are stored already, and does not store one whose result is
/// not recomputed anyway.
LogicalResult Search::takeBackOneByOne(RecomputeState &state, ArrayRef<Unit> rest) {
  int tries = 0;
  for (const Unit &unit : rest) {
    RecomputeState next = without(state, unit);
    if (next.dropped.size() == state.dropped.size()) {
      continue;
    }
    if (tries++ == mostTries) {
      break;
    }
    if (failed(measure(next))) {
      return failure();
    }
    if (fits(next) && next.operations < state.operations) {
      state = std::move(next);
    }
  }
  return success();
}

/// Stores as many of the first units as fit, by bisection, then tries others one by one.
LogicalResult Search::takeBack(RecomputeState &state) {
  RecomputeState best = state;
  size_t least = 0, most = units.size();
  while (least < most) {
    size_t middle = (least + most + 1) / 2;
    RecomputeState next = without(state, ArrayRef(units).take_front(middle));
    if (failed(measure(next))) {
      return failure();
    }
    if (fits(next)) {
      least = middle;
      best = std::move(next);
    } else {
      most = middle - 1;
    }
  }
  state = std::move(best);
  return takeBackOneByOne(state, ArrayRef(units).drop_front(least));
}

/// Returns the state with the fewest operations that fits the budget; else the leanest one found.
FailureOr<const Search::RecomputeState *> Search::findBest() {
  auto isLeaner = [](const RecomputeState &a, const RecomputeState &b) {
    return a.bytes < b.bytes;
  };
  RecomputeState &leanest = *std::min_element(starts.begin(), starts.end(), isLeaner);
  if (!fits(leanest)) { // a stored result may need less memory than the operands of its copy
    limit = leanest.bytes;
    return failed(takeBack(leanest)) ? FailureOr<const RecomputeState *>() : &leanest;
  }
  const RecomputeState *best = nullptr;
  for (RecomputeState &start : starts) {
    if (!fits(start)) {
      continue;
    }
    if (failed(takeBack(start))) {
      return failure();
    }
    auto price = [](const RecomputeState &state) {
      return std::pair(state.operations, state.bytes);
    };
    best = !best || price(start) < price(*best) ? &start : best;
  }
  return best;
}

FailureOr<Recomputation> Search::run() {
  RecomputeState full;
  if (failed(measure(full))) {
    return failure();
  }
  Recomputation result;
  result.fullBytes = result.arenaBytes = full.bytes;
  if (fits(full)) {
    return result;
  }
  findUnits();
  if (failed(findStarts())) {
    return failure();
  }
  FailureOr<const RecomputeState *> best = findBest();
  if (failed(best)) {
    return failure();
  }
  result.arenaBytes = std::min(full.bytes, (*best)->bytes);
  if ((*best)->bytes <= request.budgetBytes) {
    result.operations = (*best)->operations;
    dispatches.repeat((*best)->dropped);
    for (auto [original, copy] : dispatches.copies()) {
      result.copies.emplace_back(copy, original);
    }
  }
  return result;
}

} // namespace

/// Returns @gradient of the model, or of each factor that steps draw.
static SmallVector<func::FuncOp> getGradientFunctions(ModuleOp module) {
  SmallVector<func::FuncOp> gradients;
  for (auto func : module.getOps<func::FuncOp>()) {
    auto of = getFact<plan::PlanDialect::OfAttrHelper>(func);
    if (func.getSymName() == "gradient" || (of && of.getValue() == "gradient")) {
      gradients.push_back(func);
    }
  }
  return gradients;
}

/// Removes functions from a module for the lifetime of the object.
class Without {
public:
  Without(ArrayRef<func::FuncOp> funcs, func::FuncOp kept) {
    for (func::FuncOp func : funcs) {
      if (func != kept) {
        places.emplace_back(func, func->getNextNode());
        module = func->getParentOfType<ModuleOp>();
        func->remove();
      }
    }
  }
  ~Without() {
    for (auto [func, next] : llvm::reverse(places)) {
      Block *body = module.getBody();
      body->getOperations().insert(next ? Block::iterator(next) : body->end(), func);
    }
  }

private:
  ModuleOp module;
  SmallVector<std::pair<Operation *, Operation *>> places;
};

FailureOr<Recomputation> sluice::recompute(ModuleOp module, const RecomputeRequest &request) {
  FailureOr<MemoryPlan> whole = planMemory(module, request.workspaceBytes, request.counterBytes);
  if (failed(whole)) {
    return failure();
  }
  Recomputation result;
  result.fullBytes = result.arenaBytes = whole->arenaBytes;
  if (whole->arenaBytes <= request.budgetBytes) {
    return result;
  }
  // Entries share the memory of temporaries, so each gradient is searched without the others. Their
  // named places remain in the arena.
  SmallVector<func::FuncOp> gradients = getGradientFunctions(module);
  int64_t most = 0;
  for (func::FuncOp gradient : gradients) {
    Without others(gradients, gradient);
    FailureOr<MemoryPlan> alone = planMemory(module, request.workspaceBytes, request.counterBytes);
    if (failed(alone)) {
      return failure();
    }
    int64_t named = whole->temporariesOffset - alone->temporariesOffset;
    RecomputeRequest own = request;
    own.budgetBytes -= named;
    FailureOr<Recomputation> made = Search(module, gradient, own).run();
    if (failed(made)) {
      return failure();
    }
    most = std::max(most, made->arenaBytes + named);
    if (gradient == gradients.front()) {
      result.operations = made->operations;
      result.launches = static_cast<int64_t>(made->copies.size());
    }
    llvm::append_range(result.copies, made->copies);
  }
  result.arenaBytes = gradients.empty() ? whole->arenaBytes : most;
  return result;
}
