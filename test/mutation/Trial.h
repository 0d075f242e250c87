// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The outcome of a kernel with a planted fault: each runs in a process of its own.
#pragma once

#include "Equivalence.h"
#include "Mutations.h"
#include "sluice/Emulator/Emulator.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice::mutation {

/// A kernel, its launches and the memory that they work on. Memory is written by no trial but in
/// its own process.
struct Subject {
  std::string name, ir; ///< bitcode or text, as it ships
  struct SubjectStage {
    std::string function;
    emulator::EmulatedLaunch launch;
    Space space = {}; ///< of which `blocks` and `threads` follow from the launch
    std::shared_ptr<emulator::Emulator> emulator = nullptr; ///< the function's; made where absent
  };
  std::vector<SubjectStage> stages;
  std::vector<std::pair<const void *, uint64_t>> outputs; ///< with their bytes
  /// Before the launches, in the process of the trials; may be empty.
  std::function<void()> prepare;
  /// After the launches: the mistake in the outputs, or nothing.
  std::function<std::string()> judge;
};

enum class Fate {
  Judged,   ///< the emulator reports a violation, or never comes to an end
  Wrong,    ///< the subject's judge refuses the results
  Changed,  ///< results have other bits, but the judge takes them
  Survived, ///< nothing differs
  NoFault,  ///< nothing differs, and provably so
  Invalid   ///< the fault is no program, or the emulator dies of it: no verdict, not caught
};
llvm::StringRef name(Fate fate);

struct Outcome {
  Fate fate = Fate::Survived;
  std::string text; ///< the first violation, or by how much results differ
};

/// A function of a subject's IR alone, with faults to choose from (see plantAll) or as it is.
/// Throws std::runtime_error where it is no program.
std::unique_ptr<emulator::Emulator> makeStage(const std::string &ir, const std::string &function,
                                              llvm::ArrayRef<Mutation> mutations = {});

/// The faults of a kernel: each stage that has any is compiled once, with all of its own.
class Faults {
public:
  Faults(const Subject &subject, std::vector<Mutation> mutations);

  std::vector<Mutation> all;
  std::map<std::string, std::shared_ptr<emulator::Emulator>> stages;
  std::vector<uint64_t> numbers; ///< of each fault in its stage, from 1
};

std::vector<Mutation> mutationsIn(const Subject &subject);

/// As of a module, for the stage that the fault is in.
bool isProvablyNoFault(const Subject &subject, const Mutation &mutation);

/// The mutations of `mutations` that are, by number, on as many processors as `workers`.
std::vector<size_t> provablyNoFaults(const Subject &subject, llvm::ArrayRef<Mutation> mutations,
                                     unsigned workers);

/// Runs kernels with faults and compares with the kernel as it is.
class Trials {
  using Stages = std::vector<std::shared_ptr<emulator::Emulator>>;

public:
  /// Runs the subject as it is; it must break no rule, and with `judges` its judge must take what
  /// comes out. Throws std::runtime_error otherwise.
  explicit Trials(const Subject &subject, bool judges = true);

  /// Basic blocks of each function, in order, and how often each was entered.
  const std::map<std::string, std::vector<uint64_t>> &coverage() const { return entered; }

  /// Tries the faults of `faults` that `which` names, on as many processors as `workers`;
  /// `done(i, outcome)` comes in any order, `i` one of `which`. A kernel that takes ten times its
  /// processor time and half a second more is taken to hang. Throws std::runtime_error where the
  /// program that has all faults differs from the kernel though none is chosen.
  void run(const Faults &faults, llvm::ArrayRef<size_t> which, unsigned workers,
           const std::function<void(size_t, Outcome)> &done) const;
  /// All, in their order.
  std::vector<Outcome> run(const Faults &faults) const;

private:
  void work(const Faults &faults, llvm::ArrayRef<size_t> which, unsigned worker, unsigned workers,
            int pipe) const;
  Outcome runFrom(size_t stage, uint64_t fault, const Stages &planted, const Stages &intact) const;
  void readBaseline(const std::string &said);
  double limit() const { return 10 * seconds + 0.5; } ///< of a trial's processor time

  const Subject &subject;
  std::string expected; ///< bytes of the outputs, one after the other
  std::map<std::string, std::vector<uint64_t>> entered;
  double seconds = 0; ///< of processor time, to compile and launch every stage
};

} // namespace sluice::mutation
