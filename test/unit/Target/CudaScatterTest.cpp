// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of a gather, and segments, on the CUDA target, emulated and checked by the oracle:
// sums in row order.
#include "EmulatedKernel.h"
#include "LengthCases.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct ScatterCase {
  int64_t batch, positions, d, vocabulary;
};

std::string scatterText(const ScatterCase &c, bool init, const std::string &element) {
  std::string index = tensor({c.batch, c.positions + 1}, "i32"),
              values = tensor({c.batch, c.positions, c.d}, element),
              table = tensor({c.vocabulary, c.d});
  return "func.func @f(%i: " + index + ", %v: " + values + ", %t: " + table +
         ") {\n  %r = dispatch.scatter_rows %i, %v" + (init ? ", %t" : "") +
         " attributes {domain = #dispatch.domain<batch = " + std::to_string(c.batch) +
         ", positions = " + std::to_string(c.positions) + ", factor = 1>} : (" + index + ", " +
         values + (init ? ", " + table : "") + ") -> " + table + "\n  return\n}\n";
}

/// The f32 sum in row order is the definition, so results must be bitwise equal: for rare tokens
/// and one in most rows, for tables with more tokens than blocks, with and without earlier
/// contents.
TEST(CudaScatter, SumsInRowOrder) {
  for (ScatterCase c : {ScatterCase{3, 37, 7, 5}, ScatterCase{2, 700, 40, 64},
                        ScatterCase{1, 50, 258, 1601}, ScatterCase{2, 60, 1100, 9}}) {
    Floats index = randomIntegers(c.batch * (c.positions + 1), 1, int(c.vocabulary));
    for (size_t i = 0; i < index.size(); i += 3) {
      index[i] = 2;
    }
    Floats values = randomFloats(c.batch * c.positions * c.d, 2),
           start = randomFloats(c.vocabulary * c.d, 3);
    for (bool init : {false, true}) {
      for (const char *element : {"f32", "bf16"}) {
        EmulatedKernel cuda(scatterText(c, init, element));
        ASSERT_TRUE(cuda.made());
        EXPECT_EQ(cuda.kernel().kind, "stream");
        KernelInputs launch{
            .operands = {index, values}, .length = c.positions - 3, .rows = c.batch};
        if (init) {
          launch.operands.push_back(start);
          launch.shares = {{0, 2}};
          launch.length = c.positions / 2;
        }
        Floats expected = init ? start : Floats(c.vocabulary * c.d);
        for (int64_t b = 0; b < launch.rows; ++b) {
          for (int64_t p = 0; p < launch.length; ++p) {
            auto token = int64_t(index[b * (c.positions + 1) + p]);
            for (int64_t column = 0; column < c.d; ++column) {
              float value = values[(b * c.positions + p) * c.d + column];
              expected[token * c.d + column] += element[0] == 'b' ? roundedToBf16(value) : value;
            }
          }
        }
        ASSERT_EQ(cuda.run(getRun(launch))[0], expected)
            << "d " << c.d << " vocabulary " << c.vocabulary << " " << element;
      }
    }
  }
}

TEST(CudaScatter, Assembles) {
  for (ScatterCase c : {ScatterCase{4, 1024, 512, 50257}, ScatterCase{4, 1024, 256, 256},
                        ScatterCase{4, 64, 31, 256}}) {
    GeneratedKernel cuda(scatterText(c, true, "bf16"));
    ASSERT_TRUE(cuda.made());
    cuda.checkAssembly();
  }
}

SegmentRun emulated(const std::string &text) {
  auto kernel = std::make_shared<EmulatedKernel>(text);
  return kernel->made() ? SegmentRun([kernel](const KernelInputs &launch) {
    return kernel->run(getRun(launch));
  })
                        : SegmentRun();
}

TEST(CudaSegments, ScansFindSegmentEnds) { checkSegmentScans(emulated); }
TEST(CudaSegments, GathersAndSumsRows) { checkSegmentRows(emulated); }
TEST(CudaLists, SumRowsAsADenseMatrixDoes) { checkListSums(emulated); }
TEST(CudaSegments, HandlesLengthsPerSequence) { checkOwnLengths(emulated, "bf16"); }

} // namespace
