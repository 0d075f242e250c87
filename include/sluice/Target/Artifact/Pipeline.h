// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass pipeline from model IR to the plan: `sluice compile` runs it, and `sluice-opt` has it as
// --sluice-compile-model.
#pragma once

#include "mlir/Pass/AnalysisManager.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace sluice {

/// Stages of the pipeline, in order; it can stop after each.
enum class Stage { Model, Step, Gradient, Dispatches, Kernels, Plan };

/// Returns the stage of a name of `--emit`; none if the pipeline has no such stage.
std::optional<Stage> getStage(llvm::StringRef name);

struct PipelineOptions : mlir::PassPipelineOptions<PipelineOptions> {
  Option<Stage> emit{
      *this, "emit", llvm::cl::desc("Last stage"), llvm::cl::init(Stage::Plan),
      llvm::cl::values(clEnumValN(Stage::Model, "model", "model IR, as it was read"),
                       clEnumValN(Stage::Step, "step", "the decode step alone"),
                       clEnumValN(Stage::Gradient, "gradient", "model IR with @gradient"),
                       clEnumValN(Stage::Dispatches, "dispatches", "dispatches of every entry"),
                       clEnumValN(Stage::Kernels, "kernels", "the generated kernels alone"),
                       clEnumValN(Stage::Plan, "plan", "memory and launches"))};
  ListOption<std::string> targets{
      *this, "target",
      llvm::cl::desc("cpu-amx, cpu-avx512-bf16, cpu-avx512-vnni, cpu-avx512, cpu-avx2, cpu, sm_80 "
                     "or sm_90a")};
  Option<int64_t> l2Bytes{*this, "l2-bytes",
                          llvm::cl::desc("Bytes of a core's L2 cache; 0: a size by the CPU target"),
                          llvm::cl::init(0)};
  Option<bool> hasGradient{*this, "gradient", llvm::cl::desc("Build the entries of a gradient"),
                           llvm::cl::init(true)};
  Option<bool> hasStep{*this, "step", llvm::cl::desc("Derive a decode step if the model has one"),
                       llvm::cl::init(true)};
  Option<int64_t> operations{
      *this, "operations",
      llvm::cl::desc("Maximum work of the derivation of a step, as in docs/causality.md"),
      llvm::cl::init(200000000)};
  Option<int64_t> generationRows{*this, "generation-rows",
                                 llvm::cl::desc("Number of rows that generate concurrently"),
                                 llvm::cl::init(16)};
  Option<std::string> weights{
      *this, "weights",
      llvm::cl::desc(
          "Type in which a step reads weights: bf16, int8 or int4; empty: as training does")};
  Option<bool> keepMaps{*this, "keep-maps",
                        llvm::cl::desc("Store values that only weight gradients read"),
                        llvm::cl::init(false)};
  Option<int64_t> memoryBudget{*this, "memory-budget",
                               llvm::cl::desc("Maximum bytes of the arena; 0: any number"),
                               llvm::cl::init(0)};
  Option<bool> keepFunctions{*this, "keep-functions",
                             llvm::cl::desc("Keep the functions of dispatches next to the plan"),
                             llvm::cl::init(false)};
};

/// Called before the first pass, with an empty name, and after each pass of a pipeline. A failure
/// ends the pipeline. With a callback `sluice-recompute` does not fail if its budget cannot be met:
/// the callback finds that in KernelAnalysis.
using PipelineCallback = std::function<llvm::LogicalResult(
    llvm::StringRef pass, mlir::ModuleOp module, mlir::AnalysisManager analyses)>;

/// Adds the passes from model IR to dispatches, or to an earlier stage.
void buildDispatchPipeline(mlir::OpPassManager &manager, const PipelineOptions &options,
                           const PipelineCallback &callback = {});

/// Adds the whole pipeline: the passes above, then kernel generation, memory planning and plan
/// emission.
void buildCompilePipeline(mlir::OpPassManager &manager, const PipelineOptions &options,
                          const PipelineCallback &callback = {});

/// Registers the pipeline as `sluice-compile-model`.
void registerSluicePipelines();

} // namespace sluice
