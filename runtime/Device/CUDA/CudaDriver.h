// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declares the part of NVIDIA's driver API that is used. The driver is loaded at run time: neither
// building nor running on other devices requires CUDA. Names and numbers are from the driver API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::runtime::cuda {

using Result = int; // CUresult
using DeviceNumber = int;
using Address = unsigned long long; // CUdeviceptr
using Context = struct CUctx_st *;
using Module = struct CUmod_st *;
using Function = struct CUfunc_st *;
using Stream = struct CUstream_st *;
using Event = struct CUevent_st *;
using Graph = struct CUgraph_st *;
using GraphExec = struct CUgraphExec_st *;

enum : Result { success = 0, outOfMemory = 2, noDevice = 100, notReady = 600 };
/// CUdevice_attribute
enum Attribute : int {
  multiprocessorCount = 16,
  computeCapabilityMajor = 75,
  computeCapabilityMinor = 76,
  mostSharedBytesOptin = 97
};
constexpr int functionSharedBytes = 1, functionMaxDynamicSharedBytes = 8; // CUfunction_attribute
constexpr int jitErrorLog = 5, jitErrorLogBytes = 6;                      // CUjit_option
constexpr unsigned streamNonBlocking = 1;
constexpr int captureThreadLocal = 1;
constexpr unsigned eventDisableTiming = 2;
constexpr unsigned eventRecordExternal = 1; // a node of the graph under capture
constexpr int leastVersion = 12000;         // CUDA version: the first that supports PTX 8.0

/// The driver's functions, opened once per process.
struct Driver {
  /// Throws UserError if there is no driver, or if it lacks a function.
  static const Driver &open();

  /// Throws UserError with the driver's message unless `result` is success.
  void check(Result result, const std::string &doing) const;
  std::string explain(Result result) const;

  /// Copies host memory to the device and waits for completion: the driver may read unpinned memory
  /// long after `copyToDevice` has returned, when the caller may have freed it.
  void copyAndWait(Address to, const void *from, size_t bytes, Stream stream,
                   const std::string &doing) const;

  Result (*init)(unsigned flags);
  Result (*driverGetVersion)(int *version);
  Result (*getErrorName)(Result error, const char **text);
  Result (*getErrorString)(Result error, const char **text);
  Result (*deviceGetCount)(int *count);
  Result (*deviceGet)(DeviceNumber *device, int ordinal);
  Result (*deviceGetName)(char *name, int length, DeviceNumber device);
  Result (*deviceGetAttribute)(int *value, int attribute, DeviceNumber device);
  Result (*primaryContextRetain)(Context *context, DeviceNumber device);
  Result (*primaryContextRelease)(DeviceNumber device);
  Result (*contextSetCurrent)(Context context);
  Result (*contextGetPriorities)(int *least, int *greatest);
  Result (*moduleLoadData)(Module *module, const void *image);
  Result (*moduleLoadDataEx)(Module *module, const void *image, unsigned optionCount, int *options,
                             void **values);
  Result (*moduleUnload)(Module module);
  Result (*moduleGetFunction)(Function *function, Module module, const char *name);
  Result (*functionGetAttribute)(int *value, int attribute, Function function);
  Result (*functionSetAttribute)(Function function, int attribute, int value);
  Result (*memoryGetInfo)(size_t *free, size_t *total);
  Result (*memoryAllocate)(Address *address, size_t bytes);
  Result (*memoryFree)(Address address);
  Result (*hostAllocate)(void **memory, size_t bytes);
  Result (*hostFree)(void *memory);
  Result (*copyToDevice)(Address to, const void *from, size_t bytes, Stream stream);
  Result (*copyToHost)(void *to, Address from, size_t bytes, Stream stream);
  Result (*copyOnDevice)(Address to, Address from, size_t bytes, Stream stream);
  Result (*memset8)(Address to, unsigned char value, size_t bytes, Stream stream);
  Result (*streamCreate)(Stream *stream, unsigned flags, int priority);
  Result (*streamDestroy)(Stream stream);
  Result (*streamSynchronize)(Stream stream);
  Result (*streamWaitEvent)(Stream stream, Event event, unsigned flags);
  Result (*streamBeginCapture)(Stream stream, int mode);
  Result (*streamEndCapture)(Stream stream, Graph *graph);
  Result (*graphInstantiate)(GraphExec *exec, Graph graph, unsigned long long flags);
  Result (*graphLaunch)(GraphExec exec, Stream stream);
  Result (*graphDestroy)(Graph graph);
  Result (*graphExecDestroy)(GraphExec exec);
  Result (*eventCreate)(Event *event, unsigned flags);
  Result (*eventDestroy)(Event event);
  Result (*eventRecord)(Event event, Stream stream);
  Result (*eventRecordWithFlags)(Event event, Stream stream, unsigned flags);
  Result (*eventQuery)(Event event); ///< notReady: not complete
  Result (*eventSynchronize)(Event event);
  Result (*eventElapsedTime)(float *milliseconds, Event from, Event to);
  Result (*launchKernel)(Function function, unsigned gridX, unsigned gridY, unsigned gridZ,
                         unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                         Stream stream, void **parameters, void **extra);
};

/// A handle of the driver, released by the destructor.
template <typename T> class Owned {
public:
  using Release = Result (*)(T);
  Owned() = default;
  Owned(T value, Release release) : value(value), release(release) {}
  Owned(Owned &&other) noexcept : value(other.value), release(other.release) {
    other.release = nullptr;
  }
  Owned &operator=(Owned &&other) noexcept {
    std::swap(value, other.value);
    std::swap(release, other.release);
    return *this;
  }
  ~Owned() {
    if (release) {
      release(value);
    }
  }
  T get() const { return value; }
  explicit operator bool() const { return release != nullptr; }

private:
  T value{};
  Release release = nullptr;
};

} // namespace sluice::runtime::cuda
