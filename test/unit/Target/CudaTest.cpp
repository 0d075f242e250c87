// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The same dispatch op on two targets: the CUDA kernel, emulated and judged, against the CPU
// kernel, on the same memory with the same guards; and the CUDA kernel as PTX and, where ptxas is
// present, as a cubin. Nothing here runs on a GPU.
#include "RowsText.h"
#include "sluice/Emulator/Emulator.h"
#include "sluice/Target/CUDA/Kernel.h"
#include "llvm/IR/Instructions.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Text {
  std::string op;
  Generator cpu;
  mlir::FailureOr<cuda::Kernel> (*cuda)(mlir::Operation *, mlir::ModuleOp);
};

Text contract(std::string text) {
  return {std::move(text),
          [](mlir::Operation *op, mlir::ModuleOp module, llvm::StringRef name,
             const cpu::Target &target) {
            return cpu::generateContract(mlir::cast<dispatch::ContractOp>(op), module, name,
                                         target);
          },
          [](mlir::Operation *op, mlir::ModuleOp module) {
            return cuda::generateContract(mlir::cast<dispatch::ContractOp>(op), module, "kernel");
          }};
}

/// A kernel of either target, from one op. The CUDA one is the module that its backend is fed; it
/// runs with its buffers apart, its blocks in a random order, and must break no rule.
class Both {
public:
  /// `edit` may plant a fault in the CUDA kernel; then `report` says what came of it.
  using Edit = void (*)(llvm::Module &);
  explicit Both(const Text &text, Edit edit = nullptr)
      : edit(edit), cpu(text.op, cpu::Target::avx2(), text.cpu),
        cuda(text.op, cpu::Target::avx2(), text.cpu) {
    make(text);
  }
  bool made() const { return emulator && cpu.loaded(); }
  const Edit edit;
  LoadedKernel cpu, cuda;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  emulator::Report report; ///< of the last run

private:
  void make(const Text &text) {
    ASSERT_TRUE(cuda.dispatch());
    module = mlir::ModuleOp::create(mlir::UnknownLoc::get(cuda.dispatch()->getContext()));
    auto made = text.cuda(cuda.dispatch(), *module);
    ASSERT_TRUE(mlir::succeeded(made));
    ASSERT_EQ(made->stages.size(), 1u);
    stage = made->stages.front();
    ASSERT_EQ(made->workspaceBytes, 0);
    auto context = std::make_unique<llvm::LLVMContext>();
    auto lowered = cuda::lowerToLLVM(*module, *context);
    ASSERT_TRUE(lowered);
    if (llvm::Error error = cuda::prepare(*lowered, cuda::Target::sm80())) {
      FAIL() << llvm::toString(std::move(error));
    }
    if (edit) {
      edit(*lowered);
    }
    auto created = emulator::Emulator::create(std::move(lowered), std::move(context), "kernel");
    ASSERT_TRUE(bool(created)) << llvm::toString(created.takeError());
    emulator = std::move(*created);
    cuda.use(1, [this](uint8_t *arena, const int64_t *arguments, int64_t, uint8_t *) {
      launch(arena, arguments);
    });
  }

  void launch(uint8_t *arena, const int64_t *arguments) {
    using emulator::Writes;
    size_t common = static_cast<size_t>(cpu::argumentCount(cuda.dispatch()));
    std::vector<int64_t> all(arguments, arguments + common);
    all.push_back(0); // no workspace
    emulator::Launch launch;
    launch.grid = {static_cast<uint32_t>(stage.blocks), 1, 1};
    launch.block = {static_cast<uint32_t>(stage.threads), 1, 1};
    launch.dynamicSharedBytes = static_cast<uint32_t>(stage.sharedBytes);
    launch.arguments = {reinterpret_cast<uint64_t>(arena), reinterpret_cast<uint64_t>(all.data())};
    std::vector<int64_t> bytes = cuda.bufferBytes();
    size_t count = bytes.size() + cpu::scalarCount;
    for (size_t i = 0; i < count; ++i) {
      bool result = i >= cuda.operands() && i < bytes.size();
      launch.buffers.push_back({"buffer " + std::to_string(i), arena + arguments[i],
                                uint64_t(i < bytes.size() ? bytes[i] : 8),
                                result ? Writes::AtMostOnce : Writes::None, !result});
    }
    launch.buffers.push_back({"arguments", all.data(), uint64_t(all.size()) * 8});
    emulator::Options options;
    options.seed = ++runs;
    options.schedule = runs % 2 ? emulator::Schedule::WarpAlone : emulator::Schedule::Random;
    report = emulator->launch(launch, options);
    EXPECT_TRUE(edit || report.passed()) << report.str();
  }

  std::unique_ptr<emulator::Emulator> emulator;
  cuda::Stage stage;
  uint64_t runs = 0;
};

/// PTX of both architectures, holding `instruction`; where there is a ptxas, a cubin without spills
/// or stack.
void checkAssembly(mlir::ModuleOp module, const std::string &instruction) {
  for (const cuda::Target *target : {&cuda::Target::sm80(), &cuda::Target::sm90a()}) {
    llvm::LLVMContext context;
    auto lowered = cuda::lowerToLLVM(module, context);
    ASSERT_TRUE(lowered);
    auto ptx = cuda::emitPTX(std::move(lowered), *target);
    ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    EXPECT_NE(ptx->find(".version 8.0"), std::string::npos);
    EXPECT_NE(ptx->find(".target " + target->chip.str() + "\n"), std::string::npos);
    EXPECT_NE(ptx->find(".reqntid 128"), std::string::npos);
    EXPECT_NE(ptx->find(instruction), std::string::npos) << *ptx;
    EXPECT_EQ(ptx->find("call"), std::string::npos) << "a kernel calls a function";
    auto binary = cuda::assemble(*ptx, *target);
    ASSERT_TRUE(bool(binary)) << llvm::toString(binary.takeError());
    if (!*binary) {
      std::cout << "no ptxas: PTX only\n";
      continue;
    }
    EXPECT_EQ((*binary)->cubin.substr(0, 4), "\177ELF");
    ASSERT_EQ((*binary)->usage.size(), 1u);
    const cuda::Usage &usage = (*binary)->usage[0];
    std::cout << target->name.str() << ": " << usage.registers << " registers\n";
    EXPECT_EQ(usage.kernel, "kernel");
    EXPECT_GT(usage.registers, 0);
    EXPECT_EQ(usage.stackBytes, 0);
    EXPECT_EQ(usage.spillBytes, 0);
  }
}

std::string scalarAccess(const std::string &kind, int64_t factor) {
  return Access{.kind = kind, .factor = factor};
}

struct Shape {
  int64_t batch, positions, inner, columns;
  bool byInput = false;
  int64_t rows() const { return batch * positions; }
};

/// A contraction of factor 2 with a bias, a residual and `body` over %acc, %bias and %residual,
/// yielding %y.
std::string contractText(const Shape &s, const std::string &body) {
  std::string x = tensor({s.batch, s.positions, s.inner}),
              y = tensor({s.batch, s.positions, s.columns});
  std::string w = s.byInput ? tensor({s.inner, s.columns}) : tensor({s.columns, s.inner}),
              bias = tensor({s.columns});
  return "func.func @f(%x: " + x + ", %w: " + w + ", %b: " + bias + ", %r: " + y + ") {\n" +
         "  %y = dispatch.contract %x, %w, %b, %r attributes {domain = #dispatch.domain<batch = " +
         std::to_string(s.batch) + ", positions = " + std::to_string(s.positions) +
         ", factor = 2>" + (s.byInput ? ", by_input" : "") + ", accesses = [" +
         scalarAccess("vector", 0) + ", " + scalarAccess("row", 2) + "], result_accesses = [" +
         scalarAccess("row", 2) + "]} {\n^bb0(%acc: f32, %bias: f32, %residual: f32):\n" + body +
         "\ndispatch.yield %y : f32\n} : (" + x + ", " + w + ", " + bias + ", " + y + ") -> " + y +
         "\n  return\n}\n";
}

const char *geluOfBiased = R"(%biased = arith.addf %acc, %bias : f32
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %root = arith.constant 0.70710678 : f32
  %s = arith.mulf %biased, %root : f32
  %e = math.erf %s : f32
  %f = arith.addf %e, %one : f32
  %g = arith.mulf %f, %half : f32
  %h = arith.mulf %g, %biased : f32
  %u = dispatch.random {id = 5 : i64, width = 70 : i64} : f32
  %p = arith.constant 0.25 : f32
  %zero = arith.constant 0.0 : f32
  %kept = arith.cmpf oge, %u, %p : f32
  %d = arith.select %kept, %h, %zero : f32
  %y = arith.addf %d, %residual : f32)";

bool isValid(int64_t row, int64_t positions, int64_t factor, const Launch &launch) {
  return row / positions < launch.rows && row % positions < (launch.length + factor - 1) / factor;
}

/// Small integers are exact in bf16 and their sums in f32, so what remains is the epilogue: the
/// same arithmetic, drawing the same random numbers, hence the same bits.
TEST(Cuda, ContractionWithGeluDropoutResidualEqualsCpu) {
  if (targets().empty()) {
    GTEST_SKIP() << "this machine runs no CPU kernel to compare with";
  }
  for (Shape s : {Shape{3, 23, 37, 70}, Shape{3, 23, 37, 70, true}, Shape{1, 1, 1, 1},
                  Shape{2, 33, 16, 64}}) {
    Both both(contract(contractText(s, geluOfBiased)));
    ASSERT_TRUE(both.made());
    auto integers = [](int64_t count, unsigned seed) {
      Floats values = randomIntegers(count, seed, 7);
      std::for_each(values.begin(), values.end(), [](float &value) { value -= 3; });
      return values;
    };
    Floats bias = randomFloats(s.columns, 3);
    for (int64_t length : {2 * s.positions, s.positions, int64_t(1)}) {
      Launch launch{.operands = {integers(s.rows() * s.inner, 1), integers(s.inner * s.columns, 2),
                                 bias, integers(s.rows() * s.columns, 4)},
                    .length = length,
                    .rows = std::max<int64_t>(1, s.batch - 1),
                    .step = 3,
                    .seed = 11};
      Floats expected = both.cpu.run(launch)[0], found = both.cuda.run(launch)[0];
      for (int64_t i = 0; i < s.rows() * s.columns; ++i) {
        float right = isValid(i / s.columns, s.positions, 2, launch) ? expected[i] : untouched;
        ASSERT_EQ(found[i], right)
            << "row " << i / s.columns << " column " << i % s.columns << " length " << length;
      }
    }
  }
}

float roundedToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

TEST(Cuda, ContractionRoundsOperandsToBf16) {
  if (targets().empty()) {
    GTEST_SKIP() << "this machine runs no CPU kernel, which the harness wants";
  }
  Shape s{1, 40, 90, 33};
  Both both(contract(contractText(s, "%y = arith.addf %acc, %bias : f32")));
  ASSERT_TRUE(both.made());
  Launch launch{.operands = {randomFloats(s.rows() * s.inner, 1),
                             randomFloats(s.inner * s.columns, 2), Floats(s.columns),
                             Floats(s.rows() * s.columns)},
                .length = 80,
                .rows = 1};
  Floats y = both.cuda.run(launch)[0];
  for (int64_t r = 0; r < s.rows(); ++r) {
    for (int64_t n = 0; n < s.columns; ++n) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < s.inner; ++k) {
        double term = double(roundedToBf16(launch.operands[0][r * s.inner + k])) *
                      roundedToBf16(launch.operands[1][n * s.inner + k]);
        sum += term;
        magnitude += std::abs(term);
      }
      // Products of bf16 are exact in f32; each of K additions rounds half an ulp of at most
      // `magnitude`.
      ASSERT_NEAR(y[r * s.columns + n], sum, double(s.inner) * unit * magnitude) << r << ", " << n;
    }
  }
}

TEST(Cuda, ContractionAssembles) {
  const char *plain = "%y = arith.addf %acc, %bias : f32";
  for (Shape s : {Shape{3, 23, 37, 70, true}, Shape{4, 1024, 512, 2048}}) {
    for (const char *body : {geluOfBiased, plain}) {
      Both both(contract(contractText(s, body)));
      ASSERT_TRUE(both.made());
      checkAssembly(*both.module, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
    }
  }
}

} // namespace
