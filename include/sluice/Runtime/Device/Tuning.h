// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products that a library computes faster than the generated kernels on a GPU. `sluice bench
// --tune` measures them; `sluice compile --tuning` reads the file. docs/plan-and-artifact.md
// specifies the format.
#pragma once

#include "sluice/Runtime/Plan/Artifact.h"
#include "sluice/Support/Files.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// A product on one target. Strides follow from the shape and are not stored.
struct TunedProduct {
  std::string target; // target of the timed kernel: sm_80, sm_90a
  Product product;
  double generatedSeconds = 0;
  std::optional<double> librarySeconds; // time of the best algorithm; empty if the library does not
                                        // support the product
  bool libraryWins = false;
  Algorithm algorithm{}; // the best algorithm
};

struct Tuning {
  std::string gpu;
  int64_t driverVersion = 0, libraryVersion = 0;
  std::vector<TunedProduct> products;
  std::string notice = {}; // a message to show to the user once; not stored in files
};

/// Upper bound on the ratio of the library's time to the kernel's for choosing the library; smaller
/// differences are noise.
constexpr double librarysShare = 0.97;

/// Returns the form of an algorithm in files: eight numbers of 16 hexadecimal digits each.
std::string showAlgorithm(const Algorithm &algorithm);

/// Reads a tuning file. Unknown keys, other versions and inconsistent values are rejected: throws
/// UserError with the path.
Tuning readTuning(const Path &path);

/// Replaces the file atomically.
void writeTuning(const Path &path, const Tuning &tuning);

} // namespace sluice::runtime
