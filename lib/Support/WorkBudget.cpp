// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/WorkBudget.h"

using namespace sluice;

static thread_local WorkBudget *current = nullptr;
static thread_local const std::atomic<bool> *cancellation = nullptr;

CancelScope::CancelScope(const std::atomic<bool> &cancelled) : before(cancellation) {
  cancellation = &cancelled;
}

CancelScope::~CancelScope() { cancellation = before; }

const std::atomic<bool> *sluice::getCancellation() { return cancellation; }

bool sluice::isCancelled() { return cancellation && *cancellation; }

bool WorkBudget::spend(int64_t operations) {
  left = operations < left && !isCancelled() ? left - operations : 0;
  exhausted |= left == 0;
  bool outerHas = !outer || outer->spend(operations);
  exhausted |= !outerHas;
  return !exhausted;
}

std::string WorkBudget::describe(int64_t operations) {
  constexpr int64_t million = 1'000'000;
  bool isRound = operations > 0 && operations % million == 0;
  return (isRound ? std::to_string(operations / million) + " million"
                  : std::to_string(operations)) +
         (operations == 1 ? " operation" : " operations");
}

WorkBudget *WorkBudget::getCurrent() { return current; }

WorkScope::WorkScope(WorkBudget &budget) : before(current) {
  budget.outer = before;
  current = &budget;
}

WorkScope::~WorkScope() {
  current->outer = nullptr;
  current = before;
}

bool sluice::spendWork(int64_t operations) {
  return current ? current->spend(operations) : !isCancelled();
}

bool sluice::isWorkExhausted() { return isCancelled() || (current && current->isExhausted()); }
