// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ChildCheck.h"

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Editor/VerdictJson.h"

#include <csignal>
#include <fcntl.h>
#include <iostream>
#include <iterator>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

using namespace sluice;
using namespace sluice::editor;

namespace {

/// A pipe that no other child inherits.
struct Pipe {
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw std::runtime_error("no pipe could be made");
    }
  }
  ~Pipe() {
    closeEnd(0);
    closeEnd(1);
  }
  Pipe(const Pipe &) = delete;
  Pipe &operator=(const Pipe &) = delete;
  void closeEnd(int end) {
    if (ends[end] >= 0) {
      ::close(ends[end]);
      ends[end] = -1;
    }
  }
  int ends[2];
};

/// A child process with its pipes; the destructor ends it.
class Child {
public:
  explicit Child(const std::string &file) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in.ends[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
    std::string program = "sluice-spec-lsp", flag = "--check-one=" + file;
    char *arguments[] = {program.data(), flag.data(), nullptr};
    int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
      throw std::runtime_error("the check could not be started");
    }
    in.closeEnd(0);
    out.closeEnd(1);
  }
  ~Child() {
    ::kill(pid, SIGKILL);
    wait();
  }
  Child(const Child &) = delete;
  Child &operator=(const Child &) = delete;

  /// The child reads all input before it prints anything, so this cannot deadlock.
  void write(std::string_view text) {
    while (!text.empty()) {
      ssize_t count = ::write(in.ends[1], text.data(), text.size());
      if (count <= 0) {
        break; // it died, which its exit status shows
      }
      text.remove_prefix(static_cast<size_t>(count));
    }
    in.closeEnd(1);
  }

  /// Returns the child's output until it closes it or, once it has printed the verdict, until the
  /// deadline.
  std::string read(const std::atomic<bool> &cancelled,
                   std::chrono::steady_clock::time_point deadline) {
    constexpr int often = 20; // milliseconds
    std::string text;
    char buffer[65536];
    for (;;) {
      pollfd ready{out.ends[0], POLLIN, 0};
      if (::poll(&ready, 1, often) > 0) {
        ssize_t count = ::read(out.ends[0], buffer, sizeof buffer);
        if (count <= 0) {
          ended = true;
          return text;
        }
        text.append(buffer, static_cast<size_t>(count));
      } else if (cancelled) {
        throw NotChecked{"a newer text came"};
      } else if (std::chrono::steady_clock::now() > deadline &&
                 text.find('\n') != std::string::npos) {
        return text;
      } else if (std::chrono::steady_clock::now() > deadline) {
        throw NotChecked{"not checked as you type, which would take too long for this model; run "
                         "sluice check"};
      }
    }
  }

  bool hasEnded() const { return ended; }

private:
  bool wait() {
    if (!waited) {
      waited = ::waitpid(pid, &status, 0) == pid;
    }
    return waited;
  }

  Pipe in, out;
  pid_t pid = 0;
  int status = 0;
  bool waited = false, ended = false;
};

} // namespace

CausalVerdict editor::checkInChild(const ParsedSpec &spec, const std::atomic<bool> &cancelled,
                                   std::chrono::milliseconds limit) {
  Child child(spec.file);
  child.write(spec.text);
  std::string text = child.read(cancelled, std::chrono::steady_clock::now() + limit);
  // One line has the verdict, and one its advice.
  size_t first = text.find('\n'), second = text.find('\n', first + 1);
  if (first == std::string::npos || (second == std::string::npos && child.hasEnded())) {
    throw std::runtime_error("its process failed");
  }
  if (second != std::string::npos) {
    return verdictFromJson(nlohmann::json::parse(text.substr(first + 1, second - first - 1)));
  }
  CausalVerdict verdict = verdictFromJson(nlohmann::json::parse(text.substr(0, first)));
  verdict.notes.push_back({WarningKind::Unfinished, spec.getPlace(""),
                           "advice is not looked for as you type, which would take too long for "
                           "this model; run sluice check"});
  return verdict;
}

int editor::runChild(const std::string &file) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  auto print = [](const CausalVerdict &verdict) {
    std::cout << verdictToJson(verdict).dump(-1, ' ', false,
                                             nlohmann::json::error_handler_t::replace)
              << "\n"
              << std::flush;
  };
  // Replaying a witness takes seconds and has no use in an editor.
  driver::CheckOutcome checked =
      driver::check({.spec = file, .text = text, .replay = false, .tell = print});
  if (!checked.isDecided) {
    return 1;
  }
  print(checked.verdict);
  return std::cout ? 0 : 1;
}
