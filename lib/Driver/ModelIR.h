// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Model IR as --emit model prints it, perhaps edited by hand: its mistakes are the user's.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>

namespace sluice::driver {

/// Returns true if the file holds model IR instead of a spec: its name ends in .mlir.
bool isModelIR(llvm::StringRef path);

/// Reads and validates; null where the file cannot be read or is not a model, with a message for
/// the user in `mistake`. `text` is the file's.
mlir::OwningOpRef<mlir::ModuleOp> readModelIR(mlir::MLIRContext &context, const std::string &path,
                                              std::string &text, std::string &mistake);

/// Returns true if attention and contractions would read a sequence that no memory holds: one that
/// is shifted or upsampled. The last row and windows are stored where these read them.
bool isStoredNowhere(mlir::Value sequence);

/// Why a valid model cannot be compiled; empty where it can.
std::string findUncompilable(mlir::ModuleOp module);

} // namespace sluice::driver
