// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contractions on tensor cores, emulated and checked by the oracle, compared with float64 sums of
// the same bf16 numbers.
#include "EmulatedKernel.h"
#include "Philox.h"
#include "ProductReference.h"
#include "RowsText.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr double unit32 = 0x1p-23, unit16 = 0x1p-8;

struct CudaContractCase {
  int64_t batch = 1, positions = 1, inner = 1, columns = 1;
  bool byInput = false;
  int64_t factor = 1;
  std::string residual = "f32";               ///< storage of the extra of access row
  std::vector<std::string> results = {"f32"}; ///< storage of each
  std::string body = "%y = arith.addf %acc, %bias : f32\ndispatch.yield %y : f32";
  int64_t rotated = 0, head = 2; ///< columns of result 0 that are rotated, by heads

  int64_t rows() const { return batch * positions; }
  std::string text() const {
    std::string x = tensor({batch, positions, inner}, "bf16"),
                w = byInput ? tensor({inner, columns}, "bf16") : tensor({columns, inner}, "bf16"),
                b = tensor({columns}), r = tensor({batch, positions, columns}, residual),
                t = tensor({positions, head}), outs, accesses, values;
    std::string row = test::TextAccess{.factor = factor};
    for (size_t i = 0; i < results.size(); ++i) {
      outs += (i ? ", " : "") + tensor({batch, positions, columns}, results[i]);
      accesses += (i ? ", " : "") + row;
    }
    return "func.func @f(%x: " + x + ", %w: " + w + ", %b: " + b + ", %r: " + r + ", %t: " + t +
           ") {\n  %y" + (results.size() > 1 ? ":" + std::to_string(results.size()) : "") +
           " = dispatch.contract %x, %w, %b, %r" + (rotated ? ", %t" : "") +
           " attributes {domain = #dispatch.domain<batch = " + std::to_string(batch) +
           ", positions = " + std::to_string(positions) + ", factor = " + std::to_string(factor) +
           ">" + (byInput ? ", by_input" : "") + ", accesses = [" +
           std::string(test::TextAccess{.kind = "vector", .factor = 0}) + ", " + row +
           (rotated ? ", " + std::string(test::TextAccess{.kind = "table", .factor = 0}) : "") +
           "], result_accesses = [" + accesses + "]" +
           (rotated ? ", rotated_columns = " + std::to_string(rotated) + " : i64" : "") +
           "} {\n^bb0(%acc: f32, %bias: f32, %residual: f32):\n" + body + "\n} : (" + x + ", " + w +
           ", " + b + ", " + r + (rotated ? ", " + t : "") + ") -> (" + outs + ")\n  return\n}\n";
  }
};

/// Operands in the op's order.
CudaRun runOnNumbers(const CudaContractCase &c, unsigned seed, bool integers = false) {
  auto make = [&](int64_t count, unsigned more) {
    return integers ? smallIntegers(count, seed + more, 3) : bf16Numbers(count, seed + more);
  };
  return {.operands = {make(c.rows() * c.inner, 1), make(c.inner * c.columns, 2),
                       make(c.columns, 3), make(c.rows() * c.columns, 4)},
          .length = c.positions * std::max<int64_t>(c.factor, 1),
          .rows = c.batch,
          .step = 3,
          .seed = 11};
}

ProductSum computeSum(const CudaContractCase &c, const CudaRun &run, int64_t r, int64_t n) {
  return computeProduct(run.operands[0], run.operands[1], c.inner, c.columns, c.byInput, r, n);
}

bool isValid(const CudaContractCase &c, const CudaRun &run, int64_t row) {
  return c.factor == 0 || (row / c.positions < run.rows &&
                           row % c.positions < (run.length + c.factor - 1) / c.factor);
}

/// acc + bias: K roundings of the sum, one of the addition.
void checkBiased(const CudaContractCase &c, const CudaRun &run, const Floats &y) {
  for (int64_t i = 0; i < c.rows() * c.columns; ++i) {
    int64_t r = i / c.columns, n = i % c.columns;
    if (!isValid(c, run, r)) {
      ASSERT_TRUE(isUntouched(y[size_t(i)])) << "row " << r << " is not valid";
      continue;
    }
    ProductSum sum = computeSum(c, run, r, n);
    double bias = run.operands[2][size_t(n)], expected = sum.value + bias;
    double bound = double(c.inner + 1) * unit32 * (sum.magnitude + std::abs(bias));
    ASSERT_NEAR(y[size_t(i)], expected,
                bound + (c.results[0] == "bf16" ? unit16 : 0) * (std::abs(expected) + bound))
        << "row " << r << " column " << n << " of " << c.text();
  }
}

/// Tiles of every kind, with partial tiles in every dimension; K of more steps than twice the
/// stages, and of one.
const CudaContractCase shapes[] = {
    {.batch = 3, .positions = 47, .inner = 300, .columns = 139},
    {.batch = 3, .positions = 47, .inner = 300, .columns = 139, .byInput = true},
    {.batch = 2, .positions = 40, .inner = 289, .columns = 84},
    {.batch = 2, .positions = 40, .inner = 70, .columns = 84, .byInput = true},
    {.batch = 1, .positions = 1, .inner = 1, .columns = 1},
    {.batch = 1, .positions = 65, .inner = 64, .columns = 64, .byInput = true},
    {.batch = 1, .positions = 64, .inner = 16, .columns = 66, .byInput = true},
};

TEST(CudaContract, SumOfProductsIsWithinRoundingBound) {
  unsigned seed = 0;
  for (CudaContractCase c : shapes) {
    for (const char *storage : {"f32", "bf16"}) {
      c.results = {storage};
      EmulatedKernel kernel(c.text());
      ASSERT_TRUE(kernel.made());
      CudaRun run = runOnNumbers(c, ++seed);
      checkBiased(c, run, kernel.run(run)[0]);
    }
  }
}

/// Pairs rotated by their row's angle, of heads that divide neither tiles nor a thread's four
/// columns; columns after them are unchanged. Result 1 is rotated.
TEST(CudaContract, RotatesPairsOfColumnsByPosition) {
  const int64_t sizes[][3] = {{2, 3, 8}, {6, 5, 41}, {22, 3, 90}, {32, 4, 192}, {40, 3, 200}};
  for (auto [head, heads, columns] : sizes) {
    CudaContractCase c{
        .batch = 3, .positions = 47, .inner = 70, .columns = columns, .results = {"bf16", "f32"}};
    c.body = "%y = arith.addf %acc, %bias : f32\ndispatch.yield %y, %y : f32, f32";
    c.rotated = head * heads;
    c.head = head;
    EmulatedKernel kernel(c.text());
    ASSERT_TRUE(kernel.made());
    CudaRun run = runOnNumbers(c, 23);
    run.length = 41;
    run.rows = 2;
    run.operands.emplace_back();
    for (int64_t i = 0; i < c.positions * head; ++i) {
      double angle = double(i / head) / std::pow(100.0, double(i % head / 2) / double(head));
      run.operands.back().push_back(float(i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
    }
    auto results = kernel.run(run);
    for (int64_t i = 0; i < c.rows() * columns; ++i) {
      int64_t r = i / columns, n = i % columns, at = r % c.positions * head + n % head / 2 * 2;
      if (!isValid(c, run, r)) {
        ASSERT_TRUE(isUntouched(results[0][size_t(i)])) << "row " << r << " is not valid";
        continue;
      }
      double expected = results[1][size_t(i)], bound = 0;
      if (n < c.rotated) {
        double x = results[1][size_t(i - n % 2)], y = results[1][size_t(i - n % 2 + 1)];
        double cosine = run.operands[4][size_t(at)], sine = run.operands[4][size_t(at + 1)];
        expected = n % 2 == 0 ? x * cosine - y * sine : x * sine + y * cosine;
        bound = (std::abs(x) + std::abs(y)) * unit32;
      }
      ASSERT_NEAR(results[0][size_t(i)], expected, bound + unit16 * (std::abs(expected) + bound))
          << "head " << head << " row " << r << " column " << n;
    }
  }
}

/// The large tiles, selected only for large results: a few valid rows limit the test's time.
TEST(CudaContract, LargeTilesOverPartialBatches) {
  for (bool byInput : {false, true}) {
    for (int64_t columns : {2060, 1100}) {
      CudaContractCase c{
          .batch = 10, .positions = 110, .inner = 70, .columns = columns, .byInput = byInput};
      EmulatedKernel kernel(c.text());
      ASSERT_TRUE(kernel.made());
      CudaRun run = runOnNumbers(c, 5);
      run.rows = 2;
      run.length = 90;
      checkBiased(c, run, kernel.run(run)[0]);
    }
  }
}

/// Products of warpgroups: partial tiles in every dimension, lines copied by 16, 4 and 2 bytes, and
/// more steps than stages. Copies of 16 bytes meet no bank conflicts.
TEST(CudaContract, WarpgroupsMultiplyLargeTiles) {
  const int64_t sizes[][2] = {{72, 3848}, {392, 3850}, {331, 3849}};
  for (auto [inner, columns] : sizes) {
    for (bool byInput : {false, true}) {
      CudaContractCase c{
          .batch = 10, .positions = 110, .inner = inner, .columns = columns, .byInput = byInput};
      EmulatedKernel kernel(c.text(), nullptr, cuda::Target::sm90a());
      ASSERT_TRUE(kernel.made());
      CudaRun run = runOnNumbers(c, 5);
      run.rows = 1;
      run.length = inner == 72 ? 110 : 9;
      checkBiased(c, run, kernel.run(run)[0]);
      const emulator::Counters &counted = kernel.reports[0].counters;
      EXPECT_TRUE(counted.bankConflicts() == 0 || inner != 72);
    }
  }
}

TEST(CudaContract, IntegersAreExactUnderEverySchedule) {
  CudaContractCase c{.batch = 2, .positions = 45, .inner = 330, .columns = 70, .factor = 2};
  for (bool byInput : {false, true}) {
    c.byInput = byInput;
    EmulatedKernel kernel(c.text());
    ASSERT_TRUE(kernel.made());
    CudaRun run = runOnNumbers(c, 7, /*integers=*/true);
    uint64_t seed = 0;
    for (auto schedule :
         {emulator::Schedule::InOrder, emulator::Schedule::Random, emulator::Schedule::WarpAlone}) {
      for (auto copies :
           {emulator::Copies::Early, emulator::Copies::Late, emulator::Copies::Random}) {
        run.options = emulator::Options{.seed = ++seed, .schedule = schedule, .copies = copies};
        run.length = seed % 2 ? 90 : 31;
        Floats y = kernel.run(run)[0];
        for (int64_t i = 0; i < c.rows() * c.columns; ++i) {
          int64_t r = i / c.columns, n = i % c.columns;
          if (isValid(c, run, r)) {
            ASSERT_EQ(y[size_t(i)], computeSum(c, run, r, n).value + run.operands[2][size_t(n)]);
          } else {
            ASSERT_TRUE(isUntouched(y[size_t(i)]));
          }
        }
      }
    }
  }
}

const char *geluOfBiased = R"(  %biased = arith.addf %acc, %bias : f32
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %root = arith.constant 0.70710678 : f32
  %s = arith.mulf %biased, %root : f32
  %e = math.erf %s : f32
  %f = arith.addf %e, %one : f32
  %g = arith.mulf %f, %half : f32
  %h = arith.mulf %g, %biased : f32
  dispatch.yield %biased, %h : f32, f32)";

/// Integers make the sum exact, so only the epilogue's arithmetic remains: a few roundings, and one
/// more if the result is bf16.
TEST(CudaContract, TwoResultsBeforeAndAfterGelu) {
  for (auto storages : {std::vector<std::string>{"bf16", "bf16"}, {"f32", "bf16"}}) {
    CudaContractCase c{
        .batch = 2, .positions = 37, .inner = 50, .columns = 90, .results = storages};
    c.body = geluOfBiased;
    EmulatedKernel kernel(c.text());
    ASSERT_TRUE(kernel.made());
    CudaRun run = runOnNumbers(c, 9, true);
    auto y = kernel.run(run);
    for (int64_t i = 0; i < c.rows() * c.columns; ++i) {
      double x = computeSum(c, run, i / c.columns, i % c.columns).value +
                 run.operands[2][size_t(i % c.columns)];
      double gelu = 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
      ASSERT_EQ(y[0][size_t(i)], storages[0] == "bf16" ? roundedToBf16(float(x)) : float(x));
      // 1 + erf cancels for negative x: the roundings of the erf and the sum are absolute, times x.
      ASSERT_NEAR(y[1][size_t(i)], gelu, std::abs(x) * 16 * unit32 + std::abs(gelu) * unit16);
    }
  }
}

/// residual + dropout(acc + bias), with random bits for four elements at a time if rows are
/// multiples of four, else one by one.
TEST(CudaContract, ResidualAndDropoutInPlace) {
  for (int64_t columns : {72, 75}) {
    for (const char *storage : {"f32", "bf16"}) {
      CudaContractCase c{.batch = 2,
                         .positions = 37,
                         .inner = 50,
                         .columns = columns,
                         .residual = storage,
                         .results = {storage}};
      c.body = "%u = dispatch.random {id = 5 : i64, width = " + std::to_string(columns) +
               R"( : i64} : f32
  %biased = arith.addf %acc, %bias : f32
  %p = arith.constant 0.25 : f32
  %zero = arith.constant 0.0 : f32
  %kept = arith.cmpf oge, %u, %p : f32
  %d = arith.select %kept, %biased, %zero : f32
  %y = arith.addf %d, %residual : f32
  dispatch.yield %y : f32)";
      EmulatedKernel kernel(c.text());
      ASSERT_TRUE(kernel.made());
      CudaRun run = runOnNumbers(c, 13, true);
      run.shares = {{0, 3}};
      Floats y = kernel.run(run)[0];
      int64_t dropped = 0;
      for (int64_t i = 0; i < c.rows() * columns; ++i) {
        bool kept = philoxUniform(uint64_t(i), 5, 3, 11) >= 0.25f;
        dropped += !kept;
        float sum = float(computeSum(c, run, i / columns, i % columns).value) +
                    run.operands[2][size_t(i % columns)];
        float expected = (kept ? sum : 0) + run.operands[3][size_t(i)];
        ASSERT_EQ(y[size_t(i)], c.residual == "bf16" ? roundedToBf16(expected) : expected) << i;
      }
      EXPECT_GT(dropped, 0);
    }
  }
}

/// Copies and matrix loads have no bank conflicts, global memory is accessed in complete sectors,
/// and a large share of a warp's instructions are the tensor core's.
TEST(CudaContract, TrafficIsConflictFreeAndCoalesced) {
  for (bool byInput : {false, true}) {
    for (const char *storage : {"f32", "bf16"}) {
      CudaContractCase c{.batch = 1,
                         .positions = 128,
                         .inner = 512,
                         .columns = 128,
                         .byInput = byInput,
                         .factor = 0,
                         .residual = storage,
                         .results = {storage}};
      c.body = "%s = arith.addf %acc, %bias : f32\n%y = arith.addf %s, %residual : f32\n"
               "dispatch.yield %y : f32";
      EmulatedKernel kernel(c.text());
      ASSERT_TRUE(kernel.made());
      CudaRun run = runOnNumbers(c, 1);
      kernel.run(run);
      ASSERT_EQ(kernel.reports.size(), 1u);
      const emulator::Counters &counted = kernel.reports[0].counters;
      EXPECT_EQ(counted.bankConflicts(), 0u);
      EXPECT_GE(double(counted.leastSectors), 0.9 * double(counted.globalSectors));
      EXPECT_EQ(counted.tensorFlops, uint64_t(2) * 128 * 128 * 512);
      std::cout << (byInput ? "by input, " : "by output, ") << storage << ": sectors "
                << counted.leastSectors << " of " << counted.globalSectors << ", "
                << counted.globalSectors / double(counted.globalRequests)
                << " a request, tensor share " << counted.tensorShare() << "\n";
      for (const emulator::SiteTraffic &site : counted.sites) {
        EXPECT_GE(double(site.leastUnits), 0.9 * double(site.units)) << site.instruction;
      }
    }
  }
}

/// A division would be a subroutine or eight instructions; Philox's products are of 32 bits, and
/// the random integer is compared with the rate directly.
TEST(CudaContract, EpiloguesUseNoDivisionAnd32BitRandomBits) {
  CudaContractCase c{
      .batch = 2, .positions = 64, .inner = 64, .columns = 64, .results = {"bf16", "bf16"}};
  c.body = geluOfBiased;
  GeneratedKernel gelu(c.text());
  ASSERT_TRUE(gelu.made());
  std::string ptx = gelu.ptx(cuda::Target::sm80());
  EXPECT_EQ(ptx.find("div.rn.f32"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("div.full.f32"), std::string::npos) << ptx;
  EXPECT_NE(ptx.find("ex2.approx.f32"), std::string::npos) << ptx;
  c.results = {"f32"};
  c.body = R"(%u = dispatch.random {id = 5 : i64, width = 64 : i64} : f32
  %p = arith.constant 0.1 : f32
  %zero = arith.constant 0.0 : f32
  %kept = arith.cmpf oge, %u, %p : f32
  %y = arith.select %kept, %acc, %zero : f32
  dispatch.yield %y : f32)";
  GeneratedKernel dropout(c.text());
  ASSERT_TRUE(dropout.made());
  ptx = dropout.ptx(cuda::Target::sm80());
  EXPECT_NE(ptx.find("mul.hi.u32"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find(", 3528531795;"), std::string::npos) << ptx; // a factor of 64 bits
  EXPECT_EQ(ptx.find("cvt.rn.f32"), std::string::npos) << ptx;
}

TEST(CudaContract, AssemblesWithoutSpills) {
  const char *mma = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
  const char *wgmma = "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16";
  for (CudaContractCase c :
       {CudaContractCase{.batch = 16, .positions = 1024, .inner = 512, .columns = 1536},
        CudaContractCase{
            .batch = 16, .positions = 1024, .inner = 2048, .columns = 512, .byInput = true},
        CudaContractCase{.batch = 3, .positions = 1000, .inner = 300, .columns = 500},
        CudaContractCase{
            .batch = 3, .positions = 100, .inner = 301, .columns = 75, .byInput = true},
        CudaContractCase{.batch = 1, .positions = 1024, .inner = 512, .columns = 512}}) {
    for (bool isGelu : {false, true}) {
      if (isGelu) {
        c.results = {"bf16", "bf16"};
        c.body = geluOfBiased;
      }
      GeneratedKernel(c.text()).checkAssembly({mma});
      if (c.rows() > 4096) {
        GeneratedKernel(c.text(), cuda::Target::sm90a()).checkAssembly({wgmma});
      }
    }
  }
}

/// ptxas reports products that it serializes; here, because a sum is changed before the wait.
TEST(CudaContract, SerializedProductsAreReported) {
  CudaContractCase c{.batch = 16, .positions = 1024, .inner = 512, .columns = 1536};
  std::string ptx = GeneratedKernel(c.text(), cuda::Target::sm90a()).ptx(cuda::Target::sm90a());
  const std::string commit = "wgmma.commit_group.sync.aligned;", sums = "bf16.bf16 {";
  size_t at = ptx.find(commit), last = ptx.rfind(sums, at);
  ASSERT_TRUE(at != std::string::npos && last != std::string::npos);
  last += sums.size();
  std::string sum = ptx.substr(last, ptx.find(',', last) - last);
  ptx.insert(at + commit.size(), "\n\tadd.rn.f32 " + sum + ", " + sum + ", " + sum + ";");
  auto binary = cuda::assemble(ptx, cuda::Target::sm90a());
  ASSERT_TRUE(bool(binary)) << llvm::toString(binary.takeError());
  EXPECT_TRUE(!*binary || (*binary)->usage[0].serialized);
}

} // namespace
