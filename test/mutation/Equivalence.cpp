// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Proof.h"

#include "llvm/IR/InstIterator.h"

using namespace llvm;
using namespace sluice::mutation;

Value *sluice::mutation::sizeOfCopy(const Instruction *instruction) {
  const auto *call = dyn_cast<CallInst>(instruction);
  const Function *callee = call ? call->getCalledFunction() : nullptr;
  bool isCopy = callee && callee->getName().starts_with("llvm.nvvm.cp.async.c") &&
                callee->getName().ends_with(".s");
  return isCopy ? call->getArgOperand(2) : nullptr;
}

static bool isPureCall(const CallInst *call) {
  return !call->getType()->isVoidTy() && call->doesNotAccessMemory() && !call->isConvergent();
}

bool Proof::isPure(const Instruction *instruction) const {
  if (const auto *call = dyn_cast<CallInst>(instruction)) {
    return isPureCall(call);
  }
  return !instruction->isTerminator() && !instruction->mayReadOrWriteMemory();
}

/// Effects of the fault, and their readers.
void Proof::collectAffected() {
  SmallVector<const Instruction *> work{&site};
  while (!work.empty()) {
    const Instruction *instruction = work.pop_back_val();
    if (!isPure(instruction)) {
      sinks.insert(instruction);
      continue;
    }
    if (affected.insert(instruction)) {
      for (const User *user : instruction->users()) {
        work.push_back(cast<Instruction>(user));
      }
    }
  }
}

/// `length` and `rows` are loaded from arena + arguments[n].
std::optional<Proof::Variable::Kind> Proof::findSource(const Instruction *instruction) const {
  if (const auto *call = dyn_cast<CallInst>(instruction)) {
    StringRef name = call->getCalledFunction() ? call->getCalledFunction()->getName() : "";
    if (name == "llvm.nvvm.read.ptx.sreg.ctaid.x") {
      return Variable::Block;
    }
    return name == "llvm.nvvm.read.ptx.sreg.tid.x" ? std::optional(Variable::Thread) : std::nullopt;
  }
  const auto *load = dyn_cast<LoadInst>(instruction);
  const auto *scalar = load ? dyn_cast<GetElementPtrInst>(load->getPointerOperand()) : nullptr;
  if (!scalar || function.arg_size() != 2 || scalar->getPointerOperand() != function.getArg(0) ||
      scalar->getNumIndices() != 1) {
    return std::nullopt;
  }
  const auto *offset = dyn_cast<LoadInst>(*scalar->idx_begin());
  if (!offset) {
    return std::nullopt;
  }
  APInt bytes(64, 0);
  const Value *base = offset->getPointerOperand()->stripAndAccumulateConstantOffsets(
      function.getParent()->getDataLayout(), bytes, true);
  if (base != function.getArg(1)) {
    return std::nullopt;
  }
  uint64_t length = space.scalars * 8;
  return bytes == length       ? std::optional(Variable::Length)
         : bytes == length + 8 ? std::optional(Variable::Rows)
                               : std::nullopt;
}

void Proof::addVariable(Variable::Kind kind, int64_t first, int64_t count, const void *of) {
  if (none_of(variables, [&](const Variable &v) { return v.kind == kind && v.of == of; })) {
    variables.push_back({kind, of, first, count});
  }
}

/// For a loaded number whose lowest bits alone matter: their maximum count. Else 0.
int64_t Proof::countValues(const Instruction *load) {
  constexpr uint64_t most = 1023;
  if (!isa<LoadInst>(load) || !load->getType()->isIntegerTy() ||
      load->getType()->getIntegerBitWidth() > 64) {
    return 0;
  }
  APInt bits = demanded.getDemandedBits(const_cast<Instruction *>(load));
  return bits.isMask() && bits.ule(most) ? int64_t(bits.getZExtValue()) + 1 : 0;
}

/// True if a loop carries a number that is not a counter, such as the index of a tile with skipped
/// tiles, and that no fault changes: it may have any value of its range.
bool Proof::isFree(const PHINode *phi) const {
  const Loop *loop = loops.getLoopFor(phi->getParent());
  const BasicBlock *latch = loop ? loop->getLoopLatch() : nullptr;
  if (!latch || loop->getHeader() != phi->getParent() || !phi->getType()->isIntegerTy() ||
      phi->getType()->getIntegerBitWidth() > 64) {
    return false;
  }
  const auto *next = dyn_cast<Instruction>(phi->getIncomingValueForBlock(latch));
  bool isCount = next && next->getOpcode() == Instruction::Add && next->getOperand(0) == phi;
  return next && !isCount && !affected.contains(phi);
}

/// True if a number is composed of constants and nonnegative sums, over any number of iterations.
static bool onlyGrows(const PHINode *phi) {
  SetVector<const Value *> work;
  work.insert(phi);
  for (size_t i = 0; i < work.size(); ++i) {
    const auto *constant = dyn_cast<ConstantInt>(work[i]);
    const auto *add = dyn_cast<BinaryOperator>(work[i]);
    if (constant && !constant->isNegative()) {
      continue;
    }
    if (!isa<PHINode>(work[i]) &&
        !(add && add->getOpcode() == Instruction::Add && add->hasNoSignedWrap())) {
      return false;
    }
    for (const Value *operand : cast<Instruction>(work[i])->operands()) {
      work.insert(operand);
    }
  }
  return true;
}

void Proof::addFree(const PHINode *phi) {
  constexpr uint64_t most = 4096;
  const Loop *loop = loops.getLoopFor(phi->getParent());
  auto *value = const_cast<PHINode *>(phi);
  Instruction *at = loop->contains(&site) ? &site : value->getParent()->getTerminator();
  ConstantRange range = ranges.getConstantRange(value, at, /*UndefAllowed=*/false);
  if (onlyGrows(phi)) {
    unsigned width = phi->getType()->getIntegerBitWidth();
    range = range.intersectWith({APInt::getZero(width), APInt::getSignedMinValue(width)});
  }
  APInt size = range.getUpper() - range.getLower();
  if (!range.isFullSet() && !range.isWrappedSet() && size.ule(most)) {
    addVariable(Variable::Free, int64_t(range.getLower().getZExtValue()),
                int64_t(size.getZExtValue()), phi);
  }
}

/// Values with dependent sinks or, with paths, branches before a sink.
void Proof::collectVariables(bool withPaths) {
  SetVector<const Value *> work;
  auto addPath = [&](const Instruction *to) {
    if (!withPaths) {
      return;
    }
    for (const auto *node = tree.getNode(to->getParent()); node; node = node->getIDom()) {
      const auto *branch = dyn_cast<BranchInst>(node->getBlock()->getTerminator());
      const Loop *loop = loops.getLoopFor(node->getBlock());
      bool isOver = loop && !loop->contains(to->getParent()); // has no information left
      if (branch && branch->isConditional() && !isOver) {
        work.insert(branch->getCondition());
      }
    }
  };
  work.insert(&site);
  for (const Instruction *sink : sinks) {
    addPath(sink);
    if (const Value *size = sizeOfCopy(sink)) {
      work.insert(size);
    }
  }
  for (const Instruction *instruction : affected) {
    work.insert(instruction);
    const auto *phi = dyn_cast<PHINode>(instruction);
    for (const BasicBlock *from : phi ? phi->blocks() : ArrayRef<BasicBlock *>()) {
      addPath(from->getTerminator());
      const auto *branch = dyn_cast<BranchInst>(from->getTerminator());
      withPaths && branch && branch->isConditional() ? void(work.insert(branch->getCondition()))
                                                     : void();
    }
  }
  collectSources(work);
}

/// Operands of the values in `work`.
void Proof::collectSources(SetVector<const Value *> work) {
  for (size_t i = 0; i < work.size(); ++i) {
    const auto *instruction = dyn_cast<Instruction>(work[i]);
    if (!instruction) {
      continue;
    }
    if (auto kind = findSource(instruction)) {
      addSource(*kind);
      continue;
    }
    if (int64_t values = countValues(instruction)) {
      addVariable(Variable::Free, 0, values, instruction);
      continue;
    }
    bool isFollowed = instruction->getType()->isIntegerTy() && isPure(instruction);
    if (!affected.contains(instruction) && !isFollowed && instruction != &site) {
      continue;
    }
    const auto *phi = dyn_cast<PHINode>(instruction);
    if (phi && isFree(phi)) {
      addFree(phi);
      continue;
    }
    const Loop *loop = loops.getLoopFor(instruction->getParent());
    int64_t iterations = phi ? countIterations(loop) : 0;
    if (iterations > 0 && loop->getHeader() == instruction->getParent()) {
      addVariable(Variable::Iteration, 0, iterations, loop);
    }
    for (const Value *operand : instruction->operands()) {
      work.insert(operand);
    }
  }
}

void Proof::addSource(Variable::Kind kind) {
  bool counts = kind == Variable::Length || kind == Variable::Rows;
  addVariable(kind, counts ? 1 : 0,
              kind == Variable::Block    ? space.blocks
              : kind == Variable::Thread ? space.threads
              : kind == Variable::Length ? space.lengths
                                         : space.rows);
}

/// True if every branch to a block takes its edge, as far as known.
bool Proof::isReached(const BasicBlock *block) {
  const Loop *around = loops.getLoopFor(block);
  for (const auto *node = tree.getNode(block)->getIDom(); node; node = node->getIDom()) {
    const auto *branch = dyn_cast<BranchInst>(node->getBlock()->getTerminator());
    const Loop *loop = loops.getLoopFor(node->getBlock());
    bool sameIteration = !loop || (around && loop->contains(around));
    if (!branch || !branch->isConditional() || !sameIteration ||
        branch->getSuccessor(0) == branch->getSuccessor(1)) {
      continue;
    }
    for (unsigned way : {0u, 1u}) {
      BasicBlockEdge edge(node->getBlock(), branch->getSuccessor(way));
      if (!tree.dominates(edge, block)) {
        continue;
      }
      Both condition = get(branch->getCondition());
      if (condition.known && condition.same && (condition.before != 0) != (way == 0)) {
        return false;
      }
    }
  }
  return true;
}

/// True if the end of `from` may branch to `to`.
bool Proof::isTaken(const BasicBlock *from, const BasicBlock *to) {
  const auto *branch = dyn_cast<BranchInst>(from->getTerminator());
  if (!branch || !branch->isConditional() || branch->getSuccessor(0) == branch->getSuccessor(1)) {
    return true;
  }
  Both condition = get(branch->getCondition());
  bool isKnown = condition.known && condition.same;
  return !isKnown || branch->getSuccessor(condition.before ? 0 : 1) == to;
}

bool Proof::agrees(const Instruction *sink) {
  if (sink == &site) { // a copy whose size is replaced
    Both size = get(sizeOfCopy(sink));
    StringRef name = cast<CallInst>(sink)->getCalledFunction()->getName();
    uint64_t bytes = 0;
    name.drop_back(2).rsplit('.').second.getAsInteger(10, bytes);
    return size.is(mutation.op == Operator::CopyWhole ? bytes : 0) || !isReached(sink->getParent());
  }
  const Value *size = sizeOfCopy(sink);
  bool readsNothing = size && get(size).is(0);
  for (const auto &[i, operand] : enumerate(sink->operands())) {
    const auto *from = dyn_cast<Instruction>(operand.get());
    bool differs = from && affected.contains(from) && !get(from).same;
    if (differs && !(readsNothing && i == 1)) {
      return !isReached(sink->getParent());
    }
  }
  return true;
}

/// True if no thread waits for copies, or commits them, after this point.
bool Proof::isLastOfCopies() {
  SmallVector<const BasicBlock *> work;
  SmallPtrSet<const BasicBlock *, 32> seen;
  auto waits = [](const Instruction &instruction) {
    const auto *call = dyn_cast<CallInst>(&instruction);
    const Function *callee = call ? call->getCalledFunction() : nullptr;
    StringRef name = callee ? callee->getName() : "";
    return name.starts_with("llvm.nvvm.cp.async.wait") ||
           name.starts_with("llvm.nvvm.cp.async.mbarrier");
  };
  for (const Instruction *next = site.getNextNode(); next; next = next->getNextNode()) {
    if (waits(*next)) {
      return false;
    }
  }
  llvm::append_range(work, successors(site.getParent()));
  while (!work.empty()) {
    const BasicBlock *block = work.pop_back_val();
    if (!seen.insert(block).second) {
      continue;
    }
    if (any_of(*block, waits)) {
      return false;
    }
    llvm::append_range(work, successors(block));
  }
  return true;
}

bool Proof::succeeds() {
  if (mutation.op == Operator::RemoveCommit) {
    return isLastOfCopies();
  }
  bool isCopy = sizeOfCopy(&site) != nullptr;
  if (!isPure(&site) && !isCopy) {
    return false;
  }
  collectAffected();
  // Usually the instruction itself gives the same result everywhere, for few operands.
  SetVector<const Value *> own;
  own.insert(&site);
  collectSources(own);
  if (isPure(&site) && holdsEverywhere([&] { return get(&site).same; })) {
    return true;
  }
  return any_of(ArrayRef<bool>{false, true}, [&](bool withPaths) {
    variables.clear();
    collectVariables(withPaths);
    return holdsEverywhere(
        [&] { return all_of(sinks, [&](const Instruction *sink) { return agrees(sink); }); });
  });
}

/// At every point, unless that takes too long. The numbers with the fewest dependents change most
/// often.
bool Proof::holdsEverywhere(function_ref<bool()> holds) {
  constexpr double most = 3e7;
  constexpr unsigned mostVariables = 64;
  if (variables.size() > mostVariables) {
    return false;
  }
  std::vector<Variable> ordered;
  for (auto kind : {Variable::Length, Variable::Rows, Variable::Iteration, Variable::Free,
                    Variable::Thread, Variable::Block}) {
    copy_if(variables, std::back_inserter(ordered),
            [&](const Variable &variable) { return variable.kind == kind; });
  }
  variables = std::move(ordered);
  double points = 1;
  point.clear();
  for (const Variable &variable : variables) {
    point.push_back(variable.first);
    points *= double(variable.count);
  }
  begun = ++stamp;
  changed.assign(variables.size(), stamp);
  for (uint64_t limit = steps + uint64_t(most); points <= most && steps < limit; ++steps) {
    if (!holds()) {
      return false;
    }
    ++stamp;
    size_t i = 0;
    for (; i < point.size() && ++point[i] == variables[i].first + variables[i].count; ++i) {
      point[i] = variables[i].first;
      changed[i] = stamp;
    }
    if (i == point.size()) {
      return true;
    }
    changed[i] = stamp;
  }
  return false;
}

bool sluice::mutation::isProvablyNoFault(Module &module, const Mutation &mutation,
                                         const Space &space) {
  Function &function = *module.getFunction(mutation.function);
  auto at = inst_begin(function);
  std::advance(at, mutation.instruction);
  return Proof(function, *at, mutation, space).succeeds();
}
