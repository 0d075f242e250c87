// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A text that is being written, in a file: docs/running.md is the format.
#pragma once

#include "sluice/Runtime/Files.h"
#include "sluice/Runtime/Generator.h"

namespace sluice::runtime {

struct Session {
  Text text;
  SamplingOptions options;
};

/// Writes the session of the text in row 0, whole or not at all: the text, how it is sampled, the
/// states that its tokens left, and hashes of the artifact and the weights.
void saveSession(const Path &path, Executor &executor, const Predictor &predictor,
                 const Session &session);

/// Puts a session's states into row 0. What is written from there on is what would have been
/// written without the file, bit for bit, on any number of threads. Throws UserError, before
/// anything is changed, where the file is damaged or of another artifact, other weights or another
/// instruction set.
Session loadSession(const Path &path, Executor &executor, Predictor &predictor);

} // namespace sluice::runtime
