// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates token ids with the frequencies of text for benchmarks: the time of a scatter of
// embeddings depends on the number of rows with the same token.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::runtime {

/// Fills `tokens` with ids below `vocabulary` (at least 1), drawn independently and identically in
/// every run. With a vocabulary of 256, bytes have their frequencies in an English dictionary: 24%
/// are spaces. With any other vocabulary, the frequency of id i is proportional to 1 / (i + 1),
/// after Zipf's law.
void fillTextLike(std::span<int32_t> tokens, int64_t vocabulary);

} // namespace sluice::runtime
