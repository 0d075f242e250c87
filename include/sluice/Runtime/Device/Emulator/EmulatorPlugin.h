/* Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The interface between the runtime and libsluice_emulator_plugin.so. The plug-in links LLVM; the
   runtime opens it to emulate a GPU. */
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

/* Counts of launches. A launch adds to each member. */
typedef struct {
  uint64_t instructions, tensorInstructions; /* per thread; per warp */
  uint64_t barriers;
  uint64_t readBytes, writtenBytes; /* of its buffers, each byte once */
  uint64_t sectors, leastSectors;   /* of 32 bytes, over all memory requests */
  uint64_t passes, leastPasses;     /* over the banks of shared memory */
} SluiceEmulatorCounts;

typedef struct {
  uint32_t blocks, threads;
  uint64_t sharedBytes;
  const uint64_t *arguments; /* one per parameter: a number or a pointer */
  size_t argumentCount;
  const SluiceEmulatorBuffer *buffers;
  size_t bufferCount;
  uint64_t seed;                /* determines the order of blocks and warps */
  SluiceEmulatorCounts *counts; /* null: no counting */
} SluiceEmulatorLaunch;

/* Returns the plug-in's sluiceEmulatorAbi. */
int sluice_emulator_abi(void);
/* Translates a kernel of a module's bitcode for this machine. Returns null and a message on
   failure. The caller frees messages with sluice_emulator_free. */
void *sluice_emulator_create(const void *bitcode, size_t bytes, const char *kernel, char **message);
/* Runs every block. Returns 0, or the number of violations, which `message` describes. */
int sluice_emulator_launch(void *kernel, const SluiceEmulatorLaunch *launch, char **message);
void sluice_emulator_destroy(void *kernel);

/* The expected value of an element of a result. A result is a matrix whose rows start `stride`
   elements apart. */
typedef struct {
  uint32_t result;
  int64_t row, column; /* row -1: the whole column */
  int64_t rows, stride;
  char type; /* element type: f for f32, b for bf16, i for i32, l for i64 */
  double value, bound;
} SluiceExpectation;

/* A finished launch. `buffers` has the dispatch's operands, as before the launch, and then its
   results. */
typedef struct {
  const void *const *buffers;
  size_t bufferCount;
  int64_t length, rows, step, seed, firstStream;
  const int64_t *lengths;  /* for an axis of segments, one per row of the batch; else null */
  const int64_t *drawRows; /* numbers of the rows of the batch for random draws, or null */
  /* Receives each expectation that is checked; may be null. */
  void (*observe)(void *context, const SluiceExpectation *expectation);
  void *context;
} SluiceJudgedLaunch;

/* Creates the reference for a kernel from the text of a module with one dispatch. Returns null and
   a message if the text is invalid. */
void *sluice_judge_create(const char *text, size_t bytes, char **message);
/* Evaluates the launch in float64. Returns 0, or 1 and a message that lists the results whose error
   exceeds the bound for rounding, or the reason why the launch cannot be evaluated. */
int sluice_judge_launch(void *judge, const SluiceJudgedLaunch *launch, char **message);
void sluice_judge_destroy(void *judge);
void sluice_emulator_free(char *message);

#ifdef __cplusplus
}
#endif
