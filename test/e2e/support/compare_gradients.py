#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the gradients of the first step of two runs, by Adam's first moment, which after one step is their multiple.

Usage: compare_gradients.py RUN OTHER BOUND. The difference must be at most BOUND times the largest gradient of RUN."""
import array
import json
import struct
import sys


def read_moments(run):
    with open(f"{run}/checkpoints/1/optimizer.safetensors", "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    moments = {}
    for name, tensor in header.items():
        if name.endswith(".adam.m"):
            begin, end = tensor["data_offsets"]
            moments[name] = array.array("f", data[begin:end])
    return moments


first, second, bound = read_moments(sys.argv[1]), read_moments(sys.argv[2]), float(sys.argv[3])
if not first or first.keys() != second.keys():
    sys.exit(f"expected the moments of the same tensors, found {len(first)} and {len(second)}")
largest = max(abs(value) for values in first.values() for value in values)
difference, name = max((abs(a - b), name) for name, values in first.items() for a, b in zip(values, second[name], strict=True))
print(f"largest gradient {largest:.3g}, largest difference {difference / largest:.2g} of it, in {name}")
if not (largest > 0 and difference <= bound * largest):
    sys.exit(f"expected a difference of at most {bound} of the largest gradient")
