// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Saves the state of an unfinished generation in a file. docs/running.md specifies the format.
#pragma once

#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Support/Files.h"

namespace sluice::runtime {

struct Session {
  Text text;
  SamplingOptions options;
  bool areIds = false;        ///< the text's tokens are ids, and not bytes
  std::string tokenizer = {}; ///< hash of the tokenizer; empty without one
};

/// Writes the session of the text in row 0 atomically: the text, its sampling options, the states
/// after its tokens, and hashes of the artifact and the weights.
void saveSession(const Path &path, Executor &executor, const Predictor &predictor,
                 const Session &session);

/// Loads a session's states into row 0. The continuation is bitwise equal to an uninterrupted
/// generation, for any number of threads. Throws UserError, before anything is changed, if the file
/// is damaged or from another artifact, other weights or another instruction set.
Session loadSession(const Path &path, Executor &executor, Predictor &predictor);

} // namespace sluice::runtime
