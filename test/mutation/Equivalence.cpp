// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Equivalence.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

#include <optional>

using namespace llvm;
using namespace sluice::mutation;

namespace {

/// A value without the fault and with it. An unknown one is the same in both or may differ.
struct Both {
  bool known = false, same = false;
  uint64_t before = 0, after = 0;

  static Both constant(uint64_t value) { return {true, true, value, value}; }
  static Both of(uint64_t before, uint64_t after) { return {true, before == after, before, after}; }
  static Both unknown(bool same) { return {false, same, 0, 0}; }
  bool is(uint64_t value) const { return known && before == value && after == value; }
};

unsigned widthOf(const Value *value) {
  return value->getType()->isIntegerTy() ? value->getType()->getIntegerBitWidth() : 0;
}

std::optional<uint64_t> apply(Instruction::BinaryOps op, const APInt &a, const APInt &b) {
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

std::optional<APInt> clamp(Intrinsic::ID id, const APInt &a, const APInt &b) {
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

/// A copy's number of bytes that are read, where it has one.
Value *sizeOfCopy(const Instruction *instruction) {
  const auto *call = dyn_cast<CallInst>(instruction);
  const Function *callee = call ? call->getCalledFunction() : nullptr;
  bool isCopy = callee && callee->getName().starts_with("llvm.nvvm.cp.async.c") &&
                callee->getName().ends_with(".s");
  return isCopy ? call->getArgOperand(2) : nullptr;
}

bool isPureCall(const CallInst *call) {
  return !call->getType()->isVoidTy() && call->doesNotAccessMemory() && !call->isConvergent();
}

class Proof {
public:
  Proof(Function &function, Instruction &site, const Mutation &mutation, const Space &space)
      : function(function), site(site), mutation(mutation), space(space), tree(function),
        loops(tree), assumptions(function), names(tripleOf(function)), library(names),
        evolution(function, library, assumptions, tree, loops) {}

  bool succeeds();

private:
  struct Variable {
    enum Kind { Block, Thread, Length, Rows, Iteration } kind;
    const Loop *loop;
    int64_t first, count;
  };

  static Triple tripleOf(const Function &function) {
    return Triple(function.getParent()->getTargetTriple());
  }
  void collectAffected();
  void collectVariables();
  void collectSources(SetVector<const Value *> work);
  bool holdsEverywhere(function_ref<bool()> holds);
  void addSource(Variable::Kind kind);
  void addVariable(Variable::Kind kind, int64_t first, int64_t count, const Loop *loop = nullptr);
  int64_t iterationsOf(const Loop *loop);
  std::optional<Variable::Kind> sourceOf(const Instruction *instruction) const;

  bool isPure(const Instruction *instruction) const;
  bool isLastOfCopies();
  bool agrees(const Instruction *sink);
  bool isReached(const BasicBlock *block);

  Both get(const Value *value);
  Both compute(const Instruction *instruction);
  Both computeSite(const Instruction *instruction);
  Both computeForced(const Instruction *instruction, Both before);
  Both computePhi(const PHINode *phi);
  Both computeSelect(const Instruction *instruction, Both condition, Both yes, Both no);
  Both binary(Instruction::BinaryOps op, unsigned width, Both a, Both b);
  Both compare(CmpInst::Predicate predicate, unsigned width, Both a, Both b);
  Both number(Variable::Kind kind, const Loop *loop = nullptr);

  Function &function;
  Instruction &site;
  const Mutation &mutation;
  Space space;
  DominatorTree tree;
  LoopInfo loops;
  AssumptionCache assumptions;
  TargetLibraryInfoImpl names;
  TargetLibraryInfo library;
  ScalarEvolution evolution;

  SetVector<const Instruction *> affected, sinks;
  std::vector<Variable> variables;
  std::vector<int64_t> point;
  struct Known {
    uint64_t stamp = 0;
    Both value;
  };
  DenseMap<const Value *, Known> memo;
  uint64_t stamp = 0;
};

} // namespace

bool Proof::isPure(const Instruction *instruction) const {
  if (const auto *call = dyn_cast<CallInst>(instruction)) {
    return isPureCall(call);
  }
  return !instruction->isTerminator() && !instruction->mayReadOrWriteMemory();
}

/// What the fault may change, and who would notice.
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
std::optional<Proof::Variable::Kind> Proof::sourceOf(const Instruction *instruction) const {
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

int64_t Proof::iterationsOf(const Loop *loop) {
  return loop && loop->getLoopPreheader() && loop->getLoopLatch()
             ? evolution.getSmallConstantMaxTripCount(loop)
             : 0;
}

void Proof::addVariable(Variable::Kind kind, int64_t first, int64_t count, const Loop *loop) {
  if (none_of(variables, [&](const Variable &v) { return v.kind == kind && v.loop == loop; })) {
    variables.push_back({kind, loop, first, count});
  }
}

/// Numbers that anything depends on which a sink, or a branch before it, makes use of.
void Proof::collectVariables() {
  SetVector<const Value *> work;
  auto addPath = [&](const Instruction *to) {
    for (const auto *node = tree.getNode(to->getParent()); node; node = node->getIDom()) {
      const auto *branch = dyn_cast<BranchInst>(node->getBlock()->getTerminator());
      if (branch && branch->isConditional()) {
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
    isa<PHINode>(instruction) ? addPath(instruction) : void();
  }
  collectSources(work);
}

/// Numbers that the values in `work` depend on.
void Proof::collectSources(SetVector<const Value *> work) {
  for (size_t i = 0; i < work.size(); ++i) {
    const auto *instruction = dyn_cast<Instruction>(work[i]);
    if (!instruction) {
      continue;
    }
    if (auto kind = sourceOf(instruction)) {
      addSource(*kind);
      continue;
    }
    bool isFollowed = instruction->getType()->isIntegerTy() && isPure(instruction);
    if (!affected.contains(instruction) && !isFollowed && instruction != &site) {
      continue;
    }
    const Loop *loop = loops.getLoopFor(instruction->getParent());
    int64_t iterations = isa<PHINode>(instruction) ? iterationsOf(loop) : 0;
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

Both Proof::number(Variable::Kind kind, const Loop *loop) {
  for (auto [variable, value] : zip_equal(variables, point)) {
    if (variable.kind == kind && variable.loop == loop) {
      return Both::constant(uint64_t(value));
    }
  }
  return Both::unknown(true);
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
  Known &known = memo[value];
  if (known.stamp != stamp) {
    Both computed = instruction == &site ? computeSite(instruction) : compute(instruction);
    Known &again = memo[value]; // computing may have moved it
    again = {stamp, computed};
    return computed;
  }
  return known.value;
}

Both Proof::binary(Instruction::BinaryOps op, unsigned width, Both a, Both b) {
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

Both Proof::compare(CmpInst::Predicate predicate, unsigned width, Both a, Both b) {
  if (!a.known || !b.known || width == 0 || width > 64) {
    return Both::unknown(a.same && b.same);
  }
  return Both::of(ICmpInst::compare(APInt(width, a.before), APInt(width, b.before), predicate),
                  ICmpInst::compare(APInt(width, a.after), APInt(width, b.after), predicate));
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

/// In a loop's header: where it began, a constant, or the count of a step. Elsewhere unknown.
Both Proof::computePhi(const PHINode *phi) {
  const Loop *loop = loops.getLoopFor(phi->getParent());
  bool isHeader = loop && loop->getHeader() == phi->getParent();
  if (!isHeader) {
    bool same = true;
    for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i) {
      same &= get(phi->getIncomingValue(i)).same || !isReached(phi->getIncomingBlock(i));
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
  const Value *next = phi->getIncomingValueForBlock(latch);
  unsigned entry = phi->getIncomingBlock(0) == latch ? 1 : 0;
  Both first = get(phi->getIncomingValue(entry));
  const auto *nextInstruction = dyn_cast<Instruction>(next);
  bool nextSame = !nextInstruction || !affected.contains(nextInstruction);
  Both iteration = number(Variable::Iteration, loop);
  unsigned width = widthOf(phi);
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
  if (auto kind = sourceOf(instruction)) {
    return number(*kind);
  }
  if (const auto *phi = dyn_cast<PHINode>(instruction)) {
    return computePhi(phi);
  }
  bool isFollowed = instruction->getType()->isIntegerTy() && isPure(instruction);
  if (!affected.contains(instruction) && !isFollowed) {
    return Both::unknown(true); // the same, for the sinks before it agree
  }
  SmallVector<Both, 4> operands;
  bool same = true;
  for (const Value *operand : instruction->operands()) {
    operands.push_back(get(operand));
    same &= operands.back().same;
  }
  unsigned width = widthOf(instruction);
  if (const auto *op = dyn_cast<BinaryOperator>(instruction)) {
    return binary(op->getOpcode(), width, operands[0], operands[1]);
  }
  if (const auto *icmp = dyn_cast<ICmpInst>(instruction)) {
    return compare(icmp->getPredicate(), widthOf(icmp->getOperand(0)), operands[0], operands[1]);
  }
  if (isa<SelectInst>(instruction)) {
    return computeSelect(instruction, operands[0], operands[1], operands[2]);
  }
  if (isa<FreezeInst>(instruction)) {
    return operands[0];
  }
  unsigned from = instruction->getNumOperands() ? widthOf(instruction->getOperand(0)) : 0;
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
    bool isKnown =
        width > 0 && width <= 64 && operands.size() >= 2 && operands[0].known && operands[1].known;
    auto at = [&](bool after) {
      auto pick = [&](Both both) { return APInt(width, after ? both.after : both.before); };
      return clamp(call->getIntrinsicID(), pick(operands[0]), pick(operands[1]));
    };
    if (isKnown && at(false)) {
      return Both::of(at(false)->getZExtValue(), at(true)->getZExtValue());
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

/// The instruction as it is, and with the fault: as `plant` would make it.
Both Proof::computeSite(const Instruction *instruction) {
  Both before = compute(instruction);
  auto with = [&](Both after) {
    return before.known && after.known ? Both::of(before.before, after.after)
                                       : Both::unknown(false);
  };
  unsigned width = widthOf(instruction->getOperand(0));
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

/// Whether the branches that lead to a block all go its way, as far as they are known.
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

/// Whether no thread waits for copies, or ends them, after it has come here.
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
  // Mostly the instruction itself gives the same everywhere, of few numbers.
  SetVector<const Value *> own;
  own.insert(&site);
  collectSources(own);
  if (isPure(&site) && holdsEverywhere([&] { return get(&site).same; })) {
    return true;
  }
  variables.clear();
  collectVariables();
  return holdsEverywhere(
      [&] { return all_of(sinks, [&](const Instruction *sink) { return agrees(sink); }); });
}

/// At every point, unless there are too many.
bool Proof::holdsEverywhere(function_ref<bool()> holds) {
  constexpr double most = 3e7;
  double points = 1;
  point.clear();
  for (const Variable &variable : variables) {
    point.push_back(variable.first);
    points *= double(variable.count);
  }
  while (points <= most) {
    ++stamp;
    if (!holds()) {
      return false;
    }
    size_t i = 0;
    for (; i < point.size() && ++point[i] == variables[i].first + variables[i].count; ++i) {
      point[i] = variables[i].first;
    }
    if (i == point.size()) {
      return true;
    }
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
