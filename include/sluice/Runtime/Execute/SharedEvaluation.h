// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluation by several processes: checks that they compute the same.
#pragma once

#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Runtime/Processes/SharedFacts.h"

namespace sluice::runtime {

/// Returns the facts that all processes of a training or an evaluation share: the version, the
/// instruction set, the kind of GPU and the artifact.
std::vector<SharedFact> getProgramFacts(Executor &executor, const std::string &version);

/// Returns the SHA-256 of the weights in the memory of the executor.
std::string hashWeights(Executor &executor);

/// Throws UserError on all processes if one of them has other facts of the program, weights, data
/// or flags than rank 0. `flags` is one line that describes the flags of the evaluation.
void compareEvaluations(ProcessGroup &group, Executor &executor, const std::string &version,
                        const std::string &dataHash, const std::string &flags);

} // namespace sluice::runtime
