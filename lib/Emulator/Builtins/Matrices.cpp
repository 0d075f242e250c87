// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrices of a warp, by the tables of the PTX ISA (mma.m16n8k4 to k32, ldmatrix, stmatrix). Of
// lane l, g = l / 4 and q = l mod 4. With E elements in a register of 32 bits:
//   A (16 x K)  register i, element e: row g + 8 (i mod 2), column E q + e + 4 E (i div 2)
//   B (K x 8)   register i, element e: row E q + e + 4 E i, column g
//   C (16 x 8)  number i: row g + 8 (i div 2), column 2 q + i mod 2
//   8 x 8 of 16 bits: row g, columns 2 q, 2 q + 1; transposed: rows 2 q, 2 q + 1, column g
#include "Builtins.h"
#include "Machine.h"

#include "llvm/ADT/bit.h"
#include <cstring>

using namespace sluice::emulator;

namespace {

constexpr unsigned lanes = Machine::lanes, rows = 16, columns = 8;

struct Bf16 {
  static constexpr unsigned perRegister = 2;
  static double read(uint32_t bits, unsigned element) {
    return llvm::bit_cast<float>(element ? bits & 0xffff0000u : bits << 16);
  }
};

struct F16 {
  static constexpr unsigned perRegister = 2;
  static double read(uint32_t bits, unsigned element) {
    auto half = static_cast<uint16_t>(bits >> 16 * element);
    return static_cast<double>(llvm::bit_cast<_Float16>(half));
  }
};

/// Ignores the 13 lowest bits.
struct Tf32 {
  static constexpr unsigned perRegister = 1;
  static double read(uint32_t bits, unsigned) { return llvm::bit_cast<float>(bits & ~0x1fffu); }
};

template <typename Element, unsigned Inner> struct MatrixProduct {
  static constexpr unsigned aRegisters = rows * Inner / lanes / Element::perRegister;
  static constexpr unsigned bRegisters = Inner * columns / lanes / Element::perRegister;
  uint32_t a[aRegisters], b[bRegisters];
  float c[4];
  float d[4];

  /// Computes products exactly in float64, and their sums nearly so: each sum is rounded to f32
  /// once, at the end. A tensor core rounds or truncates more often.
  static void perform(Machine &machine, void *const *brought, uint32_t) {
    double a[rows][Inner], b[Inner][columns];
    constexpr unsigned each = Element::perRegister;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const auto &mine = *static_cast<MatrixProduct *>(brought[lane]);
      unsigned g = lane / 4, q = lane % 4;
      for (unsigned e = 0; e < each; ++e) {
        for (unsigned i = 0; i < aRegisters; ++i) {
          a[g + i % 2 * 8][each * q + e + i / 2 * 4 * each] = Element::read(mine.a[i], e);
        }
        for (unsigned i = 0; i < bRegisters; ++i) {
          b[each * q + e + i * 4 * each][g] = Element::read(mine.b[i], e);
        }
      }
    }
    double sums[rows][columns] = {};
    for (unsigned row = 0; row < rows; ++row) {
      for (unsigned k = 0; k < Inner; ++k) {
        for (unsigned column = 0; column < columns; ++column) {
          sums[row][column] += a[row][k] * b[k][column];
        }
      }
    }
    for (unsigned lane = 0; lane < lanes; ++lane) {
      auto &mine = *static_cast<MatrixProduct *>(brought[lane]);
      for (unsigned i = 0; i < 4; ++i) {
        mine.d[i] = float(sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] + mine.c[i]);
      }
    }
    ++machine.report.counters.tensorInstructions;
    machine.report.counters.tensorFlops += 2 * rows * columns * Inner;
  }

  void run(uint32_t site, float *out) {
    Machine::current().meetings.meet(site, "mma.sync", ~0u, true, this, perform);
    std::memcpy(out, d, sizeof d);
  }
};

} // namespace

template <typename Element, unsigned Inner>
static void multiply42(uint32_t site, float *out, uint32_t a0, uint32_t a1, uint32_t a2,
                       uint32_t a3, uint32_t b0, uint32_t b1, float c0, float c1, float c2,
                       float c3) {
  MatrixProduct<Element, Inner>{{a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3}, {}}.run(site, out);
}

template <typename Element, unsigned Inner>
static void multiply21(uint32_t site, float *out, uint32_t a0, uint32_t a1, uint32_t b0, float c0,
                       float c1, float c2, float c3) {
  MatrixProduct<Element, Inner>{{a0, a1}, {b0}, {c0, c1, c2, c3}, {}}.run(site, out);
}

namespace {
struct MatrixMove {
  uint32_t site;
  uint64_t address;
  uint32_t registers[4];
};
} // namespace

static uint16_t *getRow(void *const *brought, unsigned matrix, unsigned row) {
  return reinterpret_cast<uint16_t *>(
      static_cast<MatrixMove *>(brought[matrix * 8 + row])->address);
}

/// Reads the address of row r of matrix m from lane 8 m + r; the addresses of other lanes are
/// unused.
template <unsigned Count, bool Writes>
static void touchRows(Machine &machine, void *const *brought, uint32_t) {
  unsigned first = machine.thread() / lanes * lanes;
  for (unsigned i = 0; i < 8 * Count; ++i) {
    const auto &mine = *static_cast<MatrixMove *>(brought[i]);
    machine.touchShared(first + i, mine.address, 16, Writes, mine.site);
  }
}

template <unsigned Count, bool Transposed>
static void loadRows(Machine &machine, void *const *brought, uint32_t mask) {
  touchRows<Count, false>(machine, brought, mask);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    auto &mine = *static_cast<MatrixMove *>(brought[lane]);
    for (unsigned matrix = 0; matrix < Count; ++matrix) {
      uint32_t pair = 0;
      for (unsigned e = 0; e < 2; ++e) {
        unsigned row = Transposed ? lane % 4 * 2 + e : lane / 4;
        unsigned column = Transposed ? lane / 4 : lane % 4 * 2 + e;
        pair |= uint32_t(getRow(brought, matrix, row)[column]) << 16 * e;
      }
      mine.registers[matrix] = pair;
    }
  }
}

template <unsigned Count, bool Transposed>
static void storeRows(Machine &machine, void *const *brought, uint32_t mask) {
  touchRows<Count, true>(machine, brought, mask);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const auto &mine = *static_cast<MatrixMove *>(brought[lane]);
    for (unsigned matrix = 0; matrix < Count; ++matrix) {
      for (unsigned e = 0; e < 2; ++e) {
        unsigned row = Transposed ? lane % 4 * 2 + e : lane / 4;
        unsigned column = Transposed ? lane / 4 : lane % 4 * 2 + e;
        getRow(brought, matrix, row)[column] =
            static_cast<uint16_t>(mine.registers[matrix] >> 16 * e);
      }
    }
  }
}

template <unsigned Count, bool Transposed> static MatrixMove load(uint32_t site, uint64_t address) {
  MatrixMove mine{site, address, {}};
  static const char *const names[] = {"ldmatrix", "ldmatrix.trans"};
  Machine::current().meetings.meet(site, names[Transposed], ~0u, true, &mine,
                                   loadRows<Count, Transposed>);
  return mine;
}
template <bool Transposed> static uint32_t loadOne(uint32_t site, uint64_t address) {
  return load<1, Transposed>(site, address).registers[0];
}
template <unsigned Count, bool Transposed>
static void loadMany(uint32_t site, uint32_t *out, uint64_t address) {
  MatrixMove mine = load<Count, Transposed>(site, address);
  std::memcpy(out, mine.registers, Count * sizeof *out);
}

template <unsigned Count, bool Transposed> static void store(uint32_t site, MatrixMove mine) {
  static const char *const names[] = {"stmatrix", "stmatrix.trans"};
  mine.site = site;
  Machine::current().meetings.meet(site, names[Transposed], ~0u, true, &mine,
                                   storeRows<Count, Transposed>);
}
template <bool Transposed> static void storeOne(uint32_t site, uint64_t address, uint32_t r0) {
  store<1, Transposed>(site, {site, address, {r0}});
}
template <bool Transposed>
static void storeTwo(uint32_t site, uint64_t address, uint32_t r0, uint32_t r1) {
  store<2, Transposed>(site, {site, address, {r0, r1}});
}
template <bool Transposed>
static void storeFour(uint32_t site, uint64_t address, uint32_t r0, uint32_t r1, uint32_t r2,
                      uint32_t r3) {
  store<4, Transposed>(site, {site, address, {r0, r1, r2, r3}});
}

llvm::ArrayRef<Builtin> sluice::emulator::matrixBuiltins() {
  static const Builtin table[] = {
      makeBuiltin("mma.m16n8k16.row.col.bf16", multiply42<Bf16, 16>),
      makeBuiltin("mma.m16n8k8.row.col.bf16", multiply21<Bf16, 8>),
      makeBuiltin("mma.m16n8k16.row.col.f32.f32", multiply42<F16, 16>),
      makeBuiltin("mma.m16n8k8.row.col.f32.f32", multiply21<F16, 8>),
      makeBuiltin("mma.m16n8k8.row.col.tf32", multiply42<Tf32, 8>),
      makeBuiltin("mma.m16n8k4.row.col.tf32", multiply21<Tf32, 4>),
      makeBuiltin("ldmatrix.sync.aligned.m8n8.x1.b16", loadOne<false>),
      makeBuiltin("ldmatrix.sync.aligned.m8n8.x1.trans.b16", loadOne<true>),
      makeBuiltin("ldmatrix.sync.aligned.m8n8.x2.b16", loadMany<2, false>),
      makeBuiltin("ldmatrix.sync.aligned.m8n8.x2.trans.b16", loadMany<2, true>),
      makeBuiltin("ldmatrix.sync.aligned.m8n8.x4.b16", loadMany<4, false>),
      makeBuiltin("ldmatrix.sync.aligned.m8n8.x4.trans.b16", loadMany<4, true>),
      makeBuiltin("stmatrix.sync.aligned.m8n8.x1.b16", storeOne<false>),
      makeBuiltin("stmatrix.sync.aligned.m8n8.x1.trans.b16", storeOne<true>),
      makeBuiltin("stmatrix.sync.aligned.m8n8.x2.b16", storeTwo<false>),
      makeBuiltin("stmatrix.sync.aligned.m8n8.x2.trans.b16", storeTwo<true>),
      makeBuiltin("stmatrix.sync.aligned.m8n8.x4.b16", storeFour<false>),
      makeBuiltin("stmatrix.sync.aligned.m8n8.x4.trans.b16", storeFour<true>),
  };
  return table;
}
