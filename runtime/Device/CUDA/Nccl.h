// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declares the part of NCCL that is used. The library is loaded at run time when several processes
// train on GPUs. Names and numbers are those in nccl.h of NCCL 2.18 and later.
#pragma once

#include "CudaDriver.h"

#include <climits>

namespace sluice::runtime::nccl {

using NcclResult = int;                         // ncclResult_t
using Communicator = struct NcclCommunicator *; // ncclComm_t

constexpr NcclResult success = 0, inProgress = 7;
constexpr int uint8 = 1;            // ncclUint8
constexpr int leastVersion = 21800; // 2.18.0
constexpr unsigned magic = 0xcafebeef;

/// ncclUniqueId
struct UniqueId {
  char bytes[128];
};

/// ncclConfig_t of NCCL 2.18. Later versions accept it by its size and version, and use their
/// defaults for later members.
struct Config {
  static constexpr int undefined = INT_MIN;

  size_t size = sizeof(Config);
  unsigned magic = nccl::magic;
  unsigned version = leastVersion;
  int blocking = 0; // functions return `inProgress` in place of waiting
  int groupBlocks = undefined, leastBlocks = undefined, mostBlocks = undefined;
  const char *network = nullptr;
  int splitShare = undefined;
};

struct NcclLibrary {
  /// Opens libnccl.so.2, or the library in the environment variable SLUICE_NCCL, once per process.
  /// Throws UserError if it cannot be loaded or is older than `leastVersion`.
  static const NcclLibrary &open();

  /// Returns the library's text for `result`, and its last message if there is one.
  std::string explain(NcclResult result, Communicator communicator) const;

  int version = 0; // 22703 is 2.27.3

  NcclResult (*getVersion)(int *version);
  NcclResult (*getUniqueId)(UniqueId *id);
  const char *(*getErrorString)(NcclResult result);
  const char *(*getLastError)(Communicator communicator);
  NcclResult (*initRank)(Communicator *communicator, int size, UniqueId id, int rank,
                         Config *config);
  NcclResult (*abort)(Communicator communicator);
  NcclResult (*getAsyncError)(Communicator communicator, NcclResult *result);
  NcclResult (*groupStart)();
  NcclResult (*groupEnd)();
  NcclResult (*send)(const void *bytes, size_t count, int type, int peer, Communicator communicator,
                     cuda::Stream stream);
  NcclResult (*receive)(void *bytes, size_t count, int type, int peer, Communicator communicator,
                        cuda::Stream stream);
};

/// Returns "2.27.3" for 22703.
std::string showVersion(int version);

} // namespace sluice::runtime::nccl
