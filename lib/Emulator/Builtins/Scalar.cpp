// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the arithmetic of one thread. The hardware approximations that shipped kernels use
// (ex2, rcp, div.full) have the maximum error that the PTX ISA allows, by a number of ulp that
// depends only on the operands' bits: a bound that holds here holds on a GPU. The others (rsqrt,
// lg2, ...) are correct to the last bit of f32: a GPU's results differ by an ulp or two.
#include "Builtins.h"

#include "llvm/ADT/bit.h"
#include <cmath>

using namespace sluice::emulator;

/// Turns results and operands below the least normal number into zeros of their sign.
static float flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

/// Returns a float within `most` ulp of the exact result; zeros, subnormal numbers, infinities and
/// NaN are unchanged.
static float perturb(double exact, int most, uint64_t operands) {
  auto nearest = static_cast<float>(exact);
  if (!std::isnormal(nearest)) {
    return nearest;
  }
  operands = (operands ^ operands >> 32) * 0x9e3779b97f4a7c15ull; // spreads to the upper bits
  int steps = static_cast<int>((operands >> 40) % static_cast<uint64_t>(2 * most + 1)) - most;
  double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
  float result = nearest;
  for (; steps != 0; steps += steps < 0 ? 1 : -1) {
    float next = std::nextafter(result, steps < 0 ? -INFINITY : INFINITY);
    if (!std::isnormal(next) || std::abs(next - exact) > most * ulp) {
      break;
    }
    result = next;
  }
  return result;
}
static uint64_t toBits(float x) { return llvm::bit_cast<uint32_t>(x); }

template <double (*Function)(double), int most> static float perturbed(uint32_t, float x) {
  return perturb(Function(x), most, toBits(x));
}
template <double (*Function)(double), int most> static float perturbedFlushing(uint32_t, float x) {
  return flush(perturb(Function(flush(x)), most, toBits(x)));
}
static float perturbedQuotient(uint32_t, float x, float y) {
  return perturb(double(x) / y, 2, toBits(x) << 32 | toBits(y));
}

template <double (*Function)(double)> static float approximate(uint32_t, float x) {
  return static_cast<float>(Function(x));
}
template <double (*Function)(double)> static float approximateFlushing(uint32_t, float x) {
  return flush(static_cast<float>(Function(flush(x))));
}
static double reciprocal(double x) { return 1 / x; }
static double reciprocalRoot(double x) { return 1 / std::sqrt(x); }

static float fusedMultiplyAdd(uint32_t, float x, float y, float z) { return std::fma(x, y, z); }
static double fusedMultiplyAddWide(uint32_t, double x, double y, double z) {
  return std::fma(x, y, z);
}
static float add(uint32_t, float x, float y) { return x + y; }
static float multiply(uint32_t, float x, float y) { return x * y; }
static float divide(uint32_t, float x, float y) { return x / y; }
static float absolute(uint32_t, float x) { return std::fabs(x); }
static float larger(uint32_t, float x, float y) { return std::fmax(x, y); }
static float smaller(uint32_t, float x, float y) { return std::fmin(x, y); }
static float largerOrNan(uint32_t, float x, float y) {
  return std::isnan(x) || std::isnan(y) ? NAN : std::fmax(x, y);
}
static float smallerOrNan(uint32_t, float x, float y) {
  return std::isnan(x) || std::isnan(y) ? NAN : std::fmin(x, y);
}

/// Rounds to nearest, ties to even; NaN becomes PTX's 0x7fff.
static uint32_t toBf16(float x) {
  if (std::isnan(x)) {
    return 0x7fff;
  }
  auto bits = llvm::bit_cast<uint32_t>(x);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static uint32_t toF16(float x) {
  return std::isnan(x) ? 0x7fff : llvm::bit_cast<uint16_t>(static_cast<_Float16>(x));
}
/// Rounds two numbers to one register, with the first operand in the upper half.
template <uint32_t (*Round)(float)> static uint32_t roundPair(uint32_t, float high, float low) {
  return Round(high) << 16 | Round(low);
}
template <uint32_t (*Round)(float)> static uint32_t roundOne(uint32_t, float x) { return Round(x); }
/// Rounds to nearest, ties away from zero.
static uint32_t toTf32(uint32_t, float x) {
  auto bits = llvm::bit_cast<uint32_t>(x);
  return std::isfinite(x) ? (bits + 0x1000) & ~0x1fffu : bits;
}

/// Implements PTX's prmt: each nibble of `selector` names one of eight bytes; its top bit
/// replicates the sign.
static uint32_t permute(uint32_t, uint32_t low, uint32_t high, uint32_t selector) {
  uint64_t bytes = uint64_t(high) << 32 | low;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    uint32_t which = selector >> 4 * i & 15;
    uint32_t byte = bytes >> 8 * (which & 7) & 255;
    byte = which & 8 ? (byte & 128 ? 255 : 0) : byte;
    result |= byte << 8 * i;
  }
  return result;
}
static uint32_t highHalf(uint32_t, uint32_t x, uint32_t y) {
  return static_cast<uint32_t>(uint64_t(x) * y >> 32);
}
static uint32_t highHalfSigned(uint32_t, uint32_t x, uint32_t y) {
  return static_cast<uint32_t>(int64_t(int32_t(x)) * int32_t(y) >> 32);
}
/// Implements the call that LLVM emits for code without bf16 instructions; the result is passed as
/// a float.
static float truncateToBf16(float x) { return llvm::bit_cast<float>(toBf16(x)); }
static void ignore(uint32_t) {}
static void ignoreOne(uint32_t, uint32_t) {}

llvm::ArrayRef<Builtin> sluice::emulator::scalarBuiltins() {
  static const Builtin table[] = {
      makeBuiltin("ex2.approx.f32", perturbed<std::exp2, 2>),
      makeBuiltin("ex2.approx.ftz.f32", perturbedFlushing<std::exp2, 2>),
      makeBuiltin("lg2.approx.f", approximate<std::log2>),
      makeBuiltin("lg2.approx.ftz.f", approximateFlushing<std::log2>),
      makeBuiltin("rsqrt.approx.f", approximate<reciprocalRoot>),
      makeBuiltin("rsqrt.approx.ftz.f", approximateFlushing<reciprocalRoot>),
      makeBuiltin("sqrt.approx.f", approximate<std::sqrt>),
      makeBuiltin("sqrt.approx.ftz.f", approximateFlushing<std::sqrt>),
      makeBuiltin("sqrt.rn.f", approximate<std::sqrt>),
      makeBuiltin("sqrt.f", approximate<std::sqrt>),
      makeBuiltin("rcp.approx.ftz.f", perturbedFlushing<reciprocal, 1>),
      makeBuiltin("rcp.rn.f", approximate<reciprocal>),
      makeBuiltin("sin.approx.f", approximate<std::sin>),
      makeBuiltin("cos.approx.f", approximate<std::cos>),
      makeBuiltin("tanh.approx.f32", approximate<std::tanh>),
      makeBuiltin("fma.rn.f", fusedMultiplyAdd),
      makeBuiltin("fma.rn.d", fusedMultiplyAddWide),
      makeBuiltin("add.rn.f", add),
      makeBuiltin("mul.rn.f", multiply),
      makeBuiltin("div.rn.f", divide),
      makeBuiltin("div.approx.f", divide),
      makeBuiltin("div.full", perturbedQuotient),
      makeBuiltin("fabs.f32", absolute),
      makeBuiltin("fmax.f", larger),
      makeBuiltin("fmin.f", smaller),
      makeBuiltin("fmax.nan.f", largerOrNan),
      makeBuiltin("fmin.nan.f", smallerOrNan),
      makeBuiltin("ff2bf16x2.rn", roundPair<toBf16>),
      makeBuiltin("ff2f16x2.rn", roundPair<toF16>),
      makeBuiltin("f2bf16.rn", roundOne<toBf16>),
      makeBuiltin("__truncsfbf2", truncateToBf16),
      makeBuiltin("f2f16.rn", roundOne<toF16>),
      makeBuiltin("f2tf32.rna", toTf32),
      makeBuiltin("prmt", permute),
      makeBuiltin("mulhi.ui", highHalf),
      makeBuiltin("mulhi.i", highHalfSigned),
      makeBuiltin("griddepcontrol.wait", ignore),
      makeBuiltin("griddepcontrol.launch.dependents", ignore),
      makeBuiltin("setmaxnreg.inc.sync.aligned.u32", ignoreOne),
      makeBuiltin("setmaxnreg.dec.sync.aligned.u32", ignoreOne),
  };
  return table;
}
