#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Time and memory of one transformer layer by its scale and the length of the text: figure 2 of Subramanian et al. (2020), whose
layer has 768 columns, 12 heads of 64 and a hidden width of 3072, post-norm.

A layer's cost is half of what two more layers add to a model of two. Time is a processor's, user and system together, of one
thread: of a forward pass, which `sluice eval` makes. So other work on the machine disturbs it little, but for
caches and clocks. A median stands for all turns. Memory is what the temporaries of a training step grow by where they
are most, as `sluice inspect --memory` says: what a layer keeps for its backward pass.

Usage: benchmarks/layer_by_scale.py [--lengths N ...] [--scales K ...] [--turns N] [--repeats N] [--sluice PATH] [--json FILE]
Prints a table, one text a batch.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FEW, MANY = 2, 4  # layers


def spec_of(scale, length, layers):
    down, up = [], []
    if scale > 1:
        down = [{"op": "shift", "by": scale - 1}, {"op": "shorten", "factor": scale}]
        up = [{"op": "upsample", "factor": scale}]
    return {"sluice": 1, "vocabulary": 256, "context": length, "batch": 1, "width": 768,
            "defaults": {"heads": 12, "feed_forward": 3072, "placement": "post"},
            "stages": [{"op": "embedding"}, *down, {"op": "layers", "count": layers}, *up, {"op": "head"}]}


def run(command):
    """Standard output, and seconds of processor time."""
    before = os.times()
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr.strip()}")
    after = os.times()
    return result.stdout, after.children_user + after.children_system - before.children_user - before.children_system


class Model:
    """An artifact and its first weights."""

    def __init__(self, sluice, folder, scale, length, layers):
        self.sluice, self.length = sluice, length
        stem = folder / f"{scale}-{length}-{layers}"
        spec, self.artifact, self.weights = stem.with_suffix(".json"), stem.with_suffix(".sla"), stem.with_suffix(".run")
        spec.write_text(json.dumps(spec_of(scale, length, layers)))
        run([sluice, "compile", spec, "-o", self.artifact, "--target", "cpu-avx512", "--generation-rows", 1])
        run([sluice, "train", self.artifact, "--steps", 0, "--out", self.weights])

    def forward(self, text, windows):
        """Seconds of so many windows."""
        tokens = windows * self.length
        return run([self.sluice, "eval", self.artifact, "-w", self.weights, "--data", text, "--stride", self.length,
                    "--tokens", tokens, "-j", 1])[1]

    def temporaries(self):
        """Bytes of what a training step makes, where it is most."""
        contents = json.loads(run([self.sluice, "inspect", self.artifact, "--memory", "--json"])[0])["memory"]["contents"]
        return sum(part["bytes"] for part in contents if part["kind"] in ("kept", "recomputed", "gradients", "transient", "gaps"))


def seconds_of(measure, model, few, many, turns):
    """Seconds each of `many` - `few` repetitions: what a program needs to begin with is not among them."""
    return statistics.median((measure(model, many) - measure(model, few)) / (many - few) for _ in range(turns))


def measure(sluice, folder, text, scale, length, turns, repeats):
    small, large = (Model(sluice, folder, scale, length, layers) for layers in (FEW, MANY))
    more = repeats or max(2, 2048 * scale // length)  # a coarse layer is a small share of its model
    row = {"scale": scale, "length": length, "kept": (large.temporaries() - small.temporaries()) / (MANY - FEW)}
    seconds = [seconds_of(lambda model, n: model.forward(text, n), model, 2, 2 + more, turns) for model in (small, large)]
    row["forward"] = (seconds[1] - seconds[0]) / (MANY - FEW)
    return row


def main():
    parser = argparse.ArgumentParser(description="Time and memory of one layer by scale and length.")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--scales", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=0, help="texts of a turn; 0: more where the layer is coarser")
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/bin/sluice")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "text"
        text.write_bytes(random.Random(1).randbytes(1 << 20))
        print("| length | scale | forward, ms | kept, MB |\n|---|---|---|---|")
        for length in options.lengths:
            for scale in options.scales:
                row = measure(options.sluice, folder, text, scale, length, options.turns, options.repeats)
                rows.append(row)
                print(f"| {length} | {scale} | {row['forward'] * 1e3:.2f} | {row['kept'] / 1e6:.2f} |",
                      flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
