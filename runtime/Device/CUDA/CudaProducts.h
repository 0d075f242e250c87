// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs products of a plan with cuBLASLt instead of generated kernels.
#pragma once

#include "CublasLt.h"
#include "Device/HostLaunch.h"
#include "sluice/Runtime/Plan/Artifact.h"

#include <array>
#include <map>

namespace sluice::runtime::cuda {

/// Library calls for kernels whose variant selects the library; empty if the plan has none, or if
/// the library is not installed. Requires a current context.
class Products {
public:
  /// Throws UserError if the library fails or does not support one of the products.
  Products(const Driver &driver, const Artifact &artifact, const std::string &target);

  bool any() const { return !calls.empty(); }
  /// Checks for a launch that a call can replace. Products over segments are excluded, since only
  /// the device knows their number of rows.
  bool covers(const Launch &launch) const {
    return calls.contains(launch.kernel) && launch.axis.empty();
  }
  /// Returns a message to show to the user once; empty: none.
  const std::string &notice() const { return said; }
  /// Returns the bytes of each stream's workspace.
  size_t workspaceBytes() const { return neededWorkspace; }

  /// Runs every call once on an arena of `arenaBytes` with arbitrary contents: a library may load
  /// its kernels at the first call, which is not allowed during the capture of a graph.
  void warmUp(Address arena, int64_t arenaBytes, Stream stream) const;

  /// Runs a product on `stream`. `side`: the side stream, which has its own workspace, since both
  /// streams may run calls at the same time.
  void run(const Launch &launch, Address arena, Stream stream, bool side) const;

private:
  struct Call {
    cublas::Matmul matmul;
    cublas::Matmul::Choice choice;
  };
  void add(int64_t kernel, const Product &product, const LibraryChoice &wanted);
  void makeWorkspaces(const Artifact &artifact);

  const Driver &driver;
  const Plan &plan;
  const cublas::Library *library = nullptr;
  Owned<cublas::Handle> handle;
  std::map<int64_t, Call> calls; // by kernel
  std::array<Owned<Address>, 2> workspaces;
  size_t neededWorkspace = 0;
  bool otherVersion = false;
  std::string said;
};

} // namespace sluice::runtime::cuda
