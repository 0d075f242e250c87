// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the C interface that train and score, and that compute logits and activations.
#include "Compute.h"

#include "Lines.h"
#include "sluice/Runtime/Data/Labels.h"
#include "sluice/Runtime/Data/Numbers.h"
#include "sluice/Runtime/Data/RowOrder.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Execute/Predictions.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>

using namespace sluice;
using namespace sluice::interface;
using namespace sluice::runtime;

namespace {

/// Throws UserError if a training step needs more than tokens or lines.
void requireNoMore(const LoadedModel &state) {
  std::vector<std::string> labels = getLabelNames(state.plan()),
                           numbers = getNumberNames(state.plan());
  if (!labels.empty() || !numbers.empty()) {
    throw UserError(
        "tokens: expected labels and numbers with them, as the model has the " +
        (labels.empty() ? "input \"" + numbers.front() : "labels \"" + labels.front()) +
        "\", found tokens alone; open them with sluice_open_data in C, and give labels= "
        "and inputs= in Python");
  }
}

/// Checks the tokens of a training step.
BatchWriter readBatch(LoadedModel &state, const int32_t *tokens, int64_t rows, int64_t columns) {
  state.requireTokensAlone();
  requireNoMore(state);
  int64_t expected = state.rowsOfStep(), context = state.plan().model.context;
  if (rows != expected || columns != context + 1) {
    throw UserError("tokens: expected [" + std::to_string(expected) + ", " +
                    std::to_string(context + 1) +
                    "], the rows of a step by the context and one token to predict, found [" +
                    std::to_string(rows) + ", " + std::to_string(columns) +
                    "]; cut the text into rows of this length");
  }
  std::span<const int32_t> batch = readTokens(tokens, rows * columns);
  state.checkIds(batch);
  size_t part = batch.size() / static_cast<size_t>(state.plan().accumulate);
  return [batch, part](Executor &executor, int64_t i) {
    std::ranges::copy(batch.subspan(static_cast<size_t>(i) * part, part),
                      executor.tokens().begin());
  };
}

/// Checks the lines of a training step.
BatchWriter readBatch(LoadedModel &state, const sluice_lines *lines, const int64_t *numbers,
                      int64_t rows) {
  requireNoMore(state);
  const LinePairs &pairs = requirePairs(state, lines);
  return [&pairs, list = readNumbers(state, pairs, numbers, rows)](Executor &executor, int64_t i) {
    int64_t batch = executor.plan().model.batch;
    for (int64_t row = 0; row < batch; ++row) {
      pairs.write(list[static_cast<size_t>(i * batch + row)], row, executor.inputs());
    }
  };
}

/// Runs `compute` for the next step, with a function that writes one of its batches.
template <typename Compute>
void runStep(LoadedModel &state, const BatchWriter &write, const Compute &compute) {
  state.refresh();
  state.requireWeights();
  state.hasGradients = false;
  Executor &executor = state.executor();
  const Plan &plan = state.plan();
  int64_t step = state.step + 1;
  if (!plan.factors.empty()) {
    executor.chooseFactor(drawFactor(plan.sortedFactors(), state.seed, step));
  }
  executor.scalarI64("seed") = state.seed;
  auto fill = [&](int64_t i) {
    endIfInterrupted();
    executor.chooseBatch({});
    write(executor, i);
  };
  try {
    compute(executor, step, fill);
  } catch (...) {
    executor.chooseFactor({});
    throw;
  }
  executor.chooseFactor({});
}

void report(sluice_step *into, double loss, double norm) {
  if (into) {
    sluice_step values{};
    values.loss = loss;
    values.gradient_norm = norm;
    writeResults(into, values);
  }
}

} // namespace

sluice_status sluice_order_rows(sluice_model *model, const int64_t *lengths, int64_t texts,
                                int64_t first, int64_t rows, int64_t *text, int64_t *start,
                                int64_t *epoch) {
  return guardModel(model, [&](LoadedModel &state) {
    RowOrder order{state.plan().model.context, static_cast<uint64_t>(state.seed),
                   state.plan().cyclic};
    for (auto [name, value, least] :
         {std::tuple("texts", texts, 1), {"first", first, 0}, {"rows", rows, 0}}) {
      if (value < least) {
        throw UserError(std::string(name) + ": expected a number of at least " +
                        std::to_string(least) + ", found " + std::to_string(value) +
                        "; give another");
      }
    }
    requireRange(first, rows);
    require(lengths, "lengths");
    std::span<const int64_t> sizes(lengths, static_cast<size_t>(texts));
    // The rows of all texts, and twice the tokens of one, are below 2^63.
    constexpr int64_t mostTokens = std::numeric_limits<int64_t>::max() / 2;
    int64_t left = mostTokens;
    for (int64_t length : sizes) {
      if (length > left) {
        throw UserError("lengths: expected texts of at most " + std::to_string(mostTokens) +
                        " tokens in total, found more; give the length of each text in tokens");
      }
      left -= std::max<int64_t>(length, 0);
      if (length <= order.context) {
        throw UserError("lengths: expected texts of at least " + std::to_string(order.context + 1) +
                        " tokens, the context and one to predict, found " + std::to_string(length) +
                        "; leave out shorter texts");
      }
    }
    std::vector<int64_t> firstRow = order.countFirstRows(sizes);
    int64_t all = firstRow.back();
    if (rows > 0) {
      require(text, "text");
      require(start, "start");
    }
    for (int64_t i = 0; i < rows; ++i) {
      RowPlace place = order.find({(first + i) / all, (first + i) % all}, firstRow,
                                  [&](size_t number) { return sizes[number]; });
      text[i] = static_cast<int64_t>(place.text);
      start[i] = place.start;
    }
    if (epoch) {
      *epoch = all;
    }
  });
}

void interface::trainStep(LoadedModel &state, const BatchWriter &write, sluice_step *result) {
  runStep(state, write, [](Executor &executor, int64_t step, const auto &fill) {
    executor.runUpdate(step, fill);
  });
  double loss = state.executor().scalarF32("loss"), norm = state.executor().scalarF32("grad_norm");
  if (state.executor().scalarI32("finite") != 1) {
    throw NotFiniteError("step " + std::to_string(state.step + 1) +
                         ": expected a finite loss and gradient, found loss " +
                         std::to_string(loss) + ", gradient norm " + std::to_string(norm) +
                         "; the weights are unchanged");
  }
  ++state.step;
  state.noteChange();
  report(result, loss, norm);
}

sluice_status sluice_train_step(sluice_model *model, const int32_t *tokens, int64_t rows,
                                int64_t columns, sluice_step *result) {
  return guardModel(model, [&](LoadedModel &state) {
    readOptions(result);
    trainStep(state, readBatch(state, tokens, rows, columns), result);
  });
}

sluice_status sluice_train_lines(sluice_model *model, sluice_lines *lines, const int64_t *numbers,
                                 int64_t rows, sluice_step *result) {
  return guardModel(model, [&](LoadedModel &state) {
    readOptions(result);
    trainStep(state, readBatch(state, lines, numbers, rows), result);
  });
}

static void requireOneBatch(const LoadedModel &state) {
  if (state.plan().accumulate > 1) {
    throw UserError("expected a model that computes an update from one batch, found " +
                    std::to_string(state.plan().accumulate) +
                    " batches; compile it with training.accumulate of 1");
  }
}

/// Computes the gradients of the next step. Returns its loss.
static double computeGradients(LoadedModel &state, const BatchWriter &write) {
  runStep(state, write, [](Executor &executor, int64_t step, const auto &fill) {
    // The part of Executor::runUpdate before the update of the weights, for one batch.
    executor.chooseBatch({});
    executor.scalarI64("step") = step;
    std::span<int64_t> numbers = executor.inputs().drawRows;
    std::iota(numbers.begin(), numbers.end(), 0);
    fill(0);
    executor.run("gradient");
  });
  double loss = state.executor().scalarF32("loss");
  state.hasGradients = true;
  return loss;
}

sluice_status sluice_compute_gradients(sluice_model *model, const int32_t *tokens, int64_t rows,
                                       int64_t columns, sluice_step *result) {
  return guardModel(model, [&](LoadedModel &state) {
    copyGradients(state, readBatch(state, tokens, rows, columns), nullptr, 0, result);
  });
}

/// Throws UserError unless `elements` is the number of numbers of all tensors.
static void requireElements(const LoadedModel &state, int64_t elements) {
  int64_t expected = 0;
  for (const Tensor &tensor : state.plan().tensors) {
    expected += tensor.elements();
  }
  if (elements != expected) {
    throw UserError("elements: expected the " + std::to_string(expected) +
                    " numbers of all tensors, found " + std::to_string(elements) +
                    "; give an array of this length");
  }
}

void interface::copyGradients(LoadedModel &state, const BatchWriter &write, float *gradients,
                              int64_t elements, sluice_step *result) {
  readOptions(result);
  if (gradients) {
    requireElements(state, elements);
  }
  requireOneBatch(state);
  double loss = computeGradients(state, write);
  for (const Tensor &tensor : state.plan().tensors) {
    if (gradients) {
      gradients = std::ranges::copy(state.executor().gradient(tensor, Access::Read), gradients).out;
    }
  }
  report(result, loss, std::nan(""));
}

sluice_status sluice_copy_gradients(sluice_model *model, const int32_t *tokens, int64_t rows,
                                    int64_t columns, float *gradients, int64_t elements,
                                    sluice_step *result) {
  return guardModel(model, [&](LoadedModel &state) {
    require(gradients, "gradients");
    copyGradients(state, readBatch(state, tokens, rows, columns), gradients, elements, result);
  });
}

sluice_status sluice_copy_line_gradients(sluice_model *model, sluice_lines *lines,
                                         const int64_t *numbers, int64_t rows, float *gradients,
                                         int64_t elements, sluice_step *result) {
  return guardModel(model, [&](LoadedModel &state) {
    copyGradients(state, readBatch(state, lines, numbers, rows), gradients, elements, result);
  });
}

void interface::reportEvaluation(
    LoadedModel &state, sluice_evaluation *evaluation,
    const std::function<EvaluationResult(const EvaluationOptions &)> &score) {
  require(evaluation, "evaluation");
  sluice_evaluation values = readOptions(evaluation);
  EvaluationOptions options;
  options.window = values.window;
  options.stride = values.stride;
  state.refresh();
  state.requireWeights();
  state.hasGradients = false;
  state.executor().chooseBatch({});
  EvaluationResult result = score(options);
  requireChunks(result);
  values.window = result.window;
  values.stride = result.stride;
  values.nats = result.nats;
  values.tokens = result.countUnits();
  state.losses = result.losses;
  writeResults(evaluation, values);
}

sluice_status sluice_evaluate(sluice_model *model, const int32_t *tokens, int64_t count,
                              sluice_evaluation *evaluation) {
  return guardModel(model, [&](LoadedModel &state) {
    require(evaluation, "evaluation");
    state.requireTokensAlone();
    std::vector<ByteFile> files{state.makeText(readTokens(tokens, count))};
    reportEvaluation(state, evaluation, [&](EvaluationOptions options) {
      const LabelFiles none;
      options.labels = &none; // sets the labels to 0, which no result depends on
      return evaluate(state.executor(), files, options, [](double) { endIfInterrupted(); });
    });
  });
}

/// Checks the number of tokens of a text for a prediction.
static void requireCount(int64_t count) {
  if (count < 1) {
    throw UserError("count: expected at least one token to predict from, found " +
                    std::to_string(count) + "; give a longer text");
  }
}

/// Returns the caller's text for a prediction.
static ByteFile readText(LoadedModel &state, const int32_t *tokens, int64_t count) {
  state.requireTokensAlone();
  requireCount(count);
  return state.makeText(readTokens(tokens, count));
}

sluice_status sluice_compute_logits(sluice_model *model, const int32_t *tokens, int64_t count,
                                    float *logits) {
  return guardModel(model, [&](LoadedModel &state) {
    require(logits, "logits");
    checkPredicts(state.plan(), state.executor().artifact().path());
    ByteFile text = readText(state, tokens, count);
    float *at = logits;
    computeLogits(
        state.openLogits(), text, {},
        [&](std::span<const float> row) { at = std::ranges::copy(row, at).out; },
        [](double) { endIfInterrupted(); });
  });
}

/// Throws UserError for a model with named inputs.
static void requireOneAxis(const LoadedModel &state) {
  if (!state.plan().given.empty()) {
    throw UserError("expected a model whose only input is its tokens, found the input \"" +
                    state.plan().given.begin()->first +
                    "\"; activations of lines are not computed, their logits are");
  }
}

sluice_status sluice_get_activation_shape(sluice_model *model, const char *name, int64_t count,
                                          int64_t *rows, int64_t *width) {
  return guardModel(model, [&](LoadedModel &state) {
    require(name, "name");
    require(rows, "rows");
    require(width, "width");
    requireOneAxis(state);
    loading::ModelStream stream = loading::findStream(state.plan(), "name", name);
    requireCount(count);
    Executor &executor = state.openStream(stream);
    *rows = countRows(count, state.plan().model.context, stream.factor);
    *width = executor.plan().outputs.at("logits").shape.at(1);
  });
}

sluice_status sluice_compute_activations(sluice_model *model, const char *name,
                                         const int32_t *tokens, int64_t count, float *rows) {
  return guardModel(model, [&](LoadedModel &state) {
    require(name, "name");
    require(rows, "rows");
    requireOneAxis(state);
    loading::ModelStream stream = loading::findStream(state.plan(), "name", name);
    ByteFile text = readText(state, tokens, count);
    float *at = rows;
    computeRows(
        state.openStream(stream), text, stream.factor,
        [&](std::span<const float> row) { at = std::ranges::copy(row, at).out; },
        [](double) { endIfInterrupted(); });
  });
}
