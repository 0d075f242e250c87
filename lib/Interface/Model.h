// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loaded model of the C interface.
#pragma once

#include "Record.h"
#include "sluice/Loading/DeviceOptions.h"
#include "sluice/Loading/Streams.h"
#include "sluice/Runtime/Data/ByteFiles.h"
#include "sluice/Runtime/Generate/Generator.h"

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

namespace sluice::interface {

/// An executor with the weights of the model, and executors of recompiled entries that copy them.
/// The functions of the interface hold `mutex`, except the constructor.
class LoadedModel {
public:
  LoadedModel(const std::string &path, const loading::DeviceOptions &device);

  const runtime::Plan &plan() const { return artifact->plan(); }
  runtime::Executor &executor() { return *main; }
  /// Checks for the process that loaded the model. Another one lacks its threads.
  bool isOwn() const { return ::getpid() == process; }

  /// Records a change of the weights.
  void noteChange() { ++version; }
  /// Returns the tensor's numbers for the caller to write at any time between calls.
  std::span<float> share(const runtime::Tensor &tensor);
  /// Computes the values that kernels derive from weights again if the caller may have changed
  /// weights. Call it before each entry.
  void refresh();
  /// Returns an executor whose entry `predict` returns the logits of every row, or the rows of a
  /// stream. It has the model's current weights.
  runtime::Executor &openLogits();
  runtime::Executor &openStream(const loading::ModelStream &stream);

  int64_t rowsOfStep() const { return plan().accumulate * plan().model.batch; }
  /// Throws UserError unless the model's tokens are its only inputs.
  void requireTokensAlone() const;
  /// Returns token ids as a file in memory. Throws UserError for an id beyond the vocabulary.
  runtime::ByteFile makeText(std::span<const int32_t> tokens) const;
  /// Throws UserError with the index of a token id beyond the vocabulary.
  void checkIds(std::span<const int32_t> tokens) const;

  /// Takes a free row for a text. Throws UserError if there is none.
  int64_t takeSeat(bool cached);
  void leaveSeat(bool cached, int64_t seat) { seats[cached][static_cast<size_t>(seat)] = false; }
  runtime::Predictor &predictor(bool cached) { return *predictors[cached]; }

  std::mutex mutex;
  int64_t seed = 0, step = 0; ///< of training
  uint64_t version = 0;       ///< number of changes of the weights
  bool isShared = false;      ///< the caller has pointers to weights

private:
  runtime::Executor &openRows(const std::string &stage);

  const pid_t process = ::getpid();
  const loading::DeviceOptions device;
  std::shared_ptr<const runtime::Artifact> artifact;
  std::unique_ptr<runtime::Executor> main;
  struct Recompiled {
    std::unique_ptr<runtime::Executor> executor;
    uint64_t version = 0;
  };
  std::map<std::string, Recompiled> copies; ///< by stage; "" returns logits
  std::unique_ptr<runtime::Predictor> predictors[2];
  std::vector<bool> seats[2];
};

/// Runs `job` with the model locked.
sluice_status guardModel(sluice_model *model,
                         const std::function<void(LoadedModel &)> &job) noexcept;

/// Returns the caller's tokens. Throws UserError for a negative count or a null pointer.
std::span<const int32_t> readTokens(const int32_t *tokens, int64_t count);

} // namespace sluice::interface

struct sluice_model {
  std::shared_ptr<sluice::interface::LoadedModel> state;
};
