#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the prediction of sluice plan-scale with training on several processes of one machine.

Usage: benchmarks/plan_scale.py SPEC --data TEXT [--processes P] [--steps N] [--rounds N] [--sluice PROGRAM]
Needs mpicc and mpirun, and a processor per process that does nothing else. First it measures one process with one thread, on
the rows of a step and on a P-th of them, and messages between two processes (ping-pong.c), and prints the prediction for P
processes. Then it measures P processes, in turns with one process. Times are medians of steps; the first two of a run are
left out. Exit status 1: the prediction is more than 15% from the measured time.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 0.15


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


class Machine:
    def __init__(self, arguments, folder):
        self.folder, self.sluice, self.data, self.steps = Path(folder), arguments.sluice, arguments.data, arguments.steps
        self.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.ping = self.folder / "ping-pong"
        run(["mpicc", "-O2", ROOT / "benchmarks/ping-pong.c", "-o", self.ping])

    def compile(self, spec, name, settings):
        artifact = self.folder / f"{name}.sla"
        run([self.sluice, "compile", spec, "-o", artifact, *settings])
        facts = json.loads(run([self.sluice, "inspect", artifact, "--json"]))
        return artifact, facts["batch"], facts["batch"] * facts["context"]

    def time_steps(self, artifact, tokens, processes=1):
        """Seconds of each step, of so many tokens, but the first two."""
        out = self.folder / "run"
        shutil.rmtree(out, ignore_errors=True)
        launcher = ["mpirun", "-n", processes] if processes > 1 else []
        run([*launcher, self.sluice, "train", artifact, "--data", self.data, "--out", out, "--steps", self.steps, "--threads", 1],
            env=self.environment)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        return [tokens / line["tokens_per_s"] for line in lines[2:]]

    def measure_messages(self):
        """Bytes a second and seconds."""
        words = run(["mpirun", "-n", 2, self.ping], env=self.environment).split()
        return float(words[1].removesuffix("GB/s")) * 1e9, float(words[3].removesuffix("us")) * 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("spec")
    parser.add_argument("--data", required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/bin/sluice")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine, processes = Machine(arguments, folder), arguments.processes
        whole, rows, tokens = machine.compile(arguments.spec, "whole", ["--set", "training.accumulate=1"])
        if rows % processes != 0:
            sys.exit(f"expected --processes that divide the batch of {rows} rows, found {processes}")
        part, _, fewer = machine.compile(
            arguments.spec, "part", ["--set", "training.accumulate=1", "--set", f"batch={rows // processes}"])

        alone, divided, messages = [], [], []
        for _ in range(arguments.rounds):
            alone += machine.time_steps(whole, tokens)
            divided += machine.time_steps(part, fewer)
            messages.append(machine.measure_messages())
        peak = json.loads(run([arguments.sluice.resolve().parent / "sluice-peak", "--threads", 1]))
        bandwidth, latency = (statistics.median(each) for each in zip(*messages))
        flags = ["--processes", f"1,{processes}", "--bandwidth", f"{bandwidth}B/s", "--latency", f"{latency}s",
                 "--flops", peak["gflops"] * 1e9, "--memory-bandwidth", f"{peak['gbytes_per_s']}GB/s",
                 "--step", f"{rows}={statistics.median(alone)}s", "--step", f"{rows // processes}={statistics.median(divided)}s"]
        print("sluice plan-scale", whole.name, *flags)
        predicted = json.loads(run([machine.sluice, "plan-scale", whole, *flags, "--json"]))["steps"][1]
        print(f"predicted for {processes} processes: {predicted['step_ms']:.1f} ms, of which exchanges {predicted['exposed_ms']:.1f} ms", flush=True)

        again, together = [], []
        for _ in range(arguments.rounds):
            again += machine.time_steps(whole, tokens)
            together += machine.time_steps(whole, tokens, processes)
        measured = 1e3 * statistics.median(together)
        error = predicted["step_ms"] / measured - 1
        print(f"measured: {measured:.1f} ms (fastest {1e3 * min(together):.1f}, slowest {1e3 * max(together):.1f}); the prediction is {100 * error:+.1f}%")
        print(f"one process took {1e3 * statistics.median(alone):.1f} ms before and {1e3 * statistics.median(again):.1f} ms after the prediction")
        return abs(error) > LIMIT


if __name__ == "__main__":
    sys.exit(main())
