// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/Program.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Files.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace sluice {

std::string runProgram(const std::vector<std::string> &words, int output, int messages) {
  std::error_code ignored;
  // Before the working folder changes.
  std::string program = std::filesystem::absolute(words[0], ignored);
  std::vector<char *> arguments;
  for (const std::string &word : words) {
    arguments.push_back(const_cast<char *>(word.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
  ::posix_spawn_file_actions_addchdir_np(&actions, "/proc");
  pid_t child = 0;
  int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    std::string message = std::string("cannot be started: ") + std::strerror(error);
    if (isMachineFailure(error)) {
      throw JobError(words[0] + " " + message + "; raise the limit on processes (ulimit -u) or " +
                     "free memory");
    }
    return message;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return std::string("cannot be waited for: ") + std::strerror(errno);
    }
  }
  if (WIFSIGNALED(status)) {
    return "signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) +
           ")";
  }
  return WEXITSTATUS(status) == 0 ? "" : "exit status " + std::to_string(WEXITSTATUS(status));
}

} // namespace sluice
