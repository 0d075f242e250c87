// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Decodes and computes instructions in a handler of SIGILL. It allocates nothing and calls no
// library but memcpy.
#include "MissingInstructions.h"

#include <array>
#include <atomic>
#include <cpuid.h>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <immintrin.h>
#include <ucontext.h>
#include <unistd.h>

using namespace sluice;

namespace {

/// Tiles of a thread and their configuration.
struct Tiles {
  uint8_t palette = 0;
  std::array<uint8_t, 8> rows{};
  std::array<uint16_t, 8> columnBytes{};
  uint8_t data[8][16][64] = {};
};
thread_local Tiles tiles;
std::atomic<long> emulated = 0;

/// Ends the process where the machine would fault.
[[noreturn]] void fault(const char *message) {
  [[maybe_unused]] auto written = ::write(STDERR_FILENO, message, std::strlen(message));
  std::abort();
}
void require(bool holds, const char *message) {
  if (!holds) {
    fault(message);
  }
}

template <typename T> T read(const void *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Registers of the interrupted thread: general ones, and vectors in the frame's XSAVE area.
class Registers {
public:
  explicit Registers(ucontext_t *context)
      : general(context->uc_mcontext.gregs),
        area(reinterpret_cast<uint8_t *>(context->uc_mcontext.fpregs)) {
    // A component that is not in use is all zeros, and its memory is undefined.
    auto used = read<uint64_t>(area + 512);
    for (unsigned component : {2u, 5u, 6u, 7u}) {
      unsigned bytes = 0, offset = 0, c = 0, d = 0;
      __cpuid_count(13, component, bytes, offset, c, d);
      starts[component] = area + offset;
      if (!(used >> component & 1)) {
        std::memset(area + offset, 0, bytes);
      }
    }
    if (!(used >> 1 & 1)) {
      std::memset(area + 160, 0, 256);
    }
    used |= 0xe6;
    std::memcpy(area + 512, &used, sizeof used);
  }

  int64_t get(unsigned number) const {
    constexpr int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                             REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                             REG_R12, REG_R13, REG_R14, REG_R15};
    return general[order[number]];
  }
  const uint8_t *instruction() const {
    return reinterpret_cast<const uint8_t *>(general[REG_RIP]); // NOLINT(performance-no-int-to-ptr)
  }
  void skipTo(const uint8_t *next) { general[REG_RIP] = reinterpret_cast<int64_t>(next); }

  void getVector(unsigned number, uint8_t *bytes) const {
    forParts(number, [&](uint8_t *part, int first, int count) {
      std::memcpy(bytes + first, part, size_t(count));
    });
  }
  void setVector(unsigned number, const uint8_t *bytes) {
    forParts(number, [&](uint8_t *part, int first, int count) {
      std::memcpy(part, bytes + first, size_t(count));
    });
  }
  uint64_t getMask(unsigned number) const { return read<uint64_t>(starts[5] + size_t(8) * number); }

private:
  template <typename Visit> void forParts(unsigned number, Visit visit) const {
    if (number >= 16) {
      visit(starts[7] + size_t(64) * (number - 16), 0, 64);
      return;
    }
    visit(area + 160 + size_t(16) * number, 0, 16);
    visit(starts[2] + size_t(16) * number, 16, 16);
    visit(starts[6] + size_t(32) * number, 32, 32);
  }

  greg_t *general;
  uint8_t *area;
  uint8_t *starts[8] = {};
};

/// Fields of an instruction with a VEX or EVEX prefix.
struct Instruction {
  bool isEvex = false, isRegister = false, broadcasts = false, zeroes = false;
  unsigned map = 0, prefix = 0, opcode = 0; ///< prefix: 0 none, 1 66, 2 F3, 3 F2
  unsigned reg = 0, second = 0, rm = 0, mask = 0, vectorBytes = 16;
  int64_t address = 0,
          index = 0; ///< of memory without the index register, which is a tile's stride
  bool hasIndex = false;
  const uint8_t *next = nullptr;

  bool is(bool evex, unsigned prefix, unsigned opcode) const {
    return isEvex == evex && map == 2 && this->prefix == prefix && this->opcode == opcode;
  }
  const uint8_t *memory() const {
    return reinterpret_cast<const uint8_t *>(address + index); // NOLINT(performance-no-int-to-ptr)
  }
};

/// Reads ModRM, SIB and the displacement. `extensions` are the inverted bits R, X and B of the
/// prefix; `unit` scales a displacement of a byte.
void decodeOperands(const uint8_t *at, unsigned extensions, int64_t unit,
                    const Registers &registers, Instruction &result) {
  unsigned modrm = *at++, mod = modrm >> 6, rm = modrm & 7;
  unsigned r = ~extensions >> 2 & 1, x = ~extensions >> 1 & 1, b = ~extensions & 1;
  result.reg |= (modrm >> 3 & 7) | r << 3;
  result.isRegister = mod == 3;
  if (result.isRegister) {
    result.rm = rm | b << 3 | (result.isEvex ? x << 4 : 0);
    result.next = at;
    return;
  }
  bool isRelative = mod == 0 && rm == 5, hasBase = !isRelative;
  unsigned base = rm | b << 3;
  if (rm == 4) {
    unsigned sib = *at++, index = (sib >> 3 & 7) | x << 3;
    base = (sib & 7) | b << 3;
    hasBase = mod != 0 || (sib & 7) != 5;
    result.hasIndex = index != 4;
    result.index = result.hasIndex ? registers.get(index) << (sib >> 6) : 0;
  }
  if (mod == 1) {
    result.address = int64_t(int8_t(*at++)) * unit;
  } else if (mod == 2 || !hasBase) {
    result.address = read<int32_t>(at);
    at += 4;
  }
  result.address += hasBase ? registers.get(base) : 0;
  result.address += isRelative ? reinterpret_cast<int64_t>(at) : 0;
  result.next = at;
}

Instruction decode(const Registers &registers) {
  const uint8_t *at = registers.instruction();
  Instruction result;
  if (at[0] == 0xc4) {
    result.map = at[1] & 31;
    result.prefix = at[2] & 3;
    result.second = ~unsigned(at[2]) >> 3 & 15;
    result.opcode = at[3];
    decodeOperands(at + 4, at[1] >> 5, 1, registers, result);
  } else if (at[0] == 0x62) {
    result.isEvex = true;
    result.map = at[1] & 7;
    result.prefix = at[2] & 3;
    result.second = (~unsigned(at[2]) >> 3 & 15) | (~unsigned(at[3]) >> 3 & 1) << 4;
    result.mask = at[3] & 7;
    result.zeroes = at[3] >> 7;
    result.vectorBytes = 16u << (at[3] >> 5 & 3);
    result.opcode = at[4];
    result.reg = (~unsigned(at[1]) >> 4 & 1) << 4;
    result.broadcasts = (at[3] >> 4 & 1) && at[5] >> 6 != 3;
    int64_t unit = result.broadcasts ? 4 : result.vectorBytes;
    decodeOperands(at + 5, at[1] >> 5, unit, registers, result);
  }
  return result;
}

float extend(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  return read<float>(&wide);
}

/// Loads the last operand: a register, memory, or one number of memory for all lanes.
void loadOperand(const Instruction &code, const Registers &registers, uint8_t *bytes) {
  if (code.isRegister) {
    registers.getVector(code.rm, bytes);
    return;
  }
  for (unsigned i = 0; i < code.vectorBytes; i += 4) {
    std::memcpy(bytes + i, code.memory() + (code.broadcasts ? 0 : i), 4);
  }
}

/// Stores `count` lanes under the instruction's mask. The rest of the register becomes zeros.
template <typename T>
void storeLanes(const Instruction &code, Registers &registers, unsigned count, const T *lanes) {
  alignas(64) uint8_t old[64], bytes[64] = {};
  registers.getVector(code.reg, old);
  uint64_t mask = code.mask ? registers.getMask(code.mask) : ~uint64_t(0);
  for (unsigned i = 0; i < count; ++i) {
    const void *source = mask >> i & 1 ? static_cast<const void *>(lanes + i)
                         : code.zeroes ? bytes + i * sizeof(T) // still zeros
                                       : old + i * sizeof(T);
    std::memmove(bytes + i * sizeof(T), source, sizeof(T));
  }
  registers.setVector(code.reg, bytes);
}

/// VDPBF16PS: two multiply-adds a lane, the odd numbers first.
__attribute__((target("fma"))) void addPairs(const Instruction &code, Registers &registers) {
  alignas(64) uint8_t sums[64], left[64], right[64];
  registers.getVector(code.reg, sums);
  registers.getVector(code.second, left);
  loadOperand(code, registers, right);
  float lanes[16];
  for (unsigned i = 0; i < code.vectorBytes / 4; ++i) {
    auto product = [&](unsigned half, float sum) {
      unsigned at = 4 * i + 2 * half;
      return __builtin_fmaf(extend(read<uint16_t>(left + at)), extend(read<uint16_t>(right + at)),
                            sum);
    };
    lanes[i] = product(0, product(1, read<float>(sums + size_t(4) * i)));
  }
  storeLanes(code, registers, code.vectorBytes / 4, lanes);
}

/// VCVTNEPS2BF16: to nearest, ties to even; subnormal numbers become zeros.
void roundNumbers(const Instruction &code, Registers &registers) {
  alignas(64) uint8_t numbers[64];
  loadOperand(code, registers, numbers);
  uint16_t lanes[16];
  for (unsigned i = 0; i < code.vectorBytes / 4; ++i) {
    auto bits = read<uint32_t>(numbers + size_t(4) * i);
    uint32_t exponent = bits >> 23 & 255, fraction = bits & 0x7fffff;
    if (exponent == 255 && fraction != 0) {
      lanes[i] = uint16_t(bits >> 16 | 0x40);
    } else if (exponent == 0) {
      lanes[i] = uint16_t(bits >> 16 & 0x8000);
    } else {
      lanes[i] = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
  }
  storeLanes(code, registers, code.vectorBytes / 4, lanes);
}

/// LDTILECFG: the shape of each tile; all tiles become zeros.
void configure(const uint8_t *memory) {
  tiles = {};
  tiles.palette = memory[0];
  require(tiles.palette <= 1, "ldtilecfg: expected palette 0 or 1\n");
  for (unsigned i = 0; i < 8 && tiles.palette; ++i) {
    tiles.columnBytes[i] = read<uint16_t>(memory + 16 + size_t(2) * i);
    tiles.rows[i] = memory[48 + i];
    require(tiles.columnBytes[i] <= 64 && tiles.rows[i] <= 16, "ldtilecfg: tile too large\n");
    require((tiles.columnBytes[i] == 0) == (tiles.rows[i] == 0), "ldtilecfg: half a shape\n");
  }
}

void requireTile(unsigned tile) {
  require(tile < 8 && tiles.palette == 1 && tiles.rows[tile] > 0,
          "expected a configured tile, found one without\n");
}

/// TILELOADD and TILESTORED. Rows are one index register apart.
void moveTile(const Instruction &code, bool loads) {
  requireTile(code.reg);
  require(code.hasIndex, "expected a tile's memory with a stride\n");
  auto &data = tiles.data[code.reg];
  if (loads) {
    std::memset(data, 0, sizeof data);
  }
  for (unsigned row = 0; row < tiles.rows[code.reg]; ++row) {
    auto *memory = reinterpret_cast<uint8_t *>( // NOLINT(performance-no-int-to-ptr)
        code.address + int64_t(row) * code.index);
    std::memcpy(loads ? data[row] : memory, loads ? memory : data[row],
                tiles.columnBytes[code.reg]);
  }
}

/// TDPBF16PS: products of even and of odd numbers are summed by themselves, then both are added to
/// the tile.
__attribute__((target("avx2,fma"))) void addTileProduct(unsigned sums, unsigned left,
                                                        unsigned right) {
  requireTile(sums);
  requireTile(left);
  requireTile(right);
  require(tiles.rows[sums] == tiles.rows[left] &&
              tiles.columnBytes[left] == 4 * tiles.rows[right] &&
              tiles.columnBytes[sums] == tiles.columnBytes[right],
          "tdpbf16ps: shapes of tiles do not fit\n");
  require(sums != left && sums != right && left != right, "tdpbf16ps: equal tiles\n");
  float factors[16][2][16];
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned n = 0; n < 16; ++n) {
      factors[k][0][n] = extend(read<uint16_t>(&tiles.data[right][k][4 * n]));
      factors[k][1][n] = extend(read<uint16_t>(&tiles.data[right][k][4 * n + 2]));
    }
  }
  for (unsigned m = 0; m < tiles.rows[sums]; ++m) {
    float parts[2][16] = {};
    for (unsigned k = 0; k < tiles.rows[right]; ++k) {
      for (unsigned half = 0; half < 2; ++half) {
        float factor = extend(read<uint16_t>(&tiles.data[left][m][4 * k + 2 * half]));
        for (unsigned n = 0; n < 16; ++n) {
          parts[half][n] = __builtin_fmaf(factor, factors[k][half][n], parts[half][n]);
        }
      }
    }
    for (unsigned n = 0; n < tiles.columnBytes[sums] / 4; ++n) {
      uint8_t *sum = &tiles.data[sums][m][4 * n];
      float result = read<float>(sum) + (parts[0][n] + parts[1][n]);
      std::memcpy(sum, &result, sizeof result);
    }
  }
}

/// Computes the instruction; returns false if it is not known.
bool execute(const Instruction &code, Registers &registers) {
  constexpr unsigned none = 0, f3 = 2, f2 = 3;
  if (code.is(true, f3, 0x52)) {
    addPairs(code, registers);
  } else if (code.is(true, f3, 0x72)) {
    roundNumbers(code, registers);
  } else if (code.is(false, none, 0x49) && !code.isRegister) {
    configure(code.memory());
  } else if (code.is(false, none, 0x49)) { // TILERELEASE
    tiles = {};
  } else if (code.is(false, f2, 0x49) && code.isRegister) { // TILEZERO
    requireTile(code.reg);
    std::memset(tiles.data[code.reg], 0, sizeof tiles.data[code.reg]);
  } else if (code.is(false, f2, 0x4b) || code.is(false, f3, 0x4b)) {
    moveTile(code, code.prefix == f2);
  } else if (code.is(false, f3, 0x5c) && code.isRegister) {
    addTileProduct(code.reg, code.rm, code.second);
  } else {
    return false;
  }
  return true;
}

void handle(int signal, siginfo_t * /*information*/, void *context) {
  constexpr unsigned flushesSubnormals = 0x8040, masksExceptions = 0x1f80;
  _mm_setcsr(flushesSubnormals | masksExceptions); // the return restores the thread's
  Registers registers(static_cast<ucontext_t *>(context));
  Instruction code = decode(registers);
  if (!execute(code, registers)) {
    ::signal(signal, SIG_DFL); // the instruction runs again, and ends the process
    return;
  }
  registers.skipTo(code.next);
  ++emulated;
}

} // namespace

void test::emulateMissingInstructions() {
  static const bool once = [] {
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGILL, &action, nullptr) == 0;
  }();
  require(once, "could not install a handler of SIGILL\n");
}

long test::countEmulatedInstructions() { return emulated; }
