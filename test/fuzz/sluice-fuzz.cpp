// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs every checker on random specs: sluice-fuzz --seed S --count N. Exit status 1 if any two
// disagree, or if compiler or runtime fail.
#include "Perturbation.h"
#include "SegmentTrial.h"
#include "SpecGenerator.h"
#include "Trial.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <map>

using namespace sluice;
using namespace sluice::fuzz;

namespace {

struct Flags {
  uint64_t seed = 1, count = 100;
  uint64_t trainEvery = 100, certifyEvery = 10;
  int segments = 0;
  bool replaces = false, witnesses = false;
  std::string programs;
};

class FuzzRun {
public:
  explicit FuzzRun(const Flags &flags) : flags(flags) {}

  void tryOne(uint64_t seed);
  void print() const;
  bool failed() const { return failures > 0; }

private:
  void check(uint64_t seed, const std::string &text);
  void checkSegments(uint64_t seed);
  void checkWitness(uint64_t seed);
  void certify(uint64_t seed, const std::string &text, bool isProved);
  void fail(uint64_t seed, const std::string &text, const std::string &what);

  const Flags &flags;
  std::map<std::string, uint64_t> counts;
  uint64_t failures = 0;
};

void FuzzRun::fail(uint64_t seed, const std::string &text, const std::string &what) {
  ++failures;
  std::cout << "seed " << seed << ": " << what << "\n" << text << std::endl;
}

void FuzzRun::check(uint64_t seed, const std::string &text) {
  CheckerResults results = runCheckersWithReplay(text);
  const CausalVerdict &verdict = results.verdict;
  const char *kinds[] = {"proved", "leak", "not proved", "misaligned"};
  ++counts[kinds[static_cast<int>(verdict.kind)]];
  if (verdict.witness) {
    const char *replays[] = {"replay not run", "replay changed", "replay unchanged"};
    ++counts[replays[static_cast<int>(verdict.witness->replay)]];
    if (verdict.witness->replay != Replay::Changed) {
      std::cout << "seed " << seed << ": " << replays[static_cast<int>(verdict.witness->replay)]
                << ": " << verdict.message << std::endl;
    }
  }
  if (!results.disagreements.empty()) {
    std::string smaller = reduce(text, [](const std::string &each) {
      return !runCheckersWithReplay(each).disagreements.empty();
    });
    fail(seed, smaller, results.disagreements.front());
  }
  certify(seed, text, verdict.isProved());
}

void FuzzRun::certify(uint64_t seed, const std::string &text, bool isProved) {
  if (flags.certifyEvery == 0 || seed % flags.certifyEvery != 0) {
    return;
  }
  Certified certified = tryCertificate(text, isProved, flags.programs);
  const char *names[] = {"certificate not tried", "certificate agreed", "certificate disagreed"};
  ++counts[names[static_cast<int>(certified)]];
  if (certified == Certified::Disagreed) {
    fail(seed, text, "the certificate checker disagrees");
  }
}

/// Texts of 7 tokens with two levels have as many boundaries as texts of 10 tokens with one.
void FuzzRun::checkSegments(uint64_t seed) {
  std::string text = generateSegmentedSpec(seed, flags.segments);
  BoundaryResult results = enumerateBoundaries(text, flags.segments == 1 ? 10 : 7);
  bool isProved = results.verdict.isProved();
  ++counts[isProved ? "proved" : results.leaks ? "leak" : "refused, no leak found"];
  if (!isProved && !results.leaks) {
    std::cout << "seed " << seed << ": refused, no leak found: " << results.verdict.message << "\n"
              << text << std::endl;
  }
  if (!results.problem.empty()) {
    fail(seed, text, results.problem);
  }
  certify(seed, text, isProved);
}

/// Counts true witnesses, and prints each one that no number shows.
void FuzzRun::checkWitness(uint64_t seed) {
  std::string text = generateSpec(seed, flags.replaces);
  WitnessResult result = verifyWitness(text);
  ++counts[result.exists ? "witness" : "no witness"];
  if (result.exists && !result.isPath) {
    fail(seed, text, "the witness is false: " + result.message);
  } else if (result.exists) {
    ++counts[result.changesRow ? "row changes" : "row does not change"];
  }
  if (result.isPath && !result.changesRow) {
    std::cout << "seed " << seed << ": row does not change: " << result.message << std::endl;
  }
}

void FuzzRun::tryOne(uint64_t seed) {
  if (flags.segments > 0) {
    ++counts["specs"];
    checkSegments(seed);
    return;
  }
  if (flags.witnesses) {
    ++counts["specs"];
    checkWitness(seed);
    return;
  }
  std::string text = generateSpec(seed, flags.replaces);
  ++counts["specs"];
  check(seed, text);
  if (flags.trainEvery > 0 && seed % flags.trainEvery == 0) {
    Trained trained = tryTraining(text, seed);
    const char *names[] = {"trained a step", "compiler refused", "training failed"};
    ++counts[names[trained.kind]];
    if (trained.kind == Trained::Failed) {
      fail(seed, text, trained.message);
    }
  }
}

void FuzzRun::print() const {
  for (const auto &[name, count] : counts) {
    std::cout << name << ": " << count << "\n";
  }
  std::cout << "failures: " << failures << std::endl;
}

} // namespace

int main(int argc, char **argv) {
  Flags flags;
  CLI::App program("Checks random specs by the causality check, its certificate, an enumeration of "
                   "paths and the replay; trains a share of them for a step");
  program.add_option("--seed", flags.seed, "First seed")->capture_default_str();
  program.add_option("--count", flags.count, "Specs, one a seed")->capture_default_str();
  program
      .add_option("--train-every", flags.trainEvery, "Compile and train one in so many; 0: none")
      ->capture_default_str();
  program
      .add_option("--certify-every", flags.certifyEvery,
                  "Check the certificate of one in so many; 0: none")
      ->capture_default_str();
  program.add_option("--programs", flags.programs, "Folder of sluice and sluice-certify");
  program
      .add_option("--segments", flags.segments,
                  "Specs with segments in place of others, of 1 or 2 levels, under all boundaries")
      ->check(CLI::Range(1, 2));
  program.add_flag("--replaces", flags.replaces, "Specs that replace rows of streams as well");
  program.add_flag("--witnesses", flags.witnesses,
                   "Witnesses alone, before their replay, by the enumeration and by numbers");
  bool print = false;
  program.add_flag("--print", print, "Print the specs and do nothing");
  CLI11_PARSE(program, argc, argv);
  FuzzRun run(flags);
  for (uint64_t seed = flags.seed; seed < flags.seed + flags.count; ++seed) {
    if (print) {
      std::cout << (flags.segments > 0 ? generateSegmentedSpec(seed, flags.segments)
                                       : generateSpec(seed, flags.replaces));
      continue;
    }
    try {
      run.tryOne(seed);
    } catch (const std::exception &error) {
      std::cerr << "seed " << seed << ": " << error.what() << std::endl;
      return 2;
    }
  }
  if (!print) {
    run.print();
  }
  return run.failed() ? 1 : 0;
}
