// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps of epochs, counted from the data and from the checkpoint of a resumed run.
#include "TrainerFixture.h"

#include "sluice/Runtime/Train/Epochs.h"

namespace {

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

class Epochs : public Trainer {
protected:
  /// Rows of the text by point 1 of "The order of the data" in docs/running.md.
  int64_t countRows() const { return (3000 - 1) / plan.model.context - 1; }
  int64_t divideUp(int64_t rows, int64_t rowsOfUpdate) const {
    return (rows + rowsOfUpdate - 1) / rowsOfUpdate;
  }

  const Plan &plan = artifact->plan();
};

TEST_F(Epochs, CountStepsUntilEveryRowIsRead) {
  TrainingOptions flags = options("run");
  EpochSteps once = countSteps(flags, plan, 1), thrice = countSteps(flags, plan, 3);
  ASSERT_NE(countRows() % plan.model.batch, 0) << "the last step of an epoch is not full";
  EXPECT_EQ(once.rows, countRows());
  EXPECT_EQ(once.rowsOfUpdate, plan.model.batch);
  EXPECT_EQ(once.steps, divideUp(countRows(), plan.model.batch));
  EXPECT_EQ(thrice.steps, divideUp(3 * countRows(), plan.model.batch)) << "rounded up once";
}

TEST_F(Epochs, TrainOnTheDataThatWereCounted) {
  TrainingOptions flags = options("straight");
  flags.steps = divideUp(countRows(), plan.model.batch);
  run(flags);
  TrainingOptions counted = options("counted");
  counted.epochs = 1;
  counted.steps = countSteps(counted, plan, 1).steps;
  run(counted);
  EXPECT_EQ(metrics("counted"), metrics("straight"));
  std::optional<RunRecord> record = readRunRecord(folder / "counted");
  EXPECT_EQ(record->epochs, 1);
  EXPECT_EQ(record->steps, flags.steps);
  TrainingState state = readTrainingState(folder / "counted");
  EXPECT_EQ(state.position.epoch, 1) << "the last step reads rows of the next epoch";

  counted.resume = true; // a bare resume keeps the epochs, --steps replaces them
  counted.opened = nullptr;
  counted.epochs = counted.steps = std::nullopt;
  run(counted);
  EXPECT_EQ(readRunRecord(folder / "counted")->epochs, 1);
  counted.steps = *flags.steps + 1;
  run(counted);
  EXPECT_EQ(readRunRecord(folder / "counted")->epochs, std::nullopt);
}

TEST_F(Epochs, CountTheRowsThatAResumedRunHasLeft) {
  TrainingOptions flags = options("run");
  flags.steps = 4;
  run(flags);
  flags.resume = true;
  EXPECT_EQ(countSteps(flags, plan, 1).steps, divideUp(countRows(), plan.model.batch));
  Plan larger = plan;
  larger.accumulate = 3;
  int64_t left = 2 * countRows() - 4 * plan.model.batch;
  EXPECT_EQ(countSteps(flags, larger, 2).steps, 4 + divideUp(left, 3 * plan.model.batch));
  flags.steps = divideUp(countRows(), plan.model.batch) + 2;
  flags.opened = nullptr;
  run(flags);
  EXPECT_EQ(countSteps(flags, plan, 1).steps, *flags.steps) << "no step is taken back";
}

} // namespace
