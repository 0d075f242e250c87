// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// sluice-bench-kernels: rate of the matrix kernels of a small Hourglass on one thread, packing
// included, as JSON. The machine's peak is measured in the same run by a loop that has nothing to
// do with the kernels.
#include "FmaPeak.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Target/CPU/Generate.h"
#include "sluice/Target/CPU/Object/Link.h"
#include "sluice/Target/CPU/Object/Object.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>

using namespace mlir;
using namespace sluice;

namespace {

/// One matrix product of a training step; `count` is how often a step runs it.
struct KernelShape {
  StringRef form; ///< forward (also _gelu, _dropout_residual), by_input, weight_gradient
  int64_t rows, inner, columns, count;
};

/// Seconds of this thread: a kernel runs for longer than a time slice, and other programs may want
/// the core.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

/// Bias alone; bias and GELU (tanh form), keeping the pre-activation; or bias, dropout and the
/// residual.
std::string buildEpilogue(const KernelShape &shape) {
  if (shape.form == "forward_gelu") {
    return R"(^bb0(%a: f32, %c: f32):
      %s = arith.addf %a, %c : f32
      %k0 = arith.constant 0.044715 : f32
      %k1 = arith.constant 0.79788456 : f32
      %half = arith.constant 0.5 : f32
      %one = arith.constant 1.0 : f32
      %q = arith.mulf %s, %s : f32
      %r = math.fma %q, %k0, %one : f32
      %t = arith.mulf %s, %r : f32
      %u = arith.mulf %t, %k1 : f32
      %v = math.tanh %u : f32
      %w1 = arith.addf %v, %one : f32
      %z = arith.mulf %w1, %half : f32
      %g = arith.mulf %z, %s : f32
      dispatch.yield %s, %g : f32, f32
)";
  }
  if (shape.form == "forward_dropout_residual") {
    return llvm::formatv(R"(^bb0(%a: f32, %c: f32, %e: f32):
      %s = arith.addf %a, %c : f32
      %u = dispatch.random {{id = 3 : i64, width = {0} : i64} : f32
      %p = arith.constant 0.1 : f32
      %zero = arith.constant 0.0 : f32
      %scale = arith.constant 1.1111112 : f32
      %keep = arith.cmpf oge, %u, %p : f32
      %m = arith.mulf %s, %scale : f32
      %d = arith.select %keep, %m, %zero : f32
      %y = arith.addf %e, %d : f32
      dispatch.yield %y : f32
)",
                         shape.columns);
  }
  return "^bb0(%a: f32, %c: f32):\n%s = arith.addf %a, %c : f32\ndispatch.yield %s : f32\n";
}

std::string buildKernelText(const KernelShape &shape) {
  const char *accessText = "#dispatch.access<{0}>";
  std::string vector = llvm::formatv(accessText, "vector"), row = llvm::formatv(accessText, "row");
  std::string domain =
      llvm::formatv("#dispatch.domain<batch = 1, positions = {0}, factor = 0>", shape.rows);
  std::string x = llvm::formatv("tensor<1x{0}x{1}xf32>", shape.rows, shape.inner);
  std::string y = llvm::formatv("tensor<1x{0}x{1}xf32>", shape.rows, shape.columns);
  std::string w = llvm::formatv("tensor<{0}x{1}xf32>", shape.columns, shape.inner);
  if (shape.form == "weight_gradient") {
    std::string bias = llvm::formatv("tensor<{0}xf32>", shape.columns);
    return llvm::formatv(
        "func.func @f(%l: {0}, %r: {1}) -> ({2}, {3}) {{\n%w, %b = dispatch.weight_gradient %l, %r "
        "attributes {{domain = {4}, operandSegmentSizes = array<i32: 1, 1, 0, 0>, "
        "resultSegmentSizes = "
        "array<i32: 1, 1>} : ({0}, {1}) -> ({2}, {3})\nreturn %w, %b : {2}, {3}\n}",
        y, x, w, bias, domain);
  }
  if (shape.form == "by_input") {
    w = llvm::formatv("tensor<{0}x{1}xf32>", shape.inner, shape.columns);
    return llvm::formatv("func.func @f(%x: {0}, %w: {1}) -> {2} {{\n%y = dispatch.contract %x, %w "
                         "attributes {{domain = {3}, "
                         "by_input, accesses = [], result_accesses = [{4}]} {{\n^bb0(%a: "
                         "f32):\ndispatch.yield %a : f32\n"
                         "} : ({0}, {1}) -> {2}\nreturn %y : {2}\n}",
                         x, w, y, domain, row);
  }
  std::string bias = llvm::formatv("tensor<{0}xf32>", shape.columns);
  std::string results = shape.form == "forward_gelu" ? y + ", " + y : y;
  std::string body = buildEpilogue(shape), operands = "%x, %w, %b",
              types = x + ", " + w + ", " + bias;
  std::string parameters = "%x: " + x + ", %w: " + w + ", %b: " + bias, accesses = vector;
  if (shape.form == "forward_dropout_residual") {
    operands += ", %res";
    types += ", " + y;
    parameters += ", %res: " + y;
    accesses += ", " + row;
  }
  bool two = shape.form == "forward_gelu";
  return llvm::formatv(
      "func.func @f({0}) -> ({1}) {{\n%y:{2} = dispatch.contract {3} attributes {{domain = {4}, "
      "accesses = [{5}], result_accesses = [{6}]} {{\n{7}} : ({8}) -> ({1})\nreturn {9} : {1}\n}",
      parameters, results, two ? 2 : 1, operands, domain, accesses, two ? row + ", " + row : row,
      body, types, two ? "%y#0, %y#1" : "%y#0");
}

[[noreturn]] void fail(const Twine &message) {
  llvm::errs() << "sluice-bench-kernels: " << message << "\n";
  std::exit(1);
}

using BenchFunction = void (*)(uint8_t *, const int64_t *, int64_t, uint8_t *);

/// Loads an object for the life of the process.
BenchFunction load(const std::string &object) {
  llvm::Expected<std::string> bytes = cpu::linkSharedObject({object});
  if (!bytes) {
    fail(llvm::toString(bytes.takeError()));
  }
  SmallString<128> path;
  int file = -1;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("sluice-bench", "so", file, path)) {
    fail(code.message());
  }
  llvm::raw_fd_ostream(file, /*shouldClose=*/true) << *bytes;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  llvm::sys::fs::remove(path);
  auto function = library ? reinterpret_cast<BenchFunction>(dlsym(library, "kernel")) : nullptr;
  if (!function) {
    fail(dlerror());
  }
  return function;
}

/// Best time of one run of every item, seconds.
double measure(Operation *op, const cpu::Kernel &kernel, BenchFunction function) {
  std::vector<int64_t> arguments;
  int64_t used = 0;
  auto reserve = [&](Type type) {
    arguments.push_back(used);
    used += (dispatch::storageElements(cast<RankedTensorType>(type)) * 4 + 63) / 64 * 64;
  };
  llvm::for_each(op->getOperandTypes(), reserve);
  llvm::for_each(op->getResultTypes(), reserve);
  int64_t scalars[] = {INT64_MAX / 2, INT64_MAX / 2, 1, 0};
  for (int64_t i = 0; i < std::ssize(scalars); ++i) {
    arguments.push_back(used + 64 * i);
  }
  arguments.insert(arguments.end(), 2, 0);
  auto *arena =
      static_cast<uint8_t *>(std::aligned_alloc(4096, (used + 4096) / 4096 * 4096 + 4096));
  auto *scratch =
      static_cast<uint8_t *>(std::aligned_alloc(4096, kernel.scratchBytes / 4096 * 4096 + 4096));
  std::fill_n(reinterpret_cast<float *>(arena), used / 4, 0.5f);
  for (int64_t i = 0; i < std::ssize(scalars); ++i) {
    std::memcpy(arena + used + 64 * i, &scalars[i], 8);
  }
  double best = 1e9, stop = now() + 0.4;
  for (int run = 0; run < 4 || (now() < stop && run < 60); ++run) {
    double start = now();
    for (int64_t item = 0; item < kernel.items; ++item) {
      function(arena, arguments.data(), item, scratch);
    }
    best = std::min(best, now() - start);
  }
  std::free(arena);
  std::free(scratch);
  return best;
}

struct KernelResult {
  double seconds, flops;
  int64_t items;
};

KernelResult runShape(MLIRContext &context, const KernelShape &shape, const cpu::Target &target) {
  OwningOpRef<ModuleOp> source = parseSourceString<ModuleOp>(buildKernelText(shape), &context);
  if (!source) {
    fail("the text of " + shape.form + " does not parse");
  }
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&context));
  Operation *op = &*cast<func::FuncOp>(source->getBody()->front()).front().begin();
  FailureOr<cpu::Kernel> kernel = cpu::generateKernel(op, *kernels, "kernel", target);
  std::string object;
  if (failed(kernel) || failed(cpu::lowerToObject(*kernels, target, object))) {
    fail("no kernel for " + shape.form);
  }
  return {measure(op, *kernel, load(object)), 2.0 * shape.rows * shape.inner * shape.columns,
          kernel->items};
}

} // namespace

/// The linear layers of models/small/hourglass.json: qkv, output, feed-forward in and out of width
/// 256, four layers on 4096 rows and four on 1024.
static std::vector<KernelShape> hourglassShapes() {
  std::vector<KernelShape> shapes;
  for (int64_t rows : {4096, 1024}) {
    const int64_t layers[][2] = {{256, 768}, {256, 256}, {256, 1024}, {1024, 256}};
    for (auto [inner, columns] : layers) {
      shapes.push_back({"forward", rows, inner, columns, 4});
      shapes.push_back({"by_input", rows, columns, inner, 4});
      shapes.push_back({"weight_gradient", rows, inner, columns, 4});
    }
  }
  // Heavier epilogues, next to the step's total.
  shapes.push_back({"forward_gelu", 4096, 256, 1024, 0});
  shapes.push_back({"forward_dropout_residual", 4096, 256, 256, 0});
  shapes.push_back({"forward_dropout_residual", 4096, 1024, 256, 0});
  shapes.push_back({"forward", 4, 256, 1024, 0});
  shapes.push_back({"forward", 256, 256, 1024, 0});
  return shapes;
}

int main(int argc, char **argv) {
  bool narrow = argc > 1 && StringRef(argv[1]) == "--target=cpu-avx2";
  const cpu::Target &target = narrow ? cpu::Target::avx2() : cpu::Target::avx512();
  DialectRegistry registry;
  registry
      .insert<arith::ArithDialect, dispatch::DispatchDialect, func::FuncDialect, math::MathDialect,
              memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  // The clock may change under load: the peak is taken before, between and after, and the best
  // counts.
  double peak = narrow ? fmaPeakAvx2() : fmaPeakAvx512(), seconds = 0, flops = 0;
  std::vector<std::pair<KernelShape, KernelResult>> results;
  for (const KernelShape &shape : hourglassShapes()) {
    KernelResult result = runShape(context, shape, target);
    peak = std::max(peak, narrow ? fmaPeakAvx2() : fmaPeakAvx512());
    results.emplace_back(shape, result);
    seconds += shape.count * result.seconds;
    flops += shape.count * result.flops;
  }
  llvm::outs() << llvm::formatv(
      "{{\"target\": \"{0}\", \"fma_peak_gflops\": {1:f1}, \"kernels\": [\n", target.name,
      peak / 1e9);
  for (auto [i, entry] : llvm::enumerate(results)) {
    auto &[shape, result] = entry;
    double rate = result.flops / result.seconds;
    llvm::outs() << llvm::formatv(
        "  {{\"form\": \"{0}\", \"rows\": {1}, \"inner\": {2}, \"columns\": {3}, \"items\": {4}, "
        "\"gflops\": {5:f1}, \"of_peak\": {6:f3}}{7}\n",
        shape.form, shape.rows, shape.inner, shape.columns, result.items, rate / 1e9, rate / peak,
        i + 1 < results.size() ? "," : "");
  }
  llvm::outs() << llvm::formatv("], \"gflops\": {0:f1}, \"of_peak\": {1:f3}}\n",
                                flops / seconds / 1e9, flops / seconds / peak);
}
