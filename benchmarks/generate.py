#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generation of one row with a cache in Sluice and in PyTorch, measured in turns in one run on the CPU.

The PyTorch loop (benchmarks/peers/torch_generate.py) keeps keys and values, skips a coarse stack until its group closes, and first
shows that its logits are the whole forward pass's. The ratio is taken within a round. Wants an idle machine.

Usage: benchmarks/generate.py [--positions FIRST-LAST] [--rounds N] [--model SPEC] [--threads N]
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from compare import ROOT, choose_cpus, install, say


def bench(arguments, artifact, threads):
    """Tokens a second of Sluice."""
    command = [arguments.sluice, "bench", artifact, "--steps", "1", "--generate", "--positions", arguments.positions, "--threads",
               str(threads), "--json"]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(text)["cached_tokens_per_s"]


def start(arguments, python, threads):
    settings = json.dumps({"spec": str(arguments.model), "threads": threads})
    peer = subprocess.Popen([python, ROOT / "benchmarks/peers/torch_generate.py", settings], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": str(threads)})
    return peer, answer(peer)["version"]


def answer(peer):
    line = peer.stdout.readline()
    if not line:
        raise SystemExit("PyTorch ended early; what it printed above says why")
    return json.loads(line)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "models/small/hourglass.json")
    parser.add_argument("--positions", default="512-767", help="positions that are timed")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0, help="default: one a core of the fastest kind")
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers", help="where PyTorch is installed")
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/bin/sluice")
    return parser.parse_args()


def main():
    arguments = parse()
    first, last = map(int, arguments.positions.split("-"))
    python = install(arguments.peers)
    cpus = choose_cpus(arguments.threads)
    os.sched_setaffinity(0, cpus)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        artifact = Path(folder) / "model.sla"
        subprocess.run([arguments.sluice, "compile", arguments.model, "-o", artifact], check=True, stdout=subprocess.DEVNULL)
        peer, version = start(arguments, python, len(cpus))
        for number in range(arguments.rounds):
            say(f"round {number + 1} of {arguments.rounds}")
            ours.append(bench(arguments, artifact, len(cpus)))
            peer.stdin.write(json.dumps({"first": first, "last": last}) + "\n")
            peer.stdin.flush()
            theirs.append(answer(peer)["tokens_per_s"])
        peer.stdin.close()
        peer.wait()
    ratios = [mine / other for mine, other in zip(ours, theirs)]
    print(f"{arguments.model.name}, one row, positions {first} to {last}, f32, {len(cpus)} thread(s)")
    print(f"Sluice         {statistics.median(ours):8.0f} tokens a second")
    print(f"PyTorch {version:6} {statistics.median(theirs):7.0f}")
    print(f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
