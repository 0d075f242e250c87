// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bigram model as an artifact's shared object: logits of row t are table[token t] + bias. The
// gradient carries noise of (seed, step), so that a resumed run shows whether it restores both.
// bigram-plan.json is its plan. With GPU_PLAN the build names one that has GPU code too; what
// stands for that code says which kernel it is.
#include <stdint.h>

enum { V = 128, N = 16, B = 4, logitStride = 144 };

const char sluice_plan[] = {
#ifdef GPU_PLAN
#embed GPU_PLAN
#else
#embed "bigram-plan.json"
#endif
};
const uint64_t sluice_plan_size = sizeof sluice_plan;
_Alignas(64) const float sluice_constants[16] = {0.05f}; // the learning rate

#define FLOATS(i) ((float *)(arena + arguments[i]))
#define TOKENS(i) ((const int32_t *)(arena + arguments[i]))
#define INTEGER(i) (*(int64_t *)(arena + arguments[i]))
#define KERNEL(name)                                                                               \
  void name(uint8_t *arena, const int64_t *arguments, int64_t item, uint8_t *scratch)

/// exp(x / 1024)^1024 with a short series inside: 1e-6 relative for |x| < 60, enough for a test's
/// model.
static double exponential(double x) {
  double y = x / 1024, e = 1 + y + y * y / 2 + y * y * y / 6 + y * y * y * y / 24;
  for (int i = 0; i < 10; ++i) {
    e *= e;
  }
  return e;
}

/// Newton's method on exp.
static double logarithm(double x) {
  double y = 0;
  for (int i = 0; i < 30; ++i) {
    double e = exponential(y);
    y += 2 * (x - e) / (x + e);
  }
  return y;
}

static float noise(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
  return (float)((x ^ (x >> 32)) & 0xffff) / 65536.0f - 0.5f;
}

/// Items: rows of the table, then the bias (stored after the table, as are their states).
KERNEL(initialize_table) {
  (void)scratch;
  for (int j = 0; j < V; ++j) {
    FLOATS(0)
    [item * V + j] =
        item < V ? 0.2f * noise((uint64_t)(item * V + j + 1) * 977 + (uint64_t)INTEGER(3)) : 0;
    FLOATS(1)[item * V + j] = 0;
    FLOATS(2)[item * V + j] = 0;
  }
}

/// Items: rows of the batch. Probabilities are stored in scratch, like a kernel's temporaries.
KERNEL(score_rows) {
  const float *table = FLOATS(0), *bias = FLOATS(1);
  int64_t length = INTEGER(5), rows = INTEGER(6);
  float *values = (float *)scratch;
  for (int64_t t = 0; t < N; ++t) {
    float *loss = &FLOATS(3)[item * N + t];
    *loss = 0;
    if (t >= length || item >= rows) {
      continue;
    }
    const int32_t *token = &TOKENS(2)[item * (N + 1) + t];
    double sum = 0;
    for (int j = 0; j < V; ++j) {
      values[j] = (float)exponential(table[token[0] * V + j] + bias[j]);
      sum += values[j];
    }
    for (int j = 0; j < V; ++j) {
      FLOATS(4)[(item * N + t) * V + j] = (float)(values[j] / sum);
    }
    *loss = (float)-logarithm(values[token[1]] / sum);
  }
}

KERNEL(mean_loss) {
  (void)scratch, (void)item;
  double sum = 0;
  for (int i = 0; i < B * N; ++i) {
    sum += FLOATS(0)[i];
  }
  *FLOATS(1) = (float)(sum / (double)(INTEGER(2) * INTEGER(3)));
}

/// Items: rows of the table.
KERNEL(table_gradient) {
  (void)scratch;
  int64_t length = INTEGER(3), rows = INTEGER(4);
  float *gradient = FLOATS(2) + item * V;
  float scale = 1 + 0.2f * noise((uint64_t)(INTEGER(5) * 131 + INTEGER(6) * 7919 + item));
  for (int j = 0; j < V; ++j) {
    gradient[j] = 0;
  }
  for (int64_t b = 0; b < rows; ++b) {
    for (int64_t t = 0; t < length; ++t) {
      const int32_t *token = &TOKENS(1)[b * (N + 1) + t];
      if (token[0] != item) {
        continue;
      }
      for (int j = 0; j < V; ++j) {
        gradient[j] +=
            scale * (FLOATS(0)[(b * N + t) * V + j] - (j == token[1])) / (float)(length * rows);
      }
    }
  }
}

/// Items: elements of the bias.
KERNEL(bias_gradient) {
  (void)scratch;
  float sum = 0;
  for (int v = 0; v < V; ++v) {
    sum += FLOATS(0)[v * V + item];
  }
  FLOATS(1)[item] = sum;
}

KERNEL(norm) {
  (void)scratch, (void)item;
  double sum = 0;
  for (int i = 0; i < V * V + V; ++i) {
    sum += (double)FLOATS(0)[i] * FLOATS(0)[i];
  }
  float root = (float)__builtin_sqrt(sum), loss = *FLOATS(5);
  *FLOATS(1) = root;
  *(int32_t *)(arena + arguments[2]) = root - root == 0 && loss - loss == 0;
  *FLOATS(3) = FLOATS(6)[0] * (INTEGER(4) < 10 ? (float)INTEGER(4) / 10 : 1);
}

/// Items: rows of the table, then the bias.
KERNEL(adam) {
  (void)scratch;
  for (int64_t i = item * V; i < (item + 1) * V; ++i) {
    float g = FLOATS(1)[i], *m = &FLOATS(2)[i], *v = &FLOATS(3)[i];
    *m = 0.9f * *m + 0.1f * g;
    *v = 0.95f * *v + 0.05f * g * g;
    FLOATS(0)[i] -= *FLOATS(4) * *m / ((float)__builtin_sqrt(*v) + 1e-8f);
  }
}

/// Items: rows of the batch.
KERNEL(predict_rows) {
  (void)scratch;
  if (item < INTEGER(5)) {
    int32_t token = TOKENS(2)[item * (N + 1) + INTEGER(4) - 1];
    for (int j = 0; j < V; ++j) {
      FLOATS(3)[item * logitStride + j] = FLOATS(0)[token * V + j] + FLOATS(1)[j];
    }
  }
}

#ifdef GPU_PLAN
#define GPU_CODE(kernel)                                                                           \
  const char kernel##_ptx[] = "PTX of " #kernel, kernel##_cubin[] = "\177ELF of " #kernel,         \
             kernel##_bitcode[] = "bitcode of " #kernel;                                           \
  const uint64_t kernel##_ptx_size = sizeof kernel##_ptx - 1,                                      \
                 kernel##_cubin_size = sizeof kernel##_cubin - 1,                                  \
                 kernel##_bitcode_size = sizeof kernel##_bitcode - 1;
GPU_CODE(initialize_table)
GPU_CODE(score_rows)
GPU_CODE(mean_loss)
GPU_CODE(table_gradient)
GPU_CODE(bias_gradient)
GPU_CODE(norm)
GPU_CODE(adam)
GPU_CODE(predict_rows)
#endif
