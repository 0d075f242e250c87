#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps of recurrences on the CPU, f32, in one run: an LSTM of width 1500 over 32 texts of 64 rows, in Sluice and by
torch.nn.LSTM in turns, and a chunk decoder of width 1024 over 256 chunks of 12 rows, in Sluice. Wants an idle machine.

Both programs compute the same LSTM on the same bytes: embedding, LSTM, head, cross-entropy, backward and AdamW. Before anything is
timed, PyTorch takes the weights of a checkpoint of Sluice, and must find Sluice's loss of the next step.

Usage: benchmarks/recurrence.py [--threads N] [--rounds N] [--steps N] [--python PYTHON]     (--help)
Prints the median step of each program, and of Sluice's recurrences, forward and backward, the share of the measured peak. Writes
the same to build/benchmarks/recurrence.json.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare import ROOT, choose_cpus, name_processor, say

TOLERANCE = 2e-5  # of a loss: rounding of two right f32 programs, see compare.py
TEXT = b"the quick brown fox jumps over the lazy dog. "
SPECS = {
    "lstm": {"context": 64, "batch": 32, "width": 1500,
             "stages": [{"op": "embedding"}, {"op": "recurrence"}, {"op": "head", "tied": False}]},
    "chunks": {"context": 384, "batch": 8, "width": 366,
               "stages": [{"op": "embedding"}, {"op": "recurrence", "width": 1024, "every": 12}, {"op": "head", "tied": False}]},
}


def read_tensors(path):
    """The tensors of a safetensors file, by name."""
    import numpy as np

    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:8 + size])
    return {name: np.frombuffer(data[8 + size:], np.float32, offset=entry["data_offsets"][0],
                                count=(entry["data_offsets"][1] - entry["data_offsets"][0]) // 4).reshape(entry["shape"]).copy()
            for name, entry in entries.items() if name != "__metadata__"}


class Sluice:
    def __init__(self, arguments, folder, name, threads):
        spec = {"sluice": 1, "name": name, "vocabulary": 256, "training": {"schedule": {"kind": "constant", "warmup": 0}}, **SPECS[name]}
        self.arguments, self.threads, self.folder, self.rounds = arguments, str(threads), folder, []
        self.spec, self.artifact, self.text = folder / f"{name}.json", folder / f"{name}.sla", folder / "text"
        self.spec.write_text(json.dumps(spec))
        self.text.write_bytes(TEXT * 4096)
        self.call("compile", self.spec, "-o", self.artifact)

    def call(self, *command):
        return subprocess.run([self.arguments.sluice, *command], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout

    def bench(self):
        text = self.call("bench", self.artifact, "--steps", str(self.arguments.steps), "--threads", self.threads, "--kernels", "--json")
        self.rounds.append(json.loads(text))

    def steps(self):
        return [each["step_ms"] / 1000 for each in self.rounds]

    def shares(self):
        """Of each recurrence's kernel, the share of the peak: median, least and greatest of the rounds."""
        peak = max(each["peak_gflops"] for each in self.rounds)
        found = {}
        for each in self.rounds:
            for kernel in each["kernels"]:
                if kernel["name"].startswith("recurrence_"):
                    found.setdefault(kernel["name"], []).append(kernel["gflops"] / peak)
        return {name: [statistics.median(values), min(values), max(values)] for name, values in found.items()}


def make_torch_step(threads):
    """A function that trains one step of the LSTM on bytes [B, N + 1]; returns the loss."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    width, spec = SPECS["lstm"]["width"], SPECS["lstm"]
    table, lstm, head = torch.nn.Embedding(256, width), torch.nn.LSTM(width, width, batch_first=True), torch.nn.Linear(width, 256)
    weights = [*table.parameters(), *lstm.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(weights, fused=True)
    bytes_ = torch.tensor(list((TEXT * 64)[:spec["batch"] * (spec["context"] + 1)])).view(spec["batch"], -1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(head(lstm(table(bytes_[:, :-1]))[0]).flatten(0, 1), bytes_[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        return loss.item()

    return step


def check_torch(sluice, folder):
    """Rejects a PyTorch LSTM that differs from Sluice's: the loss of held-out rows by the same weights."""
    import torch
    import torch.nn.functional as F

    run = folder / "run"
    sluice.call("train", sluice.artifact, "--data", str(sluice.text), "--out", run, "--steps", "1", "--save-every", "1", "--threads", sluice.threads)
    weights = {name: torch.from_numpy(value) for name, value in read_tensors(next((run / "checkpoints").glob("1/weights.safetensors"))).items()}
    tokens = torch.tensor(list(TEXT * 2))[None, :SPECS["lstm"]["context"] + 1]
    rows = F.embedding(tokens[:, :-1], weights["stages.0.token.weight"])
    zeros = rows.new_zeros(1, 1, rows.shape[2])
    matrices = [weights["stages.1.input.weight"], weights["stages.1.state.weight"], weights["stages.1.input.bias"],
                torch.zeros_like(weights["stages.1.input.bias"])]
    h = torch._VF.lstm(rows, (zeros, zeros), matrices, True, 1, 0.0, False, False, True)[0]
    expected = F.cross_entropy(F.linear(h, weights["stages.2.weight"])[0], tokens[0, 1:]).item()
    held = folder / "held"
    held.write_bytes(bytes(tokens[0].tolist()))
    scores = json.loads(sluice.call("eval", sluice.artifact, "--weights", run, "--data", held, "--json"))
    found = scores["nats"] / scores["tokens"]
    say(f"loss of Sluice {found}, of PyTorch {expected}")
    if not abs(found - expected) <= TOLERANCE * expected:
        raise SystemExit(f"expected the loss {expected} of torch.nn.LSTM within {TOLERANCE:g} of itself, found {found}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="default: one a core of the fastest kind")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="steps of a round")
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/bin/sluice")
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmarks/recurrence.json")
    return parser.parse_args()


def main():
    arguments = parse()
    if not os.access(arguments.sluice, os.X_OK):
        raise SystemExit(f"expected {arguments.sluice}, found none; run scripts/build.sh --program")
    cpus = choose_cpus(arguments.threads)
    os.sched_setaffinity(0, cpus)
    threads = len(cpus)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {model: Sluice(arguments, folder, model, threads) for model in SPECS}
        check_torch(programs["lstm"], folder)
        step, seconds = make_torch_step(threads), []
        step()
        for number in range(arguments.rounds):
            say(f"round {number + 1} of {arguments.rounds}")
            for program in programs.values():
                program.bench()
            taken = []
            for _ in range(arguments.steps):
                begin = time.perf_counter()
                step()
                taken.append(time.perf_counter() - begin)
            seconds.append(statistics.median(taken))
    ours = programs["lstm"].steps()
    ratios = [theirs / mine for theirs, mine in zip(seconds, ours)]
    result = {"cpu": name_processor(), "threads": threads, "peak_gflops": max(each["peak_gflops"] for each in programs["lstm"].rounds),
              "step_ms": {model: 1000 * statistics.median(program.steps()) for model, program in programs.items()},
              "torch_step_ms": 1000 * statistics.median(seconds),
              "torch_over_sluice": [statistics.median(seconds) / statistics.median(ours), min(ratios), max(ratios)],
              "shares": {model: program.shares() for model, program in programs.items()}}
    print(f"f32, {threads} thread(s) on {result['cpu']}, peak {result['peak_gflops']:.0f} Gflop/s")
    print(f"lstm, step: Sluice {result['step_ms']['lstm']:.0f} ms, torch.nn.LSTM {result['torch_step_ms']:.0f} ms, "
          "{:.2f} times as long ({:.2f}-{:.2f})".format(*result["torch_over_sluice"]))
    for model, shares in result["shares"].items():
        for kernel, share in shares.items():
            print(f"{model:7} {kernel:44} {share[0]:.3f} of the peak ({share[1]:.3f}-{share[2]:.3f})")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
