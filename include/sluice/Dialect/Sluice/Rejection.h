// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors of passes about a user's model, in contrast to defects of the compiler.
#pragma once

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"

namespace sluice {

/// Emits an error about an input that this compiler does not accept. `forUser`, which must outlive
/// the diagnostic, is its metadata: the message to a user of `sluice compile`.
mlir::InFlightDiagnostic emitRejection(mlir::Operation *op, const llvm::Twine &message,
                                       llvm::StringRef forUser);

/// Emits an error whose location and message are also the message to a user of `sluice compile`.
mlir::InFlightDiagnostic emitRejection(mlir::Operation *op, const llvm::Twine &message);

/// Returns the message to a user of an error by `emitRejection`, with the place of the op if
/// `forUser` was left out; empty for other diagnostics.
std::string getRejection(mlir::Diagnostic &diagnostic);

} // namespace sluice
