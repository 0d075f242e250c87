// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ProductAssembly.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/InlineAsm.h"

using namespace llvm;
using namespace sluice::emulator;

std::string sluice::emulator::foldSpace(StringRef assembly) {
  SmallVector<StringRef> words;
  SplitString(assembly, words);
  return join(words, " ");
}

/// Returns the constraints of `sums` tied operands and `more` of 64 bits.
static std::string printConstraints(unsigned sums, unsigned more) {
  std::string text;
  for (unsigned i = 0; i < sums; ++i) {
    text += "=f,";
  }
  for (unsigned i = 0; i < sums; ++i) {
    text += std::to_string(i) + ",";
  }
  for (unsigned i = 0; i < more; ++i) {
    text += "l,";
  }
  return text + "~{memory}";
}

static std::string printMultiply(const ProductAssembly &form) {
  std::string registers;
  for (unsigned i = 0; i < form.sums; ++i) {
    registers += (i ? ", $" : "$") + std::to_string(i);
  }
  return ("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" +
          Twine(2 * form.sums) + "k16.f32.bf16.bf16 {" + registers + "}, $" + Twine(2 * form.sums) +
          ", $" + Twine(2 * form.sums + 1) + ", p, 1, 1, " + Twine(int(form.aLinesAreInner)) +
          ", " + Twine(int(form.bLinesAreInner)) + "; }")
      .str();
}

std::optional<ProductAssembly> sluice::emulator::parseProductAssembly(const CallBase &call,
                                                                      StringRef folded) {
  auto *type = dyn_cast<StructType>(call.getType());
  if (!folded.contains("wgmma.") || !type) {
    return std::nullopt;
  }
  ProductAssembly form;
  form.sums = type->getNumElements();
  StringRef rest = folded;
  if (folded == "wgmma.fence.sync.aligned;") {
    form.kind = ProductAssembly::Fence;
  } else if (rest.consume_front("wgmma.wait_group.sync.aligned ") && rest.consume_back(";") &&
             !rest.getAsInteger(10, form.pending)) {
    form.kind = ProductAssembly::Wait;
  } else {
    form.kind = ProductAssembly::Multiply;
    form.aLinesAreInner = folded.contains(", 1, 1, 1, ");
    form.bLinesAreInner = folded.ends_with(", 1; }");
    if (folded != printMultiply(form) || form.sums % 4 || form.sums > 128) {
      return std::nullopt;
    }
  }
  const auto *assembly = cast<InlineAsm>(call.getCalledOperand());
  bool tied = assembly->getConstraintString() ==
              printConstraints(form.sums, form.kind == ProductAssembly::Multiply ? 2 : 0);
  return tied ? std::optional(form) : std::nullopt;
}

const Instruction *sluice::emulator::findEarlyUse(const CallBase &call) {
  SmallVector<const Instruction *> work{&call};
  SmallPtrSet<const Instruction *, 16> seen;
  while (!work.empty()) {
    const Instruction *value = work.pop_back_val();
    for (const User *user : value->users()) {
      const auto *use = cast<Instruction>(user);
      if (!seen.insert(use).second) {
        continue;
      }
      if (isa<ExtractValueInst, PHINode>(use)) {
        work.push_back(use);
        continue;
      }
      const auto *next = dyn_cast<CallBase>(use);
      const auto *assembly = next ? dyn_cast<InlineAsm>(next->getCalledOperand()) : nullptr;
      auto form = assembly ? parseProductAssembly(*next, foldSpace(assembly->getAsmString()))
                           : std::nullopt;
      if (!form) {
        return use;
      }
      if (form->kind == ProductAssembly::Fence ||
          (form->kind == ProductAssembly::Wait && form->pending > 0)) {
        work.push_back(use);
      }
    }
  }
  return nullptr;
}
