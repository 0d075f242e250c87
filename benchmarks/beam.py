#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A step of a beam search of one text against a step of as many greedy texts, measured in turns in one run on the CPU, for
models/small/hourglass.json and models/small/umst.json with new weights that a few steps have trained. Wants an idle machine.

A step's time is the difference of two runs of `sluice generate`, of 16 and of 112 tokens, divided by 96. No text ends before: the hourglass
writes without an end, and lines have --min-tokens, so their greedy texts are beams of one hypothesis.

Usage: benchmarks/beam.py [--width B] [--rounds N] [--threads N]
Prints, for each model, the median milliseconds of a step of each kind and their ratio, with its range over the rounds. Two minutes.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare import ROOT, choose_cpus, install, say

SHORT, LONG = 16, 112
TRAINED = 2  # steps


def run(arguments, *words):
    return subprocess.run(list(map(str, (arguments.sluice, *words))), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout


def prepare(arguments, folder, name, data, threads):
    """Compiles and trains a model; the beginning of `generate`."""
    artifact, out = folder / f"{name}.sla", folder / name
    run(arguments, "compile", ROOT / f"models/small/{name}.json", "-o", artifact)
    run(arguments, "train", artifact, *data, "--set", "training.schedule.warmup=4", "--out", out, "--steps", TRAINED, "--threads", threads)
    return "generate", artifact, "--weights", out, "--threads", threads, "--json"


def measure(arguments, command, flags, texts):
    """Seconds of a step."""
    seconds = []
    for tokens in (SHORT, LONG):
        words = [flag.format(before=tokens - 1) for flag in map(str, flags)]
        start = time.perf_counter()
        found = [json.loads(line) for line in run(arguments, *command, *words, "--tokens", tokens).splitlines()]
        seconds.append(time.perf_counter() - start)
        written = [each["tokens"] for each in found]
        if written != [tokens] * texts:
            raise SystemExit(f"expected {texts} texts of {tokens} tokens, found {written}")
    return (seconds[1] - seconds[0]) / (LONG - SHORT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=4, help="hypotheses (%(default)s)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0, help="default: one a core of the fastest kind")
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers", help="where Python's packages are installed")
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/bin/sluice")
    arguments = parser.parse_args()
    if importlib.util.find_spec("numpy") is None:  # the lines need it
        python = install(arguments.peers)
        os.execv(python, [str(python), *sys.argv])
    sys.path.insert(0, str(ROOT / "benchmarks/peers"))
    from made_lines import MadeLines
    cpus = choose_cpus(arguments.threads)
    os.sched_setaffinity(0, cpus)
    with tempfile.TemporaryDirectory() as name:
        folder, threads, width = Path(name), len(cpus), arguments.width
        say("lines, compiling and training")
        lines = MadeLines(ROOT, folder, arguments.sluice, 1.3, 64, 128)
        pairs = ["--input", f"source={lines.source}", "--input", f"links={lines.links}", "--data", lines.target, "--tokenizer", lines.tokenizer]
        sides = {}
        for count in (1, width):
            sides[count] = []
            for part, path in (("source", lines.source), ("links", lines.links)):
                some = folder / f"{part}-{count}"
                some.write_text("".join(path.read_text().splitlines(keepends=True)[:count]))
                sides[count] += ["--input", f"{part}={some}"]
        beam = ["--beam", width]
        greedy, longer = ["--temperature", 0], ["--min-tokens", "{before}"]
        models = {"hourglass": (["--data", lines.text], beam, [*greedy, "--num", width]),
                  "umst": (pairs, [*beam, *sides[1], *longer], ["--beam", 1, *sides[width], *longer])}
        for model, (data, ours, others) in models.items():
            command = prepare(arguments, folder, model, data, threads)
            rounds = []
            for number in range(arguments.rounds):
                say(f"{model}: round {number + 1} of {arguments.rounds}")
                rounds.append((measure(arguments, command, ours, 1), measure(arguments, command, others, width)))
            ratios = [one / other for one, other in rounds]
            medians = [1000 * statistics.median(column) for column in zip(*rounds)]
            print(f"{model}, {threads} thread(s): a step of beam {width} {medians[0]:.2f} ms, of {width} greedy texts {medians[1]:.2f} ms, ratio "
                  f"{medians[0] / medians[1]:.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
