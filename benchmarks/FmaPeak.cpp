// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Peak rate of fused multiply-adds. Twelve chains cover latency times ports on every x86-64 core so
// far.
#include "FmaPeak.h"

#include <algorithm>
#include <chrono>
#include <immintrin.h>

static constexpr int chains = 12, steps = 200000, repetitions = 5;

template <typename Run> static double bestRate(double operations, Run run) {
  double best = 0;
  for (int i = 0; i < repetitions; ++i) {
    auto start = std::chrono::steady_clock::now();
    run();
    std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, operations / time.count());
  }
  return best;
}

__attribute__((target("avx512f"))) static float loop512() {
  __m512 sums[chains], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  for (int i = 0; i < chains; ++i) {
    sums[i] = _mm512_set1_ps(float(i));
  }
  for (int step = 0; step < steps; ++step) {
#pragma clang loop unroll(full)
    for (int i = 0; i < chains; ++i) {
      sums[i] = _mm512_fmadd_ps(sums[i], x, y);
      asm volatile("" : "+v"(sums[i]));
    }
  }
  float total = 0;
  for (int i = 0; i < chains; ++i) {
    total += _mm512_reduce_add_ps(sums[i]);
  }
  return total;
}

__attribute__((target("avx2,fma"))) static float loop256() {
  __m256 sums[chains], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (int i = 0; i < chains; ++i) {
    sums[i] = _mm256_set1_ps(float(i));
  }
  for (int step = 0; step < steps; ++step) {
#pragma clang loop unroll(full)
    for (int i = 0; i < chains; ++i) {
      sums[i] = _mm256_fmadd_ps(sums[i], x, y);
      asm volatile("" : "+x"(sums[i]));
    }
  }
  float total = 0;
  for (int i = 0; i < chains; ++i) {
    total += _mm_cvtss_f32(_mm256_castps256_ps128(sums[i]));
  }
  return total;
}

static volatile float sink;

double fmaPeakAvx512() {
  return bestRate(2.0 * 16 * chains * steps, [] { sink = loop512(); });
}

double fmaPeakAvx2() {
  return bestRate(2.0 * 8 * chains * steps, [] { sink = loop256(); });
}
