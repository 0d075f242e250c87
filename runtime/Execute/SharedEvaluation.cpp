// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Execute/SharedEvaluation.h"

#include "sluice/Support/Hash.h"

namespace sluice::runtime {

std::vector<SharedFact> getProgramFacts(Executor &executor, const std::string &version) {
  bool isOnGpu = !executor.target().starts_with("cpu");
  return {{"version of sluice", version, "install one version on all machines"},
          {"instruction set", executor.target(),
           "give --cpu-target or --gpu-target, and one that all machines have: cpu-avx2 or sm_80 "
           "at the least"},
          {"GPU", isOnGpu ? executor.describeDevice() : "none",
           "start the processes on machines with one kind of GPU"},
          {"artifact (SHA-256)", sha256Hex(executor.artifact().elf()),
           "copy one artifact to all machines"}};
}

std::string hashWeights(Executor &executor) {
  std::string hashes;
  for (const Tensor &tensor : executor.plan().tensors) {
    std::span<const float> values = executor.tensor(tensor, Access::Read);
    hashes += sha256Hex({reinterpret_cast<const uint8_t *>(values.data()), values.size_bytes()});
  }
  return sha256Hex(hashes);
}

void compareEvaluations(ProcessGroup &group, Executor &executor, const std::string &version,
                        const std::string &dataHash, const std::string &flags) {
  std::vector<SharedFact> facts = getProgramFacts(executor, version);
  facts.push_back({"weights (SHA-256)", hashWeights(executor), "copy one file to all machines"});
  facts.push_back({"data (SHA-256)", dataHash, "copy the same files to all machines"});
  facts.push_back({"flags", flags, "give all processes the same flags"});
  requireSharedFacts(group, facts);
}

} // namespace sluice::runtime
