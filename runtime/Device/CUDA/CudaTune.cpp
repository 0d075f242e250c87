// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times products with generated kernels and with cuBLASLt, as launches of a CUDA graph.
#include "sluice/Runtime/Device/CUDA/CudaTune.h"

#include "CublasLt.h"
#include "CudaGpu.h"
#include "CudaGraph.h"
#include "CudaLaunch.h"
#include "sluice/Runtime/Device/Tuning.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

#include <algorithm>
#include <array>

namespace sluice::runtime {
namespace {

using namespace cuda;

constexpr int algorithmsTried = 4;
constexpr int launchesOfGraph = 20, samples = 9; // the median over samples of a graph is taken

const cublas::Library &openLibrary() {
  std::string missing;
  const cublas::Library *library = cublas::Library::open(missing);
  if (!library) {
    throw UserError(
        "--tune: expected cuBLASLt (libcublasLt.so.13 or .12), found none that loads (" + missing +
        "); install it with CUDA, or name it in SLUICE_CUBLASLT; without --tuning the "
        "generated kernels are used");
  }
  return *library;
}

/// The GPU, the plan's arena on it, and its code. The arguments of one launch at a time are on the
/// GPU.
class Tuner {
public:
  Tuner(const Artifact &artifact, const std::string &wanted)
      : artifact(artifact), plan(artifact.plan()), driver(openDriver(artifact, wanted)),
        gpu(findGpu(driver)), target(chooseTarget(artifact, gpu, wanted)), library(openLibrary()) {
    Context primary = nullptr;
    driver.check(driver.primaryContextRetain(&primary, gpu.number), "create a context");
    context = {gpu.number, driver.primaryContextRelease};
    driver.check(driver.contextSetCurrent(primary), "use its context");
    Stream made = nullptr;
    driver.check(driver.streamCreate(&made, streamNonBlocking, 0), "create a stream");
    stream = {made, driver.streamDestroy};
    cublas::Handle started = nullptr;
    library.check(library.create(&started), "start");
    handle = {started, library.destroy};
    workspace = allocate(cublas::Matmul::mostWorkspace, "allocate cuBLASLt's workspace");
    makeArena();
    bool takesCubin = target == "sm_90a" || gpu.major == 8;
    code = std::make_unique<LoadedFunctions>(driver, artifact, target, takesCubin,
                                             gpu.mostSharedBytes);
  }
  ~Tuner() { driver.streamSynchronize(stream.get()); }
  Tuner(const Tuner &) = delete;
  Tuner &operator=(const Tuner &) = delete;

  Tuning start() const {
    int version = 0;
    driver.check(driver.driverGetVersion(&version), "report its version");
    return {gpu.name, version, static_cast<int64_t>(library.getVersion()), {}, code->notice()};
  }

  TunedProduct tune(const Launch &launch) {
    const Product &product = *plan.kernels[static_cast<size_t>(launch.kernel)].product;
    fill(launch);
    size_t bytes = launch.arguments.size() * sizeof(int64_t);
    arguments = allocate(bytes, "allocate a launch's arguments");
    send(arguments.get(), launch.arguments.data(), bytes);
    TunedProduct tuned;
    tuned.target = target;
    tuned.product = product;
    tuned.generatedSeconds =
        time([&] { code->launch(launch, arena.get(), arguments.get(), stream.get()); });
    cublas::Matmul matmul(library, handle.get(), product);
    for (const cublas::Matmul::Choice &choice : matmul.candidates(algorithmsTried)) {
      double seconds = time([&] {
        matmul.run(choice, arena.get(), launch.arguments.data(), workspace.get(), stream.get());
      });
      if (!tuned.librarySeconds || seconds < *tuned.librarySeconds) {
        tuned.librarySeconds = seconds;
        tuned.algorithm = choice.algorithm;
      }
    }
    tuned.libraryWins =
        tuned.librarySeconds && *tuned.librarySeconds < librarysShare * tuned.generatedSeconds;
    return tuned;
  }

private:
  Owned<Address> allocate(size_t bytes, const char *doing) const {
    Address memory = 0;
    driver.check(driver.memoryAllocate(&memory, bytes), doing);
    return {memory, driver.memoryFree};
  }

  void send(Address to, const void *from, size_t bytes) const {
    driver.copyAndWait(to, from, bytes, stream.get(), "upload");
  }

  /// Allocates a zeroed arena in which all positions of all rows are valid.
  void makeArena() {
    size_t free = 0, total = 0;
    driver.check(driver.memoryGetInfo(&free, &total), "report its free memory");
    auto bytes = static_cast<size_t>(std::max<int64_t>(plan.memory.arenaBytes, 256));
    Address memory = 0;
    Result result = free < bytes ? outOfMemory : driver.memoryAllocate(&memory, bytes);
    if (result == outOfMemory) {
      throw UserError(explainMemory(artifact, gpu, artifact.plan().memory.arenaBytes, free,
                                    cublas::Matmul::mostWorkspace));
    }
    driver.check(result, "allocate the arena");
    arena = {memory, driver.memoryFree};
    driver.check(driver.memset8(memory, 0, bytes, stream.get()), "clear the arena");
    const std::pair<const char *, int64_t> scalars[] = {{"length", plan.model.context},
                                                        {"rows", plan.model.batch}};
    for (const auto &[name, value] : scalars) {
      auto scalar = plan.scalars.find(name);
      if (scalar != plan.scalars.end()) {
        send(memory + static_cast<Address>(scalar->second.offset), &value, sizeof value);
      }
    }
  }

  /// Fills the factors with random bf16 numbers of magnitude 1 to 2 and either sign: multiplying
  /// zeros would take less power, and therefore less time.
  void fill(const Launch &launch) const {
    const PlanKernel &kernel = plan.kernels[static_cast<size_t>(launch.kernel)];
    for (size_t i = 0; i < 2; ++i) {
      std::vector<uint16_t> numbers(static_cast<size_t>(kernel.operands[i].bytes) / 2);
      for (size_t j = 0; j < numbers.size(); ++j) {
        constexpr uint16_t one = 0x3f80, signAndFraction = 0x807f;
        numbers[j] = one | (static_cast<uint16_t>(mix64(2 * j + i)) & signAndFraction);
      }
      send(arena.get() + static_cast<Address>(launch.arguments[i]), numbers.data(),
           numbers.size() * 2);
    }
  }

  Owned<Event> makeEvent() const {
    Event event = nullptr;
    driver.check(driver.eventCreate(&event, 0), "create an event");
    return {event, driver.eventDestroy};
  }

  /// Returns the seconds of one launch: the median over graphs of several launches.
  double time(const std::function<void()> &launch) const {
    launch(); // for lazy loading
    driver.check(driver.streamSynchronize(stream.get()), "run the kernels");
    Segment segment;
    segment.last = launchesOfGraph;
    segment.lanes.resize(launchesOfGraph);
    Owned<GraphExec> graph = captureGraph(driver, segment, {stream.get(), nullptr, nullptr}, {},
                                          [&](size_t, Stream) { launch(); });
    Owned<Event> begin = makeEvent(), end = makeEvent();
    std::vector<double> seconds;
    for (int i = 0; i <= samples; ++i) { // the first is a warm-up
      driver.check(driver.eventRecord(begin.get(), stream.get()), "record an event");
      driver.check(driver.graphLaunch(graph.get(), stream.get()), "launch a graph");
      driver.check(driver.eventRecord(end.get(), stream.get()), "record an event");
      driver.check(driver.streamSynchronize(stream.get()), "run the kernels");
      float milliseconds = 0;
      driver.check(driver.eventElapsedTime(&milliseconds, begin.get(), end.get()), "time a kernel");
      seconds.push_back(milliseconds * 1e-3 / launchesOfGraph);
    }
    std::nth_element(seconds.begin() + 1, seconds.begin() + 1 + samples / 2, seconds.end());
    return seconds[1 + samples / 2];
  }

  const Artifact &artifact;
  const Plan &plan;
  const Driver &driver;
  const Gpu gpu;
  const std::string target;
  const cublas::Library &library;
  Owned<DeviceNumber> context;
  Owned<Stream> stream;
  Owned<cublas::Handle> handle;
  Owned<Address> workspace, arena, arguments;
  std::unique_ptr<LoadedFunctions> code;
};

} // namespace

Tuning tuneProducts(const Artifact &artifact, const std::string &target,
                    const std::function<void(const TunedProduct &)> &done) {
  Tuner tuner(artifact, target);
  Tuning tuning = tuner.start();
  const Plan &plan = artifact.plan();
  for (const auto &[entry, launches] : plan.entries) {
    for (const Launch &launch : launches) {
      const std::optional<Product> &product =
          plan.kernels[static_cast<size_t>(launch.kernel)].product;
      bool known = !product || std::any_of(tuning.products.begin(), tuning.products.end(),
                                           [&](const TunedProduct &other) {
                                             return other.product.isSameShape(*product);
                                           });
      if (!known) {
        tuning.products.push_back(tuner.tune(launch));
        done(tuning.products.back());
      }
    }
  }
  return tuning;
}

} // namespace sluice::runtime
