// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products by cuBLASLt, on the fakes of FakeCuda.cpp and FakeCublasLt.cpp: a compiled model, its
// tuning file, and where each product runs. The fake's GPU kernels are the model's CPU code.
#include "Device/CUDA/CudaProducts.h"
#include "Fixture.h"

#include "sluice/Runtime/Device/CUDA/CudaDevice.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Json.h"

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <sstream>
#include <sys/wait.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;
using sluice::Json;

namespace {

/// Odd sizes everywhere: rows of 40 columns are stored 48 apart, 22 positions are 6 groups of 4.
const char *const spec = R"({"sluice": 1, "name": "ragged", "vocabulary": 256, "context": 22,
  "batch": 3, "width": 40, "precision": {"compute": "bf16", "residual": "f32"},
  "defaults": {"heads": 4, "activation": "gelu_tanh", "rotary": true},
  "stages": [{"op": "embedding"}, {"op": "hourglass", "hierarchy": "1@1 1@4 1@1"}, {"op": "head"}],
  "training": {"learning_rate": 1e-3,
               "schedule": {"kind": "cosine", "warmup": 10, "steps": 100, "floor": 0.1}}})";
constexpr int64_t fullLength = 22, fullRows = 3;
/// A feed-forward's product, which the fake slows down.
constexpr int64_t slowDepth = 160;

struct LibraryOutcome {
  int status;
  std::string out, err;
};

/// Compiled once: plain.sla, tuning.json from `bench --tune`, tuned.sla.
class LibraryProducts : public testing::Test {
protected:
  static void SetUpTestSuite() {
    folder = new TemporaryFolder;
    writeFile(*folder / "spec.json", spec);
    writeFile(*folder / "text", easyText(3000));
    const char *compile = "compile spec.json --target cpu-avx2,sm_80 -o ";
    ASSERT_EQ(sluice(compile + std::string("plain.sla")).status, 0);
    LibraryOutcome tuned = sluice("bench plain.sla --device cuda --tune tuning.json",
                                  "FAKE_CUDA_CLOCK=1 FAKE_CUBLASLT_SLOW=160");
    ASSERT_EQ(tuned.status, 0) << tuned.err;
    tuneTable = tuned.out;
    LibraryOutcome compiled = sluice(compile + std::string("tuned.sla --tuning tuning.json"));
    ASSERT_EQ(compiled.status, 0) << compiled.err;
    ::setenv("SLUICE_CUDA_DRIVER", FAKE_CUDA, 1);
    ::setenv("SLUICE_CUBLASLT", FAKE_CUBLASLT, 1);
  }
  static void TearDownTestSuite() { delete folder; }

  LibraryProducts() {
    ::setenv("FAKE_CUDA_KERNELS", (*folder / "tuned.sla").c_str(), 1);
    plain = Artifact::load(*folder / "plain.sla");
    tuned = Artifact::load(*folder / "tuned.sla");
    forget();
  }
  ~LibraryProducts() override {
    for (const char *name : {"FAKE_CUBLASLT_FAIL", "FAKE_CUBLASLT_VERSION", "FAKE_CUBLASLT_REFUSE",
                             "FAKE_CUDA_FREE"}) {
      ::unsetenv(name);
    }
  }

  /// Runs `sluice WORDS` in the folder with the fakes; `settings` come last.
  static LibraryOutcome sluice(const std::string &words, const std::string &settings = "") {
    std::string command = "cd " + folder->path.string() +
                          " && SLUICE_CUDA_DRIVER=" FAKE_CUDA " SLUICE_CUBLASLT=" FAKE_CUBLASLT
                          " FAKE_CUDA_KERNELS=./plain.sla " +
                          settings + " " + SLUICE_PROGRAM + " " + words +
                          " >out.txt 2>err.txt </dev/null";
    int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, readFile(*folder / "out.txt"),
            readFile(*folder / "err.txt")};
  }

  template <typename T> static T symbol(const char *library, const char *name) {
    return reinterpret_cast<T>(::dlsym(::dlopen(library, RTLD_NOW | RTLD_LOCAL), name));
  }
  void forget() const { symbol<void (*)()>(FAKE_CUBLASLT, "fakeCublasLtForget")(); }
  /// Products requested since.
  std::vector<std::string> products() const {
    std::istringstream lines(symbol<const char *(*)()>(FAKE_CUBLASLT, "fakeCublasLtCalls")());
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("cublasLtMatmul ")) {
        found.push_back(line);
      }
    }
    return found;
  }

  static bool isByLibrary(const Plan &plan, const Launch &launch) {
    const PlanKernel &kernel = plan.kernels[static_cast<size_t>(launch.kernel)];
    return kernel.deviceVariants.at("sm_80").library.has_value();
  }
  static std::vector<const Launch *> libraryLaunches(const Plan &plan) {
    std::vector<const Launch *> found;
    for (const auto &[entry, launches] : plan.entries) {
      for (const Launch &launch : launches) {
        if (isByLibrary(plan, launch)) {
          found.push_back(&launch);
        }
      }
    }
    return found;
  }
  void compare(Device &withLibrary, const Launch &launch, Device &without,
               const Launch &sameLaunch);

  static TemporaryFolder *folder;
  static std::string tuneTable;
  std::shared_ptr<const Artifact> plain, tuned;
};
TemporaryFolder *LibraryProducts::folder = nullptr;
std::string LibraryProducts::tuneTable;

float extended(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

void setSize(Device &device, int64_t length, int64_t rows) {
  const std::pair<const char *, int64_t> scalars[] = {{"length", length}, {"rows", rows}};
  for (const auto &[name, value] : scalars) {
    int64_t offset = device.plan().scalars.at(name).offset;
    std::memcpy(device.host() + offset, &value, sizeof value);
    device.upload({offset, sizeof value});
  }
}

/// One product's launch on its own factors: random, with NaN in padding and in the result's memory.
class ProductRun {
public:
  ProductRun(Device &device, const Launch &launch)
      : device(device), launch(launch),
        kernel(device.plan().kernels[static_cast<size_t>(launch.kernel)]),
        product(*kernel.product) {}

  void run() {
    each(0, [&](uint8_t *memory, int64_t bytes) { std::memset(memory, 0xff, bytes); });
    each(1, [&](uint8_t *memory, int64_t bytes) { std::memset(memory, 0xff, bytes); });
    fill(0, product.rows, product.depth, product.inputStride);
    fill(1, product.byInput ? product.depth : product.columns,
         product.byInput ? product.columns : product.depth, product.weightStride);
    std::memset(device.host() + launch.arguments[2], 0xff, kernel.operands[2].bytes);
    for (size_t i : {2, 0, 1}) {
      device.upload({launch.arguments[i], kernel.operands[i].bytes});
    }
    factors[0] = keep(0);
    factors[1] = keep(1);
    device.launch(launch);
    device.download({launch.arguments[2], kernel.operands[2].bytes});
  }

  /// Returns true if element (r, n) of the result's memory did not change; n may be in the padding.
  bool isUntouched(int64_t r, int64_t n) const {
    auto bytes = static_cast<size_t>(getByteSize(product.type));
    const std::vector<uint8_t> nan(bytes, 0xff);
    return std::memcmp(at(r, n), nan.data(), bytes) == 0;
  }
  double found(int64_t r, int64_t n) const {
    if (product.type == Type::bf16) {
      return extended(*reinterpret_cast<const uint16_t *>(at(r, n)));
    }
    return *reinterpret_cast<const float *>(at(r, n));
  }
  /// The sum in float64, and the error bound of K additions in f32 and the result's rounding.
  std::pair<double, double> expected(int64_t r, int64_t n) const {
    double sum = 0, size = 0;
    for (int64_t k = 0; k < product.depth; ++k) {
      int64_t w = product.byInput ? k * product.weightStride + n : n * product.weightStride + k;
      double addend =
          double(extended(factors[0][static_cast<size_t>(r * product.inputStride + k)])) *
          extended(factors[1][static_cast<size_t>(w)]);
      sum += addend;
      size += std::fabs(addend);
    }
    double error = static_cast<double>(product.depth) * 0x1p-23 * size;
    return {sum, product.type == Type::bf16 ? error + 0x1p-8 * (std::fabs(sum) + error) : error};
  }

private:
  void each(size_t i, const std::function<void(uint8_t *, int64_t)> &act) {
    act(device.host() + launch.arguments[i], kernel.operands[i].bytes);
  }
  void fill(size_t i, int64_t rows, int64_t columns, int64_t stride) {
    auto *numbers = reinterpret_cast<uint16_t *>(device.host() + launch.arguments[i]);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        auto seed = static_cast<uint64_t>((r * columns + c) * 2 + static_cast<int64_t>(i));
        numbers[r * stride + c] = static_cast<uint16_t>(0x3e80 + (mix64(seed) & 0x81ff));
      }
    }
  }
  std::vector<uint16_t> keep(size_t i) {
    const auto *from = reinterpret_cast<const uint16_t *>(device.host() + launch.arguments[i]);
    return {from, from + kernel.operands[i].bytes / 2};
  }
  const uint8_t *at(int64_t r, int64_t n) const {
    return device.host() + launch.arguments[2] +
           (r * product.resultStride + n) * getByteSize(product.type);
  }

  Device &device;
  const Launch &launch;
  const PlanKernel &kernel;

public:
  const Product &product;

private:
  std::vector<uint16_t> factors[2];
};

TEST_F(LibraryProducts, TuningTimesEveryProductOnce) {
  Json tuning = Json::parse(readFile(*folder / "tuning.json"));
  EXPECT_EQ(tuning["gpu"], "Fake H200");
  EXPECT_EQ(tuning["driver"], 12040);
  EXPECT_EQ(tuning["library"], (Json{{"name", "cublaslt"}, {"version", 130100}}));
  ASSERT_EQ(tuning["products"].size(), 7u); // three per scale, and the head's for prediction
  int64_t lost = 0;
  for (const Json &product : tuning["products"]) {
    bool isSlow = product["depth"] == slowDepth;
    lost += isSlow;
    EXPECT_NEAR(product["generated_us"].get<double>(), 500, 1e-3) << product;
    EXPECT_NEAR(product["library_us"].get<double>(), isSlow ? 1000 : 250, 1e-3) << product;
    EXPECT_EQ(product["winner"], isSlow ? "generated" : "library") << product;
    EXPECT_EQ(product["algorithm"].get<std::string>().substr(0, 32),
              "00000000000000020000000000000040") // the second; of memory at multiples of 64
        << product;
  }
  EXPECT_EQ(lost, 2);
  EXPECT_NE(tuneTable.find("5 of 7 products go to cuBLASLt"), std::string::npos) << tuneTable;
}

TEST_F(LibraryProducts, UnsupportedProductUsesGeneratedKernel) {
  LibraryOutcome outcome = sluice("bench plain.sla --device cuda --tune refused.json --json",
                                  "FAKE_CUDA_CLOCK=1 FAKE_CUBLASLT_REFUSE=40");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Json tuning = Json::parse(outcome.out);
  EXPECT_EQ(tuning, Json::parse(readFile(*folder / "refused.json")));
  int64_t refused = 0;
  for (const Json &product : tuning["products"]) {
    EXPECT_EQ(product["library_us"].is_null(), product["depth"] == 40) << product;
    EXPECT_EQ(product["winner"], product["depth"] == 40 ? "generated" : "library") << product;
    refused += product["depth"] == 40;
  }
  EXPECT_EQ(refused, 3);
}

// Only the tuned choice differs: the kernels are bitwise equal.
TEST_F(LibraryProducts, PlanUsesTheLibraryWhereFaster) {
  Json without = Json::parse(plain->planText()), with = Json::parse(tuned->planText());
  int64_t named = 0;
  for (Json &kernel : with["kernels"]) {
    bool isProduct = kernel.contains("product");
    bool isWon = isProduct && kernel["product"]["depth"] != slowDepth;
    EXPECT_EQ(kernel["variants"]["sm_80"].contains("library"), isWon) << kernel["name"];
    EXPECT_FALSE(kernel["variants"]["cpu-avx2"].contains("library"));
    named += kernel["variants"]["sm_80"].erase("library");
  }
  EXPECT_EQ(named, 5);
  EXPECT_EQ(with, without);
  for (const PlanKernel &kernel : plain->plan().kernels) {
    const std::string &module = kernel.deviceVariants.at("sm_80").module;
    for (const char *part : {"_bitcode", "_ptx", "_cubin"}) {
      std::span<const uint8_t> a = plain->blob(module + part), b = tuned->blob(module + part);
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << module << part;
    }
  }
  Json ledger = Json::parse(sluice("inspect tuned.sla --json").out);
  int64_t shown = 0;
  for (const Json &line : ledger["kernels"]) {
    shown += line.contains("library") && line["library"] == "cublaslt";
  }
  EXPECT_EQ(shown, 5);
  std::string text = sluice("inspect tuned.sla").out;
  EXPECT_NE(text.find("by cuBLASLt at full length and batch, where it is installed: contract_"),
            std::string::npos);
}

TEST_F(LibraryProducts, NumbersAreWithinTheRoundingBound) {
  auto device = makeCudaDevice(tuned);
  EXPECT_EQ(device->notice(), "");
  setSize(*device, fullLength, fullRows);
  std::vector<const Launch *> launches = libraryLaunches(tuned->plan());
  ASSERT_EQ(launches.size(), 7u);
  for (const Launch *launch : launches) {
    ProductRun run(*device, *launch);
    forget();
    run.run();
    ASSERT_EQ(products().size(), 1u);
    int64_t wrong = 0, spilled = 0;
    for (int64_t r = 0; r < run.product.rows; ++r) {
      for (int64_t n = 0; n < run.product.columns; ++n) {
        auto [value, bound] = run.expected(r, n);
        wrong += !(std::fabs(run.found(r, n) - value) <= bound); // NaN is wrong
      }
      int64_t end = r + 1 < run.product.rows ? run.product.resultStride : run.product.columns;
      for (int64_t n = run.product.columns; n < end; ++n) {
        spilled += !run.isUntouched(r, n);
      }
    }
    EXPECT_EQ(wrong, 0) << products().front();
    EXPECT_EQ(spilled, 0) << "padding was written";
  }
}

/// The kernel's bits, and no call of the library.
void LibraryProducts::compare(Device &withLibrary, const Launch &launch, Device &without,
                              const Launch &sameLaunch) {
  forget();
  ProductRun mine(withLibrary, launch), kernels(without, sameLaunch);
  mine.run();
  kernels.run();
  EXPECT_EQ(products().size(), 0u);
  int64_t differ = 0;
  for (int64_t r = 0; r < mine.product.rows; ++r) {
    for (int64_t n = 0; n < mine.product.columns; ++n) {
      bool same = mine.isUntouched(r, n) ? kernels.isUntouched(r, n)
                                         : mine.found(r, n) == kernels.found(r, n);
      differ += !same;
    }
  }
  EXPECT_EQ(differ, 0);
}

TEST_F(LibraryProducts, OtherLengthsAndBatchesUseGeneratedKernels) {
  auto withLibrary = makeCudaDevice(tuned), without = makeCudaDevice(plain);
  int compared = 0;
  const std::pair<int64_t, int64_t> sizes[] = {{fullLength - 1, fullRows}, {fullLength, 1}, {1, 1}};
  for (auto [length, rows] : sizes) {
    setSize(*withLibrary, length, rows);
    setSize(*without, length, rows);
    for (const auto &[entry, launches] : tuned->plan().entries) {
      for (size_t i = 0; i < launches.size(); ++i) {
        if (isByLibrary(tuned->plan(), launches[i])) {
          compare(*withLibrary, launches[i], *without, plain->plan().entries.at(entry)[i]);
          ++compared;
        }
      }
    }
  }
  EXPECT_EQ(compared, 3 * 7);
}

void prepare(Executor &executor, int64_t length, int64_t rows) {
  std::string text = easyText(executor.tokens().size(), 5);
  std::copy(text.begin(), text.end(), executor.tokens().begin());
  executor.scalarI64("length") = length;
  executor.scalarI64("rows") = rows;
}

/// Two steps; then every parameter and gradient as bytes, and the loss of each step before.
std::pair<std::string, std::string> trained(Executor &executor, int64_t length, int64_t rows) {
  std::string numbers, losses;
  executor.scalarI64("seed") = 3;
  executor.run("initialize");
  prepare(executor, length, rows);
  for (int64_t step = 1; step <= 2; ++step) {
    executor.scalarI64("step") = step;
    executor.run("gradient");
    executor.run("update");
    float loss = executor.scalarF32("loss");
    losses.append(reinterpret_cast<const char *>(&loss), sizeof loss);
  }
  for (const Tensor &tensor : executor.plan().tensors) {
    for (std::span<float> values :
         {executor.tensor(tensor, Access::Read), executor.gradient(tensor, Access::Read)}) {
      numbers.append(reinterpret_cast<const char *>(values.data()), values.size_bytes());
    }
  }
  return {numbers, losses};
}

// A graph's launches run as late as its edges allow; timed launches run one after the other.
TEST_F(LibraryProducts, GraphsContainTheCallsInOrder) {
  Executor graphs(makeCudaDevice(tuned)), again(makeCudaDevice(tuned)),
      timed(makeCudaDevice(tuned));
  forget();
  auto expected = trained(graphs, fullLength, fullRows);
  EXPECT_EQ(products().size(), 6u) << "captured once, for two steps";
  EXPECT_TRUE(trained(again, fullLength, fullRows) == expected);
  timed.startTiming();
  forget();
  EXPECT_TRUE(trained(timed, fullLength, fullRows) == expected);
  EXPECT_EQ(products().size(), 12u);
  // Forward has no plain product in training: the first loss equals the kernels' bitwise.
  Executor kernels(makeCudaDevice(plain));
  auto generated = trained(kernels, fullLength, fullRows);
  EXPECT_EQ(generated.second.substr(0, 4), expected.second.substr(0, 4));
}

TEST_F(LibraryProducts, EachSizeHasItsOwnGraph) {
  Executor withLibrary(makeCudaDevice(tuned)), kernels(makeCudaDevice(plain));
  forget();
  auto partial = trained(withLibrary, 17, 2);
  EXPECT_EQ(products().size(), 0u);
  EXPECT_TRUE(partial == trained(kernels, 17, 2));
  trained(withLibrary, fullLength, fullRows);
  EXPECT_EQ(products().size(), 6u);
  EXPECT_TRUE(trained(withLibrary, 17, 2) == partial);
  trained(withLibrary, fullLength, fullRows);
  EXPECT_EQ(products().size(), 6u) << "both graphs are kept";
}

TEST_F(LibraryProducts, EachStreamHasAWorkspace) {
  makeCudaDevice(tuned); // starts the driver
  const cuda::Driver &driver = cuda::Driver::open();
  cuda::Stream stream = nullptr;
  ASSERT_EQ(driver.streamCreate(&stream, cuda::streamNonBlocking, 0), cuda::success);
  cuda::Address arena = 0;
  ASSERT_EQ(driver.memoryAllocate(&arena, static_cast<size_t>(tuned->plan().memory.arenaBytes)),
            cuda::success);
  {
    cuda::Products calls(driver, *tuned, "sm_80");
    EXPECT_EQ(calls.workspaceBytes(), 4096u);
    const Launch &launch = *libraryLaunches(tuned->plan()).front();
    forget();
    for (bool side : {false, true, false}) {
      calls.run(launch, arena, stream, side);
    }
  }
  std::vector<std::string> asked = products();
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_NE(asked[0], asked[1]);
  EXPECT_EQ(asked[0], asked[2]);
  driver.memoryFree(arena);
  driver.streamDestroy(stream);
}

TEST_F(LibraryProducts, PlainArtifactStoresAndQueriesNothing) {
  symbol<void (*)()>(FAKE_CUBLASLT, "fakeCublasLtForget")();
  makeCudaDevice(plain);
  EXPECT_STREQ(symbol<const char *(*)()>(FAKE_CUBLASLT, "fakeCublasLtCalls")(), "");
  makeCudaDevice(tuned);
  EXPECT_EQ(symbol<int (*)()>(FAKE_CUBLASLT, "fakeCublasLtHandles")(), 0);
  EXPECT_EQ(symbol<size_t (*)()>(FAKE_CUDA, "fakeCudaAllocated")(), 0u);
}

TEST_F(LibraryProducts, OtherLibraryVersionSelectsItsAlgorithm) {
  ::setenv("FAKE_CUBLASLT_VERSION", "140000", 1);
  Executor executor(makeCudaDevice(tuned));
  forget();
  trained(executor, fullLength, fullRows);
  ASSERT_EQ(products().size(), 6u);
  for (const std::string &call : products()) {
    EXPECT_NE(call.find(" algorithm 1 "), std::string::npos) << call;
  }
  auto device = makeCudaDevice(tuned);
  EXPECT_NE(device->notice().find("expected the version of cuBLASLt that the products were tuned "
                                  "with, found 140000"),
            std::string::npos)
      << device->notice();
}

TEST_F(LibraryProducts, ErrorsContainTheLibraryStatus) {
  auto expectMessage = [&](const std::function<void()> &action, const std::string &piece) {
    std::string message = userError(action);
    EXPECT_NE(message.find(piece), std::string::npos) << message;
    EXPECT_NE(message.find("compile the spec again without --tuning"), std::string::npos);
  };
  Executor executor(makeCudaDevice(tuned));
  executor.run("initialize");
  prepare(executor, fullLength, fullRows);
  executor.scalarI64("step") = 1;
  ::setenv("FAKE_CUBLASLT_FAIL", "cublasLtMatmul", 1);
  expectMessage(
      [&] { executor.run("gradient"); },
      "cuBLASLt failed to run the product of 66 x 40 and 40 x 40: CUBLAS_STATUS_EXECUTION_FAILED");
  ::unsetenv("FAKE_CUBLASLT_FAIL");
  executor.run("gradient"); // no partial graph remains
  EXPECT_GT(executor.scalarF32("loss"), 0);
  for (const char *function : {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmul",
                               "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate"}) {
    ::setenv("FAKE_CUBLASLT_FAIL", function, 1);
    expectMessage([&] { makeCudaDevice(tuned); }, "CUBLAS_STATUS_EXECUTION_FAILED");
  }
  ::unsetenv("FAKE_CUBLASLT_FAIL");
  ::setenv("FAKE_CUBLASLT_VERSION", "140000", 1);
  ::setenv("FAKE_CUBLASLT_REFUSE", "40", 1);
  expectMessage(
      [&] { makeCudaDevice(tuned); },
      "find an algorithm for the product of 66 x 40 and 40 x 40: CUBLAS_STATUS_NOT_SUPPORTED");
}

TEST_F(LibraryProducts, ReportsMemoryOfTheLibrary) {
  ::setenv("FAKE_CUDA_FREE", "1000", 1);
  std::string message = userError([&] { makeCudaDevice(tuned); });
  EXPECT_NE(message.find(" beside 8192 for cuBLASLt, found 1000 free"), std::string::npos)
      << message;
}

TEST_F(LibraryProducts, FallsBackToKernelsWithARemark) {
  const char *words = ".sla --data text -n 3 --device cuda -o ";
  const char *missing = "SLUICE_CUBLASLT=/nowhere/libcublasLt.so.13";
  ASSERT_EQ(sluice("train plain" + (words + std::string("run-plain"))).status, 0);
  LibraryOutcome outcome = sluice("train tuned" + (words + std::string("run-missing")), missing);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  size_t at = outcome.err.find("tuned.sla: expected cuBLASLt (libcublasLt.so.13 or .12)");
  ASSERT_NE(at, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("expected cuBLASLt", at + 20), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("the generated kernels run in its place"), std::string::npos);
  auto weights = [&](const std::string &run) {
    return readFile(*folder / (run + "/checkpoints/3/weights.safetensors"));
  };
  EXPECT_FALSE(weights("run-plain").empty());
  EXPECT_TRUE(weights("run-plain") == weights("run-missing"));
  outcome = sluice("train tuned" + (words + std::string("run-tuned")));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err.find("cuBLASLt"), std::string::npos) << outcome.err;
  outcome = sluice("train tuned" + (words + std::string("run-failed")),
                   "FAKE_CUBLASLT_FAIL=cublasLtMatmul");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("CUBLAS_STATUS_EXECUTION_FAILED"), std::string::npos) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(*folder / "run-failed"));
  // A library of another version counts as absent.
  outcome = sluice("bench tuned.sla --device cuda -n 1", "SLUICE_CUBLASLT=libm.so.6");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.err.find("one without cublasLtGetVersion"), std::string::npos) << outcome.err;
}

TEST_F(LibraryProducts, CpuIgnoresLibrary) {
  for (const char *name : {"plain", "tuned"}) {
    std::string words = std::string("train ") + name + ".sla --data text -n 2 -o cpu-" + name;
    ASSERT_EQ(sluice(words, "SLUICE_CUBLASLT=/nowhere").err.find("cuBLASLt"), std::string::npos);
  }
  EXPECT_TRUE(readFile(*folder / "cpu-plain/checkpoints/2/weights.safetensors") ==
              readFile(*folder / "cpu-tuned/checkpoints/2/weights.safetensors"));
}

TEST_F(LibraryProducts, WrongCommandsHaveStatusTwo) {
  auto refuses = [&](const std::string &words, const std::string &piece,
                     const std::string &settings = "") {
    LibraryOutcome outcome = sluice(words, settings);
    EXPECT_EQ(outcome.status, 2) << words;
    EXPECT_NE(outcome.err.find(piece), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(*folder / "no.sla"));
    EXPECT_FALSE(std::filesystem::exists(*folder / "no.json"));
  };
  refuses("bench plain.sla --tune no.json",
          "--tune: expected --device cuda, found --device cpu; products are timed on a GPU alone");
  refuses("bench plain.sla --device cuda --tune no.json", "expected an NVIDIA GPU, found none",
          "FAKE_CUDA_COUNT=0");
  refuses("bench plain.sla --device cuda --tune no.json",
          "--tune: expected cuBLASLt (libcublasLt.so.13 or .12), found none that loads",
          "SLUICE_CUBLASLT=/nowhere/lib.so");
  refuses("bench plain.sla --device cuda --tune no.json", "CUBLAS_STATUS_EXECUTION_FAILED",
          "FAKE_CUBLASLT_FAIL=cublasLtMatmul");
  refuses("bench plain.sla --device cuda --tune no.json", "for cuBLASLt, found 1000 free",
          "FAKE_CUDA_FREE=1000");
  refuses("bench plain.sla --device cuda --tune nowhere/no.json",
          "nowhere/no.json: expected a folder to write into, found no folder nowhere");
  refuses("compile spec.json --target cpu --tuning tuning.json -o no.sla",
          "--tuning: expected a GPU among the targets");
  refuses("compile spec.json --target sm_80 --tuning missing.json -o no.sla",
          "missing.json: expected the tuning file, found no such file");
  refuses("compile spec.json --target sm_90a --tuning tuning.json -o no.sla",
          "expected products timed for the GPU targets of this compile, found those of sm_80");
  writeFile(*folder / "cut.json", readFile(*folder / "tuning.json").substr(0, 100));
  refuses("compile spec.json --target sm_80 --tuning cut.json -o no.sla",
          "cut.json: expected a tuning file, found text that is not JSON at line ");
}

} // namespace
