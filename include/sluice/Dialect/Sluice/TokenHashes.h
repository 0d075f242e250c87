// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Embedding rows by hashes of tokens: integer maps of tokens.
#pragma once

#include "mlir/IR/Value.h"

namespace sluice {

/// Returns true if an embedding may use `tokens` as the rows of its table: tokens of its function,
/// or a map of them that ends in (x and c) mod n, c >= 0 and n <= `rows`, so that every number has
/// a row.
bool isOfTokens(mlir::Value tokens, int64_t rows);

} // namespace sluice
