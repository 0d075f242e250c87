// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CompileProgress.h"

#include <chrono>
#include <system_error>

namespace sluice::cli {

using namespace std::chrono_literals;

CompileProgress::CompileProgress() {
  try {
    thread = std::thread([this] {
      std::unique_lock lock(mutex);
      show(lock);
    });
  } catch (const std::system_error &) {
    // No thread is available: the compilation reports the effect.
  }
}

CompileProgress::~CompileProgress() {
  {
    std::lock_guard lock(mutex);
    isEnded = true;
  }
  ended.notify_all();
  if (thread.joinable()) {
    thread.join();
  }
}

void CompileProgress::report(const std::string &newWhat, double newShare) {
  std::lock_guard lock(mutex);
  what = newWhat;
  share = newShare;
}

/// Waits on a separate thread, since a stage may report nothing for long.
void CompileProgress::show(std::unique_lock<std::mutex> &lock) {
  auto start = std::chrono::steady_clock::now();
  auto interval = progress.onTerminal() ? 200ms : 30000ms;
  for (auto next = start + 2000ms; !ended.wait_until(lock, next, [this] { return isEnded; });
       next += interval) {
    auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
    std::string text = what + ", " + std::to_string(seconds.count()) + " s";
    if (progress.onTerminal()) {
      progress.draw(share, text);
    } else {
      progress.plainLine("sluice: compile: " + text);
    }
  }
  progress.clear();
}

} // namespace sluice::cli
