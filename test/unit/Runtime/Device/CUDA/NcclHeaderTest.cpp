// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// runtime/Device/CUDA/Nccl.h declares NVIDIA's library by hand. If the original header is
// available, the two must agree: numbers, the members of a configuration, and parameters by their
// number, size and kind. Compiling is the test.
#include "Declarations.h"
#include "Device/CUDA/Nccl.h"

#include <cstddef>
#include <gtest/gtest.h>
#include <nccl.h>

namespace {

using namespace sluice::runtime::nccl;
using namespace sluice::test;

static_assert(sameNumber(success, ncclSuccess));
static_assert(sameNumber(inProgress, ncclInProgress));
static_assert(sameNumber(uint8, ncclUint8));
static_assert(sameNumber(leastVersion, NCCL_VERSION(2, 18, 0)));
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));

// A later configuration has more members at its end.
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(sameNumber(Config::undefined, NCCL_CONFIG_UNDEF_INT));
#define SAME_FIELD(ours, theirs)                                                                   \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs) &&                        \
                sizeof(Config::ours) == sizeof(ncclConfig_t::theirs))
SAME_FIELD(size, size);
SAME_FIELD(magic, magic);
SAME_FIELD(version, version);
SAME_FIELD(blocking, blocking);
SAME_FIELD(groupBlocks, cgaClusterSize);
SAME_FIELD(leastBlocks, minCTAs);
SAME_FIELD(mostBlocks, maxCTAs);
SAME_FIELD(network, netName);
SAME_FIELD(splitShare, splitShare);

#define SAME(member, function)                                                                     \
  static_assert(Signatures<decltype(NcclLibrary::member), decltype(&function)>::value, #function)
SAME(getVersion, ncclGetVersion);
SAME(getUniqueId, ncclGetUniqueId);
SAME(getErrorString, ncclGetErrorString);
SAME(getLastError, ncclGetLastError);
SAME(initRank, ncclCommInitRankConfig);
SAME(abort, ncclCommAbort);
SAME(getAsyncError, ncclCommGetAsyncError);
SAME(groupStart, ncclGroupStart);
SAME(groupEnd, ncclGroupEnd);
SAME(send, ncclSend);
SAME(receive, ncclRecv);

TEST(NcclHeader, DeclarationsMatchTheLibrary) {
  ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  Config ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_GE(NCCL_VERSION_CODE, leastVersion);
}

} // namespace
