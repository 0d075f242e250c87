// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice compile` compiles a spec to an artifact.
#include "CommandLine.h"
#include "Commands.h"
#include "Common.h"
#include "CompileProgress.h"
#include "Recompile.h"
#include "Tune.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Limits.h"
#include "sluice/Support/Text.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

namespace sluice::cli {

static driver::Outcome compileShowingProgress(driver::CompileRequest &request) {
  CompileProgress progress;
  request.report = [&](const std::string &what, double share) { progress.report(what, share); };
  return driver::compile(request);
}

void registerCompile(CLI::App &program) {
  auto request = std::make_shared<driver::CompileRequest>();
  CLI::App *command = program.add_subcommand("compile", "Compile a spec to an artifact");
  command->add_option("SPEC", request->spec, "Model spec, JSON (docs/spec.md)")
      ->type_name("FILE")
      ->required();
  CLI::Option *output =
      command->add_option("-o,--output", request->output, "Artifact to write")->type_name("FILE");
  command
      ->add_option("-t,--target", request->targets,
                   "Targets: cpu-amx (AMX tiles of bf16), cpu-avx512-bf16 (AVX-512 with products "
                   "of bf16), cpu-avx512-vnni (with VNNI, for --weights int8 or int4), cpu-avx512, "
                   "cpu-avx2, cpu (all that the "
                   "spec's precision and --weights have a use for, for any machine); for NVIDIA "
                   "GPUs sm_80 (Ampere and later), sm_90a (Hopper). Without it, this machine's "
                   "CPU alone")
      ->default_str("")
      ->delimiter(',');
  command
      ->add_option(
          "--precision", request->precision,
          "Type of the factors in linear maps, attention and the head, in place of the spec's "
          "precision.compute: f32 or bf16; the artifact records it. GPU targets multiply bf16: "
          "with one of them a spec in f32 becomes bf16, which a line reports")
      ->check(matchChoice({"f32", "bf16"}));
  command
      ->add_option(
          "--weights", request->weights,
          "Type in which evaluation and generation read weight matrices: bf16, int8 with a "
          "scale per row, or int4 with a scale per 32 weights of a row. A step of generation, "
          "which is bound by reading weights, "
          "takes less time; training is unchanged. sluice eval measures the cost of the "
          "rounded weights, and sluice generate --score of the steps")
      ->check(matchChoice({"bf16", "int8", "int4"}));
  command
      ->add_option("--generation-rows", request->generationRows,
                   "Texts that the artifact can generate at once, whatever the spec's batch")
      ->check(wholeNumber(1, mostGenerationRows));
  auto budget = std::make_shared<std::string>();
  CLI::Option *budgeted =
      command
          ->add_option(
              "--memory-budget", *budget,
              "Limit on the memory of the arena (weights, optimizer, activations, generation), as "
              "in 512MiB: a training step computes results of its forward pass again instead of "
              "keeping them, as few as the limit needs; gradients stay the same bit for bit")
          ->type_name("SIZE")
          ->check(byteSize());
  addFactor(*command, request->factor,
            "that of generation and of what inspect counts; default: the smallest");
  auto tuning = std::make_shared<std::string>();
  CLI::Option *tuned =
      command
          ->add_option("--tuning", *tuning,
                       "Tuning file, from sluice bench --tune: products that cuBLASLt was measured "
                       "to do faster on a GPU go to it, where it is installed")
          ->type_name("FILE");
  auto settings = std::make_shared<std::vector<std::string>>();
  addSettings(*command, *settings,
              "Put a value into the spec before it is compiled, as in training.learning_rate=1e-4 "
              "or stages.1.hierarchy='1@1 2@2 1@1'; may be given several times. The artifact holds "
              "the resulting spec");
  std::string stages;
  for (const std::string &stage : driver::emitStages()) {
    stages += (stages.empty() ? "" : ", ") + stage;
  }
  CLI::Option *emit = command
                          ->add_option("--emit", request->emit,
                                       "Print the IR of a stage and write nothing: " + stages)
                          ->excludes(output);
  command
      ->add_flag(
          "--locations", request->emitLocations,
          "Print with each op of --emit its place in the spec, and the stage and the part of "
          "it that the op came from")
      ->needs(emit);
  auto force = std::make_shared<bool>(false);
  addForce(*command, *force);
  addKernelCache(*command, request->kernelCache);
  command->add_flag("--verify-each-causality", request->verifyEachCausality,
                    "After every pass, read dependences again and compare them with the spec's");
  addOperations(*command, request->operations);
  command->add_flag("--allow-leak", request->allowLeak,
                    "Compile a spec that check does not prove; the artifact records it");
  command->callback([request, settings, budget, budgeted, tuning, tuned, emit, force] {
    if (request->output.empty() && emit->count() == 0) {
      throw UserError(
          "sluice compile: expected an artifact to write or a stage to print, found neither; " +
          std::string("give -o FILE or --emit STAGE"));
    }
    requireKind(request->spec, FileKind::Spec, "a model spec");
    checkOutputs({{"--output", request->output, FileKind::Artifact}}, {request->spec, *tuning},
                 *force);
    if (budgeted->count() > 0) {
      // Levels that a budget does not change.
      bool isBefore = request->emit == "spec" || request->emit == "model" ||
                      request->emit == "pytorch" || request->emit == "step" ||
                      request->emit == "gradient";
      if (isBefore) {
        throw UserError("--memory-budget: expected a stage that a budget changes "
                        "(dispatches, kernels, plan), found --emit " +
                        request->emit + "; leave the budget out");
      }
      request->memoryBudget = parseByteSize(*budget);
    }
    if (request->targets.empty()) {
      setMachine(*request);
    }
    if (tuned->count() > 0) {
      request->libraryProducts = readLibraryProducts(*tuning, request->targets);
    }
    request->settings = parseSettings(*settings);
    driver::Outcome outcome = compileShowingProgress(*request);
    std::cout << outcome.output << std::flush;
    if (!outcome.message.empty()) {
      std::cerr << "sluice: " << (outcome.isLeak || outcome.status == 0 ? "" : "error: ")
                << showMessage(outcome.message) << std::endl;
    }
    if (outcome.status != 0) {
      throw ExitStatus{outcome.status};
    }
  });
}

} // namespace sluice::cli
