// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A leaky twin of every row of the papers: the same model with its first shift one less or, where
// nothing is shifted, with its first layer's keys one later. The check must refuse it, at a row
// that reads its target.
#include "sluice/Analysis/CausalFlow.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Transforms/ImportSpec.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace mlir;
using namespace sluice;

namespace {

/// One row of attention reads one key more, behind the last that it read.
void loosen(AttentionOp op) {
  IntegerSet mask = op.getMask();
  AffineExpr p = getAffineDimExpr(0, op.getContext()), q = getAffineDimExpr(1, op.getContext());
  SmallVector<AffineExpr> constraints;
  for (AffineExpr constraint : mask.getConstraints()) {
    constraints.push_back(constraint.replaceDims({p, q - 1}));
  }
  op.setMask(IntegerSet::get(2, 1, constraints, mask.getEqFlags()));
}

/// Changes the first shift of 1 or more, else the first attention; says which.
std::string makeLeaky(func::FuncOp function) {
  for (Operation &op : function.getBody().front()) {
    auto by = isa<ShiftOp, StartOp>(op) ? op.getAttrOfType<IntegerAttr>("by") : IntegerAttr();
    if (by && by.getInt() > 0) {
      op.setAttr("by", OpBuilder(&op).getI64IntegerAttr(by.getInt() - 1));
      return "shift";
    }
  }
  for (auto attention : function.getOps<AttentionOp>()) {
    loosen(attention);
    return "mask";
  }
  return "";
}

} // namespace

TEST(Twins, OfThePapersRowsAreRefusedAndTheyAreProved) {
  std::map<std::string, int> changed;
  for (const auto &entry :
       std::filesystem::directory_iterator(SLUICE_SOURCE_DIR "/models/papers")) {
    spec::Diagnostic error;
    std::optional<spec::Model> model = spec::readFile(entry.path().string(), error);
    ASSERT_TRUE(model) << error.format();
    MLIRContext context(MLIRContext::Threading::DISABLED);
    std::vector<ImportedVariant> variants = importVariants(context, *model);
    EXPECT_TRUE(checkCausality(variants, /*replay=*/false).isProved()) << entry.path();
    std::string change; // with the largest factor alone, where several are drawn
    for (auto function : variants.back().module->getOps<func::FuncOp>()) {
      change = makeLeaky(function);
    }
    ++changed[change];
    CausalVerdict verdict = checkCausality(variants, /*replay=*/false);
    EXPECT_EQ(verdict.refusedFactor, variants.back().factor) << entry.path();
    EXPECT_EQ(verdict.kind, CausalVerdict::Kind::Leak) << entry.path() << ": " << change;
    ASSERT_TRUE(verdict.witness) << entry.path() << ": " << change;
    EXPECT_GT(verdict.witness->token, verdict.witness->row) << entry.path();
    EXPECT_GT(verdict.witness->path.size(), 1U) << entry.path();
  }
  EXPECT_GT(changed["shift"], 50);
  EXPECT_GT(changed["mask"], 10);
  EXPECT_EQ(changed[""], 0) << "a row without shift and attention";
}
