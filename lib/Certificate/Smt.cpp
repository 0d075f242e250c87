// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes obligations as SMT-LIB 2.6. Assertions follow the definitions in Obligations.h, not the
// sets that lib/Proof/Obligations.cpp decides: max(-1, ...) remains a maximum.
#include "sluice/Certificate/Certificate.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Obligations.h"
#include "sluice/Proof/SegmentBounds.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace mlir;
using namespace sluice;

namespace {

std::string spellInteger(int64_t value) {
  std::string text = std::to_string(value);
  return value < 0 ? "(- " + text.substr(1) + ")" : text;
}

/// Spells an expression with d0 as `p`, d1 as q, s0 as n and s1, s2 ... as x1, x2 ... SMT-LIB's div
/// and mod by a positive number match floor division.
std::string spell(AffineExpr expression, StringRef p) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression)) {
    return spellInteger(constant.getValue());
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expression)) {
    return dim.getPosition() == 0 ? p.str() : "q";
  }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression)) {
    return symbol.getPosition() == 0 ? "n" : "x" + std::to_string(symbol.getPosition());
  }
  auto binary = cast<AffineBinaryOpExpr>(expression);
  std::string left = spell(binary.getLHS(), p), right = spell(binary.getRHS(), p);
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return "(+ " + left + " " + right + ")";
  case AffineExprKind::Mul:
    return "(* " + left + " " + right + ")";
  case AffineExprKind::FloorDiv:
    return "(div " + left + " " + right + ")";
  case AffineExprKind::CeilDiv: // ceil(e / c) = -floor(-e / c)
    return "(- (div (- " + left + ") " + right + "))";
  case AffineExprKind::Mod:
    return "(mod " + left + " " + right + ")";
  default:
    llvm_unreachable("binary expressions are those above");
  }
}

/// Ends of segments in one query, as uninterpreted functions e0, e1 ...
class Ends {
public:
  /// Returns the end of a segment: "(e0 argument)".
  std::string at(SegmentOp cut, const std::string &argument) {
    auto [function, isNew] = functions.try_emplace(cut, functions.size());
    applied.insert({function->second, argument});
    return "(e" + std::to_string(function->second) + " " + argument + ")";
  }
  std::string at(const EndBound &bound, StringRef position) {
    std::string inner = spell(bound.maps.back(), position);
    for (size_t i = bound.cuts.size(); i-- > 0;) {
      inner = spell(bound.maps[i], at(bound.cuts[i], inner));
    }
    return inner;
  }
  /// Returns the values of candidates at a position.
  std::vector<std::string> of(const Frontier &bound, StringRef position) {
    std::vector<std::string> values;
    for (AffineExpr candidate : bound.candidates) {
      values.push_back(spell(candidate, position));
    }
    for (const EndBound &candidate : bound.ends) {
      values.push_back(at(candidate, position));
    }
    return values;
  }
  std::string defineTerms(ArrayRef<SegmentTerm> terms);
  std::string declare() const;
  std::string demand() const;
  void clear() {
    functions.clear();
    applied.clear();
  }

private:
  llvm::MapVector<Operation *, size_t> functions;
  std::set<std::pair<size_t, std::string>> applied;
};

/// Defines x1, x2 ...: an end is a value of its function; a count M = c(t) means e(M - 1) <= t <
/// e(M).
std::string Ends::defineTerms(ArrayRef<SegmentTerm> terms) {
  std::string text;
  for (auto [i, term] : llvm::enumerate(terms)) {
    std::string name = "x" + std::to_string(i + 1);
    std::optional<CutTerm> cut = resolveTerm(term);
    text += "(declare-const " + name + " Int)\n";
    if (!cut) {
      continue; // any number
    }
    std::string t = spell(cut->at, "p");
    text += cut->kind == SegmentTerm::End
                ? "(assert (= " + name + " " + at(cut->cut, t) + "))\n"
                : "(assert (ite (< " + t + " 0) (= " + name +
                      " 0) (and (<= " + at(cut->cut, "(- " + name + " 1)") + " " + t + ") (< " + t +
                      " " + at(cut->cut, name) + "))))\n";
  }
  return text;
}

std::string Ends::declare() const {
  std::string text;
  for (size_t i = 0; i < functions.size(); ++i) {
    text += "(declare-fun e" + std::to_string(i) + " (Int) Int)\n";
  }
  return text;
}

/// Asserts that e(m) = m below 0, and that e rises by at least one per segment, for every pair of
/// arguments in the query: a partial function with this property extends to all integers.
std::string Ends::demand() const {
  std::string text;
  for (const auto &[function, x] : applied) {
    std::string e = "(e" + std::to_string(function) + " ";
    text += "(assert (ite (< " + x + " 0) (= " + e + x + ") " + x + ") (>= " + e + x + ") " + x +
            ")))\n";
    for (const auto &[other, y] : applied) {
      if (function == other && x != y) {
        text += "(assert (=> (<= " + x + " " + y + ") (>= (- " + e + y + ") " + e + x + ")) (- " +
                y + " " + x + "))))\n";
      }
    }
  }
  return text;
}

/// Asserts that `number` is above max(-1, candidates at p). Nothing is above an unknown bound.
void assertAbove(raw_ostream &out, Ends &ends, const std::string &number, const Frontier &bound) {
  if (bound.unbounded) {
    out << "(assert false)\n";
    return;
  }
  out << "(assert (> " << number << " (- 1)))\n";
  for (const std::string &candidate : ends.of(bound, "p")) {
    out << "(assert (> " << number << " " << candidate << "))\n";
  }
}

/// Asserts that u is the bound at `position`: one of its candidates, or -1, and none above it. An
/// unknown bound is any u.
void assertBound(raw_ostream &out, Ends &ends, const Frontier &bound, StringRef position) {
  if (bound.unbounded) {
    return;
  }
  std::vector<std::string> values = ends.of(bound, position);
  out << "(assert (or (= u (- 1))";
  for (const std::string &value : values) {
    out << " (= u " << value << ")";
  }
  out << "))\n(assert (>= u (- 1)))\n";
  for (const std::string &value : values) {
    out << "(assert (>= u " << value << "))\n";
  }
}

/// Spells that (p, q) is in the relation at length n.
std::string spellRelation(IntegerSet relation, StringRef n) {
  std::string text = "(let ((n " + n.str() + ")) (and true";
  for (auto [constraint, equality] :
       llvm::zip_equal(relation.getConstraints(), relation.getEqFlags())) {
    text += std::string(equality ? " (= " : " (>= ") + spell(constraint, "p") + " 0)";
  }
  return text + "))";
}

/// Asserts that (p, q), q < n, is in the relation at one of the lengths n and n + 1 only.
void assertUnsteady(raw_ostream &out, IntegerSet relation) {
  out << "(assert (>= p 0))\n(assert (and (>= q 0) (< q n)))\n(assert (xor "
      << spellRelation(relation, "n") << " " << spellRelation(relation, "(+ n 1)") << "))\n";
}

class Exporter {
public:
  void add(const ModeProof &proof);
  std::string take() { return std::move(text); }
  void head() {
    text = "; Obligations of a causality proof. Each query asks for a counterexample and is "
           "expected unsat;\n; each relation is asked for a point first, and is expected sat.\n"
           "; p: position of the result, q: of the operand, n: the operand's length, u: the "
           "bound of what is read;\n; e0, e1 ...: where segments end, x1, x2 ...: ends and counts "
           "that data decides.\n"
           "(set-logic ALL)\n(declare-const p Int)\n(declare-const q Int)\n"
           "(declare-const n Int)\n(declare-const u Int)\n";
  }

private:
  void query(const std::string &what, const Obligation &obligation, bool expected,
             llvm::function_ref<void()> negation);
  void domain(const Obligation &obligation);
  void negate(const ModeProof &proof, const Obligation &obligation);

  std::string text;
  std::string body; ///< body of the current query
  llvm::raw_string_ostream out{body};
  Ends ends;
  int64_t count = 0;
};

} // namespace

static std::string describe(const Obligation &obligation) {
  std::string op = obligation.op->getName().stripDialect().str();
  switch (obligation.kind) {
  case ObligationKind::Token:
    return "token: the tokens' own bound";
  case ObligationKind::Read:
    return "read: operand " + std::to_string(obligation.operand) + " of " + op;
  case ObligationKind::Steady:
    return "steady: what operand " + std::to_string(obligation.operand) + " of " + op +
           " holds is the same at length n + 1";
  case ObligationKind::Exist:
    return "exist: result of " + op + ", " + std::to_string(obligation.bound) +
           " tokens a position";
  case ObligationKind::NoLeak:
    return "no leak: row p is scored against tokens from p + " + std::to_string(obligation.bound);
  case ObligationKind::PrefixInvariance:
    return "prefix invariance: row p needs tokens up to p";
  }
  llvm_unreachable("every kind is above");
}

/// Spells a place on one line: "models/x.json:7:5 stages.1.inside.0.attention.mix".
static std::string spellPlace(Operation *op) {
  std::string place = spec::toString(getOpLocation(op));
  if (OriginAttr origin = getOrigin(op)) {
    place += " " + origin.getName();
  }
  std::replace_if(place.begin(), place.end(), [](unsigned char c) { return c < 32; }, '?');
  return place;
}

void Exporter::domain(const Obligation &obligation) {
  out << "(assert (>= n 1))\n";
  if (!isLazy(obligation.value)) {
    out << "(assert (>= p 0))\n";
  }
  out << ends.defineTerms(obligation.terms);
  if (obligation.kind != ObligationKind::Read) {
    return;
  }
  if (!isLazy(obligation.source)) {
    out << "(assert (>= q 0))\n";
  }
  for (auto [constraint, equality] :
       llvm::zip_equal(obligation.relation.getConstraints(), obligation.relation.getEqFlags())) {
    out << "(assert (" << (equality ? "=" : ">=") << " " << spell(constraint, "p") << " 0))\n";
  }
}

void Exporter::negate(const ModeProof &proof, const Obligation &obligation) {
  const Frontier &bound = proof.bounds.find(obligation.value)->second;
  switch (obligation.kind) {
  case ObligationKind::Token:
  case ObligationKind::Exist: {
    std::string position = obligation.terms.empty() ? "p" : "x1";
    return assertAbove(out, ends, "(* " + std::to_string(obligation.bound) + " " + position + ")",
                       bound);
  }
  case ObligationKind::Read:
    assertBound(out, ends, proof.bounds.find(obligation.source)->second, "q");
    return assertAbove(out, ends, "u", bound);
  case ObligationKind::Steady:
    return assertUnsteady(out, obligation.relation);
  case ObligationKind::NoLeak:
    assertBound(out, ends, bound, "p");
    out << "(assert (>= u (+ p " << spellInteger(obligation.bound) << ")))\n";
    break;
  case ObligationKind::PrefixInvariance:
    assertBound(out, ends, bound, "p");
    out << "(assert (> u p))\n";
    break;
  }
  out << "(assert (>= u 0))\n"; // -1 is below the first token of every row
}

void Exporter::query(const std::string &what, const Obligation &obligation, bool expected,
                     llvm::function_ref<void()> negation) {
  ends.clear();
  body.clear();
  domain(obligation);
  negation();
  text += "; " + what + ", " + spellPlace(obligation.op) + "\n(push 1)\n" + ends.declare() + body +
          ends.demand() + "(set-info :status " + (expected ? "sat" : "unsat") +
          ")\n(check-sat)\n(pop 1)\n";
}

void Exporter::add(const ModeProof &proof) {
  for (const Obligation &obligation : proof.obligations) {
    std::string what = std::to_string(++count) + " (" + proof.mode + "), " + describe(obligation);
    if (obligation.kind == ObligationKind::Read) {
      query(what + ", its relation has a point", obligation, true, [] {});
    }
    query(what, obligation, false, [&] { negate(proof, obligation); });
    if (obligation.kind == ObligationKind::Read && obligation.bound > 0) {
      query(what + ", which exists", obligation, false, [&] {
        assertAbove(out, ends, "(* " + std::to_string(obligation.bound) + " q)",
                    proof.bounds.find(obligation.value)->second);
      });
    }
  }
}

std::string sluice::formatSmt(ModuleOp module) {
  Exporter exporter;
  exporter.head();
  for (const ModeProof &proof : collectProofs(module)) {
    exporter.add(proof);
  }
  return exporter.take();
}
