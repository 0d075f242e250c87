// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Processes/Launcher.h"

#include <gtest/gtest.h>
#include <map>

using namespace sluice;
using namespace sluice::runtime;

namespace {

std::optional<Launcher> findIn(const std::map<std::string, std::string> &environment) {
  return findLauncher([&](const char *name) -> const char * {
    auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launcher, FindsTheProcessesOfKnownLaunchers) {
  EXPECT_FALSE(findIn({}));
  EXPECT_FALSE(findIn({{"SLURM_NTASKS", "4"}})); // an allocation, not a task
  std::optional<Launcher> open = findIn({{"OMPI_COMM_WORLD_SIZE", "4"},
                                         {"OMPI_COMM_WORLD_RANK", "3"},
                                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                         {"PMIX_RANK", "3"}});
  ASSERT_TRUE(open);
  EXPECT_EQ(open->size, 4);
  EXPECT_EQ(open->rank, 3);
  EXPECT_EQ(open->localSize, 2);
  EXPECT_TRUE(open->isParallel());
  EXPECT_FALSE(findIn({{"OMPI_COMM_WORLD_SIZE", "1"}})->isParallel());
  EXPECT_EQ(findIn({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "5"}, {"PMI_SIZE", "8"}})->rank, 5);
  EXPECT_EQ(
      findIn({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})->size,
      1);
  EXPECT_TRUE(findIn({{"PMIX_RANK", "1"}})->isParallel()); // of an unknown number
}

TEST(Launcher, DescribesTheCommandThatStartsAsManyProcesses) {
  EXPECT_EQ(describeLaunch(findIn({})), "");
  EXPECT_EQ(describeLaunch(findIn({{"OMPI_COMM_WORLD_SIZE", "1"}})), "");
  EXPECT_EQ(describeLaunch(findIn({{"OMPI_COMM_WORLD_SIZE", "3"}})), "mpirun -n 3 ");
  std::map<std::string, std::string> task = {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}};
  EXPECT_EQ(describeLaunch(findIn(task)), ""); // a script of sbatch
  task["SLURM_STEP_NUM_TASKS"] = "4";
  EXPECT_EQ(describeLaunch(findIn(task)), "srun --mpi=pmix -n 4 ");
}

TEST(Launcher, RefusesOtherMpi) {
  Launcher mpich = *findIn({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}});
  EXPECT_THROW(joinByMpi(mpich), UserError);
}

} // namespace
