#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The trials of trial.sh, which describes them."""
import argparse
import filecmp
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import trial_divisions  # noqa: E402
import trial_machines  # noqa: E402

LIMIT = 120  # seconds in which a disturbed training must end
STEPS = 120
SPEC = """{ "sluice": 1, "vocabulary": 256, "context": 20, "batch": 1, "width": 16, "seed": 3,
  "defaults": { "heads": 2, "feed_forward": 20, "dropout": 0.2 },
  "stages": [ { "op": "embedding", "dropout": 0.2 }, { "op": "layer" }, { "op": "head" } ],
  "training": { "accumulate": 12, "learning_rate": 0.01, "clip": 0.5, "schedule": { "kind": "constant", "warmup": 0, "steps": 120 } } }
"""


class Trial:
    """A compiled model, the weights of an uninterrupted training, and counts."""

    def __init__(self, program, work, shards=False):
        self.program, self.work = program, work
        self.shards = ("--shard", "optimizer") if shards else ()
        self.passed = self.failed = 0
        (work / "text").write_bytes(bytes(random.Random(1).choices(b"abcdefgh ,.\n", k=20000)))
        (work / "model.json").write_text(SPEC)
        self.model = work / "model.sla"
        subprocess.run([program, "compile", work / "model.json", "-o", self.model], check=True, capture_output=True)
        self.whole = work / "whole"
        subprocess.run(self.command(self.whole), check=True, capture_output=True)

    def command(self, run, *words):
        """Returns a training, which begins or resumes a run."""
        return [str(word) for word in (self.program, "train", self.model, "--data", self.work / "text", "--out", run, "--resume",
                                       "--threads", 1, "--steps", STEPS, *self.shards,
                                       *(() if "--save-every" in words else ("--save-every", 3)), *words)]

    def start(self, run, *words, count=3, launcher=(), ranks=None, **options):
        """Starts a training by several processes. `ranks`: a prefix of the command by rank."""
        parts = []
        for rank in range(count if ranks else 1):
            parts += [":"] if parts else []
            parts += ["-n", str(1 if ranks else count), *(ranks or {}).get(rank, ()), *self.command(run, *words)]
        return subprocess.Popen(["mpirun", "--oversubscribe", *launcher, *parts], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors="replace", start_new_session=True, **options)

    def check(self, name, reason, output=""):
        """Counts a run that failed if it has a reason."""
        print("FAIL" if reason else "ok", name, *([reason, output] if reason else []), flush=True)
        self.failed += bool(reason)
        self.passed += not reason

    def find(self, run, rank):
        """Returns the process of a rank; none if it has ended."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path("/proc", name, "cmdline").read_bytes().split(b"\0")
                values = pathlib.Path("/proc", name, "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [str(self.program).encode(), b"train"] and str(run).encode() in words and (
                    f"OMPI_COMM_WORLD_RANK={rank}".encode() in values):
                return int(name)
        return None

    def end(self, process, limit=LIMIT, run=None):
        """Returns the output of a training, with the reason that it did not end. With `run` it has the limit for each step: a machine
        with other work may be slow."""
        begin = time.monotonic()
        steps = -1
        while True:
            try:
                output = process.communicate(timeout=limit)[0]
                return output, "", time.monotonic() - begin
            except subprocess.TimeoutExpired:
                before, steps = steps, count_steps(run) if run else -1
                if steps > before:
                    continue
            os.killpg(process.pid, signal.SIGTERM)
            try:
                output = process.communicate(timeout=20)[0]
            except subprocess.TimeoutExpired:
                trial_machines.kill_left(self)
                output = process.communicate()[0]
            return output, f"still running after {limit} s", limit

    def has_whole_weights(self, run):
        return all(filecmp.cmp(run / "checkpoints" / str(STEPS) / name, self.whole / "checkpoints" / str(STEPS) / name, shallow=False)
                   for name in ("weights.safetensors", "optimizer.safetensors"))

    def resume(self, run):
        """Continues a run on 3 and on 2 processes to its end. Returns a reason if it fails."""
        copy = pathlib.Path(f"{run}-2")
        if run.exists():
            shutil.copytree(run, copy)
        for count, again in ((3, run), (2, copy)):
            process = self.start(again, "--log-every", 1, count=count)
            output, reason, _ = self.end(process, run=again)
            if reason or process.returncode != 0:
                return f"resumed on {count}: {reason or process.returncode} {output}"
            if not self.has_whole_weights(again):
                return f"resumed on {count}: other weights"
        shutil.rmtree(run)
        shutil.rmtree(copy)
        return ""

    def wait_for_steps(self, run, process, lines=4):
        """Waits until a training has logged steps."""
        while process.poll() is None and count_steps(run) < lines:
            time.sleep(0.01)


def count_steps(run):
    metrics = run / "metrics.jsonl"
    return metrics.read_text().count("\n") if metrics.exists() else 0


def is_saving(run):
    try:
        return any(name.startswith(".tmp-") for name in os.listdir(run / "checkpoints"))
    except OSError:
        return False


# Messages of rank 1 without memory: its own, mpirun's, and the dynamic linker's, which begins before there is a rank.
NO_MEMORY = r"rank 1|\[\[\d+,1\],1\]|error while loading shared libraries"


def kill_during(trial, run, rank, moment, saves):
    """Kills a process of a new training after some seconds, or during the first checkpoint after them. Returns none if it ended before."""
    process = trial.start(run, "--log-every", 1)
    moment += time.monotonic()
    while time.monotonic() < moment and process.poll() is None:
        time.sleep(0.002)
    victim = trial.find(run, rank)
    while saves and victim is not None and process.poll() is None and not is_saving(run):
        pass
    if victim is not None and process.poll() is None:
        os.kill(victim, signal.SIGKILL)
        return process
    trial.end(process)
    shutil.rmtree(run, ignore_errors=True)
    return None


def try_kills(trial, runs, draw):
    """Kills a process of 3 at a random moment, every second time during a checkpoint."""
    cut = early = 0
    for number in range(runs):
        run, rank, saves = trial.work / f"kill-{number}", draw.randrange(3), number % 2 == 1
        process = None
        while process is None:
            process = kill_during(trial, run, rank, draw.uniform(0.2, 2), saves)
        output, reason, seconds = trial.end(process)
        cut += is_saving(run)
        if not reason and f"rank {rank}" not in output:
            reason = "no message with the rank"
        if not reason and process.returncode == 0:
            reason = "status 0"
        step = (run / "latest").read_text().strip() if (run / "latest").exists() else "none"
        early += step == "none"
        name = f"killed {number}: rank {rank}{' during a checkpoint' if saves else ''}, {seconds:.1f} s, checkpoint {step}"
        trial.check(name, reason or trial.resume(run), output)
    print(f"{runs} runs with a process that was killed; {cut} left an unfinished checkpoint, {early} had no checkpoint yet")


def poison(trial, run, process):
    """Overwrites the weights in the memory of rank 1 with NaN, where it has those of the newest checkpoint."""
    while process.poll() is None:
        victim = trial.find(run, 1)
        if victim is None:
            continue
        os.kill(victim, signal.SIGSTOP)
        time.sleep(0.5)  # rank 0 saves or waits
        weights = run / "checkpoints" / (run / "latest").read_text().strip() / "weights.safetensors"
        row = weights.read_bytes()[-4096:-4032]
        places = []
        with open(f"/proc/{victim}/maps") as maps, open(f"/proc/{victim}/mem", "r+b", buffering=0) as memory:
            for line in maps:
                words = line.split()
                if "rw" not in words[1] or words[-1].startswith("[v"):
                    continue
                begin, end = (int(text, 16) for text in words[0].split("-"))
                try:
                    memory.seek(begin)
                    at = memory.read(end - begin).find(row)
                except OSError:
                    continue
                if at >= 0:
                    places.append(begin + at)
            for place in places:
                memory.seek(place)
                memory.write(b"\xff\xff\xff\x7f" * 16)
        os.kill(victim, signal.SIGCONT)
        if places:
            return
        time.sleep(0.05)


def try_faults(trial, draw):
    """Stops a process, exhausts memory and disk, stores a NaN, and interrupts mpirun twice."""
    def disturb(name, text, act, *words, statuses=(1,), limit=LIMIT, resumes=True, **options):
        run = options.pop("run", trial.work / name.replace(" ", "-"))
        process = trial.start(run, "--log-every", 1, *words, **options)
        if act:
            trial.wait_for_steps(run, process)
            act(run, process)
        output, reason, seconds = trial.end(process, limit)
        if not reason and process.returncode not in statuses:
            reason = f"status {process.returncode}"
        if not reason and not any(each in output for each in ([text] if isinstance(text, str) else text)):
            reason = "no message: " + str(text)
        trial.check(f"{name}: {seconds:.1f} s, status {process.returncode}", reason or (resumes and trial.resume(run)), output)

    def send(rank, number):
        return lambda run, process: os.kill(trial.find(run, rank), number)

    for rank in range(3):
        disturb(f"stopped rank {rank}", "not answered rank", send(rank, signal.SIGSTOP), "--wait-limit", 5)
    # Less and less memory for rank 1: some of it is needed to start at all, and MPI starts with less than it needs.
    for megabytes in (700, 500, 450, 425, 410, 400, 390, 320, 250, 180, 120):
        run = trial.work / f"memory-{megabytes}"
        limited = {1: ("bash", "-c", f'ulimit -v {megabytes << 10}; exec "$@"', "bash")}
        process = trial.start(run, ranks=limited)
        output, reason, seconds = trial.end(process)
        if not reason and process.returncode != 0 and not re.search(NO_MEMORY, output):
            reason = "no message with the rank"
        trial.check(f"memory of {megabytes} MB for rank 1: {seconds:.1f} s, status {process.returncode}", reason or trial.resume(run), output)

    def take_memory(run, process):
        resource.prlimit(trial.find(run, 1), resource.RLIMIT_AS, (1 << 20, 1 << 20))

    run = trial.work / "memory-later"
    process = trial.start(run, "--log-every", 1)
    trial.wait_for_steps(run, process)
    if process.poll() is None:
        take_memory(run, process)
    output, reason, seconds = trial.end(process)
    if not reason and process.returncode != 0 and "rank 1" not in output:
        reason = "no message with the rank"
    trial.check(f"no more memory for rank 1: {seconds:.1f} s, status {process.returncode}", reason or trial.resume(run), output)

    disk = trial.work / "disk"
    disk.mkdir()
    if os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk]).returncode == 0:
        try:
            run = disk / "run"
            process = trial.start(run, "--log-every", 1)
            output, reason, seconds = trial.end(process)
            if not reason and (process.returncode != 1 or "No space left" not in output):
                reason = "no message"
            moved = trial.work / "full-disk"
            if run.exists():
                shutil.copytree(run, moved)
        finally:
            subprocess.run(["umount", "-l", disk], check=True)
        trial.check(f"full disk: {seconds:.1f} s, status {process.returncode}", reason or trial.resume(moved), output)
    else:
        print("no tmpfs could be mounted: a full disk is not tried")
    # With shards all processes gather the numbers of a rank's own weights.
    texts = ("rank 1", "expected finite numbers") if trial.shards else "rank 1"
    disturb("NaN on rank 1", texts, lambda run, process: poison(trial, run, process), "--save-every", 1)

    def interrupt_twice(run, process):
        process.send_signal(signal.SIGINT)
        time.sleep(draw.uniform(0.05, 0.8))
        if process.poll() is None:
            process.send_signal(signal.SIGINT)  # mpirun ends at once, without a message; the others may end later
        process.wait()
        end = time.monotonic() + 20
        while time.monotonic() < end and any(trial.find(run, rank) for rank in range(3)):
            time.sleep(0.1)

    for number in range(10):
        disturb(f"second Ctrl-C {number}", "step 1/", interrupt_twice, statuses=(1, 130, 137, 143))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", action="store_true")
    parser.add_argument("trials", nargs="*")
    flags = parser.parse_args()
    trials = flags.trials or ["divisions", "kills", "faults", "network", "slurm"]
    with tempfile.TemporaryDirectory(prefix="sluice-trial-", ignore_cleanup_errors=True) as folder:
        trial = Trial(flags.program, pathlib.Path(folder), flags.shard)
        if "divisions" in trials:
            trial_divisions.try_divisions(trial)
        if "kills" in trials:
            try_kills(trial, flags.runs, random.Random(flags.seed))
        if "faults" in trials:
            try_faults(trial, random.Random(flags.seed))
        if "network" in trials:
            trial_machines.try_network(trial)
        if "slurm" in trials:
            trial_machines.try_slurm(trial)
        print(f"{trial.passed} passed, {trial.failed} failed")
        return trial.failed > 0


sys.exit(main())
