#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Distributions of a teacher, for an input of the role target: the softmax of what `sluice logits` wrote."""

import argparse
import array
import math

from boundary_labels import read_rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logits", help="array of sluice logits, a row for each byte")
    parser.add_argument("out", help="the .npy file to write")
    parser.add_argument("--temperature", type=float, default=1, help="divides logits; above 1 is smoother (1)")
    flags = parser.parse_args()
    if not flags.temperature > 0:
        parser.error(f"--temperature: expected a number above 0, found {flags.temperature}")
    count = 0
    with open(flags.out, "wb") as file:
        file.write(bytes(128))  # the header, once the shape is known
        for row in read_rows(flags.logits):
            top = max(row)
            shares = [math.exp((x - top) / flags.temperature) for x in row]
            total, width = sum(shares), len(row)
            array.array("f", [share / total for share in shares]).tofile(file)
            count += 1
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {width}), }}".ljust(117) + "\n"
        file.seek(0)
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())


if __name__ == "__main__":
    main()
