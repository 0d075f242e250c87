// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "BenchReport.h"
#include "BenchSteps.h"
#include "Commands.h"
#include "Common.h"
#include "DataOptions.h"
#include "StageTimes.h"
#include "Tune.h"
#include "sluice/Runtime/Data/TextLike.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Runtime/Plan/Ledger.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Json.h"
#include "sluice/Support/MemoryFile.h"
#include "sluice/Support/Program.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <unistd.h>

namespace sluice::cli {
namespace {

using namespace sluice;
using namespace sluice::runtime;

struct BenchFlags {
  std::string artifact, tune, positions, data, tokenizer;
  bool raw = false;
  int64_t steps = 10, rows = 1, forcedFactor = 0;
  std::vector<std::string> labels, inputs;
  DeviceOptions device;
  std::optional<int64_t> factor;
  bool kernels = false, byStage = false, generate = false, json = false, force = false;
};

/// Measurements of `sluice-peak` with the same number of threads: the sum over them. For a GPU, the
/// figures of its data sheet; zeros if neither is known.
struct Peak {
  double gflops = 0, gbytesPerSecond = 0;
  std::string source;
};

/// Runs the program next to this one and returns its output.
std::string runBeside(const std::string &name, const std::vector<std::string> &arguments) {
  std::error_code ignored;
  std::string program =
      (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / name).string();
  MemoryFile output("sluice-peak");
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::string failure = runProgram(words, output.descriptor(), STDERR_FILENO);
  if (!failure.empty() && !std::filesystem::exists(program, ignored)) {
    throw UserError(program + ": expected the program that measures the machine's peak, found "
                              "none; build it (target sluice-peak) into the folder of sluice");
  }
  if (!failure.empty()) {
    throw JobError(program + ": could not measure the machine's peak (" + failure +
                   "); it needs memory, file handles and as many threads as --threads");
  }
  return output.read();
}

/// Measures the arithmetic of f32, or of pairs or tiles of bf16 where code for them runs.
Peak measurePeak(int threads, const std::string &target) {
  std::vector<std::string> arguments = {"--threads", std::to_string(threads)};
  if (target == "cpu-avx512-bf16") {
    arguments.emplace_back("--bf16");
  } else if (target == "cpu-amx") {
    arguments.emplace_back("--amx");
  }
  Json json = Json::parse(runBeside("sluice-peak", arguments));
  return {json.at("gflops").get<double>(), json.at("gbytes_per_s").get<double>(), "measured"};
}

Peak measureDevicePeak(const Executor &executor, const std::string &device) {
  if (device == "cpu") {
    return measurePeak(executor.threads(), executor.target());
  }
  const Chip *chip = device == "cuda" ? findChip(executor.describeDevice()) : nullptr;
  return chip ? Peak{chip->tensorFlops / 1e9, chip->bytes / 1e9, "data sheet of " + chip->name}
              : Peak{0, 0, "none"};
}

/// Returns null if there is no peak.
Json computeShare(double gflops, const Peak &peak) {
  return peak.gflops > 0 ? Json(gflops / peak.gflops) : Json(nullptr);
}

/// Returns the kernels by time. `attended` is the share of its bytes that an attention reads.
Json kernelTable(const Executor &executor, int64_t steps, const Peak &peak, double attended = 1) {
  std::vector<Json> rows;
  for (size_t i = 0; i < executor.times().size(); ++i) {
    const PlanKernel &kernel = executor.plan().kernels[i];
    const KernelTime &time = executor.times()[i];
    if (time.launches == 0) {
      continue;
    }
    double launches = static_cast<double>(time.launches);
    double share = kernel.kind == "attention" ? attended : 1;
    double gflops = share * static_cast<double>(kernel.flops) * launches / time.seconds / 1e9;
    double bytes = share * static_cast<double>(kernel.bytes) * launches;
    rows.push_back(Json{{"name", kernel.name},
                        {"kind", kernel.kind},
                        {"launches", launches / static_cast<double>(steps)},
                        {"ms", time.seconds * 1e3 / static_cast<double>(steps)},
                        {"gflops", gflops},
                        {"bytes", bytes / static_cast<double>(steps)},
                        {"gbytes_per_s", bytes / time.seconds / 1e9},
                        {"fraction_of_peak", computeShare(gflops, peak)}});
    if (const KernelCounts &counts = time.counts; counts.instructions > 0) {
      const DeviceVariant &variant = kernel.deviceVariants.at(executor.target());
      rows.back()["emulated"] = {{"planned_bytes", variant.plannedBytes * time.launches / steps},
                                 {"bytes", counts.bytes / steps},
                                 {"sectors", counts.sectors / steps},
                                 {"least_sectors", counts.leastSectors / steps},
                                 {"bank_passes", counts.passes / steps},
                                 {"least_bank_passes", counts.leastPasses / steps},
                                 {"barriers", counts.barriers / steps},
                                 {"instructions", counts.instructions / steps},
                                 {"tensor_instructions", counts.tensorInstructions / steps}};
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Json &a, const Json &b) {
    return a["ms"].get<double>() > b["ms"].get<double>();
  });
  return rows;
}

/// Parses "FIRST-LAST" to [first, last), which includes LAST; the third quarter if it is empty.
std::pair<int64_t, int64_t> countPositions(const std::string &text, int64_t context) {
  if (text.empty()) {
    int64_t first = std::max<int64_t>(1, context / 2);
    return {std::min(first, context - 1),
            std::max(context * 3 / 4, std::min(first, context - 1) + 1)};
  }
  int64_t first = 0, last = 0;
  const char *end = text.data() + text.size();
  auto begin = std::from_chars(text.data(), end, first);
  bool isRange = begin.ec == std::errc() && begin.ptr != end && *begin.ptr == '-';
  auto rest = isRange ? std::from_chars(begin.ptr + 1, end, last) : begin;
  if (!isRange || rest.ec != std::errc() || rest.ptr != end || first < 1 || last < first ||
      last >= context) {
    throw UserError("expected --positions FIRST-LAST, 1 <= FIRST <= LAST < " +
                    std::to_string(context) + ", found \"" + text + "\"");
  }
  return {first, last + 1};
}

/// Tokens per second at positions [first, last) of `rows` rows that run in step, and of the prompt
/// before; a forced factor places white space. With flags.kernels, the executor's times are
/// afterwards the times of the steps.
struct StepSpeed {
  double tokens = 0, promptTokens = 0;
  std::vector<double> seconds; ///< of each step, in order
  int64_t period = 1;          ///< coarse stages run at the same positions of each

  /// Milliseconds that the given share of the steps did not exceed: over the steps at each position
  /// of a period, then the mean over the positions.
  double quantile(double share) const {
    size_t places = std::min(static_cast<size_t>(period), seconds.size());
    double sum = 0;
    for (size_t place = 0; place < places; ++place) {
      std::vector<double> own;
      for (size_t i = place; i < seconds.size(); i += places) {
        own.push_back(seconds[i]);
      }
      std::ranges::sort(own);
      sum += own[static_cast<size_t>(share * static_cast<double>(own.size() - 1))];
    }
    return 1e3 * sum / static_cast<double>(places);
  }
};

/// Returns every named input at its maximum length.
GivenLines fullInputs(const Plan &plan) {
  GivenLines given;
  for (const auto &[name, input] : plan.given) {
    given[name].resize(static_cast<size_t>(input.capacity));
    fillTextLike(given[name], input.vocabulary);
  }
  return given;
}

StepSpeed stepSpeed(Executor &executor, const BenchFlags &flags, int64_t first, int64_t last) {
  const int64_t rows = flags.rows;
  const ModelFacts &model = executor.plan().model;
  for (std::span<int32_t> tokens : {executor.prompt(), executor.text()}) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>(mix64(i) % static_cast<uint64_t>(model.vocabulary));
    }
    if (flags.forcedFactor != 0) {
      forceSpaces(tokens, flags.forcedFactor, model);
    }
  }
  executor.promptInputs().write(0, fullInputs(executor.plan()));
  for (const auto &[name, input] : executor.plan().given) {
    if (input.on.empty()) {
      std::ranges::fill(executor.textCounts(name), input.capacity);
    }
  }
  auto take = [&](int64_t row, int64_t count, int64_t tokens) {
    std::ranges::fill(executor.take(), 0);
    std::fill_n(executor.take().begin() + row, count, tokens);
  };
  auto timed = [&](const char *entry) {
    auto start = std::chrono::steady_clock::now();
    executor.run(entry);
    executor.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  StepSpeed speed;
  for (int turn = 0; turn < 2; ++turn) { // once to warm up
    take(0, rows, 1);
    executor.run("reset");
    executor.scalarI64("rows") = 1;
    executor.scalarI64("length") = first;
    double prompt = 0, steps = 0;
    std::vector<double> seconds;
    for (int64_t row = 0; row < rows; ++row) {
      take(row, 1, first);
      prompt += timed("prefill");
    }
    take(0, rows, 1);
    if (flags.kernels && turn == 1) {
      executor.startTiming();
    }
    for (int64_t position = first; position < last; ++position) {
      seconds.push_back(timed("step"));
      steps += seconds.back();
    }
    executor.stopTiming();
    speed = {
        static_cast<double>(rows * (last - first)) / steps,
        static_cast<double>(rows * first) / prompt, std::move(seconds),
        std::lcm(executor.plan().generation->period, std::max<int64_t>(1, flags.forcedFactor))};
  }
  return speed;
}

/// Returns the GB/s at which that many threads read a buffer of `bytes` bytes repeatedly.
double readBandwidth(int threads, double bytes) {
  auto size = static_cast<int64_t>(std::max(bytes, 1.0));
  Json json = Json::parse(runBeside(
      "sluice-peak", {"--threads", std::to_string(threads), "--read", std::to_string(size)}));
  return json.at("read_gbytes_per_s").get<double>();
}

/// Returns the tokens per second of generation by full recomputation, at a full window.
double generationSpeed(Executor &executor) {
  auto vocabulary = static_cast<uint64_t>(executor.plan().model.vocabulary);
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < executor.plan().model.context; ++i) {
    prompt.push_back(static_cast<int32_t>(mix64(static_cast<uint64_t>(i)) % vocabulary));
  }
  constexpr int64_t count = 8;
  auto start = std::chrono::steady_clock::now();
  Predictor predictor(executor, /*cached=*/false);
  GivenLines given = fullInputs(executor.plan());
  Predictor::Turn turn{0, prompt, &given};
  for (int64_t i = 0; i < count; ++i) {
    predictor.predict({&turn, 1});
  }
  return count / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Adds the seconds of each of `count` steps to `seconds` and returns their sum.
double timeSteps(Executor &executor, int64_t first, int64_t count, std::vector<double> &seconds) {
  double sum = 0;
  for (int64_t step = 0; step < count; ++step) {
    seconds.push_back(trainingStep(executor, first + step));
    sum += seconds.back();
  }
  return sum;
}

/// Adds what `--generate` measures.
void measureGeneration(Executor &executor, const BenchFlags &flags, const Peak &peak, Json &json) {
  json["recomputed_tokens_per_s"] = generationSpeed(executor);
  json["cached_tokens_per_s"] = nullptr;
  const auto &generation = executor.plan().generation;
  if (!generation) {
    return;
  }
  auto [first, last] = countPositions(flags.positions, executor.plan().model.context);
  StepSpeed speed = stepSpeed(executor, flags, first, last);
  if (flags.kernels) {
    double keys = static_cast<double>(first + last) / 2 / double(executor.plan().model.context);
    double attended = keys * double(flags.rows) / double(generation->rows);
    json["step_kernels"] = kernelTable(executor, last - first, peak, attended);
    if (flags.byStage) {
      json["step_stages"] = computeStageTimes(executor, last - first);
    }
  }
  json["rows"] = flags.rows;
  json["positions"] = {first, last - 1};
  json["cached_tokens_per_s"] = speed.tokens;
  json["prefill_tokens_per_s"] = speed.promptTokens;
  json["generation_step_ms"] = {{"tenth", speed.quantile(0.1)}, {"median", speed.quantile(0.5)}};
  json["step_launches"] = executor.plan().entries.at("step").size();
  int64_t bytes = 0;
  for (const auto &[name, state] : generation->states) {
    bytes += flags.rows * state.rowBytes();
  }
  json["state_bytes"] = bytes;
  if (executor.target().starts_with("cpu")) {
    auto rows = static_cast<double>(flags.rows);
    double ofStep = static_cast<double>(generation->weightReads) +
                    rows * generation->stateReadsAt(first, last, executor.plan().model.context);
    double bandwidth = readBandwidth(executor.threads(), ofStep);
    json["step_bytes"] = ofStep;
    json["read_gbytes_per_s"] = bandwidth;
    json["fraction_of_bandwidth"] = ofStep * speed.tokens / rows / 1e9 / bandwidth;
  }
}

/// Throws UserError if the flags of generation do not fit the artifact.
void checkGeneration(const BenchFlags &flags, const Executor &executor) {
  const Plan &plan = executor.plan();
  checkPredicts(plan, flags.artifact);
  if (!plan.generation) {
    if (!flags.positions.empty() || flags.rows != BenchFlags().rows) {
      throw UserError(std::string(flags.positions.empty() ? "--rows" : "--positions") +
                      ": expected an artifact that generates step by step, found one without; "
                      "leave it out (sluice compile --emit step reports why there is no step)");
    }
    return;
  }
  if (!executor.hasStep()) {
    throw UserError("--generate: expected the factor that the artifact generates with, " +
                    std::to_string(plan.factors.front()) + ", found --factor " +
                    std::to_string(executor.factor()) + "; compile with that --factor");
  }
  countPositions(flags.positions, plan.model.context);
  if (flags.rows < 1 || flags.rows > plan.generation->rows) {
    throw UserError("expected --rows from 1 to the " + std::to_string(plan.generation->rows) +
                    " that the artifact generates at once, found " + std::to_string(flags.rows) +
                    (flags.rows < 1 ? "; give at least 1" : "; compile with --generation-rows"));
  }
}

/// Fills in the batch of the steps: of files, or every row at its maximum length.
void fillInputs(Executor &executor, const BenchFlags &flags) {
  const Plan &plan = executor.plan();
  SourceFiles files;
  files.labels = parseLabelFiles("--labels", flags.labels);
  files.reading = {.isRaw = flags.raw,
                   .streams = {},
                   .takesIds = true,
                   .encoder = findEncoder(flags.tokenizer, "", plan.model.vocabulary)};
  if (!flags.inputs.empty()) {
    files.data = {Path(flags.data)};
    files.inputs = parseInputFiles("--input", flags.inputs);
    fillBatch(executor, files);
    return;
  }
  requireLabels(plan, files, /*areNeeded=*/!flags.data.empty());
  fillTokens(executor, flags.data, flags.forcedFactor, files.labels, files.reading);
  for (auto &[name, given] : executor.inputs().given) {
    fillTextLike(given.tokens, plan.given.at(name).vocabulary);
    std::ranges::fill(given.counts, given.capacity);
  }
}

void runBench(const BenchFlags &flags) {
  if (flags.steps < 1) {
    throw UserError("expected --steps of at least 1, found " + std::to_string(flags.steps));
  }
  std::unique_ptr<Executor> executor = openExecutor(flags.artifact, flags.device);
  const Plan &plan = executor->plan();
  if (flags.byStage) {
    requireStages(plan);
  }
  executor->chooseFactor(flags.factor);
  if (flags.generate) {
    checkGeneration(flags, *executor);
  }
  executor->scalarI64("seed") = plan.model.seed;
  executor->run("initialize");
  fillInputs(*executor, flags);
  // Measures the peak before and after: other work on the machine would otherwise improve the
  // ratio.
  Peak before = measureDevicePeak(*executor, flags.device.device);
  trainingStep(*executor, 1);
  Json shortening = measureShortening(*executor);
  requireForced(shortening, flags.forcedFactor, plan);
  // Timing a GPU kernel delays the next one, so steps are timed first, then kernels.
  bool apart = flags.device.device == "cuda";
  if (!apart) {
    executor->startTiming();
  }
  std::vector<double> seconds;
  double wall = timeSteps(*executor, 2, flags.steps, seconds);
  if (apart) {
    executor->startTiming();
    std::vector<double> ignored;
    wall = timeSteps(*executor, 2 + flags.steps, flags.steps, ignored);
  }
  executor->stopTiming();
  double inKernels = 0;
  for (const KernelTime &time : executor->times()) {
    inKernels += time.seconds;
  }
  Peak after = measureDevicePeak(*executor, flags.device.device);
  Peak peak = {std::max(before.gflops, after.gflops),
               std::max(before.gbytesPerSecond, after.gbytesPerSecond), before.source};
  Json kernels = kernelTable(*executor, flags.steps, peak);
  std::nth_element(seconds.begin(), seconds.begin() + flags.steps / 2, seconds.end());
  double median = seconds[static_cast<size_t>(flags.steps / 2)];
  double operations = flopsOfStep(*executor), gflops = operations / median / 1e9;
  Json json = {{"step_ms", median * 1e3},
               {"tokens_per_s", static_cast<double>(countTokens(*executor)) / median},
               {"step_gflop", operations / 1e9},
               {"gflops", gflops},
               {"fraction_of_peak", computeShare(gflops, peak)},
               {"peak_gflops", peak.gflops},
               {"peak_gbytes_per_s", peak.gbytesPerSecond},
               {"peak_source", peak.source},
               {"kernel_fraction", inKernels / wall},
               {"threads", executor->threads()},
               {"steps", flags.steps},
               {"device", executor->describeDevice()},
               {"target", executor->target()},
               {"leak_allowed", plan.verdict != "proved"},
               {"proof", plan.verdict}};
  if (executor->factor() > 0) {
    json["factor"] = executor->factor();
  }
  if (!shortening.empty()) {
    json["shortening_factor"] = shortening;
  }
  if (flags.kernels) {
    json["kernels"] = kernels;
  }
  if (flags.byStage) {
    json["stages"] = computeStageTimes(*executor, flags.steps);
  }
  if (flags.generate) {
    measureGeneration(*executor, flags, peak, json);
  }
  if (flags.json) {
    printJson(json);
  } else {
    printBench(json, *executor);
  }
}

} // namespace

void registerBench(CLI::App &program) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App *command =
      program.add_subcommand("bench", "Measure training steps against the machine's measured peak");
  command->add_option("ART", flags->artifact, "Artifact, from sluice compile")
      ->type_name("FILE")
      ->required();
  CLI::Option *ofSteps[5] = {
      command->add_option("-n,--steps", flags->steps,
                          "Training steps to time, after one to warm up"),
      command->add_flag("-k,--kernels", flags->kernels,
                        "Add a table of kernels: ms a step, bytes, Gflop/s, GB/s, fraction of "
                        "peak; with --generate another of a token's kernels"),
      command->add_flag("-g,--generate", flags->generate,
                        "Measure generation too, in tokens a second")};
  ofSteps[3] =
      command->add_option("--data", flags->data,
                          "Measure on this text, or token ids, in place of bytes as often as "
                          "in text");
  ofSteps[3]->type_name("FILE");
  command
      ->add_flag("--by-stage", flags->byStage,
                 "Add the share of the time that each stage of the spec takes")
      ->needs("--kernels");
  ofSteps[4] = command->add_option(
      "--forced-factor", flags->forcedFactor,
      "Put a space at every K-th position and nowhere else: segments of K tokens, where white "
      "space ends them");
  ofSteps[4]->type_name("K");
  addRaw(*command, flags->raw);
  addTokenizer(*command, flags->tokenizer, "default: tokens are bytes");
  command->get_option("--tokenizer")->needs("--data");
  addLabels(*command, "--labels", flags->labels, "--data");
  command->get_option("--labels")->needs("--data");
  addInputs(*command, flags->inputs,
            "its line i belongs to line i of --data, and the steps are of the first batch");
  command->get_option("--input")->needs("--data")->excludes("--forced-factor");
  command->add_option("--rows", flags->rows, "Texts that generate at once")->needs("--generate");
  command
      ->add_option("--positions", flags->positions,
                   "Positions at which steps are timed; default: the third quarter of the context")
      ->type_name("FIRST-LAST")
      ->needs("--generate");
  addFactor(*command, flags->factor,
            "time steps of this one; default: that of sluice compile --factor");
  command->add_flag("--json", flags->json, "Print one JSON object");
  CLI::Option *tune =
      command
          ->add_option("--tune", flags->tune,
                       "Time every plain matrix product on the GPU, the generated kernel and "
                       "cuBLASLt, and write this tuning file for sluice compile --tuning; no steps "
                       "are timed")
          ->type_name("FILE");
  for (CLI::Option *option : ofSteps) {
    tune->excludes(option);
  }
  addForce(*command, flags->force);
  addDeviceOptions(*command, flags->device);
  command->callback([flags, command] {
    if (command->count("--tune") == 0) {
      runBench(*flags);
    } else {
      runTune(flags->artifact, flags->device, flags->tune, flags->json, flags->force);
    }
  });
}

} // namespace sluice::cli
