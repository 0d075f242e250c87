// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Outcome of a kernel with an injected fault: each runs in a separate process.
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

/// A kernel, its launches and their memory. A trial writes memory only in its own process.
struct Subject {
  std::string name, ir; ///< bitcode or text, as it ships
  struct SubjectStage {
    std::string function;
    emulator::EmulatedLaunch launch;
    Space space = {}; ///< of which `blocks` and `threads` follow from the launch
    std::shared_ptr<emulator::Emulator> emulator = nullptr; ///< the function's; created if absent
  };
  std::vector<SubjectStage> stages;
  std::vector<std::pair<const void *, uint64_t>> outputs; ///< with their bytes
  /// Called before the launches, in the process of the trials; may be empty.
  std::function<void()> prepare;
  /// Called after the launches: returns the mistake in the outputs, or "".
  std::function<std::string()> check;
};

enum class Fate {
  Judged,   ///< the emulator reports a violation, or the kernel does not terminate
  Wrong,    ///< the subject's check rejects the results
  Changed,  ///< results have other bits, but the check accepts them
  Survived, ///< no difference
  NoFault,  ///< no difference, and provably so
  Invalid   ///< the fault is no program, or crashes the emulator: no verdict, not detected
};
llvm::StringRef name(Fate fate);

struct Outcome {
  Fate fate = Fate::Survived;
  std::string text; ///< the first violation, or the difference of the results
};

/// A function of a subject's IR alone, with selectable faults (see injectAll) or unchanged. Throws
/// std::runtime_error if it is not a program.
std::unique_ptr<emulator::Emulator> makeStage(const std::string &ir, const std::string &function,
                                              llvm::ArrayRef<Mutation> mutations = {});

/// The faults of a kernel: each stage with faults is compiled once, with all of them.
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

/// The valid mutations of `mutations`, by number, on `workers` processors.
std::vector<size_t> provablyNoFaults(const Subject &subject, llvm::ArrayRef<Mutation> mutations,
                                     unsigned workers);

/// Runs kernels with faults and compares them with the unchanged kernel.
class Trials {
  using Stages = std::vector<std::shared_ptr<emulator::Emulator>>;

public:
  /// Runs the unchanged subject; it must have no violation, and with `checks` its check must accept
  /// the results. Throws std::runtime_error otherwise.
  explicit Trials(const Subject &subject, bool checks = true);

  /// Basic blocks of each function, in order, and their execution counts.
  const std::map<std::string, std::vector<uint64_t>> &coverage() const { return entered; }

  /// Tries the faults of `faults` listed in `which`, on `workers` processors; `done(i, outcome)` is
  /// called in any order, with `i` from `which`. A kernel that takes ten times its processor time
  /// plus half a second counts as non-terminating. Throws std::runtime_error if the program with
  /// all faults differs from the kernel when none is selected.
  void run(const Faults &faults, llvm::ArrayRef<size_t> which, unsigned workers,
           const std::function<void(size_t, Outcome)> &done) const;
  /// All, in their order.
  std::vector<Outcome> run(const Faults &faults) const;

private:
  void work(const Faults &faults, llvm::ArrayRef<size_t> which, unsigned worker, unsigned workers,
            int pipe) const;
  Outcome runFrom(size_t stage, uint64_t fault, const Stages &injected, const Stages &intact) const;
  void readBaseline(const std::string &said);
  double limit() const { return 10 * seconds + 0.5; } ///< of a trial's processor time

  const Subject &subject;
  std::string expected; ///< bytes of the outputs, one after the other
  std::map<std::string, std::vector<uint64_t>> entered;
  double seconds = 0; ///< of processor time, to compile and launch every stage
};

} // namespace sluice::mutation
