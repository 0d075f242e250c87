// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A worker runs a kernel's stages in order and forks before each, once per fault: memory is
// restored by itself, earlier stages do not run again, nothing is compiled, and a kernel that does
// not terminate is stopped.
#include "Trial.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <cstring>
#include <ctime>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace sluice;
using namespace sluice::mutation;

namespace {

std::unique_ptr<llvm::Module> parse(const std::string &ir, llvm::LLVMContext &context) {
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseIR(llvm::MemoryBufferRef(ir, "kernel"), diagnostic, context);
  if (!module) {
    throw std::runtime_error("expected LLVM IR, found: " + diagnostic.getMessage().str());
  }
  return module;
}

/// Copies complete at their wait, and warps diverge: the worst case on a GPU.
emulator::Options adverse() {
  return {.seed = 3,
          .schedule = emulator::Schedule::WarpAlone,
          .copies = emulator::Copies::Late,
          .mostViolations = 1,
          .countTraffic = false};
}

/// The first violation, or "". A program with faults receives the fault's number.
std::string launchStage(emulator::Emulator &emulator, const Subject::SubjectStage &stage,
                        std::optional<uint64_t> fault = std::nullopt) {
  emulator::EmulatedLaunch launch = stage.launch;
  fault ? launch.arguments.push_back(*fault) : void();
  emulator::Report report = emulator.launch(launch, adverse());
  return report.passed() ? "" : report.violations.front().str();
}

std::string readOutputs(const Subject &subject) {
  std::string bytes;
  for (auto [data, count] : subject.outputs) {
    bytes.append(static_cast<const char *>(data), count);
  }
  return bytes;
}

void writeAll(int to, llvm::StringRef bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(to, bytes.data(), bytes.size());
    bytes = bytes.drop_front(count > 0 ? size_t(count) : bytes.size());
  }
}

std::string readAll(int from) {
  std::string bytes;
  char part[65536];
  for (ssize_t count = 0; (count = ::read(from, part, sizeof part)) > 0;) {
    bytes.append(part, size_t(count));
  }
  return bytes;
}

/// A process that runs `work`, which writes to its argument; its output is read from `output`.
struct Child {
  explicit Child(const std::function<void(int)> &work) {
    int pipes[2];
    if (::pipe(pipes) != 0) {
      throw std::runtime_error("no pipe for a trial");
    }
    process = ::fork();
    if (process == 0) {
      ::close(pipes[0]);
      work(pipes[1]);
      ::_exit(0);
    }
    ::close(pipes[1]);
    output = pipes[0];
  }
  /// Its output; `status` as of waitpid.
  std::string wait(int &status) const {
    std::string said = readAll(output);
    ::close(output);
    ::waitpid(process, &status, 0);
    return said;
  }

  pid_t process = 0;
  int output = -1;
};

/// SIGPROF ends the process after this processor time.
void limitTime(double seconds) {
  auto whole = static_cast<time_t>(seconds);
  itimerval timer{{0, 0}, {whole, static_cast<suseconds_t>((seconds - double(whole)) * 1e6)}};
  ::setitimer(ITIMER_PROF, &timer, nullptr);
}

double processorSeconds() { return double(std::clock()) / CLOCKS_PER_SEC; }

/// The result of `work` in a separate process that may take `limit` seconds of processor time.
Outcome inChild(double limit, const std::function<Outcome()> &work) {
  Child child([&](int to) {
    limitTime(limit);
    Outcome outcome;
    try {
      outcome = work();
    } catch (const std::exception &error) {
      outcome = {Fate::Invalid, error.what()};
    }
    writeAll(to, std::string(1, char('0' + static_cast<int>(outcome.fate))) + outcome.text);
  });
  int status = 0;
  std::string said = child.wait(status);
  if (said.empty()) {
    bool hangs = WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF;
    return hangs ? Outcome{Fate::Judged, "the kernel never ends"}
                 : Outcome{Fate::Invalid, "the emulator dies"};
  }
  return {static_cast<Fate>(said[0] - '0'), said.substr(1)};
}

/// One line per function: its name and the execution count of each block.
std::string coverageLine(const std::string &function, const emulator::Counters &counters) {
  std::string line = function;
  for (const emulator::BlockCount &block : counters.coverage) {
    line += " " + std::to_string(block.entered);
  }
  return line + "\n";
}

} // namespace

llvm::StringRef sluice::mutation::name(Fate fate) {
  constexpr llvm::StringLiteral names[] = {"judged",   "wrong",    "changed",
                                           "survived", "no fault", "invalid"};
  return names[static_cast<int>(fate)];
}

std::unique_ptr<emulator::Emulator>
sluice::mutation::makeStage(const std::string &ir, const std::string &function,
                            llvm::ArrayRef<Mutation> mutations) {
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = parse(ir, *context);
  if (!mutations.empty()) {
    injectAll(*module, mutations);
  }
  for (llvm::Function &other : llvm::make_early_inc_range(*module)) {
    if (!other.isDeclaration() && other.getName() != function && other.use_empty()) {
      other.eraseFromParent();
    }
  }
  auto made = emulator::Emulator::create(std::move(module), std::move(context), function);
  if (!made) {
    throw std::runtime_error(llvm::toString(made.takeError()));
  }
  return std::move(*made);
}

/// Computed once, before processes fork.
static std::shared_ptr<emulator::Emulator> buildEmulator(const Subject &subject, size_t stage) {
  const Subject::SubjectStage &it = subject.stages[stage];
  return it.emulator ? it.emulator : makeStage(subject.ir, it.function);
}

Trials::Trials(const Subject &subject, bool checks) : subject(subject) {
  Child child([&](int to) {
    std::string failure, blocks;
    try {
      subject.prepare ? subject.prepare() : void();
      for (const auto &[i, stage] : llvm::enumerate(subject.stages)) {
        emulator::Report report = buildEmulator(subject, i)->launch(stage.launch, adverse());
        failure = report.passed() ? "" : report.violations.front().str();
        if (!failure.empty()) {
          break;
        }
        blocks += coverageLine(stage.function, report.counters);
      }
      failure = failure.empty() && checks ? subject.check() : failure;
    } catch (const std::exception &error) {
      failure = error.what();
    }
    writeAll(to, failure.empty() ? std::to_string(processorSeconds()) + "\n" + blocks + "\n" +
                                       readOutputs(subject)
                                 : failure);
    ::_exit(failure.empty() ? 0 : 1);
  });
  int status = 0;
  std::string said = child.wait(status);
  if (status != 0) {
    throw std::runtime_error(subject.name +
                             ": expected a kernel that breaks no rule, found: " + said);
  }
  readBaseline(said);
}

void Trials::readBaseline(const std::string &said) {
  auto [head, bytes] = llvm::StringRef(said).split("\n\n");
  auto [time, blocks] = head.split('\n');
  seconds = std::stod(time.str());
  expected = bytes.str();
  for (llvm::StringRef line : llvm::split(blocks, '\n')) {
    auto [function, counts] = line.split(' ');
    for (llvm::StringRef count : llvm::split(counts, ' ')) {
      uint64_t number = 0;
      if (!count.getAsInteger(10, number)) {
        entered[function.str()].push_back(number);
      }
    }
  }
}

bool sluice::mutation::isProvablyNoFault(const Subject &subject, const Mutation &mutation) {
  llvm::LLVMContext context;
  auto module = parse(subject.ir, context);
  return llvm::all_of(subject.stages, [&](const Subject::SubjectStage &stage) {
    Space space = stage.space;
    space.blocks = int64_t(stage.launch.grid.count());
    space.threads = int64_t(stage.launch.block.count());
    return stage.function != mutation.function || isProvablyNoFault(*module, mutation, space);
  });
}

std::vector<size_t> sluice::mutation::provablyNoFaults(const Subject &subject,
                                                       llvm::ArrayRef<Mutation> mutations,
                                                       unsigned workers) {
  std::vector<Child> children;
  for (unsigned worker = 0; worker < workers; ++worker) {
    children.emplace_back([&, worker](int to) {
      std::string said;
      for (size_t i = worker; i < mutations.size(); i += workers) {
        said += isProvablyNoFault(subject, mutations[i]) ? std::to_string(i) + "\n" : "";
      }
      writeAll(to, said + "done");
    });
  }
  std::vector<size_t> result;
  for (const Child &child : children) {
    int status = 0;
    std::string said = child.wait(status);
    if (!llvm::StringRef(said).ends_with("done")) {
      throw std::runtime_error("a proof died of " + subject.name);
    }
    for (llvm::StringRef line : llvm::split(said, '\n')) {
      size_t number = 0;
      line.getAsInteger(10, number) ? void() : result.push_back(number);
    }
  }
  return result;
}

std::vector<Mutation> sluice::mutation::mutationsIn(const Subject &subject) {
  llvm::LLVMContext context;
  return listMutations(*parse(subject.ir, context));
}

Faults::Faults(const Subject &subject, std::vector<Mutation> mutations)
    : all(std::move(mutations)), numbers(all.size()) {
  std::map<std::string, std::vector<Mutation>> shares;
  for (size_t i = 0; i < all.size(); ++i) {
    shares[all[i].function].push_back(all[i]);
    numbers[i] = shares[all[i].function].size();
  }
  for (const auto &[function, share] : shares) {
    stages[function] = makeStage(subject.ir, function, share);
  }
}

/// A stage with faults, and the unchanged later ones.
Outcome Trials::runFrom(size_t stage, uint64_t fault, const Stages &injected,
                        const Stages &intact) const {
  for (size_t at = stage; at < intact.size(); ++at) {
    std::string violation = at == stage ? launchStage(*injected[at], subject.stages[at], fault)
                                        : launchStage(*intact[at], subject.stages[at]);
    if (!violation.empty()) {
      return {Fate::Judged, violation};
    }
  }
  if (readOutputs(subject) == expected) {
    return {Fate::Survived, ""};
  }
  limitTime(0); // the kernel has ended; the oracle has no time limit
  std::string wrong = subject.check();
  return {wrong.empty() ? Fate::Changed : Fate::Wrong, wrong};
}

/// Every `workers`th fault, stage by stage. A message is a header of two numbers and a text; short
/// messages are written to a pipe atomically.
void Trials::work(const Faults &faults, llvm::ArrayRef<size_t> which, unsigned worker,
                  unsigned workers, int pipe) const {
  constexpr size_t longest = 3000;
  auto report = [&](size_t i, const Outcome &outcome) {
    writeAll(pipe, std::to_string(i) + " " + std::to_string(static_cast<int>(outcome.fate)) + " " +
                       outcome.text.substr(0, longest) + '\0');
  };
  subject.prepare ? subject.prepare() : void();
  Stages intact, injected;
  for (size_t i = 0; i < subject.stages.size(); ++i) {
    auto found = faults.stages.find(subject.stages[i].function);
    intact.push_back(buildEmulator(subject, i));
    injected.push_back(found == faults.stages.end() ? nullptr : found->second);
  }
  for (size_t at = 0; at < subject.stages.size(); ++at) {
    if (worker == 0 && injected[at]) {
      Outcome none = inChild(limit(), [&] { return runFrom(at, 0, injected, intact); });
      none.fate != Fate::Survived ? report(faults.all.size(), none) : void();
    }
    for (size_t i = worker; i < which.size(); i += workers) {
      if (faults.all[which[i]].function == subject.stages[at].function) {
        uint64_t number = faults.numbers[which[i]];
        report(which[i], inChild(limit(), [&] { return runFrom(at, number, injected, intact); }));
      }
    }
    launchStage(*intact[at], subject.stages[at]);
  }
}

void Trials::run(const Faults &faults, llvm::ArrayRef<size_t> which, unsigned workers,
                 const std::function<void(size_t, Outcome)> &done) const {
  int pipes[2];
  if (::pipe(pipes) != 0) {
    throw std::runtime_error("no pipe for trials");
  }
  for (unsigned worker = 0; worker < workers; ++worker) {
    if (::fork() == 0) {
      work(faults, which, worker, workers, pipes[1]);
      ::_exit(0);
    }
  }
  ::close(pipes[1]);
  std::string said, differs;
  char part[65536];
  for (ssize_t count = 0; (count = ::read(pipes[0], part, sizeof part)) > 0;) {
    said.append(part, size_t(count));
    for (size_t end = 0; (end = said.find('\0')) != std::string::npos; said.erase(0, end + 1)) {
      auto [index, rest] = llvm::StringRef(said).take_front(end).split(' ');
      auto [fate, text] = rest.split(' ');
      size_t i = std::stoul(index.str());
      if (i == faults.all.size()) {
        differs = "differs: " + text.str();
      } else {
        done(i, {static_cast<Fate>(std::stoi(fate.str())), text.str()});
      }
    }
  }
  ::close(pipes[0]);
  while (::wait(nullptr) > 0) {
  }
  if (!differs.empty()) {
    throw std::runtime_error(subject.name + ": with every fault injected and none chosen it " +
                             differs);
  }
}

std::vector<Outcome> Trials::run(const Faults &faults) const {
  std::vector<Outcome> outcomes(faults.all.size());
  std::vector<size_t> which(faults.all.size());
  std::iota(which.begin(), which.end(), 0);
  run(faults, which, 1, [&](size_t i, Outcome outcome) { outcomes[i] = std::move(outcome); });
  return outcomes;
}
