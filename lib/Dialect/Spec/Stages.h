// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that stages share with the model.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"
#include <optional>

namespace sluice::spec {

/// Fails if "document_end" is not a token of the vocabulary.
mlir::LogicalResult verifyDocumentToken(mlir::Operation *op, std::optional<int64_t> token);

} // namespace sluice::spec
