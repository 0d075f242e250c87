// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sluice-peak measures the peak of this machine's cores, without any generated code. Prints one
// JSON object: gflops, gbytes_per_s (both summed over the threads), instructions, threads; or with
// --read, read_gbytes_per_s.
#include "sluice/Support/Processor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <immintrin.h>
#include <string>
#include <thread>
#include <vector>

namespace {

volatile float seed = 0.5f; // read at run time, to prevent constant folding
volatile float sink;

/// Number of independent chains: two units times four or five cycles of latency require at least
/// ten; AVX2's 16 registers hold 12 sums and the factor without a spill.
constexpr int chains = 12;

__attribute__((target("avx512f"))) void beginSums(__m512 *sums) {
  for (int i = 0; i < chains; ++i) {
    sums[i] = _mm512_set1_ps(seed + static_cast<float>(i));
  }
}

/// Uses the sums, so that their chains are not removed.
__attribute__((target("avx512f"))) void keepSum(const __m512 *sums) {
  __m512 total = sums[0];
  for (int i = 1; i < chains; ++i) {
    total = _mm512_add_ps(total, sums[i]);
  }
  float lanes[16];
  _mm512_storeu_ps(lanes, total);
  sink = lanes[0];
}

__attribute__((target("avx512f"))) void chainsAvx512(long rounds) {
  __m512 factor = _mm512_set1_ps(seed), sums[chains];
  beginSums(sums);
  for (long round = 0; round < rounds; ++round) {
#pragma clang loop unroll(full)
    for (int i = 0; i < chains; ++i) {
      sums[i] = _mm512_fmadd_ps(factor, factor, sums[i]);
    }
  }
  keepSum(sums);
}

__attribute__((target("avx512f,avx512bf16"))) void chainsBf16(long rounds) {
  __m512 sums[chains];
  beginSums(sums);
  auto factor = (__m512bh)_mm512_castps_si512(_mm512_set1_ps(seed));
  for (long round = 0; round < rounds; ++round) {
#pragma clang loop unroll(full)
    for (int i = 0; i < chains; ++i) {
      sums[i] = _mm512_dpbf16_ps(sums[i], factor, factor);
    }
  }
  keepSum(sums);
}

/// Four sums of tiles: a product takes 52 cycles, and the next one begins after 16.
constexpr int tileChains = 4;

__attribute__((target("amx-tile,amx-bf16"))) void chainsAmx(long rounds) {
  struct alignas(64) {
    uint8_t palette = 1, reserved[15] = {};
    uint16_t columnBytes[16] = {64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
  } const shapes;
  _tile_loadconfig(&shapes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (long round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
}

__attribute__((target("avx2,fma"))) void chainsAvx2(long rounds) {
  __m256 factor = _mm256_set1_ps(seed), sums[chains];
  for (int i = 0; i < chains; ++i) {
    sums[i] = _mm256_set1_ps(seed + static_cast<float>(i));
  }
  for (long round = 0; round < rounds; ++round) {
#pragma clang loop unroll(full)
    for (int i = 0; i < chains; ++i) {
      sums[i] = _mm256_fmadd_ps(factor, factor, sums[i]);
    }
  }
  __m256 total = sums[0];
  for (int i = 1; i < chains; ++i) {
    total = _mm256_add_ps(total, sums[i]);
  }
  float lanes[8];
  _mm256_storeu_ps(lanes, total);
  sink = lanes[0];
}

/// Seconds until all threads have done `work`, from a common start; the best of `repeats`.
double measureBest(int threads, int repeats, const std::function<void(int)> &work) {
  std::vector<double> best(static_cast<size_t>(repeats));
  // Threads wait by spinning, because waking a thread would take as long as part of the work.
  std::atomic<long> arrivals = 0;
  auto meet = [&] {
    long goal = (arrivals.fetch_add(1) / threads + 1) * threads;
    for (long spins = 1; arrivals.load() < goal; ++spins) {
      if (spins % 4096 == 0) {
        std::this_thread::yield();
      }
    }
  };
  auto body = [&](int thread) {
    for (double &seconds : best) {
      meet();
      auto begin = std::chrono::steady_clock::now();
      work(thread);
      meet();
      if (thread == 0) {
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      }
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) {
    others.emplace_back(body, thread);
  }
  body(0);
  for (std::thread &other : others) {
    other.join();
  }
  return *std::min_element(best.begin(), best.end());
}

/// Returns the GB/s at which the threads together read a buffer of `bytes` repeatedly, each its own
/// part: a buffer that fits the caches is read from there.
double measureReading(int threads, size_t bytes) {
  size_t words =
      std::max<size_t>(bytes / static_cast<size_t>(threads) / sizeof(uint64_t), 64) / 8 * 8;
  std::vector<std::vector<uint64_t>> parts(static_cast<size_t>(threads));
  // A run takes some milliseconds for any size of the buffer.
  size_t cycles = std::max<size_t>(1, (size_t(32) << 20) / (words * sizeof(uint64_t)));
  measureBest(threads, 1, [&](int thread) { // each thread touches its own part first
    parts[static_cast<size_t>(thread)].assign(words, static_cast<uint64_t>(thread));
  });
  double seconds = measureBest(threads, 40, [&](int thread) {
    const uint64_t *from = parts[static_cast<size_t>(thread)].data();
    uint64_t sums[8] = {};
    for (size_t cycle = 0; cycle < cycles; ++cycle) {
      for (size_t i = 0; i < words; i += 8) {
        for (size_t j = 0; j < 8; ++j) {
          sums[j] += from[i + j];
        }
      }
    }
    uint64_t total = 0;
    for (uint64_t sum : sums) {
      total += sum;
    }
    sink = static_cast<float>(total);
  });
  return static_cast<double>(cycles * words * sizeof(uint64_t)) * threads / seconds / 1e9;
}

struct PeakArguments {
  int threads = 1;
  long long read = 0; ///< bytes to read repeatedly; 0: measure arithmetic and copying
  bool bf16 = false;  ///< arithmetic: products of pairs of bf16
  bool amx = false;   ///< arithmetic: products of AMX tiles of bf16
  bool right = true;
};

PeakArguments parse(int argc, char **argv) {
  PeakArguments arguments;
  for (int i = 1; i < argc; i += 2) {
    std::string flag = argv[i];
    if (flag == "--bf16") {
      arguments.bf16 = true;
      --i;
    } else if (flag == "--amx") {
      arguments.amx = true;
      --i;
    } else if (i + 1 < argc && flag == "--threads") {
      arguments.threads = std::atoi(argv[i + 1]);
    } else if (i + 1 < argc && flag == "--read") {
      arguments.read = std::atoll(argv[i + 1]);
      arguments.right &= arguments.read > 0 && arguments.read <= 1ll << 40;
    } else {
      arguments.right = false;
    }
  }
  arguments.right &= arguments.threads >= 1 && arguments.threads <= 1024;
  arguments.right &= !arguments.bf16 || !arguments.amx;
  return arguments;
}

} // namespace

int main(int argc, char **argv) {
  std::set_terminate([] { // thrown on any thread, while others may be waiting for it
    std::fputs("sluice-peak: no memory or no threads left\n", stderr);
    std::_Exit(1);
  });
  auto [threads, read, bf16, amx, right] = parse(argc, argv);
  if (!right) {
    std::fprintf(stderr,
                 "usage: sluice-peak [--threads N] [--bf16 | --amx] [--read BYTES]    N from 1 to "
                 "1024, default 1; with --bf16, the arithmetic of pairs of bf16; with --amx, of "
                 "tiles of bf16; with --read, the bandwidth of reading that many bytes again and "
                 "again\n");
    return 2;
  }
  if (read > 0) {
    std::printf("{\"read_gbytes_per_s\": %.2f, \"bytes\": %lld, \"threads\": %d}\n",
                measureReading(threads, static_cast<size_t>(read)), read, threads);
    return 0;
  }
  __builtin_cpu_init();
  bool avx512 = __builtin_cpu_supports("avx512f");
  if (!avx512 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) {
    std::fprintf(stderr, "sluice-peak: expected a CPU with AVX2 and FMA, found one without\n");
    return 2;
  }
  if (bf16 && !__builtin_cpu_supports("avx512bf16")) {
    std::fprintf(stderr,
                 "sluice-peak: --bf16: expected a CPU with AVX512_BF16, found one without\n");
    return 2;
  }
  if (amx && !sluice::requestTiles()) {
    std::fprintf(stderr, "sluice-peak: --amx: expected a CPU with AMX_BF16 and a kernel that "
                         "grants its tiles, found none\n");
    return 2;
  }
  // Many short runs (2 ms each): on a machine with other work, some of them have exclusive use of
  // the cores.
  const long rounds = amx ? 80'000 : 400'000;
  auto work = amx ? chainsAmx : bf16 ? chainsBf16 : avx512 ? chainsAvx512 : chainsAvx2;
  double seconds = measureBest(threads, 100, [&](int) { work(rounds); });
  int products = amx ? 16 * 16 * 32 * tileChains : (bf16 ? 32 : avx512 ? 16 : 8) * chains;
  double flops = 2.0 * static_cast<double>(rounds) * products * threads;

  constexpr size_t bytes = size_t(64) << 20; // beyond the caches
  std::vector<std::vector<char>> from, to;
  for (int i = 0; i < threads; ++i) {
    from.emplace_back(bytes, 1);
    to.emplace_back(bytes, 2);
  }
  double copying = measureBest(threads, 8, [&](int thread) {
    auto at = static_cast<size_t>(thread);
    std::memcpy(to[at].data(), from[at].data(), bytes);
  });
  std::printf(
      "{\"gflops\": %.2f, \"gbytes_per_s\": %.2f, \"instructions\": \"%s\", \"threads\": %d}\n",
      flops / seconds / 1e9, 2.0 * static_cast<double>(bytes) * threads / copying / 1e9,
      amx      ? "amx"
      : bf16   ? "avx512-bf16"
      : avx512 ? "avx512"
               : "avx2",
      threads);
  return 0;
}
