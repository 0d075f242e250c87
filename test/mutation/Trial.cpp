// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A trial forks: memory comes back by itself, and a kernel that never ends is stopped.
#include "Trial.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <cstring>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

using namespace sluice;
using namespace sluice::mutation;

namespace {

/// Processor seconds after which a kernel that took a fraction of one before is taken to hang.
constexpr unsigned longest = 60;
std::unique_ptr<llvm::Module> parse(const std::string &ir, llvm::LLVMContext &context) {
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseIR(llvm::MemoryBufferRef(ir, "kernel"), diagnostic, context);
  if (!module) {
    throw std::runtime_error("expected LLVM IR, found: " + diagnostic.getMessage().str());
  }
  return module;
}

/// Every launch of the subject; the first violation, or nothing.
std::string launchAll(const Subject &subject, const Mutation *mutation,
                      const emulator::Options &options) {
  for (const Subject::Stage &stage : subject.stages) {
    auto context = std::make_unique<llvm::LLVMContext>();
    auto module = parse(subject.ir, *context);
    if (mutation) {
      plant(*module, *mutation);
    }
    auto made = emulator::Emulator::create(std::move(module), std::move(context), stage.function);
    if (!made) {
      throw std::runtime_error(llvm::toString(made.takeError()));
    }
    emulator::Report report = (*made)->launch(stage.launch, options);
    if (!report.passed()) {
      return report.violations.front().str();
    }
  }
  return "";
}

/// Copies land when they are waited for, and warps run apart: what a GPU might do at worst.
emulator::Options adverse() {
  return {.seed = 3,
          .schedule = emulator::Schedule::WarpAlone,
          .copies = emulator::Copies::Late,
          .mostViolations = 1,
          .countTraffic = false};
}

std::string outputsOf(const Subject &subject) {
  std::string bytes;
  for (auto [data, count] : subject.outputs) {
    bytes.append(static_cast<const char *>(data), count);
  }
  return bytes;
}

/// What `work` gives, from a process of its own.
Outcome inChild(const std::function<Outcome()> &work) {
  int pipes[2];
  if (::pipe(pipes) != 0) {
    throw std::runtime_error("no pipe for a trial");
  }
  pid_t child = ::fork();
  if (child == 0) {
    ::alarm(longest);
    Outcome outcome;
    try {
      outcome = work();
    } catch (const std::exception &error) {
      outcome = {Fate::Invalid, error.what()};
    }
    std::string said = char('0' + static_cast<int>(outcome.fate)) + outcome.text;
    [[maybe_unused]] ssize_t written =
        ::write(pipes[1], said.data(), std::min<size_t>(said.size(), 4096));
    ::_exit(0);
  }
  ::close(pipes[1]);
  std::string said(4096, '\0');
  ssize_t count = ::read(pipes[0], said.data(), said.size());
  ::close(pipes[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (count <= 0) {
    bool hangs = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    return {Fate::Judged, hangs ? "the kernel never ends" : "the emulator dies"};
  }
  return {static_cast<Fate>(said[0] - '0'), said.substr(1, size_t(count) - 1)};
}

} // namespace

llvm::StringRef sluice::mutation::name(Fate fate) {
  constexpr llvm::StringLiteral names[] = {"judged", "wrong", "changed", "survived", "invalid"};
  return names[static_cast<int>(fate)];
}

Trials::Trials(const Subject &subject) : subject(subject) {
  int pipes[2];
  if (::pipe(pipes) != 0) {
    throw std::runtime_error("no pipe for a trial");
  }
  pid_t child = ::fork();
  if (child == 0) {
    std::string failure;
    try {
      failure = launchAll(subject, nullptr, adverse());
      failure = failure.empty() ? subject.judge() : failure;
    } catch (const std::exception &error) {
      failure = error.what();
    }
    std::string said = failure.empty() ? outputsOf(subject) : failure;
    for (size_t at = 0; at < said.size();) {
      ssize_t count = ::write(pipes[1], said.data() + at, said.size() - at);
      at = count > 0 ? at + size_t(count) : said.size();
    }
    ::_exit(failure.empty() ? 0 : 1);
  }
  ::close(pipes[1]);
  char part[65536];
  for (ssize_t count = 0; (count = ::read(pipes[0], part, sizeof part)) > 0;) {
    expected.append(part, size_t(count));
  }
  ::close(pipes[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) {
    throw std::runtime_error(subject.name +
                             ": expected a kernel that breaks no rule, found: " + expected);
  }
}

std::vector<Mutation> Trials::mutations() const {
  llvm::LLVMContext context;
  return mutationsOf(*parse(subject.ir, context));
}

Outcome Trials::run(const Mutation &mutation) const {
  return inChild([&]() -> Outcome {
    std::string violation = launchAll(subject, &mutation, adverse());
    if (!violation.empty()) {
      return {Fate::Judged, violation};
    }
    std::string wrong = subject.judge();
    if (!wrong.empty()) {
      return {Fate::Wrong, wrong};
    }
    return {outputsOf(subject) == expected ? Fate::Survived : Fate::Changed, ""};
  });
}
