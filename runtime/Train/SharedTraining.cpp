// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SharedTraining.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Text.h"

#include <array>
#include <sstream>

namespace sluice::runtime {
namespace {

/// A fact on which all processes must agree, and the remedy if they do not.
struct SharedFact {
  const char *name, *remedy;
};

constexpr std::array facts = {
    SharedFact{"version of sluice", "install one version on all machines"},
    SharedFact{"instruction set",
               "give --cpu-target cpu-avx2 or --gpu-target sm_80, which all machines have"},
    SharedFact{"GPU", "start the processes on machines with one kind of GPU"},
    SharedFact{"artifact (SHA-256)", "copy one artifact to all machines"},
    SharedFact{"spec (SHA-256)", "give all processes the same --set"},
    SharedFact{"data (SHA-256)", "copy the same files to all machines"},
    SharedFact{"seed", "give all processes the same --seed, a number"},
    SharedFact{"number of steps", "give all processes the same --steps"},
};

/// Returns the values of `facts`, a line each.
std::string describeProcess(const TrainingContext &context) {
  const Artifact &artifact = context.executor.artifact();
  bool isOnGpu = !context.executor.target().starts_with("cpu");
  std::ostringstream text;
  text << context.options.version << '\n'
       << context.executor.target() << '\n'
       << (isOnGpu ? context.executor.describeDevice() : "none") << '\n'
       << sha256Hex(artifact.elf()) << '\n'
       << context.state.specHash << '\n'
       << context.state.dataHash << '\n'
       << context.state.seed << '\n'
       << context.goal << '\n';
  return text.str();
}

std::vector<std::string> splitLines(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

} // namespace

void compareProcesses(const TrainingContext &context) {
  std::vector<std::string> texts =
      context.options.group->agree(Intent::Continue, describeProcess(context)).texts;
  std::vector<std::string> first = splitLines(texts.front());
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    std::vector<std::string> other = splitLines(texts[rank]);
    for (size_t i = 0; i < facts.size(); ++i) {
      if (other.at(i) != first.at(i)) {
        throw UserError("rank " + std::to_string(rank) + ": expected the " + facts[i].name +
                        " of rank 0, " + first[i] + ", found " + other[i] + "; " + facts[i].remedy);
      }
    }
  }
}

void compareWeights(TrainingContext &context) {
  std::string hashes;
  for (const Tensor &tensor : context.plan.tensors) {
    std::span<const float> values = context.executor.tensor(tensor, Access::Read);
    hashes += sha256Hex({reinterpret_cast<const uint8_t *>(values.data()), values.size_bytes()});
  }
  std::vector<std::string> texts =
      context.options.group->agree(Intent::Continue, sha256Hex(hashes)).texts;
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] != texts.front()) {
      throw JobError("rank " + std::to_string(rank) +
                     ": expected the weights of rank 0 after step " +
                     std::to_string(context.state.step) +
                     ", found others, so one of the two machines computes or stores wrong numbers; "
                     "nothing was saved. Test their memory, and continue from the last checkpoint");
    }
  }
}

} // namespace sluice::runtime
