#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batches of lines by length, computed from the files alone as docs/running.md defines them, and the padding among their rows.

A kernel computes the rows of each line in whole tiles: row p of line r of a batch is row r * capacity + p of a launch, tiles begin at
multiples of their size, and a tile without a row of a line is left out. The other rows of a computed tile are padding. On the CPU,
products with weights have tiles of 6 rows with AVX2 and of 12 with AVX-512, and passes over rows have tiles of one.

Usage: benchmarks/line_batches.py ARTIFACT --data FILE --input NAME=FILE... [--seed N] [--tiles N ...] [--metrics FILE]
Prints a table of the first epoch. Inputs have no "end". --metrics compares its batches with the rows of a run's metrics.jsonl that has
every step, each of one batch.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks/peers"))
from order import MASK, mix, permute  # noqa: E402

BATCHES_OF_WINDOW = 64


def read_lengths(path, capacity, ends):
    """The tokens of each line of a file of bytes, at most `capacity`; with `ends`, its end is one."""
    lines = Path(path).read_bytes().split(b"\n")
    lines = lines if lines[-1] else lines[:-1]
    return [min(len(line) + ends, capacity) for line in lines]


def round_down(length):
    dropped = max(0, length.bit_length() - 4)
    return length >> dropped << dropped


def find_shape(shapes, lengths, rows):
    """The smallest shape that holds `rows` lines, on each axis of at most these lengths."""
    for shape in reversed(shapes):
        if rows <= shape["rows"] and all(length <= capacity for length, capacity in zip(lengths, shape["capacities"])):
            return shape
    return None


def cut_window(shapes, axes, lines, key):
    """The batches of a window's lines: pairs of a shape and lines."""
    length = [max(axis[line] for axis in axes) for _, line in lines]
    order = sorted(range(len(lines)), key=lambda i: (round_down(length[i]), *(axis[lines[i][1]] for axis in axes), lines[i][0]))
    batches, longest = [], None
    for _, line in (lines[i] for i in order):
        own = [axis[line] for axis in axes]
        joined = [max(pair) for pair in zip(longest, own)] if longest else own
        shape = find_shape(shapes, joined, len(batches[-1][1]) + 1) if batches else None
        if shape:
            batches[-1] = shape, batches[-1][1] + [line]
        else:
            joined = own
            batches.append((find_shape(shapes, own, 1), [line]))
        longest = joined
    return [batches[permute(j, len(batches), key)] for j in range(len(batches))]


def cut_epoch(shapes, axes, tokens, seed, epoch=0):
    """The batches of an epoch, in their order."""
    count, key = len(axes[0]), mix(seed ^ mix(epoch))
    index, window = 0, 0
    while index < count:
        lines, total = [], 0
        while index < count and total < BATCHES_OF_WINDOW * tokens:
            lines.append((index, permute(index, count, key)))
            total += max(axis[lines[-1][1]] for axis in axes)
            index += 1
        yield from cut_window(shapes, axes, lines, mix(key ^ mix(window + 1 & MASK)))
        window += 1


def count_computed(batches, lengths, axis, tile):
    """The rows of all computed tiles of an axis."""
    rows = 0
    for shape, lines in batches:
        capacity, tiles = shape["capacities"][axis], set()
        for row, line in enumerate(lines):
            first = row * capacity
            if lengths[line] > 0:
                tiles.update(range(first // tile, (first + lengths[line] - 1) // tile + 1))
        rows += len(tiles) * tile
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--input", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiles", type=int, nargs="+", default=[1, 6, 12, 32, 64])
    parser.add_argument("--metrics", type=Path)
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/bin/sluice")
    arguments = parser.parse_args()
    facts = json.loads(subprocess.run([arguments.sluice, "inspect", arguments.artifact, "--json"], check=True,
                                      stdout=subprocess.PIPE, text=True).stdout)
    if "shapes" not in facts:
        parser.error(f"{arguments.artifact}: expected a spec with \"batch_tokens\", found none")
    files = dict(text.split("=", 1) for text in arguments.input)
    names = sorted(facts["shapes"][0]["inputs"])
    shapes = [shape | {"capacities": [shape["context"], *(shape["inputs"][name] for name in names)]} for shape in facts["shapes"]]
    axes = [read_lengths(path, capacity, ends) for path, capacity, ends in
            zip([arguments.data, *(files[name] for name in names)], shapes[0]["capacities"], [1] + [0] * len(names))]
    batches = list(cut_epoch(shapes, axes, facts["batch_tokens"], arguments.seed))
    sums = [{name: sum(axis[line] for line in lines) for name, axis in zip(["tokens", *names], axes)} for _, lines in batches]
    if arguments.metrics:
        steps = [json.loads(line) for line in arguments.metrics.read_text().splitlines()]
        for number, (step, batch) in enumerate(zip(steps, sums), 1):
            found = {name: rows["computed"] for name, rows in step["rows"].items()}
            if found != batch:
                sys.exit(f"step {number}: expected rows {batch}, found {found}")
        print(f"{min(len(steps), len(batches))} steps have the rows of their batches")
    print(f"{len(axes[0])} lines in {len(batches)} batches")
    print("| axis | tokens | padded to the longest line |", *(f"tiles of {tile} |" for tile in arguments.tiles))
    print("|---|---|---|" + "---|" * len(arguments.tiles))
    for axis, name in enumerate(["tokens", *names]):
        tokens = sum(axes[axis])
        padded = [sum(len(lines) * max(axes[axis][line] for line in lines) for _, lines in batches)]
        padded += [count_computed(batches, axes[axis], axis, tile) for tile in arguments.tiles]
        print(f"| {name} | {tokens} |", *(f"{100 * (1 - tokens / rows):.1f}% |" for rows in padded))


if __name__ == "__main__":
    main()
