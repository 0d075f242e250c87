// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Failures.h"

#include "sluice/Driver/Driver.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Files.h"
#include "sluice/Support/Text.h"

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

namespace sluice::cli {
namespace {

std::string lastWords;
std::string messageRank; ///< "rank 2: " of several processes
bool isMessageMuted = false;

constexpr const char *defect = "; this is a defect of sluice, please report it";

/// Ends the process immediately when a library requests it on any thread.
[[noreturn]] void end(const char *message, int status) {
  if (!lastWords.empty()) {
    std::cout << lastWords << std::endl;
    status = 1;
  }
  if (status == 3) {
    printError(std::string("internal error: ") + message + defect);
  } else {
    printError(message);
  }
  std::_Exit(status);
}

void endInFailureHandler(const char *message, int status) { end(message, status); }

void endInTerminate() {
  if (!std::current_exception()) {
    end("the program was ended from within", 3);
  }
  if (!lastWords.empty()) {
    std::cout << lastWords << std::endl;
  }
  int status = 3;
  try {
    throw;
  } catch (...) {
    status = explainException();
  }
  std::_Exit(lastWords.empty() ? status : 1);
}

/// MLIR writes to the result of malloc without a check. If no memory is available, reports that;
/// else the fault is a defect, and has its default effect. Calls only functions that a signal
/// handler may call.
void explainFault(int signal) {
  constexpr size_t some = size_t(1) << 20;
  if (::mmap(nullptr, some, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
      MAP_FAILED) {
    std::signal(signal, SIG_DFL);
    return; // the instruction faults again
  }
  auto say = [](int fd, std::string_view text) {
    while (!text.empty()) {
      ssize_t count = ::write(fd, text.data(), text.size());
      if (count <= 0) {
        break;
      }
      text.remove_prefix(static_cast<size_t>(count));
    }
  };
  if (!lastWords.empty()) {
    say(STDOUT_FILENO, lastWords);
    say(STDOUT_FILENO, "\n");
  }
  say(STDERR_FILENO, "sluice: error: out of memory\n");
  ::_exit(1);
}

} // namespace

constexpr const char *threadsRemedy =
    "; raise the limits on processes and files (ulimit -u, ulimit -n) or free memory";

void setMessageRank(int64_t rank, bool isMuted, bool namesFirst) {
  messageRank = rank > 0 || namesFirst ? "rank " + std::to_string(rank) + ": " : "";
  isMessageMuted = isMuted;
}

/// Prints a message in one piece: a launcher joins the pieces of all processes. Every further line
/// names the rank too.
static void printWhole(const std::string &start, const std::string &message) {
  std::string text = start + messageRank + message + "\n";
  for (size_t at = text.find('\n'); !messageRank.empty() && at + 1 < text.size();
       at = text.find('\n', at + 1)) {
    text.insert(at + 1, messageRank);
  }
  std::cerr << text << std::flush;
}

void printMessage(const std::string &message) {
  if (!isMessageMuted) {
    printWhole("sluice: ", showMessage(message));
  }
}

void printError(std::string_view message) {
  if (!isMessageMuted) {
    printWhole("sluice: error: ", showMessage(message));
  }
}

int explainException() {
  try {
    throw;
  } catch (const UserError &error) {
    printError(error.what());
    return 2;
  } catch (const JobError &error) {
    printError(error.what());
    return 1;
  } catch (const std::bad_alloc &) {
    printError("out of memory");
    return 1;
  } catch (const std::system_error &error) {
    if (isMachineFailure(error.code().value())) {
      printError(std::string(error.what()) + threadsRemedy);
      return 1;
    }
    printWhole("sluice: internal error: ", showMessage(error.what()) + defect);
    return 3;
  } catch (const std::exception &error) {
    printWhole("sluice: internal error: ", showMessage(error.what()) + defect);
    return 3;
  }
}

void installFailureHandlers() {
  std::signal(SIGPIPE, SIG_IGN); // a closed pipe then shows as a failed write,
  std::signal(SIGXFSZ, SIG_IGN); // and so does the limit on a file's size
  std::signal(SIGSEGV, explainFault);
  std::set_terminate(endInTerminate);
  driver::setFailureHandler(endInFailureHandler);
}

void setLastWords(std::string text) { lastWords = std::move(text); }

} // namespace sluice::cli
