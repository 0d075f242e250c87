// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "PairedValue.h"

#include "llvm/IR/Instructions.h"

#include <optional>

using namespace llvm;
using namespace sluice::mutation;

static std::optional<uint64_t> apply(Instruction::BinaryOps op, const APInt &a, const APInt &b) {
  switch (op) {
  case Instruction::Add:
    return (a + b).getZExtValue();
  case Instruction::Sub:
    return (a - b).getZExtValue();
  case Instruction::Mul:
    return (a * b).getZExtValue();
  case Instruction::And:
    return (a & b).getZExtValue();
  case Instruction::Or:
    return (a | b).getZExtValue();
  case Instruction::Xor:
    return (a ^ b).getZExtValue();
  case Instruction::Shl:
    return a.shl(b).getZExtValue();
  case Instruction::LShr:
    return a.lshr(b).getZExtValue();
  case Instruction::AShr:
    return a.ashr(b).getZExtValue();
  default:
    break;
  }
  if (b.isZero()) {
    return std::nullopt;
  }
  switch (op) {
  case Instruction::UDiv:
    return a.udiv(b).getZExtValue();
  case Instruction::URem:
    return a.urem(b).getZExtValue();
  case Instruction::SDiv:
    return a.sdiv(b).getZExtValue();
  case Instruction::SRem:
    return a.srem(b).getZExtValue();
  default:
    return std::nullopt;
  }
}

static std::optional<APInt> extreme(Intrinsic::ID id, const APInt &a, const APInt &b) {
  switch (id) {
  case Intrinsic::smin:
    return APIntOps::smin(a, b);
  case Intrinsic::smax:
    return APIntOps::smax(a, b);
  case Intrinsic::umin:
    return APIntOps::umin(a, b);
  case Intrinsic::umax:
    return APIntOps::umax(a, b);
  default:
    return std::nullopt;
  }
}

Both sluice::mutation::binary(Instruction::BinaryOps op, unsigned width, Both a, Both b) {
  if ((op == Instruction::And || op == Instruction::Mul) && (a.is(0) || b.is(0))) {
    return Both::constant(0);
  }
  if (op == Instruction::Or && width == 1 && (a.is(1) || b.is(1))) {
    return Both::constant(1);
  }
  if (!a.known || !b.known || width == 0 || width > 64) {
    return Both::unknown(a.same && b.same);
  }
  auto before = apply(op, APInt(width, a.before), APInt(width, b.before));
  auto after = apply(op, APInt(width, a.after), APInt(width, b.after));
  return before && after ? Both::of(*before, *after) : Both::unknown(a.same && b.same);
}

Both sluice::mutation::compare(CmpInst::Predicate predicate, unsigned width, Both a, Both b) {
  if (!a.known || !b.known || width == 0 || width > 64) {
    return Both::unknown(a.same && b.same);
  }
  return Both::of(ICmpInst::compare(APInt(width, a.before), APInt(width, b.before), predicate),
                  ICmpInst::compare(APInt(width, a.after), APInt(width, b.after), predicate));
}

Both sluice::mutation::clamp(Intrinsic::ID id, unsigned width, Both a, Both b) {
  if (!a.known || !b.known || width == 0 || width > 64) {
    return Both::unknown(a.same && b.same);
  }
  auto before = extreme(id, APInt(width, a.before), APInt(width, b.before));
  auto after = extreme(id, APInt(width, a.after), APInt(width, b.after));
  return before && after ? Both::of(before->getZExtValue(), after->getZExtValue())
                         : Both::unknown(a.same && b.same);
}
