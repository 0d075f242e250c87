// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exchanges between GPUs, on the fakes of NVIDIA's driver and of NCCL: a device that sends to
// itself, and one whose peer is silent. test/e2e/processes-gpu.sh has several processes.
#include "CudaFixture.h"
#include "sluice/Runtime/Processes/ProcessGroup.h"
#include "sluice/Support/Error.h"

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

class CudaExchange : public CudaDevice {
protected:
  CudaExchange() : nccl(::dlopen(FAKE_NCCL, RTLD_NOW | RTLD_LOCAL)) {
    ::setenv("SLUICE_NCCL", FAKE_NCCL, 1);
    ::setenv("FAKE_NCCL_FOLDER", folder.path.c_str(), 1);
    get<void (*)()>("fakeNcclForget")();
    device = makeCudaDevice(artifact);
  }
  ~CudaExchange() override {
    for (const char *name :
         {"SLUICE_NCCL", "FAKE_NCCL_FOLDER", "FAKE_NCCL_FAIL", "FAKE_NCCL_SILENT"}) {
      ::unsetenv(name);
    }
  }

  template <typename T> T get(const char *name) const {
    return reinterpret_cast<T>(::dlsym(nccl, name));
  }
  std::string ncclCalls() const { return get<const char *(*)()>("fakeNcclCalls")(); }

  /// Joins a group of which this process is the only one.
  std::unique_ptr<RangeExchange> join() {
    return device->join({0, 1, std::chrono::seconds(1),
                         [](const std::string &text) { return std::vector<std::string>{text}; }});
  }
  void write(MemoryRange range, uint8_t value) {
    std::fill_n(device->host() + range.offset, range.bytes, value);
    device->upload(range);
  }
  int64_t countBytes(MemoryRange range, uint8_t value) {
    device->download(range);
    const uint8_t *begin = device->host() + range.offset;
    return std::count(begin, begin + range.bytes, value);
  }

  void *nccl;
  std::unique_ptr<Device> device;
};

/// The exchange sees the work before it, and work after it sees the exchange.
TEST_F(CudaExchange, RunsBetweenEarlierAndLaterWork) {
  std::unique_ptr<RangeExchange> ranges = join();
  ranges->reserve(256);
  MemoryRange source{0, 128}, target{128, 128};
  StoredRange sent{RangeStore::Arena, 0, 128}, staged{RangeStore::Staging, 128, 128};
  write(target, 9);
  for (uint8_t value : {1, 2, 3}) {
    write(source, value);
    ranges->exchange(std::vector{RangeTransfer{0, sent}}, std::vector{RangeTransfer{0, staged}});
    ranges->copy(staged, {RangeStore::Arena, 128, 128});
    EXPECT_EQ(countBytes(target, value), 128);
  }
  EXPECT_EQ(ncclCalls().substr(ncclCalls().rfind("ncclGroupStart")),
            "ncclGroupStart\nncclRecv 128 from 0\nncclSend 128 to 0\nncclGroupEnd\n");
  ranges.reset();
  EXPECT_TRUE(ncclCalls().ends_with("ncclCommAbort\n"));
  device.reset();
  EXPECT_EQ(allocated(), 0u);
}

TEST_F(CudaExchange, EndsWhenAPeerIsSilent) {
  std::unique_ptr<RangeExchange> ranges = join();
  ranges->reserve(256);
  ::setenv("FAKE_NCCL_SILENT", "0", 1);
  RangeTransfer sent{0, {RangeStore::Arena, 0, 64}}, received{0, {RangeStore::Staging, 0, 64}};
  EXPECT_THROW(ranges->exchange({&sent, 1}, {&received, 1}), LostPeerError);
  EXPECT_TRUE(ncclCalls().ends_with("ncclCommAbort\n"));
  EXPECT_THROW(join(), LostPeerError);
}

TEST_F(CudaExchange, ReportsFailures) {
  RangeTransfer sent{0, {RangeStore::Arena, 0, 64}}, received{0, {RangeStore::Staging, 0, 64}};
  for (auto [failing, doing] : {std::pair("async", "exchange gradients: remote process exited"),
                                std::pair("ncclSend", "exchange gradients: unhandled cuda error"),
                                std::pair("ncclRecv", "exchange gradients: unhandled cuda error"),
                                std::pair("ncclGetUniqueId", "start a group"),
                                std::pair("ncclCommInitRankConfig", "join the GPUs")}) {
    ::setenv("FAKE_NCCL_FAIL", failing, 1);
    try {
      std::unique_ptr<RangeExchange> ranges = join();
      ranges->reserve(64);
      ranges->exchange({&sent, 1}, {&received, 1});
      ADD_FAILURE() << failing;
    } catch (const JobError &error) {
      EXPECT_NE(std::string(error.what()).find(doing), std::string::npos) << error.what();
    }
    ::unsetenv("FAKE_NCCL_FAIL");
  }
  std::unique_ptr<RangeExchange> ranges = join(); // a failed group has no effect on later ones
  ranges->reserve(64);
  ranges->exchange({&sent, 1}, {&received, 1});
}

TEST_F(CudaExchange, FindsAnotherVersionOnAnotherMachine) {
  std::string message = userError([&] {
    device->join({0, 2, std::chrono::seconds(1), [](const std::string &text) {
                    return std::vector<std::string>{text, "21803   "};
                  }});
  });
  EXPECT_EQ(message, "rank 1: expected the NCCL of rank 0, 2.27.3, found 2.18.3; install one "
                     "version on all machines");
}

TEST_F(CudaExchange, EachProcessTakesAGpu) {
  ::setenv("FAKE_CUDA_COUNT", "2", 1);
  makeCudaDevice(artifact, "", {1, 2});
  EXPECT_EQ(count("cuDeviceGet 1"), 1);
  std::string message = userError([&] { makeCudaDevice(artifact, "", {2, 3}); });
  EXPECT_NE(message.find("expected a GPU for each of the 3 processes on this machine, found 2"),
            std::string::npos)
      << message;
}

} // namespace
