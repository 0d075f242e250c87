# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The random numbers of docs/running.md: Philox of a seed, a stream, a step and an element."""

WORD = 2 ** 32


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., 2011): four words."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second // WORD ^ c[1] ^ k[0], second % WORD, first // WORD ^ c[3] ^ k[1], first % WORD]
        k = [(k[0] + 0x9E3779B9) % WORD, (k[1] + 0xBB67AE85) % WORD]
    return c


def uniform(seed, stream, step, element):
    """A number in [0, 1): four elements share a counter, and the upper 24 bits of a word count."""
    counter = (element // 4 % WORD, element // 4 // WORD, stream, step % WORD)
    return (philox(counter, (seed % WORD, seed // WORD))[element % 4] >> 8) * 2.0 ** -24
