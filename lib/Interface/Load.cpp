// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the C interface that load models, and read and write their tensors.
#include "Model.h"
#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Outputs.h"

#include <algorithm>
#include <cmath>

using namespace sluice;
using namespace sluice::interface;
using namespace sluice::runtime;

static loading::DeviceOptions readDevice(const sluice_load_options &options) {
  loading::DeviceOptions device;
  device.device = options.device ? options.device : "cpu";
  if (device.device != "cpu" && device.device != "cuda" && device.device != "emulator") {
    throw UserError("device: expected cpu, cuda or emulator, found \"" + device.device +
                    "\"; name one of them");
  }
  device.target = options.cpu_target ? options.cpu_target : "";
  constexpr int32_t mostThreads = 1024;
  if (options.threads < 0 || options.threads > mostThreads) {
    throw UserError("threads: expected a number from 0 to " + std::to_string(mostThreads) +
                    ", found " + std::to_string(options.threads) + "; 0 takes all");
  }
  device.threads = options.threads;
  return device;
}

sluice_status sluice_load(const char *artifact, const sluice_load_options *given,
                          sluice_model **model) {
  return guard([&] {
    require(artifact, "artifact");
    require(model, "model");
    *model =
        new sluice_model{std::make_shared<LoadedModel>(artifact, readDevice(readOptions(given)))};
  });
}

void sluice_free_model(sluice_model *model) {
  if (model && !model->state->isOwn()) {
    return; // its threads are in another process
  }
  delete model;
}

sluice_status sluice_get_facts(sluice_model *model, sluice_facts *facts) {
  auto read = [&](LoadedModel &state) {
    require(facts, "facts");
    readOptions(facts);
    const Plan &plan = state.plan();
    sluice_facts values{};
    values.vocabulary = plan.model.vocabulary;
    values.context = plan.model.context;
    values.batch_rows = state.rowsOfStep();
    values.parameters = plan.model.parameters;
    values.tensors = std::ssize(plan.tensors);
    values.step = state.step;
    values.is_proved = plan.verdict == "proved" ? 1 : 0;
    values.inputs = std::ssize(state.inputs());
    writeResults(facts, values);
  };
  if (model && model->state->isOwn() && model->state->isLockedByThread()) {
    return guard([&] { read(*model->state); }); // within a call: steps change after the callback
  }
  return guardModel(model, read);
}

sluice_status sluice_describe_input(sluice_model *model, int64_t index, sluice_input *input) {
  return guardModel(model, [&](LoadedModel &state) {
    require(input, "input");
    readOptions(input);
    if (index < 0 || index >= std::ssize(state.inputs())) {
      throw UserError("index: expected the number of an input, below " +
                      std::to_string(state.inputs().size()) + ", found " + std::to_string(index) +
                      "; sluice_get_facts returns their number");
    }
    const GivenFacts &found = state.inputs()[static_cast<size_t>(index)];
    writeResults(input,
                 {.size = 0, .name = found.name.c_str(), .kind = found.kind, .width = found.width});
  });
}

sluice_status sluice_initialize(sluice_model *model, int64_t seed) {
  return guardModel(model, [&](LoadedModel &state) {
    state.executor().chooseBatch({});
    state.executor().scalarI64("seed") = seed;
    state.executor().run("initialize");
    state.seed = seed;
    state.step = 0;
    state.noteChange();
  });
}

sluice_status sluice_load_weights(sluice_model *model, const char *path) {
  return guardModel(model, [&](LoadedModel &state) {
    require(path, "path");
    loadWeights(path, state.executor());
    // A new optimizer, as after an initialization.
    for (const Tensor &tensor : state.plan().tensors) {
      for (const auto &[name, ignored] : tensor.states) {
        std::ranges::fill(state.executor().state(tensor, name, Access::Edit), 0.0F);
      }
    }
    state.step = 0;
    state.noteChange();
  });
}

/// Calls `visit` with the numbers of each tensor and of each state of the optimizer.
template <typename Visit> static void visitTensors(LoadedModel &state, const Visit &visit) {
  for (const Tensor &tensor : state.plan().tensors) {
    visit(state.executor().tensor(tensor, Access::Edit));
    for (const auto &[name, ignored] : tensor.states) {
      visit(state.executor().state(tensor, name, Access::Edit));
    }
  }
}

static std::vector<std::vector<float>> copyTensors(LoadedModel &state) {
  std::vector<std::vector<float>> copies;
  visitTensors(state, [&](std::span<float> numbers) {
    copies.emplace_back(numbers.begin(), numbers.end());
  });
  return copies;
}

static void restoreTensors(LoadedModel &state, const std::vector<std::vector<float>> &copies) {
  auto copy = copies.begin();
  visitTensors(state,
               [&](std::span<float> numbers) { std::ranges::copy(*copy++, numbers.begin()); });
  state.executor().prepare();
}

sluice_status sluice_load_checkpoint(sluice_model *model, const char *run, int64_t step) {
  return guardModel(model, [&](LoadedModel &state) {
    require(run, "run");
    if (step < -1) {
      throw UserError("step: expected the step of a checkpoint, or -1 for the latest, found " +
                      std::to_string(step) + "; give the step of a checkpoint of the run");
    }
    std::vector<std::vector<float>> before = copyTensors(state);
    try {
      TrainingState saved = loadCheckpoint(run, state.executor(),
                                           step < 0 ? std::nullopt : std::optional<int64_t>(step));
      state.seed = saved.seed;
      state.step = saved.step;
    } catch (...) { // some tensors may be replaced
      restoreTensors(state, before);
      throw;
    }
    state.noteChange();
  });
}

sluice_status sluice_save_weights(sluice_model *model, const char *path) {
  return guardModel(model, [&](LoadedModel &state) {
    require(path, "path");
    state.refresh();
    state.requireWeights();
    checkOutputs({{"path", path, FileKind::Weights}}, {}, false);
    std::vector<NamedTensor> tensors;
    for (const Tensor &tensor : state.plan().tensors) {
      tensors.push_back({tensor.name, tensor.shape, state.executor().tensor(tensor, Access::Read)});
      for (float number : tensors.back().data) {
        if (!std::isfinite(number)) {
          throw NotFiniteError(tensor.name + ": expected finite numbers, found one that is not; "
                                             "load the weights of an earlier step");
        }
      }
    }
    std::vector<uint8_t> bytes = encodeSafetensors(tensors);
    OutputFile file(path);
    file.write(bytes);
    file.finish();
  });
}

static const Tensor &findTensor(LoadedModel &state, int64_t index) {
  const std::vector<Tensor> &tensors = state.plan().tensors;
  if (index < 0 || index >= std::ssize(tensors)) {
    throw UserError("index: expected a number of a tensor from 0 to " +
                    std::to_string(std::ssize(tensors) - 1) + ", found " + std::to_string(index) +
                    "; sluice_get_facts returns their number");
  }
  return tensors[static_cast<size_t>(index)];
}

static void describe(const Tensor &tensor, std::span<float> data, sluice_tensor *into) {
  sluice_tensor values{};
  values.name = tensor.name.c_str();
  values.data = data.data();
  values.shape = tensor.shape.data();
  values.rank = std::ssize(tensor.shape);
  values.elements = tensor.elements();
  writeResults(into, values);
}

sluice_status sluice_describe_tensor(sluice_model *model, int64_t index, sluice_tensor *tensor) {
  return guardModel(model, [&](LoadedModel &state) {
    require(tensor, "tensor");
    readOptions(tensor);
    describe(findTensor(state, index), {}, tensor);
  });
}

sluice_status sluice_get_parameter(sluice_model *model, int64_t index, sluice_tensor *tensor) {
  return guardModel(model, [&](LoadedModel &state) {
    require(tensor, "tensor");
    readOptions(tensor);
    const Tensor &found = findTensor(state, index);
    describe(found, state.share(found), tensor);
  });
}

void sluice_release_parameters(sluice_model *model) {
  if (model && model->state->isOwn()) {
    model->state->endSharing();
  }
}

sluice_status sluice_get_gradient(sluice_model *model, int64_t index, sluice_tensor *tensor) {
  return guardModel(model, [&](LoadedModel &state) {
    require(tensor, "tensor");
    readOptions(tensor);
    const Tensor &found = findTensor(state, index);
    if (!state.hasGradients) {
      throw UserError("expected a model whose last call computed gradients, found another last "
                      "call, or none; call sluice_compute_gradients first");
    }
    describe(found, state.executor().gradient(found, Access::Read), tensor);
  });
}
