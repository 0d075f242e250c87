// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signals during the training of a run.
#pragma once

#include "sluice/Runtime/Train/Trainer.h"

namespace sluice::runtime {

/// Thrown between batches after a signal, to end the current step, evaluation or sample.
struct Interrupted {};

/// The member of a line of metrics that names the parts that a signal ended after the step, and its
/// values. A resumed run repeats these parts first.
inline constexpr const char *interruptedKey = "interrupted", *evaluationPart = "evaluation",
                            *samplePart = "sample";

/// Notifies the observer that a checkpoint is being saved while the object exists.
class Saving {
public:
  explicit Saving(const TrainingObserver &observer) : observer(observer) { tell(true); }
  Saving(const Saving &) = delete;
  Saving &operator=(const Saving &) = delete;
  ~Saving() { tell(false); }

private:
  void tell(bool begins) const {
    if (observer.saving) {
      observer.saving(begins);
    }
  }
  const TrainingObserver &observer;
};

} // namespace sluice::runtime
