/* Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the runtime and libsluice_emulator_plugin.so agree on. The plug-in links LLVM; the runtime
   opens it when it is asked to emulate. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { sluiceEmulatorAbi = 6 };

/* Global memory that a launch may touch. */
typedef struct {
  const char *name;
  void *data;
  uint64_t bytes;
  int32_t written;     /* 0: an input */
  int32_t initialized; /* 0: a byte must be written before it is read */
} SluiceEmulatorBuffer;

/* What a launch did; each member is added to. */
typedef struct {
  uint64_t instructions, tensorInstructions; /* of threads, of warps */
  uint64_t barriers;
  uint64_t readBytes, writtenBytes; /* of its buffers, each byte once */
  uint64_t sectors, leastSectors;   /* of 32 bytes, over all requests */
  uint64_t passes, leastPasses;     /* over the banks of shared memory */
} SluiceEmulatorCounts;

typedef struct {
  uint32_t blocks, threads;
  uint64_t sharedBytes;
  const uint64_t *arguments; /* one a parameter: a number or a pointer */
  size_t argumentCount;
  const SluiceEmulatorBuffer *buffers;
  size_t bufferCount;
  uint64_t seed;                /* of the order of blocks and warps */
  SluiceEmulatorCounts *counts; /* null: nothing is counted */
} SluiceEmulatorLaunch;

/* sluiceEmulatorAbi of the plug-in. */
int sluice_emulator_abi(void);
/* A kernel of a module's bitcode, translated for this machine; null with a message where that
   fails. Messages are to be freed. */
void *sluice_emulator_create(const void *bitcode, size_t bytes, const char *kernel, char **message);
/* Runs every block. 0, or the number of violations with their text. */
int sluice_emulator_launch(void *kernel, const SluiceEmulatorLaunch *launch, char **message);
void sluice_emulator_destroy(void *kernel);

/* What an element of a result should hold. Results are seen as rows, `stride` elements apart. */
typedef struct {
  uint32_t result;
  int64_t row, column; /* row -1: all rows of the column together */
  int64_t rows, stride;
  char type; /* of an element: f for f32, b for bf16, i for i32, l for i64 */
  double value, bound;
} SluiceExpectation;

/* A launch that is over. `buffers` are those of the dispatch's operands, as they were before it,
   then of its results. */
typedef struct {
  const void *const *buffers;
  size_t bufferCount;
  int64_t length, rows, step, seed, firstStream, firstRow;
  const int64_t *lengths; /* of an axis of segments, one a row of the batch; else null */
  /* Told of whatever is judged; may be null. */
  void (*observe)(void *context, const SluiceExpectation *expectation);
  void *context;
} SluiceJudgedLaunch;

/* What a kernel should compute: the text of a module that holds one dispatch. Null with a message
   where it is not understood. */
void *sluice_judge_create(const char *text, size_t bytes, char **message);
/* Evaluates the launch in float64. 0, or 1 with the results that are farther off than rounding
   explains, or with the reason why nothing could be evaluated. */
int sluice_judge_launch(void *judge, const SluiceJudgedLaunch *launch, char **message);
void sluice_judge_destroy(void *judge);
void sluice_emulator_free(char *message);

#ifdef __cplusplus
}
#endif
