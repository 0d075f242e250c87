#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training by P processes of one thread compared with one process of P threads, on one machine.

Both run in turn, so that a change of the machine's speed meets both. Prints the median tokens a second of each, without the first step,
and the ratio of processes to threads with its quartiles over the rounds. With --shard also of processes that shard the optimizer's state, and
the peak of the resident memory of rank 0, and of the other ranks, with and without shards.

Usage: benchmarks/processes.py ARTIFACT --data FILE [--processes 2] [--steps 10] [--rounds 5] [--shard]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SLUICE = Path(__file__).resolve().parent.parent / "build/bin/sluice"


# Runs a command and writes its peak of resident memory, in KiB, to a file with its rank.
WRAPPER = """import os, resource, subprocess, sys
status = subprocess.run(sys.argv[2:]).returncode
with open(f"{sys.argv[1]}/{os.environ.get('OMPI_COMM_WORLD_RANK', '0')}.peak", "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)"""


class Measured:
    """Tokens a second of each round, and peaks of memory in KiB: of rank 0 and of the other rank with most."""

    def __init__(self):
        self.speeds, self.first, self.others = [], 0, 0

    def add(self, launcher, options, threads, flags=()):
        """Runs one training."""
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            command = [*launcher, sys.executable, "-c", WRAPPER, folder, str(SLUICE), "train", options.artifact, "--data", options.data,
                       "--steps", str(options.steps), "--log-every", "1", "--threads", str(threads), "--out", str(run), *flags]
            environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            self.speeds.append(statistics.median(line["tokens_per_s"] for line in lines[1:]))
            peaks = {int(path.stem): int(path.read_text()) for path in Path(folder).glob("*.peak")}
            self.first = max(self.first, peaks.pop(0))
            self.others = max([self.others, *peaks.values()])

    def describe_memory(self):
        return f"rank 0 {self.first / 1024:.1f} MiB, others {self.others / 1024:.1f} MiB"


def compare(own, other, options, what):
    """Prints the ratio of the rounds."""
    ratios = sorted(mine / theirs for mine, theirs in zip(own.speeds, other.speeds))
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    print(f"{what} {statistics.median(ratios):.3f}, quartiles {low:.3f} to {high:.3f}, {options.rounds} rounds of {options.steps} steps")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact")
    parser.add_argument("--data", required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shard", action="store_true")
    options = parser.parse_args()
    count = options.processes
    launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(count)]
    threads, processes, shards = Measured(), Measured(), Measured()
    for _ in range(options.rounds):
        threads.add([], options, count)
        processes.add(launcher, options, 1)
        if options.shard:
            shards.add(launcher, options, 1, ["--shard", "optimizer"])
    print(f"one process of {count} threads: {statistics.median(threads.speeds):.0f} tokens/s")
    print(f"{count} processes of one thread: {statistics.median(processes.speeds):.0f} tokens/s")
    compare(processes, threads, options, "ratio")
    if options.shard:
        print(f"{count} processes with shards: {statistics.median(shards.speeds):.0f} tokens/s")
        compare(shards, processes, options, "ratio to processes without")
        print(f"peaks without shards: {processes.describe_memory()}\npeaks with shards: {shards.describe_memory()}")


if __name__ == "__main__":
    main()
