/* Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Compiles a spec, trains it for some steps on the bytes of a file, and continues a prompt, through
 * the C interface.
 *
 * cc examples/train.c -Iinclude -Lbuild/lib -lsluice -Wl,-rpath,build/lib -o train
 * ./train models/tiny/vanilla.json TEXT STEPS WEIGHTS [PROMPT]
 *
 * Step i of the training reads the next rows of the file, from its beginning on. Prints a line
 * "step I loss L" for each, then "eval NATS TOKENS" of the first 1,000 bytes, then "tokens T..." of
 * the continuation; writes the weights to WEIGHTS.
 */
#include "sluice/sluice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(sluice_status status) {
  if (status == SLUICE_OK) {
    return;
  }
  const sluice_error *error = sluice_last_error();
  if (error->expected[0]) {
    fprintf(stderr, "%s:%" PRId64 ":%" PRId64 "\n  expected %s\n  found %s\n  %s\n", error->file,
            error->line, error->column, error->expected, error->found, error->remedy);
  } else {
    fprintf(stderr, "%s\n", error->message);
  }
  exit((int)status);
}

/* Reads the bytes of a file as token ids. */
static int32_t *read_tokens(const char *path, int64_t *count) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(2);
  }
  fseek(file, 0, SEEK_END);
  *count = ftell(file);
  rewind(file);
  int32_t *tokens = malloc((size_t)(*count + 1) * sizeof(int32_t));
  for (int64_t i = 0; tokens && i < *count; ++i) {
    tokens[i] = fgetc(file);
  }
  fclose(file);
  return tokens;
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: %s SPEC TEXT STEPS WEIGHTS [PROMPT]\n", argv[0]);
    return 2;
  }
  char artifact[4096];
  snprintf(artifact, sizeof artifact, "%s.sla", argv[4]);
  sluice_spec spec = {sizeof spec, argv[1], NULL};
  require(sluice_check(&spec, NULL));
  require(sluice_compile(&spec, NULL, artifact));

  sluice_model *model = NULL;
  sluice_load_options options = {sizeof options, "cpu", NULL, 2};
  require(sluice_load(artifact, &options, &model));
  sluice_facts facts = {0};
  facts.size = sizeof facts;
  require(sluice_get_facts(model, &facts));
  require(sluice_initialize(model, 1));

  int64_t count = 0, columns = facts.context + 1, at = 0;
  int32_t *tokens = read_tokens(argv[2], &count);
  if (!tokens || count < facts.batch_rows * columns) {
    fprintf(stderr,
            "%s: expected at least %" PRId64 " bytes, found %" PRId64 "; give a longer text\n",
            argv[2], facts.batch_rows * columns, count);
    return 2;
  }
  for (int step = 1; step <= atoi(argv[3]); ++step) {
    sluice_step result = {sizeof result, 0, 0};
    at = at + facts.batch_rows * columns > count ? 0 : at;
    require(sluice_train_step(model, tokens + at, facts.batch_rows, columns, &result));
    at += facts.batch_rows * columns;
    printf("step %d loss %.9g\n", step, result.loss);
  }
  require(sluice_save_weights(model, argv[4]));

  sluice_evaluation evaluation = {sizeof evaluation, 0, 0, 0, 0};
  require(sluice_evaluate(model, tokens, count < 1000 ? count : 1000, &evaluation));
  printf("eval %.17g %" PRId64 "\n", evaluation.nats, evaluation.tokens);

  const char *prompt = argc > 5 ? argv[5] : "the ";
  int32_t start[64];
  int64_t length = 0;
  for (; prompt[length] && length < 64; ++length) {
    start[length] = (unsigned char)prompt[length];
  }
  sluice_sampling sampling;
  sluice_init_sampling(&sampling, sizeof sampling);
  sampling.tokens = 100;
  sampling.seed = 7;
  sluice_generator *generator = NULL;
  require(sluice_generate(model, start, length, &sampling, &generator));
  sluice_free_model(model); /* the generator keeps it */
  printf("tokens");
  int32_t token = 0;
  sluice_status status;
  while ((status = sluice_next(generator, &token)) == SLUICE_OK) {
    printf(" %d", token);
  }
  printf("\n");
  if (status != SLUICE_END) {
    require(status);
  }
  sluice_free_generator(generator);
  free(tokens);
  return 0;
}
