// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands with --device cuda, on the fake driver of FakeCuda.cpp.
#include "Fixture.h"
#include "sluice/Support/Json.h"

#include <sys/wait.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;
using sluice::Json;

namespace {

class DeviceCommand : public testing::Test {
protected:
  DeviceCommand() {
    gpuBigramArtifact(folder);
    writeFile(folder / "text", easyText(3000));
    writeFile(folder / "heldout", easyText(500, 9));
  }

  /// Runs `sluice WORDS` with the fake driver, or with `settings` instead; returns its status.
  int sluice(const std::string &words, std::string settings = "SLUICE_CUDA_DRIVER=" FAKE_CUDA) {
    settings += " FAKE_CUDA_KERNELS=" BIGRAM_GPU_LIBRARY " ";
    std::string command = "cd " + folder.path.string() + " && " + settings + SLUICE_PROGRAM + " " +
                          words + " >out.txt 2>err.txt </dev/null";
    int status = std::system(command.c_str());
    out = readFile(folder / "out.txt");
    err = readFile(folder / "err.txt");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  TemporaryFolder folder;
  std::string out, err;
};

TEST_F(DeviceCommand, TrainingMatchesTheCpu) {
  for (const char *device : {"cpu", "cuda"}) {
    std::string run = std::string("run-") + device, flag = std::string(" --device ") + device;
    ASSERT_EQ(sluice("train gpu.slc --data text --eval-data heldout -o " + run + " -n 12" + flag),
              0)
        << err;
    ASSERT_EQ(sluice("train gpu.slc --data text -o " + run + " -n 20 --resume" + flag), 0) << err;
    ASSERT_EQ(sluice("eval gpu.slc -w " + run + " --data heldout --json" + flag), 0) << err;
    Json score = Json::parse(out);
    score.erase("weights");
    writeFile(folder / (std::string("score-") + device), score.dump());
    ASSERT_EQ(sluice("generate gpu.slc -w " + run + " -p hello -n 20 --seed 3" + flag), 0) << err;
    writeFile(folder / (std::string("text-") + device), out);
  }
  for (const char *file : {"score-", "text-", "run-"}) {
    std::string part = std::string(file) == "run-" ? "/checkpoints/20/weights.safetensors" : "";
    std::string cpu = readFile(folder / (std::string(file) + "cpu" + part));
    EXPECT_FALSE(cpu.empty()) << file;
    EXPECT_TRUE(cpu == readFile(folder / (std::string(file) + "cuda" + part))) << file;
  }
}

/// The bigram's plan has no facts of its spec, like one of an earlier version.
TEST_F(DeviceCommand, ReportsArtifactWithoutRequiredFacts) {
  for (const char *words : {"boundaries gpu.slc -w run --data text",
                            "logits gpu.slc -w run --data text --stream stages.0 -o rows.npy",
                            "analyze neighbours gpu.slc -w run --data text --stream stages.0"}) {
    EXPECT_EQ(sluice(words), 2) << words;
    EXPECT_NE(err.find("found one of an earlier version; compile the spec again with this version"),
              std::string::npos)
        << words << ": " << err;
  }
}

TEST_F(DeviceCommand, BenchNamesDeviceAndPeak) {
  ASSERT_EQ(sluice("bench gpu.slc --device cuda -n 3 --kernels --json"), 0) << err;
  Json json = Json::parse(out);
  EXPECT_EQ(json["device"], "Fake H200");
  EXPECT_EQ(json["target"], "sm_80");
  EXPECT_EQ(json["peak_source"], "data sheet of H200");
  EXPECT_EQ(json["peak_gflops"], 989e3);
  EXPECT_EQ(json["kernels"].size(), 6u);
  ASSERT_EQ(sluice("bench gpu.slc --device cuda -n 1 --kernels"), 0) << err;
  EXPECT_NE(out.find("sm_80, Fake H200"), std::string::npos) << out;
}

TEST_F(DeviceCommand, InspectShowsTheLedgerAndExtractsCode) {
  ASSERT_EQ(sluice("inspect gpu.slc --json --extract parts"), 0) << err;
  Json json = Json::parse(out), line;
  EXPECT_EQ(json["targets"], (Json{"cpu-avx2", "cpu-avx512", "sm_80"}));
  for (const Json &kernel : json["kernels"]) {
    if (kernel["target"] == "sm_80" && kernel["name"] == "score_rows") {
      line = kernel;
    }
  }
  EXPECT_EQ(line["registers"], 40);
  EXPECT_EQ(line["spills"], 0);
  EXPECT_EQ(line["shared_bytes"], 512);
  EXPECT_EQ(line["stages"][0]["blocks"], 4);
  EXPECT_EQ(line["estimate"]["chip"], "A100 SXM 80 GB");
  EXPECT_EQ(readFile(folder / "parts/sm_80/adam.ptx"), "PTX of adam");
  EXPECT_EQ(readFile(folder / "parts/sm_80/adam.bc"), "bitcode of adam");
  EXPECT_EQ(readFile(folder / "parts/sm_80/adam.cubin"), "\177ELF of adam");
  ASSERT_EQ(sluice("inspect gpu.slc"), 0) << err;
  EXPECT_NE(out.find("an estimate for an A100"), std::string::npos) << out;
}

TEST_F(DeviceCommand, FindsTheEmulatorNextToTheRuntime) {
  EXPECT_EQ(sluice("bench gpu.slc --device emulator"), 1); // the model's bitcode is invalid
  EXPECT_NE(err.find("the emulator does not take kernel initialize_table of sm_80"),
            std::string::npos)
      << err;
  Path build = Path(SLUICE_PROGRAM).parent_path().parent_path();
  std::filesystem::copy_file(build / "lib/libsluice_runtime.so", folder / "libsluice_runtime.so");
  EXPECT_EQ(sluice("bench gpu.slc --device emulator", "LD_LIBRARY_PATH=" + folder.path.string()),
            2);
  EXPECT_NE(err.find("libsluice_emulator_plugin.so: expected the emulator, found none that loads"),
            std::string::npos)
      << err;
}

TEST_F(DeviceCommand, ReportsMissingParts) {
  auto refuses = [&](const std::string &settings, const std::string &piece) {
    EXPECT_EQ(sluice("train gpu.slc --data text -o run --device cuda", settings), 2);
    EXPECT_NE(err.find(piece), std::string::npos) << err;
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  };
  refuses("SLUICE_CUDA_DRIVER=/nowhere/libcuda.so.1", "expected NVIDIA's driver, found none");
  EXPECT_EQ(sluice("bench gpu.slc --device gpu"), 2);
  EXPECT_NE(err.find("found \"gpu\"; did you mean cuda?"), std::string::npos) << err;
  refuses("SLUICE_CUDA_DRIVER=libm.so.6", "found one without cuInit; update NVIDIA's driver");
  refuses("SLUICE_CUDA_DRIVER=" FAKE_CUDA " FAKE_CUDA_COUNT=0", "CUDA_VISIBLE_DEVICES");
}

} // namespace
