// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPU architectures of kernels, and the number of their arguments.
#include "sluice/Target/CUDA/Kernel.h"

#include "sluice/Target/Common/Abi.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

const Target &Target::sm80() {
  static const Target target{"cuda-sm_80", "sm_80", "+ptx80"};
  return target;
}

const Target &Target::sm90a() {
  static const Target target{"cuda-sm_90a", "sm_90a", "+ptx80"};
  return target;
}

int64_t cuda::argumentCount(Operation *dispatch) { return target::argumentCount(dispatch) + 1; }
