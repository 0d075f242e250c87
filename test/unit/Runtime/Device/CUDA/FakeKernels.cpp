// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "FakeKernels.h"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <dlfcn.h>
#include <map>

namespace {

void nothing(uint8_t *, const int64_t *, int64_t, uint8_t *) {}

using Kernels = std::map<std::string, FakeKernel>; // by symbol

/// The CPU code of every GPU stage of the plan in the library.
Kernels readPlan(void *library) {
  Kernels kernels;
  const auto *text = static_cast<const char *>(::dlsym(library, "sluice_plan"));
  const auto *size = static_cast<const uint64_t *>(::dlsym(library, "sluice_plan_size"));
  nlohmann::json plan = nlohmann::json::parse(text, text + *size);
  for (const auto &kernel : plan["kernels"]) {
    const auto &variants = kernel["variants"];
    if (!variants.contains("cpu-avx2") || !variants.contains("sm_80")) {
      continue;
    }
    const auto &cpu = variants["cpu-avx2"];
    FakeKernel first{reinterpret_cast<FakeKernel::HostKernel>(
                         ::dlsym(library, cpu["symbol"].get<std::string>().c_str())),
                     cpu["items"], cpu["scratch_bytes"]};
    for (const auto &stage : variants["sm_80"]["stages"]) {
      kernels[stage["symbol"]] = first;
      first = {nothing, 0, 0};
    }
  }
  return kernels;
}

struct Loaded {
  void *library = nullptr;
  Kernels kernels;
};

Loaded &load(const std::string &path) {
  static std::map<std::string, Loaded> all; // addresses of found kernels are stable
  Loaded &loaded = all[path];
  if (!loaded.library) {
    loaded.library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    loaded.kernels = loaded.library ? readPlan(loaded.library) : Kernels();
  }
  return loaded;
}

} // namespace

const FakeKernel *findFakeKernel(const std::string &symbol) {
  const char *path = std::getenv("FAKE_CUDA_KERNELS");
  Loaded &loaded = load(path ? path : "");
  if (!loaded.library) {
    return nullptr;
  }
  if (void *own = ::dlsym(loaded.library, symbol.c_str())) {
    loaded.kernels[symbol] = {reinterpret_cast<FakeKernel::HostKernel>(own)};
  }
  auto found = loaded.kernels.find(symbol);
  return found != loaded.kernels.end() && found->second.code ? &found->second : nullptr;
}
