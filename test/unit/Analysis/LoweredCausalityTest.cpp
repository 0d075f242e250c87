// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dependences after each pass: no false alarm on any spec, and every injected wrong map, mask and
// guard is detected, with the pass named.
#include "../Papers.h"
#include "../Specs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Pass/PassManager.h"
#include "sluice/Analysis/LoweredAnyLength.h"
#include "sluice/Dialect/Dispatch/RowConditions.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Support/Files.h"
#include "sluice/Transforms/Passes.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <regex>

using namespace mlir;
using namespace sluice;
using dispatch::AccessAttr;
using dispatch::AccessKind;

namespace {

const std::string source = SLUICE_SOURCE_DIR;

std::vector<std::string> specs() {
  std::vector<std::string> result;
  for (const char *folder : {"models", "test/causality/causal", "test/causality/segments",
                             "test/golden", "test/Transforms/Inputs"}) {
    for (const auto &entry : std::filesystem::recursive_directory_iterator(source + "/" + folder)) {
      // Hashes select the rows read there.
      bool isHashed = entry.path().stem().string().starts_with("lsh-");
      if (entry.path().extension() == ".json" && sluice::test::isRepresentative(entry.path()) &&
          !isHashed && entry.path().parent_path().filename() != "expected") {
        result.push_back(entry.path().string());
      }
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

/// The text of a spec. Successors' stacks of up to 24 equal layers have two, since a pass treats
/// each layer alike; papers' models have their own depth.
std::string readWithFewLayers(const std::string &path) {
  std::string text = readText(path, "spec");
  if (std::filesystem::path(path).parent_path().filename() == "successors") {
    text =
        std::regex_replace(text, std::regex("\"count\": ([3-9]|[1-9][0-9]+)\\b"), "\"count\": 2");
    std::smatch layers; // of an hnet stage: [4, [5, 22, 5], 4]
    if (std::regex_search(text, layers, std::regex("\"layers\": \\[.*"))) {
      text = layers.prefix().str() +
             std::regex_replace(layers.str(), std::regex("\\b([3-9]|[1-9][0-9]+)\\b"), "2") +
             layers.suffix().str();
    }
  }
  return text;
}

/// A model with observed passes.
class LoweredModel {
public:
  explicit LoweredModel(const std::string &path) : context(MLIRContext::Threading::DISABLED) {
    module = importSpec(sluice::test::parseValidSpec(context, readWithFewLayers(path), path));
    watch.emplace(*module);
  }
  void run(std::unique_ptr<Pass> pass) {
    PassManager manager(&context);
    manager.addPass(std::move(pass));
    ASSERT_TRUE(succeeded(manager.run(*module)));
  }
  std::string find(StringRef pass) {
    Location place = module->getLoc();
    return watch->find(*module, pass, &place).value_or("");
  }
  void differentiate() {
    run(createExpandSoftTargets());
    ASSERT_EQ(find("sluice-expand-soft-targets"), "");
    run(createConvertFactors());
    ASSERT_EQ(find("sluice-convert-factors"), "");
    run(createDifferentiate());
    ASSERT_EQ(find("sluice-differentiate"), "");
  }
  void formDispatches() {
    differentiate();
    run(createFormDispatches());
    ASSERT_EQ(find("sluice-form-dispatches"), "");
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::optional<LoweringWatch> watch;
};

/// Sets an attribute for the lifetime of the object.
class ScopedAttribute {
public:
  ScopedAttribute(Operation *op, StringRef name, Attribute value)
      : op(op), name(name), before(op->getAttr(name)) {
    op->setAttr(name, value);
  }
  ~ScopedAttribute() { op->setAttr(name, before); }
  ScopedAttribute(const ScopedAttribute &) = delete;
  ScopedAttribute &operator=(const ScopedAttribute &) = delete;

private:
  Operation *op;
  StringRef name;
  Attribute before;
};

/// Widens one constraint of a mask by one.
IntegerSet widened(IntegerSet mask, unsigned constraint) {
  SmallVector<AffineExpr> constraints(mask.getConstraints());
  constraints[constraint] = constraints[constraint] + 1;
  return IntegerSet::get(mask.getNumDims(), mask.getNumSymbols(), constraints, mask.getEqFlags());
}

void expectCaught(LoweredModel &lowered, StringRef pass, Operation *op, const std::string &what) {
  std::string found = lowered.find(pass);
  EXPECT_NE(found.find("the pass " + pass.str() + " added a dependence"), std::string::npos)
      << what << " was not caught in @" << op->getParentOfType<func::FuncOp>().getSymName().str();
  EXPECT_NE(found.find(".json:"), std::string::npos) << found;
}

/// True if some row may see a row that it could not see before. A constraint that q >= 0 only
/// repeats a property of all reads, and a row reads itself as a query.
bool differ(IntegerSet x, IntegerSet y) {
  constexpr int64_t n = 256;
  for (int64_t p = 0; p < n; ++p) {
    for (int64_t q = 0; q < n; ++q) {
      if (p != q && reference::contains(x, p, q, n) != reference::contains(y, p, q, n)) {
        return true;
      }
    }
  }
  return false;
}

/// Injects a fault into every mask of ops of this kind; returns their number.
template <typename Op> int injectMaskFaults(LoweredModel &lowered, StringRef pass) {
  int injected = 0;
  lowered.module->walk([&](Op op) {
    for (unsigned i = 0; i < op.getMask().getNumConstraints(); ++i) {
      if (!differ(op.getMask(), widened(op.getMask(), i))) {
        continue;
      }
      ScopedAttribute mutant(op, "mask", IntegerSetAttr::get(widened(op.getMask(), i)));
      expectCaught(lowered, pass, op, "a mask widened by one");
      ++injected;
    }
  });
  return injected;
}

AccessAttr changed(AccessAttr access, int64_t by, int64_t group, int64_t factor) {
  AffineMap map = access.getMap().getValue();
  auto moved = AffineMap::get(2, 1, map.getResult(0) + by);
  return AccessAttr::get(access.getContext(), access.getKind(), AffineMapAttr::get(moved), group,
                         factor, access.getColumn(), access.getIndex(), access.getOutside());
}

/// Visits the rows of sequences that an op reads through maps, and calls `inject(change)` for each,
/// where `change` replaces the access.
void forEachAccess(
    ModuleOp module,
    llvm::function_ref<void(Operation *, AccessAttr,
                            llvm::function_ref<std::unique_ptr<ScopedAttribute>(AccessAttr)>)>
        visit) {
  module.walk([&](Operation *op) {
    auto accesses = op->getAttrOfType<ArrayAttr>("accesses");
    for (unsigned i = 0; accesses && i < accesses.size(); ++i) {
      auto access = cast<AccessAttr>(accesses[i]);
      Block &body = op->getRegion(0).front();
      unsigned first = body.getNumArguments() - accesses.size();
      // Skips the memory of a result that the body does not read.
      if (access.getKind() != AccessKind::Row || body.getArgument(first + i).use_empty()) {
        continue;
      }
      visit(op, access, [&](AccessAttr other) {
        SmallVector<Attribute> all(accesses.begin(), accesses.end());
        all[i] = other;
        return std::make_unique<ScopedAttribute>(op, "accesses",
                                                 ArrayAttr::get(op->getContext(), all));
      });
    }
  });
}

} // namespace

class LoweredSpec : public ::testing::TestWithParam<std::string> {};

TEST_P(LoweredSpec, AddsNoDependence) {
  LoweredModel lowered(GetParam());
  lowered.formDispatches();
  lowered.run(createBuildEntries());
  EXPECT_EQ(lowered.find("sluice-build-entries"), "");
}

INSTANTIATE_TEST_SUITE_P(All, LoweredSpec, ::testing::ValuesIn(specs()));

/// Comparison at every length decides every result of differentiation and dispatch forming.
TEST(LoweredCausality, DecidesEveryMapForEveryLength) {
  for (const char *spec :
       {"/models/tiny/nested.json", "/models/demo.json",
        "/test/causality/causal/factors-2-3-7-nested.json",
        "/test/causality/causal/replaced-last-rows.json",
        "/test/causality/causal/replaced-first-rows.json", "/test/causality/causal/windows.json"}) {
    LoweredModel lowered(source + spec);
    ReadGraph evaluate(lowered.module->lookupSymbol<func::FuncOp>("evaluate"));
    lowered.formDispatches();
    ReadGraph dispatches(lowered.module->lookupSymbol<func::FuncOp>("evaluate"));
    int64_t undecided = 0;
    EXPECT_FALSE(findAddedAtAnyLength(evaluate, dispatches, &undecided));
    EXPECT_EQ(undecided, 0) << spec;
  }
}

TEST(LoweredCausality, DetectsWrongMasksOfDispatches) {
  for (const char *spec : {"/models/tiny/hourglass.json", "/test/causality/causal/windows.json"}) {
    LoweredModel lowered(source + spec);
    lowered.formDispatches();
    EXPECT_GT(injectMaskFaults<dispatch::AttentionOp>(lowered, "sluice-form-dispatches"), 5)
        << spec;
    EXPECT_GT(injectMaskFaults<dispatch::AttentionBackwardOp>(lowered, "sluice-form-dispatches"), 1)
        << spec;
  }
}

TEST(LoweredCausality, DetectsWrongMasksOfDifferentiation) {
  for (const char *spec : {"/models/tiny/hourglass.json", "/test/causality/causal/windows.json"}) {
    LoweredModel lowered(source + spec);
    lowered.run(createDifferentiate());
    // Without an earlier correct check: a pass's mistake is detected immediately.
    EXPECT_GT(injectMaskFaults<sluice::AttentionOp>(lowered, "sluice-differentiate"), 5) << spec;
    EXPECT_GT(injectMaskFaults<sluice::AttentionBackwardOp>(lowered, "sluice-differentiate"), 1)
        << spec;
    EXPECT_EQ(lowered.find("sluice-differentiate"), "");
  }
}

/// A window of 200 is longer than any walked length.
TEST(LoweredCausality, DetectsMaskThatDiffersOnlyAtLargeDistance) {
  std::string path = ::testing::TempDir() + "/sluice-lowered-window.json";
  std::error_code code;
  llvm::raw_fd_ostream(path, code) << R"json({"sluice": 1, "vocabulary": 8, "context": 512,
    "batch": 1, "width": 8, "defaults": {"heads": 1, "feed_forward": 8}, "stages": [
    {"op": "embedding"}, {"op": "layer", "mask": {"window": [0, 200]}}, {"op": "head"}]})json";
  LoweredModel lowered(path);
  lowered.formDispatches();
  EXPECT_GT(injectMaskFaults<dispatch::AttentionOp>(lowered, "sluice-form-dispatches"), 3);
  EXPECT_GT(injectMaskFaults<dispatch::AttentionBackwardOp>(lowered, "sluice-form-dispatches"), 1);
  std::filesystem::remove(path);
}

/// Injects faults into the select itself: a value taken at some rows is taken at all other rows, or
/// at all rows.
TEST(LoweredCausality, DetectsSelectsOfOtherRows) {
  LoweredModel lowered(source + "/test/causality/causal/replaced-last-rows.json");
  lowered.formDispatches();
  int injected = 0;
  lowered.module->walk([&](arith::SelectOp select) {
    if (!dispatch::findRowCondition(select.getCondition())) {
      return;
    }
    Value on = select.getTrueValue(), off = select.getFalseValue();
    select->setOperands({select.getCondition(), off, on});
    expectCaught(lowered, "sluice-form-dispatches", select, "a select of the other rows");
    if (on.getDefiningOp<arith::ConstantOp>() || off.getDefiningOp<arith::ConstantOp>()) {
      select->setOperands({select.getCondition(), on, off}); // an adjoint's
      ++injected;
      return;
    }
    ImplicitLocOpBuilder b(select.getLoc(), select);
    Value sum = arith::AddFOp::create(b, on, off);
    select->setOperands({select.getCondition(), sum, sum});
    expectCaught(lowered, "sluice-form-dispatches", select, "a sum in place of a select");
    select->setOperands({select.getCondition(), on, off});
    sum.getDefiningOp()->erase();
    ++injected;
  });
  EXPECT_GT(injected, 2);
  EXPECT_EQ(lowered.find("sluice-form-dispatches"), "");
}

class WrongMaps : public ::testing::TestWithParam<std::string> {};

TEST_P(WrongMaps, DetectDispatchErrors) {
  LoweredModel lowered(source + GetParam());
  lowered.formDispatches();
  int injected = 0;
  forEachAccess(*lowered.module, [&](Operation *op, AccessAttr access, auto inject) {
    for (int64_t by : {1, -1}) {
      // The position after the last is null at every length: nothing is read.
      bool readsLast = access.getMap().getValue().getResult(0).isFunctionOfSymbol(0);
      if (readsLast && by > 0) {
        continue;
      }
      std::unique_ptr<ScopedAttribute> mutant =
          inject(changed(access, by, access.getGroup(), access.getSourceFactor()));
      expectCaught(lowered, "sluice-form-dispatches", op, by > 0 ? "an index too far" : "too near");
      ++injected;
    }
  });
  EXPECT_GT(injected, 20);
}

namespace {

/// True if some row wrongly takes another row as null, or as valid.
bool guardMatters(Operation *op, AccessAttr access, int64_t other) {
  auto rows = [](int64_t length, int64_t factor) {
    return factor == 0 ? INT64_MAX : (length + factor - 1) / factor;
  };
  int64_t domain = op->getAttrOfType<dispatch::DomainAttr>("domain").getFactor();
  for (int64_t length = 1; length <= 64; ++length) {
    for (int64_t p = 0; p < (domain == 0 ? 1 : rows(length, domain)); ++p) {
      for (int64_t i = 0; i < access.getGroup(); ++i) {
        int64_t right = rows(length, access.getSourceFactor());
        int64_t q = reference::evaluateAffine(access.getMap().getValue().getResult(0), p, i, right);
        bool isRead = q >= 0 && q < right;
        bool wouldBe = q >= 0 && q < rows(length, other); // rows before the first are always zeros
        if (isRead != wouldBe) {
          return true;
        }
      }
    }
  }
  return false;
}

} // namespace

/// A guard that is dropped, or ends too late or too early, is detected wherever it matters.
TEST_P(WrongMaps, DetectGuardErrors) {
  LoweredModel lowered(source + GetParam());
  lowered.formDispatches();
  int injected = 0;
  forEachAccess(*lowered.module, [&](Operation *op, AccessAttr access, auto inject) {
    int64_t factor = access.getSourceFactor();
    for (int64_t other : {factor > 1 ? factor - 1 : 0, factor + 1}) {
      bool readsLast = access.getMap().getValue().getResult(0).isFunctionOfSymbol(0);
      if (factor == 0 || readsLast || !guardMatters(op, access, other)) {
        continue;
      }
      auto mutant = inject(changed(access, 0, access.getGroup(), other));
      expectCaught(lowered, "sluice-form-dispatches", op, "a guard of " + std::to_string(other));
      ++injected;
    }
  });
  EXPECT_GT(injected, 2);
}

INSTANTIATE_TEST_SUITE_P(LoweredCausality, WrongMaps,
                         ::testing::Values("/models/tiny/hourglass.json",
                                           "/models/tiny/nested.json",
                                           "/test/causality/causal/shift-on-coarse-scale.json",
                                           "/test/causality/causal/hourglass-at-once-linear.json",
                                           "/test/causality/causal/dropout.json"));

static bool isBackward(Operation *op) {
  auto begins = op->getParentOfType<func::FuncOp>().getOps<BeginBackwardOp>();
  return !begins.empty() && (*begins.begin())->isBeforeInBlock(op);
}

/// An adjoint that reads an earlier row's gradient than the forward shift allows. A later row's
/// gradient is allowed across attention: that row depends on this one.
TEST(LoweredCausality, DetectsWrongAdjoints) {
  for (const char *spec :
       {"/test/causality/causal/shift-on-coarse-scale.json",
        "/test/causality/causal/shift-after-upsample.json", "/models/tiny/hourglass.json"}) {
    LoweredModel lowered(source + spec);
    lowered.run(createDifferentiate());
    int injected = 0;
    auto gradient = lowered.module->lookupSymbol<func::FuncOp>("gradient");
    for (auto shift : gradient.getOps<ShiftOp>()) {
      if (isBackward(shift)) {
        int64_t by = static_cast<int64_t>(shift.getBy()) + 1;
        ScopedAttribute mutant(shift, "by", OpBuilder(shift).getI64IntegerAttr(by));
        expectCaught(lowered, "sluice-differentiate", shift, "an adjoint's shift");
        ++injected;
      }
    }
    EXPECT_GT(injected, 0) << spec;
    EXPECT_EQ(lowered.find("sluice-differentiate"), "");
  }
}

/// A forward map of the gradient function that differs from the evaluated one.
TEST(LoweredCausality, DetectsWrongForwardShifts) {
  LoweredModel lowered(source + "/models/tiny/hourglass.json");
  lowered.run(createDifferentiate());
  int injected = 0;
  for (auto shift : lowered.module->lookupSymbol<func::FuncOp>("gradient").getOps<ShiftOp>()) {
    for (int64_t by : {1, -1}) {
      if (!isBackward(shift)) {
        int64_t changed = static_cast<int64_t>(shift.getBy()) + by;
        ScopedAttribute mutant(shift, "by", OpBuilder(shift).getI64IntegerAttr(changed));
        expectCaught(lowered, "sluice-differentiate", shift, "a shift");
        ++injected;
      }
    }
  }
  EXPECT_GT(injected, 0);
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

namespace {

/// The same access at later rows.
AccessAttr moved(AccessAttr access, int64_t by) {
  AffineMap map = access.getMap().getValue();
  auto to = AffineMapAttr::get(AffineMap::get(2, 1, map.getResult(0) + by));
  return AccessAttr::get(access.getContext(), access.getKind(), to, access.getGroup(),
                         access.getSourceFactor(), access.getColumn(), access.getIndex(),
                         access.getOutside(), access.getLast(), access.getExtended());
}

/// Replaces an operand by another value for the lifetime of the object.
class Exchanged {
public:
  Exchanged(OpOperand &operand, Value other) : operand(operand), before(operand.get()) {
    operand.set(other);
  }
  ~Exchanged() { operand.set(before); }
  Exchanged(const Exchanged &) = delete;
  Exchanged &operator=(const Exchanged &) = delete;

private:
  OpOperand &operand;
  Value before;
};

/// Two segmentations of the tokens; the second contains the first.
std::string writeTwoCuts() {
  std::string path = ::testing::TempDir() + "/sluice-lowered-two-cuts.json";
  std::error_code code;
  llvm::raw_fd_ostream(path, code) << R"json({"sluice": 1, "vocabulary": 40, "context": 32,
    "batch": 1, "width": 4, "defaults": {"heads": 1, "feed_forward": 4}, "stages": [
    {"op": "embedding", "to": "x"},
    {"op": "boundaries", "name": "words", "rule": "whitespace"},
    {"op": "shorten", "segments": "words"}, {"op": "layer"},
    {"op": "upsample", "segments": "words"}, {"op": "add", "with": "x", "to": "y"},
    {"op": "boundaries", "name": "others", "predictor": 4, "prior": 0.5},
    {"op": "shorten", "segments": "others"}, {"op": "layer"},
    {"op": "upsample", "segments": "others"}, {"op": "add", "with": "y"}, {"op": "head"}]})json";
  return path;
}

} // namespace

TEST(LoweredSegments, DetectsWrongIndicesOfDifferentiation) {
  LoweredModel lowered(writeTwoCuts());
  lowered.run(createDifferentiate());
  int injected = 0;
  auto gradient = lowered.module->lookupSymbol<func::FuncOp>("gradient");
  gradient.walk([&](Operation *op) {
    if (isa<SpreadSegmentsOp, SpreadSegmentsBackwardOp>(op)) {
      for (int64_t by : {0, 2}) {
        ScopedAttribute mutant(op, "by", OpBuilder(op).getI64IntegerAttr(by));
        expectCaught(lowered, "sluice-differentiate", op, "a spread by " + std::to_string(by));
        ++injected;
      }
    }
    if (isa<PoolSegmentsOp, PoolSegmentsBackwardOp, PoolSegmentsBitsBackwardOp>(op)) {
      ScopedAttribute mutant(op, "starts", UnitAttr::get(op->getContext()));
      expectCaught(lowered, "sluice-differentiate", op, "a mean of the segment behind");
      ++injected;
    }
  });
  EXPECT_EQ(injected, 2 * 4 + 5); // of both; a rule's bits have no gradient
  EXPECT_EQ(lowered.find("sluice-differentiate"), "");
}

TEST(LoweredSegments, DetectsBoundariesOfOtherSegments) {
  LoweredModel lowered(writeTwoCuts());
  lowered.run(createDifferentiate());
  int injected = 0;
  for (const char *name : {"evaluate", "gradient"}) {
    auto function = lowered.module->lookupSymbol<func::FuncOp>(name);
    SmallVector<SegmentOp> cuts(function.getOps<SegmentOp>());
    ASSERT_EQ(cuts.size(), 2u);
    function.walk([&](SegmentsInterface op) {
      // The first must be defined before any use of the second, not vice versa.
      if (op.makesSegmentation() || op.getCounts() != cuts[1].getCounts()) {
        return;
      }
      unsigned counts = op->getNumOperands() - 2;
      Exchanged mutant(op->getOpOperand(counts), cuts[0].getCounts());
      Exchanged ends(op->getOpOperand(counts + 1), cuts[0].getEnds());
      expectCaught(lowered, "sluice-differentiate", op, "the words' boundaries");
      ++injected;
    });
  }
  EXPECT_EQ(injected, 2 + 5);
}

/// Row passes that read rows of sequences by index, with the operand number.
static void forEachFound(ModuleOp module, StringRef function,
                         llvm::function_ref<void(dispatch::RowsOp, unsigned, AccessAttr)> visit) {
  module.lookupSymbol(function)->walk([&](dispatch::RowsOp op) {
    for (unsigned i = 0; i < op.getInputs().size(); ++i) {
      AccessAttr access = op.getAccess(i);
      bool isTable = op.getInputs()[i].getDefiningOp<plan::BindOp>() != nullptr;
      bool isRows = cast<RankedTensorType>(op.getInputs()[i].getType()).getRank() == 3;
      bool isFound = access.getIndex() >= 0 || access.getLast() >= 0;
      if (isFound && isRows && !isTable && !op.getBody().getArgument(i).use_empty()) {
        visit(op, i, access);
      }
    }
  });
}

static ArrayAttr withAccess(dispatch::RowsOp op, unsigned number, AccessAttr access) {
  SmallVector<Attribute> all(op.getAccesses().getValue());
  all[number] = access;
  return ArrayAttr::get(op.getContext(), all);
}

class WrongIndices : public ::testing::TestWithParam<std::pair<const char *, const char *>> {
protected:
  WrongIndices() : lowered(source + "/test/causality/segments/" + GetParam().first) {
    lowered.formDispatches();
  }
  StringRef getFunction() const { return GetParam().second; }
  void expectCaughtWith(dispatch::RowsOp op, ArrayAttr accesses, const std::string &what) {
    ScopedAttribute mutant(op, "accesses", accesses);
    expectCaught(lowered, "sluice-form-dispatches", op, what);
    ++injected;
  }
  LoweredModel lowered;
  int injected = 0;
};

/// Results of an index or a range, one row too far and one too near. A range loses a row at one
/// end, and gains one at the other.
TEST_P(WrongIndices, DetectRowErrors) {
  forEachFound(*lowered.module, getFunction(),
               [&](dispatch::RowsOp op, unsigned i, AccessAttr access) {
                 for (int64_t by : {1, -1}) {
                   expectCaughtWith(op, withAccess(op, i, moved(access, by)),
                                    "rows " + std::to_string(by) + " away");
                 }
               });
  EXPECT_GE(injected, 4);
}

/// A range that begins at an earlier end, or ends at a later one.
TEST_P(WrongIndices, DetectEndErrors) {
  forEachFound(*lowered.module, getFunction(),
               [&](dispatch::RowsOp op, unsigned, AccessAttr access) {
                 for (auto [index, by] :
                      {std::pair(access.getIndex(), -1), std::pair(access.getLast(), 1)}) {
                   bool isEnd = access.getKind() == AccessKind::Range && index >= 0;
                   auto number = static_cast<unsigned>(std::max<int64_t>(index, 0));
                   if (isEnd && op.getAccess(number).getKind() == AccessKind::Row) {
                     expectCaughtWith(op, withAccess(op, number, moved(op.getAccess(number), by)),
                                      by < 0 ? "an earlier end" : "a later end");
                   }
                 }
               });
  EXPECT_GE(injected, 2);
}

/// Counts read one row away, and ends instead of counts.
TEST_P(WrongIndices, DetectCountErrors) {
  forEachFound(*lowered.module, getFunction(),
               [&](dispatch::RowsOp op, unsigned, AccessAttr access) {
                 auto number = static_cast<unsigned>(std::max<int64_t>(access.getIndex(), 0));
                 auto scan = op.getInputs()[number].getDefiningOp<dispatch::SegmentScanOp>();
                 if (!scan || op.getInputs()[number] != scan.getCounts()) {
                   return;
                 }
                 expectCaughtWith(op, withAccess(op, number, moved(op.getAccess(number), 1)),
                                  "a later count");
                 Exchanged mutant(op->getOpOperand(number), scan.getEnds());
                 expectCaught(lowered, "sluice-form-dispatches", op, "an end for a count");
               });
  EXPECT_GE(injected, 1);
}

// In a gradient of attention each row depends on all; bits reveal the values they are computed
// from.
INSTANTIATE_TEST_SUITE_P(
    LoweredSegments, WrongIndices,
    ::testing::Values(std::pair("words.json", "evaluate"), std::pair("words.json", "gradient"),
                      std::pair("phrases.json", "evaluate"), std::pair("phrases.json", "gradient"),
                      std::pair("starts.json", "gradient"), std::pair("attend.json", "evaluate"),
                      std::pair("maxima.json", "gradient")));
