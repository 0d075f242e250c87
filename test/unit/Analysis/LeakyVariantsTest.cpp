// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A leaky twin of every row of the papers, of models/small and of models/successors: the same model
// with a segment that tokens read one later, its first shift one less or, where neither is there,
// its first layer's keys one later; and each encoder-decoder with its target in place of the
// source. The check must refuse it, at a row that reads its target, and a
// replay must show that row change. LeakyVariants have the stages, scales and heads of their
// models, but one layer in place of several, and few columns.
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/Verdict.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <sstream>

using namespace mlir;
using namespace sluice;

namespace {

/// Lets one row of attention read one key after its last one.
void loosen(AttentionOp op) {
  IntegerSet mask = op.getMask();
  AffineExpr p = getAffineDimExpr(0, op.getContext()), q = getAffineDimExpr(1, op.getContext());
  SmallVector<AffineExpr> constraints;
  for (AffineExpr constraint : mask.getConstraints()) {
    constraints.push_back(constraint.replaceDims({p, q - 1}));
  }
  op.setMask(IntegerSet::get(2, 1, constraints, mask.getEqFlags()));
}

/// Returns false for numbers of rows: bits, chances and losses.
bool hasColumns(Operation *op) {
  return cast<SequenceType>(op->getResult(0).getType()).getWidth() > 1;
}

/// Changes the last read of a segment of predicted tokens that is over, else the first shift of 1
/// or more, else the first attention of the predicted tokens; names it. Shifts stay where rows are
/// replaced: only some of them are read.
std::string makeLeaky(func::FuncOp function, bool keepsShifts) {
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    auto spread = dyn_cast<SpreadSegmentsOp>(op);
    if (spread && spread.getBy() > 0 && hasColumns(spread) &&
        !isGiven(spread, spread.getCounts().getType())) {
      spread.setBy(spread.getBy() - 1);
      return "spread";
    }
  }
  for (Operation &op : function.getBody().front()) {
    auto by = isa<ShiftOp, StartOp>(op) ? op.getAttrOfType<IntegerAttr>("by") : IntegerAttr();
    if (!keepsShifts && by && by.getInt() > 0 && hasColumns(&op)) {
      op.setAttr("by", OpBuilder(&op).getI64IntegerAttr(by.getInt() - 1));
      return "shift";
    }
  }
  for (auto attention : function.getOps<AttentionOp>()) {
    if (!isGiven(attention, cast<SequenceType>(attention.getKey().getType()))) {
      loosen(attention);
      return "mask";
    }
  }
  for (auto attention : function.getOps<HashedAttentionOp>()) { // as published
    attention.setSorted(true);
    return "sorted";
  }
  return "";
}

/// Returns the spec of a file as a model that a replay can afford.
std::string reduced(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string spec = text.str();
  for (auto [what, with] :
       {std::pair(R"([1-9]\d*@)", "1@"),
        {R"("count": \d+)", R"("count": 1)"},
        {R"("layers": \[4, \[5, 22, 5\], 4\])", R"("layers": [1, [1, 1, 1], 1])"},
        {R"("width": \[1024, 1536\])", R"("width": [48, 48])"},
        {R"("heads": (16|24))", R"("heads": 4)"}, // rotary heads have an even size
        {R"("ngram_rows": \d+)", R"("ngram_rows": 8)"},
        {R"("buckets": \d+)", R"("buckets": 4, "chunk": 4)"},
        {R"("batch": \d+)", R"("batch": 2)"},
        {R"("context": \d{4,})", R"("context": 96)"},
        {R"("name": "(multiscale|hourglass|lsh|dynamic|umst|haed).*")", R"("name": "row")"},
        {R"("columns": \d+)", R"("columns": 8)"},
        {R"("extra_batches": \d+)", R"("extra_batches": 1)"},
        {R"("vocabulary": \d{5})", R"("vocabulary": 64)"},
        {R"(dropout": 0\.\d+)", R"(dropout": 0.5)"},
        {R"("prior": 0\.\d+)", R"("prior": 0.5)"},
        {R"("training": \{[^]*)", R"("training": {}})"},
        {R"("width": \d+)", R"("width": 48)"},
        {R"("feed_forward": \d+)", R"("feed_forward": 8)"}}) {
    spec = std::regex_replace(spec, std::regex(what), with);
  }
  bool hasInputs = spec.find("\"inputs\"") != std::string::npos; // whose contexts have no windows
  return hasInputs ? std::regex_replace(spec, std::regex(R"("context": \d+)"), R"("context": 24)")
                   : spec;
}

/// Rejects the variant with a replayed witness; returns the change, which the text has already or
/// is made in its model.
std::string rejectLeakyVariant(const std::filesystem::path &path, const std::string &text,
                               const std::string &made = "") {
  spec::Diagnostic error;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::optional<ParsedSpec> spec = parseSpec(context, text, path.string(), error);
  if (!spec) {
    ADD_FAILURE() << error.format();
    return "";
  }
  std::vector<ImportedVariant> variants = importVariants(*spec);
  std::string change = made; // with the largest factor alone, where several are drawn
  for (auto function : variants.back().module->getOps<func::FuncOp>()) {
    if (made.empty()) {
      change = makeLeaky(function, text.find("\"replace\"") != std::string::npos);
    }
  }
  CausalVerdict verdict = checkCausality(variants);
  EXPECT_EQ(verdict.refusedFactor, variants.back().factor) << path;
  EXPECT_EQ(verdict.kind, VerdictKind::Leak) << path << ": " << change << ": " << verdict.message;
  if (!verdict.witness) {
    ADD_FAILURE() << path << ": " << change << ": no witness";
    return change;
  }
  EXPECT_GT(verdict.witness->token, verdict.witness->row) << path;
  EXPECT_GT(verdict.witness->path.size(), 1U) << path;
  EXPECT_EQ(verdict.witness->replay, Replay::Changed)
      << path << ": " << formatReplay(*verdict.witness);
  return change;
}

} // namespace

TEST(LeakyVariants, RejectsLeakyVariantsAndProvesModels) {
  std::map<std::string, std::string> changes; // by the reduced spec: many rows differ only in sizes
  std::map<std::string, int> changed;
  for (const char *folder : {"/models/papers", "/models/small", "/models/successors"}) {
    for (const auto &entry :
         std::filesystem::directory_iterator(std::string(SLUICE_SOURCE_DIR) + folder)) {
      spec::Diagnostic error;
      MLIRContext context(MLIRContext::Threading::DISABLED);
      std::optional<ParsedSpec> spec = parseSpecFile(context, entry.path().string(), error);
      ASSERT_TRUE(spec) << error.format();
      EXPECT_TRUE(checkCausality(importVariants(*spec)).isProved()) << entry.path();
      std::string text = reduced(entry.path());
      if (!changes.contains(text)) {
        changes[text] = rejectLeakyVariant(entry.path(), text);
      }
      ++changed[changes[text]];
      // The decoder reads the whole target in place of the encoder's rows.
      std::string target =
          std::regex_replace(text, std::regex(R"("key": "memory", "value": "memory")"),
                             R"("key": "target", "value": "target", "mask": "bidirectional")");
      if (target != text && !changes.contains(target)) {
        changes[target] = rejectLeakyVariant(entry.path(), target, "target");
        ++changed["target"];
      }
    }
  }
  EXPECT_GT(changes.size(), 50U);
  EXPECT_GT(changed["shift"], 50);
  EXPECT_GT(changed["mask"], 10);
  EXPECT_GT(changed["spread"], 4);
  EXPECT_GT(changed["target"], 15);
  EXPECT_EQ(changed["sorted"], 1);
  EXPECT_EQ(changed[""], 0) << "a row without shift and attention";
}
