// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recurrences on the CUDA target, emulated and checked by the oracle, compared with the CPU's.
#include "EmulatedKernel.h"
#include "RecurrenceCase.h"

using namespace sluice;
using namespace sluice::test;

/// Sums are in another order than on the CPU; tanh differs by a few ulp.
TEST(CudaRecurrence, EqualsTheCpu) {
  for (int64_t columns : {3, 40}) {
    std::vector<RecurrenceCase> cases = RecurrenceCase::list(columns);
    cases.push_back({columns, ", weighted, resets", /*isScheduled=*/true});
    cases.push_back({columns, ", weighted", false, 3, "bf16"});
    for (const RecurrenceCase &one : cases) {
      EmulatedKernel cuda(one.text());
      ASSERT_TRUE(cuda.made());
      std::vector<Floats> found = cuda.run(getRun(one.launch()));
      if (targets().empty()) {
        continue;
      }
      LoadedKernel cpu(one.text(), cpu::Target::avx2(), cpu::generateKernel);
      ASSERT_TRUE(cpu.loaded());
      std::vector<Floats> expected = cpu.run(one.launch());
      for (size_t i = 0; i < found.size(); ++i) {
        for (size_t at = 0; at < found[i].size(); ++at) {
          ASSERT_NEAR(found[i][at], expected[i][at], 1e-4) << one.flags << " result " << i;
        }
      }
    }
  }
}
