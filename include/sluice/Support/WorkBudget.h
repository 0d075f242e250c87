// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Limits the work of a causality check, counted in operations. Equal inputs take equal numbers of
// operations on every machine, so a budget never makes a verdict depend on the machine's speed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace sluice {

/// A counter of operations. One operation evaluates a term of an expression, follows a read, or
/// changes a number of a linear system: tens of nanoseconds.
class WorkBudget {
public:
  /// Takes a few seconds on one core.
  static constexpr int64_t defaultOperations = 200'000'000;

  explicit WorkBudget(int64_t operations = defaultOperations)
      : limit(operations), left(operations), exhausted(operations <= 0) {}
  WorkBudget(const WorkBudget &) = delete;

  /// Counts `operations`. Returns false if they exceed the budget, which is then exhausted.
  bool spend(int64_t operations);
  bool isExhausted() const { return exhausted; }
  int64_t getLimit() const { return limit; }
  int64_t getLeft() const { return left; }
  /// Formats a number of operations, for example "200 million operations".
  static std::string describe(int64_t operations);

  /// Returns the budget of the innermost scope of this thread; null outside of every scope, where
  /// only the limits of single questions bound the work.
  static WorkBudget *getCurrent();

private:
  int64_t limit, left;
  bool exhausted;
  WorkBudget *outer = nullptr; ///< budget of the enclosing scope, which is charged too
  friend class WorkScope;
};

/// Makes a budget the current one of this thread. Work is then charged to it and to the budgets of
/// the enclosing scopes.
class WorkScope {
public:
  explicit WorkScope(WorkBudget &budget);
  ~WorkScope();
  WorkScope(const WorkScope &) = delete;

private:
  WorkBudget *before;
};

/// Lets another thread cancel the work of this one: from when `cancelled` is true on, its budgets
/// count as exhausted, and a compilation ends at its next pass or kernel. The caller must look at
/// `cancelled` itself, as the outcome is then arbitrary.
class CancelScope {
public:
  explicit CancelScope(const std::atomic<bool> &cancelled);
  ~CancelScope();
  CancelScope(const CancelScope &) = delete;

private:
  const std::atomic<bool> *before;
};

/// Returns the flag of this thread's innermost CancelScope; null outside.
const std::atomic<bool> *getCancellation();
/// Returns true if this thread's work is cancelled.
bool isCancelled();

/// Charges the current budget. Returns false if it is exhausted or the work is cancelled; true
/// without a budget.
bool spendWork(int64_t operations);
/// Returns true if the current budget is exhausted or the work is cancelled.
bool isWorkExhausted();

} // namespace sluice
