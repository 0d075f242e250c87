#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far a layer sees (Subramanian et al. 2020, table 4).

Six layers that see the last 8 or the last 64 bytes, and a retina: one group of heads sees the last 8, one means of 4 of the last 8 to
256, one means of 16 of the last 256 to 512. Its table has the window of 64 ahead of that of 8, and the retina far ahead of the window
of 8.
"""
import lab


def spec(**settings):
    return lab.base([{"op": "embedding", "positions": "learned"}, {"op": "layers", "count": 6, **settings}, {"op": "norm"}, {"op": "head"}])


if __name__ == "__main__":
    retina = spec(scales=[{"factor": 1, "tokens": [0, 8]}, {"factor": 4, "tokens": [8, 256]}, {"factor": 16, "tokens": [256, 512]}], heads=6,
                  head_size=32)
    lab.compare("windows", {"window-8": spec(mask={"window": [0, 8]}), "window-64": spec(mask={"window": [0, 64]}), "retina": retina},
                [("window-64", "window-8", "64 bytes are better than 8"), ("retina", "window-8", "a retina is better than a window of 8")])
