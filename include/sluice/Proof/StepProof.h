// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects and decides the obligations of an incremental step.
#pragma once

#include "sluice/Proof/StepPlan.h"

namespace sluice {

/// A claim about the step, for all rows p and all steps, where s_v(p) is the step at which row p of
/// v is due.
enum class StepObligationKind {
  Exist, ///< factor p <= s_value(p): the row exists by then; the factor is 1 for tokens
  Burst, ///< s_value(p) < s_value(p + burst)
  Count, ///< p < N_value(t) exactly if s_value(p) <= t
  Due,   ///< (p, q) of a read: s_source(q) <= s_reader(p)
  Kept   ///< (p, q) of a read: s_reader(p) < s_source(q + ring); without a ring, s_reader(p) <=
         ///< s_source(q)
};
struct StepObligation {
  StepObligationKind kind;
  mlir::Value value;              ///< null for a final read
  const StepRead *read = nullptr; ///< Due, Kept
};
/// Collects the obligations of a plan, which must outlive them: for each value with a schedule
/// Exist, Burst and Count, then Due and Kept for each of its reads; obligations of final reads come
/// last. Reads through ends, and the existence of a segment's row, have none.
std::vector<StepObligation> collectObligations(const StepPlan &plan);

/// Decides claims about a step by integer-exact emptiness; see ObligationDecider. Equal questions
/// are decided once.
class StepDecider {
public:
  /// A counterexample: the row p, and the x or t at which the claim fails; none if the claim holds.
  using Point = std::optional<std::pair<int64_t, int64_t>>;
  Point findFailure(const StepPlan &plan, const StepObligation &obligation);

  Point findNotExisting(const StepSchedule &schedule, int64_t factor);
  /// Returns two rows `burst` apart that one step computes.
  Point findBurst(const StepSchedule &schedule, int64_t burst);
  Point findMiscount(const StepSchedule &schedule);
  Point findNotDue(const StepSchedule &reader, const StepSchedule &source, const StepRead &read);
  /// Returns a read of a row that a ring of `ring` rows has lost; for a ring of 0, a read of a row
  /// of an earlier step.
  Point findNotKept(const StepSchedule &reader, const StepSchedule &source, const StepRead &read,
                    int64_t ring);

private:
  /// Returns a point of `set`. If the set is too large for the library and has no other bounds,
  /// returns a p >= 0 at which each expression of `ofRow`, of d0 = p alone, is at least 0.
  Point findPoint(mlir::IntegerSet set, llvm::ArrayRef<mlir::AffineExpr> ofRow = {});
  llvm::DenseMap<mlir::IntegerSet, Point> known;
};

} // namespace sluice
