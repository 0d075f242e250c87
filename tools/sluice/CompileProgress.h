// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Progress of a long compile, on stderr.
#pragma once

#include "Common.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace sluice::cli {

/// Shows the state of a compile that has run for two seconds: a bar on a terminal; in a pipe, a
/// line then and every 30 seconds. A quick compile prints nothing.
class CompileProgress {
public:
  CompileProgress();
  ~CompileProgress();
  CompileProgress(const CompileProgress &) = delete;
  CompileProgress &operator=(const CompileProgress &) = delete;

  /// Implements driver::CompileRequest::report; may be called from any thread.
  void report(const std::string &what, double share);

private:
  void show(std::unique_lock<std::mutex> &lock);

  std::mutex mutex; ///< of everything below
  std::condition_variable ended;
  bool isEnded = false;
  std::string what = "reading the spec";
  double share = 0;
  Progress progress;
  std::thread thread; ///< last: it uses the rest
};

} // namespace sluice::cli
