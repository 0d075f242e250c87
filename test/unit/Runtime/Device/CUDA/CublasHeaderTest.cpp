// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// runtime/Device/CUDA/CublasLt.h declares NVIDIA's library by hand. If the original header is
// available, the two must agree: numbers, the result of a search field by field, and parameters by
// their number, size and kind. Compiling is the test.
#include "Declarations.h"
#include "Device/CUDA/CublasLt.h"

#include <cstddef>
#include <cublasLt.h>
#include <gtest/gtest.h>

namespace {

using namespace sluice::runtime::cublas;
using namespace sluice::test;
using sluice::runtime::Algorithm;

static_assert(sameNumber(success, CUBLAS_STATUS_SUCCESS));
static_assert(sameNumber(notSupported, CUBLAS_STATUS_NOT_SUPPORTED));
static_assert(sameNumber(computeF32, CUBLAS_COMPUTE_32F));
static_assert(sameNumber(realF32, CUDA_R_32F));
static_assert(sameNumber(realBf16, CUDA_R_16BF));
static_assert(sameNumber(transpose, CUBLAS_OP_T));
static_assert(sameNumber(descTransA, CUBLASLT_MATMUL_DESC_TRANSA));
static_assert(sameNumber(mostWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
static_assert(sameNumber(reductionSchemeMask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK));
static_assert(sameNumber(0, CUBLASLT_REDUCTION_SCHEME_NONE));
static_assert(sameNumber(leastAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES));
static_assert(sameNumber(leastAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES));
static_assert(sameNumber(leastAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES));
static_assert(sameNumber(leastAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
#define SAME_FIELD(ours, theirs)                                                                   \
  static_assert(offsetof(HeuristicResult, ours) ==                                                 \
                    offsetof(cublasLtMatmulHeuristicResult_t, theirs) &&                           \
                sizeof(HeuristicResult::ours) == sizeof(cublasLtMatmulHeuristicResult_t::theirs))
SAME_FIELD(algorithm, algo);
SAME_FIELD(workspaceBytes, workspaceSize);
SAME_FIELD(state, state);
SAME_FIELD(waves, wavesCount);

#define SAME(member, function)                                                                     \
  static_assert(Signatures<decltype(Library::member), decltype(&function)>::value, #function)
SAME(getVersion, cublasLtGetVersion);
SAME(getStatusName, cublasLtGetStatusName);
SAME(create, cublasLtCreate);
SAME(destroy, cublasLtDestroy);
SAME(descCreate, cublasLtMatmulDescCreate);
SAME(descDestroy, cublasLtMatmulDescDestroy);
SAME(descSetAttribute, cublasLtMatmulDescSetAttribute);
SAME(layoutCreate, cublasLtMatrixLayoutCreate);
SAME(layoutDestroy, cublasLtMatrixLayoutDestroy);
SAME(preferenceCreate, cublasLtMatmulPreferenceCreate);
SAME(preferenceDestroy, cublasLtMatmulPreferenceDestroy);
SAME(preferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute);
SAME(getHeuristic, cublasLtMatmulAlgoGetHeuristic);
SAME(algorithmCheck, cublasLtMatmulAlgoCheck);
SAME(matmul, cublasLtMatmul);

TEST(CublasHeader, DeclarationsMatchTheLibrary) { EXPECT_GE(CUBLAS_VER_MAJOR, 12); }

} // namespace
