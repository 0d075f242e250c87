// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weight gradients on tensor cores, emulated and checked by the oracle, compared with float64 sums.
#include "EmulatedKernel.h"
#include "RowsText.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr double unit32 = 0x1p-23;

struct CudaWeightCase {
  int64_t batch = 1, positions = 1, height = 1, width = 1;
  int64_t factor = 1;
  bool initWeight = false, initBias = false, weight = true, bias = true;
  std::vector<int64_t> lengths = {}; ///< of the sequences, on an axis of their own

  int64_t rows() const { return batch * positions; }
  std::string text() const {
    std::string left = tensor({batch, positions, height}, "bf16"),
                right = tensor({batch, positions, width}, "bf16"), matrix = tensor({height, width}),
                vector = tensor({height});
    std::string names = "%l, %r", types = left + ", " + right,
                parameters = "%l: " + left + ", %r: " + right;
    auto add = [&](bool wanted, const std::string &name, const std::string &type) {
      names += wanted ? ", " + name : "";
      types += wanted ? ", " + type : "";
      parameters += wanted ? ", " + name + ": " + type : "";
      return std::string(wanted ? "1" : "0");
    };
    std::string inits = add(initWeight, "%iw", matrix) + ", " + add(initBias, "%ib", vector);
    std::string results = weight ? matrix : "";
    results += bias ? (weight ? ", " : "") + vector : "";
    return "func.func @f(" + parameters + ") {\n  %g:" + std::to_string(weight + bias) +
           " = dispatch.weight_gradient " + names +
           " attributes {domain = #dispatch.domain<batch = " + std::to_string(batch) +
           ", positions = " + std::to_string(positions) + ", factor = " + std::to_string(factor) +
           (lengths.empty() ? "" : " axis = \"words\"") +
           ">, operandSegmentSizes = array<i32: 1, 1, " + inits +
           ">, resultSegmentSizes = array<i32: " + (weight ? "1, " : "0, ") + (bias ? "1" : "0") +
           ">} : (" + types + ") -> (" + results + ")\n  return\n}";
  }
};

CudaRun runOnNumbers(const CudaWeightCase &c, unsigned seed, bool integers) {
  auto make = [&](int64_t count, unsigned more) {
    return integers ? smallIntegers(count, seed + more, 3) : bf16Numbers(count, seed + more);
  };
  CudaRun run{.operands = {make(c.rows() * c.height, 1), make(c.rows() * c.width, 2)},
              .length = c.positions * std::max<int64_t>(c.factor, 1),
              .rows = c.batch,
              .lengths = c.lengths};
  if (c.initWeight) {
    run.operands.push_back(make(c.height * c.width, 3));
  }
  if (c.initBias) {
    run.operands.push_back(make(c.height, 4));
  }
  return run;
}

/// One rounding per addition: rows, splits and the init. Small integers are exact. Invalid rows
/// hold NaN.
void check(const CudaWeightCase &c, EmulatedKernel &kernel, CudaRun run, bool integers) {
  auto isValid = [&](int64_t row) {
    int64_t sequence = row / c.positions;
    int64_t length = c.lengths.empty() ? run.length : c.lengths[size_t(sequence)];
    return c.factor == 0 ||
           (sequence < run.rows && row % c.positions < (length + c.factor - 1) / c.factor);
  };
  const Floats left = run.operands[0], right = run.operands[1];
  for (int64_t row = 0; row < c.rows(); ++row) {
    for (int64_t m = 0; !isValid(row) && m < c.height; ++m) {
      run.operands[0][size_t(row * c.height + m)] = NAN;
    }
    for (int64_t k = 0; !isValid(row) && k < c.width; ++k) {
      run.operands[1][size_t(row * c.width + k)] = NAN;
    }
  }
  auto results = kernel.run(run);
  ASSERT_EQ(results.size(), size_t(c.weight + c.bias));
  double roundings = double(c.rows()) + 300;
  auto compare = [&](float found, double init, double sum, double magnitude) {
    double bound = integers ? 0 : roundings * unit32 * (magnitude + std::abs(init));
    ASSERT_NEAR(found, init + sum, bound) << c.text();
  };
  for (int64_t m = 0; m < c.height; ++m) {
    for (int64_t k = 0; c.weight && k < c.width; ++k) {
      double sum = 0, magnitude = 0;
      for (int64_t row = 0; row < c.rows(); ++row) {
        if (isValid(row)) {
          double term = double(left[size_t(row * c.height + m)]) * right[size_t(row * c.width + k)];
          sum += term;
          magnitude += std::abs(term);
        }
      }
      double init = c.initWeight ? run.operands[2][size_t(m * c.width + k)] : 0;
      compare(results[0][size_t(m * c.width + k)], init, sum, magnitude);
    }
    double sum = 0, magnitude = 0;
    for (int64_t row = 0; row < c.rows(); ++row) {
      sum += isValid(row) ? left[size_t(row * c.height + m)] : 0;
      magnitude += isValid(row) ? std::abs(left[size_t(row * c.height + m)]) : 0;
    }
    if (c.bias) {
      double init = c.initBias ? run.operands.back()[size_t(m)] : 0;
      compare(results.back()[size_t(m)], init, sum, magnitude);
    }
  }
}

/// Without and with a split (more than sixteen steps of 32 rows), with partial tiles in every
/// dimension.
TEST(CudaWeightGradient, IsTheSumOverValidRows) {
  unsigned seed = 0;
  for (CudaWeightCase c :
       {CudaWeightCase{.batch = 2, .positions = 57, .height = 70, .width = 90},
        CudaWeightCase{.batch = 3,
                       .positions = 190,
                       .height = 130,
                       .width = 75,
                       .factor = 2,
                       .initWeight = true,
                       .initBias = true},
        CudaWeightCase{.batch = 3,
                       .positions = 190,
                       .height = 33,
                       .width = 50,
                       .factor = 1,
                       .initWeight = true},
        CudaWeightCase{
            .batch = 1, .positions = 600, .height = 66, .width = 34, .factor = 0, .bias = false},
        CudaWeightCase{.batch = 2, .positions = 300, .height = 75, .width = 20, .weight = false},
        CudaWeightCase{.batch = 2, .positions = 30, .height = 1, .width = 1, .initBias = true},
        CudaWeightCase{.batch = 1, .positions = 1, .height = 129, .width = 129}}) {
    EmulatedKernel kernel(c.text());
    ASSERT_TRUE(kernel.made());
    EXPECT_EQ(kernel.kernel().stages.size(), 1u);
    EXPECT_EQ(kernel.kernel().counters > 0, c.rows() >= 512); // the rows are split
    for (bool integers : {false, true}) {
      CudaRun run = runOnNumbers(c, seed += 10, integers);
      check(c, kernel, run, integers);
      run.rows = std::max<int64_t>(1, c.batch - 1);
      run.length = run.length * 2 / 3;
      run.options = emulator::Options{.seed = seed, .schedule = emulator::Schedule::WarpAlone};
      check(c, kernel, run, integers);
    }
  }
}

/// Steps without a valid row are left out: with one part and with several, some of them empty.
TEST(CudaWeightGradient, SumsOverSequencesOfTheirOwnLengths) {
  unsigned seed = 0;
  for (CudaWeightCase c : {CudaWeightCase{.batch = 5,
                                          .positions = 300,
                                          .height = 70,
                                          .width = 40,
                                          .initBias = true,
                                          .lengths = {13, 1, 300, 32, 33}},
                           CudaWeightCase{.batch = 3,
                                          .positions = 40,
                                          .height = 33,
                                          .width = 50,
                                          .factor = 2,
                                          .lengths = {80, 1, 63}},
                           CudaWeightCase{.batch = 2,
                                          .positions = 600,
                                          .height = 34,
                                          .width = 7,
                                          .weight = false,
                                          .lengths = {1, 2}}}) {
    EmulatedKernel kernel(c.text());
    ASSERT_TRUE(kernel.made());
    EXPECT_EQ(kernel.kernel().counters > 0, c.rows() >= 512);
    for (int64_t rows : {c.batch, c.batch - 1}) {
      CudaRun run = runOnNumbers(c, seed += 10, true);
      run.rows = rows;
      run.options = emulator::Options{.seed = seed, .schedule = emulator::Schedule::WarpAlone};
      check(c, kernel, run, true);
    }
  }
}

/// Products of warpgroups, in sequences of rows that divide into steps, that do not, and that have
/// lengths of their own.
TEST(CudaWeightGradient, WarpgroupsSumOverValidRows) {
  unsigned seed = 0;
  for (CudaWeightCase c :
       {CudaWeightCase{.batch = 3,
                       .positions = 190,
                       .height = 130,
                       .width = 139,
                       .factor = 2,
                       .initWeight = true,
                       .initBias = true},
        CudaWeightCase{.batch = 2, .positions = 192, .height = 66, .width = 130},
        CudaWeightCase{.batch = 1, .positions = 600, .height = 129, .width = 265, .bias = false},
        CudaWeightCase{.batch = 1, .positions = 1, .height = 70, .width = 136},
        CudaWeightCase{
            .batch = 3, .positions = 300, .height = 70, .width = 140, .lengths = {13, 300, 65}}}) {
    EmulatedKernel kernel(c.text(), nullptr, cuda::Target::sm90a());
    ASSERT_TRUE(kernel.made());
    EXPECT_EQ(kernel.kernel().counters > 0, c.rows() >= 512); // the rows are split
    for (bool integers : {false, true}) {
      CudaRun run = runOnNumbers(c, seed += 10, integers);
      run.rows = integers ? c.batch : std::max<int64_t>(1, c.batch - 1);
      run.length = integers ? run.length : (run.length * 2 + 2) / 3;
      check(c, kernel, run, integers);
    }
  }
}

TEST(CudaWeightGradient, SchedulesAndSharedInits) {
  CudaWeightCase c{.batch = 2,
                   .positions = 300,
                   .height = 70,
                   .width = 72,
                   .initWeight = true,
                   .initBias = true};
  EmulatedKernel kernel(c.text());
  ASSERT_TRUE(kernel.made());
  CudaRun run = runOnNumbers(c, 3, true);
  run.shares = {{0, 2}, {1, 3}};
  uint64_t seed = 0;
  for (auto schedule :
       {emulator::Schedule::InOrder, emulator::Schedule::Random, emulator::Schedule::WarpAlone}) {
    for (auto copies : {emulator::Copies::Early, emulator::Copies::Late}) {
      run.options = emulator::Options{.seed = ++seed, .schedule = schedule, .copies = copies};
      check(c, kernel, run, true);
    }
  }
}

TEST(CudaWeightGradient, TrafficIsConflictFreeAndCoalesced) {
  CudaWeightCase c{.batch = 1, .positions = 512, .height = 128, .width = 128, .factor = 0};
  EmulatedKernel kernel(c.text());
  ASSERT_TRUE(kernel.made());
  kernel.run(runOnNumbers(c, 1, false));
  for (const emulator::Report &report : kernel.reports) {
    const emulator::Counters &counted = report.counters;
    EXPECT_EQ(counted.bankConflicts(), 0u);
    EXPECT_GE(double(counted.leastSectors), 0.9 * double(counted.globalSectors));
    std::cout << "sectors " << counted.leastSectors << " of " << counted.globalSectors
              << ", tensor share " << counted.tensorShare() << "\n";
  }
}

/// NVPTX gives atom no order: without the fences the last block might read stale cached data.
TEST(CudaWeightGradient, FencesOrderTheArrivalOfTheLastBlock) {
  CudaWeightCase c{.batch = 2, .positions = 300, .height = 70, .width = 72};
  EmulatedKernel kernel(c.text());
  ASSERT_TRUE(kernel.made());
  for (const cuda::Target *target : {&cuda::Target::sm80(), &cuda::Target::sm90a()}) {
    std::string ptx = kernel.ptx(*target);
    size_t release = ptx.find("fence.acq_rel.gpu;"), arrival = ptx.find("atom.global.inc.u32");
    ASSERT_NE(arrival, std::string::npos) << ptx;
    size_t acquire = ptx.find("fence.acq_rel.gpu;", arrival);
    ASSERT_TRUE(release < arrival && acquire != std::string::npos) << ptx;
    // All threads synchronize before the first and after the second.
    size_t before = ptx.rfind("bar.sync", release), after = ptx.find("bar.sync", acquire);
    ASSERT_TRUE(before != std::string::npos && after != std::string::npos) << ptx;
    EXPECT_EQ(ptx.substr(before, release - before).find("st.global"), std::string::npos) << ptx;
    EXPECT_EQ(ptx.substr(acquire, after - acquire).find("ld.global"), std::string::npos) << ptx;
  }
}

struct Waves {
  int64_t height, width, rows;
  int64_t ofA100, ofH100; ///< blocks
};

/// Blocks per multiprocessor with ptxas' registers; none without ptxas.
std::optional<int64_t> residentBlocks(const GeneratedKernel &kernel, const cuda::Target &target) {
  auto binary = cuda::assemble(kernel.ptx(target), target);
  if (!binary) {
    ADD_FAILURE() << llvm::toString(binary.takeError());
    return std::nullopt;
  }
  return *binary ? std::optional(
                       countLaunchBlocks(kernel.kernel().stages[0], (*binary)->usage[0], target))
                 : std::nullopt;
}

// 216 blocks run at a time on an A100, 132 of two warpgroups on an H100 or H200. The large
// gradients fill a wave to 89% or more; with few tiles, adding their parts costs more than idle
// multiprocessors.
TEST(CudaWeightGradient, BlocksFillCompleteWaves) {
  for (Waves c : {Waves{512, 2048, 16384, 192, 128}, Waves{2048, 512, 16384, 192, 128},
                  Waves{512, 512, 16384, 208, 128}, Waves{1536, 512, 16384, 192, 120},
                  Waves{64, 512, 16384, 152, 152}, Waves{64, 64, 1024, 4, 4}}) {
    for (const cuda::Target *target : {&cuda::Target::sm80(), &cuda::Target::sm90a()}) {
      CudaWeightCase shape{
          .positions = c.rows, .height = c.height, .width = c.width, .bias = false};
      GeneratedKernel kernel(shape.text(), *target);
      ASSERT_TRUE(kernel.made());
      int64_t blocks = kernel.kernel().stages[0].blocks,
              expected = target == &cuda::Target::sm80() ? c.ofA100 : c.ofH100;
      EXPECT_EQ(blocks, expected) << target->chip.str() << " " << c.height << " x " << c.width;
      int64_t resident = kernel.kernel().stages[0].threads > 128 ? 1 : 2;
      EXPECT_GE(residentBlocks(kernel, *target).value_or(2), resident)
          << c.height << " x " << c.width;
    }
  }
}

TEST(CudaWeightGradient, AssemblesWithoutSpills) {
  for (CudaWeightCase c :
       {CudaWeightCase{.batch = 16, .positions = 1024, .height = 2048, .width = 512},
        CudaWeightCase{.batch = 16,
                       .positions = 1024,
                       .height = 512,
                       .width = 512,
                       .initWeight = true,
                       .initBias = true},
        CudaWeightCase{.batch = 3,
                       .positions = 190,
                       .height = 130,
                       .width = 75,
                       .factor = 2,
                       .initWeight = true},
        CudaWeightCase{.batch = 3, .positions = 190, .height = 60, .width = 50}}) {
    GeneratedKernel(c.text()).checkAssembly(
        {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"});
    if (c.width > 128) {
      GeneratedKernel(c.text(), cuda::Target::sm90a())
          .checkAssembly({"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"});
    }
  }
}

} // namespace
