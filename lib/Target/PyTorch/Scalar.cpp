// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Scalar.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

#include <charconv>

using namespace mlir;
using namespace sluice;
using namespace sluice::pytorch;

namespace {

/// How tightly an expression binds in Python, weakest first.
enum class Binding { Comparison, Sum, Product, Negation, Atom };

struct Expression {
  std::string text;
  Binding binding = Binding::Atom;
  bool isNumber = false;

  /// Returns the text, in parentheses unless it binds at least as tightly as `least`.
  std::string as(Binding least) const { return binding < least ? "(" + text + ")" : text; }
};

/// Prints the ops of one region.
class RegionPrinter {
public:
  RegionPrinter(ScalarCode &code, const ScalarPlaces &places) : code(code), places(places) {}

  /// Returns the first op that has no printer.
  Operation *run(Block &block, ArrayRef<std::string> arguments) {
    for (auto [argument, name] : llvm::zip_equal(block.getArguments(), arguments)) {
      values[argument] = {name};
    }
    for (Operation &op : block.without_terminator()) {
      std::optional<Expression> printed = print(&op);
      if (!printed) {
        return &op;
      }
      bool isShared = !op.getResult(0).hasOneUse() && !op.getResult(0).use_empty();
      if (isShared && printed->binding != Binding::Atom) {
        std::string name = "t" + std::to_string(code.statements.size());
        code.statements.push_back(name + " = " + printed->text);
        printed = Expression{name, Binding::Atom, printed->isNumber};
      }
      values[op.getResult(0)] = *printed;
    }
    for (Value result : block.getTerminator()->getOperands()) {
      code.results.push_back(values[result].text);
    }
    code.isNumber = !block.getTerminator()->getOperands().empty() &&
                    values[block.getTerminator()->getOperand(0)].isNumber;
    return nullptr;
  }

private:
  const Expression &get(Operation *op, unsigned operand) { return values[op->getOperand(operand)]; }

  Expression join(Operation *op, StringRef sign, Binding binding) {
    // The right operand of a difference or a quotient must bind more tightly.
    Binding right = Binding(int(binding) + 1);
    bool isNumber = get(op, 0).isNumber && get(op, 1).isNumber;
    return {get(op, 0).as(binding) + (" " + sign.str() + " ") + get(op, 1).as(right), binding,
            isNumber};
  }

  Expression compare(Operation *op, StringRef sign) {
    return {get(op, 0).as(Binding::Sum) + (" " + sign.str() + " ") + get(op, 1).as(Binding::Sum),
            Binding::Comparison, false};
  }

  /// Prints a maximum or a minimum; `side` is the bound of torch.clamp for one number.
  Expression clamp(Operation *op, StringRef function, StringRef side) {
    for (unsigned number : {0u, 1u}) {
      if (get(op, number).isNumber) {
        return {get(op, 1 - number).as(Binding::Atom) + ".clamp(" + side.str() + "=" +
                get(op, number).text + ")"};
      }
    }
    return {"torch." + function.str() + "(" + get(op, 0).text + ", " + get(op, 1).text + ")"};
  }

  static std::optional<StringRef> getFunction(Operation *op) {
    StringRef name = llvm::StringSwitch<StringRef>(op->getName().getStringRef())
                         .Case("math.exp", "torch.exp")
                         .Case("math.exp2", "torch.exp2")
                         .Case("math.expm1", "torch.expm1")
                         .Case("math.log", "torch.log")
                         .Case("math.log1p", "torch.log1p")
                         .Case("math.erf", "torch.erf")
                         .Case("math.tanh", "torch.tanh")
                         .Case("math.sqrt", "torch.sqrt")
                         .Case("math.rsqrt", "torch.rsqrt")
                         .Case("math.absf", "torch.abs")
                         .Case("math.floor", "torch.floor")
                         .Case("math.sin", "torch.sin")
                         .Case("math.cos", "torch.cos")
                         .Default("");
    return name.empty() ? std::nullopt : std::optional(name);
  }

  std::optional<Expression> printConstant(arith::ConstantOp op) {
    if (auto real = dyn_cast<FloatAttr>(op.getValue())) {
      bool isNegative = real.getValue().isNegative();
      return Expression{printNumber(real.getValue()),
                        isNegative ? Binding::Negation : Binding::Atom, true};
    }
    auto whole = dyn_cast<IntegerAttr>(op.getValue());
    if (!whole) {
      return std::nullopt;
    }
    if (whole.getType().isInteger(1)) {
      return Expression{whole.getValue().isZero() ? "False" : "True", Binding::Atom, true};
    }
    int64_t number = whole.getInt();
    return Expression{std::to_string(number), number < 0 ? Binding::Negation : Binding::Atom, true};
  }

  static std::optional<StringRef> getSign(arith::CmpFPredicate predicate) {
    using P = arith::CmpFPredicate;
    switch (predicate) {
    case P::OGT:
      return ">";
    case P::OGE:
      return ">=";
    case P::OLT:
      return "<";
    case P::OLE:
      return "<=";
    case P::OEQ:
      return "==";
    case P::UNE:
      return "!=";
    default: // true for NaN where Python's comparison is false, or the inverse
      return std::nullopt;
    }
  }

  static std::optional<StringRef> getSign(arith::CmpIPredicate predicate) {
    using P = arith::CmpIPredicate;
    switch (predicate) {
    case P::eq:
      return "==";
    case P::ne:
      return "!=";
    case P::sgt:
      return ">";
    case P::sge:
      return ">=";
    case P::slt:
      return "<";
    case P::sle:
      return "<=";
    default:
      return std::nullopt;
    }
  }

  template <typename Compare> std::optional<Expression> printCompare(Compare op) {
    std::optional<StringRef> sign = getSign(op.getPredicate());
    return sign ? std::optional(compare(op, *sign)) : std::nullopt;
  }

  std::optional<Expression> print(Operation *op) {
    if (std::optional<StringRef> function = getFunction(op)) {
      return Expression{function->str() + "(" + get(op, 0).text + ")"};
    }
    using Printed = std::optional<Expression>;
    return TypeSwitch<Operation *, Printed>(op)
        .Case([&](arith::ConstantOp constant) { return printConstant(constant); })
        .Case<arith::AddFOp, arith::AddIOp>([&](auto) { return join(op, "+", Binding::Sum); })
        .Case<arith::SubFOp, arith::SubIOp>([&](auto) { return join(op, "-", Binding::Sum); })
        .Case<arith::MulFOp, arith::MulIOp>([&](auto) { return join(op, "*", Binding::Product); })
        .Case([&](arith::DivFOp) { return join(op, "/", Binding::Product); })
        // Operands are tokens and positions, at least 0, where remainders of C and Python agree.
        .Case([&](arith::RemSIOp) { return join(op, "%", Binding::Product); })
        .Case([&](arith::DivSIOp) { return join(op, "//", Binding::Product); })
        .Case<arith::AndIOp, arith::OrIOp>([&](auto) {
          StringRef sign = isa<arith::AndIOp>(op) ? " & " : " | ";
          return Expression{get(op, 0).as(Binding::Negation) + sign.str() +
                                get(op, 1).as(Binding::Negation),
                            Binding::Comparison};
        })
        .Case([&](arith::NegFOp) {
          return Expression{"-" + get(op, 0).as(Binding::Negation), Binding::Negation,
                            get(op, 0).isNumber};
        })
        .Case([&](arith::MaximumFOp) { return clamp(op, "maximum", "min"); })
        .Case([&](arith::MinimumFOp) { return clamp(op, "minimum", "max"); })
        .Case([&](arith::CmpFOp compared) { return printCompare(compared); })
        .Case([&](arith::CmpIOp compared) { return printCompare(compared); })
        .Case([&](arith::SelectOp) {
          return Expression{"torch.where(" + get(op, 0).text + ", " + get(op, 1).text + ", " +
                            get(op, 2).text + ")"};
        })
        .Case([&](dispatch::StraightThroughOp) {
          code.usesStraightThrough = true;
          return Expression{"straight_through(" + get(op, 0).text + ", " + get(op, 1).text + ")"};
        })
        .Case<arith::SIToFPOp>(
            [&](auto) { return Expression{get(op, 0).as(Binding::Atom) + ".float()"}; })
        .Case<arith::FPToSIOp>(
            [&](auto) { return Expression{get(op, 0).as(Binding::Atom) + ".long()"}; })
        .Case<dispatch::PositionOp>(
            [&](auto) { return places.position.empty() ? Printed() : Expression{places.position}; })
        .Case<dispatch::ColumnOp>(
            [&](auto) { return places.column.empty() ? Printed() : Expression{places.column}; })
        .Default(Printed());
  }

  ScalarCode &code;
  const ScalarPlaces &places;
  DenseMap<Value, Expression> values;
};

std::string printAffine(AffineExpr expression) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression)) {
    return std::to_string(constant.getValue());
  }
  if (auto dimension = dyn_cast<AffineDimExpr>(expression)) {
    return dimension.getPosition() == 0 ? "p" : "q";
  }
  if (isa<AffineSymbolExpr>(expression)) {
    return "n";
  }
  auto binary = cast<AffineBinaryOpExpr>(expression);
  std::string left = printAffine(binary.getLHS()), right = printAffine(binary.getRHS());
  auto wrap = [](AffineExpr part, const std::string &text) {
    return isa<AffineBinaryOpExpr>(part) && part.getKind() == AffineExprKind::Add ? "(" + text + ")"
                                                                                  : text;
  };
  switch (binary.getKind()) {
  case AffineExprKind::Add: {
    auto product = dyn_cast<AffineBinaryOpExpr>(binary.getRHS());
    auto factor = product && product.getKind() == AffineExprKind::Mul
                      ? dyn_cast<AffineConstantExpr>(product.getRHS())
                      : AffineConstantExpr();
    if (factor && factor.getValue() == -1) {
      return left + " - " + wrap(product.getLHS(), printAffine(product.getLHS()));
    }
    auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
    return constant && constant.getValue() < 0 ? left + " - " + std::to_string(-constant.getValue())
                                               : left + " + " + right;
  }
  case AffineExprKind::Mul:
    return right == "-1" ? "-" + wrap(binary.getLHS(), left)
                         : wrap(binary.getLHS(), left) + " * " + right;
  case AffineExprKind::FloorDiv:
    return "(" + left + ") // " + right;
  case AffineExprKind::CeilDiv:
    return "-(-(" + left + ") // " + right + ")";
  default:
    return "(" + left + ") % " + right;
  }
}

} // namespace

std::string pytorch::printNumber(const APFloat &number) {
  if (number.isInfinity()) {
    return number.isNegative() ? "-math.inf" : "math.inf";
  }
  char text[32];
  bool isDouble = &number.getSemantics() == &APFloat::IEEEdouble();
  auto end = isDouble ? std::to_chars(text, text + sizeof(text), number.convertToDouble()).ptr
                      : std::to_chars(text, text + sizeof(text), number.convertToFloat()).ptr;
  std::string printed(text, end);
  bool isWhole = printed.find_first_of(".e") == std::string::npos;
  return isWhole ? printed + ".0" : printed;
}

std::string pytorch::printRelation(IntegerSet set) {
  std::string text;
  for (unsigned i = 0; i < set.getNumConstraints(); ++i) {
    std::string condition = printAffine(set.getConstraint(i)) + (set.isEq(i) ? " == 0" : " >= 0");
    text += (text.empty() ? "" : " & ") +
            (set.getNumConstraints() > 1 ? "(" + condition + ")" : condition);
  }
  return text;
}

ScalarCode pytorch::printScalar(Region &region, ArrayRef<std::string> arguments,
                                const ScalarPlaces &places, Operation *&unknown) {
  ScalarCode code;
  unknown = RegionPrinter(code, places).run(region.front(), arguments);
  return code;
}
