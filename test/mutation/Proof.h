// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Proof that an injected fault is equivalent: the values that depend on it, with the fault and
// without.
#pragma once

#include "Equivalence.h"
#include "PairedValue.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/DemandedBits.h"
#include "llvm/Analysis/LazyValueInfo.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Instructions.h"

#include <optional>

namespace sluice::mutation {

/// The operand with the number of bytes that a copy reads, if it has one.
llvm::Value *sizeOfCopy(const llvm::Instruction *instruction);

class Proof {
public:
  Proof(llvm::Function &function, llvm::Instruction &site, const Mutation &mutation,
        const Space &space)
      : function(function), site(site), mutation(mutation), space(space), tree(function),
        loops(tree), assumptions(function), names(getTriple(function)), library(names),
        evolution(function, library, assumptions, tree, loops),
        demanded(function, assumptions, tree),
        ranges(&assumptions, &function.getParent()->getDataLayout()) {}

  bool succeeds();

private:
  struct Variable {
    enum Kind { Block, Thread, Length, Rows, Iteration, Free } kind;
    const void *of; ///< the loop, the load or phi, or null
    int64_t first, count;
  };

  static llvm::Triple getTriple(const llvm::Function &function) {
    return llvm::Triple(function.getParent()->getTargetTriple());
  }
  void collectAffected();
  void collectVariables(bool withPaths);
  void collectSources(llvm::SetVector<const llvm::Value *> work);
  bool holdsEverywhere(llvm::function_ref<bool()> holds);
  void addSource(Variable::Kind kind);
  void addVariable(Variable::Kind kind, int64_t first, int64_t count, const void *of = nullptr);
  int64_t countValues(const llvm::Instruction *load);
  bool isFree(const llvm::PHINode *phi) const;
  void addFree(const llvm::PHINode *phi);
  int64_t countIterations(const llvm::Loop *loop);
  int64_t searchIterations(const llvm::Loop *loop);
  bool hasCome(const llvm::BranchInst *end, bool leaves, int64_t count);
  std::optional<Variable::Kind> findSource(const llvm::Instruction *instruction) const;

  bool isPure(const llvm::Instruction *instruction) const;
  bool isLastOfCopies();
  bool agrees(const llvm::Instruction *sink);
  bool isReached(const llvm::BasicBlock *block);
  bool isTaken(const llvm::BasicBlock *from, const llvm::BasicBlock *to);

  Both get(const llvm::Value *value);
  Both compute(const llvm::Instruction *instruction);
  Both computeSite(const llvm::Instruction *instruction);
  Both computeForced(const llvm::Instruction *instruction, Both before);
  Both computePhi(const llvm::PHINode *phi);
  Both computeSelect(const llvm::Instruction *instruction, Both condition, Both yes, Both no);
  Both number(Variable::Kind kind, const void *of = nullptr);

  llvm::Function &function;
  llvm::Instruction &site;
  const Mutation &mutation;
  Space space;
  llvm::DominatorTree tree;
  llvm::LoopInfo loops;
  llvm::AssumptionCache assumptions;
  llvm::TargetLibraryInfoImpl names;
  llvm::TargetLibraryInfo library;
  llvm::ScalarEvolution evolution;
  llvm::DemandedBits demanded;
  llvm::LazyValueInfo ranges;

  llvm::SetVector<const llvm::Instruction *> affected, sinks;
  std::vector<Variable> variables;
  std::vector<int64_t> point;
  /// A value computed only from the variables of a set: constant until one of them changes.
  struct KnownValue {
    uint64_t stamp = 0, variables = 0;
    Both value;
  };
  bool isCurrent(const KnownValue &known) const;
  llvm::DenseMap<const llvm::Value *, KnownValue> memo;
  uint64_t stamp = 0, used = 0;  ///< now; variables of the value being computed
  std::vector<uint64_t> changed; ///< when each variable did
  uint64_t begun = 0;            ///< when these variables were taken
  uint64_t steps = 0;            ///< of all computed values
  llvm::DenseMap<const llvm::Loop *, int64_t> iterations;
};

} // namespace sluice::mutation
