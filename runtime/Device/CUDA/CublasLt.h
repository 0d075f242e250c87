// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declares the part of cuBLASLt that is used. The library is loaded at run time when a plan or
// `bench --tune` needs it. Names and numbers are those in cublasLt.h, cublas_api.h and
// library_types.h of CUDA 12 and 13.
#pragma once

#include "CudaDriver.h"
#include "sluice/Runtime/Plan/Plan.h"

#include <memory>
#include <string>

namespace sluice::runtime::cublas {

using Status = int; // cublasStatus_t
using Handle = struct LibraryContext *;
using MatmulDesc = struct MatmulDescriptor *;
using Layout = struct MatrixLayout *;
using Preference = struct MatmulPreference *;

constexpr Status success = 0, notSupported = 15;
constexpr int computeF32 = 68;            // CUBLAS_COMPUTE_32F: accumulation in f32
constexpr int realF32 = 0, realBf16 = 14; // cudaDataType: CUDA_R_32F, CUDA_R_16BF
constexpr int32_t transpose = 1;          // CUBLAS_OP_T
constexpr int descTransA = 3;             // CUBLASLT_MATMUL_DESC_TRANSA, int32_t
/// cublasLtMatmulPreferenceAttributes_t
enum PreferenceAttribute : int {
  mostWorkspaceBytes = 1,  // uint64_t
  reductionSchemeMask = 3, // uint32_t; 0, CUBLASLT_REDUCTION_SCHEME_NONE: sequential accumulation
  leastAlignmentA = 5,     // uint32_t, bytes; followed by B, C, D
  leastAlignmentB = 6,
  leastAlignmentC = 7,
  leastAlignmentD = 8
};

/// cublasLtMatmulHeuristicResult_t
struct HeuristicResult {
  Algorithm algorithm; // cublasLtMatmulAlgo_t: eight 64-bit numbers
  size_t workspaceBytes;
  Status state; // the other members are valid only on success
  float waves;
  int reserved[4];
};
static_assert(sizeof(Algorithm) == 64 && sizeof(HeuristicResult) == 96);

/// The library's functions. Its matrices are column-major.
struct Library {
  /// Opens libcublasLt.so.13 or .so.12, or the library in the environment variable SLUICE_CUBLASLT,
  /// once per process. Returns null, and the reason in `missing`, if there is none.
  static const Library *open(std::string &missing);

  /// Throws UserError with the library's message unless `status` is success.
  void check(Status status, const std::string &doing) const;

  size_t (*getVersion)();
  const char *(*getStatusName)(Status status);
  Status (*create)(Handle *handle);
  Status (*destroy)(Handle handle);
  Status (*descCreate)(MatmulDesc *desc, int computeType, int scaleType);
  Status (*descDestroy)(MatmulDesc desc);
  Status (*descSetAttribute)(MatmulDesc desc, int attribute, const void *value, size_t bytes);
  Status (*layoutCreate)(Layout *layout, int type, uint64_t rows, uint64_t columns,
                         int64_t leadingDimension);
  Status (*layoutDestroy)(Layout layout);
  Status (*preferenceCreate)(Preference *preference);
  Status (*preferenceDestroy)(Preference preference);
  Status (*preferenceSetAttribute)(Preference preference, int attribute, const void *value,
                                   size_t bytes);
  Status (*getHeuristic)(Handle handle, MatmulDesc desc, Layout a, Layout b, Layout c, Layout d,
                         Preference preference, int wanted, HeuristicResult *results, int *found);
  Status (*algorithmCheck)(Handle handle, MatmulDesc desc, Layout a, Layout b, Layout c, Layout d,
                           const Algorithm *algorithm, HeuristicResult *result);
  Status (*matmul)(Handle handle, MatmulDesc desc, const void *alpha, const void *a, Layout layoutA,
                   const void *b, Layout layoutB, const void *beta, const void *c, Layout layoutC,
                   void *d, Layout layoutD, const Algorithm *algorithm, void *workspace,
                   size_t workspaceBytes, cuda::Stream stream);
};

/// One product in the library's layout: the transposed result, column-major, is the weight times
/// the transposed input. All rows must be valid.
class Matmul {
public:
  /// An algorithm and its workspace size.
  struct Choice {
    Algorithm algorithm{};
    size_t workspaceBytes = 0;
  };
  static constexpr size_t mostWorkspace = size_t(32) << 20;

  /// Throws UserError, as all functions do.
  Matmul(const Library &library, Handle handle, const Product &product);

  /// Returns up to `most` algorithms in the library's order that need at most `mostWorkspace` bytes
  /// and accumulate sequentially, so that results are bitwise reproducible. Empty if the library
  /// does not support this product.
  std::vector<Choice> candidates(int most) const;
  /// Returns the algorithm unless the library rejects it for this product.
  std::optional<Choice> confirm(const Algorithm &algorithm) const;
  /// Runs the product. `arguments` are a launch's: byte offsets of input, weight and result.
  void run(const Choice &choice, cuda::Address arena, const int64_t *arguments,
           cuda::Address workspace, cuda::Stream stream) const;
  std::string describe() const;

private:
  using OwnedLayout = cuda::Owned<Layout>;
  OwnedLayout makeLayout(Type type, int64_t rows, int64_t columns, int64_t stride) const;

  const Library &library;
  const Handle handle;
  const Product product;
  cuda::Owned<MatmulDesc> desc;
  OwnedLayout weight, input, result;
};

} // namespace sluice::runtime::cublas
