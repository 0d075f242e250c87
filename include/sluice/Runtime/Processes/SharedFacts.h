// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts that are equal on all processes of a job.
#pragma once

#include "sluice/Runtime/Processes/ProcessGroup.h"

namespace sluice::runtime {

/// A fact on which all processes must agree, and the remedy if they do not.
struct SharedFact {
  std::string name, value, remedy; ///< the value is one line
};

/// Throws UserError on all processes if one of them has another value than rank 0. All processes
/// give the same names in the same order; the values together have fewer than
/// ProcessGroup::mostText bytes.
void requireSharedFacts(ProcessGroup &group, const std::vector<SharedFact> &facts);

} // namespace sluice::runtime
