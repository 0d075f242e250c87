// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which matrix products a library does faster than the generated kernels, on one GPU: measured by
// `sluice bench --tune`, read by `sluice compile --tuning`. docs/plan-and-artifact.md is the
// format.
#pragma once

#include "sluice/Runtime/Artifact.h"
#include "sluice/Runtime/Files.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// One product on one target. Strides follow from the shape and are not kept.
struct TunedProduct {
  std::string target; // whose kernel was timed: sm_80, sm_90a
  Product product;
  double generatedSeconds = 0;
  std::optional<double> librarySeconds; // of the best algorithm; none: the library does not do it
  bool libraryWins = false;
  Algorithm algorithm{}; // the best one
};

struct Tuning {
  std::string gpu;
  int64_t driverVersion = 0, libraryVersion = 0;
  std::vector<TunedProduct> products;
  std::string notice = {}; // what to tell the user once; in no file
};

/// What the library's time must be of the kernel's to be chosen: less than noise is no reason.
constexpr double librarysShare = 0.97;

/// An algorithm as files have it: its eight numbers in hexadecimal, 16 digits each.
std::string showAlgorithm(const Algorithm &algorithm);

/// Strict: unknown keys, other versions and what does not fit together are refused. Throws
/// UserError with the path.
Tuning readTuning(const Path &path);

/// Replaces the file as a whole.
void writeTuning(const Path &path, const Tuning &tuning);

/// Times every distinct product of the plan at full length and batch on the first GPU, the
/// generated kernel and cuBLASLt's best algorithms. `target` as in makeCudaDevice; `done` is called
/// after each product. Throws UserError where there is no GPU, driver, library or memory.
Tuning tuneProducts(const Artifact &artifact, const std::string &target,
                    const std::function<void(const TunedProduct &)> &done);

} // namespace sluice::runtime
