// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs passes over MLIR files: for tests and developers.
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllPasses();
  sluice::registerSluiceTransformsPasses();
  registry.insert<sluice::SluiceDialect, sluice::dispatch::DispatchDialect,
                  sluice::plan::PlanDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Sluice's pass driver\n", registry));
}
