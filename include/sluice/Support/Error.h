// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <stdexcept>
#include <string>

namespace sluice {

/// Bad input: an artifact, weights, data, a flag or a path. The message for the user has the
/// location, the expected and the found value, and a remedy. Programs print it and exit with status
/// 2.
class UserError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A failure of the job on good input, such as diverged training. Programs exit with status 1.
class JobError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A text has more segments than memory has rows for. The weights are still valid.
class RoomError : public JobError {
public:
  /// Row `row` of the batch, or of generation, holds `text` and needs `needs`.
  RoomError(int64_t row, const std::string &text, const std::string &needs)
      : JobError(text + " needs " + needs), row(row), needs(needs) {}
  /// Returns the same error with a description of the row's text by the caller.
  RoomError of(const std::string &text) const { return {row, text, needs}; }

  const int64_t row;

private:
  std::string needs;
};

/// Weights, optimizer states or losses are not finite.
class NotFiniteError : public JobError {
public:
  using JobError::JobError;
};

} // namespace sluice
