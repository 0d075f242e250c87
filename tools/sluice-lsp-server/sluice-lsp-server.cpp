// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MLIR's language server for the output of `sluice compile --emit`: upstream dialects and Sluice's.
// Specs have another server, sluice-spec-lsp.
#include "StrictInput.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"
#include <string_view>

static constexpr const char *help =
    R"(MLIR's language server for model, dispatch and plan IR, as `sluice compile --emit` prints them.
Usage: sluice-lsp-server [--log=error|info|verbose]

An editor starts it for .mlir files and speaks with it over standard input and output; docs/editors.md
says how. Specs have a server of their own, sluice-spec-lsp.

  --log=LEVEL   what goes to the standard error (info)
  --help        this text
  --version     the version
Exit status: 0 after shutdown and exit; 1 otherwise.
)";

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter(
      [](llvm::raw_ostream &out) { out << "sluice-lsp-server " SLUICE_VERSION "\n"; });
  // libLLVM.so registers hundreds of flags of its own, which LLVM's --help would list.
  if (argc == 2 && (argv[1] == std::string_view("--help") || argv[1] == std::string_view("-h"))) {
    llvm::outs() << help;
    return 0;
  }
  bool isStandard = true; // tests of MLIR frame messages otherwise
  for (std::string_view argument : llvm::ArrayRef(argv, argc)) {
    isStandard &=
        argument.find("lit-test") == argument.npos && argument.find("input-style") == argument.npos;
  }
  if (isStandard) {
    stdin = openStrictInput();
  }
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  registry.insert<sluice::SluiceDialect, sluice::dispatch::DispatchDialect,
                  sluice::plan::PlanDialect>();
  return failed(mlir::MlirLspServerMain(argc, argv, registry)) ? 1 : 0;
}
