// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Checkers.h"
#include "CheckersModule.h"
#include "Enumeration.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/ProveModel.h"

#include <stdexcept>

using namespace mlir;
using namespace sluice;
using namespace sluice::fuzz;

namespace {
/// Functions whose losses are trained or evaluated, by the mode's name in a verdict.
constexpr std::pair<const char *, const char *> modes[] = {{"eval", "evaluate"},
                                                           {"train", "train"}};
} // namespace

static std::string describe(StringRef mode, const Violation &violation) {
  std::string row = "row " + std::to_string(violation.row) + " of " +
                    std::to_string(violation.length) + " tokens (" + mode.str() + ") ";
  return violation.token < 0 ? row + "is another one than before the sequence grew"
                             : row + "reads token " + std::to_string(violation.token);
}

/// Results of the library's walk. Slower than the enumeration, so it skips lengths where there are
/// many.
static bool walkFindsLeak(func::FuncOp function, int64_t longest) {
  constexpr int64_t dense = 24;
  for (int64_t length = 1; length <= longest; length += length < dense ? 1 : 11) {
    if (findLeakAt(function, length, /*missing=*/true)) {
      return true;
    }
  }
  return false;
}

static void compareWithEnumeration(StringRef mode, func::FuncOp function, CheckerResults &results) {
  int64_t longest = std::min(longestToEnumerate(function), mostEnumerated);
  results.longest = std::max(results.longest, longest);
  std::optional<Violation> violation = enumerateViolation(function, longest);
  auto disagree = [&](const std::string &what) { results.disagreements.push_back(what); };
  const CausalVerdict &verdict = results.verdict;
  if (violation) {
    results.leaks = true;
    if (llvm::is_contained(verdict.modes, mode)) {
      disagree("proved, but " + describe(mode, *violation));
    }
  }
  bool walked = walkFindsLeak(function, longest);
  if (walked != violation.has_value()) {
    disagree(walked ? "the library's walk finds a leak and enumeration none (" + mode.str() + ")"
                    : "the library's walk finds no leak, but " + describe(mode, *violation));
  }
  if (verdict.witness && verdict.refusedMode == mode) {
    const CausalWitness &witness = *verdict.witness;
    if (!rowDependsOn(function, witness.length, witness.row, witness.token)) {
      disagree("the witness is false: row " + std::to_string(witness.row) + " of " +
               std::to_string(witness.length) + " does not depend on token " +
               std::to_string(witness.token));
    }
  }
}

CheckerResults fuzz::runCheckers(ModuleOp module, bool replay) {
  CheckerResults results;
  results.verdict = checkCausality(module, replay);
  results.misaligned =
      results.verdict.kind == VerdictKind::Misaligned || results.verdict.refusedMode == "generate";
  for (auto [mode, name] : modes) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function) {
      continue;
    }
    compareWithEnumeration(mode, function, results);
  }
  if (results.verdict.kind == VerdictKind::Leak && !results.leaks && !results.misaligned) {
    results.disagreements.push_back("a leak, but enumeration finds none up to length " +
                                    std::to_string(results.longest) + ": " +
                                    results.verdict.message);
  }
  if (results.verdict.kind == VerdictKind::NotProved && !results.leaks && !results.misaligned) {
    results.disagreements.push_back("not proved, and enumeration finds no leak: " +
                                    results.verdict.message);
  }
  return results;
}

OwningOpRef<ModuleOp> fuzz::importText(MLIRContext &context, const std::string &text,
                                       const std::string &file) {
  spec::Diagnostic error;
  std::optional<ParsedSpec> spec = parseSpec(context, text, file, error);
  if (!spec) {
    throw std::runtime_error(error.format() + "\n" + text);
  }
  return importSpec(*spec);
}

bool fuzz::isValidSpec(const std::string &text) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  spec::Diagnostic error;
  return parseSpec(context, text, "spec.json", error).has_value();
}

CheckerResults fuzz::runCheckersOnSpec(const std::string &text, const std::string &file,
                                       bool replay) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = importText(context, text, file);
  return runCheckers(*module, replay);
}

OwningOpRef<ModuleOp> fuzz::parseModel(MLIRContext &context, const std::string &text,
                                       const std::string &file) {
  context.loadDialect<SluiceDialect, dispatch::DispatchDialect, func::FuncDialect,
                      arith::ArithDialect, math::MathDialect>();
  return parseSourceString<ModuleOp>(text, ParserConfig(&context), file);
}

CheckerResults fuzz::runCheckersOnIR(const std::string &text, const std::string &file,
                                     bool replay) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = parseModel(context, text, file);
  if (!module) {
    llvm::report_fatal_error(llvm::Twine(file) + ": not model IR");
  }
  return runCheckers(*module, replay);
}

std::string fuzz::importToText(const std::string &text, const std::string &file) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::string ir;
  llvm::raw_string_ostream(ir) << *importText(context, text, file);
  return ir;
}
