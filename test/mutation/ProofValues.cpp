// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values with and without the fault, at one assignment of their variables.
#include "Proof.h"

#include "llvm/IR/IntrinsicInst.h"

#include <utility>

using namespace llvm;
using namespace sluice::mutation;

static unsigned getSequenceWidth(const Value *value) {
  return value->getType()->isIntegerTy() ? value->getType()->getIntegerBitWidth() : 0;
}

Both Proof::number(Variable::Kind kind, const void *of) {
  for (auto [i, variable] : enumerate(variables)) {
    if (variable.kind == kind && variable.of == of) {
      used |= 1ull << i;
      return Both::constant(uint64_t(point[i]));
    }
  }
  return Both::unknown(true);
}

bool Proof::isCurrent(const KnownValue &known) const {
  uint64_t rest = known.variables;
  for (size_t i = 0; rest != 0; ++i, rest >>= 1) {
    if ((rest & 1) != 0 && changed[i] > known.stamp) {
      return false;
    }
  }
  return known.stamp >= begun;
}

Both Proof::get(const Value *value) {
  if (const auto *constant = dyn_cast<ConstantInt>(value)) {
    return constant->getBitWidth() <= 64 ? Both::constant(constant->getZExtValue())
                                         : Both::unknown(true);
  }
  const auto *instruction = dyn_cast<Instruction>(value);
  if (!instruction) {
    return Both::unknown(true);
  }
  KnownValue &known = memo[value];
  if (!isCurrent(known)) {
    uint64_t outer = std::exchange(used, 0);
    Both computed = instruction == &site ? computeSite(instruction) : compute(instruction);
    memo[value] = {stamp, used, computed}; // computing may have moved it
    used |= outer;
    ++steps;
    return computed;
  }
  used |= known.variables;
  return known.value;
}

Both Proof::computeSelect(const Instruction *instruction, Both condition, Both yes, Both no) {
  if (!condition.known) {
    return Both::unknown(condition.same && yes.same && no.same);
  }
  if (condition.same) {
    return condition.before ? yes : no;
  }
  if (!yes.known || !no.known) {
    return Both::unknown(false);
  }
  return Both::of(condition.before ? yes.before : no.before,
                  condition.after ? yes.after : no.after);
}

/// In a loop's header: the initial value, a constant, or the count of a step. Elsewhere unknown.
Both Proof::computePhi(const PHINode *phi) {
  const Loop *loop = loops.getLoopFor(phi->getParent());
  bool isHeader = loop && loop->getHeader() == phi->getParent();
  if (!isHeader) {
    bool same = true;
    for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i) {
      const BasicBlock *from = phi->getIncomingBlock(i);
      same &= get(phi->getIncomingValue(i)).same || !isTaken(from, phi->getParent()) ||
              !isReached(from);
    }
    return Both::unknown(same);
  }
  const BasicBlock *latch = loop->getLoopLatch();
  if (!latch || phi->getNumIncomingValues() != 2) {
    return Both::unknown(none_of(phi->incoming_values(), [&](const Use &use) {
      const auto *from = dyn_cast<Instruction>(use.get());
      return from && affected.contains(from);
    }));
  }
  if (isFree(phi)) {
    return number(Variable::Free, phi);
  }
  const Value *next = phi->getIncomingValueForBlock(latch);
  unsigned entry = phi->getIncomingBlock(0) == latch ? 1 : 0;
  Both first = get(phi->getIncomingValue(entry));
  const auto *nextInstruction = dyn_cast<Instruction>(next);
  bool nextSame = !nextInstruction || !affected.contains(nextInstruction);
  Both iteration = number(Variable::Iteration, loop);
  unsigned width = getSequenceWidth(phi);
  bool isStep = mutation.op == Operator::ShiftStage && next == &site;
  if ((nextSame || isStep) && iteration.known && first.known && width > 0 && width <= 64) {
    if (iteration.before == 0) {
      return first;
    }
    if (const auto *constant = dyn_cast<ConstantInt>(next)) {
      return Both::constant(constant->getZExtValue());
    }
    const auto *add = dyn_cast<BinaryOperator>(next);
    const auto *step = add ? dyn_cast<ConstantInt>(add->getOperand(1)) : nullptr;
    if (step && add->getOpcode() == Instruction::Add && add->getOperand(0) == phi) {
      APInt count(width, iteration.before), other = step->getValue();
      other += isStep ? (mutation.variant ? 1 : -1) : 0;
      Both moved =
          Both::of((count * step->getValue()).getZExtValue(), (count * other).getZExtValue());
      return binary(Instruction::Add, width, first, moved);
    }
  }
  return Both::unknown(first.same && nextSame);
}

Both Proof::compute(const Instruction *instruction) {
  if (auto kind = findSource(instruction)) {
    return number(*kind);
  }
  if (isa<LoadInst>(instruction)) {
    return number(Variable::Free, instruction);
  }
  if (const auto *phi = dyn_cast<PHINode>(instruction)) {
    return computePhi(phi);
  }
  bool isFollowed = instruction->getType()->isIntegerTy() && isPure(instruction);
  if (!affected.contains(instruction) && !isFollowed) {
    return Both::unknown(true); // the same, since the sinks before it agree
  }
  SmallVector<Both, 4> operands;
  bool same = true;
  for (const Value *operand : instruction->operands()) {
    operands.push_back(get(operand));
    same &= operands.back().same;
  }
  unsigned width = getSequenceWidth(instruction);
  if (const auto *op = dyn_cast<BinaryOperator>(instruction)) {
    return binary(op->getOpcode(), width, operands[0], operands[1]);
  }
  if (const auto *icmp = dyn_cast<ICmpInst>(instruction)) {
    return compare(icmp->getPredicate(), getSequenceWidth(icmp->getOperand(0)), operands[0],
                   operands[1]);
  }
  if (isa<SelectInst>(instruction)) {
    return computeSelect(instruction, operands[0], operands[1], operands[2]);
  }
  if (isa<FreezeInst>(instruction)) {
    return operands[0];
  }
  unsigned from = instruction->getNumOperands() ? getSequenceWidth(instruction->getOperand(0)) : 0;
  bool isCast = isa<ZExtInst, SExtInst, TruncInst>(instruction);
  if (isCast && operands[0].known && from > 0 && from <= 64 && width > 0 && width <= 64) {
    auto cast = [&](uint64_t value) {
      APInt number(from, value);
      return (isa<SExtInst>(instruction) ? number.sextOrTrunc(width) : number.zextOrTrunc(width))
          .getZExtValue();
    };
    return Both::of(cast(operands[0].before), cast(operands[0].after));
  }
  if (const auto *call = dyn_cast<IntrinsicInst>(instruction)) {
    if (operands.size() >= 2) {
      Both clamped = clamp(call->getIntrinsicID(), width, operands[0], operands[1]);
      return clamped.known ? clamped : Both::unknown(same);
    }
  }
  return Both::unknown(same);
}

/// A select that always takes one side; one side of a conjunction or disjunction without the other.
Both Proof::computeForced(const Instruction *instruction, Both before) {
  Both after;
  bool isTaken = false;
  if (isa<SelectInst>(instruction)) {
    after = get(instruction->getOperand(mutation.variant ? 1 : 2));
    isTaken = get(instruction->getOperand(0)).is(mutation.variant);
  } else {
    after = get(instruction->getOperand(mutation.variant));
    bool neutral = instruction->getOpcode() == Instruction::And;
    isTaken = get(instruction->getOperand(1 - mutation.variant)).is(neutral);
  }
  if (before.known && after.known) {
    return Both::of(before.before, after.after);
  }
  return Both::unknown(isTaken && after.same);
}

/// The instruction without and with the fault, as `inject` creates it.
Both Proof::computeSite(const Instruction *instruction) {
  Both before = compute(instruction);
  auto with = [&](Both after) {
    return before.known && after.known ? Both::of(before.before, after.after)
                                       : Both::unknown(false);
  };
  unsigned width = getSequenceWidth(instruction->getOperand(0));
  if (width == 0 || width > 64) {
    return mutation.op == Operator::ForceCondition ? computeForced(instruction, before)
                                                   : Both::unknown(false);
  }
  auto moved = [&](uint64_t by) {
    return binary(Instruction::Add, width, get(instruction->getOperand(1)), Both::constant(by));
  };
  switch (mutation.op) {
  case Operator::ShiftBound: {
    const auto *icmp = cast<ICmpInst>(instruction);
    Both left = get(icmp->getOperand(0));
    if (isa<ConstantInt>(icmp->getOperand(1))) {
      return with(compare(icmp->getPredicate(), width, left,
                          moved(mutation.variant ? 1 : ~0ull >> (64 - width))));
    }
    if (mutation.variant == 1) {
      return with(compare(icmp->getPredicate(), width, left, moved(2)));
    }
    CmpInst::Predicate other = icmp->isNonStrictPredicate()
                                   ? ICmpInst::getStrictPredicate(icmp->getPredicate())
                                   : ICmpInst::getNonStrictPredicate(icmp->getPredicate());
    return with(compare(other, width, left, get(icmp->getOperand(1))));
  }
  case Operator::ForceCondition:
    return computeForced(instruction, before);
  case Operator::RemoveClamp:
    return with(get(instruction->getOperand(isa<Constant>(instruction->getOperand(0)) ? 1 : 0)));
  case Operator::ShiftStage:
    return with(binary(cast<BinaryOperator>(instruction)->getOpcode(), width,
                       get(instruction->getOperand(0)),
                       moved(mutation.variant ? 1 : ~0ull >> (64 - width))));
  default:
    return Both::unknown(false);
  }
}
