#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the gradient of texts with a "Z" overflow, and not their loss, in a model of an embedding, a projection and a head.

Usage: large_weights.py WEIGHTS OUT FACTOR. The embedding of "Z" begins with 1e30, and the projection multiplies that by 1e-30; its
gradient has the factor 1e30. The head's weights are multiplied by FACTOR."""
import array
import json
import struct
import sys

with open(sys.argv[1], "rb") as file:
    size, = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(size))
    data = bytearray(file.read())
header.pop("__metadata__")  # has checksums


def edit(name, change):
    begin, end = header[name]["data_offsets"]
    values = array.array("f", data[begin:end])
    for index in range(len(values)):
        values[index] = change(index // header[name]["shape"][1], index % header[name]["shape"][1], values[index])
    data[begin:end] = values.tobytes()


edit("stages.0.token.weight", lambda row, column, value: 1e30 if (row, column) == (ord("Z"), 0) else value)
edit("stages.1.weight", lambda row, column, value: 1e-30 if column == 0 else value)
edit("stages.2.weight", lambda row, column, value: value * float(sys.argv[3]))
text = json.dumps(header).encode()
with open(sys.argv[2], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
