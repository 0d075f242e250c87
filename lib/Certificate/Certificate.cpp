// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes a proof in the format of docs/certificate.md. Decides nothing.
#include "sluice/Certificate/Certificate.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Proof/Alignment.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/Obligations.h"
#include "sluice/Proof/Scales.h"
#include "sluice/Proof/StepPlan.h"
#include "sluice/Step/DeriveStep.h"
#include "sluice/Support/WorkBudget.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace sluice;

std::vector<ModeProof> sluice::collectProofs(ModuleOp module) {
  std::vector<ModeProof> proofs;
  for (auto [mode, name] : {std::pair("eval", "evaluate"), std::pair("train", "train")}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (function && !getLossOps(function).empty()) {
      proofs.push_back(collectProof(function, mode));
    }
  }
  return proofs;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// Returns the name of an op's origin: "stages.1.inside.0.attention.mix".
static std::string getDisplayName(Operation *op) {
  OriginAttr origin = getOrigin(op);
  return origin ? origin.getName() : "unnamed";
}

/// Returns the name of a value's op, or "tokens" for tokens; given tokens have the name of their
/// input.
static std::string getDisplayName(Value value) {
  if (Operation *op = value.getDefiningOp()) {
    return getDisplayName(op);
  }
  std::optional<InputTokens> given = findInputTokens(cast<BlockArgument>(value));
  return given ? given->name.str() : "tokens";
}

/// Returns the name of a value's op in the certificate. A map that takes every k-th row from its
/// first operand has a separate name.
static std::string spellOp(Value value) {
  auto flow = dyn_cast_or_null<CausalFlowInterface>(value.getDefiningOp());
  if (auto map = dyn_cast_or_null<MapOp>(value.getDefiningOp())) {
    std::optional<IntegerSet> relation =
        map->getNumOperands() == 2 ? map.getRelation(0) : std::nullopt;
    return relation && relation->getNumConstraints() == 2 ? "replace" : "map";
  }
  return flow ? flow.getNeutralName(cast<OpResult>(value).getResultNumber()) : "tokens";
}

namespace {
/// Spells bounds and relations in the certificate's grammar. `numbers` are the numbers of values.
class BoundSpeller {
public:
  explicit BoundSpeller(const llvm::DenseMap<Value, int64_t> &numbers) : numbers(numbers) {}

  std::string spell(const Frontier &bound) const {
    if (bound.unbounded) {
      return "unknown";
    }
    std::string text = "max(-1";
    for (AffineExpr candidate : bound.candidates) {
      text += ", " + spell(candidate, "p");
    }
    for (const EndBound &candidate : bound.ends) {
      text += ", " + spell(candidate);
    }
    return text + ")";
  }

  /// Spells the rows of an operand that row p reads, for example "at p - 3".
  std::string spell(IntegerSet relation, ArrayRef<SegmentTerm> terms) const;

private:
  /// Spells a bound through ends: "2*e7(p + 1) + 1", where value 7 has the ends of segments.
  std::string spell(const EndBound &bound) const {
    std::string inner = spell(bound.maps.back(), "p");
    for (size_t i = bound.cuts.size(); i-- > 0;) {
      SegmentOp cut = bound.cuts[i];
      inner = "e" + std::to_string(numbers.at(cut.getEnds())) + "(" + inner + ")";
      inner = spell(bound.maps[i], inner);
    }
    return inner;
  }

  /// Spells a term: "e7(p - 1)", the end of a segment; "c7(p)", the number of ends up to p.
  std::string spell(const SegmentTerm &term) const {
    Value ends = term.of;
    if (term.kind == SegmentTerm::Count) {
      ends = term.of.getDefiningOp<SegmentOp>().getEnds();
    }
    return (term.kind == SegmentTerm::Count ? "c" : "e") + std::to_string(numbers.at(ends)) + "(" +
           spell(term.at, "p") + ")";
  }

  /// Formats an expression; `terms` are the symbols after the length.
  static std::string spell(AffineExpr expression, const std::string &p,
                           ArrayRef<std::string> terms = {}) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(expression)) {
      return terms[symbol.getPosition() - 1];
    }
    if (auto constant = dyn_cast<AffineConstantExpr>(expression)) {
      return std::to_string(constant.getValue());
    }
    if (isa<AffineDimExpr>(expression)) {
      return p;
    }
    auto binary = cast<AffineBinaryOpExpr>(expression);
    std::string left = spell(binary.getLHS(), p, terms), right = spell(binary.getRHS(), p, terms);
    switch (binary.getKind()) {
    case AffineExprKind::Add:
      return right.front() == '-' ? left + " - " + right.substr(1) : left + " + " + right;
    case AffineExprKind::Mul: // the constant is on the right
      return right + "*" + (isSum(binary.getLHS()) ? "(" + left + ")" : left);
    case AffineExprKind::FloorDiv:
      return "floor(" + (isSum(binary.getLHS()) ? "(" + left + ")" : left) + "/" + right + ")";
    default: // bounds are non-decreasing and rounded down, so that none has mod or ceildiv
      llvm_unreachable("an expression that no bound has");
    }
  }

  static bool isSum(AffineExpr expression) { return expression.getKind() == AffineExprKind::Add; }

  const llvm::DenseMap<Value, int64_t> &numbers;
};

/// The rows of a relation, as the words of the grammar.
struct RowsRead {
  bool isWord = true; ///< true if the words describe the whole relation
  bool isAt = false, isClipped = false;
  AffineExpr first, last; ///< expressions of p and of terms
  int64_t from = 0, step = 1;
  /// Restricts the rows to p = start + every i or, with `isOff`, to all other rows; an `every` of 0
  /// means all rows.
  int64_t every = 0, start = 0;
  bool isOff = false;

  explicit RowsRead(IntegerSet relation);

private:
  /// Records a constraint that is a word other than first and last; returns false for any other
  /// constraint.
  bool takeWord(AffineExpr constraint, bool isEquality);
  bool takeChoice(AffineExpr constraint, bool isEquality);
  void settleStep();

  unsigned symbols;
  AffineExpr q, n, remainder;
};

/// Writes the lines of a certificate.
class Writer {
public:
  template <typename... Parts> void line(const Parts &...parts) {
    size_t count = 0;
    ((out << (count++ ? " " : "") << parts), ...);
    out << "\n";
    ++lines;
  }
  void mode(const ModeProof &proof);
  void generation(ModuleOp module, const ModeProof &evaluate);
  void step(const ModeProof &evaluate);
  std::string finish() {
    ++lines;
    out << "end certificate " << lines << " lines\n";
    return out.str();
  }

private:
  void value(Value value, const Scales &scales);
  void obligation(const Obligation &obligation);
  int64_t reads(ArrayRef<StepRead> reads, const std::string &reader, bool isFinal);

  std::string text;
  llvm::raw_string_ostream out{text};
  int64_t lines = 0;
  llvm::DenseMap<Value, int64_t> numbers;
  llvm::DenseMap<StringAttr, int64_t> cuts; ///< the value with the ends of segments, by axis
};
} // namespace

/// Records (p + a) mod k = 0, or its negation (p + a) mod k - 1 >= 0.
bool RowsRead::takeChoice(AffineExpr constraint, bool isEquality) {
  AffineExpr p = getAffineDimExpr(0, constraint.getContext());
  auto part = dyn_cast<AffineBinaryOpExpr>(isEquality ? constraint : constraint + 1);
  auto divisor = part && part.getKind() == AffineExprKind::Mod
                     ? dyn_cast<AffineConstantExpr>(part.getRHS())
                     : AffineConstantExpr();
  auto ahead = divisor
                   ? dyn_cast<AffineConstantExpr>(simplifyAffineExpr(part.getLHS() - p, 2, symbols))
                   : AffineConstantExpr();
  if (!ahead) {
    return false;
  }
  isWord &= every == 0;
  every = divisor.getValue();
  start = llvm::mod(-ahead.getValue(), every);
  isOff = !isEquality;
  return true;
}

bool RowsRead::takeWord(AffineExpr constraint, bool isEquality) {
  if (takeChoice(constraint, isEquality)) {
    return true;
  }
  if (auto part = dyn_cast<AffineBinaryOpExpr>(constraint);
      isEquality && part && part.getKind() == AffineExprKind::Mod) {
    isWord &= !remainder && isa<AffineConstantExpr>(part.getRHS());
    remainder = part.getLHS();
    step = isWord ? cast<AffineConstantExpr>(part.getRHS()).getValue() : 1;
    return true;
  }
  auto least = dyn_cast<AffineConstantExpr>(simplifyAffineExpr(q - constraint, 2, symbols));
  if (least && !isEquality) {
    isClipped = true;
    from = std::max(from, least.getValue());
    return true;
  }
  return !isEquality && constraint == n - 1 - q;
}

/// Expresses a read of every `step`-th row, counted back from the last row, in terms of the first
/// row that is read.
void RowsRead::settleStep() {
  if (step == 1) {
    return;
  }
  auto number = [&](AffineExpr e) {
    auto constant = dyn_cast_or_null<AffineConstantExpr>(e ? simplifyAffineExpr(e, 2, symbols) : e);
    return constant ? std::optional(constant.getValue()) : std::nullopt;
  };
  auto apart = first && last ? number(last - first) : std::nullopt;
  auto behind = last ? number(remainder.replace(q, last)) : std::nullopt;
  isWord &= apart && behind && *behind % step == 0;
  first = isWord ? last - *apart / step * step : first;
}

RowsRead::RowsRead(IntegerSet relation)
    : symbols(relation.getNumSymbols()), q(getAffineDimExpr(1, relation.getContext())),
      n(getAffineSymbolExpr(0, relation.getContext())) {
  SmallVector<AffineExpr> others;
  SmallVector<bool> equalities;
  for (unsigned i = 0; i < relation.getNumConstraints(); ++i) {
    if (!takeWord(relation.getConstraint(i), relation.isEq(i))) {
      others.push_back(relation.getConstraint(i));
      equalities.push_back(relation.isEq(i));
    }
  }
  isAt = llvm::is_contained(equalities, true);
  if (others.empty()) {
    return;
  }
  MaskBounds bounds = solveMask(IntegerSet::get(2, symbols, others, equalities));
  isWord &= bounds.exact && bounds.conditions.empty() && bounds.lower.size() <= 1 &&
            bounds.upper.size() <= 1;
  auto settle = [&](ArrayRef<AffineExpr> bound) {
    if (bound.empty()) {
      return AffineExpr();
    }
    auto division = dyn_cast<AffineBinaryOpExpr>(bound[0]);
    bool isUp = division && division.getKind() == AffineExprKind::CeilDiv;
    AffineExpr down =
        isUp ? (division.getLHS() + (division.getRHS() - 1)).floorDiv(division.getRHS()) : bound[0];
    isWord &= !down.isFunctionOfSymbol(0);
    return simplifyAffineExpr(down, 2, symbols);
  };
  first = settle(bounds.lower);
  last = settle(bounds.upper);
  settleStep();
}

std::string BoundSpeller::spell(IntegerSet relation, ArrayRef<SegmentTerm> terms) const {
  RowsRead rows(relation);
  if (!rows.isWord || (rows.isClipped ? rows.isAt : !rows.first || !rows.last) ||
      (rows.every > 0 && !rows.isAt)) {
    return "unknown"; // every checker treats the read as unknown
  }
  SmallVector<std::string> words;
  for (const SegmentTerm &term : terms) {
    words.push_back(spell(term));
  }
  auto of = [&](AffineExpr bound) { return spell(bound, "p", words); };
  if (rows.isAt) {
    std::string choice = (rows.isOff ? " off " : " on ") + std::to_string(rows.every) + "*i + " +
                         std::to_string(rows.start);
    return "at " + of(rows.last) + (rows.every > 0 ? choice : "");
  }
  std::string first = rows.first ? " " + of(rows.first) : "";
  return (rows.isClipped ? "keys" + first : "rows" + first) +
         (rows.last ? " to " + of(rows.last) : " all") +
         (rows.step > 1 ? " step " + std::to_string(rows.step) : "") +
         (rows.from > 0 ? " from " + std::to_string(rows.from) : "");
}

void Writer::value(Value value, const Scales &scales) {
  auto number = static_cast<int64_t>(numbers.size());
  numbers[value] = number;
  std::string operands;
  auto flow = dyn_cast_or_null<CausalFlowInterface>(value.getDefiningOp());
  for (unsigned i = 0; flow && i < flow->getNumOperands(); ++i) {
    if (isa<SequenceType>(flow->getOperand(i).getType())) {
      operands += " " + std::to_string(numbers.at(flow->getOperand(i)));
    }
  }
  if (auto cut = value.getDefiningOp<SegmentOp>(); cut && value == cut.getEnds()) {
    cuts[scales.findSequenceAxis(value).getAttr()] = number;
  }
  std::string segments =
      scales.isSegmented(value)
          ? " segments " + std::to_string(cuts.lookup(scales.findSequenceAxis(value).getAttr()))
          : "";
  line("value", number, getDisplayName(value), spellOp(value), "of" + operands, "scale",
       std::to_string(scales.getScaleFactor(value)) + segments,
       !scales.isOnTargetAxis(value) ? "given"
       : isLazy(value)               ? "lazy"
                                     : "stored");
}

void Writer::obligation(const Obligation &obligation) {
  int64_t number = numbers.at(obligation.value);
  switch (obligation.kind) {
  case ObligationKind::Token:
    return line("token", number);
  case ObligationKind::Read:
    return line("read", number, obligation.operand, numbers.at(obligation.source),
                BoundSpeller(numbers).spell(obligation.relation, obligation.terms));
  case ObligationKind::Steady: // no spec has a mask that mentions the length
    return line("steady", number, obligation.operand);
  case ObligationKind::Exist:
    return line("exist", number, obligation.bound);
  case ObligationKind::NoLeak:
    return line("no-leak", number, getDisplayName(obligation.op), obligation.bound);
  case ObligationKind::PrefixInvariance:
    return line("prefix-invariance", number, getDisplayName(obligation.op));
  }
}

/// Writes each value, its bound and the obligations of its op, followed by the conclusions.
void Writer::mode(const ModeProof &proof) {
  numbers.clear();
  Scales scales(proof.function);
  line("mode", proof.mode);
  auto next = proof.obligations.begin(), end = proof.obligations.end();
  for (const auto &[value, bound] : proof.bounds) {
    this->value(value, scales);
    line("bound", numbers.at(value), BoundSpeller(numbers).spell(bound));
    for (; next != end && next->value == value && next->kind != ObligationKind::NoLeak; ++next) {
      obligation(*next);
    }
  }
  for (; next != end; ++next) {
    obligation(*next);
  }
  line("end", proof.mode, proof.bounds.size(), "values", proof.obligations.size(), "obligations");
}

/// Writes that generation samples from a row that a loss scores against the next token.
void Writer::generation(ModuleOp module, const ModeProof &evaluate) {
  auto predict = module.lookupSymbol<func::FuncOp>("predict");
  if (!predict) {
    return;
  }
  Alignment alignment = checkAlignment(evaluate.function, predict);
  if (alignment.kind == Alignment::Aligned) {
    Value row = cast<CrossEntropyOp>(alignment.op).getInput();
    line("mode", "generate");
    line("aligned", getDisplayName(alignment.op), getDisplayName(row), alignment.offset);
  }
}

/// Returns true if the op reads only bits of segments. A step then stores the number of bits.
static bool isOfBits(const StepRead &read) {
  auto segments = dyn_cast<SegmentsInterface>(read.reader);
  return segments && segments.readsBits(read.operand);
}

/// Returns the frontier in steps: a row that waits for k segments is computed at the step where
/// segment k - 1 ends. If segments are segmented again, a segment ends at the step of the row with
/// its bit.
static Frontier buildStepFrontier(const StepPlan &plan, const StepSchedule &schedule) {
  if (!schedule.cut) {
    return {schedule.due, nullptr, {}};
  }
  Frontier steps;
  AffineExpr row = getAffineDimExpr(0, schedule.due.front().getContext());
  if (schedule.first == 0) { // the first step has rows that wait for no segment
    steps.candidates.push_back(getAffineConstantExpr(0, row.getContext()));
  }
  EndBound end;
  const StepSchedule *counted = &schedule;
  while (SegmentOp cut = counted->cut) {
    end.maps.insert(end.maps.begin(), row);
    end.cuts.insert(end.cuts.begin(), cut);
    counted = &plan.findSchedule(cut.getCounts());
  }
  for (AffineExpr first : counted->due) {
    for (AffineExpr due : schedule.due) {
      steps.ends.push_back(end);
      steps.ends.back().maps.insert(steps.ends.back().maps.begin(), first);
      steps.ends.back().maps.back() = simplifyAffineExpr(due - 1, 1, 0);
    }
  }
  return steps;
}

/// Writes two obligations per read: the row was computed, and it is still stored.
int64_t Writer::reads(ArrayRef<StepRead> reads, const std::string &reader, bool isFinal) {
  int64_t count = 0;
  for (const StepRead &read : reads) {
    if (isOfBits(read) && !cast<SegmentsInterface>(read.reader).makesSegmentation()) {
      continue; // ends of segments select the row
    }
    if (read.operand >= read.reader->getNumOperands()) {
      continue; // the row before, in the rings of a recurrence
    }
    ++count;
    std::string name = reader + (isFinal ? "" : " " + std::to_string(read.operand));
    line("due", name, numbers.at(read.source));
    line("kept", name, numbers.at(read.source));
  }
  return 2 * count;
}

/// Writes the step of generation, for the values of evaluation.
void Writer::step(const ModeProof &evaluate) {
  StepRefusal refusal;
  std::optional<StepPlan> plan = proveStep(evaluate.function, refusal);
  if (!plan) {
    return line("mode step is none");
  }
  numbers.clear();
  for (const auto &[value, bound] : evaluate.bounds) {
    numbers.try_emplace(value, static_cast<int64_t>(numbers.size()));
  }
  line("mode", "step");
  int64_t obligations = 0;
  llvm::DenseMap<Value, bool> areBits; // true for values of which only bits are read
  for (const auto &[value, step] : plan->values) {
    for (const StepRead &read : step.reads) {
      areBits.try_emplace(read.source, true).first->second &= isOfBits(read);
    }
  }
  size_t values = 0;
  for (const auto &[value, step] : plan->values) {
    if (!numbers.contains(value)) {
      continue; // a state that only its own recurrence reads, as the numbered state of that
    }
    ++values;
    int64_t number = numbers.at(value);
    if (step.isGiven) {
      line("keep", number, step.keepsAll ? "all" : "0");
      continue;
    }
    const StepSchedule &schedule = plan->schedules[step.schedule];
    bool isCut = value.getDefiningOp<SegmentOp>() != nullptr;
    line("schedule", number, BoundSpeller(numbers).spell(buildStepFrontier(*plan, schedule)));
    line("keep", number,
         areBits.lookup(value) ? "0"
         : step.keepsAll       ? "all"
                               : std::to_string(step.ring));
    line("exist", number, schedule.cut ? 0 : step.factor);
    line("burst", number, schedule.burst);
    if (isCut) {
      line("own", number);
    }
    obligations +=
        2 + (isCut ? 1 : 0) + reads(step.reads, std::to_string(number), /*isFinal=*/false);
  }
  obligations += reads(plan->finals, getDisplayName(plan->finals.front().reader), /*isFinal=*/true);
  line("end", "step", values, "values", obligations, "obligations");
}

static void write(ModuleOp module, Writer &writer, int64_t operations) {
  std::vector<ModeProof> proofs;
  {
    WorkBudget budget(operations);
    WorkScope scope(budget);
    proofs = collectProofs(module);
  }
  for (const ModeProof &proof : proofs) {
    writer.mode(proof);
  }
  if (proofs.size() == 1) {
    writer.line("mode", "train", "is", "eval");
  }
  if (!proofs.empty()) {
    writer.generation(module, proofs.front());
    WorkBudget budget(operations);
    WorkScope scope(budget);
    writer.step(proofs.front());
  }
}

static void writeHead(StringRef text, Writer &writer) {
  llvm::SHA256 hash;
  hash.update(text);
  writer.line("sluice-certificate", 3);
  writer.line("spec", "sha256", llvm::toHex(hash.final(), /*LowerCase=*/true));
}

std::string sluice::formatCertificate(ModuleOp module, StringRef text, int64_t operations) {
  Writer writer;
  writeHead(text, writer);
  write(module, writer, operations);
  return writer.finish();
}

std::string sluice::formatCertificate(const std::vector<ImportedVariant> &variants, StringRef text,
                                      int64_t operations) {
  Writer writer;
  writeHead(text, writer);
  for (const ImportedVariant &variant : variants) {
    if (variant.factor > 0) {
      writer.line("factor", variant.factor);
    }
    write(*variant.module, writer, operations);
  }
  return writer.finish();
}
