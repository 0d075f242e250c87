// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Model.h"

#include "sluice/Loading/Recompile.h"
#include "sluice/Runtime/Data/Edges.h"
#include "sluice/Runtime/Data/Labels.h"
#include "sluice/Runtime/Data/Numbers.h"
#include "sluice/Runtime/Data/SideStreams.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace sluice::interface {

using namespace sluice::runtime;

/// Returns the inputs of lines, of edges, of numbers and of labels that files or arrays have.
static std::vector<GivenFacts> listInputs(const Plan &plan) {
  std::vector<GivenFacts> inputs;
  for (const auto &[name, input] : plan.given) {
    if (!isComputed(input)) {
      inputs.push_back({name, SLUICE_LINES});
    }
  }
  for (const EdgeInput &edges : getEdgeInputs(plan)) {
    if (edges.pattern.empty()) {
      inputs.push_back({edges.name, SLUICE_EDGES});
    }
  }
  for (const std::string &name : getNumberNames(plan)) {
    inputs.push_back({name, SLUICE_NUMBERS, getNumberWidth(plan, name)});
  }
  for (const std::string &name : getLabelNames(plan)) {
    inputs.push_back({name, SLUICE_LABELS});
  }
  return inputs;
}

LoadedModel::LoadedModel(const std::string &path, const loading::DeviceOptions &device)
    : device(device), artifact(Artifact::load(path, device.target)),
      main(loading::openExecutor(artifact, device)), given(listInputs(plan())) {
  seed = plan().model.seed;
}

LoadedModel::Lock::Lock(LoadedModel &model) : model(model) {
  if (model.isLockedByThread()) {
    throw UserError("expected a model that is not in use, found one that a call of this thread "
                    "uses; use it after the call, not in a function that the call runs");
  }
  model.mutex.lock();
  model.owner = std::this_thread::get_id();
}

LoadedModel::Lock::~Lock() {
  model.owner = std::thread::id();
  model.mutex.unlock();
}

void LoadedModel::requireWeights() const {
  if (version == 0) {
    throw UserError(artifact->path() +
                    ": expected a model with weights, found one whose weights were never set; "
                    "initialize it or load weights first");
  }
}

static uint64_t hashNumbers(std::span<const float> numbers) {
  auto bytes = std::as_bytes(numbers);
  return llvm::xxh3_64bits(
      llvm::ArrayRef(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()));
}

uint64_t LoadedModel::hashWeights() {
  uint64_t hash = 0;
  for (const Tensor &tensor : plan().tensors) {
    hash = mix64(hash ^ hashNumbers(main->tensor(tensor, Access::Read)));
  }
  return hash;
}

std::span<float> LoadedModel::share(const Tensor &tensor) {
  if (device.device != "cpu") { // a copy, which is uploaded before the next entry
    std::span<float> copy = main->tensor(tensor, Access::Edit);
    copyHashes.try_emplace(&tensor, hashNumbers(copy));
    sharing = Ended;
    return copy;
  }
  if (sharing == Unshared) {
    sharedHash = hashWeights();
  }
  sharing = Shared;
  return main->tensor(tensor, Access::Edit);
}

bool LoadedModel::takeWrites() {
  if (device.device == "cpu") {
    uint64_t hash = hashWeights();
    return std::exchange(sharedHash, hash) != hash;
  }
  bool isChanged = std::ranges::any_of(copyHashes, [&](const auto &entry) {
    return hashNumbers(main->tensor(*entry.first, Access::Read)) != entry.second;
  });
  copyHashes.clear();
  return isChanged;
}

void LoadedModel::endSharing() {
  int shared = Shared;
  sharing.compare_exchange_strong(shared, Ended);
}

void LoadedModel::refresh() {
  if (sharing == Unshared) {
    return;
  }
  int ended = Ended;
  sharing.compare_exchange_strong(ended, Unshared);
  if (takeWrites()) {
    noteChange();
    main->prepare();
  }
}

Executor &LoadedModel::openLogits() { return openRows(""); }
Executor &LoadedModel::openStream(const loading::ModelStream &stream) {
  return openRows(stream.stage);
}

Executor &LoadedModel::openRows(const std::string &stage) {
  Recompiled &copy = copies[stage];
  if (!copy.executor) {
    driver::CompileRequest request;
    request.everyRow = stage;
    copy.executor = loading::recompile(*artifact, request, device);
  }
  refresh();
  requireWeights();
  if (copy.version == version) {
    return *copy.executor;
  }
  for (const Tensor &own : copy.executor->plan().tensors) {
    auto same = std::ranges::find(plan().tensors, own.name, &Tensor::name);
    if (same == plan().tensors.end() || same->shape != own.shape) {
      throw std::runtime_error("the recompiled model has another tensor " + own.name);
    }
    std::ranges::copy(main->tensor(*same, Access::Read), copy.executor->tensor(own).begin());
  }
  copy.executor->prepare();
  copy.version = version;
  return *copy.executor;
}

void LoadedModel::requireTokensAlone() const {
  if (!plan().given.empty()) {
    throw UserError(artifact->path() +
                    ": expected a model whose only input is its tokens, found the input \"" +
                    plan().given.begin()->first +
                    "\"; give the lines of its inputs: sluice_open_lines in C, inputs= in Python");
  }
}

void LoadedModel::checkIds(std::span<const int32_t> tokens) const {
  int64_t vocabulary = plan().model.vocabulary;
  auto wrong =
      std::ranges::find_if(tokens, [&](int32_t token) { return token < 0 || token >= vocabulary; });
  if (wrong != tokens.end()) {
    throw UserError("tokens: expected token ids from 0 to " + std::to_string(vocabulary - 1) +
                    ", found " + std::to_string(*wrong) + " at index " +
                    std::to_string(wrong - tokens.begin()) + "; encode the text for this model");
  }
}

ByteFile LoadedModel::makeText(std::span<const int32_t> tokens) const {
  checkIds(tokens);
  std::vector<uint8_t> bytes(tokens.size_bytes());
  if (!tokens.empty()) {
    std::memcpy(bytes.data(), tokens.data(), bytes.size());
  }
  ByteFile file{"tokens", FileContents(std::move(bytes))};
  file.layout.type = TokenType::Int32;
  return file;
}

void LoadedModel::openPredictor(bool cached) {
  if (!predictors[cached]) {
    predictors[cached] = std::make_unique<Predictor>(*main, cached);
    seats[cached].assign(static_cast<size_t>(predictors[cached]->rows()), false);
  }
}

Predictor &LoadedModel::takePredictor(bool cached) {
  std::lock_guard lock(seatMutex);
  openPredictor(cached);
  noteChange();
  return *predictors[cached];
}

int64_t LoadedModel::takeSeat(bool cached) {
  std::lock_guard lock(seatMutex);
  openPredictor(cached);
  std::vector<bool> &taken = seats[cached];
  auto free = std::ranges::find(taken, false);
  if (free == taken.end()) {
    throw UserError("expected at most " + std::to_string(taken.size()) +
                    " generators of a model at once, found one more; free a generator first");
  }
  *free = true;
  return free - taken.begin();
}

void LoadedModel::leaveSeat(bool cached, int64_t seat) {
  std::lock_guard lock(seatMutex);
  seats[cached][static_cast<size_t>(seat)] = false;
}

sluice_status guardModel(sluice_model *model,
                         llvm::function_ref<void(LoadedModel &)> job) noexcept {
  return guard([&] {
    require(model, "model");
    std::shared_ptr<LoadedModel> kept = model->state; // until the call ends
    LoadedModel &state = *kept;
    if (!state.isOwn()) { // before the lock, which a lost thread may hold
      throw UserError("expected a model that this process loaded, found one of the process that "
                      "forked it; load the artifact in this process");
    }
    LoadedModel::Lock lock(state);
    job(state);
  });
}

void requireRange(int64_t first, int64_t rows) {
  int64_t most = std::numeric_limits<int64_t>::max() - rows;
  if (first > most) {
    throw UserError("first: expected a row of at most " + std::to_string(most) + ", found " +
                    std::to_string(first) + "; give a smaller one");
  }
}

std::span<const int32_t> readTokens(const int32_t *tokens, int64_t count) {
  if (count < 0) {
    throw UserError("count: expected a number of tokens of at least 0, found " +
                    std::to_string(count) + "; give the length of the array");
  }
  if (count > 0) {
    require(tokens, "tokens");
  }
  return {tokens, static_cast<size_t>(count)};
}

} // namespace sluice::interface
