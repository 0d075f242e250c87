// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces NVIDIA's driver. Its "kernels" are the CPU's of the bigram model; the runtime must do
// the rest. It is as unkind as a driver may be: work waits in its stream
// until a caller waits for it or for work that it precedes, so that pinned memory written too early
// or read too early, and streams that do not wait for one another, show in the numbers; memory that
// is not pinned is read as late, and later changes are counted; addresses of the device are not the
// host's; a launch while a graph is captured does nothing else; launches of a graph that nothing
// orders run latest first. The environment sets what GPU it is:
//   FAKE_CUDA_COUNT, FAKE_CUDA_VERSION, FAKE_CUDA_CAPABILITY (of 80 or 90), FAKE_CUDA_FREE (bytes),
//   FAKE_CUDA_REFUSE_CUBIN, FAKE_CUDA_FAIL (a function that fails), FAKE_CUDA_KERNELS (library),
//   FAKE_CUDA_STATIC (bytes of static shared memory of a kernel),
//   FAKE_CUDA_SPOIL (an offset of the arena: after each kernel one bit of this byte is wrong),
//   FAKE_CUDA_CLOCK (events report the time of the work: half a millisecond a launch),
//   FAKE_CUDA_EAGER (1: streams run as soon as they may, except those with transfers),
//   FAKE_CUDA_FORGET (an error of the runtime, which tests must find: "wait": launches do not wait
//   for transfers; "mark": graphs record their events at once)
// FAKE_CUDA_KERNELS may be a compiled artifact with CPU code next to the GPU's (FakeKernels.h).
#include "FakeKernels.h"
#include "FakeStreams.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>

namespace {

std::string calls; // every call, one line each
FakeGraph *capturing = nullptr;
std::set<FakeStream *> streams;
std::set<FakeEvent *> allEvents;
std::string dependences; // of every captured graph, one line per node
uint64_t events = 0;
std::map<uint8_t *, size_t> pinned;
size_t allocated = 0;
size_t changed = 0;                // copies whose source changed before the stream executed them
double milliseconds = 0;           // duration of that work
std::map<uint64_t, double> passed; // when the stream reached each event

/// Programs that load this library also exit with failure if the source of a copy changed.
struct Verdict {
  ~Verdict() {
    if (changed > 0) {
      std::fputs("fake driver: memory changed before an asynchronous copy had read it\n", stderr);
      ::_exit(86);
    }
  }
} verdict;

int setting(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  return text && *text ? std::atoi(text) : otherwise;
}

bool forgets(const std::string &step) {
  const char *text = std::getenv("FAKE_CUDA_FORGET");
  return text && text == step;
}

/// Records a call; returns an error if the environment requests a failure of this one.
int note(const std::string &call) {
  calls += call + "\n";
  const char *failing = std::getenv("FAKE_CUDA_FAIL");
  return failing && call.substr(0, call.find(' ')) == failing ? invalid : 0;
}

uint8_t *toHost(uint64_t address) { return reinterpret_cast<uint8_t *>(address & ~deviceBit); }

bool isPinned(const void *memory) {
  return std::any_of(pinned.begin(), pinned.end(), [&](const auto &range) {
    return memory >= range.first && memory < range.first + range.second;
  });
}

/// Runs pending work of a stream up to a mark (0: all), after the work of other streams that it
/// waits for. Returns false if work is not ready, unless `blocks`.
bool drain(FakeStream *on, uint64_t event, bool blocks = true) {
  auto isPending = [](const FakeStream *stream, uint64_t mark) {
    return std::any_of(stream->queue.begin(), stream->queue.end(),
                       [&](const Operation &operation) { return operation.event == mark; });
  };
  if (event != 0 && !isPending(on, event)) {
    return true;
  }
  while (!on->queue.empty()) {
    const Operation &first = on->queue.front();
    if (first.other && streams.count(first.other) && !drain(first.other, first.awaited, blocks)) {
      return false;
    }
    while (first.isReady && !first.isReady()) {
      if (!blocks) {
        return false;
      }
      ::usleep(100);
    }
    Operation next = std::move(on->queue.front());
    on->queue.pop_front();
    if (next.run) {
      next.run();
    } else if (next.event != 0) {
      passed[next.event] = milliseconds;
    }
    if (event != 0 && next.event == event) {
      break;
    }
  }
  return true;
}

void drainAll() {
  for (FakeStream *each : streams) {
    drain(each, 0);
  }
}

/// Transitive predecessors of `of`, including itself.
std::set<size_t> ancestors(const FakeGraph &graph, const std::set<size_t> &of) {
  std::set<size_t> all;
  std::vector<size_t> open(of.begin(), of.end());
  while (!open.empty()) {
    size_t node = open.back();
    open.pop_back();
    if (all.insert(node).second) {
      const std::set<size_t> &after = graph.nodes[node].after;
      open.insert(open.end(), after.begin(), after.end());
    }
  }
  return all;
}

/// Runs nodes of a graph in the worst order that its edges allow: of all ready nodes, the latest.
void runNodes(const FakeGraph &graph, const std::set<size_t> &nodes, std::set<size_t> &done) {
  while (!std::includes(done.begin(), done.end(), nodes.begin(), nodes.end())) {
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      const std::set<size_t> &after = graph.nodes[i].after;
      if (nodes.count(i) && !done.count(i) &&
          std::includes(done.begin(), done.end(), after.begin(), after.end())) {
        if (graph.nodes[i].run) {
          graph.nodes[i].run();
        }
        done.insert(i);
        break;
      }
    }
  }
}

/// Runs work of the streams that are not late, as far as it need not wait for streams that are.
void runEagerly() {
  if (!setting("FAKE_CUDA_EAGER", 0)) {
    return;
  }
  for (bool isChanged = true; isChanged;) {
    isChanged = false;
    for (FakeStream *each : streams) {
      while (!each->isLate && !each->queue.empty()) {
        const Operation &first = each->queue.front();
        bool waits = first.other && streams.count(first.other) &&
                     std::any_of(first.other->queue.begin(), first.other->queue.end(),
                                 [&](const Operation &other) {
                                   return other.event != 0 && other.event == first.awaited;
                                 });
        if (waits || (first.isReady && !first.isReady())) {
          break;
        }
        Operation next = std::move(each->queue.front());
        each->queue.pop_front();
        if (next.run) {
          next.run();
        } else if (next.event != 0) {
          passed[next.event] = milliseconds;
        }
        isChanged = true;
      }
    }
  }
}

void push(FakeStream *on, Operation operation) {
  on->queue.push_back(std::move(operation));
  runEagerly();
}

void record(FakeEvent *event, FakeStream *on) {
  event->captured = false;
  event->recorded = ++events;
  event->on = on;
  event->queried = false;
  push(on, {nullptr, event->recorded});
}

/// Work for a stream, or for the graph that it captures.
void enqueue(FakeStream *on, const std::function<void()> &work, double takes,
             const std::function<bool()> &isReady = nullptr) {
  auto run = [work, takes] {
    work();
    milliseconds += takes;
  };
  if (on->captures) {
    capturing->nodes.push_back({run, on->last, on->priority});
    on->last = {capturing->nodes.size() - 1};
  } else {
    push(on, {run, 0, nullptr, 0, isReady});
  }
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
#define NOTE(...)                                                                                  \
  if (int error = note(__VA_ARGS__)) {                                                             \
    return error;                                                                                  \
  }

/// For tests in the same process.
EXPORT const char *fakeCudaCalls() { return calls.c_str(); }
EXPORT const char *fakeCudaDependences() { return dependences.c_str(); }
EXPORT void fakeCudaForget() {
  calls.clear();
  dependences.clear();
}
EXPORT size_t fakeCudaAllocated() { return allocated; }
EXPORT size_t fakeCudaChanged() { return changed; }

bool fakeCudaHasLaunches(void *stream) { return static_cast<FakeStream *>(stream)->hasLaunches; }
/// For libraries used with the fakes: work that takes some time, and may wait for `isReady`.
void fakeCudaEnqueue(void *stream, const std::function<void()> &run, double milliseconds,
                     const std::function<bool()> &isReady) {
  static_cast<FakeStream *>(stream)->isLate = true;
  enqueue(static_cast<FakeStream *>(stream), run, milliseconds, isReady);
}
void fakeCudaEnqueue(void *stream, const std::function<void()> &run, double milliseconds) {
  enqueue(static_cast<FakeStream *>(stream), run, milliseconds);
}

EXPORT int cuInit(unsigned) {
  NOTE("cuInit")
  return setting("FAKE_CUDA_COUNT", 1) == 0 ? noDevice : 0;
}
EXPORT int cuDriverGetVersion(int *version) {
  *version = setting("FAKE_CUDA_VERSION", 12040);
  return note("cuDriverGetVersion");
}
EXPORT int cuGetErrorName(int error, const char **text) {
  *text = error == invalid ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_OTHER";
  return 0;
}
EXPORT int cuGetErrorString(int, const char **text) {
  *text = "as the fake was told";
  return 0;
}
EXPORT int cuDeviceGetCount(int *count) {
  *count = setting("FAKE_CUDA_COUNT", 1);
  return note("cuDeviceGetCount");
}
EXPORT int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return note("cuDeviceGet " + std::to_string(ordinal));
}
EXPORT int cuDeviceGetName(char *name, int length, int) {
  std::strncpy(name, "Fake H200", static_cast<size_t>(length));
  return note("cuDeviceGetName");
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int) {
  int capability = setting("FAKE_CUDA_CAPABILITY", 80);
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 227 << 10;
  return note("cuDeviceGetAttribute");
}
EXPORT int cuDevicePrimaryCtxRetain(void **context, int) {
  *context = &streams;
  return note("cuDevicePrimaryCtxRetain");
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return note("cuDevicePrimaryCtxRelease_v2"); }
EXPORT int cuCtxSetCurrent(void *) { return note("cuCtxSetCurrent"); }
EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return note("cuCtxGetStreamPriorityRange");
}

EXPORT int cuModuleLoadData(Module **module, const char *image) {
  bool isCubin = image[0] == '\177';
  std::string text = image; // PTX must be terminated; a cubin here is too short to matter
  text = text.substr(text.rfind(' ') + 1);
  NOTE(std::string("cuModuleLoadData ") + (isCubin ? "cubin" : "ptx"))
  if (isCubin && setting("FAKE_CUDA_REFUSE_CUBIN", 0)) {
    return noBinary;
  }
  *module = new Module{text};
  return 0;
}
EXPORT int cuModuleLoadDataEx(Module **module, const char *image, unsigned count, int *options,
                              void **values) {
  int result = cuModuleLoadData(module, image);
  if (result && count == 2 && options[0] == 5 && options[1] == 6) {
    std::strncpy(static_cast<char *>(values[0]), "ptxas fake: line 3",
                 reinterpret_cast<size_t>(values[1]));
  }
  return result;
}
EXPORT int cuModuleUnload(Module *module) {
  delete module;
  return note("cuModuleUnload");
}
EXPORT int cuModuleGetFunction(void **function, Module *module, const char *name) {
  NOTE(std::string("cuModuleGetFunction ") + name)
  const FakeKernel *kernel = findFakeKernel(name);
  // A bigram kernel's image contains its owner.
  bool fits =
      kernel && (kernel->items >= 0 || module->kernel.compare(0, std::strlen(name), name) == 0);
  *function = fits ? const_cast<FakeKernel *>(kernel) : nullptr;
  return fits ? 0 : notFound;
}
EXPORT int cuFuncGetAttribute(int *value, int, void *) {
  *value = setting("FAKE_CUDA_STATIC", 0);
  return note("cuFuncGetAttribute");
}
EXPORT int cuFuncSetAttribute(void *, int, int value) {
  return note("cuFuncSetAttribute " + std::to_string(value));
}

EXPORT int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = *total = static_cast<size_t>(setting("FAKE_CUDA_FREE", 1 << 30));
  return note("cuMemGetInfo_v2");
}
EXPORT int cuMemAlloc_v2(unsigned long long *address, size_t bytes) {
  NOTE("cuMemAlloc_v2 " + std::to_string(bytes))
  auto *memory = static_cast<uint8_t *>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  std::memset(memory, 0xa5, bytes);
  *address = reinterpret_cast<uint64_t>(memory) | deviceBit;
  ++allocated;
  return 0;
}
EXPORT int cuMemFree_v2(unsigned long long address) {
  drainAll(); // freeing waits for the device
  std::free(toHost(address));
  --allocated;
  return note("cuMemFree_v2");
}
EXPORT int cuMemAllocHost_v2(void **memory, size_t bytes) {
  NOTE("cuMemAllocHost_v2")
  auto *made = static_cast<uint8_t *>(std::malloc(bytes));
  pinned[made] = bytes;
  *memory = made;
  ++allocated;
  return 0;
}
EXPORT int cuMemFreeHost(void *memory) {
  drainAll();
  pinned.erase(static_cast<uint8_t *>(memory));
  std::free(memory);
  --allocated;
  return note("cuMemFreeHost");
}

/// Current memory, which its owner may have freed: unreadable bytes become zeros.
static std::vector<uint8_t> readIfThere(const void *from, size_t bytes) {
  std::vector<uint8_t> found(bytes);
  iovec to{found.data(), bytes}, source{const_cast<void *>(from), bytes};
  ::process_vm_readv(::getpid(), &to, 1, &source, 1, 0);
  return found;
}

/// Reads its source when the stream executes it. A driver may copy unpinned memory immediately, or
/// not: the work uses the data at the time of the call, and counts a change.
EXPORT int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes,
                                FakeStream *on) {
  NOTE("cuMemcpyHtoDAsync_v2 " + std::to_string(bytes) + (isPinned(from) ? " pinned" : ""))
  uint8_t *target = toHost(to);
  if (isPinned(from)) {
    push(on, {[=] { std::memcpy(target, from, bytes); }});
  } else {
    const auto *start = static_cast<const uint8_t *>(from);
    push(on, {[=, data = std::vector<uint8_t>(start, start + bytes)] {
           changed += readIfThere(from, bytes) != data;
           std::memcpy(target, data.data(), data.size());
         }});
  }
  return 0;
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, FakeStream *on) {
  NOTE("cuMemcpyDtoHAsync_v2 " + std::to_string(bytes))
  push(on, {[=] { std::memcpy(to, toHost(from), bytes); }});
  return 0;
}
EXPORT int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes,
                                FakeStream *on) {
  NOTE("cuMemcpyDtoDAsync_v2 " + std::to_string(bytes))
  push(on, {[=] { std::memcpy(toHost(to), toHost(from), bytes); }});
  return 0;
}
EXPORT int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes,
                           FakeStream *on) {
  NOTE("cuMemsetD8Async")
  push(on, {[=] { std::memset(toHost(to), value, bytes); }});
  return 0;
}

EXPORT int cuStreamCreateWithPriority(FakeStream **made, unsigned, int priority) {
  *made = new FakeStream;
  (*made)->priority = priority;
  streams.insert(*made);
  return note("cuStreamCreateWithPriority");
}
EXPORT int cuStreamDestroy_v2(FakeStream *stream) {
  drain(stream, 0);
  streams.erase(stream);
  delete stream;
  return note("cuStreamDestroy_v2");
}
EXPORT int cuStreamSynchronize(FakeStream *stream) {
  NOTE("cuStreamSynchronize")
  drain(stream, 0);
  return 0;
}
EXPORT int cuStreamWaitEvent(FakeStream *stream, FakeEvent *event, unsigned) {
  NOTE("cuStreamWaitEvent")
  if (event->captured) {
    stream->captures = true;
    stream->last.insert(event->nodes.begin(), event->nodes.end());
  } else if (event->recorded != 0 && !(forgets("wait") && event->on->isLate)) {
    push(stream, {nullptr, 0, event->on, event->recorded});
  }
  return 0;
}
EXPORT int cuStreamBeginCapture_v2(FakeStream *stream, int) {
  NOTE("cuStreamBeginCapture_v2")
  capturing = new FakeGraph;
  stream->captures = true;
  return 0;
}
/// Every stream that joined the capture must have been joined by `stream` again.
EXPORT int cuStreamEndCapture(FakeStream *stream, FakeGraph **graph) {
  *graph = capturing;
  std::set<size_t> joined = ancestors(*capturing, stream->last);
  bool isJoined = true;
  for (FakeStream *each : streams) {
    isJoined &= std::includes(joined.begin(), joined.end(), each->last.begin(), each->last.end());
    each->captures = false;
    each->last.clear();
  }
  for (size_t i = 0; i < capturing->nodes.size(); ++i) {
    dependences += std::to_string(i);
    dependences += capturing->nodes[i].priority < 0 ? ":" : " (low):";
    for (size_t before : capturing->nodes[i].after) {
      dependences += " " + std::to_string(before);
    }
    dependences += "\n";
  }
  capturing = nullptr;
  return isJoined ? note("cuStreamEndCapture") : unjoined;
}
EXPORT int cuGraphInstantiateWithFlags(FakeGraph **exec, FakeGraph *graph, unsigned long long) {
  *exec = new FakeGraph(*graph);
  return note("cuGraphInstantiateWithFlags");
}
EXPORT int cuGraphLaunch(FakeGraph *exec, FakeStream *on) {
  NOTE("cuGraphLaunch " + std::to_string(exec->nodes.size()))
  on->hasLaunches = true;
  auto graph = std::make_shared<const FakeGraph>(*exec);
  auto done = std::make_shared<std::set<size_t>>();
  std::set<size_t> all;
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    all.insert(i);
    FakeEvent *event = graph->nodes[i].event;
    if (!event) {
      continue;
    }
    if (!allEvents.count(event)) {
      return invalid;
    }
    push(on, {[=] { runNodes(*graph, ancestors(*graph, {i}), *done); }});
    record(event, on);
  }
  push(on, {[=] { runNodes(*graph, all, *done); }});
  return 0;
}
EXPORT int cuGraphDestroy(FakeGraph *graph) {
  delete graph;
  return note("cuGraphDestroy");
}
EXPORT int cuGraphExecDestroy(FakeGraph *exec) {
  delete exec;
  return note("cuGraphExecDestroy");
}

EXPORT int cuEventCreate(FakeEvent **event, unsigned) {
  *event = new FakeEvent;
  allEvents.insert(*event);
  return note("cuEventCreate");
}
EXPORT int cuEventDestroy_v2(FakeEvent *event) {
  allEvents.erase(event);
  delete event;
  return note("cuEventDestroy_v2");
}
EXPORT int cuEventRecord(FakeEvent *event, FakeStream *on) {
  event->captured = on->captures;
  event->nodes = on->last;
  if (on->captures) {
    return note("cuEventRecord");
  }
  record(event, on);
  return note("cuEventRecord");
}
/// Only a record in the graph under capture, which each run of the graph repeats.
EXPORT int cuEventRecordWithFlags(FakeEvent *event, FakeStream *on, unsigned flags) {
  NOTE("cuEventRecordWithFlags")
  if (flags != 1 || !on->captures) {
    return invalid;
  }
  capturing->nodes.push_back(
      {nullptr, forgets("mark") ? std::set<size_t>() : on->last, on->priority, event});
  on->last = {capturing->nodes.size() - 1};
  return 0;
}
EXPORT int cuEventSynchronize(FakeEvent *event) {
  NOTE("cuEventSynchronize")
  if (event->recorded != 0 && streams.count(event->on)) {
    drain(event->on, event->recorded);
  }
  return 0;
}
/// The first query of an event is always too early.
EXPORT int cuEventQuery(FakeEvent *event) {
  NOTE("cuEventQuery")
  bool isEarly = !event->queried;
  event->queried = true;
  return isEarly || !drain(event->on, event->recorded, /*blocks=*/false) ? notReady : 0;
}
EXPORT int cuEventElapsedTime(float *elapsed, FakeEvent *from, FakeEvent *to) {
  *elapsed = setting("FAKE_CUDA_CLOCK", 0)
                 ? static_cast<float>(passed.at(to->recorded) - passed.at(from->recorded))
                 : 0.5f;
  return note("cuEventElapsedTime");
}

EXPORT int cuLaunchKernel(void *function, unsigned gridX, unsigned gridY, unsigned gridZ,
                          unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                          FakeStream *on, void **parameters, void **) {
  NOTE("cuLaunchKernel " + std::to_string(gridX) + " x " + std::to_string(blockX) + " shared " +
       std::to_string(sharedBytes))
  if (gridY != 1 || gridZ != 1 || blockY != 1 || blockZ != 1) {
    return invalid;
  }
  uint8_t *arena = toHost(*static_cast<uint64_t *>(parameters[0]));
  const auto *arguments =
      reinterpret_cast<const int64_t *>(toHost(*static_cast<uint64_t *>(parameters[1])));
  const auto &kernel = *static_cast<const FakeKernel *>(function);
  int64_t items = kernel.items >= 0 ? kernel.items : gridX;
  int64_t scratchBytes = kernel.items >= 0 ? kernel.scratchBytes : sharedBytes;
  auto launch = [=] {
    auto bytes = static_cast<size_t>(scratchBytes / 64 + 1) * 64;
    auto *scratch = static_cast<uint8_t *>(std::aligned_alloc(64, bytes));
    for (int64_t item = 0; item < items; ++item) {
      kernel.code(arena, arguments, item, scratch);
    }
    std::free(scratch);
    if (int spoiled = setting("FAKE_CUDA_SPOIL", 0)) {
      arena[spoiled] ^= 0x80;
    }
  };
  enqueue(on, launch, 0.5);
  return 0;
}
