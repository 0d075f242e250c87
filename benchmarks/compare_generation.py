# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generation with a cache of one Llama, of one text and of eight, in Sluice, llama.cpp and the transformers library (eager, and torch.compile
with a static cache), measured in turns in one run on the CPU.

Every program has the same random weights: the state of a LlamaForCausalLM, which `sluice import` and a GGUF file take over. Before anything is
timed, each peer reads texts token by token with its cache, and its logits must be the logits of `sluice logits` in f32: the table has the
largest difference, relative to the largest logit. Then the programs take turns. A step's time is its forward pass, from tokens to logits; no
program's choice of the next token counts. Sluice's steps are timed by `sluice bench --generate`, whose weights are initial ones of the same
shapes: the time of a step does not depend on their values. Wants an idle machine.

A package that cannot be installed and a program that cannot start are reported as missing; the rest is measured.

Usage: benchmarks/compare.py --generate [--sizes small large] [--rows 1 8] [--threads 1 2] [--types f32 bf16 q8_0] [--quick] [--json] ...
Packages come from PyPI, into build/peers. llama.cpp is compiled for this CPU, which takes about ten minutes and wants cmake and a C++ compiler.
Prints a table, or JSON with --json, and writes JSON to build/benchmarks/compare-generate.json. Wants 8 GiB of memory and 4 GB of disk.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import ROOT, Process, choose_cpus, install, name_processor, say

PACKAGES = ["torch>=2.6", "transformers>=5", "gguf", "numpy", "safetensors"]
LLAMA_CPP = ["llama-cpp-python"]
SCRIPTS = ROOT / "benchmarks" / "peers"
# Peer: name in tables, script, whether it is compiled, types of weights.
PEERS = {"llama.cpp": ("llama.cpp", "llama_cpp_generate.py", False, ("f32", "bf16", "q8_0")),
         "eager": ("transformers, eager", "transformers_generate.py", False, ("f32", "bf16")),
         "compiled": ("transformers, torch.compile", "transformers_generate.py", True, ("f32", "bf16"))}
OURS = "Sluice"
TYPES = ("f32", "bf16", "q8_0")
FLAGS = {"f32": [], "bf16": ["--precision", "bf16"], "q8_0": ["--weights", "int8"]}  # of `sluice compile`, by type
SPEC = ROOT / "models/imported/llama.json"
# `large` is the spec as it ships; `small` has the width of models/small.
SIZES = {"small": {"vocabulary": 256, "width": 256, "layers": 6, "heads": 8, "feed_forward": 1024, "epsilon": 1e-6, "base": 10000.0},
         "large": {"vocabulary": 32000, "width": 768, "layers": 12, "heads": 12, "feed_forward": 3072, "epsilon": 1e-6, "base": 10000.0}}
KEYS = {"vocabulary": "vocabulary", "width": "width", "layers": "stages.1.count", "heads": "defaults.heads",
        "feed_forward": "defaults.feed_forward", "context": "context"}  # of the spec
# Limits relative to the largest logit. In f32 programs differ by the order of sums; with other weights a difference this large means another model.
BOUNDS = {"f32": 1e-3, "bf16": 0.1, "q8_0": 0.1}


class Model:
    """One size: weights for every program in `folder`, and Sluice's artifacts by type."""

    def __init__(self, arguments, python, folder, size):
        self.arguments, self.folder, self.size = arguments, folder, size
        self.sizes = SIZES[size] | {"context": arguments.last + 1}
        self.differences = {}  # of Sluice's logits from its logits in f32, by type
        self.settings = {"folder": str(folder), "types": [kind for kind in arguments.types if not arguments.without_llama],
                         "texts": max(arguments.rows), "tokens": self.sizes["context"], "prompt": arguments.first, "sizes": self.sizes}
        say(f"{size}: random weights, an import and artifacts")
        subprocess.run([python, SCRIPTS / "llama_weights.py", json.dumps(self.settings)], check=True)
        settings = [word for key, name in KEYS.items() for word in ("--set", f"{name}={self.sizes[key]}")] + ["--set", "batch=1"]
        weights = folder / "weights.safetensors"
        self.sluice("import", folder / "state.safetensors", "--map", SPEC.with_suffix(".map"), "--model", SPEC, *settings,
                    "--size", f"head_size={self.sizes['width'] // self.sizes['heads']}", "-o", weights)
        for kind in {"f32", *arguments.types} & set(arguments.flags):
            self.sluice("compile", SPEC, *settings, *arguments.flags[kind], "--generation-rows", max(arguments.rows), "-o", self.artifact(kind))
        for number in range(max(arguments.rows)):
            self.write_logits("f32", number, f"logits-{number}.npy")
        for kind in set(arguments.types) & set(arguments.flags) - {"f32"}:
            self.write_logits(kind, 0, "found.npy")
            words = [python, SCRIPTS / "llama_weights.py", "{}", folder / "logits-0.npy", folder / "found.npy"]
            self.differences[kind] = float(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
            check_difference(f"{OURS}, {kind}", kind, self.differences[kind])
        self.greedy = self.write_greedy(python)

    def sluice(self, *words):
        """Runs Sluice and returns its output; its messages appear where it fails."""
        done = subprocess.run([self.arguments.sluice, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit(f"sluice {words[0]}: exit status {done.returncode}\n{done.stderr}")
        return done.stdout

    def artifact(self, kind):
        return self.folder / f"model-{kind}.sla"

    def write_logits(self, kind, number, name):
        self.sluice("logits", self.artifact(kind), "--weights", self.folder / "weights.safetensors", "--data", self.folder / f"text-{number}.npy",
                    "--window", self.sizes["context"], "-o", self.folder / name, "--force")

    def write_greedy(self, python):
        """Returns the ids that Sluice's steps in f32 choose after the prompt of the first text."""
        code = "import numpy, sys; print(*numpy.load(sys.argv[1])[: int(sys.argv[2])])"
        words = [python, "-c", code, self.folder / "text-0.npy", str(self.arguments.first)]
        prompt = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        count = self.arguments.last + 1 - self.arguments.first
        text = self.sluice("generate", self.artifact("f32"), "--weights", self.folder / "weights.safetensors", "--prompt-tokens", prompt,
                           "--temperature", 0, "--tokens", count, "--json")
        return json.loads(text)["ids"]

    def bench(self, kind, rows, threads):
        """Returns Sluice's tokens per second."""
        text = self.sluice("bench", self.artifact(kind), "--steps", 1, "--generate", "--rows", rows, "--threads", threads, "--json", "--positions",
                           f"{self.arguments.first}-{self.arguments.last}")
        return json.loads(text)["cached_tokens_per_s"]


class Ours:
    """Sluice as a program that takes turns."""

    def __init__(self, model, kind, threads):
        self.name, self.kind, self.version = OURS, kind, ""
        self.model, self.threads = model, threads
        self.facts = {"logit_difference": model.differences.get(kind, 0.0)}

    def measure(self, rows):
        return self.model.bench(self.kind, rows, self.threads)

    def close(self):
        pass


class Theirs:
    """A peer as a program that takes turns."""

    def __init__(self, model, python, peer, kind, threads):
        self.name, script, is_compiled, _ = PEERS[peer]
        self.kind, self.model = kind, model
        settings = {"type": kind, "threads": threads, "compile": is_compiled, "context": model.sizes["context"]}
        self.process = Process(f"{self.name}, {kind}", python, script, model.settings | settings)
        self.version, self.failure = self.process.about.get("version"), self.process.about.get("failure")
        self.facts = {}

    def check(self, all_rows):
        worst = max(self.process.ask({"check": rows})["difference"] for rows in all_rows)
        say(f"{self.name}, {self.kind}: logits differ by {worst:.1e} of the largest")
        check_difference(f"{self.name}, {self.kind}", self.kind, worst)
        ids = self.process.ask({"generate": 1})["ids"][0]
        equal = next((at for at, (ours, theirs) in enumerate(zip(self.model.greedy, ids)) if ours != theirs), len(ids))
        self.facts = {"logit_difference": worst, "greedy_tokens_equal": equal, "greedy_tokens": len(ids)}

    def measure(self, rows):
        answer = self.process.ask({"generate": rows})
        return sum(map(len, answer["ids"])) / answer["seconds"]

    def close(self):
        self.process.close()


def check_difference(name, kind, difference):
    if not difference <= BOUNDS[kind]:
        raise SystemExit(f"{name}: expected logits within {BOUNDS[kind]:g} of the largest logit of Sluice's in f32, found {difference:.1e}")


def start_programs(model, python, threads, missing):
    arguments = model.arguments
    programs = [Ours(model, kind, threads) for kind in arguments.types if kind in arguments.flags]
    for peer_name, (name, _, _, kinds) in PEERS.items():
        if peer_name not in arguments.programs or (peer_name == "llama.cpp" and arguments.without_llama):
            continue
        for kind in filter(arguments.types.__contains__, kinds):
            peer = Theirs(model, python, peer_name, kind, threads)
            if peer.failure:
                missing.append({"program": name, "type": kind, "size": model.size, "threads": threads, "reason": peer.failure})
                say(f"{name}, {kind}: missing: {peer.failure}")
                peer.close()
            else:
                peer.check(arguments.rows)
                programs.append(peer)
    return programs


def describe(program, speeds, ours):
    """Returns a program's row. `ours` are Sluice's tokens per second with the same type of weights, or None."""
    row = {"program": program.name, "type": program.kind, "version": program.version, "tokens_per_s": statistics.median(speeds),
           "tokens_per_s_range": [min(speeds), max(speeds)], "rounds_tokens_per_s": speeds, "sluice_ratio": None,
           "sluice_ratio_range": None} | program.facts
    if ours:
        ratios = [mine / theirs for mine, theirs in zip(ours, speeds)]
        row |= {"sluice_ratio": statistics.median(ours) / statistics.median(speeds), "sluice_ratio_range": [min(ratios), max(ratios)]}
    return row


def measure(model, programs, threads):
    """Returns the tables of one size and number of threads, by rows."""
    arguments, tables = model.arguments, []
    for rows in arguments.rows:
        speeds, loads = {program: [] for program in programs}, []
        for number in range(arguments.rounds):
            say(f"{model.size}, {threads} thread(s), {rows} text(s): round {number + 1} of {arguments.rounds}")
            loads.append(os.getloadavg()[0])
            for program in programs:
                speeds[program].append(program.measure(rows))
        ours = {program.kind: speeds[program] for program in programs if program.name == OURS}
        tables.append({"size": model.size, "threads": threads, "rows": rows, "load": statistics.median(loads),
                       "programs": [describe(program, speeds[program], ours.get(program.kind)) for program in programs]})
    return tables


def print_tables(result):
    print(f"{SPEC.name}: positions {result['positions'][0]} to {result['positions'][1]}, {result['rounds']} rounds in turns, on {result['cpu']}")
    for table in result["tables"]:
        sizes = SIZES[table["size"]]
        print(f"\n{table['size']} (width {sizes['width']}, {sizes['layers']} layers), {table['rows']} text(s), {table['threads']} thread(s), "
              f"load {table['load']:.1f}")
        print(f"{'program':28} {'weights':7} {'tokens/s':>9} {'range':>17} {'Sluice is':>9} {'range':>13} {'logits':>8}")
        for row in table["programs"]:
            low, high = row["tokens_per_s_range"]
            ratio = f"{row['sluice_ratio']:8.2f}x {row['sluice_ratio_range'][0]:6.2f}-{row['sluice_ratio_range'][1]:<6.2f}" if row["sluice_ratio"] else f"{'':23}"
            print(f"{row['program']:28} {row['type']:7} {row['tokens_per_s']:9.1f} {low:8.1f}-{high:<8.1f} {ratio} {row['logit_difference']:8.1e}")
    print("\nSluice is: its tokens per second over the row's, with weights of the same type; logits: the largest difference from Sluice's in f32,"
          " of the largest logit")
    for each in result["missing"]:
        print(f"missing: {', '.join(str(each[key]) for key in ('program', 'type') if key in each)}: {each['reason']}")


def parse_flags(parser, pairs):
    """Adds NAME=FLAGS to the flags of `sluice compile`, by type."""
    flags = dict(FLAGS)
    for pair in pairs:
        name, equals, words = pair.partition("=")
        if not equals or name not in TYPES:
            parser.error(f"--ours: expected TYPE=FLAGS with a type of {', '.join(TYPES)}, found '{pair}'")
        flags[name] = shlex.split(words)
    return flags


def parse_positions(parser, text):
    first, dash, last = text.partition("-")
    if not dash or not first.isdecimal() or not last.isdecimal() or not 1 <= int(first) <= int(last):
        parser.error(f"--positions: expected FIRST-LAST with FIRST of at least 1, found '{text}'")
    return int(first), int(last)


def positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, found '{text}'")
    return int(text)


def parse():
    parser = argparse.ArgumentParser(prog="compare.py --generate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--generate", action="store_true", help="compare generation")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="small: 25 MB of weights in f32; large: 650 MB")
    parser.add_argument("--rows", nargs="+", type=positive, default=[1, 8], metavar="N", help="texts that generate at once (default: 1 8)")
    parser.add_argument("--threads", nargs="+", type=positive, metavar="N", help="default: 1, and one a core of the fastest kind")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES), help="types of weights (default: all)")
    parser.add_argument("--programs", nargs="+", choices=PEERS, default=list(PEERS), help="peers (default: all)")
    parser.add_argument("--ours", action="append", default=[], metavar="TYPE=FLAGS",
                        help="flags of sluice compile for a type of weights, as in --ours 'bf16=--precision bf16', the default")
    parser.add_argument("--positions", default="16-143", metavar="FIRST-LAST", help="positions that are timed (default: 16-143)")
    parser.add_argument("--rounds", type=positive)
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 7")
    parser.add_argument("--json", action="store_true", help="print the JSON instead of tables")
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers", help="where the peers are installed")
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/bin/sluice")
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmarks/compare-generate.json")
    arguments = parser.parse_args()
    arguments.flags = parse_flags(parser, arguments.ours)
    arguments.first, arguments.last = parse_positions(parser, arguments.positions)
    arguments.rounds = arguments.rounds or (3 if arguments.quick else 7)
    if not os.access(arguments.sluice, os.X_OK):
        parser.error(f"expected {arguments.sluice}, found none; run scripts/build.sh --program")
    return arguments


def install_llama_cpp(folder):
    """Returns why llama.cpp cannot be had, or None."""
    os.environ.setdefault("CMAKE_ARGS", "-DGGML_NATIVE=ON")
    os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(len(os.sched_getaffinity(0))))
    try:
        install(folder, LLAMA_CPP, "installed-llama-cpp")
    except subprocess.CalledProcessError as error:
        return f"pip install {' '.join(LLAMA_CPP)}: exit status {error.returncode}"
    return None


def main():
    arguments = parse()
    everything, missing = os.sched_getaffinity(0), []
    all_threads = arguments.threads or sorted({1, len(choose_cpus(0))})
    for threads in all_threads:
        choose_cpus(threads)  # an error before anything is installed
    python = install(arguments.peers, PACKAGES, "installed-generate")
    arguments.without_llama = "llama.cpp" not in arguments.programs
    if not arguments.without_llama and (reason := install_llama_cpp(arguments.peers)):
        arguments.without_llama = True
        missing.append({"program": "llama.cpp", "reason": reason})
    if "q8_0" in arguments.types and "q8_0" not in arguments.flags:
        missing.append({"program": OURS, "type": "q8_0", "reason": "no flags of sluice compile are known for it; --ours gives them"})
    tables = []
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory() as folder:
            model = Model(arguments, python, Path(folder), size)
            for threads in all_threads:
                os.sched_setaffinity(0, choose_cpus(threads))
                programs = start_programs(model, python, threads, missing)
                tables += measure(model, programs, threads)
                for program in programs:
                    program.close()
                os.sched_setaffinity(0, everything)
    result = {"model": SPEC.name, "positions": [arguments.first, arguments.last], "cpu": name_processor(), "rounds": arguments.rounds,
              "sizes": {size: SIZES[size] for size in arguments.sizes}, "missing": missing, "tables": tables}
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        print_tables(result)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
