// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The extension sluice._sluice: the C interface as classes. The package sluice checks and converts
// arguments.
#include "sluice/sluice.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace {

using Tokens = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using TokenBatch = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using NumberRows = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Runs the signal handlers of Python. Returns 1 if one raised; the exception is then set. Handlers
/// run on the main thread only.
int checkSignals(void *) {
  nb::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0 ? 1 : 0;
}

/// Raises the exception of the thread's last error.
[[noreturn]] void raise(const sluice_error &error) {
  nb::object made =
      nb::module_::import_("sluice._errors")
          .attr("make")(static_cast<int>(error.status), error.message, error.file, error.line,
                        error.column, error.expected, error.found, error.remedy,
                        error.witness_length, error.witness_row, error.witness_token);
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

/// Calls a function of the C interface without the lock of the interpreter. Returns false at the
/// end of a generator. A signal handler that runs within a call may call other functions.
template <typename Call> bool run(const Call &call) {
  thread_local int depth = 0; // of calls in the handlers of calls
  sluice_status status;
  {
    nb::gil_scoped_release release;
    ++depth;
    sluice_set_interrupt(checkSignals, nullptr);
    status = call();
    if (--depth == 0) {
      sluice_set_interrupt(nullptr, nullptr);
    }
  }
  if (status == SLUICE_INTERRUPTED && PyErr_Occurred()) {
    throw nb::python_error();
  }
  if (status != SLUICE_OK && status != SLUICE_END) {
    raise(*sluice_last_error());
  }
  return status == SLUICE_OK;
}

const char *orNull(const std::optional<std::string> &text) {
  return text ? text->c_str() : nullptr;
}

std::string check(const std::string &path, const std::optional<std::string> &text) {
  sluice_spec spec{sizeof spec, path.c_str(), orNull(text)};
  char *verdict = nullptr;
  run([&] { return sluice_check(&spec, &verdict); });
  std::string copy = verdict;
  sluice_free_text(verdict);
  return copy;
}

void compile(const std::string &path, const std::optional<std::string> &text,
             const std::string &output, const std::optional<std::string> &targets,
             const std::optional<std::string> &precision, int64_t memoryBudget, bool allowLeak,
             int64_t generationRows, const std::optional<std::string> &weights) {
  sluice_spec spec{sizeof spec, path.c_str(), orNull(text)};
  sluice_compile_options options{sizeof options, orNull(targets), orNull(precision), memoryBudget,
                                 allowLeak,      generationRows,  orNull(weights)};
  run([&] { return sluice_compile(&spec, &options, output.c_str()); });
}

struct Generator {
  sluice_generator *handle = nullptr;
  int calls = 0; ///< that use the handle, also on other threads
  bool isClosed = false;
  Generator() = default;
  Generator(const Generator &) = delete;
  ~Generator() { close(); }

  /// Frees the handle, after the last call that uses it. The lock of the interpreter protects the
  /// members.
  void close() {
    isClosed = true;
    if (calls == 0) {
      sluice_free_generator(std::exchange(handle, nullptr)); // waits for no model
    }
  }
  /// Returns the next token; None after the last one.
  std::optional<int32_t> next() {
    if (!handle || isClosed) {
      return std::nullopt;
    }
    struct Use {
      Generator &generator;
      explicit Use(Generator &generator) : generator(generator) { ++generator.calls; }
      ~Use() {
        if (--generator.calls == 0 && generator.isClosed) {
          generator.close();
        }
      }
    } use(*this);
    int32_t token = 0;
    return run([&] { return sluice_next(handle, &token); }) ? std::optional(token) : std::nullopt;
  }
};

/// Throws an error of this package for an array of another size. The package passes right ones.
void requireSize(int64_t expected, size_t found, const char *name) {
  if (static_cast<size_t>(expected) != found) {
    sluice_error error{};
    std::string wanted = std::to_string(expected) + " elements", given = std::to_string(found);
    std::string text = std::string(name) + ": expected " + wanted + ", found " + given +
                       "; call the method of sluice.Model";
    error.status = SLUICE_BAD_INPUT;
    error.message = text.c_str();
    error.file = "";
    error.expected = wanted.c_str();
    error.found = given.c_str();
    error.remedy = "call the method of sluice.Model";
    raise(error);
  }
}

/// Lines of a text and of named inputs.
struct OpenedLines {
  sluice_lines *handle = nullptr;
  OpenedLines() = default;
  OpenedLines(const OpenedLines &) = delete;
  ~OpenedLines() {
    nb::gil_scoped_release release;
    sluice_free_lines(handle);
  }
  std::string describe() {
    char *notes = nullptr;
    run([&] { return sluice_describe_lines(handle, &notes); });
    std::string copy = notes;
    sluice_free_text(notes);
    return copy;
  }
};

/// Lines of one name, None for the text: the ids of all lines, the end of each, whether they are
/// pairs, and a file in place of them.
using LineList =
    std::tuple<std::optional<std::string>, Tokens, Counts, bool, std::optional<std::string>>;

/// A file or an array of data: its role, its name, its path, and its ids or numbers.
using FloatRows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using DataPart = std::tuple<int, std::optional<std::string>, std::optional<std::string>,
                            std::optional<Tokens>, std::optional<FloatRows>>;

/// Texts, lines or images with their labels and numbers.
struct OpenedData {
  sluice_data *handle = nullptr;
  OpenedData() = default;
  OpenedData(const OpenedData &) = delete;
  ~OpenedData() {
    nb::gil_scoped_release release;
    sluice_free_data(handle);
  }
  std::string describe() {
    char *notes = nullptr;
    run([&] { return sluice_describe_data(handle, &notes); });
    std::string copy = notes;
    sluice_free_text(notes);
    return copy;
  }
};

std::vector<sluice_part> readParts(const std::vector<DataPart> &parts) {
  std::vector<sluice_part> all;
  for (const auto &[role, name, path, ids, numbers] : parts) {
    sluice_part part{};
    part.size = sizeof part;
    part.role = role;
    part.name = orNull(name);
    part.path = orNull(path);
    if (ids) {
      part.ids = ids->data();
      part.count = static_cast<int64_t>(ids->shape(0));
    }
    if (numbers) {
      part.numbers = numbers->data();
      part.count = static_cast<int64_t>(numbers->shape(0));
      part.width = static_cast<int64_t>(numbers->shape(1));
    }
    all.push_back(part);
  }
  return all;
}

struct ModelHandle {
  sluice_model *handle = nullptr;
  int64_t exports = 0; ///< arrays of parameters that exist

  ModelHandle(const std::string &path, const std::string &device,
              const std::optional<std::string> &target, int threads) {
    sluice_load_options options{sizeof options, device.c_str(), orNull(target), threads};
    run([&] { return sluice_load(path.c_str(), &options, &handle); });
  }
  ModelHandle(const ModelHandle &) = delete;
  ~ModelHandle() {
    nb::gil_scoped_release release;
    sluice_free_model(handle);
  }

  sluice_facts facts() {
    sluice_facts facts{};
    facts.size = sizeof facts;
    run([&] { return sluice_get_facts(handle, &facts); });
    return facts;
  }
  void initialize(int64_t seed) {
    run([&] { return sluice_initialize(handle, seed); });
  }
  void loadWeights(const std::string &path) {
    run([&] { return sluice_load_weights(handle, path.c_str()); });
  }
  void loadCheckpoint(const std::string &run_, int64_t step) {
    run([&] { return sluice_load_checkpoint(handle, run_.c_str(), step); });
  }
  void saveWeights(const std::string &path) {
    run([&] { return sluice_save_weights(handle, path.c_str()); });
  }
  nb::tuple trainStep(const TokenBatch &batch) {
    sluice_step result{};
    result.size = sizeof result;
    auto rows = static_cast<int64_t>(batch.shape(0)),
         columns = static_cast<int64_t>(batch.shape(1));
    run([&] { return sluice_train_step(handle, batch.data(), rows, columns, &result); });
    return nb::make_tuple(result.loss, result.gradient_norm);
  }
  void gradients(const TokenBatch &batch, const Numbers &gradients) {
    auto rows = static_cast<int64_t>(batch.shape(0)),
         columns = static_cast<int64_t>(batch.shape(1)),
         elements = static_cast<int64_t>(gradients.shape(0));
    run([&] {
      return sluice_copy_gradients(handle, batch.data(), rows, columns, gradients.data(), elements,
                                   nullptr);
    });
  }
  /// Writes the text and the first token of each row from row `first` on. Returns the rows of an
  /// epoch.
  int64_t orderRows(const Counts &lengths, int64_t first, const Counts &texts,
                    const Counts &starts) {
    auto rows = static_cast<int64_t>(texts.shape(0));
    requireSize(rows, starts.shape(0), "starts");
    int64_t epoch = 0;
    run([&] {
      return sluice_order_rows(handle, lengths.data(), static_cast<int64_t>(lengths.shape(0)),
                               first, rows, texts.data(), starts.data(), &epoch);
    });
    return epoch;
  }
  nb::tuple evaluate(const Tokens &tokens, int64_t window, int64_t stride) {
    sluice_evaluation result{sizeof result, window, stride, 0, 0};
    auto count = static_cast<int64_t>(tokens.shape(0));
    run([&] { return sluice_evaluate(handle, tokens.data(), count, &result); });
    return nb::make_tuple(result.nats, result.tokens, result.window, result.stride);
  }
  void openLines(OpenedLines &into, const std::vector<LineList> &lists, int lineEnd) {
    std::vector<sluice_line_list> all;
    for (const auto &[name, ids, ends, arePairs, path] : lists) {
      all.push_back({sizeof(sluice_line_list), orNull(name), path ? nullptr : ids.data(),
                     path ? nullptr : ends.data(), path ? 0 : static_cast<int64_t>(ends.shape(0)),
                     arePairs, orNull(path)});
    }
    run([&] {
      return sluice_open_lines(handle, all.data(), static_cast<int64_t>(all.size()), lineEnd,
                               &into.handle);
    });
  }
  void openLineFiles(OpenedLines &into, const std::vector<DataPart> &parts,
                     const std::optional<std::string> &tokenizer) {
    std::vector<sluice_part> all = readParts(parts);
    sluice_data_options options{};
    options.size = sizeof options;
    options.tokenizer = orNull(tokenizer);
    run([&] {
      return sluice_open_line_files(handle, all.data(), static_cast<int64_t>(all.size()), &options,
                                    &into.handle);
    });
  }
  void openData(OpenedData &into, const std::vector<DataPart> &parts,
                const std::optional<std::string> &images,
                const std::optional<std::string> &tokenizer, bool isHeldOut, bool isInOrder) {
    std::vector<sluice_part> all = readParts(parts);
    sluice_data_options options{sizeof options, orNull(images), orNull(tokenizer), isHeldOut,
                                isInOrder};
    run([&] {
      return sluice_open_data(handle, all.data(), static_cast<int64_t>(all.size()), &options,
                              &into.handle);
    });
  }
  /// Performs a step. Returns its loss, its gradient norm, and the next position.
  nb::tuple trainData(const OpenedData &data, int64_t epoch, int64_t index) {
    sluice_step result{};
    result.size = sizeof result;
    sluice_position position{epoch, index};
    run([&] { return sluice_train_data(handle, data.handle, &position, &result); });
    return nb::make_tuple(result.loss, result.gradient_norm, position.epoch, position.index);
  }
  nb::tuple skipSteps(const OpenedData &data, int64_t steps) {
    sluice_position position{0, 0};
    run([&] { return sluice_skip_steps(handle, data.handle, steps, &position); });
    return nb::make_tuple(position.epoch, position.index);
  }
  void dataGradients(const OpenedData &data, const Numbers &gradients) {
    sluice_position position{0, 0};
    auto elements = static_cast<int64_t>(gradients.shape(0));
    run([&] {
      return sluice_copy_data_gradients(handle, data.handle, &position, gradients.data(), elements,
                                        nullptr);
    });
  }
  nb::tuple evaluateData(const OpenedData &data, int64_t window, int64_t stride) {
    sluice_evaluation result{sizeof result, window, stride, 0, 0};
    run([&] { return sluice_evaluate_data(handle, data.handle, &result); });
    return nb::make_tuple(result.nats, result.tokens, result.window, result.stride);
  }
  /// Returns the mean losses of the last evaluation by name.
  nb::dict losses() {
    nb::dict all;
    sluice_loss loss{};
    loss.size = sizeof loss;
    for (int64_t index = 0; run([&] { return sluice_get_loss(handle, index, &loss); }); ++index) {
      all[loss.name] = loss.mean;
    }
    return all;
  }
  /// Returns the name, the kind and the width of each input.
  std::vector<std::tuple<std::string, int, int64_t>> inputs() {
    std::vector<std::tuple<std::string, int, int64_t>> all;
    int64_t count = facts().inputs;
    for (int64_t index = 0; index < count; ++index) {
      sluice_input input{};
      input.size = sizeof input;
      run([&] { return sluice_describe_input(handle, index, &input); });
      all.emplace_back(input.name, input.kind, input.width);
    }
    return all;
  }
  int64_t countDataRows(const OpenedData &data) {
    int64_t rows = 0;
    run([&] { return sluice_count_data_rows(handle, data.handle, &rows); });
    return rows;
  }
  void dataLogits(const OpenedData &data, const NumberRows &rows) {
    requireSize(countDataRows(data), rows.shape(0), "rows");
    requireSize(facts().vocabulary, rows.shape(1), "columns");
    run([&] { return sluice_compute_data_logits(handle, data.handle, rows.data()); });
  }
  void orderLines(int64_t count, int64_t first, const Counts &numbers) {
    auto rows = static_cast<int64_t>(numbers.shape(0));
    run([&] { return sluice_order_lines(handle, count, first, rows, numbers.data()); });
  }
  nb::tuple trainLines(const OpenedLines &lines, const Counts &numbers) {
    sluice_step result{};
    result.size = sizeof result;
    auto rows = static_cast<int64_t>(numbers.shape(0));
    run([&] { return sluice_train_lines(handle, lines.handle, numbers.data(), rows, &result); });
    return nb::make_tuple(result.loss, result.gradient_norm);
  }
  void lineGradients(const OpenedLines &lines, const Counts &numbers, const Numbers &gradients) {
    auto rows = static_cast<int64_t>(numbers.shape(0)),
         elements = static_cast<int64_t>(gradients.shape(0));
    run([&] {
      return sluice_copy_line_gradients(handle, lines.handle, numbers.data(), rows,
                                        gradients.data(), elements, nullptr);
    });
  }
  nb::tuple evaluateLines(const OpenedLines &lines, int64_t window, int64_t stride) {
    sluice_evaluation result{sizeof result, window, stride, 0, 0};
    run([&] { return sluice_evaluate_lines(handle, lines.handle, &result); });
    return nb::make_tuple(result.nats, result.tokens, result.window, result.stride);
  }
  int64_t countLineRows(const OpenedLines &lines) {
    int64_t rows = 0;
    run([&] { return sluice_count_line_rows(handle, lines.handle, &rows); });
    return rows;
  }
  void lineLogits(const OpenedLines &lines, const NumberRows &rows) {
    requireSize(countLineRows(lines), rows.shape(0), "rows");
    requireSize(facts().vocabulary, rows.shape(1), "columns");
    run([&] { return sluice_compute_line_logits(handle, lines.handle, rows.data()); });
  }
  void logits(const Tokens &tokens, const NumberRows &rows) {
    auto count = static_cast<int64_t>(tokens.shape(0));
    requireSize(count, rows.shape(0), "rows");
    requireSize(facts().vocabulary, rows.shape(1), "columns");
    run([&] { return sluice_compute_logits(handle, tokens.data(), count, rows.data()); });
  }
  nb::tuple activationShape(const std::string &name, int64_t count) {
    int64_t rows = 0, width = 0;
    run([&] { return sluice_get_activation_shape(handle, name.c_str(), count, &rows, &width); });
    return nb::make_tuple(rows, width);
  }
  void activations(const std::string &name, const Tokens &tokens, const NumberRows &rows) {
    auto count = static_cast<int64_t>(tokens.shape(0));
    int64_t height = 0, width = 0;
    run([&] { return sluice_get_activation_shape(handle, name.c_str(), count, &height, &width); });
    requireSize(height, rows.shape(0), "rows");
    requireSize(width, rows.shape(1), "columns");
    run([&] {
      return sluice_compute_activations(handle, name.c_str(), tokens.data(), count, rows.data());
    });
  }
};

/// The owner of an array of a parameter.
struct Export {
  nb::object model;
  explicit Export(nb::handle self) : model(nb::borrow(self)) { ++handle().exports; }
  Export(const Export &) = delete;
  ~Export() {
    if (--handle().exports == 0) { // the caller can no longer write
      sluice_release_parameters(handle().handle);
    }
  }
  ModelHandle &handle() { return nb::cast<ModelHandle &>(model); }
};

/// Returns a tensor's name and its numbers, as an array that keeps the model alive.
nb::tuple parameter(nb::handle self, int64_t index) {
  auto owner = std::make_unique<Export>(self);
  sluice_tensor result{};
  result.size = sizeof result;
  run([&] { return sluice_get_parameter(owner->handle().handle, index, &result); });
  std::vector<size_t> shape(result.shape, result.shape + result.rank);
  nb::capsule capsule(owner.get(), [](void *kept) noexcept { delete static_cast<Export *>(kept); });
  owner.release();
  return nb::make_tuple(result.name, nb::ndarray<nb::numpy, float, nb::device::cpu>(
                                         result.data, shape.size(), shape.data(), capsule));
}

/// Returns a tensor's name and its shape.
nb::tuple describe(ModelHandle &model, int64_t index) {
  sluice_tensor result{};
  result.size = sizeof result;
  run([&] { return sluice_describe_tensor(model.handle, index, &result); });
  return nb::make_tuple(result.name,
                        std::vector<int64_t>(result.shape, result.shape + result.rank));
}

void generate(ModelHandle &model, Generator &into, const Tokens &prompt, const OpenedLines *lines,
              int64_t line, int64_t tokens, double temperature, int64_t topK, double topP,
              double minP, double repetitionPenalty, uint64_t seed, int64_t sample, int64_t ids,
              bool cached) {
  sluice_sampling sampling;
  sluice_init_sampling(&sampling, sizeof sampling);
  sampling.tokens = tokens;
  sampling.temperature = temperature;
  sampling.top_k = topK;
  sampling.top_p = topP;
  sampling.min_p = minP;
  sampling.repetition_penalty = repetitionPenalty;
  sampling.seed = seed;
  sampling.sample = sample;
  sampling.ids = ids;
  sampling.no_cache = cached ? 0 : 1;
  auto count = static_cast<int64_t>(prompt.shape(0));
  run([&] {
    return lines ? sluice_generate_line(model.handle, lines->handle, line, prompt.data(), count,
                                        &sampling, &into.handle)
                 : sluice_generate(model.handle, prompt.data(), count, &sampling, &into.handle);
  });
}

/// Searches the best text. Returns its ids, its score, and whether the end follows.
nb::tuple search(ModelHandle &model, const Tokens &prompt, const OpenedLines *lines, int64_t line,
                 int64_t beam, int64_t tokens, double lengthPenalty, int64_t minTokens,
                 int64_t noRepeat, int64_t ids, int end, bool cached) {
  sluice_search_options options;
  sluice_init_search(&options, sizeof options);
  options.beam = beam;
  options.tokens = tokens;
  options.length_penalty = lengthPenalty;
  options.min_tokens = minTokens;
  options.no_repeat = noRepeat;
  options.ids = ids;
  options.end = end;
  options.no_cache = cached ? 0 : 1;
  std::vector<int32_t> written(static_cast<size_t>(model.facts().context) + 1); // all that fits
  sluice_found found{};
  found.size = sizeof found;
  auto count = static_cast<int64_t>(prompt.shape(0)),
       capacity = static_cast<int64_t>(written.size());
  run([&] {
    return lines ? sluice_search_line(model.handle, lines->handle, line, prompt.data(), count,
                                      &options, written.data(), capacity, &found)
                 : sluice_search(model.handle, prompt.data(), count, &options, written.data(),
                                 capacity, &found);
  });
  written.resize(static_cast<size_t>(found.count));
  return nb::make_tuple(written, found.score, found.is_finished != 0);
}

} // namespace

NB_MODULE(_sluice, m) {
  nb::set_leak_warnings(false); // an array of a model may outlive the interpreter's last collection
  m.def("version", [] { return sluice_version(); });
  m.def("check", check, nb::arg("path"), nb::arg("text").none());
  m.def("compile", compile, nb::arg("path"), nb::arg("text").none(), nb::arg("output"),
        nb::arg("targets").none(), nb::arg("precision").none(), nb::arg("memory_budget"),
        nb::arg("allow_leak"), nb::arg("generation_rows"), nb::arg("weights").none());
  nb::class_<OpenedLines>(m, "Lines").def(nb::init<>()).def("describe", &OpenedLines::describe);
  nb::class_<OpenedData>(m, "Data").def(nb::init<>()).def("describe", &OpenedData::describe);
  nb::class_<Generator>(m, "Generator")
      .def(nb::init<>())
      .def("next", &Generator::next)
      .def("close", &Generator::close);
  nb::class_<sluice_facts>(m, "Facts")
      .def_ro("vocabulary", &sluice_facts::vocabulary)
      .def_ro("context", &sluice_facts::context)
      .def_ro("batch_rows", &sluice_facts::batch_rows)
      .def_ro("parameters", &sluice_facts::parameters)
      .def_ro("tensors", &sluice_facts::tensors)
      .def_ro("step", &sluice_facts::step)
      .def_prop_ro("is_proved", [](const sluice_facts &facts) { return facts.is_proved != 0; });
  nb::class_<ModelHandle>(m, "Model")
      .def(nb::init<const std::string &, const std::string &, const std::optional<std::string> &,
                    int>(),
           nb::arg("path"), nb::arg("device"), nb::arg("target").none(), nb::arg("threads"))
      .def("facts", &ModelHandle::facts)
      .def("initialize", &ModelHandle::initialize)
      .def("load_weights", &ModelHandle::loadWeights)
      .def("save_weights", &ModelHandle::saveWeights)
      .def("load_checkpoint", &ModelHandle::loadCheckpoint)
      .def("train_step", &ModelHandle::trainStep)
      .def("gradients", &ModelHandle::gradients)
      .def("order_rows", &ModelHandle::orderRows)
      .def("evaluate", &ModelHandle::evaluate)
      .def("logits", &ModelHandle::logits)
      .def("activation_shape", &ModelHandle::activationShape)
      .def("activations", &ModelHandle::activations)
      .def("parameter", parameter)
      .def("describe", describe)
      .def("open_lines", &ModelHandle::openLines)
      .def("open_line_files", &ModelHandle::openLineFiles, nb::arg("into"), nb::arg("parts"),
           nb::arg("tokenizer").none())
      .def("open_data", &ModelHandle::openData, nb::arg("into"), nb::arg("parts"),
           nb::arg("images").none(), nb::arg("tokenizer").none(), nb::arg("is_held_out"),
           nb::arg("in_order"))
      .def("train_data", &ModelHandle::trainData)
      .def("skip_steps", &ModelHandle::skipSteps)
      .def("data_gradients", &ModelHandle::dataGradients)
      .def("evaluate_data", &ModelHandle::evaluateData)
      .def("losses", &ModelHandle::losses)
      .def("inputs", &ModelHandle::inputs)
      .def("count_data_rows", &ModelHandle::countDataRows)
      .def("data_logits", &ModelHandle::dataLogits)
      .def("order_lines", &ModelHandle::orderLines)
      .def("train_lines", &ModelHandle::trainLines)
      .def("line_gradients", &ModelHandle::lineGradients)
      .def("evaluate_lines", &ModelHandle::evaluateLines)
      .def("count_line_rows", &ModelHandle::countLineRows)
      .def("line_logits", &ModelHandle::lineLogits)
      .def("generate", generate, nb::arg("into"), nb::arg("prompt"), nb::arg("lines").none(),
           nb::arg("line"), nb::arg("tokens"), nb::arg("temperature"), nb::arg("top_k"),
           nb::arg("top_p"), nb::arg("min_p"), nb::arg("repetition_penalty"), nb::arg("seed"),
           nb::arg("sample"), nb::arg("ids"), nb::arg("cached"))
      .def("search", search, nb::arg("prompt"), nb::arg("lines").none(), nb::arg("line"),
           nb::arg("beam"), nb::arg("tokens"), nb::arg("length_penalty"), nb::arg("min_tokens"),
           nb::arg("no_repeat"), nb::arg("ids"), nb::arg("end"), nb::arg("cached"));
}
