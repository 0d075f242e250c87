#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A step of a beam search of one text against a step of as many greedy texts, measured in turns on the CPU, for
models/small/hourglass.json and models/small/umst.json with new weights that a few steps have trained. Wants an idle machine.

Every step has B rows: the artifact generates B rows at once, so a process writes TEXTS beams of B hypotheses one after another, or TEXTS
times B greedy texts, B at a time, of the same prompts or lines. All prompts, and all lines, have one length. A step's time is the difference
of two processes, whose texts have 16 and 112 tokens, divided by 96 TEXTS: start-up, encoder and prompts cancel. No text ends before: the hourglass
writes without an end, and lines have --min-tokens, so their greedy texts are beams of one hypothesis.

A round runs the four processes in an order that is drawn, so that drift of the clock favors neither. The first round is not counted.

Usage: benchmarks/beam.py [--width B] [--texts T] [--rounds N] [--threads N]
Prints, for each model, the median of a step of each kind and of their ratio by round, each with its quartiles. Three minutes.
"""
import argparse
import importlib.util
import json
import os
import random
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
    run(arguments, "compile", ROOT / f"models/small/{name}.json", "-o", artifact, "--generation-rows", arguments.width)
    run(arguments, "train", artifact, *data, "--set", "training.schedule.warmup=4", "--out", out, "--steps", TRAINED, "--threads", threads)
    return "generate", artifact, "--weights", out, "--threads", threads, "--json"


def run_texts(arguments, command, flags, texts, tokens):
    """Seconds of a process that writes so many texts of so many tokens."""
    words = [flag.format(before=tokens - 1) for flag in map(str, flags)]
    start = time.perf_counter()
    lines = run(arguments, *command, *words, "--tokens", tokens).splitlines()
    seconds = time.perf_counter() - start
    written = [json.loads(line)["tokens"] for line in lines]
    if written != [tokens] * texts:
        raise SystemExit(f"expected {texts} texts of {tokens} tokens, found {written}")
    return seconds


def measure_round(arguments, draw, command, kinds):
    """Seconds of a step of each kind: flags and a number of texts."""
    runs = [(kind, tokens) for kind in range(len(kinds)) for tokens in (SHORT, LONG)]
    draw.shuffle(runs)
    seconds = {(kind, tokens): run_texts(arguments, command, *kinds[kind], tokens) for kind, tokens in runs}
    return [(seconds[kind, LONG] - seconds[kind, SHORT]) / (LONG - SHORT) / arguments.texts for kind in range(len(kinds))]


def describe(values, scale=1):
    """The median, and the quartiles in brackets."""
    low, middle, high = (scale * value for value in statistics.quantiles(values, n=4, method="inclusive"))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=4, help="hypotheses (%(default)s)")
    parser.add_argument("--texts", type=int, default=4, help="texts that a process writes one after another (%(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="%(default)s, at least 2")
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
        folder, threads = Path(name), len(cpus)
        width, texts = arguments.width, arguments.texts
        say("lines, compiling and training")
        lines = MadeLines(ROOT, folder, arguments.sluice, 1.3, 64, 128)
        pairs = ["--input", f"source={lines.source}", "--input", f"links={lines.links}", "--data", lines.target, "--tokenizer", lines.tokenizer]
        sides = {}
        for each in (1, width):  # rows of a line
            sides[each] = []
            for part, path in (("source", lines.source), ("links", lines.links)):
                some = folder / f"{part}-{each}"
                some.write_text("".join(each * line for line in path.read_text().splitlines(keepends=True)[:texts]))
                sides[each] += ["--input", f"{part}={some}"]
        prompts = folder / "prompts"
        prompts.write_text("".join(f"{chr(ord('a') + number % 26)} " + "\n" for number in range(texts)))
        prompt, longer = ["--prompt-file", prompts], ["--min-tokens", "{before}"]
        beam, greedy = ["--beam", width], ["--temperature", 0, "--num", width]
        models = {"hourglass": (["--data", lines.text], [*prompt, *beam], [*prompt, *greedy]),
                  "umst": (pairs, [*beam, *sides[1], *longer], ["--beam", 1, *sides[width], *longer])}
        for model, (data, ours, others) in models.items():
            command = prepare(arguments, folder, model, data, threads)
            kinds = [(ours, texts), (others, texts * width)]
            draw, rounds = random.Random(1), []
            for number in range(arguments.rounds + 1):
                say(f"{model}: round {number} of {arguments.rounds}")
                rounds.append(measure_round(arguments, draw, command, kinds))
            beams, plain = zip(*rounds[1:])
            ratios = [one / other for one, other in zip(beams, plain)]
            print(f"{model}, {threads} thread(s), {arguments.rounds} rounds of {texts * (LONG - SHORT)} steps of {width} rows: beam "
                  f"{describe(beams, 1000)} ms, greedy {describe(plain, 1000)} ms, ratio {describe(ratios)}", flush=True)


if __name__ == "__main__":
    main()
