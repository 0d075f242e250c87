// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches as they ran: what went in, what came out and what should have. Recorded on the
// emulator, they are the questions that a GPU is asked where there is no compiler.
#pragma once

#include "sluice/Runtime/Device.h"
#include "sluice/Runtime/Files.h"

#include <array>

namespace sluice::runtime {

/// One result of a launch. Vectors of floats go by element of the stored result, padding included.
struct RecordedResult {
  Type type = Type::f32;
  int64_t rows = 0, stride = 0;       ///< rows lie `stride` elements apart
  std::vector<float> values, bounds;  ///< what each element should hold; bound -1: anything
  std::vector<float> sums, sumBounds; ///< of all rows, by column; empty where rows stand alone
  std::vector<uint8_t> found;         ///< what the recording device left
};

struct RecordedLaunch {
  std::string entry;
  int64_t index = 0;                          ///< in the entry
  std::array<int64_t, 4> scalars{};           ///< length, rows, step, seed
  std::vector<int64_t> lengths;               ///< on an axis of segments: rows of each text
  std::vector<std::vector<uint8_t>> operands; ///< bytes before the launch
  std::vector<RecordedResult> results;
};

struct Recording {
  std::string artifact; ///< SHA-256 of the artifact's ELF part, hexadecimal
  std::string device;   ///< whose results `found` are: "emulated", "NVIDIA H200"
  std::vector<RecordedLaunch> launches;
};

/// Writes a recording, equal bytes once. The numbers are little endian.
void writeRecording(const Path &path, const Recording &recording);
/// Throws UserError for a file that is no recording of this version.
Recording readRecording(const Path &path);

/// Runs a whole training step, an evaluation and a prediction on the emulator, from random weights
/// and tokens, with `length` tokens in `rows` rows valid, and records each kernel once. Throws
/// JobError where a launch fails the emulator's judges.
Recording recordLaunches(const std::shared_ptr<const Artifact> &artifact, const std::string &target,
                         int64_t length, int64_t rows);

/// What became of a recorded launch on another device.
struct LaunchCheck {
  std::string kernel;
  int64_t checked = 0;   ///< numbers held to a finite bound
  int64_t unbounded = 0; ///< numbers that must not be NaN, and may be any other
  int64_t wrong = 0;     ///< of both
  int64_t differing = 0; ///< elements whose bits are not those of the recording
  std::string first;     ///< the first wrong one: where, expected, found
};

/// Runs `launch` on `device` from the recorded operands. Where `goldens` is given, it gets what the
/// device left. Throws UserError where the artifact is not the one that was recorded.
LaunchCheck checkLaunch(Device &device, const RecordedLaunch &launch,
                        RecordedLaunch *goldens = nullptr);

/// Throws UserError unless `recording` was made from `artifact`.
void requireSameArtifact(const Recording &recording, const Artifact &artifact, const Path &path);

} // namespace sluice::runtime
