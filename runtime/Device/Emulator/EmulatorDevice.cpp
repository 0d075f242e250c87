// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emulates GPU kernels on the CPU with the plug-in that contains LLVM and the emulator.
#include "sluice/Runtime/Device/Emulator/EmulatorDevice.h"

#include "Device/HostDevice.h"
#include "sluice/Runtime/Device/Emulator/EmulatorPlugin.h"
#include "sluice/Runtime/Plan/BatchShapes.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Files.h"

#include <algorithm>
#include <dlfcn.h>
#include <span>

namespace sluice::runtime {
namespace {

constexpr const char *pluginName = "libsluice_emulator_plugin.so";

/// The plug-in's functions. It stays loaded, since LLVM does not support unloading.
struct Plugin {
  decltype(&sluice_emulator_create) create;
  decltype(&sluice_emulator_launch) launch;
  decltype(&sluice_emulator_destroy) destroy;
  decltype(&sluice_emulator_free) free;
  decltype(&sluice_judge_create) createJudge;
  decltype(&sluice_judge_launch) judge;
  decltype(&sluice_judge_destroy) destroyJudge;

  /// Takes ownership of a message.
  std::string take(char *message) const {
    std::string text = message ? message : "no reason given";
    free(message);
    return text;
  }
};

template <typename T> bool find(void *library, const char *symbol, T &function) {
  function = reinterpret_cast<T>(::dlsym(library, symbol));
  return function != nullptr;
}

const Plugin &openPlugin() {
  static const Plugin plugin = [] {
    Dl_info self{};
    ::dladdr(reinterpret_cast<void *>(&makeEmulatorDevice), &self);
    Path folder = Path(self.dli_fname).parent_path();
    Path beside = folder / pluginName, built = folder / "../lib" / pluginName;
    std::string path = (!isThere(beside) && isThere(built) ? built : beside).string();
    void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char *error = ::dlerror();
      throw UserError(path + ": expected the emulator, found none that loads (" +
                      (error ? error : "unknown reason") +
                      "); build the target sluice_emulator_plugin, or use another --device");
    }
    Plugin found{};
    decltype(&sluice_emulator_abi) abi = nullptr;
    if (!find(library, "sluice_emulator_abi", abi) || abi() != sluiceEmulatorAbi ||
        !find(library, "sluice_emulator_create", found.create) ||
        !find(library, "sluice_emulator_launch", found.launch) ||
        !find(library, "sluice_emulator_destroy", found.destroy) ||
        !find(library, "sluice_emulator_free", found.free) ||
        !find(library, "sluice_judge_create", found.createJudge) ||
        !find(library, "sluice_judge_launch", found.judge) ||
        !find(library, "sluice_judge_destroy", found.destroyJudge)) {
      throw UserError(path + ": expected the emulator of this version of sluice, found another; "
                             "build both together");
    }
    return found;
  }();
  return plugin;
}

struct DestroyKernel {
  void operator()(void *kernel) const { openPlugin().destroy(kernel); }
};
struct DestroyJudge {
  void operator()(void *judge) const { openPlugin().destroyJudge(judge); }
};

class EmulatorDevice : public HostDevice {
public:
  EmulatorDevice(std::shared_ptr<const Artifact> artifact, const std::string &wanted,
                 Observer observer)
      : HostDevice(std::move(artifact)),
        chosen(loaded->requireGpuTargets("emulator", wanted).front()), plugin(openPlugin()),
        observer(std::move(observer)) {
    arena = makeArena(*loaded);
    for (const PlanKernel &kernel : plan().kernels) {
      kernels.emplace_back(requireVariant(*loaded, kernel, chosen).stages.size());
    }
    judges.resize(kernels.size());
  }

  std::string target() const override { return chosen; }
  std::string describe() const override { return "emulated"; }

  void launch(const Launch &node, const std::optional<ResultParts> &) override {
    auto start = Clock::now();
    std::vector<std::vector<uint8_t>> before = getOperandRecords(node);
    runStages(node);
    judgeLaunch(node, before);
    if (timing) {
      addTime(node, since(start));
    }
  }

private:
  void runStages(const Launch &launch) {
    const PlanKernel &kernel = plan().kernels[static_cast<size_t>(launch.kernel)];
    const DeviceVariant &variant = kernel.deviceVariants.at(chosen);
    for (size_t i = 0; i < variant.stages.size(); ++i) {
      const DeviceStage &stage = variant.stages[i];
      std::vector<SluiceEmulatorBuffer> buffers = getBuffers(kernel, variant, launch, i > 0);
      uint64_t arguments[] = {reinterpret_cast<uint64_t>(arena.get()),
                              reinterpret_cast<uint64_t>(launch.arguments.data())};
      SluiceEmulatorLaunch request = {static_cast<uint32_t>(stage.blocks),
                                      static_cast<uint32_t>(stage.threads),
                                      static_cast<uint64_t>(stage.sharedBytes),
                                      arguments,
                                      std::size(arguments),
                                      buffers.data(),
                                      buffers.size(),
                                      ++launched,
                                      nullptr};
      SluiceEmulatorCounts counts = {};
      request.counts = timing ? &counts : nullptr;
      char *message = nullptr;
      if (int count = plugin.launch(translate(launch.kernel, variant, i), &request, &message)) {
        throw JobError("the emulator found " + std::to_string(count) +
                       (count == 1 ? " violation" : " violations") + " in kernel \"" + kernel.name +
                       "\" (" + stage.symbol + ", " + chosen +
                       "), expected none; this is a defect of sluice, please report it:\n" +
                       plugin.take(message));
      }
      if (timing) {
        count(counts, kernelTimes[static_cast<size_t>(launch.kernel)].counts);
      }
    }
    checkCounters(kernel, variant, launch);
  }

  static void count(const SluiceEmulatorCounts &from, KernelCounts &to) {
    auto add = [](int64_t &sum, uint64_t value) { sum += static_cast<int64_t>(value); };
    add(to.instructions, from.instructions);
    add(to.tensorInstructions, from.tensorInstructions);
    add(to.barriers, from.barriers);
    add(to.bytes, from.readBytes + from.writtenBytes);
    add(to.sectors, from.sectors);
    add(to.leastSectors, from.leastSectors);
    add(to.passes, from.passes);
    add(to.leastPasses, from.leastPasses);
  }

  /// Checks that the counters are zero, as the next launch requires.
  void checkCounters(const PlanKernel &kernel, const DeviceVariant &variant, const Launch &launch) {
    std::span<const uint8_t> counters = getCounters(variant, launch);
    if (std::any_of(counters.begin(), counters.end(), [](uint8_t byte) { return byte != 0; })) {
      throw JobError("kernel \"" + kernel.name + "\" (" + chosen +
                     ", emulated) leaves a counter of arrived blocks that is not zero, expected "
                     "all to be; this is a defect of sluice, please report it");
    }
  }

  std::span<uint8_t> getCounters(const DeviceVariant &variant, const Launch &launch) {
    if (variant.counters == 0) {
      return {};
    }
    size_t bytes = static_cast<size_t>(variant.counters) * sizeof(int32_t);
    return {arena.get() + launch.arguments.back() - bytes, bytes};
  }

  const PlanKernel &getLaunchKernel(const Launch &launch) const {
    return plan().kernels[static_cast<size_t>(launch.kernel)];
  }

  /// Copies the contents of the operands, since results may alias them.
  std::vector<std::vector<uint8_t>> getOperandRecords(const Launch &launch) {
    std::vector<std::vector<uint8_t>> copies;
    const std::vector<Operand> &operands = getLaunchKernel(launch).operands;
    for (size_t i = 0; i < operands.size() && !operands[i].written; ++i) {
      const uint8_t *from = arena.get() + launch.arguments[i];
      copies.emplace_back(from, from + operands[i].bytes);
    }
    return copies;
  }

  /// Checks the results of a launch with the operands `before` against a float64 reference.
  void judgeLaunch(const Launch &launch, const std::vector<std::vector<uint8_t>> &before) {
    const PlanKernel &kernel = getLaunchKernel(launch);
    if (kernel.operands.empty()) {
      return; // a handwritten plan without dispatches
    }
    std::vector<const void *> buffers;
    for (size_t i = 0; i < kernel.operands.size(); ++i) {
      buffers.push_back(i < before.size() ? before[i].data() : arena.get() + launch.arguments[i]);
    }
    std::span<const int64_t> lengths = lengthsOfTexts(plan(), launch, arena.get());
    // Dispatches that draw random numbers by the update's rows have one more scalar.
    size_t scalars = kernel.operands.size(), firstStream = launch.arguments.size() - 2;
    auto at = [&](size_t number) {
      return reinterpret_cast<const int64_t *>(arena.get() + launch.arguments[scalars + number]);
    };
    auto scalar = [&](size_t number) { return *at(number); };
    SluiceJudgedLaunch request = {buffers.data(),
                                  buffers.size(),
                                  scalar(0), // length, rows, step, seed
                                  scalar(1),
                                  scalar(2),
                                  scalar(3),
                                  launch.arguments[firstStream],
                                  lengths.empty() ? nullptr : lengths.data(),
                                  firstStream > scalars + 4 ? at(4) : nullptr,
                                  observer ? &EmulatorDevice::observe : nullptr,
                                  this};
    char *message = nullptr;
    if (plugin.judge(getJudge(launch.kernel), &request, &message)) {
      throw JobError("kernel \"" + kernel.name + "\" (" + chosen +
                     ", emulated) computes other numbers than its operands have in float64, "
                     "rounding allowed for; this is a defect of sluice, please report it:\n" +
                     plugin.take(message));
    }
  }

  /// Callback of the plug-in.
  static void observe(void *self, const SluiceExpectation *told) {
    Type type = told->type == 'f'   ? Type::f32
                : told->type == 'b' ? Type::bf16
                : told->type == 'i' ? Type::i32
                                    : Type::i64;
    static_cast<EmulatorDevice *>(self)->observer({told->result, told->row, told->column,
                                                   told->rows, told->stride, type, told->value,
                                                   told->bound});
  }

  void *getJudge(int64_t kernel) {
    std::unique_ptr<void, DestroyJudge> &known = judges[static_cast<size_t>(kernel)];
    if (!known) {
      std::span<const uint8_t> text = loaded->blob("k" + std::to_string(kernel) + "_dispatch");
      char *message = nullptr;
      known.reset(
          plugin.createJudge(reinterpret_cast<const char *>(text.data()), text.size(), &message));
      if (!known) {
        throw JobError("the oracle does not take kernel " +
                       plan().kernels[static_cast<size_t>(kernel)].name + ": " +
                       plugin.take(message));
      }
    }
    return known.get();
  }

  /// Returns the buffers that a launch may touch; for an operand that exists only in part in a
  /// bucket, that part. Results and the workspace are uninitialized before the first stage; but a
  /// recurrence of a decode step reads a row of its results that an earlier launch stored.
  std::vector<SluiceEmulatorBuffer> getBuffers(const PlanKernel &kernel,
                                               const DeviceVariant &variant, const Launch &launch,
                                               bool later) {
    bool readsResults = later || kernel.name.starts_with("recurrence_");
    std::vector<SluiceEmulatorBuffer> buffers;
    auto add = [&](const char *name, int64_t offset, int64_t bytes, bool written, bool filled) {
      buffers.push_back(
          {name, arena.get() + offset, static_cast<uint64_t>(bytes), written, filled});
    };
    if (kernel.operands.empty()) {
      add("the arena", 0, plan().memory.arenaBytes, true, true);
    }
    for (size_t i = 0; i < kernel.operands.size(); ++i) {
      const Operand &operand = kernel.operands[i];
      auto found = std::ranges::find(launch.runs, i, &Runs::operand);
      bool isWhole = found == launch.runs.end();
      Runs runs = isWhole ? Runs{i, 1, 0, operand.bytes} : *found;
      const char *name = operand.written ? "a result" : "an operand";
      if (!isWhole) {
        name = operand.written ? "a text's rows of a result" : "a text's rows of an operand";
      }
      for (int64_t run = 0; run < runs.count; ++run) {
        add(name, launch.arguments[i] + run * runs.stride, runs.bytes, operand.written,
            readsResults || !operand.written);
      }
    }
    for (const char *name : {"length", "rows", "step", "seed", "draw_rows"}) {
      if (auto scalar = plan().scalars.find(name); scalar != plan().scalars.end()) {
        int64_t count = name == std::string_view("draw_rows") ? countMostRows(plan()) : 1;
        add(name, scalar->second.offset, count * getByteSize(scalar->second.type), false, true);
      }
    }
    if (auto lengths = lengthsOfTexts(plan(), launch, arena.get()); !lengths.empty()) {
      buffers.push_back(
          {"the lengths of segments", lengths.data(), lengths.size_bytes(), false, true});
    }
    if (variant.workspaceBytes > 0) {
      add("the workspace", launch.arguments.back(), variant.workspaceBytes, true, later);
    }
    if (std::span<uint8_t> counters = getCounters(variant, launch); !counters.empty()) {
      buffers.push_back({"the counters", counters.data(), counters.size(), true, true});
    }
    buffers.push_back({"the launch's arguments", const_cast<int64_t *>(launch.arguments.data()),
                       launch.arguments.size() * sizeof(int64_t), false, true});
    return buffers;
  }

  void *translate(int64_t kernel, const DeviceVariant &variant, size_t stage) {
    std::unique_ptr<void, DestroyKernel> &known = kernels[static_cast<size_t>(kernel)][stage];
    if (!known) {
      std::span<const uint8_t> bitcode = loaded->blob(variant.module + "_bitcode");
      char *message = nullptr;
      known.reset(plugin.create(bitcode.data(), bitcode.size(),
                                variant.stages[stage].symbol.c_str(), &message));
      if (!known) {
        throw JobError("the emulator does not take kernel " + variant.stages[stage].symbol +
                       " of " + chosen + ": " + plugin.take(message));
      }
    }
    return known.get();
  }

  std::string chosen;
  const Plugin &plugin;
  const Observer observer;
  std::vector<std::vector<std::unique_ptr<void, DestroyKernel>>> kernels; // by kernel and stage
  std::vector<std::unique_ptr<void, DestroyJudge>> judges;                // by kernel
  uint64_t launched = 0;
};

} // namespace

std::unique_ptr<Device> makeEmulatorDevice(std::shared_ptr<const Artifact> artifact,
                                           const std::string &target, Observer observer) {
  return std::make_unique<EmulatorDevice>(std::move(artifact), target, std::move(observer));
}

} // namespace sluice::runtime
