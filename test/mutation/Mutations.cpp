// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sites of faults.
#include "Mutations.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace sluice::mutation;

namespace {

/// The operators of one instruction, each with its number of variants.
using Sites = SmallVector<std::pair<Operator, unsigned>>;

bool isBoolean(const Value *value) { return value->getType()->isIntegerTy(1); }

/// True if a condition consists only of floating-point comparisons: it selects a number's value,
/// not which numbers are read or written.
bool isOfNumbers(const Value *condition) {
  if (isa<FCmpInst>(condition)) {
    return true;
  }
  const auto *binary = dyn_cast<BinaryOperator>(condition);
  auto isConstant = [](const Value *value) { return isa<Constant>(value); };
  return binary && !all_of(binary->operands(), isConstant) &&
         all_of(binary->operands(),
                [&](const Use &operand) { return isConstant(operand) || isOfNumbers(operand); });
}

/// True if `value` reaches a phi through selects only: a loop carries it.
bool isCarried(const Value &value) {
  return any_of(value.users(), [](const User *user) {
    return isa<PHINode>(user) || (isa<SelectInst>(user) && any_of(user->users(), [](const User *u) {
                                    return isa<PHINode>(u);
                                  }));
  });
}

bool isAsyncCopy(StringRef name) { return name.starts_with("llvm.nvvm.cp.async.c"); }

/// The copy operand with the number of bytes, or -1.
int sizeOperand(const CallInst &call) {
  StringRef name = call.getCalledFunction()->getName();
  return isAsyncCopy(name) && name.ends_with(".s") && !isa<Constant>(call.getArgOperand(2)) ? 2
                                                                                            : -1;
}

Sites sitesOfCall(const CallInst &call) {
  const Function *callee = call.getCalledFunction();
  if (!callee) {
    return {};
  }
  StringRef name = callee->getName();
  if (name.starts_with("llvm.nvvm.barrier") || name.starts_with("llvm.nvvm.bar.warp.sync")) {
    return {{Operator::RemoveBarrier, 1}};
  }
  if (name == "llvm.nvvm.cp.async.commit.group") {
    return {{Operator::RemoveCommit, 1}};
  }
  if (name.starts_with("llvm.nvvm.cp.async.wait")) {
    return {{Operator::WaitForLess, 1}};
  }
  if (sizeOperand(call) >= 0) {
    return {{Operator::CopyWhole, 1}, {Operator::CopyNothing, 1}};
  }
  switch (callee->getIntrinsicID()) {
  case Intrinsic::smin:
  case Intrinsic::smax:
  case Intrinsic::umin:
  case Intrinsic::umax:
    return {{Operator::RemoveClamp, 1}};
  default:
    return {};
  }
}

Sites findSites(const Instruction &instruction) {
  if (const auto *call = dyn_cast<CallInst>(&instruction)) {
    return sitesOfCall(*call);
  }
  if (const auto *compare = dyn_cast<ICmpInst>(&instruction)) {
    bool isConstant = isa<ConstantInt>(compare->getOperand(1));
    return compare->isEquality() && !isConstant ? Sites{} : Sites{{Operator::ShiftBound, 2}};
  }
  if (const auto *select = dyn_cast<SelectInst>(&instruction)) {
    bool isSite = isBoolean(select->getCondition()) && !isOfNumbers(select->getCondition());
    return isSite ? Sites{{Operator::ForceCondition, 2}} : Sites{};
  }
  if (isa<FenceInst>(instruction)) {
    return {{Operator::RemoveFence, 1}};
  }
  if (const auto *update = dyn_cast<AtomicRMWInst>(&instruction)) {
    bool counts = isa<ConstantInt>(update->getValOperand());
    return counts ? Sites{{Operator::ShiftArrival, 2}} : Sites{};
  }
  const auto *binary = dyn_cast<BinaryOperator>(&instruction);
  if (!binary) {
    return {};
  }
  if (isBoolean(binary)) {
    bool joins = binary->getOpcode() == Instruction::And || binary->getOpcode() == Instruction::Or;
    return joins && !isOfNumbers(binary) ? Sites{{Operator::ForceCondition, 2}} : Sites{};
  }
  bool isConstant = isa<ConstantInt>(binary->getOperand(1));
  switch (binary->getOpcode()) {
  case Instruction::URem:
  case Instruction::SRem:
    return isConstant ? Sites{{Operator::ShiftStage, 2}} : Sites{};
  case Instruction::Add:
  case Instruction::And:
    return isConstant && isCarried(*binary) ? Sites{{Operator::ShiftStage, 2}} : Sites{};
  default:
    return {};
  }
}

} // namespace

StringRef sluice::mutation::name(Operator op) {
  switch (op) {
  case Operator::RemoveBarrier:
    return "barrier removed";
  case Operator::RemoveCommit:
    return "commit removed";
  case Operator::WaitForLess:
    return "wait for less";
  case Operator::CopyWhole:
    return "copy not cut";
  case Operator::CopyNothing:
    return "nothing copied";
  case Operator::ShiftBound:
    return "bound shifted";
  case Operator::ForceCondition:
    return "condition forced";
  case Operator::RemoveClamp:
    return "clamp removed";
  case Operator::ShiftStage:
    return "stage shifted";
  case Operator::RemoveFence:
    return "fence removed";
  case Operator::ShiftArrival:
    return "arrivals miscounted";
  }
  llvm_unreachable("an operator without a name");
}

std::vector<Mutation> sluice::mutation::listMutations(Module &module) {
  std::vector<Mutation> result;
  for (Function &function : module) {
    unsigned number = 0;
    for (Instruction &instruction : instructions(function)) {
      for (auto [op, variants] : findSites(instruction)) {
        for (unsigned variant = 0; variant < variants; ++variant) {
          Mutation mutation{op, function.getName().str(), number, variant, ""};
          raw_string_ostream(mutation.text) << instruction;
          result.push_back(std::move(mutation));
        }
      }
      ++number;
    }
  }
  return result;
}
