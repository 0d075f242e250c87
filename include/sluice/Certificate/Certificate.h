// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the causality proof as text, for programs that share no code with this one.
#pragma once

#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Proof/Obligations.h"
#include "sluice/Support/WorkBudget.h"

namespace sluice {

/// Collects the undecided proofs of every mode that a module trains or evaluates: "eval" from
/// @evaluate, and "train" from @train if it exists.
std::vector<ModeProof> collectProofs(mlir::ModuleOp module);

/// Returns the certificate (docs/certificate.md) of a module imported from the spec `text`. The
/// certificate states the proof whether or not it holds; callers decide it before they write the
/// certificate to a file. Every op must have the name that the importer assigns. Bounds take at
/// most `operations`, like the bounds of the verdict. The step takes at most the same number again;
/// if it is exhausted, the certificate has no step.
std::string formatCertificate(mlir::ModuleOp module, llvm::StringRef text,
                              int64_t operations = WorkBudget::defaultOperations);
/// Returns a certificate with a part for each factor that steps draw; each part has its own budget.
std::string formatCertificate(const std::vector<ImportedVariant> &variants, llvm::StringRef text,
                              int64_t operations = WorkBudget::defaultOperations);

/// Returns every obligation of a module as SMT-LIB 2.6: its negation, expected unsat, and the
/// relation of every read, expected sat. Integers only, quantifier-free, floor division as div.
std::string formatSmt(mlir::ModuleOp module);

} // namespace sluice
