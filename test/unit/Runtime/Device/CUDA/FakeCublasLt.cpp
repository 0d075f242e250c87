// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces cuBLASLt on the fake of NVIDIA's driver (FakeCuda.cpp): column-major products
// of bf16, summed in f32 in another order than the generated code's. It rejects calls that the real
// one would reject (shapes that do not fit, memory less aligned than was promised, a workspace that
// is missing), and requests that the runtime must not make (a scale, a result that is not
// overwritten, sums in several parts). The environment sets:
//   FAKE_CUBLASLT_FAIL (a function that fails), FAKE_CUBLASLT_VERSION, FAKE_CUBLASLT_REFUSE (a
//   depth for which it has no algorithm), FAKE_CUBLASLT_SLOW (a depth for which it takes four times
//   as long), FAKE_CUBLASLT_WORKSPACE (bytes that algorithm 2 wants)
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

void fakeCudaEnqueue(void *stream, const std::function<void()> &run, double milliseconds);

namespace {

enum { executionFailed = 13, invalidValue = 7, notSupported = 15 };
constexpr int realF32 = 0, realBf16 = 14, computeF32 = 68;
constexpr uint64_t deviceBit = uint64_t(1) << 62;

struct Desc {
  int32_t transposeA = 0;
};
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t leading;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t scheme = 7, alignment = 256;
};
struct Algorithm {
  uint64_t data[8]; // number, minimum alignment
};
struct Result {
  Algorithm algorithm;
  size_t workspaceBytes;
  int state;
  float waves;
  int reserved[4];
};

std::string calls;
int handles = 0; // handles, descriptors, layouts and preferences that were not released

uint64_t setting(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

int note(const std::string &call) {
  calls += call + "\n";
  const char *failing = std::getenv("FAKE_CUBLASLT_FAIL");
  return failing && call.substr(0, call.find(' ')) == failing ? executionFailed : 0;
}

size_t getWorkspace(uint64_t algorithm) {
  return algorithm == 2 ? setting("FAKE_CUBLASLT_WORKSPACE", 4096) : 0;
}

float extended(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

uint16_t rounded(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct FakeProduct {
  int64_t m, n, k;
  const uint16_t *a, *b;
  int64_t strideA, strideB, strideD;
  bool transposeA, isF32;
  uint8_t *d;
};

/// Adds the last term first.
void multiply(const FakeProduct &p) {
  for (int64_t j = 0; j < p.n; ++j) {
    for (int64_t i = 0; i < p.m; ++i) {
      float sum = 0;
      for (int64_t l = p.k; l-- > 0;) {
        int64_t at = p.transposeA ? i * p.strideA + l : l * p.strideA + i;
        sum += extended(p.a[at]) * extended(p.b[j * p.strideB + l]);
      }
      if (p.isF32) {
        std::memcpy(p.d + 4 * (j * p.strideD + i), &sum, sizeof sum);
      } else {
        uint16_t bits = rounded(sum);
        std::memcpy(p.d + 2 * (j * p.strideD + i), &bits, sizeof bits);
      }
    }
  }
}

bool fits(const Desc *desc, const Layout *a, const Layout *b, const Layout *c, const Layout *d) {
  uint64_t m = desc->transposeA ? a->columns : a->rows, k = desc->transposeA ? a->rows : a->columns;
  auto isStored = [](const Layout *l) { return l->leading >= static_cast<int64_t>(l->rows); };
  return a->type == realBf16 && b->type == realBf16 && c == d &&
         (d->type == realBf16 || d->type == realF32) && b->rows == k && d->rows == m &&
         d->columns == b->columns && isStored(a) && isStored(b) && isStored(d);
}

bool isDevice(const void *memory, uint64_t alignment) {
  auto address = reinterpret_cast<uint64_t>(memory);
  return (address & deviceBit) && (address & ~deviceBit) % alignment == 0;
}

template <typename T> T *toHost(const void *memory) {
  return reinterpret_cast<T *>(reinterpret_cast<uint64_t>(memory) & ~deviceBit);
}

int destroy(const char *name, auto *object) {
  delete object;
  --handles;
  return note(name);
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
#define NOTE(...)                                                                                  \
  if (int error = note(__VA_ARGS__)) {                                                             \
    return error;                                                                                  \
  }

EXPORT const char *fakeCublasLtCalls() { return calls.c_str(); }
EXPORT void fakeCublasLtForget() { calls.clear(); }
EXPORT int fakeCublasLtHandles() { return handles; }

EXPORT size_t cublasLtGetVersion() { return setting("FAKE_CUBLASLT_VERSION", 130100); }
EXPORT const char *cublasLtGetStatusName(int status) {
  return status == executionFailed ? "CUBLAS_STATUS_EXECUTION_FAILED"
         : status == notSupported  ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                   : "CUBLAS_STATUS_INVALID_VALUE";
}
EXPORT int cublasLtCreate(int **handle) {
  NOTE("cublasLtCreate")
  *handle = new int(0);
  ++handles;
  return 0;
}
EXPORT int cublasLtDestroy(int *handle) { return destroy("cublasLtDestroy", handle); }
EXPORT int cublasLtMatmulDescCreate(Desc **desc, int compute, int scale) {
  NOTE("cublasLtMatmulDescCreate")
  if (compute != computeF32 || scale != realF32) {
    return invalidValue;
  }
  *desc = new Desc;
  ++handles;
  return 0;
}
EXPORT int cublasLtMatmulDescDestroy(Desc *desc) {
  return destroy("cublasLtMatmulDescDestroy", desc);
}
EXPORT int cublasLtMatmulDescSetAttribute(Desc *desc, int attribute, const void *value,
                                          size_t bytes) {
  NOTE("cublasLtMatmulDescSetAttribute")
  if (attribute != 3 || bytes != sizeof desc->transposeA) {
    return invalidValue;
  }
  std::memcpy(&desc->transposeA, value, bytes);
  return 0;
}
EXPORT int cublasLtMatrixLayoutCreate(Layout **layout, int type, uint64_t rows, uint64_t columns,
                                      int64_t leading) {
  NOTE("cublasLtMatrixLayoutCreate")
  *layout = new Layout{type, rows, columns, leading};
  ++handles;
  return 0;
}
EXPORT int cublasLtMatrixLayoutDestroy(Layout *layout) {
  return destroy("cublasLtMatrixLayoutDestroy", layout);
}
EXPORT int cublasLtMatmulPreferenceCreate(Preference **preference) {
  NOTE("cublasLtMatmulPreferenceCreate")
  *preference = new Preference;
  ++handles;
  return 0;
}
EXPORT int cublasLtMatmulPreferenceDestroy(Preference *preference) {
  return destroy("cublasLtMatmulPreferenceDestroy", preference);
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute,
                                                const void *value, size_t bytes) {
  NOTE("cublasLtMatmulPreferenceSetAttribute")
  bool isWorkspace = attribute == 1;
  if (bytes != (isWorkspace ? 8u : 4u)) {
    return invalidValue;
  }
  if (isWorkspace) {
    std::memcpy(&preference->workspace, value, bytes);
  } else if (attribute == 3) {
    std::memcpy(&preference->scheme, value, bytes);
  } else if (attribute >= 5 && attribute <= 8) {
    std::memcpy(&preference->alignment, value, bytes);
  } else {
    return invalidValue;
  }
  return 0;
}

/// Two algorithms, the second with a workspace; if the preference allows split sums, one with
/// splits comes first.
EXPORT int cublasLtMatmulAlgoGetHeuristic(void *, Desc *desc, Layout *a, Layout *b, Layout *c,
                                          Layout *d, Preference *preference, int wanted,
                                          Result *results, int *found) {
  NOTE("cublasLtMatmulAlgoGetHeuristic " + std::to_string(wanted))
  *found = 0;
  if (!fits(desc, a, b, c, d)) {
    return invalidValue;
  }
  if (b->rows == setting("FAKE_CUBLASLT_REFUSE", 0)) {
    return notSupported;
  }
  for (uint64_t number : {3, 1, 2}) {
    bool allowed =
        (number != 3 || preference->scheme != 0) && getWorkspace(number) <= preference->workspace;
    if (allowed && *found < wanted) {
      results[(*found)++] = {{{number, preference->alignment}}, getWorkspace(number), 0, 1, {}};
    }
  }
  return 0;
}

EXPORT int cublasLtMatmulAlgoCheck(void *, Desc *desc, Layout *a, Layout *b, Layout *c, Layout *d,
                                   const Algorithm *algorithm, Result *result) {
  NOTE("cublasLtMatmulAlgoCheck " + std::to_string(algorithm->data[0]))
  if (algorithm->data[0] != 1 && algorithm->data[0] != 2) {
    return notSupported;
  }
  result->workspaceBytes = getWorkspace(algorithm->data[0]); // the algorithm itself is not told
  return fits(desc, a, b, c, d) ? 0 : invalidValue;
}

EXPORT int cublasLtMatmul(void *, Desc *desc, const float *alpha, const uint16_t *a,
                          Layout *layoutA, const uint16_t *b, Layout *layoutB, const float *beta,
                          const void *c, Layout *layoutC, void *d, Layout *layoutD,
                          const Algorithm *algorithm, void *workspace, size_t workspaceBytes,
                          void *stream) {
  std::string address = std::to_string(reinterpret_cast<uint64_t>(workspace) & ~deviceBit);
  NOTE("cublasLtMatmul " + std::to_string(layoutD->rows) + " x " +
       std::to_string(layoutD->columns) + " x " + std::to_string(layoutB->rows) + " algorithm " +
       std::to_string(algorithm->data[0]) + " workspace " + address)
  size_t needed = getWorkspace(algorithm->data[0]);
  uint64_t alignment = algorithm->data[1];
  bool isRight = *alpha == 1 && *beta == 0 && c == d && alignment > 0 && isDevice(a, alignment) &&
                 isDevice(b, alignment) && isDevice(d, alignment) && workspaceBytes >= needed &&
                 (needed == 0 || isDevice(workspace, 256)) &&
                 fits(desc, layoutA, layoutB, layoutC, layoutD);
  if (!isRight) {
    return invalidValue;
  }
  auto m = static_cast<int64_t>(layoutD->rows), n = static_cast<int64_t>(layoutD->columns),
       k = static_cast<int64_t>(layoutB->rows);
  FakeProduct product{m,
                      n,
                      k,
                      toHost<const uint16_t>(a),
                      toHost<const uint16_t>(b),
                      layoutA->leading,
                      layoutB->leading,
                      layoutD->leading,
                      desc->transposeA != 0,
                      layoutD->type == realF32,
                      toHost<uint8_t>(d)};
  // The second algorithm is faster; a launch of the fake takes half a millisecond.
  double milliseconds = algorithm->data[0] == 2 ? 0.25 : 0.3;
  milliseconds *= layoutB->rows == setting("FAKE_CUBLASLT_SLOW", 0) ? 4 : 1;
  auto *scratch = toHost<uint8_t>(workspace);
  fakeCudaEnqueue(
      stream,
      [=] {
        if (needed > 0) {
          std::memset(scratch, 0x5a, needed);
        }
        multiply(product);
      },
      milliseconds);
  return 0;
}
