// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maximum iteration counts of loops.
#include "Proof.h"

#include "llvm/IR/PatternMatch.h"

#include <utility>

using namespace llvm;
using namespace sluice::mutation;

int64_t Proof::countIterations(const Loop *loop) {
  constexpr unsigned most = 4096;
  if (!loop || !loop->getLoopPreheader() || !loop->getLoopLatch()) {
    return 0;
  }
  unsigned bound = evolution.getSmallConstantMaxTripCount(loop);
  if (bound > 0 && bound <= most) {
    return bound;
  }
  auto [found, isNew] = iterations.try_emplace(loop, 0);
  if (isNew) {
    int64_t searched = searchIterations(loop);
    iterations[loop] = searched;
    return searched;
  }
  return found->second; // 0 during the search
}

/// True if a loop that counts by ones and exits at a number has reached it in the last `count`
/// iterations.
bool Proof::hasCome(const BranchInst *end, bool leaves, int64_t count) {
  const auto *compare = dyn_cast<ICmpInst>(end->getCondition());
  const auto *next = compare ? dyn_cast<BinaryOperator>(compare->getOperand(0)) : nullptr;
  auto leaving = leaves ? CmpInst::ICMP_EQ : CmpInst::ICMP_NE;
  if (!next || compare->getPredicate() != leaving || next->getOpcode() != Instruction::Add ||
      !isa<PHINode>(next->getOperand(0)) || !match(next->getOperand(1), PatternMatch::m_One())) {
    return false;
  }
  Both passed = binary(Instruction::Sub, next->getType()->getIntegerBitWidth(), get(next),
                       get(compare->getOperand(1)));
  return passed.known && passed.same && passed.before < uint64_t(count);
}

/// The minimum number of iterations after which the loop exits, over every entry, or 0.
int64_t Proof::searchIterations(const Loop *loop) {
  constexpr int64_t most = 64;
  const auto *branch = dyn_cast<BranchInst>(loop->getLoopLatch()->getTerminator());
  if (!branch || !branch->isConditional() ||
      loop->contains(branch->getSuccessor(0)) == loop->contains(branch->getSuccessor(1))) {
    return 0;
  }
  bool leaves = !loop->contains(branch->getSuccessor(0)), isKnown = true;
  const BasicBlock *preheader = loop->getLoopPreheader();
  const auto *node = tree.getNode(preheader)->getIDom();
  const auto *guard = node ? dyn_cast<BranchInst>(node->getBlock()->getTerminator()) : nullptr;
  std::vector<Variable> before = std::exchange(variables, {});
  int64_t result = 0;
  for (int64_t count = 1; count <= most && result == 0 && isKnown; ++count) {
    variables.clear();
    addVariable(Variable::Iteration, count - 1, 1, loop);
    SetVector<const Value *> work;
    work.insert(branch->getCondition());
    if (guard && guard->isConditional()) {
      work.insert(guard->getCondition());
    }
    collectSources(work);
    bool isLast = holdsEverywhere([&] {
      Both ends = get(branch->getCondition());
      isKnown &= ends.known && ends.same;
      return isKnown && ((ends.before != 0) == leaves || hasCome(branch, leaves, count) ||
                         !isReached(preheader));
    });
    result = isLast ? count : 0;
  }
  variables = std::move(before);
  return result;
}
