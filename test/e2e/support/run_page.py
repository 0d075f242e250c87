# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the commands of a page of docs/, and compares what they print with the page.

Usage: run_page.py PAGE ROOT WORK STEPS

A block ```json or ```python is the file that the text before it names last, in backquotes. A block ```console has commands after "$ ", then what they
print, standard error included: each line of the page must be printed, in this order, with any numbers. "..." stands for any lines,
"^C" interrupts the command once it has printed the line before, "(exit status N)" is the status if it is not 0. A block whose commands have
no lines may print anything. A line that ends in "..." is the start of what is printed. `--steps N` becomes `--steps STEPS`, which keeps the test short.
"""
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

LIMIT = 300  # seconds of a command, on a busy machine


def mask(line):
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "N", line)).strip()


class Session:
    """A shell whose folder and environment last from command to command."""

    def __init__(self, folder):
        self.folder, self.environment = folder, dict(os.environ)

    def run(self, command, interrupt_after=None):
        state = self.folder_of_state / "state"
        script = f'{command}\nstatus=$?\n{{ pwd; echo "$PATH"; }} > {state}\nexit $status'
        process = subprocess.Popen(["bash", "-c", script], cwd=self.folder, env=self.environment, text=True, errors="replace",
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        printed = []
        for line in process.stdout:
            printed.append(line.rstrip("\n"))
            if interrupt_after and mask(line) == interrupt_after:
                os.killpg(process.pid, signal.SIGINT)
                interrupt_after = None
        status = process.wait(LIMIT)
        if state.exists():
            folder, path = state.read_text().split("\n")[:2]
            self.folder, self.environment["PATH"] = Path(folder), path
        return printed, status


def parse(text):
    """Yields ("file", name, contents) and ("run", command, lines)."""
    for block in re.finditer(r"^```(json|python|console)\n(.*?)^```", text, re.S | re.M):
        if block[1] != "console":
            yield "file", re.findall(r"`([\w.-]+)`", text[: block.start()])[-1], block[2]
            continue
        command, lines = None, []
        for line in block[2].splitlines():
            if line.startswith("$ "):
                if command:
                    yield "run", command, lines
                command, lines = line[2:], []
            else:
                lines.append(line)
        yield "run", command, lines


def compare(command, lines, printed, status):
    """What differs from the page, or None."""
    expected = 0
    if lines and (match := re.fullmatch(r"\(exit status (\d+)\)", lines[-1])):
        expected, lines = int(match[1]), lines[:-1]
    if status != expected:
        return f"exit status {status}, the page has {expected}:\n" + "\n".join(printed[-8:])
    at, masked = 0, [mask(line) for line in printed]
    for line in lines:
        if line in ("...", "^C"):
            continue
        start, wanted = line.endswith("..."), mask(line.removesuffix("..."))
        places = (i for i in range(at, len(masked)) if masked[i] == wanted or start and masked[i].startswith(wanted))
        found = next(places, None)
        if found is None:
            return f"the page has the line\n    {line}\nprinted:\n" + "\n".join("    " + each for each in printed[-30:])
        at = found + 1
    return None


def main(page, root, work, steps):
    # The page starts in the root of a clone; its commands only read these.
    for name in ("README.md", "docs"):
        (work / name).symlink_to(root / name)
    (work / "build").mkdir()
    (work / "build/bin").symlink_to(root / "build/bin")
    session, bad = Session(work), 0
    session.folder_of_state = work
    for kind, name, contents in parse(page.read_text()):
        if kind == "file":
            (session.folder / name).write_text(contents)
            continue
        before = contents.index("^C") - 1 if "^C" in contents else None
        while before is not None and contents[before] == "...":
            before -= 1
        command = re.sub(r"--steps \d+", f"--steps {steps}", name)
        printed, status = session.run(command, mask(contents[before]) if before is not None else None)
        problem = compare(name, contents, printed, status)
        print(f"ok {page.name}: {name}" if problem is None else f"FAIL {page.name}: {name}\n  {problem}", flush=True)
        bad += problem is not None
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])))
