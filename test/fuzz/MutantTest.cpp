// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mutants of causal models: each is rejected with a true witness, or causal by enumeration.
#include "Corpus.h"
#include "Mutants.h"
#include "Trial.h"

#include <gtest/gtest.h>
#include <map>

using namespace sluice;
using namespace sluice::fuzz;

namespace {

/// The mutation that every model must survive.
constexpr const char *harmless = "shift behind the shortening, rounded up";

/// Verdicts of the mutants of one mutation.
struct Tally {
  int leak = 0, misaligned = 0, notProved = 0, equivalent = 0, unchanged = 0;
  int undecided = 0; ///< of notProved: causal by enumeration
};

class Tallies {
public:
  void add(const std::string &source, const Mutant &mutant, const CheckerResults &results);
  /// Prints the table and expects every mutation to have killed at least one mutant.
  void finish(const std::string &title) const;

private:
  std::map<std::string, Tally> tallies;
};

void Tallies::add(const std::string &source, const Mutant &mutant, const CheckerResults &results) {
  const CausalVerdict &verdict = results.verdict;
  Tally &tally = tallies[mutant.mutation];
  bool aligning = results.misaligned;
  tally.leak += verdict.kind == VerdictKind::Leak;
  tally.misaligned += aligning;
  tally.notProved += verdict.kind == VerdictKind::NotProved && !aligning;
  tally.equivalent += verdict.isProved();
  bool undecided = verdict.kind == VerdictKind::NotProved && !aligning && !results.leaks;
  tally.undecided += undecided;
  for (const std::string &disagreement : results.disagreements) {
    if (undecided) { // counted
      break;
    }
    ADD_FAILURE() << source << ", " << mutant.mutation << ": " << disagreement << "\n"
                  << mutant.text;
  }
  if (verdict.kind == VerdictKind::NotProved && !aligning) {
    std::cout << "no witness: " << source << ", " << mutant.mutation << ": " << verdict.message
              << "\n";
  }
  if (verdict.witness && verdict.witness->replay != Replay::Changed) {
    ++tally.unchanged;
    std::cout << "not shown by numbers: " << source << ", " << mutant.mutation << ": "
              << verdict.message << "\n";
  }
}

void Tallies::finish(const std::string &title) const {
  std::printf("%s\n%-52s %6s %10s %10s %10s %10s\n", title.c_str(), "mutation", "leak",
              "misaligned", "not proved", "causal", "unchanged");
  int mutants = 0, killed = 0, undecided = 0;
  for (const auto &[name, tally] : tallies) {
    std::printf("%-52s %6d %10d %10d %10d %10d\n", name.c_str(), tally.leak, tally.misaligned,
                tally.notProved, tally.equivalent, tally.unchanged);
    int kills = tally.leak + tally.misaligned + tally.notProved;
    bool isHarmless = name.starts_with(harmless);
    EXPECT_EQ(kills > 0, !isHarmless) << name;
    killed += kills;
    undecided += tally.undecided;
    mutants += kills + tally.equivalent;
  }
  std::printf("%d mutants, %d killed, %d causal by enumeration\n", mutants, killed,
              mutants - killed);
  // Two undecided mutants are known: q <= p + 1 on every third row, or on every
  // fourth of a moving grid, which is q <= p, but only both constraints together imply it.
  EXPECT_LE(undecided, 2);
}

std::string stem(const std::string &path) { return path.substr(path.rfind('/') + 1); }

} // namespace

TEST(Mutants, SpecMutantsAreKilledOrCausal) {
  Tallies tallies;
  for (const std::string &path : corpus("test/causality/causal")) {
    if (!path.ends_with(".json")) {
      continue;
    }
    for (const Mutant &mutant : mutateSpec(readText(path))) {
      tallies.add(stem(path), mutant, runCheckersWithReplay(mutant.text));
    }
  }
  tallies.finish("mutants of specs");
}

TEST(Mutants, ModelIRMutantsAreKilledOrCausalSlow) {
  Tallies tallies;
  for (const std::string &path : corpus("test/causality/causal")) {
    runCheckersOnMutants(modelIR(path), path, /*replay=*/true,
                         [&](const Mutant &mutant, const CheckerResults &results) {
                           tallies.add(stem(path), mutant, results);
                         });
  }
  tallies.finish("mutants of model IR");
}
