#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps of one spec in Sluice, PyTorch eager, torch.compile and JAX (hourglasses of averages alone), measured in turns in
one run on the CPU.

Every program computes the same step on the same bytes in f32: forward, backward, clipping, AdamW. Before anything is timed,
each peer takes a checkpoint of Sluice, makes three steps, and must find the losses that Sluice found. Then the programs
take turns; a round times a few steps of each. The ratio is that of the medians, so it divides the milliseconds that are printed. Its
range is that of the ratios within a round, where what else the machine does meets all alike. All are bound to the same processors, one a core, of the fastest kind of core. Wants an idle machine.

The models of benchmarks/peers are written for speed, with fused attention. For specs that they do not have, --pytorch exported takes the
file that `sluice export` prints, whose attention scores all pairs of rows. Numbers that move during training have their last value there.

Usage: benchmarks/compare.py [--quick] [--model SPEC] [--threads N] [--pytorch exported] ...     (--help)
       benchmarks/compare.py --generate ...     compares generation (--generate --help; compare_generation.py)
The peers are installed with pip into a folder of their own, build/peers; PyTorch for Linux comes with its CUDA libraries, about
3 GB. Prints a table and writes build/benchmarks/compare.json.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ["torch>=2.6", "jax>=0.5", "numpy", "safetensors"]
PEERS = {"PyTorch, eager": ("torch_peer.py", False), "PyTorch, torch.compile": ("torch_peer.py", True), "JAX, jit": ("jax_peer.py", False)}
EXPORTED = {"exported, eager": ("torch_peer.py", False), "exported, torch.compile": ("torch_peer.py", True)}
OURS = "Sluice"
CHECKED = 3  # steps whose losses must agree
# Two right f32 programs differ by rounding alone: some 1e-7 of a loss, which a few steps of Adam enlarge.
TOLERANCE = 2e-5


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def read(path):
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def choose_cpus(threads):
    """One processor a core, of those with the highest clock; all such where `threads` is 0."""
    def clock(cpu):
        return int(read(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq") or 0)

    cores = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        cores.setdefault(siblings, cpu)
    fastest = max(map(clock, cores.values()))
    cpus = [cpu for cpu in cores.values() if clock(cpu) >= 0.95 * fastest]
    if threads > len(cpus):
        raise SystemExit(f"expected at most {len(cpus)} threads (cores of the fastest kind), found {threads}")
    return cpus[: threads or len(cpus)]


def install(folder, packages=PACKAGES, name="installed"):
    """Returns the peers' Python, in a virtual environment of its own, with these packages. The file `name` lists them."""
    python, stamp = folder / "bin" / "python", folder / name
    if read(stamp) != " ".join(packages):
        say(f"installing {' '.join(packages)} into {folder}")
        if not python.exists():
            venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        stamp.write_text(" ".join(packages))
    return python


def run_measured(command):
    """Runs a program to its end and returns the megabytes of its resident memory at the most."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit status {process.returncode}")
    return usage.ru_maxrss / 1024


class Process:
    """A peer's process, which waits on its input between its turns."""

    def __init__(self, name, python, script, settings):
        self.name = name
        self.process = subprocess.Popen([python, ROOT / "benchmarks" / "peers" / script, json.dumps(settings)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=os.environ | {"OMP_NUM_THREADS": str(settings["threads"]), "JAX_PLATFORMS": "cpu"})
        self.about = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended early; what it printed above says why")
        return json.loads(line)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Peer(Process):
    """A peer that trains."""

    def __init__(self, name, python, settings):
        script, compiled = (PEERS | EXPORTED)[name]
        exported = settings["exported"] if name in EXPORTED else ""
        super().__init__(name, python, script, settings | {"exported": exported, "compile": compiled})
        self.peak = 0.0

    def run(self, steps):
        answer = self.ask({"steps": steps})
        self.peak = answer["peak_mb"]
        return answer


def choose_peers(spec, kind):
    """JAX has plain stacks and hourglasses of averages alone (peers/model.py)."""
    is_family = spec["stages"][1]["op"] != "hourglass" or "relative" in spec["defaults"]
    written = [peer for peer in PEERS if not (is_family and peer.startswith("JAX"))]
    return {"written": written, "exported": list(EXPORTED), "both": written + list(EXPORTED)}[kind]


def check_losses(peer, expected):
    """The peer's losses from the checkpoint on must be Sluice's."""
    found = peer.run(CHECKED)["losses"]
    worst = max(abs(a - b) / b for a, b in zip(found, expected))
    say(f"{peer.name} {peer.about['version']}: losses of steps 2 to {CHECKED + 1} differ by {worst:.1e} of themselves at most")
    if not worst <= TOLERANCE:
        raise SystemExit(f"{peer.name}: expected the losses {expected} within {TOLERANCE:g} of themselves, found {found}")
    return worst


def prepare(arguments, folder, threads):
    """Compiles, trains a few steps and returns (artifact, first checkpoint, losses of the steps after it, peak MB)."""
    artifact, run = folder / "model.sla", folder / "run"
    subprocess.run([arguments.sluice, "compile", arguments.model, "-o", artifact], check=True, stdout=subprocess.DEVNULL)
    train = [arguments.sluice, "train", artifact, "--data", arguments.data, "--out", run, "--steps", str(CHECKED + 1), "--save-every",
             "1", "--keep", str(CHECKED + 1), "--threads", str(threads)]
    peak = run_measured(list(map(str, train)))
    losses = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    if arguments.pytorch != "written":
        subprocess.run([arguments.sluice, "export", artifact, "--weights", run / "checkpoints" / "1", "-o", folder / "exported"], check=True,
                       stderr=subprocess.DEVNULL)
    return artifact, run / "checkpoints" / "1", losses[1:], peak


def force_segments(text, factor):
    """A space at every `factor`-th byte and nowhere else: white space then ends segments of so many tokens."""
    letters = bytearray(text.translate(bytes(ord("a") if byte in b" \t\n\v\f\r" else byte for byte in range(256))))
    letters[factor - 1 :: factor] = b" " * (len(letters) // factor)
    return bytes(letters)


def bench(arguments, artifact, threads):
    """Seconds of a step of Sluice: the median of a round."""
    text = subprocess.run([arguments.sluice, "bench", artifact, "--steps", str(arguments.steps), "--threads", str(threads), "--json",
                           "--data", arguments.data],
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(text)["step_ms"] / 1000


def measure(arguments, artifact, peers, threads):
    seconds = {OURS: [], **{peer.name: [] for peer in peers}}
    for peer in peers:
        peer.run(2)  # caches, and a compiler's work after its first calls
    for number in range(arguments.rounds):
        say(f"round {number + 1} of {arguments.rounds}")
        seconds[OURS].append(bench(arguments, artifact, threads))
        for peer in peers:
            seconds[peer.name].append(statistics.median(peer.run(arguments.steps)["seconds"]))
    return seconds


def describe(name, seconds, tokens, peak, ours, our_peak):
    # The ratio of medians is never outside the range: each of `seconds` is at least the least ratio times its round's of `ours`.
    ratios = [theirs / mine for theirs, mine in zip(seconds, ours)]
    median = statistics.median(seconds)
    return {"program": name, "step_ms": 1000 * median, "rounds_ms": [1000 * value for value in seconds],
            "tokens_per_s": tokens / median, "time_ratio": median / statistics.median(ours),
            "time_ratio_range": [min(ratios), max(ratios)], "peak_mb": peak, "memory_ratio": peak / our_peak}


def name_processor():
    model = next((line.split(":")[1].strip() for line in read("/proc/cpuinfo").splitlines() if line.startswith("model name")), "")
    return model or platform.processor()


def print_table(result):
    print(f"{result['model']}: batch {result['batch']}, context {result['context']}, f32, {result['threads']} thread(s) on {result['cpu']}")
    print(f"{'program':36} {'step ms':>9} {'tokens/s':>9} {'time':>6} {'range':>13} {'peak MB':>8} {'memory':>7}")
    for row in result["programs"]:
        low, high = row["time_ratio_range"]
        print(f"{row['program']:36} {row['step_ms']:9.1f} {row['tokens_per_s']:9.0f} {row['time_ratio']:6.2f} "
              f"{low:6.2f}-{high:<6.2f} {row['peak_mb']:8.0f} {row['memory_ratio']:7.2f}")
    print("time, memory: as multiples of Sluice's, time within a round; peak MB: resident memory of the whole process")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "models/small/hourglass.json")
    parser.add_argument("--data", type=Path, help="one file of bytes to train on (default: the text of docs/)")
    parser.add_argument("--forced-factor", type=int, default=0, help="segments of so many tokens: white space at every such byte alone")
    parser.add_argument("--pytorch", choices=["written", "exported", "both"], default="written",
                        help="the models of benchmarks/peers, which are written for speed; the file of sluice export, for specs without one; or both")
    parser.add_argument("--threads", type=int, default=0, help="default: one a core of the fastest kind")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--steps", type=int, help="steps of a round")
    parser.add_argument("--quick", action="store_true", help="3 rounds of 2 steps instead of 10 of 5")
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers", help="where the peers are installed")
    parser.add_argument("--sluice", type=Path, default=ROOT / "build/bin/sluice")
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmarks/compare.json")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (3 if arguments.quick else 10)
    arguments.steps = arguments.steps or (2 if arguments.quick else 5)
    return arguments


def main():
    arguments = parse()
    if not os.access(arguments.sluice, os.X_OK):
        raise SystemExit(f"expected {arguments.sluice}, found none; run scripts/build.sh --program")
    python = install(arguments.peers)
    cpus = choose_cpus(arguments.threads)
    os.sched_setaffinity(0, cpus)
    threads, spec = len(cpus), json.loads(arguments.model.read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.data is None:
            arguments.data = folder / "text"
            arguments.data.write_bytes(b"".join(page.read_bytes() for page in sorted((ROOT / "docs").rglob("*.md"))))
        if arguments.forced_factor:
            text, arguments.data = arguments.data.read_bytes(), folder / "forced"
            arguments.data.write_bytes(force_segments(text, arguments.forced_factor))
        say("Sluice: compiling, and the steps whose losses the peers must find")
        artifact, checkpoint, losses, our_peak = prepare(arguments, folder, threads)
        settings = {"spec": str(arguments.model), "data": str(arguments.data), "checkpoint": str(checkpoint), "threads": threads, "step": 1,
                    "forced_factor": arguments.forced_factor, "exported": str(folder / "exported/model.py")}
        peers = [Peer(peer, python, settings) for peer in choose_peers(spec, arguments.pytorch)]
        differences = {peer.name: check_losses(peer, losses) for peer in peers}
        seconds = measure(arguments, artifact, peers, threads)
        for peer in peers:
            peer.close()
    tokens, ours = spec["batch"] * spec["context"], seconds[OURS]
    rows = [describe(OURS, ours, tokens, our_peak, ours, our_peak)]
    for peer in peers:
        row = describe(f"{peer.name} {peer.about['version']}", seconds[peer.name], tokens, peer.peak, ours, our_peak)
        rows.append(row | {"imported_mb": peer.about["imported_mb"], "loss_difference": differences[peer.name]})
    result = {"model": arguments.model.name, "batch": spec["batch"], "context": spec["context"], "threads": threads, "cpus": cpus,
              "cpu": name_processor(), "rounds": arguments.rounds, "steps": arguments.steps, "programs": rows}
    print_table(result)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    if "--generate" in sys.argv[1:]:
        import compare_generation

        compare_generation.main()
    else:
        main()
