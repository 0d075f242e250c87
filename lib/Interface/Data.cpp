// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the C interface that open, train on and score files and arrays.
#include "Data.h"

#include "Compute.h"
#include "Parts.h"
#include "sluice/Runtime/Data/Labels.h"
#include "sluice/Runtime/Data/Numbers.h"
#include "sluice/Runtime/Execute/Predictions.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <limits>

using namespace sluice;
using namespace sluice::interface;
using namespace sluice::runtime;

namespace {

void requireText(const GivenData &given) {
  if (given.files.data.empty()) {
    throw UserError("tokens: expected at least one text, found none; give a part SLUICE_TEXT");
  }
}

/// Throws UserError for data of another model, or for another use.
void requireData(const LoadedModel &state, const sluice_data *data, bool isHeldOut) {
  require(data, "data");
  if (data->state.get() != &state) {
    throw UserError("data: expected data that were opened for this model, found data of another; "
                    "open them for each model");
  }
  if ((data->heldOut != nullptr) != isHeldOut) {
    throw UserError(std::string("data: expected data for ") +
                    (isHeldOut ? "evaluation, found data for training; set is_held_out"
                               : "training, found held-out data; leave is_held_out 0"));
  }
}

int64_t countRowsOfEpoch(const sluice_data &data) {
  return data.isInOrder ? data.source->countOrdered() : data.source->rowsPerEpoch();
}

/// Returns the caller's position.
DataPosition readPosition(const LoadedModel &state, const sluice_data &data,
                          const sluice_position *position) {
  require(position, "position");
  int64_t rows = countRowsOfEpoch(data);
  if (position->epoch < 0 || position->index < 0 || position->index >= rows) {
    throw UserError("position: expected an epoch of at least 0 and an index below the " +
                    std::to_string(rows) + " rows of an epoch, found " +
                    std::to_string(position->epoch) + " and " + std::to_string(position->index) +
                    "; begin at 0 and 0");
  }
  if (!data.isInOrder && data.seed != state.seed) {
    throw UserError(
        "data: expected data that were opened after the last initialization, whose seed " +
        std::to_string(state.seed) + " orders the rows, found the order of the seed " +
        std::to_string(data.seed) + "; open the data again");
  }
  return {position->epoch, position->index};
}

/// Writes a batch, and returns the next position.
DataPosition writeBatch(Executor &executor, const sluice_data &data, DataPosition position) {
  int64_t rows = executor.plan().model.batch;
  if (!data.isInOrder) {
    std::optional<BatchSize> size = data.source->findBatch(position);
    executor.chooseBatch(size);
    return data.source->fill(position, size ? size->rows : rows, executor.inputs());
  }
  int64_t all = data.source->countOrdered();
  for (int64_t row = 0; row < rows; ++row) {
    data.source->writeOrdered(position.index, row, executor.inputs());
    position = position.index + 1 < all ? DataPosition{position.epoch, position.index + 1}
                                        : DataPosition{position.epoch + 1, 0};
  }
  return position;
}

/// Returns a function that writes the batches of a step from `first` on. `next` receives the
/// position after the last one.
BatchWriter writeBatches(const sluice_data &data, DataPosition first, DataPosition &next) {
  return [&data, first, &next](Executor &executor, int64_t i) {
    next = writeBatch(executor, data, i == 0 ? first : next);
  };
}

} // namespace

sluice_status sluice_open_data(sluice_model *model, const sluice_part *parts, int64_t count,
                               const sluice_data_options *options, sluice_data **data) {
  return guardModel(model, [&](LoadedModel &state) {
    require(data, "data");
    const Plan &plan = state.plan();
    GivenData given = readParts(state, parts, count, options);
    requireText(given);
    auto opened = std::make_unique<sluice_data>();
    opened->state = model->state;
    opened->isInOrder = given.isInOrder;
    opened->seed = state.seed;
    if (given.isInOrder && !plan.shapes.empty()) {
      throw UserError(
          "in_order: expected 0 for a model whose batches have lines of similar lengths, "
          "found 1; leave it out, or compile the spec without \"batch_tokens\"");
    }
    if (given.isHeldOut) {
      opened->heldOut = std::make_unique<HeldOut>(given.files, plan);
    } else {
      requireInputs(plan, given.files.inputs, given.files.inputFlag);
      opened->source = openTraining(given.files, plan, static_cast<uint64_t>(state.seed));
    }
    *data = opened.release();
  });
}

void sluice_free_data(sluice_data *data) {
  if (data && data->state->isOwn()) {
    delete data;
  }
}

sluice_status sluice_describe_data(sluice_data *data, char **notes) {
  return guard([&] {
    require(data, "data");
    require(notes, "notes");
    *notes = copyNotes(data->heldOut ? data->heldOut->notes() : data->source->notes());
  });
}

sluice_status sluice_open_line_files(sluice_model *model, const sluice_part *parts, int64_t count,
                                     const sluice_data_options *options, sluice_lines **lines) {
  return guardModel(model, [&](LoadedModel &state) {
    require(lines, "lines");
    const Plan &plan = state.plan();
    requireLines(state);
    GivenData given = readParts(state, parts, count, options);
    SourceFiles &files = given.files;
    if (given.isHeldOut || given.isInOrder || files.images || !files.labels.empty()) {
      throw UserError("expected files of lines alone, found labels, images, is_held_out or "
                      "in_order; leave them out");
    }
    requireInputs(plan, files.inputs, files.inputFlag);
    files.reading.takesIds = false;
    auto opened = std::make_unique<sluice_lines>();
    opened->state = model->state;
    opened->lineEnd = files.reading.encoder ? files.reading.encoder->encode("\n").front() : '\n';
    if (files.data.empty()) {
      opened->inputs = std::make_unique<InputLines>(files.inputs, plan, files.reading);
      opened->inputs->count(); // checks that they are equal
    } else {
      opened->pairs = std::make_unique<LinePairs>(files.data, files.inputs, plan,
                                                  static_cast<uint64_t>(state.seed), files.reading);
    }
    *lines = opened.release();
  });
}

sluice_status sluice_train_data(sluice_model *model, sluice_data *data, sluice_position *position,
                                sluice_step *step) {
  return guardModel(model, [&](LoadedModel &state) {
    readOptions(step);
    requireData(state, data, /*isHeldOut=*/false);
    DataPosition next = readPosition(state, *data, position);
    trainStep(state, writeBatches(*data, next, next), step);
    *position = {next.epoch, next.index};
  });
}

sluice_status sluice_skip_steps(sluice_model *model, sluice_data *data, int64_t steps,
                                sluice_position *position) {
  return guardModel(model, [&](LoadedModel &state) {
    requireData(state, data, /*isHeldOut=*/false);
    DataPosition next = readPosition(state, *data, position);
    int64_t rows = state.rowsOfStep(), all = countRowsOfEpoch(*data);
    int64_t most = (std::numeric_limits<int64_t>::max() - next.index) / rows;
    if (steps < 0 || steps > most) {
      throw UserError("steps: expected a number from 0 to " + std::to_string(most) + ", found " +
                      std::to_string(steps) + "; give another");
    }
    if (data->isInOrder || !data->source->findBatch(next)) {
      int64_t passed = next.index + steps * rows;
      *position = {next.epoch + passed / all, passed % all};
      return;
    }
    for (int64_t batch = 0; batch < steps * state.plan().accumulate; ++batch) {
      endIfInterrupted();
      next.index += data->source->findBatch(next)->rows;
      next = next.index < all ? next : DataPosition{next.epoch + 1, 0};
    }
    *position = {next.epoch, next.index};
  });
}

sluice_status sluice_copy_data_gradients(sluice_model *model, sluice_data *data,
                                         const sluice_position *position, float *gradients,
                                         int64_t elements, sluice_step *step) {
  return guardModel(model, [&](LoadedModel &state) {
    requireData(state, data, /*isHeldOut=*/false);
    DataPosition next = readPosition(state, *data, position);
    copyGradients(state, writeBatches(*data, next, next), gradients, elements, step);
  });
}

sluice_status sluice_evaluate_data(sluice_model *model, sluice_data *data,
                                   sluice_evaluation *evaluation) {
  return guardModel(model, [&](LoadedModel &state) {
    requireData(state, data, /*isHeldOut=*/true);
    reportEvaluation(state, evaluation, [&](const EvaluationOptions &options) {
      if (data->heldOut->getItems() && (options.window != 0 || options.stride != 0)) {
        throw UserError("window: expected 0 for " + std::string(data->heldOut->getItems()->noun()) +
                        ", which are scored one by one, found a window or a stride; leave it out");
      }
      return data->heldOut->score(state.executor(), options, [](double) { endIfInterrupted(); });
    });
  });
}

sluice_status sluice_get_loss(sluice_model *model, int64_t index, sluice_loss *loss) {
  bool isOver = false;
  sluice_status status = guardModel(model, [&](LoadedModel &state) {
    require(loss, "loss");
    readOptions(loss);
    if (index < 0) {
      throw UserError("index: expected a number of at least 0, found " + std::to_string(index) +
                      "; number the losses from 0");
    }
    isOver = index >= std::ssize(state.losses);
    if (!isOver) {
      const auto &[name, mean] = state.losses[static_cast<size_t>(index)];
      writeResults(loss, {.size = 0, .name = name.c_str(), .mean = mean});
    }
  });
  return isOver ? SLUICE_END : status;
}

sluice_status sluice_count_data_rows(sluice_model *model, sluice_data *data, int64_t *rows) {
  return guardModel(model, [&](LoadedModel &state) {
    require(rows, "rows");
    requireData(state, data, /*isHeldOut=*/true);
    if (const ItemSource *items = data->heldOut->getItems()) {
      *rows = countItemRows(state.executor(), *items);
      return;
    }
    *rows = 0;
    for (const ByteFile &text : data->heldOut->usedFiles()) {
      *rows += text.tokenCount();
    }
  });
}

sluice_status sluice_compute_data_logits(sluice_model *model, sluice_data *data, float *logits) {
  return guardModel(model, [&](LoadedModel &state) {
    require(logits, "logits");
    checkPredicts(state.plan(), state.executor().artifact().path());
    requireData(state, data, /*isHeldOut=*/true);
    float *at = logits;
    auto copy = [&](std::span<const float> row) { at = std::ranges::copy(row, at).out; };
    auto check = [](double) { endIfInterrupted(); };
    if (const ItemSource *items = data->heldOut->getItems()) {
      computeItemLogits(state.openLogits(), *items, copy, check);
      return;
    }
    for (const ByteFile &text : data->heldOut->usedFiles()) {
      computeLogits(state.openLogits(), text, {}, copy, check);
    }
  });
}
