// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "GpuCheck.h"

#include "Device/CUDA/CudaGpu.h"
#include "sluice/Runtime/Device/CUDA/CudaDevice.h"
#include "sluice/Runtime/Device/CheckLaunches.h"
#include "sluice/Runtime/Device/Emulator/EmulatorDevice.h"
#include "sluice/Runtime/Device/Recording.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/StrictJson.h"

#include <functional>
#include <iostream>

namespace sluice::gpucheck {

using namespace sluice;
using namespace sluice::runtime;

Json readJson(const Path &path, const std::string &what) {
  return sluice::readJson(readText(path, what), path.string(), "JSON",
                          "; make the " + what + " again");
}

void tellNotice(const Device &device) {
  if (!device.notice().empty()) {
    std::cerr << "sluice-gpu-check: " << device.notice() << std::endl;
  }
}

Json checkRecording(const Path &artifact, const Path &recording, const std::string &device,
                    const std::string &target, const Path &goldens) {
  std::shared_ptr<const Artifact> loaded = Artifact::load(artifact);
  Recording recorded = readRecording(recording);
  requireSameArtifact(recorded, *loaded, recording);
  std::unique_ptr<Device> opened =
      device == "cuda" ? makeCudaDevice(loaded, target) : makeEmulatorDevice(loaded, target);
  tellNotice(*opened);
  Json kernels = Json::array();
  for (RecordedLaunch &launch : recorded.launches) {
    RecordedLaunch left;
    LaunchCheck check = checkLaunch(*opened, launch, &left);
    kernels.push_back({{"kernel", check.kernel},
                       {"checked", check.checked},
                       {"unbounded", check.unbounded},
                       {"wrong", check.wrong},
                       {"differing", check.differing},
                       {"first", check.first}});
    launch = std::move(left);
  }
  recorded.device = opened->describe();
  if (!goldens.empty()) {
    writeRecording(goldens, recorded);
  }
  return {{"artifact", artifact.filename().string()},
          {"target", opened->target()},
          {"kernels", std::move(kernels)}};
}

/// Returns the list of objects under `key`; each must have the keys `needed`.
static Json getList(const Json &bundle, const char *key, std::initializer_list<const char *> needed,
                    const Path &path) {
  Json list = bundle.contains(key) ? bundle[key] : Json();
  bool fits = list.is_array();
  for (const Json &each : fits ? list : Json::array()) {
    for (const char *name : needed) {
      fits &= each.is_object() && each.contains(name) && each[name].is_string();
    }
  }
  if (!fits) {
    throw UserError(path.string() + ": expected a list of \"" + key +
                    "\", found none like it; record the bundle again");
  }
  return list;
}

/// Returns the result of `action` together with its input; if it fails, "error" instead of the
/// result.
static Json attempt(const Json &what, const std::function<Json()> &action) {
  Json made = what;
  try {
    made.update(action());
  } catch (const std::exception &error) {
    made["error"] = error.what();
    std::cerr << "sluice-gpu-check: error: " << error.what() << std::endl;
  }
  return made;
}

Json runBundle(const Path &bundle, const Path &folder) {
  Path manifest = bundle / "bundle.json";
  Json json = readJson(manifest, "bundle");
  if (!json.is_object() || json.value("format", "") != "sluice-gpu-bundle" ||
      json.value("version", 0) != 1) {
    throw UserError(manifest.string() +
                    ": expected a sluice-gpu-bundle of version 1, found another file; record the "
                    "bundle again with this version of sluice");
  }
  Json checks = getList(json, "checks", {"artifact", "recording"}, manifest),
       timed = getList(json, "timed", {"artifact", "label"}, manifest);
  const cuda::Driver &driver = cuda::Driver::open();
  cuda::Gpu gpu = cuda::findGpu(driver);
  Json result = {{"gpu", gpu.name}, {"capability", gpu.capability()}};
  auto keep = [&] { replaceFile(folder / "sluice.json", asBytes(result.dump(1) + "\n")); };
  keep();
  for (const Json &check : checks) {
    Path artifact = bundle / check["artifact"].get<std::string>(),
         recording = bundle / check["recording"].get<std::string>();
    for (const std::string &target : Artifact::load(artifact)->plan().gpuTargets()) {
      if (target == "sm_90a" && !(gpu.major == 9 && gpu.minor == 0)) {
        continue;
      }
      std::cerr << "checking " << artifact.filename().string() << ", " << target << std::endl;
      Path goldens = folder / ("goldens-" + recording.stem().string() + "-" + target + ".rec");
      result["checks"].push_back(
          attempt({{"artifact", artifact.filename().string()}, {"target", target}},
                  [&] { return checkRecording(artifact, recording, "cuda", target, goldens); }));
      keep();
    }
  }
  result["copy"] = attempt(Json::object(), [] { return Json{{"gbytes_per_s", copyBandwidth()}}; });
  for (const Json &each : timed) {
    std::cerr << "timing " << each["label"].get<std::string>() << std::endl;
    result["timed"].push_back(attempt({{"label", each["label"]}}, [&] {
      return timeArtifact(bundle / each["artifact"].get<std::string>());
    }));
    keep();
  }
  result["ended"] = true;
  keep();
  return result;
}

} // namespace sluice::gpucheck
