// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Semantics of the scalar ops of bodies: the table of arith and math ops that every interpreter
// uses. The number type is a parameter: float64 for the reference, float32 for the rounding error
// of compiled code, numbers with error bounds for the verification of launches.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace sluice::scalar {

/// A value of scalar code: `real` for floats, `integer` for integers, indices and booleans (0 or
/// 1). For an integer, `real` is its uncertainty.
template <typename T> struct Scalar {
  T real{};
  int64_t integer = 0;
};

enum class Elementary { Exp, Exp2, Expm1, Log, Log1p, Sqrt, Rsqrt, Erf, Tanh, Sin, Cos, Floor };

template <typename T> T evaluate(Elementary function, T x) {
  switch (function) {
  case Elementary::Exp:
    return std::exp(x);
  case Elementary::Exp2:
    return std::exp2(x);
  case Elementary::Expm1:
    return std::expm1(x);
  case Elementary::Log:
    return std::log(x);
  case Elementary::Log1p:
    return std::log1p(x);
  case Elementary::Sqrt:
    return std::sqrt(x);
  case Elementary::Rsqrt:
    return T(1) / std::sqrt(x);
  case Elementary::Erf:
    return std::erf(x);
  case Elementary::Tanh:
    return std::tanh(x);
  case Elementary::Sin:
    return std::sin(x);
  case Elementary::Cos:
    return std::cos(x);
  case Elementary::Floor:
    return std::floor(x);
  }
  llvm_unreachable("every function is above");
}

/// Arithmetic of a number type; by default, C++'s. Numbers with errors specialize every member, and
/// `evaluate`.
template <typename T> struct Arithmetic {
  static T add(T x, T y) { return x + y; }
  static T subtract(T x, T y) { return x - y; }
  static T multiply(T x, T y) { return x * y; }
  static T divide(T x, T y) { return x / y; }
  static T fma(T x, T y, T z) { return std::fma(x, y, z); }
  static T negate(T x) { return -x; }
  static T absolute(T x) { return std::fabs(x); }
  static T copySign(T x, T y) { return std::copysign(x, y); }
  static T power(T x, T y) { return std::pow(x, y); }
  /// Propagates NaN.
  static T maximum(T x, T y) { return x != x ? x : (y != y ? y : (x > y ? x : y)); }
  static T minimum(T x, T y) { return x != x ? x : (y != y ? y : (x < y ? x : y)); }
  /// Ignores a NaN.
  static T greater(T x, T y) { return std::fmax(x, y); }
  static T lesser(T x, T y) { return std::fmin(x, y); }
  /// Converts to another floating-point type.
  static T converted(T x, mlir::Type) { return x; }
  static T ofInteger(int64_t integer, T) { return T(integer); }

  static double toValue(T x) { return x; }
  /// Returns the uncertainty of the comparison of x with y.
  static T doubt(T, T) { return 0; }
  static bool isSure(T) { return true; }
  /// Combines two uncertainties.
  static T join(T, T) { return 0; }
  static Scalar<T> select(Scalar<T> condition, Scalar<T> x, Scalar<T> y) {
    return condition.integer != 0 ? x : y;
  }
};

/// Returns an integer as a value of `type`: sign-extended, a boolean as 0 or 1.
inline int64_t wrapped(int64_t integer, mlir::Type type) {
  auto whole = mlir::dyn_cast<mlir::IntegerType>(type);
  if (!whole || whole.getWidth() >= 64) {
    return integer;
  }
  return whole.getWidth() == 1 ? integer & 1
                               : llvm::SignExtend64(uint64_t(integer), whole.getWidth());
}

/// Returns the bits of an integer of `type`, truncated to 64 bits.
inline llvm::APInt toBits(int64_t integer, mlir::Type type) {
  unsigned width = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  return llvm::APInt(width, uint64_t(integer), /*isSigned=*/true, /*implicitTrunc=*/true);
}

inline bool holds(mlir::arith::CmpFPredicate predicate, double x, double y) {
  using P = mlir::arith::CmpFPredicate;
  bool unordered = x != x || y != y;
  switch (predicate) {
  case P::AlwaysFalse:
    return false;
  case P::AlwaysTrue:
    return true;
  case P::ORD:
    return !unordered;
  case P::UNO:
    return unordered;
  case P::OEQ:
    return x == y;
  case P::OGT:
    return x > y;
  case P::OGE:
    return x >= y;
  case P::OLT:
    return x < y;
  case P::OLE:
    return x <= y;
  case P::ONE:
    return !unordered && x != y;
  case P::UEQ:
    return unordered || x == y;
  case P::UGT:
    return unordered || x > y;
  case P::UGE:
    return unordered || x >= y;
  case P::ULT:
    return unordered || x < y;
  case P::ULE:
    return unordered || x <= y;
  case P::UNE:
    return x != y;
  }
  llvm_unreachable("every predicate is above");
}

/// Returns the type of a scalar, or of a row's elements.
inline mlir::Type getTensorElementType(mlir::Value value) {
  return mlir::getElementTypeOrSelf(value.getType());
}

template <typename T> using Arguments = llvm::ArrayRef<Scalar<T>>;
/// Function that computes an op's result from its operands.
template <typename T> using Rule = Scalar<T> (*)(mlir::Operation &op, Arguments<T> x);

namespace rules {

template <typename T, T (*function)(T)> Scalar<T> ofOne(mlir::Operation &, Arguments<T> x) {
  return {.real = function(x[0].real)};
}
template <typename T, T (*function)(T, T)> Scalar<T> ofTwo(mlir::Operation &, Arguments<T> x) {
  return {.real = function(x[0].real, x[1].real)};
}
template <typename T> Scalar<T> fma(mlir::Operation &, Arguments<T> x) {
  return {.real = Arithmetic<T>::fma(x[0].real, x[1].real, x[2].real)};
}
template <typename T, Elementary function> Scalar<T> elementary(mlir::Operation &, Arguments<T> x) {
  return {.real = evaluate<T>(function, x[0].real)};
}
template <typename T> Scalar<T> converted(mlir::Operation &op, Arguments<T> x) {
  return {.real = Arithmetic<T>::converted(x[0].real, getTensorElementType(op.getResult(0)))};
}

template <typename T, int64_t (*function)(int64_t, int64_t)>
Scalar<T> whole(mlir::Operation &op, Arguments<T> x) {
  int64_t result = function(x[0].integer, x[1].integer);
  return {Arithmetic<T>::join(x[0].real, x[1].real),
          wrapped(result, getTensorElementType(op.getResult(0)))};
}
/// Bitwise op: an operand equal to `deciding` determines the result alone, which is then as certain
/// as that operand. `deciding` is a boolean.
template <typename T, int64_t (*function)(int64_t, int64_t), int64_t deciding>
Scalar<T> logical(mlir::Operation &op, Arguments<T> x) {
  Scalar<T> result = whole<T, function>(op, x);
  for (const Scalar<T> &operand : x) {
    if (getTensorElementType(op.getResult(0)).isInteger(1) && operand.integer == deciding &&
        Arithmetic<T>::isSure(operand.real)) {
      result.real = {};
    }
  }
  return result;
}
/// Converts an integer to another integer width, or to a float.
template <typename T, bool isSigned> int64_t extended(mlir::Operation &op, Arguments<T> x) {
  llvm::APInt bits = toBits(x[0].integer, getTensorElementType(op.getOperand(0)));
  return isSigned ? bits.getSExtValue() : int64_t(bits.getZExtValue());
}
template <typename T, bool isSigned> Scalar<T> resized(mlir::Operation &op, Arguments<T> x) {
  return {x[0].real, wrapped(extended<T, isSigned>(op, x), getTensorElementType(op.getResult(0)))};
}
template <typename T, bool isSigned> Scalar<T> toFloat(mlir::Operation &op, Arguments<T> x) {
  return {.real = Arithmetic<T>::ofInteger(extended<T, isSigned>(op, x), x[0].real)};
}

template <typename T> Scalar<T> compareFloats(mlir::Operation &op, Arguments<T> x) {
  using A = Arithmetic<T>;
  auto predicate = mlir::cast<mlir::arith::CmpFOp>(op).getPredicate();
  return {A::doubt(x[0].real, x[1].real),
          holds(predicate, A::toValue(x[0].real), A::toValue(x[1].real))};
}
template <typename T> Scalar<T> compareIntegers(mlir::Operation &op, Arguments<T> x) {
  auto compare = mlir::cast<mlir::arith::CmpIOp>(op);
  mlir::Type type = getTensorElementType(compare.getLhs());
  return {Arithmetic<T>::join(x[0].real, x[1].real),
          mlir::arith::applyCmpPredicate(compare.getPredicate(), toBits(x[0].integer, type),
                                         toBits(x[1].integer, type))};
}
template <typename T> Scalar<T> select(mlir::Operation &, Arguments<T> x) {
  return Arithmetic<T>::select(x[0], x[1], x[2]);
}

using I = int64_t;
inline I add(I x, I y) { return I(uint64_t(x) + uint64_t(y)); }
inline I subtract(I x, I y) { return I(uint64_t(x) - uint64_t(y)); }
inline I multiply(I x, I y) { return I(uint64_t(x) * uint64_t(y)); }
/// Division by zero is undefined; returns 0 here.
inline I divide(I x, I y) { return y == 0 ? 0 : x / y; }
inline I floorDivide(I x, I y) { return y == 0 ? 0 : llvm::divideFloorSigned(x, y); }
inline I ceilDivide(I x, I y) { return y == 0 ? 0 : llvm::divideCeilSigned(x, y); }
inline I remainder(I x, I y) { return y == 0 ? 0 : x % y; }
inline I least(I x, I y) { return std::min(x, y); }
inline I greatest(I x, I y) { return std::max(x, y); }
inline I conjunction(I x, I y) { return x & y; }
inline I disjunction(I x, I y) { return x | y; }
inline I difference(I x, I y) { return x ^ y; }

/// Returns the first operand; the second one only defines the derivative.
template <typename T> Scalar<T> first(mlir::Operation &, Arguments<T> x) { return x[0]; }

template <typename T> Rule<T> onFloats(llvm::StringRef name) {
  using A = Arithmetic<T>;
  return llvm::StringSwitch<Rule<T>>(name)
      .Case("arith.addf", ofTwo<T, A::add>)
      .Case("arith.subf", ofTwo<T, A::subtract>)
      .Case("arith.mulf", ofTwo<T, A::multiply>)
      .Case("arith.divf", ofTwo<T, A::divide>)
      .Case("math.fma", fma<T>)
      .Case("arith.negf", ofOne<T, A::negate>)
      .Case("math.absf", ofOne<T, A::absolute>)
      .Case("math.copysign", ofTwo<T, A::copySign>)
      .Case("math.powf", ofTwo<T, A::power>)
      .Case("arith.maximumf", ofTwo<T, A::maximum>)
      .Case("arith.minimumf", ofTwo<T, A::minimum>)
      .Case("arith.maxnumf", ofTwo<T, A::greater>)
      .Case("arith.minnumf", ofTwo<T, A::lesser>)
      .Cases({"arith.extf", "arith.truncf"}, converted<T>)
      .Case("math.exp", elementary<T, Elementary::Exp>)
      .Case("math.exp2", elementary<T, Elementary::Exp2>)
      .Case("math.expm1", elementary<T, Elementary::Expm1>)
      .Case("math.log", elementary<T, Elementary::Log>)
      .Case("math.log1p", elementary<T, Elementary::Log1p>)
      .Case("math.sqrt", elementary<T, Elementary::Sqrt>)
      .Case("math.rsqrt", elementary<T, Elementary::Rsqrt>)
      .Case("math.erf", elementary<T, Elementary::Erf>)
      .Case("math.tanh", elementary<T, Elementary::Tanh>)
      .Case("math.sin", elementary<T, Elementary::Sin>)
      .Case("math.cos", elementary<T, Elementary::Cos>)
      .Case("math.floor", elementary<T, Elementary::Floor>)
      .Case("dispatch.straight_through", first<T>)
      .Default(nullptr);
}

template <typename T> Rule<T> onIntegers(llvm::StringRef name) {
  return llvm::StringSwitch<Rule<T>>(name)
      .Case("arith.addi", whole<T, add>)
      .Case("arith.subi", whole<T, subtract>)
      .Case("arith.muli", whole<T, multiply>)
      .Case("arith.divsi", whole<T, divide>)
      .Case("arith.floordivsi", whole<T, floorDivide>)
      .Case("arith.ceildivsi", whole<T, ceilDivide>)
      .Case("arith.remsi", whole<T, remainder>)
      .Case("arith.minsi", whole<T, least>)
      .Case("arith.maxsi", whole<T, greatest>)
      .Case("arith.andi", logical<T, conjunction, 0>)
      .Case("arith.ori", logical<T, disjunction, 1>)
      .Case("arith.xori", whole<T, difference>)
      .Cases({"arith.index_cast", "arith.extsi", "arith.trunci"}, resized<T, true>)
      .Cases({"arith.index_castui", "arith.extui"}, resized<T, false>)
      .Case("arith.sitofp", toFloat<T, true>)
      .Case("arith.uitofp", toFloat<T, false>)
      .Case("arith.cmpf", compareFloats<T>)
      .Case("arith.cmpi", compareIntegers<T>)
      .Case("arith.select", select<T>)
      .Default(nullptr);
}

} // namespace rules

/// Returns the rule of an op of one result; null if the op is unknown.
template <typename T> Rule<T> getScalarRule(mlir::Operation &op) {
  llvm::StringRef name = op.getName().getStringRef();
  Rule<T> rule = rules::onFloats<T>(name);
  return rule ? rule : rules::onIntegers<T>(name);
}

/// Returns an element of a constant.
template <typename T> Scalar<T> getConstantValue(mlir::Attribute element) {
  if (auto number = mlir::dyn_cast<mlir::FloatAttr>(element)) {
    return {.real = static_cast<T>(number.getValueAsDouble())};
  }
  auto integer = mlir::cast<mlir::IntegerAttr>(element);
  return {.integer = wrapped(integer.getValue().getSExtValue(), integer.getType())};
}

} // namespace sluice::scalar
