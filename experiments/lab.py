# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the arms of an experiment on the same text, at the same cost, and compares them in pairs.

An arm is a spec. All arms get one budget of floating-point operations, as `sluice inspect` counts those of a training step, and each
seed trains every arm once: seed s draws the same text for all of them. What is compared is the difference in held-out bits per byte
within a seed, by a paired t-test. Results are written as they came out, to build/experiments/NAME/results.json, beside a picture of
the training losses.

Needs SciPy and matplotlib (Debian: python3-scipy, python3-matplotlib).
"""
import json
import os
import resource
import subprocess
from pathlib import Path

import matplotlib
from scipy import stats

matplotlib.use("Agg")
from matplotlib import pyplot

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SLUICE = BUILD / "bin/sluice"
SEEDS = (1, 2, 3, 4, 5)
BUDGET = 6e12  # operations of a run
DEVICE = "cpu"  # or cuda: models then multiply in bf16
HELD_OUT_TOKENS = 100_000


def base(stages, **changes):
    """A spec of the experiments' size: width 128, 512 bytes, four texts a step."""
    spec = {"sluice": 1, "vocabulary": 256, "context": 512, "batch": 4, "width": 128,
            "defaults": {"heads": 4, "activation": "gelu_tanh"}, "stages": stages,
            "training": {"learning_rate": 2e-3, "betas": [0.9, 0.98]}}
    for key, value in changes.items():
        spec[key] = spec[key] | value if isinstance(value, dict) else value
    return spec


def run(*arguments):
    made = subprocess.run([SLUICE, *map(str, arguments)], capture_output=True, text=True)
    if made.returncode:
        raise SystemExit(f"sluice {arguments[0]}: {made.stderr[-1000:]}")
    return made.stdout


def report_time(name):
    """Prints the processor time of everything that this process has run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{name}: {used.ru_utime + used.ru_stime:.0f} seconds of processor time", flush=True)


def text():
    """Paths of training and held-out text."""
    folder = BUILD / "demo"
    subprocess.run([ROOT / "scripts/text.sh", folder], check=True)
    return folder / "training.txt", folder / "held-out.txt"


def compile_steps(folder, spec, steps):
    """Path of an artifact whose schedule has as many steps."""
    path, artifact = folder / "spec.json", folder / "model.sla"
    folder.mkdir(parents=True, exist_ok=True)
    training = spec["training"] | {"schedule": {"kind": "cosine", "warmup": max(1, steps // 10), "steps": steps, "floor": 0.05}}
    path.write_text(json.dumps(spec | {"training": training}, indent=1) + "\n")
    target = ["cpu"] if DEVICE == "cpu" else ["sm_80,sm_90a", "--precision", "bf16"]
    run("compile", path, "-o", artifact, "--target", *target)
    return artifact


def operations(artifact):
    """Of a training step."""
    return json.loads(run("inspect", artifact, "--json"))["step"]["flops"]


def compile_arm(folder, spec, budget):
    """Path of an artifact whose schedule ends with the budget, its steps, and the operations of one."""
    flops = operations(compile_steps(folder, spec, 100))
    steps = round(budget / flops)
    return compile_steps(folder, spec, steps), steps, flops


def train(folder, artifact, steps, seed, training, *more):
    """Weights of a run, and its losses by step; a finished run is taken as it is. more: further flags of `sluice train`."""
    out = folder / f"seed-{seed}"
    stamp = out / "finished"
    key = (folder / "spec.json").read_text()
    if not stamp.exists() or stamp.read_text() != key:
        subprocess.run(["rm", "-rf", out], check=True)
        run("train", artifact, "--data", training, "--out", out, "--steps", steps, "--seed", seed, "--save-every", steps, "--keep", 1,
            "--device", DEVICE, *more)
        stamp.write_text(key)
    return out, [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]


def compare(name, arms, pairs, budget=BUDGET):
    """Trains `arms` (spec by name) for every seed and prints and writes what came out.

    pairs: (name, name, claim) where the claim is that the first arm has fewer bits per byte. Criterion, fixed before any run: it is
    borne out where the mean difference is below 0 with p < 0.05 in a two-sided paired t-test over the seeds, contradicted where it is
    above 0 with p < 0.05, and open otherwise.
    """
    folder = BUILD / "experiments" / name
    training, held_out = text()
    results, curves = {}, {}
    for arm, spec in arms.items():
        artifact, steps, flops = compile_arm(folder / arm, spec, budget)
        bits = []
        for seed in SEEDS:
            out, losses = train(folder / arm, artifact, steps, seed, training)
            found = json.loads(run("eval", artifact, "--weights", out, "--data", held_out, "--tokens", HELD_OUT_TOKENS, "--json"))
            bits.append(found["bits_per_byte"])
            curves.setdefault(arm, []).append(losses)
            print(f"{name}: {arm}, seed {seed}: {bits[-1]:.4f} bits per byte after {steps} steps", flush=True)
        results[arm] = {"steps": steps, "operations": steps * flops, "bits_per_byte": bits}
    costs = [result["operations"] for result in results.values()]
    if max(costs) > 1.02 * min(costs):
        raise SystemExit(f"expected costs within 2%, found {min(costs):.3g} to {max(costs):.3g} operations")
    verdicts = [judge(results, *pair) for pair in pairs]
    (folder / "results.json").write_text(json.dumps({"arms": results, "claims": verdicts}, indent=1) + "\n")
    draw(folder / "losses.svg", curves)
    report_time(name)
    return results


def judge(results, first, second, claim):
    """What `compare` says of a pair. results: {"bits_per_byte": a number a seed} by name."""
    ours, theirs = results[first]["bits_per_byte"], results[second]["bits_per_byte"]
    test = stats.ttest_rel(ours, theirs)
    difference = sum(ours) / len(ours) - sum(theirs) / len(theirs)
    verdict = "open" if test.pvalue >= 0.05 else "borne out" if difference < 0 else "contradicted"
    print(f"{claim}: {first} {sum(ours) / len(ours):.4f}, {second} {sum(theirs) / len(theirs):.4f}, difference {difference:+.4f}, "
          f"p {test.pvalue:.2g}: {verdict}", flush=True)
    return {"claim": claim, "first": first, "second": second, "difference": difference, "p": test.pvalue, "verdict": verdict}


def draw(path, curves):
    """Means of the arms' losses over the share of the budget that is spent."""
    figure, axes = pyplot.subplots(figsize=(6, 4))
    for arm, runs in curves.items():
        means = [sum(losses) / len(losses) for losses in zip(*runs)]
        axes.plot([(step + 1) / len(means) for step in range(len(means))], means, label=arm, linewidth=1)
    axes.set(xlabel="share of the operations", ylabel="training loss, nats a byte", ylim=(1.2, 4))
    axes.legend()
    figure.savefig(path)
    pyplot.close(figure)


os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
matplotlib.rcParams["svg.hashsalt"] = "sluice"
