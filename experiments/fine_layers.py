#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers on the finest scale: some against none (Nawrot et al. 2021, table 6 and appendix).

Text: 2@1 4@4 2@1 against 0@1 8@4 0@1. Table 6 has 2@1 8@4 2@1 ahead of 0@1 8@4 0@1; here both have the same operations.
Copying: chunks L#L of a random letter. Without fine layers, shortened by 3, the paper says that no more than half of all symbols can be
predicted, and with them two of three. A symbol counts as predicted where it has a probability above one half.
Criterion of copying, fixed before any run: 0@1 predicts at most 0.52 of the symbols, 1@1 at least 0.62, for every seed.
"""
import json
import random

import numpy

import lab


def text():
    def spec(hierarchy):
        return lab.base([{"op": "embedding"}, {"op": "hourglass", "hierarchy": hierarchy}, {"op": "head"}], defaults={"rotary": True})

    lab.compare("fine-layers", {"fine": spec("2@1 4@4 2@1"), "none": spec("0@1 8@4 0@1")},
                [("fine", "none", "fine layers help")])


def write_copies(path, chunks, seed):
    draw = random.Random(seed)
    letters = [draw.choice("ABCDEFGHIJKLMNOP") for _ in range(chunks)]
    path.write_text("".join(f"{letter}#{letter}" for letter in letters))


def copying():
    folder = lab.BUILD / "experiments/copying"
    folder.mkdir(parents=True, exist_ok=True)
    training, held_out = folder / "training.txt", folder / "held-out.txt"
    write_copies(training, 100_000, 1)
    write_copies(held_out, 1_000, 2)
    results = {}
    for name, hierarchy in (("none", "0@1 4@3 0@1"), ("fine", "1@1 2@3 1@1")):
        spec = lab.base([{"op": "embedding"}, {"op": "hourglass", "hierarchy": hierarchy}, {"op": "head"}],
                        context=96, batch=16, width=64, defaults={"rotary": True})
        artifact, steps, _ = lab.compile_arm(folder / name, spec, 1.2e12)
        for seed in lab.SEEDS:
            out, _ = lab.train(folder / name, artifact, steps, seed, training)
            losses = folder / "losses.npy"
            # Windows begin with a chunk, as in the paper.
            lab.run("eval", artifact, "--weights", out, "--data", held_out, "--window", 96, "--stride", 96, "--per-token", losses)
            share = float((numpy.load(losses) < numpy.log(2)).mean())
            results.setdefault(name, []).append(share)
            print(f"copying: {name}, seed {seed}: {share:.3f} predicted after {steps} steps", flush=True)
    held = max(results["none"]) <= 0.52 and min(results["fine"]) >= 0.62
    print(f"copying: the paper's bounds {'hold' if held else 'do not hold'}")
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    copying()
    text()
