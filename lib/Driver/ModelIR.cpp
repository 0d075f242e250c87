// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Model IR from a file: what the parser and the ops' verifiers leave open is checked here.
#include "ModelIR.h"
#include "sluice/Dialect/Sluice/AttentionColumns.h"
#include "sluice/Dialect/Sluice/Fusion.h"
#include "sluice/Runtime/Files.h"
#include "sluice/Runtime/Limits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include <cmath>

using namespace mlir;
using namespace sluice;

/// A module attribute that is missing or of another kind; empty if there is none.
static std::string findAttributeMistake(ModuleOp module) {
  for (StringRef name :
       {"sluice.batch", "sluice.context", "sluice.vocabulary", "sluice.width", "sluice.seed"}) {
    auto attribute = module->getAttrOfType<IntegerAttr>(name);
    bool isSeed = name == "sluice.seed";
    int64_t least = isSeed ? 0 : name == "sluice.vocabulary" ? 2 : 1;
    constexpr int64_t most = mostSize + 1;
    bool fits =
        attribute && attribute.getType().isSignlessInteger(64) && attribute.getInt() >= least;
    if (!fits || (!isSeed && attribute.getInt() >= most)) {
      return "expected the module attribute " + name.str() + ", an i64 of at least " +
             std::to_string(least) + (isSeed ? "" : " and below 2^31") + ", found " +
             (module->hasAttr(name) ? "another value" : "none");
    }
  }
  if (!module->getAttrOfType<StringAttr>("sluice.name")) {
    return "expected the module attribute sluice.name, a string, found none";
  }
  auto training = module->getAttrOfType<DictionaryAttr>("sluice.training");
  for (StringRef name : {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay", "clip",
                         "warmup", "steps", "floor"}) {
    if (!training || !training.getAs<FloatAttr>(name)) {
      return "expected the number " + name.str() +
             " in the module attribute sluice.training, found none";
    }
  }
  for (StringRef name :
       {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay", "clip", "floor"}) {
    auto held = static_cast<float>(training.getAs<FloatAttr>(name).getValueAsDouble());
    bool fits = std::isfinite(held) && held >= 0 && (!name.starts_with("beta") || held < 1) &&
                (name != "epsilon" || held > 0);
    if (!fits) {
      return "expected the number " + name.str() +
             " in the module attribute sluice.training to fit f32 and its range (docs/spec.md), "
             "found another";
    }
  }
  for (StringRef name : {"optimizer", "schedule"}) {
    if (!training.getAs<StringAttr>(name)) {
      return "expected the text " + name.str() +
             " in the module attribute sluice.training, found none";
    }
  }
  return "";
}

/// Weights must fill their parameter: a plan gives each its own bytes of it.
static bool isFilled(ParameterOp parameter) {
  auto type = dyn_cast<RankedTensorType>(parameter.getType());
  if (!type || !type.hasStaticShape() || type.getRank() == 0 ||
      parameter.getNames().size() != parameter.getSizes().size()) {
    return false;
  }
  int64_t rest = type.getDimSize(0);
  for (int64_t size : parameter.getSizes()) {
    if (size < 0 || size > rest) {
      return false;
    }
    rest -= size;
  }
  return rest == 0;
}

/// Sizes, factors and shifts stay below this, as in specs.
constexpr int64_t largestSize = mostSize + 1;

static bool hasLargeConstant(IntegerSet set) {
  bool large = false;
  for (AffineExpr constraint : set.getConstraints()) {
    constraint.walk([&](AffineExpr part) {
      auto constant = dyn_cast<AffineConstantExpr>(part);
      large |=
          constant && (constant.getValue() >= largestSize || constant.getValue() <= -largestSize);
    });
  }
  return large;
}

/// A scale or parameter that is used and not defined, or defined otherwise; empty if there is none.
static std::string findSymbolMistake(ModuleOp module) {
  std::string mistake;
  auto at = [](Operation *op) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << "at ";
    if (auto place = op->getLoc()->findInstanceOf<FileLineColLoc>()) {
      stream << place.getFilename().getValue() << ":" << place.getLine() << ":"
             << place.getColumn();
    } else {
      stream << op->getLoc();
    }
    stream << ": ";
    return text;
  };
  auto checkType = [&](Operation *op, Type type) {
    auto sequence = dyn_cast<SequenceType>(type);
    if (sequence && (sequence.getWidth() < 0 || sequence.getWidth() >= largestSize)) {
      mistake = at(op) + "expected a width from 0 to below 2^31, found " +
                std::to_string(sequence.getWidth());
    }
    if (sequence && !SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, sequence.getScale())) {
      mistake = at(op) + "expected a defined scale, found @" + sequence.getScale().getValue().str();
    }
  };
  module.walk([&](Operation *op) {
    llvm::for_each(op->getResultTypes(), [&](Type type) { checkType(op, type); });
    if (auto func = dyn_cast<func::FuncOp>(op)) {
      llvm::for_each(func.getArgumentTypes(), [&](Type type) { checkType(op, type); });
    }
    if (auto parameter = dyn_cast<ParameterOp>(op); parameter && !isFilled(parameter)) {
      mistake = at(op) +
                "expected a static shape, and names and sizes that fill its first dimension, of "
                "parameter @" +
                parameter.getSymName().str();
    }
    if (auto loss = dyn_cast<CrossEntropyOp>(op); loss && int64_t(loss.getOffset()) < 0) {
      mistake = at(op) + "expected a target offset of at least 0, found " +
                std::to_string(int64_t(loss.getOffset()));
    }
    auto scale = dyn_cast<ScaleOp>(op);
    auto shift = dyn_cast<ShiftOp>(op);
    auto attention = dyn_cast<AttentionOp>(op);
    if ((scale && int64_t(scale.getFactor()) >= largestSize) ||
        (shift && std::abs(int64_t(shift.getBy())) >= largestSize) ||
        (attention && hasLargeConstant(attention.getMask()))) {
      mistake = at(op) + "expected factors, shifts and a mask's constants below 2^31";
    }
    if (auto embed = dyn_cast<EmbedOp>(op); embed && !isa<BlockArgument>(embed.getTokens())) {
      mistake = at(op) + "expected tokens as the function is given them, found the result of " +
                embed.getTokens().getDefiningOp()->getName().getStringRef().str() +
                "; embed them first";
    }
    if (auto loss = dyn_cast<CrossEntropyOp>(op); loss && !isa<BlockArgument>(loss.getTokens())) {
      mistake = at(op) + "expected targets as the function is given them, found the result of " +
                loss.getTokens().getDefiningOp()->getName().getStringRef().str() +
                "; move targets by the offset";
    }
    if (auto read = dyn_cast<ReadOp>(op)) {
      auto parameter =
          SymbolTable::lookupNearestSymbolFrom<ParameterOp>(op, read.getParameterAttr());
      auto type = cast<RankedTensorType>(read.getValue().getType());
      // A trained parameter may be read as bf16.
      bool isCopy = parameter && !parameter.getFrozen() && type.getElementType().isBF16();
      Type master = isCopy ? Type(type.clone(Float32Type::get(op->getContext()))) : Type(type);
      if (!parameter || parameter.getType() != master) {
        mistake = at(op) + "expected a parameter of the type that is read, found @" +
                  read.getParameter().str();
      }
    }
    return mistake.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  for (StringRef name : {"evaluate", "predict"}) {
    if (mistake.empty() && !module.lookupSymbol<func::FuncOp>(name)) {
      mistake = "expected a function @" + name.str() + ", found none";
    }
  }
  return mistake;
}

static std::string findMistake(ModuleOp module) {
  std::string mistake = findAttributeMistake(module);
  return mistake.empty() ? findSymbolMistake(module) : mistake;
}

static bool isStoredNowhere(Value sequence) {
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
    if (llvm::any_of(ValueRange{query, key, value}, isStoredNowhere)) {
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

std::string driver::findUncompilable(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    SmallVector<CrossEntropyOp> losses = llvm::to_vector(function.getOps<CrossEntropyOp>());
    if (losses.size() > 1) {
      return "@" + function.getSymName().str() +
             ": models of several losses are checked, but not compiled yet; leave one";
    }
    for (CrossEntropyOp loss : losses) {
      if (loss.getOffset() > 1) {
        return "@" + function.getSymName().str() +
               ": a loss against a token after the next is checked, but not compiled yet; use "
               "offset 1";
      }
    }
    if (function.getNumArguments() > 1) {
      return "@" + function.getSymName().str() +
             ": models of several inputs are checked, but not compiled yet; leave one";
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
  text = runtime::readText(path, "model IR");
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
