// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/Examiner.h"

#include <algorithm>
#include <cctype>

using namespace sluice;
using namespace sluice::editor;

std::string editor::getFilePath(const std::string &uri) {
  constexpr std::string_view scheme = "file://";
  if (!uri.starts_with(scheme)) {
    return uri;
  }
  std::string path;
  for (size_t i = scheme.size(); i < uri.size(); ++i) {
    bool escape = uri[i] == '%' && i + 2 < uri.size() &&
                  std::isxdigit(static_cast<unsigned char>(uri[i + 1])) &&
                  std::isxdigit(static_cast<unsigned char>(uri[i + 2]));
    path += escape ? static_cast<char>(std::stoi(uri.substr(i + 1, 2), nullptr, 16)) : uri[i];
    i += escape ? 2 : 0;
  }
  return path;
}

Examiner::Examiner(Check check, Publish publish, bool background)
    : check(std::move(check)), publish(std::move(publish)) {
  if (background) {
    worker = std::thread([this] { run(); });
  }
}

Examiner::~Examiner() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
    running.clear(); // no result of a check that is cut short is published
    cancelled = true;
  }
  changed.notify_all();
  if (worker.joinable()) {
    worker.join();
  }
}

void Examiner::submit(Job job, Duration rest) {
  std::unique_lock lock(mutex);
  if (!worker.joinable()) {
    return examineOne(std::move(job), lock);
  }
  if (running == job.uri) {
    running.clear();
    cancelled = true;
  }
  std::string uri = job.uri;
  waiting[uri] = {std::move(job), Clock::now() + rest};
  changed.notify_all();
}

void Examiner::hurry(const std::string &uri) {
  std::lock_guard lock(mutex);
  if (auto found = waiting.find(uri); found != waiting.end()) {
    found->second.due = Clock::now();
    changed.notify_all();
  }
}

void Examiner::forget(const std::string &uri) {
  std::lock_guard lock(mutex);
  waiting.erase(uri);
  if (running == uri) {
    running.clear();
    cancelled = true;
  }
}

void Examiner::run() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    auto next = std::min_element(waiting.begin(), waiting.end(), [](const auto &a, const auto &b) {
      return a.second.due < b.second.due;
    });
    if (next == waiting.end()) {
      changed.wait(lock);
    } else if (next->second.due > Clock::now()) {
      auto due = next->second.due; // the entry may be gone when this wakes
      changed.wait_until(lock, due);
    } else {
      Job job = std::move(next->second.job);
      waiting.erase(next);
      examineOne(std::move(job), lock);
    }
  }
}

void Examiner::examineOne(Job job, std::unique_lock<std::mutex> &lock) {
  running = job.uri;
  cancelled = false;
  lock.unlock();
  auto findings = std::make_shared<const Findings>(
      examine(job.document->text, getFilePath(job.uri), check, cancelled));
  lock.lock();
  if (running == job.uri) {
    running.clear();
    publish(job, std::move(findings)); // under the lock: forget() returns after the last of them
  }
}
