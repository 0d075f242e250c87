#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers on the finest scale: some against none (Nawrot et al. 2021, table 6 and appendix).

Text: 2@1 4@4 2@1 against 0@1 8@4 0@1. Table 6 has 2@1 8@4 2@1 ahead of 0@1 8@4 0@1; here both have the same operations.
Copying: chunks L#L of a random letter, shortened by 3, on the grid of the paper's table 9. A start token comes first, so each group is a
whole chunk, and the row that predicts a chunk's last letter holds the "#". Images of 96 bytes have such a token, so a row of 32 chunks is
read as one. The paper says that a model without fine layers predicts no more than half of all symbols, and one with them two of three. A
symbol counts as predicted where it has a probability above one half.

Criterion of copying, fixed before any run: 0@1 predicts at most 0.5 of the symbols, 1@1 at least 0.62, for every seed. Losses are
reported beside these limits: a row of 0@1 after a letter sees that letter and the last chunk. Where its logits are a sum of the two, "#" and
the 16 letters have one half together each, and the best loss is (1 + 5 + 4) / 3 = 3.333 bits a symbol; with fine layers it is 4 / 3 = 1.333.
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


def copies(chunks, seed):
    draw = random.Random(seed)
    letters = [draw.choice("ABCDEFGHIJKLMNOP") for _ in range(chunks)]
    return "".join(f"{letter}#{letter}" for letter in letters)


def copying():
    folder = lab.BUILD / "experiments/copying"
    folder.mkdir(parents=True, exist_ok=True)
    training = folder / "training.rgb"
    training.write_text(copies(102_400, 1))
    # Losses of single symbols are written of texts alone: a file a row, with the start token as its first byte.
    held_out = [folder / f"held-out-{row}" for row in range(32)]
    for row, path in enumerate(held_out):
        path.write_text("\0" + copies(32, 2 + row))
    results = {}
    for name, hierarchy in (("none", "0@1 4@3 0@1"), ("fine", "1@1 2@3 1@1")):
        spec = lab.base([{"op": "embedding"}, {"op": "hourglass", "hierarchy": hierarchy}, {"op": "head"}],
                        context=96, batch=16, width=64, defaults={"rotary": True})
        artifact, steps, _ = lab.compile_arm(folder / name, spec, 1.2e12)
        for seed in lab.SEEDS:
            out, _ = lab.train(folder / name, artifact, steps, seed, training, "--images", "4x8x3")
            path = folder / "losses.npy"
            lab.run("eval", artifact, "--weights", out, "--data", *held_out, "--raw", "--per-token", path, "--force")
            losses = numpy.load(path)
            share, bits = float((losses < numpy.log(2)).mean()), float(losses.mean() / numpy.log(2))
            results.setdefault(name, []).append({"predicted": share, "bits_per_symbol": bits})
            print(f"copying: {name}, seed {seed}: {share:.3f} predicted, {bits:.3f} bits a symbol after {steps} steps", flush=True)
    held = (max(run["predicted"] for run in results["none"]) <= 0.5 and min(run["predicted"] for run in results["fine"]) >= 0.62)
    print(f"copying: the paper's bounds {'hold' if held else 'do not hold'}")
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    lab.report_time("copying")


if __name__ == "__main__":
    copying()
    text()
