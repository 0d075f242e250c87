// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CublasLt.h"

#include "sluice/Support/Error.h"

#include <cstdlib>
#include <dlfcn.h>

namespace sluice::runtime::cublas {
namespace {

/// Alignment of the arena and of the offsets of a product's operands in it.
constexpr uint32_t alignment = 64;

void *openAny(std::string &missing) {
  const char *named = std::getenv("SLUICE_CUBLASLT");
  std::vector<std::string> paths = {"libcublasLt.so.13", "libcublasLt.so.12"};
  if (named && *named) {
    paths = {named};
  }
  for (const std::string &path : paths) {
    if (void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return library;
    }
    const char *error = ::dlerror();
    missing += (missing.empty() ? "" : "; ") + std::string(error ? error : path);
  }
  return nullptr;
}

/// Loads all functions; null if one is missing.
std::unique_ptr<Library> load(std::string &missing) {
  void *opened = openAny(missing);
  if (!opened) {
    return nullptr;
  }
  auto l = std::make_unique<Library>();
  auto get = [&](const char *symbol, auto &function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(opened, symbol));
    if (!function && missing.empty()) {
      missing = std::string("one without ") + symbol;
    }
  };
  missing.clear();
  get("cublasLtGetVersion", l->getVersion);
  get("cublasLtGetStatusName", l->getStatusName);
  get("cublasLtCreate", l->create);
  get("cublasLtDestroy", l->destroy);
  get("cublasLtMatmulDescCreate", l->descCreate);
  get("cublasLtMatmulDescDestroy", l->descDestroy);
  get("cublasLtMatmulDescSetAttribute", l->descSetAttribute);
  get("cublasLtMatrixLayoutCreate", l->layoutCreate);
  get("cublasLtMatrixLayoutDestroy", l->layoutDestroy);
  get("cublasLtMatmulPreferenceCreate", l->preferenceCreate);
  get("cublasLtMatmulPreferenceDestroy", l->preferenceDestroy);
  get("cublasLtMatmulPreferenceSetAttribute", l->preferenceSetAttribute);
  get("cublasLtMatmulAlgoGetHeuristic", l->getHeuristic);
  get("cublasLtMatmulAlgoCheck", l->algorithmCheck);
  get("cublasLtMatmul", l->matmul);
  return missing.empty() ? std::move(l) : nullptr;
}

int getRowType(Type type) { return type == Type::f32 ? realF32 : realBf16; }

} // namespace

const Library *Library::open(std::string &missing) {
  static std::string reason;
  static const std::unique_ptr<Library> library = load(reason);
  missing = reason;
  return library.get();
}

void Library::check(Status status, const std::string &doing) const {
  if (status != success) {
    const char *name = getStatusName(status);
    throw UserError("--device cuda: cuBLASLt failed to " + doing + ": " +
                    (name ? std::string(name) : "status " + std::to_string(status)) +
                    "; install another version of it, or compile the spec again without --tuning");
  }
}

Matmul::Matmul(const Library &library, Handle handle, const Product &product)
    : library(library), handle(handle), product(product) {
  MatmulDesc made = nullptr;
  library.check(library.descCreate(&made, computeF32, realF32), "describe " + describe());
  desc = {made, library.descDestroy};
  // The library is column-major: rows in memory are its columns.
  int64_t lines = product.byInput ? product.depth : product.columns;
  int64_t width = product.byInput ? product.columns : product.depth;
  if (!product.byInput) {
    library.check(library.descSetAttribute(made, descTransA, &transpose, sizeof transpose),
                  "describe " + describe());
  }
  weight = makeLayout(Type::bf16, width, lines, product.weightStride);
  input = makeLayout(Type::bf16, product.depth, product.rows, product.inputStride);
  result = makeLayout(product.type, product.columns, product.rows, product.resultStride);
}

Matmul::OwnedLayout Matmul::makeLayout(Type type, int64_t rows, int64_t columns,
                                       int64_t stride) const {
  Layout made = nullptr;
  library.check(library.layoutCreate(&made, getRowType(type), static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(columns), stride),
                "describe " + describe());
  return {made, library.layoutDestroy};
}

std::string Matmul::describe() const {
  return "the product of " + std::to_string(product.rows) + " x " + std::to_string(product.depth) +
         " and " + std::to_string(product.depth) + " x " + std::to_string(product.columns);
}

std::vector<Matmul::Choice> Matmul::candidates(int most) const {
  Preference made = nullptr;
  std::string doing = "choose an algorithm for " + describe();
  library.check(library.preferenceCreate(&made), doing);
  cuda::Owned<Preference> preference(made, library.preferenceDestroy);
  auto set = [&](PreferenceAttribute attribute, auto value) {
    library.check(library.preferenceSetAttribute(made, attribute, &value, sizeof value), doing);
  };
  set(mostWorkspaceBytes, uint64_t(mostWorkspace));
  set(reductionSchemeMask, uint32_t(0));
  for (auto operand : {leastAlignmentA, leastAlignmentB, leastAlignmentC, leastAlignmentD}) {
    set(operand, alignment);
  }
  std::vector<HeuristicResult> results(static_cast<size_t>(most));
  int found = 0;
  Status status = library.getHeuristic(handle, desc.get(), weight.get(), input.get(), result.get(),
                                       result.get(), made, most, results.data(), &found);
  if (status == notSupported) {
    return {};
  }
  library.check(status, doing);
  std::vector<Choice> choices;
  for (int i = 0; i < found; ++i) {
    const HeuristicResult &each = results[static_cast<size_t>(i)];
    if (each.state == success && each.workspaceBytes <= mostWorkspace) {
      choices.push_back({each.algorithm, each.workspaceBytes});
    }
  }
  return choices;
}

std::optional<Matmul::Choice> Matmul::confirm(const Algorithm &algorithm) const {
  HeuristicResult checked{};
  Status status = library.algorithmCheck(handle, desc.get(), weight.get(), input.get(),
                                         result.get(), result.get(), &algorithm, &checked);
  if (status != success || checked.workspaceBytes > mostWorkspace) {
    return std::nullopt;
  }
  return Choice{algorithm, checked.workspaceBytes};
}

void Matmul::run(const Choice &choice, cuda::Address arena, const int64_t *arguments,
                 cuda::Address workspace, cuda::Stream stream) const {
  auto at = [&](size_t i) {
    return reinterpret_cast<void *>(arena + static_cast<cuda::Address>(arguments[i]));
  };
  constexpr float one = 1, zero = 0; // zero: the previous contents of the result are not read
  library.check(library.matmul(handle, desc.get(), &one, at(1), weight.get(), at(0), input.get(),
                               &zero, at(2), result.get(), at(2), result.get(), &choice.algorithm,
                               reinterpret_cast<void *>(workspace), choice.workspaceBytes, stream),
                "run " + describe());
}

} // namespace sluice::runtime::cublas
