// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Nccl.h"

#include "sluice/Support/Error.h"

#include <cstdlib>
#include <dlfcn.h>
#include <type_traits>

namespace sluice::runtime::nccl {
namespace {

constexpr const char *remedy =
    "; install NCCL 2.18 or later (libnccl2), or set SLUICE_NCCL to its libnccl.so.2";

NcclLibrary load() {
  const char *named = std::getenv("SLUICE_NCCL");
  std::string path = named && *named ? named : "libnccl.so.2";
  void *opened = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) {
    const char *error = ::dlerror();
    throw UserError("--device cuda: expected NCCL, by which several processes exchange gradients, "
                    "found none that loads (" +
                    std::string(error ? error : path) + ")" + remedy);
  }
  NcclLibrary l{};
  auto get = [&](const char *symbol, auto &function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(opened, symbol));
    if (!function) {
      throw UserError(path + ": expected NCCL 2.18 or later, found a library without " + symbol +
                      remedy);
    }
  };
  get("ncclGetVersion", l.getVersion);
  NcclResult result = l.getVersion(&l.version);
  if (result != success || l.version < leastVersion) {
    throw UserError(path + ": expected NCCL 2.18 or later, found " +
                    (result == success ? showVersion(l.version) : "one without a version") +
                    remedy);
  }
  get("ncclGetUniqueId", l.getUniqueId);
  get("ncclGetErrorString", l.getErrorString);
  get("ncclGetLastError", l.getLastError);
  get("ncclCommInitRankConfig", l.initRank);
  get("ncclCommAbort", l.abort);
  get("ncclCommGetAsyncError", l.getAsyncError);
  get("ncclGroupStart", l.groupStart);
  get("ncclGroupEnd", l.groupEnd);
  get("ncclSend", l.send);
  get("ncclRecv", l.receive);
  return l;
}

} // namespace

/// Until 2.8 a version had one digit for the minor number.
std::string showVersion(int version) {
  int scale = version < 10000 ? 1000 : 10000;
  return std::to_string(version / scale) + "." + std::to_string(version % scale / 100) + "." +
         std::to_string(version % 100);
}

const NcclLibrary &NcclLibrary::open() {
  static const NcclLibrary library = load();
  return library;
}

std::string NcclLibrary::explain(NcclResult result, Communicator communicator) const {
  const char *name = getErrorString(result), *last = getLastError(communicator);
  return std::string(name ? name : "error " + std::to_string(result)) +
         (last && *last ? std::string(", ") + last : "");
}

} // namespace sluice::runtime::nccl
