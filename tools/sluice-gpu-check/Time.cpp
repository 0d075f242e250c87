// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "GpuCheck.h"

#include "Device/CUDA/CudaGpu.h"
#include "sluice/Runtime/Data/TextLike.h"
#include "sluice/Runtime/Device/CUDA/CudaDevice.h"
#include "sluice/Runtime/Device/Device.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace sluice::gpucheck {

using namespace sluice;
using namespace sluice::runtime;

namespace {

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers.empty() ? 0 : numbers[numbers.size() / 2];
}

/// Trains a model at full length on the GPU, with token frequencies as in text.
class Trainer {
public:
  explicit Trainer(const Path &artifact) : device(makeCudaDevice(Artifact::load(artifact))) {
    const Plan &plan = device->plan();
    setScalar("length", plan.model.context);
    setScalar("rows", plan.model.batch);
    setScalar("seed", 1);
    setScalar("step", 1);
    run("initialize");
    setTokens();
    tellNotice(*device);
  }

  void gradient() { run("gradient"); }
  void update() { run("update"); }
  void step() {
    setScalar("step", ++steps);
    gradient();
    if (device->plan().accumulate > 1) {
      run("accumulate");
    }
    update();
  }
  float loss() {
    const Scalar &scalar = device->plan().scalars.at("loss");
    device->download({scalar.offset, sizeof(float)});
    float value = 0;
    std::memcpy(&value, device->host() + scalar.offset, sizeof value);
    return value;
  }

  /// Differences between one gradient as graphs, whose streams overlap, and the same gradient
  /// launch after launch; empty if the bits are equal and the loss is finite.
  std::string compareLanes() {
    gradient();
    std::vector<uint8_t> graphs = gradientBytes();
    float loss = this->loss();
    device->startTiming();
    gradient();
    device->synchronize();
    device->stopTiming();
    bool same = gradientBytes() == graphs;
    float serial = this->loss();
    if (!std::isfinite(loss)) {
      return "expected a finite loss, found " + std::to_string(loss);
    }
    return same && std::memcmp(&loss, &serial, sizeof loss) == 0
               ? ""
               : "expected the same bits of loss and gradients from graphs as from one launch "
                 "after another, found others";
  }

  const std::unique_ptr<Device> device;

private:
  std::vector<uint8_t> gradientBytes() {
    std::vector<uint8_t> all;
    for (const Tensor &tensor : device->plan().tensors) {
      int64_t bytes = tensor.elements() * static_cast<int64_t>(sizeof(float));
      device->download({tensor.gradient, bytes});
      const uint8_t *from = device->host() + tensor.gradient;
      all.insert(all.end(), from, from + bytes);
    }
    return all;
  }

  void run(const std::string &entry) {
    auto found = device->plan().entries.find(entry);
    if (found == device->plan().entries.end()) {
      throw UserError(device->artifact().path() + ": expected the entry \"" + entry +
                      "\", found none; record the bundle again");
    }
    device->run(entry, found->second);
  }

  void setScalar(const char *name, int64_t value) {
    int64_t offset = device->plan().scalars.at(name).offset;
    std::memcpy(device->host() + offset, &value, sizeof value);
    device->upload({offset, sizeof value});
  }

  void setTokens() {
    const Plan &plan = device->plan();
    const Region &region = plan.inputs.at("tokens");
    int64_t count = plan.model.batch * (plan.model.context + 1);
    auto *tokens = reinterpret_cast<int32_t *>(device->host() + region.offset);
    fillTextLike({tokens, static_cast<size_t>(count)}, plan.model.vocabulary);
    device->upload({region.offset, count * static_cast<int64_t>(sizeof(int32_t))});
    if (plan.inputs.contains("tokens.count")) {
      setCounts("tokens", plan.model.context);
    }
    for (const auto &[name, given] : plan.given) {
      if (given.on.empty()) { // others have the counts of another input
        setCounts(name, given.capacity);
      }
    }
  }

  /// Every row at its full length.
  void setCounts(const std::string &axis, int64_t capacity) {
    const Plan &plan = device->plan();
    const Region &region = plan.inputs.at(axis + ".count");
    std::fill_n(reinterpret_cast<int64_t *>(device->host() + region.offset), plan.model.batch,
                capacity);
    device->upload({region.offset, plan.model.batch * static_cast<int64_t>(sizeof(int64_t))});
  }

  int64_t steps = 0;
};

constexpr int warmUp = 3, repetitions = 9;

double stepSeconds(Trainer &trainer) {
  std::vector<double> seconds;
  for (int i = 0; i < warmUp + repetitions; ++i) {
    trainer.device->synchronize();
    auto start = std::chrono::steady_clock::now();
    trainer.step();
    trainer.device->synchronize();
    if (i >= warmUp) {
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  return median(seconds);
}

/// Seconds a step spends in each kernel, by the GPU's own events.
Json kernelTimes(Trainer &trainer) {
  const std::vector<PlanKernel> &kernels = trainer.device->plan().kernels;
  std::vector<std::vector<double>> seconds(kernels.size());
  std::vector<int64_t> launches(kernels.size());
  for (int i = 0; i < repetitions; ++i) {
    trainer.gradient(); // keeps the GPU busy while the host issues the timed launches
    trainer.device->startTiming();
    trainer.gradient();
    trainer.update();
    trainer.device->synchronize();
    trainer.device->stopTiming();
    for (size_t k = 0; k < kernels.size(); ++k) {
      launches[k] = trainer.device->times()[k].launches;
      seconds[k].push_back(trainer.device->times()[k].seconds);
    }
  }
  Json list = Json::array();
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (launches[k] > 0) {
      list.push_back({{"kernel", kernels[k].name},
                      {"kind", kernels[k].kind},
                      {"launches", launches[k]},
                      {"seconds", median(seconds[k])},
                      {"flops", kernels[k].flops * launches[k]},
                      {"bytes", kernels[k].bytes * launches[k]}});
    }
  }
  return list;
}

} // namespace

Json timeArtifact(const Path &artifact) {
  Trainer trainer(artifact);
  std::string mistake = trainer.compareLanes();
  double step = stepSeconds(trainer);
  Json kernels = kernelTimes(trainer);
  const ModelFacts &model = trainer.device->plan().model;
  Json made = {{"artifact", artifact.filename().string()},
               {"target", trainer.device->target()},
               {"step_ms", step * 1e3},
               {"tokens_per_s", static_cast<double>(model.batch * model.context) / step},
               {"parameters", model.parameters},
               {"loss", trainer.loss()},
               {"kernels", std::move(kernels)}};
  if (!mistake.empty()) {
    made["error"] = mistake;
  }
  return made;
}

double copyBandwidth() {
  using namespace cuda;
  const Driver &driver = Driver::open();
  Gpu gpu = findGpu(driver);
  Context primary = nullptr;
  driver.check(driver.primaryContextRetain(&primary, gpu.number), "create a context");
  Owned<DeviceNumber> context(gpu.number, driver.primaryContextRelease);
  driver.check(driver.contextSetCurrent(primary), "use its context");
  size_t free = 0, total = 0;
  driver.check(driver.memoryGetInfo(&free, &total), "report its free memory");
  size_t bytes = std::min<size_t>(size_t(1) << 30, free / 4); // far more than any cache
  auto allocate = [&] {
    Address memory = 0;
    driver.check(driver.memoryAllocate(&memory, bytes), "allocate memory");
    return Owned<Address>(memory, driver.memoryFree);
  };
  Owned<Address> from = allocate(), to = allocate();
  Stream made = nullptr;
  driver.check(driver.streamCreate(&made, streamNonBlocking, 0), "create a stream");
  Owned<Stream> stream(made, driver.streamDestroy);
  auto mark = [&] {
    Event event = nullptr;
    driver.check(driver.eventCreate(&event, 0), "create an event");
    Owned<Event> owner(event, driver.eventDestroy);
    driver.check(driver.eventRecord(event, made), "record an event");
    return owner;
  };
  driver.check(driver.memset8(from.get(), 1, bytes, made), "fill memory");
  std::vector<double> seconds;
  for (int i = 0; i < warmUp + repetitions; ++i) {
    Owned<Event> start = mark();
    driver.check(driver.copyOnDevice(to.get(), from.get(), bytes, made), "copy memory");
    Owned<Event> end = mark();
    driver.check(driver.streamSynchronize(made), "copy memory");
    float milliseconds = 0;
    driver.check(driver.eventElapsedTime(&milliseconds, start.get(), end.get()), "time a copy");
    if (i >= warmUp) {
      seconds.push_back(milliseconds * 1e-3);
    }
  }
  return 2 * static_cast<double>(bytes) / median(seconds) / 1e9;
}

} // namespace sluice::gpucheck
