// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recorded launches on the fake of NVIDIA's driver, and the program that a bundle contains for a
// machine with a GPU. The references are the CPU's numbers: the fake's kernels are the CPU's.
#include "Fixture.h"

#include "sluice/Runtime/Device/CPU/CpuDevice.h"
#include "sluice/Runtime/Device/CUDA/CudaDevice.h"
#include "sluice/Runtime/Device/CheckLaunches.h"
#include "sluice/Runtime/Device/Recording.h"
#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Json.h"

#include <cstring>
#include <sys/wait.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;
using sluice::Json;

namespace {

std::vector<float> toFloats(const std::vector<uint8_t> &bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// Launch 0 of "gradient" (scores: losses and probabilities) on the CPU, compared bitwise. All
/// tokens of three rows are valid; the fourth row's results are arbitrary.
Recording recordOnCpu(const std::shared_ptr<const Artifact> &artifact) {
  std::unique_ptr<Device> cpu = makeCpuDevice(artifact, 1);
  const Plan &plan = cpu->plan();
  RecordedLaunch launch{"gradient", 0, {16, 3, 1, 3}, {}, {}, {}};
  const char *names[] = {"length", "rows", "step", "seed"};
  for (size_t i = 0; i < 4; ++i) {
    std::memcpy(cpu->host() + plan.scalars.at(names[i]).offset, &launch.scalars[i], 8);
  }
  cpu->run("initialize", plan.entries.at("initialize"));
  auto *tokens = reinterpret_cast<int32_t *>(cpu->host() + plan.inputs.at("tokens").offset);
  std::string text = easyText(4 * 17);
  std::copy(text.begin(), text.end(), tokens);
  const Launch &planned = plan.entries.at("gradient")[0];
  const std::vector<Operand> &operands = plan.kernels[1].operands;
  auto countBytes = [&](size_t i) {
    const uint8_t *from = cpu->host() + planned.arguments[i];
    return std::vector<uint8_t>(from, from + operands[i].bytes);
  };
  for (size_t i = 0; i < 3; ++i) {
    launch.operands.push_back(countBytes(i));
  }
  cpu->launch(planned);
  for (size_t i : {3, 4}) {
    RecordedResult result;
    result.rows = i == 3 ? 4 : 64;
    result.stride = i == 3 ? 16 : 128;
    result.found = countBytes(i);
    result.values = toFloats(result.found);
    size_t valid = result.values.size() / 4 * 3;
    result.bounds.assign(result.values.size(), -1);
    std::fill_n(result.bounds.begin(), valid, 0.0f);
    launch.results.push_back(result);
  }
  return {sha256Hex(artifact->elf()), "CPU", {launch}};
}

class RecordedLaunches : public testing::Test {
protected:
  RecordedLaunches() {
    ::setenv("SLUICE_CUDA_DRIVER", FAKE_CUDA, 1);
    ::setenv("FAKE_CUDA_KERNELS", BIGRAM_GPU_LIBRARY, 1);
    ::setenv("FAKE_CUDA_FREE", "4000000", 1); // a quarter of it is copied, to time that
    artifact = gpuBigramArtifact(folder);
    recording = recordOnCpu(artifact);
  }
  ~RecordedLaunches() override {
    ::unsetenv("FAKE_CUDA_SPOIL");
    ::unsetenv("FAKE_CUDA_FREE");
  }

  LaunchCheck check(RecordedLaunch *goldens = nullptr) const {
    std::unique_ptr<Device> gpu = makeCudaDevice(artifact);
    return checkLaunch(*gpu, recording.launches[0], goldens);
  }

  /// Runs `sluice-gpu-check WORDS` in the folder; returns its status.
  int program(const std::string &words, const std::string &settings = "") {
    std::string command = "cd " + folder.path.string() + " && " + settings + " " +
                          GPU_CHECK_PROGRAM + " " + words + " >out.txt 2>err.txt </dev/null";
    int status = std::system(command.c_str());
    out = readFile(folder / "out.txt");
    err = readFile(folder / "err.txt");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  /// A bundle of the recording, and of the timed model.
  void makeBundle() {
    writeRecording(folder / "gpu.rec", recording);
    Json timed = {{{"artifact", "gpu.slc"}, {"label", "bigram"}}},
         rows = {{{"label", "the table's gradient"},
                  {"timed", "bigram"},
                  {"kernel", "table_.*"},
                  {"bars", "1/2"}},
                 {{"label", "nothing like it"}, {"timed", "bigram"}, {"kernel", "matmul"}}},
         streams = {{{"label", "adam"}, {"timed", "bigram"}, {"kernel", "adam"}}};
    writeFile(folder / "bundle.json",
              Json{{"format", "sluice-gpu-bundle"},
                   {"version", 1},
                   {"checks", {{{"artifact", "gpu.slc"}, {"recording", "gpu.rec"}}}},
                   {"timed", timed},
                   {"rows", rows},
                   {"streams", streams}}
                  .dump());
  }

  TemporaryFolder folder;
  std::shared_ptr<const Artifact> artifact;
  Recording recording;
  std::string out, err;
};

TEST_F(RecordedLaunches, AcceptsEqualResults) {
  RecordedLaunch goldens;
  LaunchCheck result = check(&goldens);
  EXPECT_EQ(result.kernel, "score_rows");
  EXPECT_EQ(result.checked, 3 * 16 + 3 * 16 * 128);
  EXPECT_EQ(result.wrong, 0) << result.first;
  EXPECT_EQ(result.differing, 0);
  EXPECT_EQ(toFloats(goldens.results[0].found)[7], recording.launches[0].results[0].values[7]);
}

TEST_F(RecordedLaunches, RejectsCorruptedResult) {
  int64_t third = artifact->plan().outputs.at("losses").offset + 2 * 4 + 3; // its sign
  ::setenv("FAKE_CUDA_SPOIL", std::to_string(third).c_str(), 1);
  LaunchCheck result = check();
  EXPECT_EQ(result.wrong, 1);
  EXPECT_EQ(result.differing, 1);
  EXPECT_TRUE(result.first.starts_with("result 0, row 0, column 2: expected ")) << result.first;
}

TEST_F(RecordedLaunches, ReportsBoundsAndUncheckedElements) {
  RecordedResult &losses = recording.launches[0].results[0];
  losses.values[5] += 0.25f;
  EXPECT_EQ(check().wrong, 1);
  losses.bounds[5] = 0.5f;
  EXPECT_EQ(check().wrong, 0);
  losses.values[5] = NAN; // only NaN is
  EXPECT_EQ(check().wrong, 1);
  losses.bounds[5] = -1;
  EXPECT_EQ(check().wrong, 0);
  EXPECT_EQ(check().checked, 3 * 16 + 3 * 16 * 128 - 1);
}

TEST_F(RecordedLaunches, ComparesSumsOfRows) {
  RecordedResult &losses = recording.launches[0].results[0];
  losses.rows = 3; // whose sum is known
  losses.sums.assign(16, 0);
  losses.sumBounds.assign(16, 1e-5f);
  for (size_t i = 0; i < 48; ++i) {
    losses.sums[i % 16] += losses.values[i];
  }
  EXPECT_EQ(check().wrong, 0) << check().first;
  losses.sums[3] += 1e-3f;
  EXPECT_EQ(check().wrong, 1);
  EXPECT_NE(check().first.find("the rows' sum in column 3"), std::string::npos) << check().first;
}

/// A recurrence's step reads the rows that earlier steps left in its results.
TEST_F(RecordedLaunches, RestoresResultsBeforeTheLaunch) {
  RecordedLaunch goldens;
  check(&goldens);
  constexpr int64_t unwritten = 3 * 16 * 128; // of the row that is not valid
  EXPECT_TRUE(std::isnan(toFloats(goldens.results[1].found)[unwritten]));
  RecordedResult &scores = recording.launches[0].results[1];
  scores.before.assign(scores.found.size(), 0);
  EXPECT_EQ(check(&goldens).wrong, 0);
  EXPECT_EQ(toFloats(goldens.results[1].found)[unwritten], 0);
  scores.before.pop_back();
  writeRecording(folder / "short.rec", recording);
  std::string message = userError([&] { readRecording(folder / "short.rec"); });
  EXPECT_NE(message.find("numbers for the elements of a result"), std::string::npos) << message;
}

/// The record of a launch on an axis of segments alone.
TEST_F(RecordedLaunches, RejectsRowsThatDoNotFitTheLaunch) {
  recording.launches[0].lengths = {3, 1, 4, 2};
  std::string message = userError([&] { check(); });
  EXPECT_NE(message.find("as it was recorded, found another"), std::string::npos) << message;
}

TEST_F(RecordedLaunches, FilesRoundTrip) {
  recording.launches[0].lengths = {3, 1};
  writeRecording(folder / "one.rec", recording);
  Recording read = readRecording(folder / "one.rec");
  EXPECT_EQ(read.artifact, recording.artifact);
  const RecordedLaunch &a = recording.launches[0], &b = read.launches.at(0);
  EXPECT_EQ(a.scalars, b.scalars);
  EXPECT_EQ(a.lengths, b.lengths);
  EXPECT_EQ(a.operands, b.operands);
  EXPECT_EQ(a.results[1].values, b.results[1].values);
  EXPECT_EQ(a.results[1].bounds, b.results[1].bounds);
  EXPECT_EQ(a.results[1].found, b.results[1].found);
  std::string file = readFile(folder / "one.rec");
  auto refuses = [&](const std::string &bytes, const std::string &piece) {
    writeFile(folder / "bad.rec", bytes);
    std::string message = userError([&] { readRecording(folder / "bad.rec"); });
    EXPECT_NE(message.find(piece), std::string::npos) << message;
  };
  refuses("text", "expected a recording of launches, found another file");
  refuses(file.substr(0, 8) + '\7' + file.substr(9),
          "expected a recording of version 3, found version 7");
  refuses(file.substr(0, 100), "expected a whole recording, found one that is cut short");
  refuses(file.substr(0, file.size() - 1), "expected [offset, bytes] inside the file");
  auto other = bigramArtifact(folder);
  std::string message = userError([&] { requireSameArtifact(read, *other, "one.rec"); });
  EXPECT_NE(message.find("one.rec: expected a recording of"), std::string::npos) << message;
}

TEST_F(RecordedLaunches, ProgramRunsABundle) {
  makeBundle();
  ASSERT_EQ(program("run . -o results"), 0) << err;
  Json json = Json::parse(readFile(folder / "results/sluice.json"));
  EXPECT_EQ(json["gpu"], "Fake H200");
  EXPECT_GT(json["copy"]["gbytes_per_s"].get<double>(), 0);
  EXPECT_EQ(json["timed"][0]["kernels"].size(), 6u); // the launches of a step
  EXPECT_EQ(readRecording(folder / "results/goldens-gpu-sm_80.rec").device, "Fake H200");
  ASSERT_EQ(program("table . -o results"), 0) << err;
  EXPECT_NE(out.find("kernels: 1 right, 0 wrong"), std::string::npos) << out;
  EXPECT_NE(out.find("the table's gradient"), std::string::npos) << out;
  EXPECT_NE(out.find("PyTorch: not measured"), std::string::npos) << out;
  EXPECT_TRUE(Json::parse(readFile(folder / "results/gpu-check.json"))["pytorch"].is_null());
  writeFile(folder / "torch.json", R"({"torch": "2.9", "rows": {"the table's gradient": 0.5},
                                      "steps": {"bigram": {"eager_ms": 12.25}}})");
  ASSERT_EQ(program("table . -o results --torch torch.json"), 0) << err;
  EXPECT_NE(out.find("PyTorch 2.9"), std::string::npos) << out;
  EXPECT_NE(out.find("12.25"), std::string::npos) << out;
}

// As unpacked elsewhere: the script, the program and the list in one folder.
TEST_F(RecordedLaunches, ScriptPrintsItsTableLast) {
  makeBundle();
  for (const char *file : {"gpu-check.sh", "gpu_check_torch.py"}) {
    std::filesystem::copy_file(Path(SCRIPTS_FOLDER) / file, folder / file);
  }
  std::filesystem::copy_file(GPU_CHECK_PROGRAM, folder / "sluice-gpu-check");
  auto script = [&](const std::string &settings) {
    std::string command = "cd " + folder.path.string() + " && " + settings +
                          " ./gpu-check.sh results >out.txt 2>err.txt </dev/null";
    int status = std::system(command.c_str());
    out = readFile(folder / "out.txt");
    err = readFile(folder / "err.txt");
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(script(""), 0) << err;
  EXPECT_TRUE(out.starts_with("Fake H200, compute capability 8.0; PyTorch")) << out;
  EXPECT_NE(out.find("kernels: 1 right, 0 wrong"), std::string::npos) << out;
  EXPECT_TRUE(std::filesystem::exists(folder / "results/gpu-check.json"));
  int64_t first = artifact->plan().outputs.at("losses").offset + 3;
  EXPECT_EQ(script("FAKE_CUDA_SPOIL=" + std::to_string(first)), 1) << err;
  EXPECT_NE(out.find("kernels: 0 right, 1 wrong"), std::string::npos) << out;
  EXPECT_EQ(script("SLUICE_CUDA_DRIVER=/nowhere/libcuda.so.1"), 2);
  EXPECT_EQ(out, "");
}

TEST_F(RecordedLaunches, FailingLaunchIsReported) {
  makeBundle();
  EXPECT_EQ(program("run . -o results", "FAKE_CUDA_FAIL=cuLaunchKernel"), 1) << err;
  Json json = Json::parse(readFile(folder / "results/sluice.json"));
  EXPECT_TRUE(json["checks"][0].contains("error"));
  EXPECT_TRUE(json["timed"][0].contains("error"));
  ASSERT_EQ(program("table . -o results"), 0) << err;
  EXPECT_NE(out.find("FAILED gpu.slc sm_80: "), std::string::npos) << out;
  EXPECT_NE(out.find("FAILED bigram: "), std::string::npos) << out;
}

// A probability changes its sign after each launch: the order of launches shows in the gradient.
TEST_F(RecordedLaunches, ComparesGraphsWithSerialLaunches) {
  makeBundle();
  int64_t probability = artifact->plan().entries.at("gradient")[0].arguments[4] + 3;
  EXPECT_EQ(program("run . -o results", "FAKE_CUDA_SPOIL=" + std::to_string(probability)), 1)
      << err;
  Json timed = Json::parse(readFile(folder / "results/sluice.json"))["timed"][0];
  EXPECT_TRUE(timed.value("error", "").starts_with("expected the same bits")) << timed.dump(1);
}

TEST_F(RecordedLaunches, RejectsKernelWithoutBounds) {
  for (RecordedResult &result : recording.launches[0].results) {
    std::fill(result.bounds.begin(), result.bounds.end(), INFINITY);
  }
  makeBundle();
  EXPECT_EQ(check().checked, 0);
  EXPECT_GT(check().unbounded, 0);
  EXPECT_EQ(program("run . -o results"), 1) << err;
}

TEST_F(RecordedLaunches, ProgramReportsErrors) {
  makeBundle();
  int64_t first = artifact->plan().outputs.at("losses").offset + 3;
  EXPECT_EQ(program("run . -o results", "FAKE_CUDA_SPOIL=" + std::to_string(first)), 1) << err;
  ASSERT_EQ(program("table . -o results"), 0);
  EXPECT_NE(
      out.find("WRONG gpu.slc sm_80 score_rows: 1 of 6192 numbers; result 0, row 0, column 0"),
      std::string::npos)
      << out;
  EXPECT_EQ(program("check gpu.slc gpu.rec", "FAKE_CUDA_SPOIL=" + std::to_string(first)), 1);
  EXPECT_NE(out.find("WRONG score_rows: 1 of 6192"), std::string::npos) << out;
  EXPECT_EQ(program("run . -o results", "SLUICE_CUDA_DRIVER=/nowhere/libcuda.so.1"), 2);
  EXPECT_NE(err.find("expected NVIDIA's driver, found none"), std::string::npos) << err;
  EXPECT_EQ(program("run nowhere -o results"), 2);
  EXPECT_NE(err.find("nowhere/bundle.json"), std::string::npos) << err;
  writeFile(folder / "bundle.json", R"({"format": "sluice-gpu-bundle", "version": 2})");
  EXPECT_EQ(program("run . -o results"), 2);
  EXPECT_NE(err.find("expected a sluice-gpu-bundle of version 1"), std::string::npos) << err;
}

} // namespace
