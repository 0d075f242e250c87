// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs of attention's CUDA kernels, and their results.
#include "AttentionRuns.h"

#include "gtest/gtest.h"
#include <cmath>
#include <iostream>

using namespace sluice;
using namespace sluice::test;
using emulator::Copies;
using emulator::Schedule;

CudaRun test::forwardRun(const AttentionCase &c, const AttentionData &data, Schedule schedule,
                         Copies copies) {
  CudaRun run{.operands = sequences(c, data),
              .length = c.length,
              .rows = c.rows,
              .step = c.step,
              .seed = c.seed,
              .options = emulator::Options{.seed = 7, .schedule = schedule, .copies = copies}};
  run.operands.insert(run.operands.end(), data.terms.begin(), data.terms.end());
  if (!c.keyCounts.empty()) {
    run.operands.push_back(countReads(c));
  }
  return run;
}

CudaRun test::backwardRun(const AttentionCase &c, const AttentionData &data, Schedule schedule,
                          Copies copies) {
  CudaRun run = forwardRun(c, data, schedule, copies);
  run.operands.insert(run.operands.begin() + 3,
                      {data.outputIn, data.lseIn, data.outputGradient}); // counts stay last
  if (c.rotary) {
    run.operands.insert(run.operands.begin() + 6 + c.terms(), data.rotary);
  }
  return run;
}

static bool isValid(const AttentionCase &c, int64_t row, int64_t tensor) {
  if (tensor == allValid) {
    return true;
  }
  bool isDistance = tensor == byDistance;
  int64_t positions = isDistance ? c.distanceRows() : c.getValueRows(tensor);
  int64_t valid = isDistance    ? c.validDistances()
                  : tensor == 0 ? c.valid()
                                : c.validKeys(row / positions);
  return row / positions < c.rows && row % positions < valid;
}

void test::compare(const AttentionCase &c, const std::vector<float> &found,
                   const Expected &expected, int64_t width, bool zeros, const std::string &what,
                   int64_t tensor) {
  ASSERT_EQ(found.size(), expected.value.size());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    int64_t row = int64_t(i) / width;
    auto where = [&] { // printing each number would take a third of the time of the tests
      return what + ": row " + std::to_string(row) + " column " +
             std::to_string(int64_t(i) % width) + " found " + std::to_string(found[i]);
    };
    if (!isValid(c, row, tensor)) {
      ASSERT_TRUE(zeros ? found[i] == 0 : isUntouched(found[i])) << where();
      continue;
    }
    double error = std::abs(double(found[i]) - expected.value[i]);
    bool same = std::isinf(expected.value[i]) ? double(found[i]) == expected.value[i]
                                              : error <= expected.bound[i];
    ASSERT_TRUE(same) << where() << ", expected " << expected.value[i] << " within "
                      << expected.bound[i];
    worst = expected.bound[i] > 0 ? std::max(worst, error / expected.bound[i]) : worst;
  }
  std::cout << c.name << ", " << what << ": worst error " << worst << " of its bound\n";
}
