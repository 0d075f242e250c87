// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles models into a temporary folder and runs them; compares numbers with the bound of
// test/golden/README.md.
#pragma once

#include "ReferenceModel.h"
#include "sluice/Runtime/Execute/Executor.h"

#include <filesystem>
#include <string>

namespace sluice::testing {

/// A folder with the lifetime of the object.
class Folder {
public:
  Folder();
  ~Folder();
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  /// Writes `name` with `text` and returns its path.
  std::string write(const std::string &name, const std::string &text) const;
  std::string path(const std::string &name) const { return (folder / name).string(); }

private:
  std::filesystem::path folder;
};

/// Rows that generate at the same time in tests of the incremental step.
constexpr int64_t someGenerationRows = 16;
/// Compiles `source` (a spec's or model IR's path) for one target and returns the artifact's path.
/// Throws on failure. Without `generationRows` there is no incremental step: half of the code,
/// which a test of training, evaluation and prediction does not run.
std::string compile(const Folder &folder, const std::string &source, const std::string &target,
                    bool allowLeak = false, int64_t generationRows = 0);
/// Compiles an incremental step and no gradient, which is most of the code: for tests of
/// evaluation, prediction and generation. sluice-model-reference-test compares gradients.
std::string compileForGeneration(const Folder &folder, const std::string &source,
                                 const std::string &target,
                                 int64_t generationRows = someGenerationRows);
/// For a GPU target on the emulator, which runs no cubin: skips ptxas, which would take a third of
/// a test. CUDA kernel tests and gpu-models.slow.sh assemble each kind of kernel.
std::string compileForEmulator(const Folder &folder, const std::string &source,
                               const std::string &target, int64_t generationRows);
/// Targets of this machine that have code of their own for a spec. Where pairs of bf16 are
/// multiplied, that target and one of the others, in turns.
std::vector<std::string> targetsFor(const std::string &source);
/// One artifact per target of this machine, compiled in parallel.
std::map<std::string, std::string> compileForAll(const Folder &folder, const std::string &source,
                                                 bool allowLeak = false,
                                                 int64_t generationRows = 0);
/// One target of this machine. It depends on the file's name, so that the specs of a suite run on
/// each target. Kernel tests run each kernel on all.
std::string chooseTarget(const std::string &source);
/// Compiles for that target, and returns both.
std::pair<std::string, std::string> compileForOne(const Folder &folder, const std::string &source,
                                                  bool allowLeak = false,
                                                  int64_t generationRows = 0);
/// Without the causality check, and scored against tokens this far ahead.
std::map<std::string, std::string> compileForProbe(const Folder &folder, const std::string &source,
                                                   int64_t targetOffset, int64_t batch);
/// Output of `--emit stage`. Throws if the compiler rejects the source.
std::string emit(const std::string &source, const std::string &stage, bool allowLeak = false);

/// Random weights of the magnitude of trained ones, the same for the same shapes and seed.
Tensors randomWeights(const std::vector<ReferenceShape> &shapes, uint64_t seed);
/// Random tokens for the named inputs of a model of `rows` rows: the first row is full, the next
/// has none, others have some.
std::map<std::string, GivenTokens>
randomGiven(const std::map<std::string, std::pair<int64_t, int64_t>> &axes, int64_t rows,
            uint64_t seed);
/// `rows` rows of random tokens, and a random seed and step.
Inputs randomInputs(int64_t vocabulary, int64_t rows, int64_t length, uint64_t seed);

/// A compiled model and its arena.
/// Sets every tensor, and the copies that kernels read.
void setWeights(runtime::Executor &executor, const Tensors &weights);
/// A batch, and the seed and step of its random numbers. Tokens beyond `rows` and `length`, which
/// no entry may read, are invalid.
void setInputs(runtime::Executor &executor, const Inputs &inputs);

class Model {
public:
  Model(const std::string &artifact, const std::string &target, int threads = 1);

  void setWeights(const Tensors &weights);
  Tensors weights();

  ReferenceGradient gradient(const Inputs &inputs);
  /// Losses [rows, length] of the entry `evaluate`.
  std::vector<double> evaluate(const Inputs &inputs);
  /// [rows, vocabulary]. Reads the first `length` tokens of each row; `tokens` are as in Inputs.
  std::vector<float> predict(const Inputs &inputs);
  /// `gradient`, then `update`.
  ReferenceGradient train(const Inputs &inputs);

  runtime::Executor &executor() { return running; }
  std::vector<ReferenceShape> shapes() const;
  const runtime::Plan &plan() const { return running.plan(); }

private:
  void set(const Inputs &inputs);
  std::vector<double> losses(const Inputs &inputs);

  runtime::Executor running;
};

/// The reference value, its largest magnitude and the error of an ordinary float32 evaluation.
struct Yardstick {
  std::vector<double> exact;
  double error = 0, magnitude = 0;
  std::vector<double> slack = {}; ///< added to the bound of each element; none if empty

  /// 8 (error + 2^-24 magnitude).
  double bound() const { return 8 * (error + 0x1p-24 * magnitude); }
};
Yardstick yardstick(std::vector<double> exact, const std::vector<double> &inFloat);

/// Maximum difference over the bound: at most 1 if `found` is right. Infinite if sizes differ.
double ratio(const std::vector<double> &found, const Yardstick &yardstick);

/// Checks ratios and stores the maximum, which it prints at the end.
class Comparison {
public:
  explicit Comparison(std::string name) : name(std::move(name)) {}
  ~Comparison();
  Comparison(const Comparison &) = delete;
  Comparison &operator=(const Comparison &) = delete;
  void expect(const std::string &what, const std::vector<double> &found,
              const Yardstick &yardstick);

private:
  std::string name, worstTensor;
  double worst = 0;
};

} // namespace sluice::testing
