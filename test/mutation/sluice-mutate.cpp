// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Injects faults into an artifact's GPU kernels, one at a time, and runs the emulator and the
// float64 oracle on each.
#include "Step.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <fstream>
#include <iostream>
#include <set>
#include <sys/resource.h>

using namespace sluice;
using namespace sluice::mutation;

namespace {

llvm::cl::opt<std::string> artifactPath(llvm::cl::Positional, llvm::cl::Required,
                                        llvm::cl::desc("<artifact>"));
llvm::cl::opt<std::string> target("target", llvm::cl::init("sm_80"),
                                  llvm::cl::desc("GPU target whose kernels are tried"));
llvm::cl::opt<std::string> only("kernels", llvm::cl::init("."),
                                llvm::cl::desc("Regular expression of kernels to try"));
llvm::cl::opt<unsigned>
    every("every", llvm::cl::init(1),
          llvm::cl::desc("Try one bound, condition, clamp or cut in so many of a kernel"));
llvm::cl::opt<unsigned> workers("workers", llvm::cl::init(2), llvm::cl::desc("Processes"));
llvm::cl::opt<std::string> log("log", llvm::cl::desc("Append a line of JSON a trial to this file"));
llvm::cl::opt<bool> resume("resume", llvm::cl::desc("Leave out the trials that --log's file has"));
llvm::cl::opt<bool> verbose("all", llvm::cl::desc("Print every fault, not only what survives"));
llvm::cl::opt<bool> checkProofs("check-proofs",
                                llvm::cl::desc("Ask of caught faults too whether they are none"));
llvm::cl::opt<unsigned>
    everySync("every-sync", llvm::cl::init(1),
              llvm::cl::desc("Likewise of barriers, commits, waits and stages"));
llvm::cl::opt<double> least("least", llvm::cl::init(0),
                            llvm::cl::desc("Fail where fewer are caught, in percent"));
llvm::cl::opt<std::string>
    unreached("unreached",
              llvm::cl::desc("Fail unless the basic blocks that never run are those of this file: "
                             "lines of a kernel's name, their number and the reason"));

/// The outcome of a fault in the last step that tried it.
struct Tried {
  Mutation mutation;
  Outcome outcome;
  bool isCaught() const { return outcome.fate == Fate::Judged || outcome.fate == Fate::Wrong; }
  bool isDone() const { return isCaught() || outcome.fate == Fate::NoFault; }
};

/// The outcomes of the faults of one kind, or of all.
struct Counts {
  std::map<Fate, int> fates;
  int of(Fate fate) const {
    auto found = fates.find(fate);
    return found == fates.end() ? 0 : found->second;
  }
  double share() const { ///< caught, in percent
    int caught = of(Fate::Judged) + of(Fate::Wrong);
    int all = caught + of(Fate::Changed) + of(Fate::Survived) + of(Fate::Invalid);
    return all > 0 ? 100.0 * caught / all : 100;
  }
  void print(const std::string &what) const {
    int judged = of(Fate::Judged), wrong = of(Fate::Wrong), changed = of(Fate::Changed),
        survived = of(Fate::Survived), invalid = of(Fate::Invalid),
        all = judged + wrong + changed + survived + invalid;
    std::cout << what << ": " << all << " faults, " << judged + wrong << " caught (" << judged
              << " by a rule, " << wrong << " by the numbers), " << changed
              << " changed bits within bounds, " << survived << " changed nothing, " << invalid
              << " gave no verdict";
    std::cout << ", " << share() << "% caught; " << of(Fate::NoFault) << " more are provably none";
    std::cout << std::endl;
  }
};

/// The faults to try, by kernel; each step tries the faults that no earlier one detected.
class MutationRun {
public:
  MutationRun();
  void tryKernel(const Subject &subject, const std::string &occasion);
  bool report() const;         ///< whether enough faults are detected
  bool reportCoverage() const; ///< whether all required blocks ran

private:
  std::string getMutationKey(const std::string &occasion, const Mutation &mutation) const;
  void choose(const std::string &kernel, const std::vector<Mutation> &all);
  void addCoverage(const std::string &kernel,
                   const std::map<std::string, std::vector<uint64_t>> &coverage);
  bool isDone(const std::string &kernel);
  void tryFaults(const Subject &subject, const std::string &occasion,
                 const std::vector<size_t> &open);
  const Faults &compileFaults(const Subject &subject);
  void proveRest(const Subject &subject, const std::string &occasion);
  void write(const std::string &kernel, const std::string &occasion, const Mutation &mutation,
             const Outcome &outcome);

  std::string code; ///< hash of the kernel's IR
  std::map<std::string, std::vector<Tried>> faults;
  std::map<std::string, Outcome> known; ///< trials of an earlier run
  std::map<std::string, std::vector<uint64_t>> entered;
  std::unique_ptr<Faults> injected;
  std::string injectedKernel;
  std::set<std::string> proved; ///< faults with an attempted proof
  std::ofstream lines;
  int trials = 0;
};

} // namespace

/// Processor times of this process and of the processes it waited for.
static int64_t processorSeconds() {
  int64_t seconds = 0;
  for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage;
    ::getrusage(who, &usage);
    seconds += usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;
  }
  return seconds;
}

/// `code` names the function that the instructions' numbers refer to.
std::string MutationRun::getMutationKey(const std::string &occasion,
                                        const Mutation &mutation) const {
  return occasion + "/" + code + "/" + mutation.function + "/" + name(mutation.op).str() + "/" +
         std::to_string(mutation.instruction) + "/" + std::to_string(mutation.variant);
}

MutationRun::MutationRun() {
  if (!log.empty() && resume) {
    auto file = llvm::MemoryBuffer::getFile(log, /*IsText=*/true);
    for (llvm::StringRef line : llvm::split(file ? (*file)->getBuffer() : "", '\n')) {
      auto parsed = llvm::json::parse(line);
      llvm::json::Object *object = parsed ? parsed->getAsObject() : nullptr;
      if (!object) {
        llvm::consumeError(parsed.takeError());
        continue; // the last line of an interrupted run
      }
      known[object->getString("key")->str()] = {
          static_cast<Fate>(object->getInteger("fate").value_or(0)),
          object->getString("found")->str()};
    }
  }
  if (!log.empty()) {
    lines.open(log, resume ? std::ios::app : std::ios::trunc);
  }
}

/// One in so many of each kind, with a different start in each kernel.
void MutationRun::choose(const std::string &kernel, const std::vector<Mutation> &all) {
  std::map<Operator, unsigned> seen;
  auto phase = static_cast<unsigned>(faults.size());
  std::vector<Tried> &chosen = faults[kernel];
  for (const Mutation &mutation : all) {
    unsigned number = seen[mutation.op]++;
    bool synchronizes =
        mutation.op == Operator::RemoveBarrier || mutation.op == Operator::RemoveCommit ||
        mutation.op == Operator::RemoveFence || mutation.op == Operator::ShiftArrival ||
        mutation.op == Operator::WaitForLess || mutation.op == Operator::ShiftStage;
    if ((number + phase) % (synchronizes ? everySync : every) == 0) {
      chosen.push_back({mutation, {}});
    }
  }
}

/// Counts of the functions of a kernel, one after the other.
void MutationRun::addCoverage(const std::string &kernel,
                              const std::map<std::string, std::vector<uint64_t>> &coverage) {
  std::vector<uint64_t> all;
  for (const auto &[function, counts] : coverage) {
    llvm::append_range(all, counts);
  }
  std::vector<uint64_t> &sum = entered[kernel];
  sum.resize(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    sum[i] += all[i];
  }
}

/// No fault is left to try, no basic block to reach.
bool MutationRun::isDone(const std::string &kernel) {
  return llvm::all_of(faults[kernel], [](const Tried &tried) { return tried.isDone(); }) &&
         !llvm::is_contained(entered[kernel], 0);
}

void MutationRun::tryKernel(const Subject &subject, const std::string &occasion) {
  if (!llvm::Regex(only).match(subject.name)) {
    return;
  }
  code = llvm::utohexstr(llvm::xxh3_64bits(subject.ir));
  auto chosen = faults.find(subject.name);
  if (chosen != faults.end() && isDone(subject.name)) {
    return;
  }
  if (chosen == faults.end()) {
    choose(subject.name, mutationsIn(subject));
  }
  std::vector<size_t> open;
  for (auto [i, tried] : llvm::enumerate(faults[subject.name])) {
    auto found = known.find(getMutationKey(occasion, tried.mutation));
    if (!tried.isDone() && found != known.end()) {
      tried.outcome = found->second;
    } else if (!tried.isDone()) {
      open.push_back(i);
    }
  }
  if (!open.empty() || !unreached.empty()) {
    tryFaults(subject, occasion, open);
  }
  proveRest(subject, occasion);
  int caught = 0, none = 0;
  for (const Tried &tried : faults[subject.name]) {
    caught += tried.isCaught();
    none += tried.outcome.fate == Fate::NoFault;
  }
  std::cerr << occasion << ", " << subject.name << ": of " << faults[subject.name].size()
            << " caught " << caught << ", none " << none << "; " << trials << " trials in "
            << processorSeconds() << " s" << std::endl;
}

/// Numbers detect a fault only if they are right without it: writes results once that is known.
void MutationRun::tryFaults(const Subject &subject, const std::string &occasion,
                            const std::vector<size_t> &open) {
  Trials kernel(subject, /*checks=*/false);
  addCoverage(subject.name, kernel.coverage());
  bool byNumbers = false;
  if (!open.empty()) {
    kernel.run(compileFaults(subject), open, workers, [&](size_t i, Outcome outcome) {
      Tried &tried = faults[subject.name][i];
      byNumbers |= outcome.fate == Fate::Wrong;
      tried.outcome = std::move(outcome);
      ++trials;
    });
  }
  if (byNumbers || open.empty()) {
    Trials confirmed(subject);
  }
  for (size_t i : open) {
    const Tried &tried = faults[subject.name][i];
    write(subject.name, occasion, tried.mutation, tried.outcome);
  }
}

/// All selected faults of the visited kernel.
const Faults &MutationRun::compileFaults(const Subject &subject) {
  if (injectedKernel != subject.name) {
    std::vector<Mutation> mutations;
    for (const Tried &tried : faults[subject.name]) {
      mutations.push_back(tried.mutation);
    }
    injected = std::make_unique<Faults>(subject, std::move(mutations));
    injectedKernel = subject.name;
  }
  return *injected;
}

/// The survivors of the first step may be equivalent; a detected fault must not be proved
/// equivalent.
void MutationRun::proveRest(const Subject &subject, const std::string &occasion) {
  std::vector<Mutation> mutations;
  std::vector<Tried *> asked;
  for (Tried &tried : faults[subject.name]) {
    bool isAsked = tried.outcome.fate == Fate::Survived || (checkProofs && tried.isCaught());
    if (isAsked && proved.insert(getMutationKey("", tried.mutation)).second) {
      mutations.push_back(tried.mutation);
      asked.push_back(&tried);
    }
  }
  for (size_t i :
       mutations.empty() ? std::vector<size_t>() : provablyNoFaults(subject, mutations, workers)) {
    Tried &tried = *asked[i];
    if (tried.isCaught()) {
      throw std::runtime_error("a fault that is caught was proved to be none: " +
                               getMutationKey(occasion, tried.mutation) + " at " +
                               tried.mutation.text);
    }
    tried.outcome = {Fate::NoFault, ""};
    write(subject.name, occasion, tried.mutation, tried.outcome);
  }
}

void MutationRun::write(const std::string &kernel, const std::string &occasion,
                        const Mutation &mutation, const Outcome &outcome) {
  if (!lines.is_open()) {
    return;
  }
  std::string line;
  llvm::raw_string_ostream(line) << llvm::json::Value(
      llvm::json::Object{{"key", getMutationKey(occasion, mutation)},
                         {"kernel", kernel},
                         {"step", occasion},
                         {"operator", name(mutation.op)},
                         {"at", mutation.text},
                         {"fate", static_cast<int>(outcome.fate)},
                         {"said", name(outcome.fate)},
                         {"found", llvm::json::fixUTF8(outcome.text)}});
  lines << line << std::endl;
}

bool MutationRun::report() const {
  Counts all;
  std::map<Operator, Counts> kinds;
  for (const auto &[kernel, tried] : faults) {
    Counts counts;
    for (const Tried &fault : tried) {
      const auto &[mutation, outcome] = fault;
      for (Counts *sum : {&counts, &all, &kinds[mutation.op]}) {
        ++sum->fates[outcome.fate];
      }
      if (verbose || !fault.isDone()) {
        std::cout << "  " << name(outcome.fate).str() << ": " << name(mutation.op).str() << " "
                  << mutation.variant << " in " << mutation.function << " at " << mutation.text
                  << (outcome.text.empty() ? "" : ": " + outcome.text) << "\n";
      }
    }
    counts.print(kernel);
  }
  for (const auto &[op, counts] : kinds) {
    counts.print(name(op).str());
  }
  all.print("all");
  return all.share() >= least;
}

/// Kernels with blocks that did not run, and their number: "name 5", names without their trailing
/// number.
bool MutationRun::reportCoverage() const {
  size_t blocks = 0, missed = 0;
  std::set<std::string> found, expected;
  for (const auto &[kernel, counts] : entered) {
    auto never = size_t(llvm::count(counts, 0));
    blocks += counts.size();
    missed += never;
    if (never > 0) {
      found.insert(llvm::StringRef(kernel).rsplit('_').first.str() + " " + std::to_string(never));
    }
  }
  std::cout << blocks - missed << " of " << blocks << " basic blocks ran\n";
  if (unreached.empty()) {
    return true;
  }
  auto file = llvm::MemoryBuffer::getFile(unreached, /*IsText=*/true);
  for (llvm::StringRef line : llvm::split(file ? (*file)->getBuffer() : "", '\n')) {
    auto [kernel, rest] = line.split(' ');
    if (!line.starts_with("#") && !rest.empty()) {
      expected.insert((kernel + " " + rest.split(' ').first).str());
    }
  }
  for (const std::string &kernel : found) {
    std::cout << "  never ran: " << kernel << (expected.contains(kernel) ? ", as known" : "")
              << "\n";
  }
  return found == expected;
}

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(
      argc, argv, "Injects faults into an artifact's GPU kernels and counts the detected ones.\n");
  try {
    auto artifact = runtime::Artifact::load(artifactPath.getValue());
    MutationRun run;
    MutationStep(*artifact, target).run([&](const Occasion &occasion, const Subject &subject) {
      run.tryKernel(subject, occasion.name);
    });
    bool enough = run.report();
    return run.reportCoverage() && enough ? 0 : 1;
  } catch (const std::exception &error) {
    std::cerr << "sluice-mutate: error: " << error.what() << "\n";
    return 2;
  }
}
