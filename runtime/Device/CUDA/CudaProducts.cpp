// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CudaProducts.h"

#include "sluice/Support/Error.h"

#include <algorithm>

namespace sluice::runtime::cuda {

static const LibraryChoice *findLibraryChoice(const PlanKernel &kernel, const std::string &target) {
  auto found = kernel.deviceVariants.find(target);
  return found != kernel.deviceVariants.end() && found->second.library ? &*found->second.library
                                                                       : nullptr;
}

Products::Products(const Driver &driver, const Artifact &artifact, const std::string &target)
    : driver(driver), plan(artifact.plan()) {
  const std::vector<PlanKernel> &kernels = plan.kernels;
  if (std::none_of(kernels.begin(), kernels.end(),
                   [&](const PlanKernel &kernel) { return findLibraryChoice(kernel, target); })) {
    return;
  }
  std::string missing;
  library = cublas::Library::open(missing);
  if (!library) {
    said =
        artifact.path() +
        ": expected cuBLASLt (libcublasLt.so.13 or .12), which --tuning chose for some products, "
        "found none that loads (" +
        missing +
        "); the generated kernels run in its place. Install it, name it in SLUICE_CUBLASLT, or "
        "compile the spec again without --tuning";
    return;
  }
  cublas::Handle made = nullptr;
  library->check(library->create(&made), "start");
  handle = {made, library->destroy};
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (const LibraryChoice *wanted = findLibraryChoice(kernels[i], target)) {
      add(static_cast<int64_t>(i), *kernels[i].product, *wanted);
    }
  }
  if (otherVersion) {
    said = artifact.path() +
           ": expected the version of cuBLASLt that the products were tuned with, found " +
           std::to_string(library->getVersion()) +
           "; it chooses the algorithms itself. Tune again: sluice bench --device cuda --tune FILE";
  }
  makeWorkspaces(artifact);
}

/// Adds a product with the measured algorithm if this version of the library measured it, otherwise
/// with the library's first choice.
void Products::add(int64_t kernel, const Product &product, const LibraryChoice &wanted) {
  cublas::Matmul matmul(*library, handle.get(), product);
  std::optional<cublas::Matmul::Choice> choice;
  if (wanted.version == static_cast<int64_t>(library->getVersion())) {
    choice = matmul.confirm(wanted.algorithm);
  } else {
    otherVersion = true;
  }
  if (!choice) {
    std::vector<cublas::Matmul::Choice> own = matmul.candidates(1);
    if (own.empty()) {
      library->check(cublas::notSupported, "find an algorithm for " + matmul.describe());
    }
    choice = own.front();
  }
  neededWorkspace = std::max(neededWorkspace, choice->workspaceBytes);
  calls.emplace(kernel, Call{std::move(matmul), *choice});
}

void Products::makeWorkspaces(const Artifact &artifact) {
  for (Owned<Address> &workspace : workspaces) {
    if (neededWorkspace == 0) {
      return;
    }
    Address memory = 0;
    Result result = driver.memoryAllocate(&memory, neededWorkspace);
    if (result == outOfMemory) {
      throw UserError(artifact.path() + ": expected " + std::to_string(2 * neededWorkspace) +
                      " bytes of GPU memory for cuBLASLt's two workspaces, found less free; free "
                      "memory of the GPU, or compile the spec again without --tuning");
    }
    driver.check(result, "allocate cuBLASLt's workspaces");
    workspace = {memory, driver.memoryFree};
  }
}

void Products::warmUp(Address arena, int64_t arenaBytes, Stream stream) const {
  for (const auto &[entry, launches] : plan.entries) {
    if (plan.getArenaBytes(entry) > arenaBytes) {
      continue; // a smaller bucket has the same calls
    }
    for (const Launch &launch : launches) {
      if (covers(launch)) {
        run(launch, arena, stream, false);
      }
    }
  }
}

void Products::run(const Launch &launch, Address arena, Stream stream, bool side) const {
  const Call &call = calls.at(launch.kernel);
  call.matmul.run(call.choice, arena, launch.arguments.data(), workspaces[side ? 1 : 0].get(),
                  stream);
}

} // namespace sluice::runtime::cuda
