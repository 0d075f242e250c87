// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records launches on the emulator: operands, results and expected results. A GPU on a machine
// without the compiler replays them.
#pragma once

#include "sluice/Runtime/Device/Device.h"
#include "sluice/Support/Files.h"

#include <array>

namespace sluice::runtime {

/// One result of a launch. The vectors of floats have one entry per element of the stored result,
/// including padding.
struct RecordedResult {
  Type type = Type::f32;
  int64_t rows = 0, stride = 0;      ///< rows start `stride` elements apart
  std::vector<float> values, bounds; ///< expected value of each element; bound -1: any value
  /// Sums over all rows, by column; empty if rows are checked separately.
  std::vector<float> sums, sumBounds;
  std::vector<uint8_t> found; ///< bytes on the recording device
  /// Bytes before the launch, for a step of generation: its rings keep rows of earlier steps, which
  /// a recurrence reads. Otherwise empty.
  std::vector<uint8_t> before;
};

struct RecordedLaunch {
  std::string entry;
  int64_t index = 0;                          ///< index in the entry
  std::array<int64_t, 4> scalars{};           ///< length, rows, step, seed
  std::vector<int64_t> lengths;               ///< for an axis of segments: rows of each text
  std::vector<std::vector<uint8_t>> operands; ///< bytes before the launch
  std::vector<RecordedResult> results;
};

struct Recording {
  std::string artifact; ///< SHA-256 of the artifact's ELF part in hexadecimal
  std::string device;   ///< device that computed `found`: "emulated", "NVIDIA H200"
  std::vector<RecordedLaunch> launches;
};

/// Writes a recording, in which equal byte strings are stored once. Numbers are little-endian.
void writeRecording(const Path &path, const Recording &recording);
/// Throws UserError if the file is not a recording of this version.
Recording readRecording(const Path &path);

/// Throws UserError unless `recording` is from `artifact`.
void requireSameArtifact(const Recording &recording, const Artifact &artifact, const Path &path);

} // namespace sluice::runtime
