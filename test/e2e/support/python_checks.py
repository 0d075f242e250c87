# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the checks of the package sluice share. A program that uses them has the arguments ROOT WORK."""

import faulthandler
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import sluice

ROOT, WORK = Path(sys.argv[1]), Path(sys.argv[2])
PROGRAM = ROOT / "build/bin/sluice"
TINY = ROOT / "models/tiny"
failures = 0
# A process that a shell starts in the background ignores SIGINT, and a check of Ctrl-C would then wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


def check(name, holds, detail=""):
    global failures
    failures += not holds
    print(f"ok {name}" if holds else f"FAIL {name}\n  {detail}", flush=True)


def raises(name, kind, action, *parts):
    """Checks that `action` raises exactly `kind`, with `parts` in its message."""
    try:
        result = action()
    except Exception as error:
        message = str(error)
        check(name, type(error) is kind and all(part in message for part in parts), repr(error))
        return error
    check(name, False, f"no exception, but {result!r}")
    return None


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{arguments}: {done.stderr}")
    return done.stdout


def compile_tiny(name):
    path = WORK / f"{name}.sla"
    if not path.exists():
        sluice.compile(TINY / f"{name}.json", path)
    return path


def make_batch(model, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, model.vocabulary, (model.batch_rows, model.context + 1), dtype=np.int32)


def run_parts(parts):
    """Runs functions. One that takes longer than its limit in seconds ends the process with the stacks of its threads."""
    for part, limit in parts:
        faulthandler.dump_traceback_later(limit, exit=True)
        begin = time.monotonic()
        part()
        faulthandler.cancel_dump_traceback_later()
        print(f"# {part.__name__}: {time.monotonic() - begin:.1f} s", flush=True)


def count_failures():
    return failures
