#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How groups become one row (Subramanian et al. 2020, section 3): average pooling against a causal strided convolution, top-down.

The paper takes the convolution into its tables; here both have the same operations. Upsampling is linear in both.
"""
import lab


def spec(shorten):
    return lab.base([{"op": "embedding", "positions": "learned"},
                     {"op": "top_down", "hierarchy": "2@16 2@4 3@1", "shorten": shorten, "upsample": "linear"}, {"op": "head", "first": 15}])


if __name__ == "__main__":
    lab.compare("pooling", {"average": spec("average"), "convolution": spec("linear")},
                [("convolution", "average", "a convolution is better than an average")])
