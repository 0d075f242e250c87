// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces NCCL on the fake of NVIDIA's driver (FakeCuda.cpp), for threads or processes that have
// the folder FAKE_NCCL_FOLDER in common: a message is a file in it. A communicator never blocks. As
// with the real one, a call may return before its work is in the stream: here it is there after
// the second look at the asynchronous state. A message of another size than was received, and a
// stream that has launches too, end the process with 87. The environment sets:
//   FAKE_NCCL_VERSION, FAKE_NCCL_FAIL (a function that fails; "async": the state after a group),
//   FAKE_NCCL_SILENT (a rank whose messages do not arrive), FAKE_NCCL_FLIP (1: a wrong bit each),
//   FAKE_NCCL_SWAP (a rank whose first two messages to another are exchanged),
//   FAKE_NCCL_LOSE (RANK:N: messages from this rank to another are lost from the N-th on, from 0)
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

void fakeCudaEnqueue(void *stream, const std::function<void()> &run, double milliseconds,
                     const std::function<bool()> &isReady);
bool fakeCudaHasLaunches(void *stream);

namespace {

enum { unhandledCudaError = 1, invalidArgument = 4, invalidUsage = 5, remoteError = 6, busy = 7 };
constexpr uint64_t deviceBit = uint64_t(1) << 62;

struct UniqueId {
  char bytes[128];
};
/// The members that the runtime sets.
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

struct Call {
  bool isSend;
  uint8_t *memory;
  size_t bytes;
  int peer;
  void *stream;
};
struct Communicator {
  std::string name;
  int rank = 0, size = 0, looks = 0;
  bool hasJoined = false, isFaulty = false;
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
  std::vector<Call> queued; // before they are in the stream
  std::map<std::pair<int, int>, int> sequence;

  std::string path(int from, int to, int number) const {
    return name + "-" + std::to_string(from) + "-" + std::to_string(to) + "-" +
           std::to_string(number);
  }
};

std::string calls;
int depth = 0; // of groups
std::vector<std::pair<Communicator *, Call>> grouped;

bool has(const char *name, const std::string &value) {
  const char *text = std::getenv(name);
  return text && text == value;
}

bool isLostAfter(const std::string &rank, int number) {
  const char *text = std::getenv("FAKE_NCCL_LOSE");
  std::string words = text ? text : "";
  size_t colon = words.find(':');
  return colon != std::string::npos && words.substr(0, colon) == rank &&
         number >= std::atoi(words.c_str() + colon + 1);
}

int note(const std::string &call) {
  calls += call + "\n";
  return has("FAKE_NCCL_FAIL", call.substr(0, call.find(' '))) ? unhandledCudaError : 0;
}

void put(const std::string &path, const std::vector<uint8_t> &bytes) {
  std::ofstream(path + ".part", std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  std::filesystem::rename(path + ".part", path);
}

void enqueue(Communicator &on, const Call &call) {
  int from = call.isSend ? on.rank : call.peer, to = call.isSend ? call.peer : on.rank;
  int number = on.sequence[{from, call.isSend ? -1 - to : to}]++;
  std::string own = std::to_string(on.rank);
  bool isLost = has("FAKE_NCCL_SILENT", own) || isLostAfter(own, number);
  if (call.isSend && number < 2 && has("FAKE_NCCL_SWAP", own)) {
    number = 1 - number;
  }
  std::string path = on.path(from, to, number);
  if (fakeCudaHasLaunches(call.stream)) {
    std::fputs("fake NCCL: expected a stream of transfers alone, found one with launches\n",
               stderr);
    ::_exit(87);
  }
  if (call.isSend) {
    fakeCudaEnqueue(
        call.stream,
        [=, aborted = on.aborted] {
          if (!isLost && !*aborted) {
            put(path, {call.memory, call.memory + call.bytes});
          }
        },
        0.1, nullptr);
    return;
  }
  fakeCudaEnqueue(
      call.stream,
      [=, aborted = on.aborted] {
        if (*aborted) {
          return;
        }
        if (std::filesystem::file_size(path) != call.bytes) {
          std::fprintf(stderr, "fake NCCL: %s: expected %zu bytes\n", path.c_str(), call.bytes);
          ::_exit(87);
        }
        std::ifstream(path, std::ios::binary)
            .read(reinterpret_cast<char *>(call.memory), static_cast<std::streamsize>(call.bytes));
        call.memory[0] ^= has("FAKE_NCCL_FLIP", "1");
        std::filesystem::remove(path);
      },
      0.1, [=, aborted = on.aborted] { return *aborted || std::filesystem::exists(path); });
}

int add(Communicator *on, const Call &call, int type) {
  bool isDevice = (reinterpret_cast<uint64_t>(call.memory) & deviceBit) != 0;
  if (depth == 0 || type != 1 || !isDevice || call.peer < 0 || call.peer >= on->size ||
      !on->hasJoined || *on->aborted) {
    return invalidArgument;
  }
  Call onHost = call;
  onHost.memory = reinterpret_cast<uint8_t *>(reinterpret_cast<uint64_t>(call.memory) & ~deviceBit);
  grouped.emplace_back(on, onHost);
  return 0;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
#define NOTE(...)                                                                                  \
  if (int error = note(__VA_ARGS__)) {                                                             \
    return error;                                                                                  \
  }

/// For tests in the same process.
EXPORT const char *fakeNcclCalls() { return calls.c_str(); }
EXPORT void fakeNcclForget() { calls.clear(); }

EXPORT int ncclGetVersion(int *version) {
  const char *text = std::getenv("FAKE_NCCL_VERSION");
  *version = text && *text ? std::atoi(text) : 22703;
  return note("ncclGetVersion");
}
EXPORT int ncclGetUniqueId(UniqueId *id) {
  static int made = 0;
  std::memset(id, 0, sizeof *id);
  const char *folder = std::getenv("FAKE_NCCL_FOLDER");
  std::snprintf(id->bytes, sizeof id->bytes, "%s/%d-%d", folder ? folder : "/nonexistent",
                static_cast<int>(::getpid()), made++);
  return note("ncclGetUniqueId");
}
EXPORT const char *ncclGetErrorString(int result) {
  return result == remoteError ? "remote process exited" : "unhandled cuda error";
}
EXPORT const char *ncclGetLastError(Communicator *) { return "as the fake was told"; }
EXPORT int ncclCommInitRankConfig(Communicator **made, int size, UniqueId id, int rank,
                                  Config *config) {
  NOTE("ncclCommInitRankConfig " + std::to_string(rank) + " of " + std::to_string(size))
  if (config->magic != 0xcafebeef || config->blocking != 0 || config->version < 21800) {
    return invalidArgument;
  }
  *made = new Communicator;
  (*made)->name = id.bytes;
  (*made)->rank = rank;
  (*made)->size = size;
  if (!has("FAKE_NCCL_SILENT", std::to_string(rank))) {
    put((*made)->name + "-" + std::to_string(rank), {});
  }
  return busy;
}
EXPORT int ncclCommAbort(Communicator *communicator) {
  *communicator->aborted = true;
  delete communicator;
  return note("ncclCommAbort");
}
EXPORT int ncclCommGetAsyncError(Communicator *on, int *state) {
  *state = busy;
  if (++on->looks < 2) {
    return 0;
  }
  if (!on->hasJoined) {
    bool isJoined = true;
    for (int rank = 0; rank < on->size; ++rank) {
      isJoined &= std::filesystem::exists(on->name + "-" + std::to_string(rank));
    }
    on->hasJoined = isJoined;
    *state = isJoined ? 0 : static_cast<int>(busy);
    return 0;
  }
  for (const Call &call : on->queued) {
    enqueue(*on, call);
  }
  on->queued.clear();
  *state = on->isFaulty ? static_cast<int>(remoteError) : 0;
  return 0;
}
EXPORT int ncclGroupStart() {
  ++depth;
  return note("ncclGroupStart");
}
EXPORT int ncclSend(uint8_t *from, size_t count, int type, int peer, Communicator *on,
                    void *stream) {
  NOTE("ncclSend " + std::to_string(count) + " to " + std::to_string(peer))
  return add(on, {true, from, count, peer, stream}, type);
}
EXPORT int ncclRecv(uint8_t *to, size_t count, int type, int peer, Communicator *on, void *stream) {
  NOTE("ncclRecv " + std::to_string(count) + " from " + std::to_string(peer))
  return add(on, {false, to, count, peer, stream}, type);
}
/// Sends first: the transfers of a group run at once.
EXPORT int ncclGroupEnd() {
  NOTE("ncclGroupEnd")
  if (--depth < 0) {
    return invalidUsage;
  }
  for (bool isSend : {true, false}) {
    for (auto &[on, call] : grouped) {
      on->looks = 0;
      on->isFaulty = has("FAKE_NCCL_FAIL", "async");
      if (call.isSend == isSend) {
        on->queued.push_back(call);
      }
    }
  }
  grouped.clear();
  return busy;
}
