#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training by P processes of one thread compared with one process of P threads, on one machine.

Both run in turn, so that a change of the machine's speed meets both. Prints the median tokens a second of each, without the first step,
and the ratio of processes to threads with its quartiles over the rounds.

Usage: benchmarks/processes.py ARTIFACT --data FILE [--processes 2] [--steps 10] [--rounds 5]
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

SLUICE = Path(__file__).resolve().parent.parent / "build/bin/sluice"


def measure(launcher, options, threads):
    """The median tokens a second of one training."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [*launcher, str(SLUICE), "train", options.artifact, "--data", options.data, "--steps", str(options.steps), "--log-every", "1",
                   "--threads", str(threads), "--out", str(run)]
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return statistics.median(line["tokens_per_s"] for line in lines[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact")
    parser.add_argument("--data", required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(options.processes)]
    threads, processes = [], []
    for _ in range(options.rounds):
        threads.append(measure([], options, options.processes))
        processes.append(measure(launcher, options, 1))
    ratios = sorted(own / other for own, other in zip(processes, threads))
    count = options.processes
    print(f"one process of {count} threads: {statistics.median(threads):.0f} tokens/s")
    print(f"{count} processes of one thread: {statistics.median(processes):.0f} tokens/s")
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    print(f"ratio {statistics.median(ratios):.3f}, quartiles {low:.3f} to {high:.3f}, {options.rounds} rounds of {options.steps} steps")


if __name__ == "__main__":
    main()
