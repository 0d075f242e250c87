// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Plan/Artifact.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/FileKind.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Processor.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice::runtime {
namespace {

template <typename T> T fetch(const uint8_t *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

[[noreturn]] void refuse(const std::string &origin, const std::string &what) {
  throw UserError(origin + ": " + what + "; compile the spec again");
}

std::string list(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Throws JobError unless one more file can be opened and mapped.
void requireRoom(const std::string &name) {
  int file = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && isMachineFailure(errno)) {
    failWith(std::string("cannot load the artifact: ") + std::strerror(errno) +
                 "; raise the limit on open files (ulimit -n)",
             errno);
  }
  struct stat status{};
  bool known = file >= 0 && ::fstat(file, &status) == 0;
  auto size = static_cast<size_t>(known ? status.st_size : 1);
  void *all = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  int error = errno;
  ::close(file);
  if (known && all == MAP_FAILED && isMachineFailure(error)) {
    throw std::bad_alloc();
  }
  if (known && all != MAP_FAILED) {
    ::munmap(all, size);
  }
}

} // namespace

std::vector<std::string> machineTargets() {
  __builtin_cpu_init();
  std::vector<std::string> targets;
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
    if (__builtin_cpu_supports("avx512vnni")) {
      if (__builtin_cpu_supports("avx512bf16")) {
        if (hasTiles()) {
          targets.emplace_back("cpu-amx");
        }
        targets.emplace_back("cpu-avx512-bf16");
      }
      targets.emplace_back("cpu-avx512-vnni");
    }
    targets.emplace_back("cpu-avx512");
  }
  if (avx2) {
    targets.emplace_back("cpu-avx2");
  }
  return targets;
}

std::shared_ptr<const Artifact> Artifact::load(const Path &path, const std::string &target) {
  requireKind(path, FileKind::Artifact, "a Sluice artifact");
  return fromBytes(readBytes(path, "artifact"), showPath(path.native()), target);
}

std::shared_ptr<const Artifact> Artifact::loadForAnyMachine(const Path &path) {
  requireKind(path, FileKind::Artifact, "a Sluice artifact");
  auto artifact = readAll(readBytes(path, "artifact"), showPath(path.native()));
  try {
    artifact->chooseTarget("");
  } catch (const UserError &error) {
    artifact->cpuProblem = error.what();
  }
  return artifact;
}

/// Reads an artifact without selecting a target.
std::shared_ptr<Artifact> Artifact::readAll(std::vector<uint8_t> bytes, std::string origin) {
  std::shared_ptr<Artifact> artifact(new Artifact);
  artifact->origin = std::move(origin);
  artifact->contents = std::move(bytes);
  checkTrailer(artifact->contents, artifact->origin);
  artifact->open();
  artifact->readPlan();
  return artifact;
}

std::shared_ptr<const Artifact> Artifact::fromBytes(std::vector<uint8_t> bytes, std::string origin,
                                                    const std::string &target) {
  std::shared_ptr<Artifact> artifact = readAll(std::move(bytes), std::move(origin));
  const char *environment = std::getenv("SLUICE_CPU_TARGET");
  try {
    artifact->chooseTarget(!target.empty() ? target : environment ? environment : "");
  } catch (const UserError &error) {
    if (artifact->parsedPlan.gpuTargets().empty()) {
      throw;
    }
    artifact->cpuProblem =
        std::string(error.what()) +
        ", with --target cpu in addition to the GPUs, or use --device cuda or emulator";
  }
  return artifact;
}

void Artifact::requireCpu() const {
  if (!cpuProblem.empty()) {
    throw UserError(cpuProblem);
  }
}

std::vector<std::string> Artifact::requireGpuTargets(const std::string &device,
                                                     const std::string &wanted) const {
  std::vector<std::string> targets = parsedPlan.gpuTargets();
  if (!targets.empty() && (wanted.empty() || contains(targets, wanted))) {
    return wanted.empty() ? targets : std::vector{wanted};
  }
  throw UserError(
      origin + ": expected code for " + (wanted.empty() ? "a GPU (sm_80 or sm_90a)" : wanted) +
      " for --device " + device + ", found code for " + list(parsedPlan.targets) +
      "; compile the spec again with --target cpu," + (wanted.empty() ? "sm_80,sm_90a" : wanted));
}

std::span<const uint8_t> Artifact::blob(const std::string &symbol) const {
  void *bytes = ::dlsym(library, symbol.c_str());
  if (!bytes) {
    return {};
  }
  uint64_t size = fetch<uint64_t>(static_cast<const uint8_t *>(require(symbol + "_size")));
  if (size > contents.size()) {
    refuse(origin, "expected \"" + symbol + "\" inside the artifact, found " +
                       std::to_string(size) + " bytes of it");
  }
  return {static_cast<const uint8_t *>(bytes), size};
}

Artifact::~Artifact() {
  if (library) {
    ::dlclose(library);
  }
}

/// Loads the bytes that were checked, through an anonymous file, because the path may refer to
/// other bytes by now. The file stays open while the library is loaded: the loader identifies
/// libraries by path, and would mistake a reused descriptor's path for the old library.
void Artifact::open() {
  memoryFile.emplace("sluice-artifact");
  memoryFile->write(elf());
  std::string name = memoryFile->path();
  library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *error = ::dlerror();
    // The loader's message does not distinguish errors of the file from errors of the machine.
    requireRoom(name);
    refuse(origin, std::string("the artifact's code does not load here: ") +
                       (error ? error : "unknown reason"));
  }
}

void *Artifact::require(const std::string &symbol) const {
  void *address = ::dlsym(library, symbol.c_str());
  if (!address) {
    refuse(origin, "expected the artifact to define \"" + symbol + "\", found no such symbol");
  }
  return address;
}

void Artifact::readPlan() {
  const auto *plan = static_cast<const char *>(require("sluice_plan"));
  uint64_t size = fetch<uint64_t>(static_cast<const uint8_t *>(require("sluice_plan_size")));
  if (size > contents.size()) {
    refuse(origin,
           "expected a plan inside the artifact, found one of " + std::to_string(size) + " bytes");
  }
  text.assign(plan, size);
  parsedPlan = parsePlan(text, origin);
  if (parsedPlan.constantsBytes > 0) {
    if (static_cast<uint64_t>(parsedPlan.constantsBytes) > contents.size()) {
      refuse(origin, "expected constants inside the artifact, found " +
                         std::to_string(parsedPlan.constantsBytes) + " bytes of them");
    }
    constantTable = {static_cast<const uint8_t *>(require("sluice_constants")),
                     static_cast<size_t>(parsedPlan.constantsBytes)};
  }
}

void Artifact::chooseTarget(const std::string &wanted) {
  std::vector<std::string> machine = machineTargets();
  if (machine.empty()) {
    throw UserError(origin + ": expected a CPU with AVX2 and FMA (x86-64-v3), found one without; "
                             "run on a newer machine");
  }
  if (!wanted.empty() && !contains(machine, wanted)) {
    throw UserError("expected a CPU target that this machine runs (" + list(machine) + "), found " +
                    quote(wanted) + "; change the flag or SLUICE_CPU_TARGET");
  }
  // A model without bf16 has no code of its own for instructions on bf16, and one without weights
  // in whole numbers none for VNNI: code with AVX-512 runs on every machine with more than that.
  auto first = wanted.empty() ? machine.begin() : std::find(machine.begin(), machine.end(), wanted);
  auto fits = [&](const std::string &target) {
    return wanted.empty() || target == wanted || target.starts_with("cpu-avx512");
  };
  for (const std::string &target : std::vector(first, machine.end())) {
    bool exists = fits(target) && contains(parsedPlan.targets, target);
    if (exists && (target != "cpu-amx" || requestTiles())) {
      chosenTarget = target;
      break;
    }
  }
  if (chosenTarget.empty()) {
    std::string message = "expected code for " + (wanted.empty() ? list(machine) : wanted) +
                          ", found code for " + list(parsedPlan.targets);
    if (!parsedPlan.gpuTargets().empty()) {
      refuse(origin, message); // fromBytes adds the remedy
    }
    throw UserError(origin + ": " + message + "; compile the spec again " +
                    (wanted.empty() ? "on this machine" : "with --target " + wanted) +
                    ", or with --target cpu for every machine");
  }
  for (const PlanKernel &kernel : parsedPlan.kernels) {
    auto variant = kernel.variants.find(chosenTarget);
    if (variant == kernel.variants.end()) {
      refuse(origin, "kernel \"" + kernel.name + "\" has no code for " + chosenTarget);
    }
    auto *function = reinterpret_cast<KernelFunction>(require(variant->second.symbol));
    functions.push_back(
        {function, variant->second.items, variant->second.scratchBytes, variant->second.phases});
  }
}

} // namespace sluice::runtime
