// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The emulator behind a C interface, for the runtime, which knows no LLVM.
#include "sluice/Emulator/Emulator.h"
#include "sluice/Runtime/EmulatorPlugin.h"

#include <cstring>

using namespace sluice::emulator;

#define SLUICE_EXPORT extern "C" __attribute__((visibility("default")))

static void tell(char **message, const std::string &text) { *message = ::strdup(text.c_str()); }

SLUICE_EXPORT int sluice_emulator_abi(void) { return sluiceEmulatorAbi; }

SLUICE_EXPORT void *sluice_emulator_create(const void *bitcode, size_t bytes, const char *kernel,
                                           char **message) {
  auto made = Emulator::create(llvm::StringRef(static_cast<const char *>(bitcode), bytes), kernel);
  if (!made) {
    tell(message, llvm::toString(made.takeError()));
    return nullptr;
  }
  return made->release();
}

SLUICE_EXPORT int sluice_emulator_launch(void *kernel, const SluiceEmulatorLaunch *request,
                                         char **message) {
  Launch launch;
  launch.grid = {request->blocks, 1, 1};
  launch.block = {request->threads, 1, 1};
  launch.dynamicSharedBytes = request->sharedBytes;
  launch.arguments.assign(request->arguments, request->arguments + request->argumentCount);
  for (size_t i = 0; i < request->bufferCount; ++i) {
    const SluiceEmulatorBuffer &buffer = request->buffers[i];
    launch.buffers.push_back({buffer.name, buffer.data, buffer.bytes,
                              buffer.written ? Writes::Any : Writes::None,
                              buffer.initialized != 0});
  }
  Options options;
  options.seed = request->seed;
  options.schedule = Schedule::WarpAlone;
  options.countTraffic = false;
  Report report = static_cast<Emulator *>(kernel)->launch(launch, options);
  if (!report.passed()) {
    tell(message, report.str());
  }
  return static_cast<int>(report.violations.size());
}

SLUICE_EXPORT void sluice_emulator_destroy(void *kernel) { delete static_cast<Emulator *>(kernel); }

SLUICE_EXPORT void sluice_emulator_free(char *message) { ::free(message); }
