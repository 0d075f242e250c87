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

Text rows(std::string text) {
  return {std::move(text),
          [](mlir::Operation *op, mlir::ModuleOp module, llvm::StringRef name,
             const cpu::Target &target) {
            return cpu::generateRows(mlir::cast<dispatch::RowsOp>(op), module, name, target);
          },
          [](mlir::Operation *op, mlir::ModuleOp module) {
            return cuda::generateRows(mlir::cast<dispatch::RowsOp>(op), module, "kernel");
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

/// The mean of k rows, shifted, then layer norm with gain and bias: %h, %y, and the statistic
/// %rstd.
std::string normText(int64_t batch, int64_t fine, int64_t d, int64_t k, int64_t shift,
                     bool zeroInvalid) {
  std::string row = tensor({d}), group = tensor({k, d});
  std::ostringstream body;
  body << std::scientific << std::setprecision(9) << "%sum = dispatch.sum_group %a0 : " << group
       << " -> ROW\n"
       << "%share = arith.constant dense<" << 1.0 / double(k)
       << "> : ROW\n%inverse = arith.constant " << 1.0 / double(d) << R"( : f32
  %h = arith.mulf %sum, %share : ROW
  %epsilon = arith.constant 1.0e-05 : f32
  %total = dispatch.reduce add %h : ROW -> f32
  %mean = arith.mulf %total, %inverse : f32
  %means = tensor.splat %mean : ROW
  %centered = arith.subf %h, %means : ROW
  %squares = arith.mulf %centered, %centered : ROW
  %squared = dispatch.reduce add %squares : ROW -> f32
  %variance = arith.mulf %squared, %inverse : f32
  %shifted = arith.addf %variance, %epsilon : f32
  %deviation = math.sqrt %shifted : f32
  %one = arith.constant 1.0 : f32
  %rstd = arith.divf %one, %deviation : f32
  %rstds = tensor.splat %rstd : ROW
  %normalized = arith.mulf %centered, %rstds : ROW
  %scaled = arith.mulf %normalized, %a1 : ROW
  %y = arith.addf %scaled, %a2 : ROW
  dispatch.yield %h, %y, %rstd : ROW, ROW, f32)";
  int64_t coarse = (fine + k - 1) / k;
  Access own{.factor = k}, vector{.kind = "vector"};
  std::string map = std::to_string(k) + " * p + i - " + std::to_string(shift);
  return rowsText({batch, coarse, k},
                  {{tensor({batch, fine, d}), Access{.map = map, .group = k}, group},
                   {tensor({d}), vector, row},
                   {tensor({d}), vector, row}},
                  {{tensor({batch, coarse, d}), own},
                   {tensor({batch, coarse, d}), own},
                   {tensor({batch, coarse}), own}},
                  body.str(), row, zeroInvalid);
}

/// Integers over k = 4 are exact, so are h and its sum; the sums of squares have only positive
/// terms, and each of their d roundings is half an ulp of at most the sum, in whatever order. A
/// dozen more roundings follow.
TEST(Cuda, NormOfMeanOfShiftedRowsIsCpus) {
  if (targets().empty()) {
    GTEST_SKIP() << "this machine runs no CPU kernel to compare with";
  }
  const int64_t batch = 2, fine = 22, k = 4, coarse = 6;
  for (int64_t d : {1, 31, 32, 40, 257}) {
    // A shift below k - 1 makes the last valid group reach past the length.
    for (auto [shift, zeroInvalid] : {std::pair{3, false}, std::pair{1, true}}) {
      Both both(rows(normText(batch, fine, d, k, shift, zeroInvalid)));
      ASSERT_TRUE(both.made());
      Floats gain = randomFloats(d, 2), bias = randomFloats(d, 3);
      for (int64_t length : {22, 9, 1}) {
        Launch launch{.operands = {randomIntegers(batch * fine * d, 1, 100), gain, bias},
                      .length = length,
                      .rows = 2};
        auto expected = both.cpu.run(launch), found = both.cuda.run(launch);
        const double relative = double(d + 12) * unit;
        EXPECT_EQ(found[0], expected[0]) << "d " << d << " length " << length;
        for (int64_t r = 0; r < batch * coarse; ++r) {
          ASSERT_NEAR(found[2][r], expected[2][r], relative * std::abs(expected[2][r]));
          for (int64_t c = 0; c < d; ++c) {
            float y = expected[1][r * d + c];
            ASSERT_NEAR(found[1][r * d + c], y, relative * (std::abs(y) + std::abs(bias[c])))
                << "d " << d << " row " << r << " column " << c;
          }
        }
        float skipped = zeroInvalid ? 0 : untouched;
        EXPECT_EQ(found[0][(batch * coarse - 1) * d],
                  length == 22 ? expected[0][(batch * coarse - 1) * d] : skipped);
      }
    }
  }
}

TEST(Cuda, NormAssembles) {
  for (int64_t d : {40, 256, 1024}) {
    Both both(rows(normText(2, 22, d, 2, 1, false)));
    ASSERT_TRUE(both.made());
    checkAssembly(*both.module, "shfl.sync.bfly.b32");
  }
}

/// A token's row and its place's, under dropout: gathers, tables, i32 operands, random numbers. No
/// sums, so the same bits.
TEST(Cuda, GatherWithDropoutEqualsCpu) {
  if (targets().empty()) {
    GTEST_SKIP() << "this machine runs no CPU kernel to compare with";
  }
  const int64_t batch = 2, positions = 11, vocabulary = 23;
  for (int64_t d : {7, 64}) {
    std::string body =
        "%h = arith.addf %a1, %a2 : ROW\n%u = dispatch.random {id = 3 : i64, width = " +
        std::to_string(d) + " : i64} : ROW\n" + R"(%p = arith.constant dense<0.25> : ROW
      %zero = arith.constant dense<0.0> : ROW
      %kept = arith.cmpf oge, %u, %p : ROW
      %y = arith.select %kept, %h, %zero : tensor<)" +
        std::to_string(d) + "xi1>, ROW\n" + "dispatch.yield %y : ROW";
    Both both(
        rows(rowsText({batch, positions, 1},
                      {{tensor({batch, positions + 1}, "i32"), Access{}, "i32"},
                       {tensor({vocabulary, d}), Access{.kind = "gather", .index = 0}, tensor({d})},
                       {tensor({positions, d}), Access{.kind = "table", .factor = 0}, tensor({d})}},
                      {{tensor({batch, positions, d}), Access{}}}, body, tensor({d}))));
    ASSERT_TRUE(both.made());
    Launch launch{.operands = {randomIntegers(batch * (positions + 1), 4, vocabulary),
                               randomFloats(vocabulary * d, 5), randomFloats(positions * d, 6)},
                  .length = 8,
                  .rows = 2,
                  .step = 9,
                  .seed = 21};
    Floats expected = both.cpu.run(launch)[0];
    EXPECT_EQ(both.cuda.run(launch)[0], expected);
    EXPECT_GT(std::count(expected.begin(), expected.end(), 0.0f), 0) << "nothing was dropped";
    EXPECT_EQ(expected.back(), untouched);
  }
}

/// Without the warp barrier between the loads and the stores of a row.
void dropWarpBarriers(llvm::Module &module) {
  llvm::Function *barrier = module.getFunction("llvm.nvvm.bar.warp.sync");
  ASSERT_TRUE(barrier);
  for (llvm::User *user : llvm::make_early_inc_range(barrier->users())) {
    llvm::cast<llvm::CallInst>(user)->eraseFromParent();
  }
}

/// A result may lie where an operand lies: lanes past the last column read what another lane
/// writes, so that the warp must meet in between. Numbers show it only if the lanes run in a bad
/// order.
TEST(Cuda, RowsInPlaceNeedTheirWarpBarrier) {
  if (targets().empty()) {
    GTEST_SKIP() << "this machine runs no CPU kernel, which the harness wants";
  }
  const int64_t batch = 2, positions = 9, d = 33;
  std::string row = tensor({d}), sequence = tensor({batch, positions, d});
  Text text =
      rows(rowsText({batch, positions, 1}, {{sequence, Access{}, row}}, {{sequence, Access{}}},
                    "%y = arith.addf %a0, %a0 : ROW\ndispatch.yield %y : ROW", row));
  Floats x = randomFloats(batch * positions * d, 1);
  Launch launch{.operands = {x}, .length = positions, .rows = batch, .shares = {{0, 0}}};
  Both right(text), wrong(text, dropWarpBarriers);
  ASSERT_TRUE(right.made() && wrong.made());
  Floats y = right.cuda.run(launch)[0];
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(y[i], 2 * x[i]);
  }
  wrong.cuda.run(launch);
  ASSERT_FALSE(wrong.report.passed());
  EXPECT_EQ(wrong.report.violations[0].kind, emulator::Kind::Race) << wrong.report.str();
}

/// What the generator says of an op that it refuses; the module stays as it was.
std::string refusal(const Text &text) {
  LoadedKernel kernel(text.op, cpu::Target::avx2(), text.cpu);
  if (!kernel.dispatch()) {
    return "not parsed";
  }
  std::string message;
  mlir::ScopedDiagnosticHandler handler(
      kernel.dispatch()->getContext(),
      [&](mlir::Diagnostic &diagnostic) { message += diagnostic.str(); });
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(kernel.dispatch()->getLoc());
  EXPECT_TRUE(mlir::failed(text.cuda(kernel.dispatch(), *module)));
  EXPECT_TRUE(module->getBody()->empty());
  return message;
}

TEST(Cuda, RefusesRowsThatDoNotFitRegisters) {
  std::string message = refusal(rows(normText(1, 4, 1056, 2, 1, false)));
  EXPECT_NE(message.find("expected rows of at most 1024 columns"), std::string::npos) << message;
  EXPECT_NE(message.find("found 'tensor<2x1056xf32>'"), std::string::npos) << message;
}

TEST(Cuda, RefusesSumsOverRows) {
  std::string row = tensor({8});
  std::string message = refusal(rows(rowsText({1, 32, 0}, {{tensor({1, 32, 8}), Access{}, row}},
                                              {{tensor({2, 8}), Access{.kind = "columns"}}},
                                              "dispatch.yield %a0 : ROW", row)));
  EXPECT_NE(message.find("found sums over rows"), std::string::npos) << message;
}

} // namespace
