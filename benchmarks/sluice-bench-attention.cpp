// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Speed of causal attention, forward and backward, on one thread, next to the FMA peak measured in
// the same run. Prints JSON.
//   sluice-bench-attention [head positions]...
#include "../lib/Target/CPU/Attention/Attention.h"
#include "FmaPeak.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Target/CPU/Generate.h"
#include "sluice/Target/CPU/Object/Link.h"
#include "sluice/Target/CPU/Object/Object.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

#include <chrono>
#include <cmath>
#include <dlfcn.h>

using namespace mlir;
using namespace sluice;

namespace {

constexpr int64_t batch = 1, heads = 2;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// FLOP/s of one run of `work`, which returns the FLOPs it did.
template <typename Work> double rate(Work work) {
  double start = now();
  double flops = work();
  return flops / (now() - start);
}

std::string tensor(int64_t positions, int64_t columns) {
  return "tensor<" + std::to_string(batch) + "x" + std::to_string(positions) + "x" +
         std::to_string(columns) + "xf32>";
}

std::string text(int64_t head, int64_t positions, bool forward) {
  std::string qkv = tensor(positions, 3 * heads * head), out = tensor(positions, heads * head),
              logs = tensor(positions, heads);
  auto number = [](int64_t value) { return std::to_string(value) + " : i64"; };
  std::string attributes =
      " attributes {domain = #dispatch.domain<batch = " + std::to_string(batch) +
      ", positions = " + std::to_string(positions) + ", factor = 1>, heads = " + number(heads) +
      ", kv_heads = " + number(heads) + ", head_size = " + number(head) +
      ", query_column = 0 : i64, key_column = " + number(heads * head) +
      ", value_column = " + number(2 * heads * head) +
      ", mask = affine_set<(p, q)[n] : (p - q >= 0)>} ";
  std::string constant =
      "%c = arith.constant " + std::to_string(1 / std::sqrt(double(head))) + " : f32\n";
  std::string score = "{\n^bb0(%s: f32, %p: i32, %q: i32, %h: i32):\n" + constant +
                      "%r = arith.mulf %s, %c : f32\ndispatch.yield %r : f32\n}";
  std::string derivative = "{\n^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):\n" + constant +
                           "%r = arith.mulf %g, %c : f32\ndispatch.yield %r : f32\n}";
  std::string inputs = qkv + ", " + qkv + ", " + qkv;
  if (forward) {
    return "func.func @f(%x: " + qkv + ") -> (" + out + ", " + logs +
           ") {\n%o:2 = dispatch.attention %x, %x, %x" + attributes + score + " : (" + inputs +
           ") -> (" + out + ", " + logs + ")\nreturn %o#0, %o#1 : " + out + ", " + logs + "\n}";
  }
  return "func.func @f(%x: " + qkv + ", %o: " + out + ", %l: " + logs + ", %d: " + out + ") -> " +
         qkv + " {\n%y = dispatch.attention_backward %x, %x, %x, %o, %l, %d" + attributes + score +
         " derivative " + derivative + " : (" + inputs + ", " + out + ", " + logs + ", " + out +
         ") -> " + qkv + "\nreturn %y : " + qkv + "\n}";
}

/// A kernel with memory of its own: random operands, results after them.
struct BenchKernel {
  cpu::Kernel kernel;
  double compileSeconds = 0;
  void (*function)(uint8_t *, const int64_t *, int64_t, uint8_t *) = nullptr;
  uint8_t *arena = nullptr, *scratch = nullptr;
  std::vector<int64_t> arguments;

  void run() const {
    for (int64_t item = 0; item < kernel.items; ++item) {
      function(arena, arguments.data(), item, scratch);
    }
  }
};

[[noreturn]] void fail(const llvm::Twine &message) {
  llvm::errs() << "sluice-bench-attention: " << message << "\n";
  std::exit(2);
}

uint8_t *allocate(int64_t bytes) {
  return static_cast<uint8_t *>(std::aligned_alloc(64, (bytes + 64) / 64 * 64));
}

void lay(BenchKernel &loaded, Operation *op, int64_t positions) {
  int64_t used = 0;
  auto reserve = [&](int64_t bytes) {
    loaded.arguments.push_back(used);
    used += (bytes + 63) / 64 * 64;
  };
  SmallVector<Value> values(op->getOperands());
  values.append(op->result_begin(), op->result_end());
  for (Value value : values) {
    reserve(4 * dispatch::storageElements(cast<RankedTensorType>(value.getType())));
  }
  const int64_t scalars[] = {positions, batch, 1, 1};
  for (size_t i = 0; i < std::size(scalars); ++i) {
    reserve(8);
  }
  loaded.arguments.insert(loaded.arguments.end(), 2, 0);
  loaded.arena = allocate(used);
  loaded.scratch = allocate(loaded.kernel.scratchBytes);
  uint32_t state = 1;
  for (int64_t i = 0; i < used / 4; ++i) {
    state = state * 1664525 + 1013904223;
    reinterpret_cast<float *>(loaded.arena)[i] = static_cast<float>(state >> 8) * 0x1p-23f - 1;
  }
  for (size_t i = 0; i < std::size(scalars); ++i) {
    std::memcpy(loaded.arena + loaded.arguments[values.size() + i], &scalars[i], 8);
  }
}

BenchKernel load(MLIRContext &context, const cpu::Target &target, int64_t head, int64_t positions,
                 bool forward) {
  BenchKernel loaded;
  auto source = parseSourceString<ModuleOp>(text(head, positions, forward), &context);
  if (!source) {
    fail("the kernel's source does not parse");
  }
  Operation *op = nullptr;
  source->walk([&](Operation *found) {
    op = isa<dispatch::AttentionOp, dispatch::AttentionBackwardOp>(found) ? found : op;
  });
  double start = now();
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&context));
  auto kernel =
      forward ? cpu::generateAttention(cast<dispatch::AttentionOp>(op), *kernels, "kernel", target)
              : cpu::generateAttentionBackward(cast<dispatch::AttentionBackwardOp>(op), *kernels,
                                               "kernel", target);
  std::string object;
  if (failed(kernel) || failed(cpu::lowerToObject(*kernels, target, object))) {
    fail("the kernel cannot be made");
  }
  loaded.kernel = *kernel;
  loaded.compileSeconds = now() - start;
  llvm::Expected<std::string> bytes = cpu::linkSharedObject({object});
  if (!bytes) {
    fail(llvm::toString(bytes.takeError()));
  }
  SmallString<128> path;
  int file = -1;
  if (llvm::sys::fs::createTemporaryFile("sluice-bench", "so", file, path)) {
    fail("no temporary file");
  }
  llvm::raw_fd_ostream(file, /*shouldClose=*/true) << *bytes;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  llvm::sys::fs::remove(path);
  if (!library) {
    fail(dlerror());
  }
  loaded.function = reinterpret_cast<decltype(loaded.function)>(dlsym(library, "kernel"));
  lay(loaded, op, positions);
  return loaded;
}

/// Best rates of the kernel and of the peak, taken in turn so that both see the same clock and
/// neighbours.
void measure(MLIRContext &context, const cpu::Target &target, int64_t head, int64_t positions,
             bool forward, bool first) {
  BenchKernel loaded = load(context, target, head, positions, forward);
  double n = static_cast<double>(positions);
  double flops = (forward ? 4.0 : 10.0) / 2 * static_cast<double>(batch * heads * head) * n * n;
  double best = 0, peak = 0, start = now();
  for (int repeat = 0; repeat < 200 && (repeat < 5 || now() - start < 1.5); ++repeat) {
    peak = std::max(peak, target.lanes == 16 ? fmaPeakAvx512() : fmaPeakAvx2());
    best = std::max(best, rate([&] {
                      loaded.run();
                      return flops;
                    }));
  }
  llvm::outs() << (first ? "" : ",\n") << "  {\"target\": \"" << target.name
               << "\", \"direction\": \"" << (forward ? "forward" : "backward")
               << "\", \"head\": " << head << ", \"positions\": " << positions
               << llvm::format(", \"gflops\": %.1f, \"peak_gflops\": %.1f, \"of_peak\": %.3f, "
                               "\"compile_seconds\": %.2f}",
                               best / 1e9, peak / 1e9, best / peak, loaded.compileSeconds);
  llvm::outs().flush();
  std::free(loaded.arena);
  std::free(loaded.scratch);
}

} // namespace

int main(int argc, char **argv) {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  for (int i = 1; i + 1 < argc; i += 2) {
    sizes.emplace_back(std::atoll(argv[i]), std::atoll(argv[i + 1]));
  }
  if (sizes.empty()) {
    sizes = {{64, 1024}, {64, 2048}, {64, 4096}, {32, 1024}, {32, 256}};
  }
  DialectRegistry registry;
  registerAllDialects(registry);
  registry.insert<dispatch::DispatchDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  bool first = true;
  llvm::outs() << "[\n";
  for (const cpu::Target *target : {&cpu::Target::avx512(), &cpu::Target::avx2()}) {
    if (!features.lookup(target->lanes == 16 ? "avx512f" : "avx2")) {
      continue;
    }
    for (auto [head, positions] : sizes) {
      for (bool forward : {true, false}) {
        measure(context, *target, head, positions, forward, first);
        first = false;
      }
    }
  }
  llvm::outs() << "\n]\n";
  return 0;
}
