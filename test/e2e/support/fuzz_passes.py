# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutants of IR through passes: whatever verifies must never crash one, nor keep it busy without end.

Usage: fuzz_passes.py SLUICE_OPT IR COUNT SEED FOLDER PIPELINE...
A pipeline is pass flags joined by '+'. Each mutant is of one of IR's modules. Prints what crashed, then how many mutants verified; status 1
where one crashed, or where of many few verify. The mutant of a crash stays in FOLDER.
"""
import random
import re
import resource
import subprocess
import sys
from pathlib import Path

NUMBERS = [0, 1, -1, 2, 3, 7, 100, 2**31, 2**40, 2**63 - 1, -(2**63)]
WORDS = [("f32", "bf16"), ("f32", "i32"), ("bf16", "f32"), ("@s1", "@s4"), ("@s4", "@s1"), ("@target", "@s1")]


def replace(line, pattern, choose, first=0):
    """One match of `pattern`, from the one numbered `first` on, becomes choose(); None where there is none."""
    matches = list(re.finditer(pattern, line))[first:]
    if not matches:
        return None
    match = DRAW.choice(matches)
    return line[: match.start()] + choose() + line[match.end():]


def change(lines, i, text):
    """One random edit at line i."""
    line = lines[i]
    kind = DRAW.randrange(7)
    if kind == 0:
        if line.strip() and not line.strip().startswith(("module", "func", "}")):
            del lines[i]
        return
    if kind == 1:
        after = replace(line, r"(?<![%@\w.#])-?\d+", lambda: str(DRAW.choice(NUMBERS)))
    elif kind == 2:
        after = replace(line, r"[\w.]+ = [^,{}<>]+(, )?", lambda: "") if "{" in line else None
    elif kind == 3:
        after = replace(line, r"%[\w#]+", lambda: DRAW.choice(re.findall(r"%[\w#]+", text)), first=1)
    elif kind == 4:
        after = replace(line, r"@[\w.]+", lambda: DRAW.choice(re.findall(r"@[\w.]+", text) + ["@nowhere"]))
    elif kind == 5:
        after = line.replace(*DRAW.choice(WORDS))
    else:
        after = lines[min(i + 1, len(lines) - 1)]
        lines[min(i + 1, len(lines) - 1)] = line
    if after is not None:
        lines[i] = after


def mutate(text):
    lines = text.split("\n")
    for _ in range(DRAW.choice([1, 1, 1, 2])):
        change(lines, DRAW.randrange(len(lines)), text)
    return "\n".join(lines)


def limit_time():
    """A minute of processor time, however busy the machine is."""
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


def run(flags, path):
    """Exit status, and the frames of Sluice's code where it crashed."""
    command = [OPT, path, *flags, "-o", "/dev/null"]
    result = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit_time)
    return result.returncode, [line for line in result.stderr.split("\n") if "sluice::" in line or "Assert" in line][:4]


OPT, source, count, seed, folder = sys.argv[1:6]
pipelines = [[f"--{flag}" for flag in pipeline.split("+")] for pipeline in sys.argv[6:]]
DRAW = random.Random(int(seed))
modules = Path(source).read_text().split("// -----")
verified = crashed = 0
for number in range(int(count)):
    path = Path(folder) / f"mutant-{number}.mlir"
    path.write_text(mutate(DRAW.choice(modules)))
    status, frames = run([], path)
    verified += status == 0
    isCrash = False
    for flags in [[]] if status not in (0, 1) else pipelines if status == 0 else []:
        status, frames = run(flags, path)
        if status not in (0, 1):
            print(f"{path}: {' '.join(flags) or 'the verifier'} ended with status {status}", *frames, sep="\n  ", file=sys.stderr)
            isCrash = True
    crashed += isCrash
    if not isCrash:
        path.unlink()
print(f"{verified} of {count} mutants verified")
sys.exit(crashed > 0 or (int(count) >= 8 and verified < int(count) // 4))
