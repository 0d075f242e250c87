#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps of the implicit embedding matrix (Mujika 2023) on the CPU, in one run: phase 1, a contrast of chunks, against the
end-to-end model, in turns. Each model is timed on the same bytes, and its operations are the ledger's of these bytes.

Usage: benchmarks/phases.py [--texts N] [--context N] [--decoder N] [--data FILE] [--threads N] [--rounds N] [--steps N]   (--help)
Prints the median step and the operations of each model, and how much longer phase 1 takes than the operations say:
(time of phase 1 / time end to end) / (operations of phase 1 / operations end to end), at most 1.15. Writes the same to
build/benchmarks/phases.json.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import ROOT, choose_cpus, name_processor, say

MODELS = {"phase 1": "haed-text-iem-1", "end to end": "haed-text-iem-baseline"}
BAR = 1.15


def make_spec(arguments, model):
    """The paper's spec with fewer or shorter texts; phase 1 reads three more batches of candidates."""
    spec = json.loads((ROOT / f"models/papers/{MODELS[model]}.json").read_text())
    spec["context"] = arguments.context or spec["context"]
    extra = spec["stages"][-1].get("extra_batches", 0)
    spec["batch"] = (arguments.texts or spec["batch"] // (extra + 1)) * (extra + 1)
    for stage in spec["stages"]:
        if stage["op"] == "recurrence":
            stage["width"] = arguments.decoder or stage["width"]
    return spec


class Program:
    def __init__(self, arguments, folder, model, threads):
        self.arguments, self.threads, self.rounds = arguments, str(threads), []
        self.name = MODELS[model]
        spec, self.artifact = folder / f"{self.name}.json", folder / f"{self.name}.sla"
        spec.write_text(json.dumps(make_spec(arguments, model)))
        self.call("compile", spec, "-o", self.artifact)

    def call(self, *command):
        return subprocess.run([self.arguments.sluice, *command], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout

    def bench(self):
        text = self.call("bench", self.artifact, "--data", self.arguments.data, "--steps", str(self.arguments.steps), "--threads", self.threads,
                         "--kernels", "--json")
        self.rounds.append(json.loads(text))

    def kernels(self):
        """Milliseconds of each kernel in a step, the longest first: medians of the rounds."""
        found = {}
        for each in self.rounds:
            for kernel in each["kernels"]:
                found.setdefault(kernel["name"], []).append(kernel["ms"])
        return dict(sorted(((name, statistics.median(values)) for name, values in found.items()), key=lambda item: -item[1]))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=0, help="texts with losses; default: the paper's 32")
    parser.add_argument("--context", type=int, default=0, help="default: the paper's")
    parser.add_argument("--decoder", type=int, default=0, help="width of the decoder; default: the paper's 2000")
    parser.add_argument("--data", type=Path, default=ROOT / "docs/spec.md", help="text to train on; default: docs/spec.md")
    parser.add_argument("--threads", type=int, default=0, help="default: one a core of the fastest kind")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1, help="steps of a round")
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/bin/sluice")
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmarks/phases.json")
    return parser.parse_args()


def main():
    arguments = parse()
    if not os.access(arguments.sluice, os.X_OK):
        raise SystemExit(f"expected {arguments.sluice}, found none; run scripts/build.sh --program")
    cpus = choose_cpus(arguments.threads)
    os.sched_setaffinity(0, cpus)
    with tempfile.TemporaryDirectory() as name:
        programs = {model: Program(arguments, Path(name), model, len(cpus)) for model in MODELS}
        for number in range(arguments.rounds):
            say(f"round {number + 1} of {arguments.rounds}")
            for program in programs.values():
                program.bench()
    first, whole = programs.values()
    times = [a["step_ms"] / b["step_ms"] for a, b in zip(first.rounds, whole.rounds)]
    operations = statistics.median(a["step_gflop"] / b["step_gflop"] for a, b in zip(first.rounds, whole.rounds))
    excess = [time / operations for time in times]
    result = {"cpu": name_processor(), "threads": len(cpus), "texts": arguments.texts, "context": arguments.context, "decoder": arguments.decoder,
              "models": {model: {"step_ms": statistics.median(each["step_ms"] for each in program.rounds),
                                 "step_gflop": statistics.median(each["step_gflop"] for each in program.rounds), "kernels": program.kernels()}
                         for model, program in programs.items()},
              "times": statistics.median(times), "operations": operations, "excess": [statistics.median(excess), min(excess), max(excess)], "bar": BAR}
    print(f"{len(cpus)} thread(s) on {result['cpu']}")
    for model, found in result["models"].items():
        print(f"{model:10} step {found['step_ms']:.0f} ms, {found['step_gflop']:.1f} Gflop, {found['step_gflop'] / found['step_ms'] * 1000:.0f} Gflop/s")
    print("phase 1 takes {:.3f} of a step end to end, by operations {:.3f}: {:.2f} times as long ({:.2f}-{:.2f}), at most {}".format(
        result["times"], operations, *result["excess"], BAR))
    for model, found in result["models"].items():
        for kernel, milliseconds in list(found["kernels"].items())[:8]:
            print(f"{model:10} {kernel:60} {milliseconds:.1f} ms")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
