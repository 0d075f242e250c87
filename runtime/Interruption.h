// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signals that come while a run trains.
#pragma once

#include "sluice/Runtime/Trainer.h"

namespace sluice::runtime {

/// A signal ends the step, the evaluation or the sample that it came in: thrown between batches.
struct Interrupted {};

/// The member of a line of metrics that names what a signal ended after its step, and its values.
/// A resumed run does that first.
inline constexpr const char *interruptedKey = "interrupted", *evaluationPart = "evaluation",
                            *samplePart = "sample";

/// While one exists, the observer knows that a checkpoint is being saved.
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
