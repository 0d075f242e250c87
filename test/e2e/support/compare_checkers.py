# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the verdicts of the prover, the independent checker and Z3 on every model.

usage: compare_checkers.py ROOT WORK   prints one line per model with different verdicts, then the number of models; status 1 for
a difference. ROOT is the repository, WORK a folder for what is written.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

TIMEOUT_S, TIMEOUT_QUERY_MS = 60, 20000
root, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
programs = root / "build" / "bin"


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def run_z3(path):
    """Returns 'as expected' or 'otherwise', since each query states its expected answer, or else the error."""
    expected = re.findall(r"\(set-info :status (\w+)\)\n\(check-sat\)", path.read_text())
    result = run("z3", f"-T:{TIMEOUT_S}", f"-t:{TIMEOUT_QUERY_MS}", path)
    lines = result.stdout.split("\n")[:-1]
    found = [line for line in lines if line in ("sat", "unsat", "unknown")]
    # z3 also reports by itself where an answer is not the one that the file states.
    talk = [line for line in lines if line not in found and "check annotation that says" not in line]
    if talk or not expected or len(found) != len(expected) or "unknown" in found:
        return f"{len(expected)} queries, {len(found)} answers, {found.count('unknown')} unknown: {talk[:3]} {result.stderr[:300]}"
    return "as expected" if found == expected else "otherwise"


def compare(numbered):
    """Returns the difference of the verdicts; empty if they agree."""
    number, model = numbered
    smt, certificate = work / f"{number}.smt2", work / f"{number}.certificate"
    is_spec = model.suffix == ".json"
    check = run(programs / "sluice", "check", model, "--json", "--no-replay", "--no-advice", "--smt", smt, *(["--certificate", certificate] if is_spec else []))
    if check.returncode not in (0, 1):
        return f"check ended with status {check.returncode}: {check.stderr[-300:]}"
    verdict, answers = json.loads(check.stdout), run_z3(smt)
    if check.returncode == 1 and certificate.exists():
        return "a certificate was written, but the model is not proved"
    # All obligations may hold for a model that generates or trains something other than the proved function.
    holds = check.returncode == 0 or verdict["verdict"] == "misaligned" or verdict["refused_mode"] == "generate"
    if answers != ("as expected" if holds else "otherwise"):
        return f"check says {verdict['verdict']}, z3 answers {answers}"
    if check.returncode == 0 and is_spec:
        certified = run(programs / "sluice-certify", model, certificate)
        return "" if certified.returncode == 0 else f"check proves, but: {certified.stderr}"
    return ""


# Many rows of the papers' tables differ in sizes only: one per kind.
CHOSEN = set((root / "test/paper-sample.txt").read_text().split())
models = sorted(path for folder in ("models", "test/causality/causal", "test/causality/leaky", "test/causality/segments")
                for path in (root / folder).rglob("*")
                if path.suffix in (".json", ".mlir") and (path.parent.name != "papers" or path.stem in CHOSEN))
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    differences = [f"{model}: {what}" for model, what in zip(models, pool.map(compare, enumerate(models))) if what]
print("\n".join(differences + [f"{len(models)} models"]))
sys.exit(bool(differences) or len(models) < 100)
