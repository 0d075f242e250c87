// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Obligations of an incremental step, and their decision.
#pragma once

#include "sluice/Proof/StepPlan.h"

namespace sluice {

/// One claim about the step, for all rows p and all steps. s_v(p) is when row p of v is due.
enum class StepObligationKind {
  Exist, ///< factor p <= s_value(p): the row exists by then; of tokens, factor 1
  Burst, ///< s_value(p) < s_value(p + burst)
  Count, ///< p < N_value(t) exactly where s_value(p) <= t
  Due,   ///< (p, q) of a read: s_source(q) <= s_reader(p)
  Kept   ///< (p, q) of a read: s_reader(p) < s_source(q + ring); without a ring, s_reader(p) <=
         ///< s_source(q)
};
struct StepObligation {
  StepObligationKind kind;
  mlir::Value value;              ///< of a final read: none
  const StepRead *read = nullptr; ///< Due, Kept
};
/// Collects the obligations of a plan, which must outlive them: for each value with a schedule
/// exist, burst and count, then due and kept for each of its reads; obligations of final reads come
/// last. Reads through ends, and the existence of a segment's row, give none.
std::vector<StepObligation> collectObligations(const StepPlan &plan);

/// Decides claims about a step by integer-exact emptiness; see ObligationDecider. Equal questions
/// are asked once.
class StepDecider {
public:
  /// A row for which it does not hold: p, and the x or t of it; none where it holds.
  using Point = std::optional<std::pair<int64_t, int64_t>>;
  Point findFailure(const StepPlan &plan, const StepObligation &obligation);

  Point findNotExisting(const StepSchedule &schedule, int64_t factor);
  /// Two rows `burst` apart that one step computes.
  Point findBurst(const StepSchedule &schedule, int64_t burst);
  Point findMiscount(const StepSchedule &schedule);
  Point findNotDue(const StepSchedule &reader, const StepSchedule &source, const StepRead &read);
  /// A read of a row that a ring of `ring` rows has lost; of an earlier step where it is 0.
  Point findNotKept(const StepSchedule &reader, const StepSchedule &source, const StepRead &read,
                    int64_t ring);

private:
  /// A point of `set`. Of a larger set than the library is asked for, a p >= 0 that makes each of
  /// `ofRow`, expressions of d0 = p alone, at least 0, where the set has no other bounds.
  Point findPoint(mlir::IntegerSet set, llvm::ArrayRef<mlir::AffineExpr> ofRow = {});
  llvm::DenseMap<mlir::IntegerSet, Point> known;
};

} // namespace sluice
