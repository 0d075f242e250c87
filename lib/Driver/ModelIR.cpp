// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks model IR from a file beyond the parser and the ops' verifiers.
#include "ModelIR.h"
#include "sluice/Dialect/Sluice/AttentionColumns.h"
#include "sluice/Dialect/Sluice/Fusion.h"
#include "sluice/Support/Files.h"
#include "sluice/Support/Limits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace sluice;

/// Returns the error of a module attribute that is missing or of another kind; empty if there is
/// none. `verifyModel` and `verifyTraining` check the rest.
static std::string findAttributeMistake(ModuleOp module) {
  for (StringRef name : {"sluice.vocabulary", "sluice.width", "sluice.seed"}) {
    Attribute found = module->getAttr(name);
    auto attribute = dyn_cast_or_null<IntegerAttr>(found);
    bool isSeed = name == "sluice.seed";
    int64_t least = isSeed ? 0 : name == "sluice.vocabulary" ? 2 : 1;
    bool fits =
        attribute && attribute.getType().isSignlessInteger(64) && attribute.getInt() >= least;
    if (!fits || (!isSeed && attribute.getInt() > mostSize)) {
      return "expected the module attribute " + name.str() + ", an i64 of at least " +
             std::to_string(least) + (isSeed ? "" : " and below 2^31") + ", found " +
             (found ? "another value" : "none");
    }
  }
  if (!getFact<SluiceDialect::NameAttrHelper>(module)) {
    return "expected the module attribute sluice.name, a string, found none";
  }
  return "";
}

/// Returns a verifier's message about `module`, with its place if an op has one.
static std::string findMistake(ModuleOp module) {
  std::string mistake;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream stream(mistake);
    if (auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
        place && diagnostic.getLocation() != module.getLoc()) {
      stream << "at " << place.getFilename().getValue() << ":" << place.getLine() << ":"
             << place.getColumn() << ": ";
    }
    stream << diagnostic;
    return success();
  });
  if (failed(verifyModel(module)) || failed(verifyTraining(module))) {
    return mistake;
  }
  mistake = findAttributeMistake(module);
  for (StringRef name : {"evaluate", "predict"}) {
    if (mistake.empty() && !module.lookupSymbol<func::FuncOp>(name)) {
      mistake = "expected a function @" + name.str() + ", found none";
    }
  }
  return mistake;
}

bool driver::isStoredNowhere(Value sequence) {
  return isa_and_nonnull<ShiftOp, UpsampleOp>(sequence.getDefiningOp());
}

static std::string findUncompilableAttention(func::FuncOp function) {
  for (auto attention : function.getOps<AttentionOp>()) {
    Value query = attention.getQuery(), key = attention.getKey(), value = attention.getValue();
    if ((query == key || query == value) && (key != value || query != key)) {
      return "attention whose queries are packed with keys or values alone is checked, but not "
             "compiled yet; pack all three side by side, or none with queries";
    }
    if (!fillsSequences(attention)) {
      return "attention whose queries, keys and values do not fill their sequences, each column "
             "one "
             "of them, is checked, but not compiled yet; give each columns of its own";
    }
    if (llvm::any_of(ValueRange{query, key, value}, driver::isStoredNowhere)) {
      return "attention over a shifted or upsampled sequence is checked, but not compiled yet; put "
             "a norm or a map between";
    }
    if (attention.getRotary() &&
        !(query.getDefiningOp<LinearOp>() && canRotateWhereMade(attention))) {
      return "attention whose rotated queries and keys are not the first columns, queries first, "
             "of "
             "a linear map that it alone reads is checked, but not compiled yet; give it one";
    }
    auto table = attention.getRotary() ? cast<RankedTensorType>(attention.getRotary().getType())
                                       : RankedTensorType();
    int64_t positions = getPositions(attention, attention.getQuery().getType());
    if (table && table.getDimSize(0) < positions) {
      return "expected a table of angles for " + std::to_string(positions) +
             " positions, found one of " + std::to_string(table.getDimSize(0));
    }
  }
  return "";
}

/// Returns the error of inputs that cannot be compiled: the first argument must be the tokens, and
/// the others the tokens and streams of given axes.
static std::string findUncompilableInputs(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    bool isGiven = isa<SequenceType>(argument.getType()) && findInputTokens(argument);
    if (!isa<SequenceType>(argument.getType()) || isGiven != (argument.getArgNumber() > 0)) {
      return "@" + function.getSymName().str() +
             ": models of several inputs are compiled where the first is the tokens that are "
             "predicted, and each other has the tokens or a stream of a given axis; check alone "
             "takes others";
    }
  }
  return "";
}

std::string driver::findUncompilable(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    SmallVector<CrossEntropyOp> losses = llvm::to_vector(function.getOps<CrossEntropyOp>());
    auto objectives = llvm::to_vector(function.getOps<ObjectiveOp>());
    if (objectives.size() > 1 || (objectives.empty() && losses.size() > 1)) {
      return "@" + function.getSymName().str() + ": expected one sluice.objective of " +
             std::to_string(losses.size()) + " losses, found " + std::to_string(objectives.size()) +
             "; specify what training minimizes";
    }
    for (CrossEntropyOp loss : losses) {
      if (loss.getOffset() > 1) {
        return "@" + function.getSymName().str() +
               ": a loss against a token after the next is checked, but not compiled yet; use "
               "offset 1";
      }
    }
    std::string inputs = findUncompilableInputs(function);
    if (!inputs.empty()) {
      return inputs;
    }
    std::string why = findUncompilableAttention(function);
    if (!why.empty()) {
      return "@" + function.getSymName().str() + ": " + why;
    }
  }
  return "";
}

bool driver::isModelIR(StringRef path) { return path.ends_with(".mlir"); }

OwningOpRef<ModuleOp> driver::readModelIR(MLIRContext &context, const std::string &path,
                                          std::string &text, std::string &mistake) {
  text = readText(path, "model IR");
  context.loadDialect<SluiceDialect, dispatch::DispatchDialect, func::FuncDialect,
                      arith::ArithDialect, math::MathDialect>();
  std::string diagnostics;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(diagnostics) << diagnostic.getLocation() << ": " << diagnostic << "\n";
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context), path);
  if (!module) {
    mistake = "expected model IR as --emit model prints it, found " + diagnostics;
    return {};
  }
  std::string found = findMistake(*module);
  if (!found.empty()) {
    mistake = path + ": " + found + "; start from --emit model";
    return {};
  }
  return module;
}
