// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small model for tests of reach sets, advice and pictures.
#pragma once

#include "../Specs.h"
#include "sluice/Explain/Advice.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Support/WorkBudget.h"

namespace sluice::test {

/// A model of `stages` between an embedding named x and a head.
struct Imported {
  explicit Imported(const std::string &stages, int64_t capacity = 512) {
    std::string text = R"({"sluice": 1, "vocabulary": 7, "context": )" + std::to_string(capacity) +
                       R"(, "batch": 1, "width": 4,
  "defaults": {"heads": 2, "feed_forward": 4}, "stages": [
    { "op": "embedding", "to": "x" },
)" + stages + "\n    { \"op\": \"head\" }]}";
    spec = parseValidSpec(context, text);
    module = importSpec(spec);
  }
  mlir::func::FuncOp evaluate() { return module->lookupSymbol<mlir::func::FuncOp>("evaluate"); }
  CrossEntropyOp loss() { return getLossOps(evaluate()).front(); }
  CausalVerdict check(int64_t operations = 10 * WorkBudget::defaultOperations) {
    CausalVerdict verdict = checkCausality(*module, /*replay=*/false);
    if (verdict.isProved()) {
      findAdvice(*module, verdict, {&spec, operations});
    }
    return verdict;
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  ParsedSpec spec;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

inline bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace sluice::test
