// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles all faults of a function into one program, which selects a fault by a number at run
// time: one compilation, not one per fault.
#include "Mutations.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;
using namespace sluice::mutation;
using Fault = sluice::mutation::Operator;

namespace {

class FaultInjector {
public:
  explicit FaultInjector(Function &function) : function(function) {
    for (Instruction &instruction : instructions(function)) {
      unsigned operands = instruction.getNumOperands();
      sites.push_back({&instruction,
                       operands > 1 ? dyn_cast<ConstantInt>(instruction.getOperand(1)) : nullptr});
    }
    addArgument();
  }
  void inject(const Mutation &mutation, uint64_t number);

private:
  void addArgument();
  Value *isChosen(Instruction *before) {
    IRBuilder<> builder(before);
    return builder.CreateICmpEQ(chosen, builder.getInt64(number));
  }
  /// Replaces `without`, at `before`.
  Value *choose(Value *with, Value *without, Instruction *before) {
    Value *condition = isChosen(before);
    return SelectInst::Create(condition, with, without, "", before->getIterator());
  }
  void replaceResult(Instruction &instruction, Value *with);
  void shiftConstant(Instruction &instruction, ConstantInt &constant, unsigned variant);
  void shiftBound(ICmpInst &compare, unsigned variant);
  void removeCall(Instruction &instruction);
  void waitForLess(CallInst &call);
  void resizeCopy(CallInst &call, bool isWhole);

  Function &function;
  struct Site {
    Instruction *instruction;
    ConstantInt *constant; ///< operand 1, if there is one
  };
  std::vector<Site> sites; ///< by their original numbers
  Value *chosen = nullptr;
  uint64_t number = 0; ///< of the current fault
};

} // namespace

/// A new function takes the body, the name and the arguments of the old one, which becomes empty.
void FaultInjector::addArgument() {
  SmallVector<Type *> types(function.getFunctionType()->params());
  types.push_back(Type::getInt64Ty(function.getContext()));
  auto *type = FunctionType::get(function.getReturnType(), types, false);
  auto *made = Function::Create(type, function.getLinkage(), function.getAddressSpace(), "",
                                function.getParent());
  made->copyAttributesFrom(&function);
  made->copyMetadata(&function, 0);
  made->splice(made->begin(), &function);
  for (auto [old, argument] : zip(function.args(), made->args())) {
    old.replaceAllUsesWith(&argument);
  }
  made->takeName(&function);
  chosen = made->getArg(made->arg_size() - 1);
}

/// `with` is available at the instruction.
void FaultInjector::replaceResult(Instruction &instruction, Value *with) {
  Value *result = choose(with, &instruction, instruction.getNextNode());
  instruction.replaceUsesWithIf(result, [&](Use &use) { return use.getUser() != result; });
}

/// Operand 1, one less (variant 0) or one more.
void FaultInjector::shiftConstant(Instruction &instruction, ConstantInt &constant,
                                  unsigned variant) {
  APInt one(constant.getBitWidth(), 1);
  APInt value = variant ? constant.getValue() + one : constant.getValue() - one;
  instruction.dropPoisonGeneratingFlags();
  Value *shifted = ConstantInt::get(constant.getType(), value);
  instruction.setOperand(1, choose(shifted, instruction.getOperand(1), &instruction));
}

/// Compared with a value: includes or excludes the bound itself; the other variant moves it
/// further.
void FaultInjector::shiftBound(ICmpInst &compare, unsigned variant) {
  IRBuilder<> builder(&compare);
  Value *bound = compare.getOperand(1);
  CmpInst::Predicate predicate = compare.getPredicate();
  compare.dropPoisonGeneratingFlags();
  if (variant == 0) {
    predicate = compare.isNonStrictPredicate() ? compare.getStrictPredicate()
                                               : compare.getNonStrictPredicate();
  } else if (bound->getType()->isIntegerTy()) {
    bound = builder.CreateAdd(bound, ConstantInt::get(bound->getType(), 2));
  }
  replaceResult(compare, builder.CreateICmp(predicate, compare.getOperand(0), bound));
}

/// For an instruction without a result.
void FaultInjector::removeCall(Instruction &instruction) {
  IRBuilder<> builder(&instruction);
  Value *stays = builder.CreateICmpNE(chosen, builder.getInt64(number));
  instruction.moveBefore(
      SplitBlockAndInsertIfThen(stays, instruction.getIterator(), false)->getIterator());
}

/// The number of groups is a constant of the instruction.
void FaultInjector::waitForLess(CallInst &call) {
  if (call.arg_size() != 1) {
    return removeCall(call);
  }
  Instruction *fault = nullptr, *rest = nullptr;
  SplitBlockAndInsertIfThenElse(isChosen(&call), call.getIterator(), &fault, &rest);
  auto *pending = cast<ConstantInt>(call.getArgOperand(0));
  auto *other = cast<CallInst>(call.clone());
  other->setArgOperand(0, ConstantInt::get(pending->getType(), pending->getZExtValue() + 1));
  other->insertBefore(fault->getIterator());
  call.moveBefore(rest->getIterator());
}

void FaultInjector::resizeCopy(CallInst &call, bool isWhole) {
  StringRef name = call.getCalledFunction()->getName(); // ... .16.s
  int64_t bytes = 0;
  name.drop_back(2).rsplit('.').second.getAsInteger(10, bytes);
  Value *size = call.getArgOperand(2);
  call.setArgOperand(2,
                     choose(ConstantInt::get(size->getType(), isWhole ? bytes : 0), size, &call));
}

void FaultInjector::inject(const Mutation &mutation, uint64_t as) {
  number = as;
  Instruction &site = *sites[mutation.instruction].instruction;
  ConstantInt *constant = sites[mutation.instruction].constant;
  unsigned variant = mutation.variant;
  switch (mutation.op) {
  case Fault::RemoveBarrier:
  case Fault::RemoveCommit:
  case Fault::RemoveFence:
    return removeCall(site);
  case Fault::WaitForLess:
    return waitForLess(cast<CallInst>(site));
  case Fault::CopyWhole:
  case Fault::CopyNothing:
    return resizeCopy(cast<CallInst>(site), mutation.op == Fault::CopyWhole);
  case Fault::ShiftBound:
    return constant ? shiftConstant(site, *constant, variant)
                    : shiftBound(cast<ICmpInst>(site), variant);
  case Fault::ShiftStage:
  case Fault::ShiftArrival:
    return shiftConstant(site, *constant, variant);
  case Fault::ForceCondition: {
    auto *select = dyn_cast<SelectInst>(&site);
    return replaceResult(site, !select   ? site.getOperand(variant)
                               : variant ? select->getTrueValue()
                                         : select->getFalseValue());
  }
  case Fault::RemoveClamp:
    return replaceResult(site, site.getOperand(isa<Constant>(site.getOperand(0)) ? 1 : 0));
  }
}

void sluice::mutation::injectAll(Module &module, ArrayRef<Mutation> mutations) {
  FaultInjector injector(*module.getFunction(mutations.front().function));
  for (const auto &[i, mutation] : enumerate(mutations)) {
    injector.inject(mutation, i + 1);
  }
}
