// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <stdexcept>
#include <string>

namespace sluice::runtime {

/// Bad input: an artifact, weights, data, a flag or a path. The message is what the user reads:
/// where, what was expected, what was found, a remedy. Programs print it and exit with status 2.
class UserError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// The job itself failed on good input (training diverged, for example). Programs exit with
/// status 1.
class JobError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// More segments than memory has rows for. It says nothing about the weights.
class RoomError : public JobError {
public:
  /// Row `row` of the batch, or of generation, holds `text`, which `needs` them.
  RoomError(int64_t row, const std::string &text, const std::string &needs)
      : JobError(text + " needs " + needs), row(row), needs(needs) {}
  /// The same, said of what the caller knows the row to hold.
  RoomError of(const std::string &text) const { return {row, text, needs}; }

  const int64_t row;

private:
  std::string needs;
};

/// Weights, optimizer states or losses that are not finite.
class NotFiniteError : public JobError {
public:
  using JobError::JobError;
};

} // namespace sluice::runtime
