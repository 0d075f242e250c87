// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong and unusual uses of the C interface: interface_checks ARTIFACT FOLDER, for an artifact with
// code for a CPU and a GPU. Prints each check that fails; exits with their number. Memory that is
// freed is overwritten, so that a use of it shows.
#include "sluice/sluice.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <malloc.h>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {
thread_local int64_t allocationsLeft = -1; // -1: no limit
int failures = 0;

void check(bool holds, const std::string &name) {
  if (!holds) {
    std::cout << name << "; last error: " << sluice_last_error()->message << std::endl;
    ++failures;
  }
}
} // namespace

void *operator new(size_t size) {
  if (allocationsLeft == 0) {
    throw std::bad_alloc();
  }
  if (allocationsLeft > 0) {
    --allocationsLeft;
  }
  if (void *memory = std::malloc(size == 0 ? 1 : size)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept {
  if (memory) {
    std::memset(memory, 0xDD, malloc_usable_size(memory));
    std::free(memory);
  }
}
void operator delete(void *memory, size_t) noexcept { operator delete(memory); }

namespace {

sluice_model *load(const char *artifact, const char *device) {
  sluice_load_options options{};
  options.size = sizeof options;
  options.device = device;
  options.threads = 1;
  sluice_model *model = nullptr;
  if (sluice_load(artifact, &options, &model) != SLUICE_OK) {
    std::cout << "load for " << device << ": " << sluice_last_error()->message << std::endl;
    std::exit(1);
  }
  return model;
}

/// Texts without the memory for them, and rows without numbers.
void checkOrder(sluice_model *model) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  int64_t text[2], start[2], epoch = 0;
  for (const std::vector<int64_t> &lengths :
       {std::vector<int64_t>(200, most), {most, most}, {most}, {most / 2, 5000}}) {
    check(sluice_order_rows(model, lengths.data(), static_cast<int64_t>(lengths.size()), 0, 2, text,
                            start, &epoch) == SLUICE_BAD_INPUT &&
              std::string(sluice_last_error()->expected).starts_with("texts of at most"),
          "lengths whose sum is too large");
  }
  int64_t large = most / 2;
  check(sluice_order_rows(model, &large, 1, 0, 2, text, start, &epoch) == SLUICE_OK && epoch > 0 &&
            start[0] >= 0 && start[0] < large && start[1] >= 0 && start[1] < large,
        "the longest text");
  int64_t length = 5000;
  check(sluice_order_rows(model, &length, 1, most, 2, text, start, &epoch) == SLUICE_BAD_INPUT,
        "rows after the last number");
}

/// Fails each allocation of a call in turn.
void checkMemory() {
  const std::string first(100, 'a'), second(200, 'b');
  sluice_status status = SLUICE_FAILED;
  for (int64_t count = 0; status == SLUICE_FAILED; ++count) {
    sluice_model *model = nullptr;
    sluice_load(first.c_str(), nullptr, &model);
    allocationsLeft = count;
    status = sluice_load(second.c_str(), nullptr, &model);
    allocationsLeft = -1;
    const sluice_error &error = *sluice_last_error();
    std::string all;
    for (const char *part :
         {error.message, error.file, error.expected, error.found, error.remedy}) {
      all += part;
    }
    bool isAscii = all.find_first_of("\xDD") == std::string::npos;
    bool isNew = all.find(first) == std::string::npos;
    if (error.status != status || !isAscii || !isNew) {
      std::cout << "allocation " << count << " fails: a last error of status " << error.status
                << (isAscii ? "" : ", with freed memory") << (isNew ? "" : ", of another call")
                << std::endl;
      ++failures;
      return;
    }
  }
  check(status == SLUICE_BAD_INPUT, "an artifact that is missing");
}

sluice_generator *generator = nullptr;

/// Continues a text by one token. `interrupt` runs within.
int32_t draw(sluice_model *model, int (*interrupt)(void *)) {
  sluice_sampling sampling;
  sluice_init_sampling(&sampling, sizeof sampling);
  sampling.temperature = 0;
  int32_t prompt[] = {1, 2, 3}, token = -1;
  check(sluice_generate(model, prompt, 3, &sampling, &generator) == SLUICE_OK, "a generator");
  sluice_set_interrupt(interrupt, nullptr);
  check(sluice_next(generator, &token) == SLUICE_OK, "a token");
  sluice_set_interrupt(nullptr, nullptr);
  return token;
}

int freeHere(void *) {
  sluice_free_generator(generator);
  return 0;
}
int freeElsewhere(void *) {
  std::thread([] { sluice_free_generator(generator); }).join();
  return 0;
}

/// Frees a generator that draws a token.
void checkFree(sluice_model *model) {
  int32_t expected = draw(model, nullptr);
  sluice_free_generator(generator);
  for (int i = 0; i < 100; ++i) { // more than there are seats
    check(draw(model, freeHere) == expected, "a generator freed by its own call");
    check(draw(model, freeElsewhere) == expected, "a generator freed by another thread");
    if (failures > 0) {
      return;
    }
  }
}

/// Reads parameters of a model without weights, and then writes one.
void checkUnset(const char *artifact, const char *device, const std::string &folder) {
  sluice_model *model = load(artifact, device);
  sluice_facts facts{};
  facts.size = sizeof facts;
  check(sluice_get_facts(model, &facts) == SLUICE_OK, "facts");
  std::vector<float> logits(static_cast<size_t>(facts.vocabulary));
  int32_t token = 1;
  sluice_tensor tensor{};
  tensor.size = sizeof tensor;
  std::string path = folder + "/unset.safetensors", on = std::string(" on the ") + device;
  for (int i = 0; i < 2; ++i) {
    for (int64_t index = 0; index < facts.tensors; ++index) {
      check(sluice_get_parameter(model, index, &tensor) == SLUICE_OK, "a parameter" + on);
    }
    check(sluice_save_weights(model, path.c_str()) == SLUICE_BAD_INPUT,
          "unset weights, saved" + on);
    check(sluice_compute_logits(model, &token, 1, logits.data()) == SLUICE_BAD_INPUT,
          "logits of unset weights" + on);
  }
  check(sluice_get_parameter(model, 0, &tensor) == SLUICE_OK, "a parameter" + on);
  tensor.data[0] = 0.5F;
  check(sluice_save_weights(model, path.c_str()) == SLUICE_OK, "written weights" + on);
  check(sluice_compute_logits(model, &token, 1, logits.data()) == SLUICE_OK, "their logits" + on);
  check(sluice_get_parameter(model, 0, &tensor) == SLUICE_OK && tensor.data[0] == 0.5F,
        "the number written" + on);
  sluice_free_model(model);
}

/// Passes structures of a caller that was compiled with an older header.
void checkSizes(sluice_model *model) {
  union {
    sluice_sampling sampling;
    unsigned char bytes[sizeof(sluice_sampling)];
  } older;
  constexpr size_t size = offsetof(sluice_sampling, ids);
  std::memset(older.bytes, 0xAB, sizeof older.bytes);
  sluice_init_sampling(&older.sampling, size);
  bool isKept = true;
  for (size_t i = size; i < sizeof older.bytes; ++i) {
    isKept &= older.bytes[i] == 0xAB;
  }
  check(isKept, "bytes after a smaller structure");
  check(older.sampling.size == size && older.sampling.temperature == 1 &&
            older.sampling.sample == 0,
        "its members");
  int32_t prompt = 1;
  sluice_generator *made = nullptr;
  check(sluice_generate(model, &prompt, 1, &older.sampling, &made) == SLUICE_OK,
        "a generator with it");
  sluice_free_generator(made);

  sluice_spec spec{};
  spec.path = "spec.json";
  spec.text = "{}";
  check(sluice_check(&spec, nullptr) == SLUICE_BAD_INPUT &&
            std::string(sluice_last_error()->message).starts_with("size: "),
        "a spec without its size");
}

/// Opens wrong parts, and uses data for other models and positions.
void checkData(sluice_model *model, const char *artifact) {
  std::vector<int32_t> ids(400, 7);
  sluice_part part{};
  part.size = sizeof part;
  part.ids = ids.data();
  part.count = static_cast<int64_t>(ids.size());
  sluice_data *data = nullptr, *heldOut = nullptr;
  auto isRejected = [&](const sluice_part &wrong, const std::string &begins) {
    return sluice_open_data(model, &wrong, 1, nullptr, &data) == SLUICE_BAD_INPUT && !data &&
           std::string(sluice_last_error()->message).starts_with(begins);
  };
  check(sluice_open_data(model, nullptr, 1, nullptr, &data) == SLUICE_BAD_INPUT, "no parts");
  check(sluice_open_data(model, &part, 0, nullptr, &data) == SLUICE_BAD_INPUT, "zero parts");
  sluice_part wrong = part;
  wrong.role = 9;
  check(isRejected(wrong, "role: "), "a role");
  wrong = part;
  wrong.role = SLUICE_LABEL;
  check(isRejected(wrong, "name: "), "labels without a name");
  wrong.name = "words";
  check(isRejected(wrong, "labels.words: "), "labels of 7");
  wrong = part;
  wrong.ids = nullptr;
  check(isRejected(wrong, "tokens: "), "neither a file nor an array");
  wrong.path = "none.txt";
  check(isRejected(wrong, "none.txt: "), "a missing file");
  wrong.ids = ids.data();
  check(isRejected(wrong, "tokens: expected a file or an array"), "a file and an array");
  wrong = part;
  wrong.count = -1;
  check(isRejected(wrong, "count: "), "a negative count");
  wrong.count = std::numeric_limits<int64_t>::max();
  wrong.width = 9;
  check(isRejected(wrong, "count: "), "a huge count");
  wrong = part;
  wrong.size = 4;
  check(isRejected(wrong, "size: "), "a part of a wrong size");
  sluice_data_options options{};
  options.size = sizeof options;
  options.is_held_out = 1;
  check(sluice_open_data(model, &part, 1, &options, &heldOut) == SLUICE_OK, "held-out data");
  check(sluice_open_data(model, &part, 1, nullptr, &data) == SLUICE_OK, "data");
  sluice_position position{0, 0}, beyond{0, 1000}, skipped{0, 0};
  check(sluice_train_data(model, heldOut, &position, nullptr) == SLUICE_BAD_INPUT,
        "training on held-out data");
  check(sluice_train_data(model, data, &beyond, nullptr) == SLUICE_BAD_INPUT, "a position");
  check(sluice_train_data(model, data, &position, nullptr) == SLUICE_OK, "a step");
  check(sluice_skip_steps(model, data, 1, &skipped) == SLUICE_OK &&
            skipped.epoch == position.epoch && skipped.index == position.index,
        "the position after it");
  check(sluice_skip_steps(model, data, -1, &skipped) == SLUICE_BAD_INPUT, "negative steps");
  sluice_evaluation evaluation{};
  evaluation.size = sizeof evaluation;
  check(sluice_evaluate_data(model, data, &evaluation) == SLUICE_BAD_INPUT,
        "evaluation on data for training");
  check(sluice_evaluate_data(model, heldOut, &evaluation) == SLUICE_OK && evaluation.tokens == 399,
        "evaluation");
  sluice_loss loss{};
  loss.size = sizeof loss;
  check(sluice_get_loss(model, 0, &loss) == SLUICE_END, "no further losses");
  sluice_input input{};
  input.size = sizeof input;
  check(sluice_describe_input(model, 0, &input) == SLUICE_BAD_INPUT, "an input");
  sluice_model *other = load(artifact, "cpu");
  check(sluice_initialize(other, 1) == SLUICE_OK, "another model");
  check(sluice_train_data(other, data, &position, nullptr) == SLUICE_BAD_INPUT,
        "data of another model");
  check(sluice_initialize(model, 2) == SLUICE_OK, "another seed");
  check(sluice_train_data(model, data, &position, nullptr) == SLUICE_BAD_INPUT,
        "data in the order of another seed");
  sluice_free_model(other);
  sluice_free_data(data);
  sluice_free_data(heldOut);
  sluice_free_data(nullptr);
}

/// A search with a buffer that is too small, or without one, writes nothing.
void searchTexts(sluice_model *model) {
  sluice_search_options options;
  sluice_init_search(&options, sizeof options);
  options.tokens = 5;
  int32_t prompt = 1, tokens[6] = {-7, -7, -7, -7, -7, -7};
  sluice_found found{};
  found.size = sizeof found;
  check(sluice_search(model, &prompt, 1, &options, tokens, 4, &found) == SLUICE_BAD_INPUT &&
            std::string(sluice_last_error()->message).starts_with("capacity: ") && tokens[0] == -7,
        "a search without room for its tokens");
  check(sluice_search(model, &prompt, 1, &options, nullptr, 5, &found) == SLUICE_BAD_INPUT,
        "a search without an array");
  check(sluice_search(model, &prompt, 1, &options, tokens, 5, &found) == SLUICE_OK &&
            found.count == 5 && found.score < 0 && found.is_finished == 0 && tokens[4] >= 0 &&
            tokens[5] == -7,
        "a search");
  options.end = tokens[0];
  options.no_cache = 1;
  check(sluice_search(model, &prompt, 1, &options, tokens, 5, nullptr) == SLUICE_OK,
        "a search without its score");
  found.size = 1;
  check(sluice_search(model, &prompt, 1, &options, tokens, 5, &found) == SLUICE_BAD_INPUT,
        "a search with a wrong size");
}

} // namespace

int main(int, char **argv) {
  sluice_model *model = load(argv[1], "cpu");
  check(sluice_initialize(model, 1) == SLUICE_OK, "initial weights");
  checkOrder(model);
  checkMemory();
  checkFree(model);
  checkSizes(model);
  searchTexts(model);
  checkData(model, argv[1]);
  sluice_free_model(model);
  checkUnset(argv[1], "cpu", argv[2]);
  checkUnset(argv[1], "emulator", argv[2]);
  return failures;
}
