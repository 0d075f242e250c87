// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Model.h"

#include "sluice/Loading/Recompile.h"
#include "sluice/Runtime/Data/Labels.h"
#include "sluice/Runtime/Data/Numbers.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cstring>

namespace sluice::interface {

using namespace sluice::runtime;

LoadedModel::LoadedModel(const std::string &path, const loading::DeviceOptions &device)
    : device(device), artifact(Artifact::load(path, device.target)),
      main(loading::openExecutor(artifact, device)) {
  seed = plan().model.seed;
}

std::span<float> LoadedModel::share(const Tensor &tensor) {
  isShared = true;
  return main->tensor(tensor, Access::Edit);
}

void LoadedModel::refresh() {
  if (isShared) {
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
    copy.version = version - 1;
  }
  refresh();
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
  const std::string &path = artifact->path();
  const char *remedy = "; use the command line, which reads them from files";
  if (!plan().given.empty()) {
    throw UserError(path + ": expected a model whose only input is its tokens, found the input \"" +
                    plan().given.begin()->first + "\"" + remedy);
  }
  if (std::vector<std::string> numbers = getNumberNames(plan()); !numbers.empty()) {
    throw UserError(path +
                    ": expected a model whose only input is its tokens, found the numbers \"" +
                    numbers.front() + "\"" + remedy);
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

int64_t LoadedModel::takeSeat(bool cached) {
  if (!predictors[cached]) {
    predictors[cached] = std::make_unique<Predictor>(*main, cached);
    seats[cached].assign(static_cast<size_t>(predictors[cached]->rows()), false);
  }
  std::vector<bool> &taken = seats[cached];
  auto free = std::ranges::find(taken, false);
  if (free == taken.end()) {
    throw UserError("expected at most " + std::to_string(taken.size()) +
                    " generators of a model at once, found one more; free a generator first");
  }
  *free = true;
  return free - taken.begin();
}

sluice_status guardModel(sluice_model *model,
                         const std::function<void(LoadedModel &)> &job) noexcept {
  return guard([&] {
    require(model, "model");
    LoadedModel &state = *model->state;
    if (!state.isOwn()) { // before the lock, which a lost thread may hold
      throw UserError("expected a model that this process loaded, found one of the process that "
                      "forked it; load the artifact in this process");
    }
    std::lock_guard lock(state.mutex);
    job(state);
  });
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
