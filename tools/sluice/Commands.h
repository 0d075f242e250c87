// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declares the subcommands of `sluice`. Each register function adds one to the program, with its
// flags and a callback that does the job when the command line names it. A callback reports bad
// input by throwing UserError (status 2) and ends with another status by throwing
// ExitStatus; returning means status 0.
#pragma once

namespace CLI {
class App;
} // namespace CLI

namespace sluice::cli {

struct ExitStatus {
  int status;
};

// Commands that use MLIR: library sluice_compiler_commands, in builds that have it
// (SLUICE_WITH_COMPILER).
void registerCheck(CLI::App &program);
void registerCompile(CLI::App &program);

// Commands that use only the runtime.
void registerTrain(CLI::App &program);
void registerEval(CLI::App &program);
void registerExport(CLI::App &program);
void registerImport(CLI::App &program);
void registerLogits(CLI::App &program);
void registerAnalyze(CLI::App &program);
void registerBoundaries(CLI::App &program);
void registerGenerate(CLI::App &program);
void registerBench(CLI::App &program);
void registerInspect(CLI::App &program);
void registerPlanScale(CLI::App &program);
void registerReport(CLI::App &program);
void registerNgram(CLI::App &program);
void registerScore(CLI::App &program);
void registerTokenizer(CLI::App &program);

} // namespace sluice::cli
