#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps of encoder-decoders of width 256, plain and with words and edges (models/small/umst.json), in Sluice, PyTorch eager and
torch.compile, and steps of models/small/hourglass.json in Sluice, measured in turns in one run on the CPU. Wants an idle machine.

All programs compute the same steps on the same lines in f32: forward, backward, Adam. Lines are made of words of docs/, all of full length
and with as many words, so no program computes padding and torch.compile meets one shape. Dropout is off: PyTorch's fused attention has none
on CPUs. Before anything is timed, each peer takes a checkpoint of Sluice, makes three steps, and must find Sluice's losses. Rows with
dropout are of Sluice alone, on the same lines.

Usage: benchmarks/translators.py [--pieces-per-word X] [--batch N] [--quick] ...     (--help)
Prints, for each program, the median step in milliseconds, its operations by the ledger and their share of the measured peak, and how many
times longer its step takes than Sluice's, with the least and the greatest ratio within a round; then how many times longer the step with
words takes than the plain one, in time and in operations. Writes the same to build/benchmarks/translators.json. About five minutes.
"""
import argparse
import copy
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import compare
from compare import CHECKED, OURS, ROOT, Peer, check_losses, choose_cpus, install, say

MODELS = ("plain", "umst")
COMPILED = {"PyTorch, eager": False, "PyTorch, torch.compile": True}


def without_dropout(spec):
    """The spec without dropout anywhere."""
    kept = copy.deepcopy(spec)
    kept["defaults"] = {key: value for key, value in spec["defaults"].items() if "dropout" not in key}
    kept["stages"] = [{key: value for key, value in stage.items() if key != "dropout"} for stage in spec["stages"] if stage["op"] != "dropout"]
    return kept


def make_specs(model, batch):
    """The specs of a model of words, and of the same with plain layers in its encoder, by name."""
    umst = json.loads(model.read_text()) | {"batch": batch}
    # A short warm-up lets the checked steps change the weights.
    umst["training"] = umst["training"] | {"schedule": {"kind": "inverse_root", "warmup": 40, "steps": 4000, "floor": 0}}
    decoder = next(index for index, stage in enumerate(umst["stages"]) if stage["op"] == "umst") + 1
    count = umst["stages"][decoder - 1]["count"]
    source = next(stage for stage in umst["stages"] if stage.get("input") == "source")
    plain = umst | {"name": "small-plain", "inputs": {"source": umst["inputs"]["source"]}}
    plain["stages"] = [umst["stages"][0], source | {"dropout": umst["stages"][0]["dropout"]},
                       {"op": "layers", "count": count, "mask": "bidirectional"}, {"op": "norm", "to": "memory"}, *umst["stages"][decoder:]]
    return {"plain": plain, "umst": umst}


class Program:
    """A model that Sluice trains, on the made lines unless `lines` is None."""

    def __init__(self, arguments, folder, name, spec, lines):
        self.sluice, self.steps, self.folder = arguments.sluice, arguments.steps, folder / name
        self.folder.mkdir()
        self.spec, self.artifact = self.folder / "spec.json", self.folder / "model.sla"
        self.spec.write_text(json.dumps(spec))
        subprocess.run([self.sluice, "compile", self.spec, "-o", self.artifact], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        self.data = []
        if lines:
            self.data = ["--data", lines.target, "--tokenizer", lines.tokenizer, "--input", f"source={lines.source}"]
            self.data += ["--input", f"links={lines.links}"] if "links" in spec["inputs"] else []
        self.rounds = []

    def train(self, threads):
        """Trains CHECKED + 1 steps; the checkpoint after the first one, and the losses of the others."""
        run = self.folder / "run"
        count = str(CHECKED + 1)
        command = [self.sluice, "train", self.artifact, *self.data, "--out", run, "--steps", count, "--save-every", "1", "--keep", count,
                   "--threads", threads]
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        losses = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        return run / "checkpoints" / "1", losses[1:]

    def bench(self, threads):
        command = [self.sluice, "bench", self.artifact, *self.data, "--steps", self.steps, "--threads", threads, "--json"]
        text = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        self.rounds.append(json.loads(text))

    def seconds(self):
        return [each["step_ms"] / 1000 for each in self.rounds]

    def gflop(self):
        return self.rounds[0]["step_gflop"]


def divide(seconds, others):
    """The ratio of medians, and the range of ratios within a round."""
    ratios = [mine / other for mine, other in zip(seconds, others)]
    return [statistics.median(seconds) / statistics.median(others), min(ratios), max(ratios)]


def describe(model, program, seconds, gflop, peak, ours):
    median = statistics.median(seconds)
    return {"model": model, "program": program, "step_ms": 1000 * median, "rounds_ms": [1000 * value for value in seconds],
            "gflop": gflop, "fraction_of_peak": gflop / median / peak, "time_ratio": divide(seconds, ours)}


def print_result(result):
    print(f"batch {result['batch']} lines of {result['context']} pieces, {result['pieces_per_word']} pieces a word, f32, {result['threads']} "
          f"thread(s) on {result['cpu']}, peak {result['peak_gflops']:.0f} Gflop/s")
    print(f"{'model':10} {'program':32} {'step ms':>9} {'Gflop':>8} {'of peak':>8} {'time':>6} {'range':>11}")
    for row in result["programs"]:
        ratio, low, high = row["time_ratio"]
        print(f"{row['model']:10} {row['program']:32} {row['step_ms']:9.1f} {row['gflop']:8.1f} {row['fraction_of_peak']:8.3f} {ratio:6.2f} "
              f"{low:5.2f}-{high:<5.2f}")
    print("of peak: operations by the ledger, of the peak that the same run measured; time: as a multiple of Sluice's without dropout")
    for name, row in result["words"].items():
        ratio, low, high = row["time"]
        print(f"umst : plain, {name}: {ratio:.3f} in time ({low:.3f}-{high:.3f}), {row['operations']:.3f} in operations, quotient "
              f"{ratio / row['operations']:.3f}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "models/small/umst.json")
    parser.add_argument("--pieces-per-word", type=float, default=1.3)
    parser.add_argument("--batch", type=int, default=16, help="lines of a batch (%(default)s)")
    parser.add_argument("--words", choices=["dense", "index", "mixed"],
                        help="how PyTorch adds words' rows and edges: products with matrices of each line, index_add, or sums as products and "
                        "copies by index (default: index in eager mode, dense in compiled mode)")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--threads", type=int, default=0, help="default: one a core of the fastest kind")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--steps", type=int, help="steps of a round")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 1 step instead of 4 of 3")
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers", help="where the peers are installed")
    parser.add_argument("--python", type=Path, help="a Python that has the peers' packages, in place of an installation")
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/bin/sluice")
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmarks/translators.json")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (2 if arguments.quick else 4)
    arguments.steps = arguments.steps or (1 if arguments.quick else 3)
    return arguments


def start_peers(arguments, python, lines, programs, threads):
    """The peers of each model that the checkpoint's losses bear out, by (model, peer)."""
    peers = {}
    compare.PEERS.clear()
    compare.PEERS.update({name: ("translator.py", compiled) for name, compiled in COMPILED.items() if not (compiled and arguments.no_compile)})
    for model in MODELS:
        checkpoint, losses = programs[model].train(threads)
        say(f"{model}: losses of Sluice {losses}")
        for name in compare.PEERS:
            settings = {"spec": str(programs[model].spec), "lines": str(lines.arrays), "checkpoint": str(checkpoint), "threads": threads,
                        "step": 1, "words": arguments.words or ("dense" if COMPILED[name] else "index")}
            peer = Peer(name, python, settings)
            check_losses(peer, losses)
            peers[model, name] = peer
    return peers


def main():
    arguments = parse()
    if not os.access(arguments.sluice, os.X_OK):
        raise SystemExit(f"expected {arguments.sluice}, found none; run scripts/build.sh --program")
    python = arguments.python or install(arguments.peers)
    if importlib.util.find_spec("numpy") is None and not arguments.python:  # the lines need it
        os.execv(python, [str(python), *sys.argv, "--python", str(python)])
    sys.path.insert(0, str(ROOT / "benchmarks/peers"))
    from made_lines import MadeLines
    cpus = choose_cpus(arguments.threads)
    os.sched_setaffinity(0, cpus)
    threads, specs = len(cpus), make_specs(arguments.model, arguments.batch)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say("lines, and compiling")
        lines = MadeLines(ROOT, folder, arguments.sluice, arguments.pieces_per_word, 8 * arguments.batch, specs["umst"]["context"])
        hourglass = Program(arguments, folder, "hourglass", json.loads((ROOT / "models/small/hourglass.json").read_text()), None)
        programs = {model: Program(arguments, folder, model, without_dropout(specs[model]), lines) for model in MODELS}
        dropping = {model: Program(arguments, folder, f"{model}-dropout", specs[model], lines) for model in MODELS}
        peers = start_peers(arguments, python, lines, programs, threads)
        seconds = {key: [] for key in peers}
        for number in range(arguments.rounds):
            say(f"round {number + 1} of {arguments.rounds}")
            for program in (hourglass, *programs.values(), *dropping.values()):
                program.bench(threads)
            for key, peer in peers.items():
                seconds[key].append(statistics.median(peer.run(arguments.steps)["seconds"]))
        for peer in peers.values():
            peer.close()
    every = [hourglass, *programs.values(), *dropping.values()]
    peak = max(each["peak_gflops"] for program in every for each in program.rounds)
    rows = [describe("hourglass", OURS, hourglass.seconds(), hourglass.gflop(), peak, hourglass.seconds())]
    for model in MODELS:
        ours = programs[model].seconds()
        rows.append(describe(model, OURS, ours, programs[model].gflop(), peak, ours))
        rows.append(describe(model, f"{OURS}, dropout", dropping[model].seconds(), dropping[model].gflop(), peak, ours))
        rows += [describe(model, f"{peer} {peers[key].about['version']}", seconds[key], programs[model].gflop(), peak, ours)
                 for key in peers for of, peer in [key] if of == model]
    words = {name: {"time": divide(of["umst"].seconds(), of["plain"].seconds()), "operations": of["umst"].gflop() / of["plain"].gflop()}
             for name, of in (("without dropout", programs), ("with dropout", dropping))}
    result = {"batch": arguments.batch, "context": specs["umst"]["context"], "pieces_per_word": arguments.pieces_per_word, "threads": threads,
              "cpu": compare.name_processor(), "peak_gflops": peak, "rounds": arguments.rounds, "steps": arguments.steps, "programs": rows,
              "words": words}
    print_result(result)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
