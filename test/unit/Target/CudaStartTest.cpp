// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of sluice.start and of its row's gradient: the position selects the row. Compared
// with their definition on the emulator and on the CPU.
#include "EmulatedKernel.h"
#include "RowsText.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr int64_t batch = 2, positions = 11, length = 9, by = 3;

LoadedKernel onCpu(const std::string &text) {
  return LoadedKernel(text, cpu::Target::avx2(), cpu::generateKernel);
}

/// `first` in rows before `by`, else `later`.
std::string choose(const std::string &first, const std::string &later) {
  return "%p = dispatch.position\n%end = arith.constant " + std::to_string(by) +
         " : i32\n%isFirst = arith.cmpi slt, %p, %end : i32\n%y = arith.select %isFirst, " + first +
         ", " + later + " : ROW\ndispatch.yield %y : ROW";
}

/// The first result of one launch on each target.
std::vector<Floats> runOnBoth(const std::string &text, const KernelInputs &launch) {
  std::vector<Floats> results;
  EmulatedKernel cuda(text);
  EXPECT_TRUE(cuda.made());
  results.push_back(cuda.run(getRun(launch))[0]);
  if (!targets().empty()) {
    LoadedKernel cpu = onCpu(text);
    EXPECT_TRUE(cpu.loaded());
    results.push_back(cpu.run(launch)[0]);
  }
  return results;
}

} // namespace

TEST(CudaStart, FirstRowsEqualTheLearnedRow) {
  for (int64_t d : {7, 64}) {
    std::string text = rowsText(
        {batch, positions, 1},
        {{tensor({batch, positions, d}), TextAccess{.map = "p - 3"}, tensor({d})},
         {tensor({d}), TextAccess{.kind = "vector"}, tensor({d})}},
        {{tensor({batch, positions, d}), TextAccess{}}}, choose("%a1", "%a0"), tensor({d}));
    Floats x = randomFloats(batch * positions * d, 1), null = randomFloats(d, 2);
    KernelInputs launch{.operands = {x, null}, .length = length, .rows = batch};
    for (const Floats &y : runOnBoth(text, launch)) {
      for (int64_t row = 0; row < batch * positions; ++row) {
        int64_t p = row % positions;
        for (int64_t c = 0; c < d; ++c) {
          float expected = p >= length ? untouched : p < by ? null[c] : x[(row - by) * d + c];
          ASSERT_EQ(y[row * d + c], expected) << "d " << d << " p " << p << " column " << c;
        }
      }
    }
  }
}

TEST(CudaStart, GradientIsTheSumOverFirstRows) {
  constexpr int64_t d = 40, parts = 3;
  std::string text =
      rowsText({batch, positions, 1}, {{tensor({batch, positions, d}), TextAccess{}, tensor({d})}},
               {{tensor({parts, d}), TextAccess{.kind = "columns"}}},
               "%zero = arith.constant dense<0.0> : ROW\n" + choose("%a0", "%zero"), tensor({d}));
  Floats dy = randomIntegers(batch * positions * d, 5, 100); // whose sums are exact
  KernelInputs launch{.operands = {dy}, .length = length, .rows = batch};
  for (const Floats &sums : runOnBoth(text, launch)) {
    for (int64_t c = 0; c < d; ++c) {
      float expected = 0, found = 0;
      for (int64_t row = 0; row < batch * positions; ++row) {
        expected += row % positions < by ? dy[row * d + c] : 0;
      }
      for (int64_t part = 0; part < parts; ++part) {
        found += sums[part * d + c];
      }
      EXPECT_EQ(found, expected) << "column " << c;
    }
  }
}
