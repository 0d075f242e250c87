// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// The gradient of a gather: sums in row order, for any order of items. Segments: rows found by an
// index, and sums over ranges of rows.
#include "LengthCases.h"

using namespace sluice;
using namespace sluice::test;

namespace {

std::string scatterText(int64_t batch, int64_t positions, int64_t d, int64_t vocabulary,
                        bool init) {
  std::string index = tensor({batch, positions + 1}, "i32"), values = tensor({batch, positions, d});
  std::string table = tensor({vocabulary, d});
  return "func.func @f(%i: " + index + ", %v: " + values + ", %t: " + table +
         ") {\n  %r = dispatch.scatter_rows %i, %v" + (init ? ", %t" : "") +
         " attributes {domain = #dispatch.domain<batch = " + std::to_string(batch) +
         ", positions = " + std::to_string(positions) + ", factor = 1>} : (" + index + ", " +
         values + (init ? ", " + table : "") + ") -> " + table + "\n  return\n}\n";
}

KernelGenerator scatter() { return cpu::generateKernel; }

/// The f32 sum in row order is the definition, so results must be bitwise equal.
TEST(Scatter, SumsInRowOrder) {
  const int64_t batch = 3;
  for (int64_t d : {1, 7, 16, 40, 257}) {
    for (int64_t vocabulary : {5, 64, 131}) {
      int64_t positions = 37;
      Floats index = randomIntegers(batch * (positions + 1), 1, int(vocabulary));
      Floats values = randomFloats(batch * positions * d, 2),
             start = randomFloats(vocabulary * d, 3);
      for (bool init : {false, true}) {
        for (const cpu::Target *target : targets()) {
          LoadedKernel kernel(scatterText(batch, positions, d, vocabulary, init), *target,
                              scatter());
          ASSERT_TRUE(kernel.loaded());
          EXPECT_EQ(kernel.kernel().kind, "stream");
          for (int64_t length : {37, 21, 3}) {
            KernelInputs launch{.operands = {index, values}, .length = length, .rows = 2};
            if (init) {
              launch.operands.push_back(start);
              launch.shares = {{0, 2}};
            }
            Floats table = runTwice(kernel, launch)[0];
            Floats expected = init ? start : Floats(vocabulary * d);
            for (int64_t b = 0; b < 2; ++b) {
              for (int64_t p = 0; p < length; ++p) {
                for (int64_t c = 0; c < d; ++c) {
                  expected[int64_t(index[b * (positions + 1) + p]) * d + c] +=
                      values[(b * positions + p) * d + c];
                }
              }
            }
            ASSERT_EQ(table, expected)
                << "d " << d << " vocabulary " << vocabulary << " length " << length;
          }
        }
      }
    }
  }
}

/// On every CPU target, bitwise equal for any order of items.
SegmentMake segmentKernels(const cpu::Target &target) {
  return [&target](const std::string &text) -> SegmentRun {
    auto kernel = std::make_shared<LoadedKernel>(text, target, cpu::generateKernel);
    return kernel->loaded() ? SegmentRun([kernel](const KernelInputs &launch) {
      return runTwice(*kernel, launch);
    })
                            : SegmentRun();
  };
}

TEST(Segments, ScansFindSegmentEnds) {
  for (const cpu::Target *target : targets()) {
    checkSegmentScans(segmentKernels(*target));
  }
}

TEST(Segments, GathersAndSumsRows) {
  for (const cpu::Target *target : targets()) {
    checkSegmentRows(segmentKernels(*target));
  }
}

TEST(Lists, SumRowsAsADenseMatrixDoes) {
  for (const cpu::Target *target : targets()) {
    checkListSums(segmentKernels(*target));
  }
}

TEST(Segments, HandlesLengthsPerSequence) {
  for (const cpu::Target *target : targets()) {
    for (const char *element : {"f32", "bf16"}) {
      checkOwnLengths(segmentKernels(*target), element);
    }
  }
}

} // namespace
