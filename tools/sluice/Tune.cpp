// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Tune.h"

#include "sluice/Runtime/Device/CUDA/CudaTune.h"
#include "sluice/Runtime/Device/Tuning.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <iostream>

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

namespace {

std::string formatShape(const Product &product) {
  return format("%lld x %lld x %lld%s, %s", static_cast<long long>(product.rows),
                static_cast<long long>(product.columns), static_cast<long long>(product.depth),
                product.byInput ? ", by input" : "",
                std::string(getTypeName(product.type)).c_str());
}

void print(const Tuning &tuning, const std::string &file) {
  std::cout << format("%-44s %12s %12s  %s\n", "product (rows x columns x depth)", "generated us",
                      "cuBLASLt us", "faster");
  int64_t won = 0;
  for (const TunedProduct &tuned : tuning.products) {
    won += tuned.libraryWins;
    std::cout << format(
        "%-44s %12.2f %12s  %s\n", formatShape(tuned.product).c_str(), tuned.generatedSeconds * 1e6,
        tuned.librarySeconds ? format("%.2f", *tuned.librarySeconds * 1e6).c_str() : "-",
        tuned.libraryWins ? "cuBLASLt" : "generated");
  }
  std::cout << format("%lld of %zu products go to cuBLASLt with sluice compile --tuning %s\n",
                      static_cast<long long>(won), tuning.products.size(), file.c_str())
            << std::flush;
}

} // namespace

void runTune(const std::string &artifact, const DeviceOptions &device, const std::string &file,
             bool json, bool force) {
  if (device.device != "cuda") {
    throw UserError("--tune: expected --device cuda, found --device " + device.device +
                    "; products are timed on a GPU alone");
  }
  checkOutputs({{"--tune", file, FileKind::Tuning}}, {artifact}, force);
  std::shared_ptr<const Artifact> loaded = Artifact::load(artifact, device.target);
  Progress progress;
  Tuning tuning = tuneProducts(*loaded, device.gpuTarget, [&](const TunedProduct &tuned) {
    progress.plainLine("timed " + formatShape(tuned.product));
  });
  if (!tuning.notice.empty()) {
    std::cerr << "sluice: " << tuning.notice << std::endl;
  }
  writeTuning(file, tuning);
  if (json) {
    printJson(nlohmann::json::parse(readText(file, "tuning file")));
  } else {
    print(tuning, file);
  }
}

std::vector<driver::LibraryProduct> readLibraryProducts(const std::string &file,
                                                        const std::vector<std::string> &targets) {
  auto isWanted = [&](const std::string &target) {
    return std::count(targets.begin(), targets.end(), target) > 0;
  };
  if (std::none_of(targets.begin(), targets.end(), isGpuTarget)) {
    throw UserError("--tuning: expected a GPU among the targets (--target sm_80 or sm_90a), found "
                    "none; add one, or leave out --tuning");
  }
  Tuning tuning = readTuning(file);
  std::vector<driver::LibraryProduct> products;
  std::string found;
  bool any = false;
  for (const TunedProduct &tuned : tuning.products) {
    any |= isWanted(tuned.target);
    if (found.find(tuned.target) == std::string::npos) {
      found += (found.empty() ? "" : ", ") + tuned.target;
    }
    if (tuned.libraryWins && isWanted(tuned.target)) {
      const Product &product = tuned.product;
      products.push_back({tuned.target, product.rows, product.columns, product.depth,
                          product.byInput, product.type == Type::f32, tuning.libraryVersion,
                          showAlgorithm(tuned.algorithm)});
    }
  }
  if (!any) {
    throw UserError(
        file + ": expected products timed for the GPU targets of this compile, found " +
        (found.empty() ? "none" : "those of " + found) +
        "; write it anew with sluice bench --device cuda --tune, or leave out --tuning");
  }
  return products;
}

} // namespace sluice::cli
