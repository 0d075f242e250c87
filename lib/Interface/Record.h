// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns exceptions into statuses of the C interface, with the parts of their messages.
#pragma once

#include "sluice/Driver/Driver.h"
#include "sluice/sluice.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::interface {

/// The caller's function ended a call.
class Interrupted : public std::runtime_error {
public:
  Interrupted() : std::runtime_error("the call was interrupted") {}
};

/// A spec is not proved causal.
class LeakFound : public std::runtime_error {
public:
  explicit LeakFound(const CausalVerdict &verdict)
      : std::runtime_error(verdict.format()), verdict(verdict) {}
  const CausalVerdict verdict;
};

/// The parts of a message "FILE:LINE:COLUMN: expected ..., found ...; remedy". Missing parts are
/// empty.
struct MessageParts {
  std::string file;
  int64_t line = 0, column = 0;
  std::string expected, found, remedy;
};
MessageParts splitMessage(const std::string &message);

/// Replaces flags of the command line in a message with the names of options of the interface:
/// "--top-p" with "top_p". Other flags are marked as flags of the command line.
std::string renameFlags(const std::string &message);

/// Runs `job`; records its exception as the last error of the thread. No exception passes. A
/// std::function would allocate, and throw, before the call.
sluice_status guard(llvm::function_ref<void()> job) noexcept;

/// Throws Interrupted if the function of `sluice_set_interrupt` returns a nonzero value.
void endIfInterrupted();

/// Runs `job`, a compilation or a proof, on another thread while the function of
/// `sluice_set_interrupt` is called on this one. Throws Interrupted when it returns a nonzero
/// value, once the job has ended; else the job's exception.
void runCancellable(const std::function<void()> &job);

/// Returns remarks, each with a line end, as a text that sluice_free_text frees.
char *copyNotes(const std::vector<std::string> &notes);

/// Throws UserError if a pointer that a function needs is null.
void require(const void *pointer, const char *name);

/// Throws the exception of a failed outcome.
void requireDone(const driver::Outcome &outcome);

/// Throws UserError unless `size`, the first member of a caller's structure, is from the size of
/// this member to `most`, the size of the structure in this version.
void requireSize(size_t size, size_t most);

/// Returns the caller's options; members beyond the size that it was compiled with are zero. Throws
/// UserError for a wrong size.
template <typename Options> Options readOptions(const Options *given) {
  Options options{};
  if (given) {
    requireSize(given->size, sizeof(Options));
    __builtin_memcpy(static_cast<void *>(&options), given, given->size);
  }
  options.size = sizeof(Options);
  return options;
}

/// Writes results to the caller's structure, up to its size.
template <typename Results> void writeResults(Results *into, Results results) {
  results.size = into->size;
  __builtin_memcpy(static_cast<void *>(into), &results, into->size);
}

} // namespace sluice::interface
