// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The causality proof as text, for programs that share nothing with this one.
#pragma once

#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Proof/Obligations.h"
#include "sluice/Support/WorkBudget.h"

namespace sluice {

/// The proofs of every mode that a module trains or evaluates: "eval" of @evaluate, "train" of
/// @train where there is one. Not decided.
std::vector<ModeProof> collectProofs(mlir::ModuleOp module);

/// The certificate (docs/certificate.md) of a module imported from the spec `text`. It states the
/// proof whether or not it holds; whoever writes it to a file decides first. Every op must carry
/// the name that the importer gives. The bounds take at most `operations`, as they do in the
/// verdict. The step takes at most as many again; where they are spent, the certificate has none.
std::string formatCertificate(mlir::ModuleOp module, llvm::StringRef text,
                              int64_t operations = WorkBudget::defaultOperations);
/// With a part for each factor that steps draw, each with a budget of its own.
std::string formatCertificate(const std::vector<ImportedVariant> &variants, llvm::StringRef text,
                              int64_t operations = WorkBudget::defaultOperations);

/// Every obligation of a module as SMT-LIB 2.6: its negation, expected unsat, and the relation of
/// every read, expected sat. Integers only, quantifier-free, floor division as div.
std::string formatSmt(mlir::ModuleOp module);

} // namespace sluice
