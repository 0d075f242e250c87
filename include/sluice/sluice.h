// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* The C interface of Sluice: the library libsluice. docs/c-interface.md describes it.
 *
 * Every function that can fail returns a status; sluice_last_error then has the parts of the
 * message. A function that fails leaves its results unset. Objects belong to the caller, who frees
 * them with sluice_free_*, which accept NULL. Functions may be called on any thread; calls on one
 * model, and on its generators, of several threads wait for one another. A model cannot be used in
 * a process that was forked after the model was loaded: its calls then fail, and freeing it does
 * nothing.
 *
 * Structures with a first member `size` are set by the caller to the size that it was compiled
 * with: later versions add members at the end. Zero selects the default of each option.
 */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sluice_status {
  SLUICE_OK = 0,
  SLUICE_FAILED = 1,      /* the job or the machine failed on good input: a NaN, memory, a disk */
  SLUICE_BAD_INPUT = 2,   /* a spec, a file or an argument is wrong */
  SLUICE_INTERNAL = 3,    /* a defect of Sluice */
  SLUICE_LEAK = 4,        /* a spec is not proved causal */
  SLUICE_INTERRUPTED = 5, /* the caller's function ended the call (sluice_set_interrupt) */
  SLUICE_END = 6          /* a generator has no further token */
} sluice_status;

/* The last failure on the calling thread. Strings are valid until the next failure on the thread,
 * and empty where the message has no such part. */
typedef struct sluice_error {
  sluice_status status;
  const char *message;  /* all parts in one text */
  const char *file;     /* name of the spec or file at fault */
  int64_t line, column; /* from 1; 0: no place in the file */
  const char *expected, *found, *remedy;
  /* SLUICE_LEAK with a witness: in a sequence of `length` tokens, `row` reads `token`, which it
   * must not. -1 without a witness. */
  int64_t witness_length, witness_row, witness_token;
} sluice_error;
const sluice_error *sluice_last_error(void);

/* Returns the version of the library: "0.1.0". */
const char *sluice_version(void);

/* Sets the function that evaluations, logits, activations, generators, searches and training steps
 * of this thread call between batches, and sluice_check and sluice_compile every 20 ms. A nonzero
 * result ends the call with SLUICE_INTERRUPTED; weights are then those of the last complete step,
 * and nothing is compiled. NULL removes it. The function may call
 * sluice_get_facts and sluice_free_* for the model in use; its other calls on this model fail with
 * SLUICE_BAD_INPUT. It must not wait for another thread that uses the model. */
void sluice_set_interrupt(int (*ends)(void *data), void *data);

/* A spec is a file, or a text whose name in messages is `path`. `text` is NULL for a file. */
typedef struct sluice_spec {
  size_t size;
  const char *path, *text;
} sluice_spec;

/* Proves that no prediction reads its target or a later token. SLUICE_OK if proved; SLUICE_LEAK
 * otherwise, with the verdict as its message. `verdict` (may be NULL) receives the text of a proof,
 * which the caller frees with sluice_free_text. */
sluice_status sluice_check(const sluice_spec *spec, char **verdict);
void sluice_free_text(char *text);

typedef struct sluice_compile_options {
  size_t size;
  const char *targets;     /* comma-separated: "cpu-avx2,sm_80"; NULL: this machine's CPU */
  const char *precision;   /* "f32" or "bf16"; NULL: the spec's */
  int64_t memory_budget;   /* maximum bytes of the arena; 0: no limit */
  int32_t allow_leak;      /* 1: compile a spec that is not proved */
  int64_t generation_rows; /* texts, or hypotheses of a search, that are computed at once; 0: 16 */
  const char
      *weights; /* of evaluation and generation: "bf16", "int8" or "int4"; NULL: of training */
} sluice_compile_options;

/* Compiles a spec to the artifact `output`. `options` may be NULL. */
sluice_status sluice_compile(const sluice_spec *spec, const sluice_compile_options *options,
                             const char *output);

typedef struct sluice_model sluice_model;

typedef struct sluice_load_options {
  size_t size;
  const char *device;     /* "cpu", "cuda" or "emulator"; NULL: "cpu" */
  const char *cpu_target; /* a name of sluice compile --target; NULL: the best */
  int32_t threads;        /* CPU threads; 0: all that the process may use */
} sluice_load_options;

/* Loads an artifact. It has no weights until sluice_initialize, sluice_load_weights,
 * sluice_load_checkpoint or a write to a parameter: calls that need weights fail before.
 * `options` may be NULL. */
sluice_status sluice_load(const char *artifact, const sluice_load_options *options,
                          sluice_model **model);
void sluice_free_model(sluice_model *model);

typedef struct sluice_facts {
  size_t size;
  int64_t vocabulary, context;
  int64_t batch_rows; /* rows of a training step */
  int64_t parameters; /* number of trained numbers */
  int64_t tensors;    /* number of trained tensors */
  int64_t step;       /* number of finished training steps */
  int32_t is_proved;  /* 0: compiled with an allowed leak */
  int64_t inputs;     /* number of inputs besides the tokens */
} sluice_facts;
sluice_status sluice_get_facts(sluice_model *model, sluice_facts *facts);

typedef enum sluice_input_kind {
  SLUICE_LINES = 0,   /* ids of lines, or of the tokens of such lines */
  SLUICE_EDGES = 1,   /* edges between rows or words of lines */
  SLUICE_NUMBERS = 2, /* numbers of each token of a text */
  SLUICE_LABELS = 3   /* a bit of each token of a text */
} sluice_input_kind;
/* An input of a model besides its tokens that the caller gives. The name is valid while the model
 * exists. */
typedef struct sluice_input {
  size_t size;
  const char *name;
  int32_t kind;  /* sluice_input_kind */
  int64_t width; /* numbers of a token, 1 for other kinds */
} sluice_input;
/* Returns an input. Inputs are numbered from 0 to the facts' number of inputs - 1. */
sluice_status sluice_describe_input(sluice_model *model, int64_t index, sluice_input *input);

/* Draws initial weights, as a training run with this seed does, and begins at step 0. */
sluice_status sluice_initialize(sluice_model *model, int64_t seed);
/* Loads weights from a safetensors file, a checkpoint or a run. Training then begins anew: at step
 * 0, with a new optimizer and the seed of the last sluice_initialize. */
sluice_status sluice_load_weights(sluice_model *model, const char *path);
/* Loads a checkpoint of the folder of a training run, at `step` or the latest (-1): the weights,
 * the state of the optimizer, the number of finished steps, and the seed. The model is unchanged if
 * this fails. */
sluice_status sluice_load_checkpoint(sluice_model *model, const char *run, int64_t step);
/* Writes a safetensors file, which appears complete or not at all. */
sluice_status sluice_save_weights(sluice_model *model, const char *path);

/* A tensor of the model: dense f32, row-major. Strings, shape and data are valid while the model
 * exists; on devices other than the CPU, `data` is a copy that is current until the next call. */
typedef struct sluice_tensor {
  size_t size;
  const char *name; /* as in files of weights: "stages.1.inside.0.attention.query.weight" */
  float *data;
  const int64_t *shape;
  int64_t rank, elements;
} sluice_tensor;
/* Returns a tensor's name and shape; its data are NULL. Tensors are numbered from 0. */
sluice_status sluice_describe_tensor(sluice_model *model, int64_t index, sluice_tensor *tensor);
/* Returns a tensor with its weights. The caller may write the numbers of a parameter between calls.
 * From the first sluice_get_parameter on, each call hashes all weights; if they were written, it
 * computes what depends on them again (bf16 copies, the state of generators). */
sluice_status sluice_get_parameter(sluice_model *model, int64_t index, sluice_tensor *tensor);
/* Ends the caller's writes until the next sluice_get_parameter: calls no longer hash the weights.
 */
void sluice_release_parameters(sluice_model *model);
/* The gradient of sluice_compute_gradients; valid until the next call that computes something.
 * Fails after other calls. With several threads use sluice_copy_gradients. */
sluice_status sluice_get_gradient(sluice_model *model, int64_t index, sluice_tensor *tensor);

typedef struct sluice_step {
  size_t size;
  double loss;          /* mean nats of a scored token, with the weights of other losses */
  double gradient_norm; /* before clipping; NaN from sluice_compute_gradients */
} sluice_step;
/* Performs the next training step on `rows` rows of `columns` token ids, row-major: batch_rows rows
 * of context + 1. `step` may be NULL. */
sluice_status sluice_train_step(sluice_model *model, const int32_t *tokens, int64_t rows,
                                int64_t columns, sluice_step *step);
/* Computes the gradients of the next training step without changing the weights. */
sluice_status sluice_compute_gradients(sluice_model *model, const int32_t *tokens, int64_t rows,
                                       int64_t columns, sluice_step *step);

/* Computes them, and copies the gradients of all tensors, one after another in their order:
 * `elements` numbers, the sum of sluice_tensor.elements. */
sluice_status sluice_copy_gradients(sluice_model *model, const int32_t *tokens, int64_t rows,
                                    int64_t columns, float *gradients, int64_t elements,
                                    sluice_step *step);
/* Computes the order in which sluice train, with the seed of sluice_initialize, reads the rows of
 * `texts` files with `lengths` tokens each, which are at least context + 1. For row `first` + i of
 * the training, `text[i]` receives its file and `start[i]` its first token; i < `rows`. `epoch`
 * (may be NULL) receives the number of rows of an epoch; later epochs follow in another order. If
 * the spec's training.order is "cyclic", a row continues at the beginning of its file. */
sluice_status sluice_order_rows(sluice_model *model, const int64_t *lengths, int64_t texts,
                                int64_t first, int64_t rows, int64_t *text, int64_t *start,
                                int64_t *epoch);

typedef struct sluice_evaluation {
  size_t size;
  int64_t window, stride; /* in: tokens of a window and between starts of windows; 0: the context,
                             half the window. out: the values used */
  double nats;            /* sum over scored tokens */
  int64_t tokens; /* number of scored tokens, or of chunks if the model ends in a contrast */
} sluice_evaluation;
/* Scores a text of `count` token ids with overlapping windows, as sluice eval does. */
sluice_status sluice_evaluate(sluice_model *model, const int32_t *tokens, int64_t count,
                              sluice_evaluation *evaluation);
/* Computes the logits after each token: `logits` receives count rows of the vocabulary. Compiles
 * the entry at the first call. */
sluice_status sluice_compute_logits(sluice_model *model, const int32_t *tokens, int64_t count,
                                    float *logits);

/* The shape of a stream's rows for a text of `count` tokens. `name` is a name that a stage's "to"
 * gives, or a stage such as "stages.1.inside.2". Compiles the entry at the first call. */
sluice_status sluice_get_activation_shape(sluice_model *model, const char *name, int64_t count,
                                          int64_t *rows, int64_t *width);
/* Computes the rows of a stream, [rows, width] as sluice_get_activation_shape returns. */
sluice_status sluice_compute_activations(sluice_model *model, const char *name,
                                         const int32_t *tokens, int64_t count, float *rows);

/* Lines of token ids, one after another without line ends: line i has the ids from ends[i - 1], or
 * 0, to ends[i]. The lines of edges have pairs of rows, or of words: u0, v0, u1, v1, ... */
typedef struct sluice_line_list {
  size_t size;
  const char *name;   /* a named input of the model; NULL: the text */
  const int32_t *ids; /* ends[count - 1] ids; may be NULL if there are none */
  const int64_t *ends;
  int64_t count;     /* of lines */
  int32_t are_pairs; /* 1: of edges */
  const char *path;  /* a file of lines, such as edges in CoNLL-U, in place of the array; NULL: the
                        array */
} sluice_line_list;

/* Lines of a text and of the named inputs of a model: line i of each belongs to line i of the
 * others. They keep their model alive. */
typedef struct sluice_lines sluice_lines;
/* Checks and copies `lists` arrays of lines, for the text, if it is needed, and for each named
 * input of the model, as sluice train does with --input. `line_end` is the id that ends a line: 10
 * where tokens are bytes, or the tokenizer's id of a newline. No line is empty, except of edges. */
sluice_status sluice_open_lines(sluice_model *model, const sluice_line_list *list, int64_t lists,
                                int32_t line_end, sluice_lines **lines);
void sluice_free_lines(sluice_lines *lines);
/* Returns remarks, each with a line end: the number of lines that are cut. `notes` is freed with
 * sluice_free_text. */
sluice_status sluice_describe_lines(sluice_lines *lines, char **notes);

/* Computes the order in which sluice train, with the seed of sluice_initialize, reads `count`
 * lines: `line[i]` receives the number of the line of row `first` + i of the training; i < `rows`.
 * Each `count` rows are an epoch. */
sluice_status sluice_order_lines(sluice_model *model, int64_t count, int64_t first, int64_t rows,
                                 int64_t *line);
/* Performs the next training step on batch_rows lines: row i has line numbers[i], or line i if
 * `numbers` is NULL. `step` may be NULL. */
sluice_status sluice_train_lines(sluice_model *model, sluice_lines *lines, const int64_t *numbers,
                                 int64_t rows, sluice_step *step);
/* Computes the gradients of this step as sluice_copy_gradients does; `gradients` may be NULL for
 * sluice_get_gradient. */
sluice_status sluice_copy_line_gradients(sluice_model *model, sluice_lines *lines,
                                         const int64_t *numbers, int64_t rows, float *gradients,
                                         int64_t elements, sluice_step *step);
/* Scores lines as sluice eval does with --input. The window and the stride are 0: lines are scored
 * one by one, and the line end after each where the context holds it. */
sluice_status sluice_evaluate_lines(sluice_model *model, sluice_lines *lines,
                                    sluice_evaluation *evaluation);
/* Returns the number of scored tokens of all lines, the rows of sluice_compute_line_logits. */
sluice_status sluice_count_line_rows(sluice_model *model, sluice_lines *lines, int64_t *rows);
/* Computes the logits of each scored token: `logits` receives a row of the vocabulary for each. */
sluice_status sluice_compute_line_logits(sluice_model *model, sluice_lines *lines, float *logits);

/* What a model is trained or evaluated on, as by sluice train and sluice eval: texts with the
 * labels and numbers of their tokens, images, or files of lines with named inputs. It keeps its
 * model alive. */
typedef struct sluice_data sluice_data;

typedef enum sluice_role {
  SLUICE_TEXT = 0,  /* a text, images, or the text of lines */
  SLUICE_INPUT = 1, /* numbers of a text, or a named input of lines */
  SLUICE_LABEL = 2  /* labels of a text, for segments */
} sluice_role;

/* A file or an array. Part i of an input's, or of a segment's, name belongs to text i. */
typedef struct sluice_part {
  size_t size;
  int32_t role;         /* sluice_role */
  const char *name;     /* of an input, or of segments; NULL for a text */
  const char *path;     /* a file, which is read as by the command line; NULL: an array */
  const int32_t *ids;   /* `count` token ids of a text, bytes of images, or labels 0 and 1 */
  const float *numbers; /* [count, width], of an input of numbers */
  int64_t count, width; /* width 0: 1 */
} sluice_part;

typedef struct sluice_data_options {
  size_t size;
  const char *images;    /* "32x32x3": width, height and channels of images; NULL: no images */
  const char *tokenizer; /* the tokenizer of files of texts and lines; NULL: bytes are token ids */
  int32_t is_held_out;   /* 1: for evaluation and logits; 0: for training and gradients */
  int32_t in_order;      /* 1: training reads rows from the beginning of each text on, in order */
} sluice_data_options;

/* Checks files and arrays, and copies the arrays. `options` may be NULL. Arrays of lines are opened
 * by sluice_open_lines. The order of rows is the order of sluice train with the seed of the last
 * sluice_initialize. */
sluice_status sluice_open_data(sluice_model *model, const sluice_part *parts, int64_t count,
                               const sluice_data_options *options, sluice_data **data);
void sluice_free_data(sluice_data *data);
/* Returns remarks, each with a line end: cut lines, skipped texts, decompressed files. `notes` is
 * freed with sluice_free_text. */
sluice_status sluice_describe_data(sluice_data *data, char **notes);
/* Opens files of lines, with a tokenizer if they have one, for the functions of lines: with the
 * text for evaluation and logits, without it for generation. `is_held_out` and `in_order` are 0. */
sluice_status sluice_open_line_files(sluice_model *model, const sluice_part *parts, int64_t count,
                                     const sluice_data_options *options, sluice_lines **lines);

/* The position of a training in its data. A training begins at 0, 0. */
typedef struct sluice_position {
  int64_t epoch, index;
} sluice_position;
/* Performs the next training step on the rows from `position` on, which then has the next position.
 * It is unchanged if the step fails. `step` may be NULL. */
sluice_status sluice_train_data(sluice_model *model, sluice_data *data, sluice_position *position,
                                sluice_step *step);
/* Advances `position` by the rows of `steps` training steps. */
sluice_status sluice_skip_steps(sluice_model *model, sluice_data *data, int64_t steps,
                                sluice_position *position);
/* Computes the gradients of this step as sluice_copy_gradients does; `gradients` may be NULL for
 * sluice_get_gradient. `position` is unchanged. */
sluice_status sluice_copy_data_gradients(sluice_model *model, sluice_data *data,
                                         const sluice_position *position, float *gradients,
                                         int64_t elements, sluice_step *step);
/* Scores held-out data as sluice eval does. The window and the stride are 0 for lines and images.
 */
sluice_status sluice_evaluate_data(sluice_model *model, sluice_data *data,
                                   sluice_evaluation *evaluation);
/* A loss of the last evaluation of a model with several losses: its name, and its mean in nats. The
 * name is valid until the next evaluation. */
typedef struct sluice_loss {
  size_t size;
  const char *name;
  double mean;
} sluice_loss;
/* Returns a loss, numbered from 0; the first is the loss of the head. SLUICE_END after the last. */
sluice_status sluice_get_loss(sluice_model *model, int64_t index, sluice_loss *loss);
/* Returns the number of rows of sluice_compute_data_logits. */
sluice_status sluice_count_data_rows(sluice_model *model, sluice_data *data, int64_t *rows);
/* Computes the logits after each token of held-out texts, one after another, or of each scored
 * token of lines and images: `logits` receives a row of the vocabulary for each. */
sluice_status sluice_compute_data_logits(sluice_model *model, sluice_data *data, float *logits);

typedef struct sluice_sampling {
  size_t size;
  int64_t tokens;     /* maximum number of tokens to generate; 0: no limit */
  double temperature; /* 1: the model's probabilities; 0: always the most probable token */
  int64_t top_k;      /* 0: all */
  double top_p;       /* 0: all */
  double min_p, repetition_penalty; /* 0: none */
  uint64_t seed;
  int64_t sample;   /* index of the text among those of the same prompt and seed */
  int64_t ids;      /* only ids below are drawn, at most the vocabulary; 0: all */
  int32_t no_cache; /* 1: recompute the window for each token */
} sluice_sampling;
/* Sets the defaults: temperature 1, the other members 0. `size` is sizeof(sluice_sampling): no byte
 * after it is written. */
void sluice_init_sampling(sluice_sampling *sampling, size_t size);

/* Continues a text, token by token. A generator keeps its model alive. It computes its text again
 * with changed weights from its next token on. A model has a limited number of concurrent
 * generators. */
typedef struct sluice_generator sluice_generator;
sluice_status sluice_generate(sluice_model *model, const int32_t *prompt, int64_t count,
                              const sluice_sampling *sampling, sluice_generator **generator);
/* Draws the next token. SLUICE_END after the last one. */
sluice_status sluice_next(sluice_generator *generator, int32_t *token);
/* May be called while another thread draws a token, whose call then completes. */
void sluice_free_generator(sluice_generator *generator);
/* Begins a text for the inputs of line `line`, of lines that have no text. A line end and the
 * prompt come first; the prompt may be empty. The text ends before the next line end, or at the
 * context. */
sluice_status sluice_generate_line(sluice_model *model, sluice_lines *lines, int64_t line,
                                   const int32_t *prompt, int64_t count,
                                   const sluice_sampling *sampling, sluice_generator **generator);

typedef struct sluice_search_options {
  size_t size;
  int64_t beam;   /* maximum number of hypotheses */
  int64_t tokens; /* maximum number of tokens to write, the end included, which must fit into the
                     context; 0: 256, or those that fit */
  double length_penalty; /* A: a text of n tokens, the end included, has the score log p / n^A */
  int64_t min_tokens;    /* tokens before the end, which has probability 0 until then */
  int64_t no_repeat;     /* a token that would repeat this many written tokens has probability 0; 0:
                            none has */
  int64_t ids;           /* only ids below are written, at most the vocabulary; 0: all */
  int32_t end;           /* the id that ends a text; -1: none, or the line end of lines */
  int32_t no_cache;      /* 1: recompute the window for each token */
} sluice_search_options;
/* Sets the defaults of sluice generate --beam: beam 4, length_penalty 0.6, end -1, the other
 * members 0. `size` is sizeof(sluice_search_options): no byte after it is written. */
void sluice_init_search(sluice_search_options *options, size_t size);

/* The text that a search found. */
typedef struct sluice_found {
  size_t size;
  double score;
  int64_t count;       /* of its tokens, without the end */
  int32_t is_finished; /* 1: the end follows */
} sluice_found;
/* Searches the best continuation of a prompt, as sluice generate --beam does. `tokens` receives
 * its ids, and has room for `capacity` ids, at least the maximum number of tokens. `options` may be
 * NULL. Generators of the model then compute their texts again. */
sluice_status sluice_search(sluice_model *model, const int32_t *prompt, int64_t count,
                            const sluice_search_options *options, int32_t *tokens, int64_t capacity,
                            sluice_found *found);
/* Searches the best text for the inputs of line `line`. A line end and the prompt come first; the
 * prompt may be empty. The line end ends the text. */
sluice_status sluice_search_line(sluice_model *model, sluice_lines *lines, int64_t line,
                                 const int32_t *prompt, int64_t count,
                                 const sluice_search_options *options, int32_t *tokens,
                                 int64_t capacity, sluice_found *found);

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_SLUICE_H */
