// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generation of a token allocates nothing. Counts every `new` of this program and of the runtime,
// on all threads.
#include "Harness.h"
#include "StepSpecs.h"
#include "sluice/Runtime/Generate/Generator.h"

#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>

static std::atomic<int64_t> allocations;

// The array and nothrow forms end here too.
void *operator new(std::size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}
void *operator new(std::size_t bytes, std::align_val_t alignment) {
  ++allocations;
  auto to = static_cast<std::size_t>(alignment);
  if (void *memory = std::aligned_alloc(to, (bytes + to - 1) / to * to)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

using namespace sluice::testing;
using namespace sluice;
using namespace sluice::runtime;

namespace {

/// Three texts in parallel, from the second token to the end of the context, on two threads.
TEST(Generation, AllocatesNothingPerToken) {
  Folder folder;
  std::string target = machineTargets().front();
  std::string artifact = compileForGeneration(folder, folder.write("m.json", coarseHead), target);
  sluice::testing::Model model(artifact, target, 2);
  model.setWeights(randomWeights(model.shapes(), 5));
  Predictor predictor(model.executor(), true);
  ASSERT_TRUE(predictor.isCached());
  const std::vector<int32_t> text = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7};
  ASSERT_EQ(std::ssize(text), model.plan().model.context);
  std::vector<Predictor::Turn> turns(3);
  for (size_t length = 1; length <= text.size(); ++length) {
    for (size_t row = 0; row < turns.size(); ++row) {
      turns[row] = {static_cast<int64_t>(row), {text.data(), length}};
    }
    int64_t before = allocations;
    predictor.predict(turns);
    int64_t made = allocations - before;
    EXPECT_TRUE(length == 1 || made == 0) << made << " at " << length << " tokens";
  }
  int64_t before = allocations;
  auto counted = std::make_unique<std::vector<int>>(1);
  EXPECT_EQ(allocations - before, 2) << "what is allocated is not counted";
}

} // namespace
