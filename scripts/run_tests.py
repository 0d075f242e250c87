#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs every test of a finished build in one pool of workers, one per processor, the longest first: unit programs, lit tests and
end-to-end scripts. Long unit programs and the lit tests run in shards, so that no processor idles at the end.

Closes with a line "N passed, N failed"; exit status 0 only if no test failed and each kind ran. A program that dies counts as a failure.
Writes to build/test-results: what each job printed, times.txt (processor seconds of each program and script) and cases.txt (wall
seconds of each case). The order of the next run follows its predecessor's times.txt; without one it follows test/times.txt.

Usage: scripts/run_tests.py [--quick] [NAME...]     NAME: run only these programs and scripts; a pattern such as 'sluice-cuda-*'
"""
import collections
import concurrent.futures
import dataclasses
import fnmatch
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
RESULTS = BUILD / "test-results"
LIT = "/usr/lib/llvm-22/bin/lit"
KINDS = ("unit", "lit", "end-to-end")
SHARD_SECONDS = 40  # seconds of each shard of a sharded program
LIMIT_SECONDS = 3600  # a job that takes longer hangs: it is killed, and counts as a failure
UNKNOWN_SECONDS = 20  # of a program without a recorded time
UNKNOWN_SLOW_SECONDS = 150  # of a .slow.sh


@dataclasses.dataclass
class Job:
    kind: str
    name: str  # of the program or script; shards share it
    shard: int
    shards: int
    command: list
    weight: float
    environment: dict = dataclasses.field(default_factory=dict)
    status: int = 0
    seconds: float = 0  # of processor time, with all children
    passed: int = 0
    failed: int = 0
    cases: list = dataclasses.field(default_factory=list)  # (wall seconds, name)

    @property
    def label(self):
        return self.name if self.shards == 1 else f"{self.name} {self.shard + 1} of {self.shards}"

    @property
    def stem(self):
        return RESULTS / (self.name if self.shards == 1 else f"{self.name}.{self.shard + 1}-of-{self.shards}")

    def path(self, suffix):
        return self.stem.with_name(self.stem.name + suffix)


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def read_times(path):
    """Processor seconds by name; empty where there is no such file."""
    if not path.exists():
        return {}
    lines = (line.split(maxsplit=1) for line in path.read_text().splitlines()
             if line.strip() and not line.startswith("#"))
    return {name: float(seconds) for seconds, name in lines}


def shards_of(seconds):
    return max(1, math.ceil(seconds / SHARD_SECONDS))


def sharded(kind, name, seconds, command_of):
    """The jobs of one program. `command_of(shard, shards, job)` returns its command line."""
    count = shards_of(seconds)
    for shard in range(count):
        job = Job(kind, name, shard, count, [], seconds / count)
        job.command = command_of(job)
        yield job


def unit_jobs(times, quick):
    def command_of(job):
        job.environment = {"GTEST_TOTAL_SHARDS": str(job.shards), "GTEST_SHARD_INDEX": str(job.shard)}
        only = ["--gtest_filter=-*Slow*"] if quick else []
        return [str(BUILD / "tests" / job.name), "--gtest_brief=1", f"--gtest_output=json:{job.path('.json')}", *only]

    for program in sorted((BUILD / "tests").iterdir()):
        if program.is_file() and os.access(program, os.X_OK):
            yield from sharded("unit", program.name, times.get(program.name, UNKNOWN_SECONDS), command_of)


def lit_jobs(times, quick):
    def command_of(job):
        only = ["-Dquick=1"] if quick else []
        return [LIT, "-q", "-j1", "--order=lexical", "--skip-test-time-recording", f"--num-shards={job.shards}",
                f"--run-shard={job.shard + 1}", f"--output={job.path('.json')}", *only, str(BUILD / "test")]

    yield from sharded("lit", "lit", times.get("lit", UNKNOWN_SECONDS), command_of)


def script_jobs(times, quick):
    for script in sorted((ROOT / "test/e2e").glob("*.sh")):
        if not (quick and script.name.endswith(".slow.sh")):
            unknown = UNKNOWN_SLOW_SECONDS if script.name.endswith(".slow.sh") else UNKNOWN_SECONDS
            yield Job("end-to-end", script.name, 0, 1, ["bash", str(script)], times.get(script.name, unknown))


def run(job, running):
    """Runs a job in a process group of its own and records its status, its processor time and what it printed."""
    folder = job.path(".tmp")
    folder.mkdir()
    environment = os.environ | {"TEST_TMPDIR": str(folder)} | job.environment
    with open(job.path(".txt"), "w") as output, subprocess.Popen(
            job.command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=ROOT,
            start_new_session=True) as process:
        running.add(process.pid)
        timer = threading.Timer(LIMIT_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        running.discard(process.pid)
        process.returncode = job.status = os.waitstatus_to_exitcode(status)
    job.seconds = usage.ru_utime + usage.ru_stime
    shutil.rmtree(folder, ignore_errors=True)
    COUNTS[job.kind](job)
    return job


def read_results(job):
    """What a program or lit wrote; nothing where it died before."""
    try:
        return json.loads(job.path(".json").read_text())
    except (OSError, ValueError):
        return None


def count_unit(job):
    result = read_results(job)
    if result is None:
        job.failed = 1
        return
    ran = [case for suite in result["testsuites"] for case in suite["testsuite"] if case["result"] == "COMPLETED"]
    job.failed = sum("failures" in case for case in ran)
    job.passed = len(ran) - job.failed
    job.cases = [(float(case["time"].rstrip("s")), f"{job.name} {case['classname']}.{case['name']}") for case in ran]
    # A failure outside every test (a crash at exit, a sanitizer) must fail the job too.
    if job.failed == 0 and job.status != 0:
        job.failed = 1


def count_lit(job):
    result = read_results(job)
    if result is None:
        job.failed = 1
        return
    good = {"PASS", "FLAKYPASS", "XFAIL"}
    codes = collections.Counter(test["code"] for test in result["tests"])
    job.passed = sum(codes[code] for code in good)
    job.failed = sum(codes.values()) - sum(codes[code] for code in good | {"UNSUPPORTED", "SKIPPED", "EXCLUDED"})
    job.cases = [(test["elapsed"] or 0, f"lit {test['name']}") for test in result["tests"]]


def count_script(job):
    """A script prints "ok NAME" and "FAIL NAME" lines; anything else that it prints is for the reader."""
    lines = job.path(".txt").read_text(errors="replace").splitlines()
    job.passed = sum(line.startswith("ok ") for line in lines)
    job.failed = sum(line.startswith("FAIL ") for line in lines)
    if job.failed == 0 and (job.status != 0 or job.passed == 0):
        job.failed = 1


COUNTS = {"unit": count_unit, "lit": count_lit, "end-to-end": count_script}


def run_all(jobs):
    running = set()
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        waiting = [pool.submit(run, job, running) for job in sorted(jobs, key=lambda job: -job.weight)]
        try:
            for done, future in enumerate(concurrent.futures.as_completed(waiting), 1):
                job = future.result()
                if job.failed:
                    sys.stderr.write(job.path(".txt").read_text(errors="replace"))
                say(f"{done} of {len(jobs)}, {time.monotonic() - started:.0f} s: {job.label}: {job.passed} passed, {job.failed} failed"
                    f" ({job.seconds:.0f} s of processor time" + (f", status {job.status})" if job.status else ")"))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for group in list(running):
                os.killpg(group, signal.SIGTERM)
            raise
    return time.monotonic() - started


def write_times(path, title, times):
    lines = [f"{seconds:.1f} {name}" for seconds, name in sorted(times, key=lambda pair: (-pair[0], pair[1]))]
    path.write_text(f"# {title}\n" + "\n".join(lines) + "\n")
    return lines


def report(jobs, wall, kinds):
    """Prints the counts of each kind and the slowest programs and cases; returns how many tests passed and failed."""
    totals = collections.Counter()
    for job in jobs:
        totals[job.name] += job.seconds
    slowest = write_times(RESULTS / "times.txt", "processor seconds, name", [(seconds, name) for name, seconds in totals.items()])
    cases = write_times(RESULTS / "cases.txt", "wall seconds, program, case", [case for job in jobs for case in job.cases])
    say("slowest programs, in processor seconds: " + "; ".join(slowest[:12]))
    say("slowest cases, in wall seconds: " + "; ".join(cases[:12]))
    passed = failed = 0
    for kind in kinds:
        mine = [job for job in jobs if job.kind == kind]
        good, bad = sum(job.passed for job in mine), sum(job.failed for job in mine)
        if good + bad == 0:  # so that no test disappears unnoticed
            say(f"no {kind} test ran")
            bad = 1
        say(f"{kind}: {good} passed, {bad} failed ({sum(job.seconds for job in mine):.0f} s of processor time)")
        passed += good
        failed += bad
    say(f"{wall:.0f} s, of them {sum(totals.values()):.0f} s of processor time")
    return passed, failed


def main(arguments):
    quick = "--quick" in arguments
    names = [argument for argument in arguments if argument != "--quick"]
    times = read_times(ROOT / "test/times.txt") | read_times(RESULTS / "times.txt")
    cache = BUILD / "test-kernel-cache"
    for folder in (RESULTS, cache):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    # Scripts start Python hundreds of times. Where "python3" is a script that selects a Python (pyenv), that takes twice as long.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ["SLUICE_KERNEL_CACHE"] = str(cache)
    os.environ["SLUICE_KERNEL_CACHE_SIZE"] = "16GiB"  # never reached, so runs are reproducible
    jobs = [*unit_jobs(times, quick), *lit_jobs(times, quick), *script_jobs(times, quick)]
    kinds = KINDS
    if names:
        jobs = [job for job in jobs if any(fnmatch.fnmatchcase(job.name, name) for name in names)]
        kinds = [kind for kind in KINDS if any(job.kind == kind for job in jobs)]
    passed, failed = report(jobs, run_all(jobs), kinds)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
