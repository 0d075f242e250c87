// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads model IR in the format of --emit model. The file may be edited by hand, so its errors are
// reported to the user.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>

namespace sluice::driver {

/// Returns true if the file contains model IR instead of a spec: its name ends with .mlir.
bool isModelIR(llvm::StringRef path);

/// Reads and validates the file's `text`; returns null if the file cannot be read or is not a
/// model, with a message for the user in `mistake`.
mlir::OwningOpRef<mlir::ModuleOp> readModelIR(mlir::MLIRContext &context, const std::string &path,
                                              std::string &text, std::string &mistake);

/// Returns true if attention and contractions would read a shifted or upsampled sequence, which is
/// not stored. The last row and windows are stored where these ops read them.
bool isStoredNowhere(mlir::Value sequence);

/// Returns the reason that a valid model cannot be compiled; empty if it can.
std::string findUncompilable(mlir::ModuleOp module);

} // namespace sluice::driver
