// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// runtime/Device/CUDA/CudaDriver.h declares NVIDIA's driver by hand. If CUDA's own header is
// available, the two must agree: numbers, and parameters by their number, size and kind. Compiling
// is the test.
#include "Declarations.h"
#include "Device/CUDA/CudaDriver.h"

#include <cuda.h>
#include <gtest/gtest.h>

namespace {

using namespace sluice::runtime::cuda;
using namespace sluice::test;

static_assert(sameNumber(success, CUDA_SUCCESS));
static_assert(sameNumber(outOfMemory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(sameNumber(noDevice, CUDA_ERROR_NO_DEVICE));
static_assert(sameNumber(multiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(sameNumber(computeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(sameNumber(computeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(sameNumber(mostSharedBytesOptin,
                         CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
static_assert(sameNumber(functionSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
static_assert(sameNumber(functionMaxDynamicSharedBytes,
                         CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
static_assert(sameNumber(jitErrorLog, CU_JIT_ERROR_LOG_BUFFER));
static_assert(sameNumber(jitErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES));
static_assert(sameNumber(streamNonBlocking, CU_STREAM_NON_BLOCKING));
static_assert(sameNumber(captureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
static_assert(sameNumber(eventDisableTiming, CU_EVENT_DISABLE_TIMING));

#define SAME(member, function)                                                                     \
  static_assert(Signatures<decltype(Driver::member), decltype(&function)>::value, #function)
SAME(init, cuInit);
SAME(driverGetVersion, cuDriverGetVersion);
SAME(getErrorName, cuGetErrorName);
SAME(getErrorString, cuGetErrorString);
SAME(deviceGetCount, cuDeviceGetCount);
SAME(deviceGet, cuDeviceGet);
SAME(deviceGetName, cuDeviceGetName);
SAME(deviceGetAttribute, cuDeviceGetAttribute);
SAME(primaryContextRetain, cuDevicePrimaryCtxRetain);
SAME(primaryContextRelease, cuDevicePrimaryCtxRelease);
SAME(contextSetCurrent, cuCtxSetCurrent);
SAME(contextGetPriorities, cuCtxGetStreamPriorityRange);
SAME(moduleLoadData, cuModuleLoadData);
SAME(moduleLoadDataEx, cuModuleLoadDataEx);
SAME(moduleUnload, cuModuleUnload);
SAME(moduleGetFunction, cuModuleGetFunction);
SAME(functionGetAttribute, cuFuncGetAttribute);
SAME(functionSetAttribute, cuFuncSetAttribute);
SAME(memoryGetInfo, cuMemGetInfo);
SAME(memoryAllocate, cuMemAlloc);
SAME(memoryFree, cuMemFree);
SAME(hostAllocate, cuMemAllocHost);
SAME(hostFree, cuMemFreeHost);
SAME(copyToDevice, cuMemcpyHtoDAsync);
SAME(copyToHost, cuMemcpyDtoHAsync);
SAME(copyOnDevice, cuMemcpyDtoDAsync);
SAME(memset8, cuMemsetD8Async);
SAME(streamCreate, cuStreamCreateWithPriority);
SAME(streamDestroy, cuStreamDestroy);
SAME(streamSynchronize, cuStreamSynchronize);
SAME(streamWaitEvent, cuStreamWaitEvent);
SAME(streamBeginCapture, cuStreamBeginCapture);
SAME(streamEndCapture, cuStreamEndCapture);
SAME(graphInstantiate, cuGraphInstantiateWithFlags);
SAME(graphLaunch, cuGraphLaunch);
SAME(graphDestroy, cuGraphDestroy);
SAME(graphExecDestroy, cuGraphExecDestroy);
SAME(eventCreate, cuEventCreate);
SAME(eventDestroy, cuEventDestroy);
SAME(eventRecord, cuEventRecord);
SAME(eventQuery, cuEventQuery);
SAME(eventSynchronize, cuEventSynchronize);
SAME(eventElapsedTime, cuEventElapsedTime);
SAME(launchKernel, cuLaunchKernel);

TEST(CudaHeader, DeclarationsMatchTheDriver) { EXPECT_GE(CUDA_VERSION, leastVersion); }

} // namespace
