// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loaded model of the C interface.
#pragma once

#include "Record.h"
#include "sluice/Loading/DeviceOptions.h"
#include "sluice/Loading/Streams.h"
#include "sluice/Runtime/Data/ByteFiles.h"
#include "sluice/Runtime/Generate/Generator.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace sluice::interface {

/// An input besides the tokens that a caller gives.
struct GivenFacts {
  std::string name;
  sluice_input_kind kind = SLUICE_LINES;
  int64_t width = 1; ///< numbers of a token
};

/// An executor with the weights of the model, and executors of recompiled entries that copy them.
/// The functions of the interface use it through a Lock, except the constructor, `leaveSeat` and
/// `endSharing`.
class LoadedModel {
public:
  /// Locks a model for the calling thread. Throws UserError if the thread has locked it before: the
  /// function of sluice_set_interrupt runs within a call, and may use the call's model.
  class Lock {
  public:
    explicit Lock(LoadedModel &model);
    ~Lock();
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;

  private:
    LoadedModel &model;
  };

  LoadedModel(const std::string &path, const loading::DeviceOptions &device);

  const runtime::Plan &plan() const { return artifact->plan(); }
  runtime::Executor &executor() { return *main; }
  const std::vector<GivenFacts> &inputs() const { return given; }
  /// Checks for the process that loaded the model. Another one lacks its threads.
  bool isOwn() const { return ::getpid() == process; }

  /// Records a change of the weights.
  void noteChange() {
    ++version;
    hasGradients = false;
  }
  /// Checks for a call of the model on the calling thread.
  bool isLockedByThread() const { return owner == std::this_thread::get_id(); }
  /// Throws UserError unless weights were initialized, loaded or written.
  void requireWeights() const;

  /// Returns the tensor's numbers for the caller to write at any time between calls.
  std::span<float> share(const runtime::Tensor &tensor);
  /// Ends the caller's writes after the ones that it made already.
  void endSharing();
  /// Finds out whether the caller has written other weights; computes the values that kernels
  /// derive from weights again if so. Call it before each entry.
  void refresh();
  /// Returns an executor whose entry `predict` returns the logits of every row, or the rows of a
  /// stream. It has the model's current weights.
  runtime::Executor &openLogits();
  runtime::Executor &openStream(const loading::ModelStream &stream);

  int64_t rowsOfStep() const { return plan().accumulate * plan().model.batch; }
  /// Throws UserError if the model has named inputs of lines. Labels and numbers, which losses
  /// alone read, are no such inputs.
  void requireTokensAlone() const;
  /// Returns token ids as a file in memory. Throws UserError for an id beyond the vocabulary.
  runtime::ByteFile makeText(std::span<const int32_t> tokens) const;
  /// Throws UserError with the index of a token id beyond the vocabulary.
  void checkIds(std::span<const int32_t> tokens) const;

  /// Takes a free row for a text. Throws UserError if there is none.
  int64_t takeSeat(bool cached);
  /// Frees a row. Needs no Lock.
  void leaveSeat(bool cached, int64_t seat);
  runtime::Predictor &predictor(bool cached) { return *predictors[cached]; }
  /// Returns a predictor whose rows may all be overwritten: each generator then computes its text
  /// again.
  runtime::Predictor &takePredictor(bool cached);

  int64_t seed = 0, step = 0; ///< of training
  uint64_t version = 0;       ///< number of changes of the weights
  /// Means of the losses of the last evaluation, by name.
  std::vector<std::pair<std::string, double>> losses;
  bool hasGradients = false; ///< no entry ran after sluice_compute_gradients

private:
  /// Returns a hash of the numbers of all tensors.
  uint64_t hashWeights();
  /// Checks whether the caller wrote other weights since the last call of this function.
  bool takeWrites();

  std::mutex mutex;
  std::atomic<std::thread::id> owner{}; ///< the thread that holds `mutex`
  /// The caller has no pointers to weights; has written its last number; may write at any time.
  enum Sharing { Unshared, Ended, Shared };
  std::atomic<int> sharing = Unshared;
  uint64_t sharedHash = 0; ///< hash of the weights that the caller's writes are compared with
  /// Hashes of the copies that the caller may write, on devices with memory of their own.
  std::map<const runtime::Tensor *, uint64_t> copyHashes;
  runtime::Executor &openRows(const std::string &stage);

  const pid_t process = ::getpid();
  const loading::DeviceOptions device;
  std::shared_ptr<const runtime::Artifact> artifact;
  std::unique_ptr<runtime::Executor> main;
  const std::vector<GivenFacts> given;
  struct Recompiled {
    std::unique_ptr<runtime::Executor> executor;
    uint64_t version = 0;
  };
  std::map<std::string, Recompiled> copies; ///< by stage; "" returns logits
  std::unique_ptr<runtime::Predictor> predictors[2];
  /// Creates a predictor with its seats unless it exists. `seatMutex` is locked.
  void openPredictor(bool cached);
  std::mutex seatMutex; ///< of `seats`
  std::vector<bool> seats[2];
};

/// Runs `job` with the model locked. The caller's function of sluice_set_interrupt may free the
/// model within.
sluice_status guardModel(sluice_model *model, llvm::function_ref<void(LoadedModel &)> job) noexcept;

/// Throws UserError if the rows of a training from `first` on have no numbers. Neither is negative.
void requireRange(int64_t first, int64_t rows);

/// Returns the caller's tokens. Throws UserError for a negative count or a null pointer.
std::span<const int32_t> readTokens(const int32_t *tokens, int64_t count);

} // namespace sluice::interface

struct sluice_model {
  std::shared_ptr<sluice::interface::LoadedModel> state;
};
