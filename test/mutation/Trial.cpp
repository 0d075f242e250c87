// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A trial forks: memory comes back by itself, and a kernel that never ends is stopped.
#include "Trial.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

using namespace sluice;
using namespace sluice::mutation;

namespace {

/// Processor seconds after which a kernel that took a fraction of one before is taken to hang.
constexpr unsigned longest = 60;
/// Several times what the bounds of the kernels' own tests allow, of the largest result.
constexpr double rounding = 0x1p-6;

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

std::vector<double> numbersOf(const char *bytes, const Output &output) {
  std::vector<double> numbers;
  for (uint64_t at = 0; at < output.bytes; at += output.type == Output::BF16 ? 2 : 4) {
    uint32_t bits = 0;
    std::memcpy(output.type == Output::BF16 ? reinterpret_cast<char *>(&bits) + 2
                                            : reinterpret_cast<char *>(&bits),
                bytes + at, output.type == Output::BF16 ? 2 : 4);
    float number = 0;
    std::memcpy(&number, &bits, 4);
    numbers.push_back(output.type == Output::Integer ? double(int32_t(bits)) : double(number));
  }
  return numbers;
}

Outcome compare(const Output &output, const std::string &expected) {
  const char *found = static_cast<const char *>(output.data);
  if (std::memcmp(found, expected.data(), output.bytes) == 0) {
    return {};
  }
  double largest = 0, apart = 0;
  auto right = numbersOf(expected.data(), output), wrong = numbersOf(found, output);
  for (size_t i = 0; i < right.size(); ++i) {
    if (right[i] == wrong[i] || (std::isnan(right[i]) && std::isnan(wrong[i]))) {
      continue;
    }
    double difference = std::abs(right[i] - wrong[i]);
    apart = std::isfinite(difference) ? std::max(apart, difference) : INFINITY;
    largest = std::isfinite(right[i]) ? std::max(largest, std::abs(right[i])) : largest;
  }
  for (double number : right) {
    largest = std::isfinite(number) ? std::max(largest, std::abs(number)) : largest;
  }
  bool isWrong = output.type == Output::Integer || apart > rounding * largest;
  return {isWrong ? Fate::Wrong : Fate::Changed, "a result differs by " + std::to_string(apart) +
                                                     " where the largest is " +
                                                     std::to_string(largest)};
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
  size_t total = 0;
  for (const Output &output : subject.outputs) {
    total += output.bytes;
  }
  int pipes[2];
  if (::pipe(pipes) != 0) {
    throw std::runtime_error("no pipe for a trial");
  }
  pid_t child = ::fork();
  if (child == 0) {
    std::string failure;
    try {
      failure = launchAll(subject, nullptr, adverse());
    } catch (const std::exception &error) {
      failure = error.what();
    }
    std::string said = failure;
    for (const Output &output : subject.outputs) {
      if (failure.empty()) {
        said.append(static_cast<const char *>(output.data), output.bytes);
      }
    }
    for (size_t at = 0; at < said.size();) {
      ssize_t count = ::write(pipes[1], said.data() + at, said.size() - at);
      at = count > 0 ? at + size_t(count) : said.size();
    }
    ::_exit(failure.empty() ? 0 : 1);
  }
  ::close(pipes[1]);
  std::string said;
  char part[65536];
  for (ssize_t count = 0; (count = ::read(pipes[0], part, sizeof part)) > 0;) {
    said.append(part, size_t(count));
  }
  ::close(pipes[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0 || said.size() != total) {
    throw std::runtime_error(subject.name +
                             ": expected a kernel that breaks no rule, found: " + said);
  }
  for (size_t at = 0, i = 0; i < subject.outputs.size(); at += subject.outputs[i++].bytes) {
    expected.push_back(said.substr(at, subject.outputs[i].bytes));
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
    Outcome worst;
    for (size_t i = 0; i < subject.outputs.size(); ++i) {
      Outcome outcome = compare(subject.outputs[i], expected[i]);
      if (outcome.fate != Fate::Survived && worst.fate != Fate::Wrong) {
        worst = outcome;
      }
    }
    return worst;
  });
}
