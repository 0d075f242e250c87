// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The products of a plan that cuBLASLt does in place of generated kernels.
#pragma once

#include "CublasLt.h"
#include "HostLaunch.h"
#include "sluice/Runtime/Artifact.h"

#include <array>
#include <map>

namespace sluice::runtime::cuda {

/// Library calls for launches of kernels whose variant names the library; none where the plan has
/// none, or the library is not there. Wants a current context.
class Products {
public:
  /// Throws UserError where the library fails or does not do one of the products.
  Products(const Driver &driver, const Artifact &artifact, const std::string &target);

  bool any() const { return !calls.empty(); }
  /// A product of rows whose number the device alone knows is none of a full size.
  bool covers(const Launch &launch) const {
    return calls.contains(launch.kernel) && launch.axis.empty();
  }
  /// What to tell the user once, empty: nothing.
  const std::string &notice() const { return said; }
  /// Bytes of each lane's workspace.
  size_t workspaceBytes() const { return neededWorkspace; }

  /// Every call once, on whatever the arena of so many bytes holds: a library may load its kernels
  /// at their first call, which must not be while a graph is captured.
  void warmUp(Address arena, int64_t arenaBytes, Stream stream) const;

  /// On `stream`, which is the side lane's or not: two lanes may run calls at the same time.
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
