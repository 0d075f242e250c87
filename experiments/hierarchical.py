#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hierarchical encoder-decoders (Mujika 2023): a transformer over chunks, and half of the training by an implicit embedding matrix.

Specs: `models/papers/haed-*`, every width but the embedding's scaled by 128/356, heads of 32. Texts of 512 bytes, four a step; pictures of
3,072 bytes, one a step. All weights have one learning rate, without groups.

- transformer: HRED with transformer against HRED, at equal steps.
- implicit: phase 1 (the implicit embedding matrix) on the first half of the training data and phase 2 (end to end, from the weights of phase 1)
  on the second half, as many steps each, against end to end on all training data. Both arms get the same processor time.

One thread. Processor seconds of a step are measured first, in three interleaved rounds; the steps of all runs follow from them. The
learning rate of all arms is the one of three with the lowest mean training loss over the arms of the first claim, in the last fifth of a run
with a third of the steps and seed 0. Seeds 1 to 5 are the pairs.

Criterion, fixed before any run: that of lab.py. A finished run is not repeated, so an interrupted experiment continues.

Usage: hierarchical.py [--training FILE --held-out FILE] [--claims NAME...] [--data NAME...] [--seconds N]
Default: the text of scripts/text.sh, both claims, text and pictures, 90 processor seconds a run.
Needs the packages of lab.py and of pictures.py.
"""
import argparse
import functools
import json
import resource
import shutil
import statistics

import lab
import pictures
from matplotlib import pyplot

FOLDER = lab.BUILD / "experiments/hierarchical"
WIDTH, PAPER_WIDTH, EMBEDDING = 128, 356, 10
SIZES = {"text": {"context": 512, "batch": 4}, "pictures": {"context": 3072, "batch": 1}}
HELD_OUT_BYTES = {"text": 50_000, "pictures": 32 * 3072}
RATES = (1e-3, 2e-3, 4e-3)
ROUNDS, SHORT, LONG = 3, 2, 8  # steps of the runs whose difference is the cost of a step
CLAIMS = {"transformer": ("hred-transformer", "hred", "a transformer over chunks is better than an LSTM"),
          "implicit": ("iem-2", "iem-baseline", "half of the training by an implicit embedding matrix is better than none")}
PHASE_1 = "iem-1"
RATE_CLAIM = "transformer"  # its arms choose the learning rate


def scale(width):
    if width == PAPER_WIDTH + EMBEDDING:
        return WIDTH + EMBEDDING
    return 4 * round(width * WIDTH / PAPER_WIDTH / 4)


def spec(data, row, rate):
    """A row's spec at the experiment's size."""
    kind = {"text": "text", "pictures": "image"}[data]
    made = json.loads((lab.ROOT / f"models/papers/haed-{kind}-{row}.json").read_text()) | SIZES[data]
    for stage in made["stages"]:
        stage |= {key: scale(stage[key]) for key in ("width", "columns") if key in stage}
        if "capacity" in stage:  # one segment more than phase 2 with its upsampling, as in the paper's specs
            stage["capacity"] = 0.402 if row == PHASE_1 else 0.4
    if row == PHASE_1:
        made["batch"] *= 1 + made["stages"][-1]["extra_batches"]
    if "defaults" in made:
        heads = round(made["defaults"]["heads"] * WIDTH / PAPER_WIDTH)
        made["defaults"] |= {"heads": heads, "feed_forward": scale(made["defaults"]["feed_forward"])}
    made["training"].pop("groups", None)
    made["training"]["learning_rate"] = rate
    return made


def read_processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def image_flags(data):
    return ("--images", f"{pictures.SIZE}x{pictures.SIZE}x3") if data == "pictures" else ()


def measure_costs(claim, data, training):
    """Processor seconds of a step by row."""
    path = FOLDER / claim / data / "costs.json"
    if path.exists():
        return json.loads(path.read_text())
    rows = [*CLAIMS[claim][:2], *([PHASE_1] if claim == "implicit" else [])]
    artifacts = {row: lab.compile_steps(FOLDER / claim / data / "costs" / row, spec(data, row, RATES[0]), LONG) for row in rows}
    found = {row: [] for row in rows}
    for _ in range(ROUNDS):
        for row in rows:
            seconds = []
            for steps in (SHORT, LONG):
                out = artifacts[row].parent / "run"
                shutil.rmtree(out, ignore_errors=True)
                before = read_processor_seconds()
                lab.run("train", artifacts[row], "--data", training, "--out", out, "--steps", steps, "--threads", 1, *image_flags(data))
                seconds.append(read_processor_seconds() - before)
            found[row].append((seconds[1] - seconds[0]) / (LONG - SHORT))
    costs = {row: statistics.median(seconds) for row, seconds in found.items()}
    if claim == "implicit":  # phase 2 and the baseline have the same kernels
        first, second = CLAIMS[claim][:2]
        costs[first] = costs[second] = (costs[first] + costs[second]) / 2
    path.write_text(json.dumps(costs) + "\n")
    return costs


def choose_steps(claim, costs, seconds):
    """Steps by row: equal ones, or ones that take equal time."""
    first, second = CLAIMS[claim][:2]
    if claim == "transformer":
        return dict.fromkeys((first, second), round(seconds / statistics.mean((costs[first], costs[second]))))
    both = round(seconds / (costs[first] + costs[PHASE_1]))
    return {PHASE_1: both, first: both, second: round(both * (costs[first] + costs[PHASE_1]) / costs[second])}


def split(training, data):
    """Paths of the halves of the training data."""
    halves = [FOLDER / f"{data}-{half}" for half in ("first", "second")]
    whole = training.read_bytes()
    unit = SIZES["pictures"]["context"] if data == "pictures" else 1
    middle = len(whole) // unit // 2 * unit
    for path, part in zip(halves, (whole[:middle], whole[middle:])):
        path.write_bytes(part)
    return halves


@functools.cache
def compile_row(folder, data, row, rate, steps):
    """Path of an artifact, in a folder of its own."""
    return lab.compile_steps(folder / f"{row}-{rate:g}-{steps}", spec(data, row, rate), steps)


def train_row(folder, data, row, rate, steps, seed, training, *more):
    """Artifact, weights, losses by step and processor seconds of a run."""
    artifact = compile_row(folder, data, row, rate, steps)
    folder = artifact.parent
    path = folder / f"seconds-{seed}.json"
    finished = path.exists()
    before = read_processor_seconds()
    out, losses = lab.train(folder, artifact, steps, seed, training, "--threads", 1, *image_flags(data), *more)
    if not finished:
        path.write_text(json.dumps(read_processor_seconds() - before) + "\n")
    return artifact, out, losses, json.loads(path.read_text())


def train_arm(folder, data, arm, rate, steps, seed, training):
    """Artifact, weights, losses of the text or pictures by step, and processor seconds of each phase."""
    if arm != "iem-2":
        *found, seconds = train_row(folder, data, arm, rate, steps[arm], seed, training)
        return *found, [seconds]
    first, second = split(training, data)
    _, weights, _, before = train_row(folder, data, PHASE_1, rate, steps[PHASE_1], seed, first)
    *found, seconds = train_row(folder, data, arm, rate, steps[arm], seed, second, "--weights", weights, "--match", "stages.[0-8].*")
    return *found, [before, seconds]


def choose_rate(data, seconds, training):
    """The rate of all arms, and the mean training losses that decide."""
    folder = FOLDER / RATE_CLAIM / data
    path = folder / "rates.json"
    if not path.exists():
        steps = choose_steps(RATE_CLAIM, measure_costs(RATE_CLAIM, data, training), seconds)
        short = {row: max(1, count // 3) for row, count in steps.items()}
        means = {}
        for rate in RATES:
            runs = [train_arm(folder / "rates", data, arm, rate, short, 0, training)[2] for arm in CLAIMS[RATE_CLAIM][:2]]
            means[rate] = [statistics.mean(losses[-max(1, len(losses) // 5):]) for losses in runs]
            print(f"hierarchical: {data}: rate {rate:g}: training losses {means[rate]}", flush=True)
        path.write_text(json.dumps(means) + "\n")
    means = json.loads(path.read_text())
    return float(min(means, key=lambda rate: sum(means[rate]))), means


def score(data, artifact, weights, held_out):
    found = json.loads(lab.run("eval", artifact, "--weights", weights, "--data", held_out, "--tokens", HELD_OUT_BYTES[data], "--threads", 1,
                               "--json", *image_flags(data)))
    return found["bits_per_dim" if data == "pictures" else "bits_per_byte"]


def compare(claim, data, seconds, training, held_out):
    """Trains both arms for every seed; returns curves for `draw`."""
    folder = FOLDER / claim / data
    folder.mkdir(parents=True, exist_ok=True)
    costs = measure_costs(claim, data, training)
    steps = choose_steps(claim, costs, seconds)
    rate, rates = choose_rate(data, seconds, training)
    print(f"hierarchical: {claim}, {data}: seconds of a step {costs}, steps {steps}, rate {rate:g}", flush=True)
    first, second, text = CLAIMS[claim]
    results = {arm: {"bits_per_byte": [], "seconds": []} for arm in (first, second)}
    curves = {arm: [] for arm in results}
    for seed in lab.SEEDS:
        for arm, result in results.items():
            artifact, weights, losses, spent = train_arm(folder, data, arm, rate, steps, seed, training)
            result["bits_per_byte"].append(score(data, artifact, weights, held_out))
            result["seconds"].append(spent)
            curves[arm].append((sum(spent[:-1]), spent[-1] / len(losses), losses))
            print(f"hierarchical: {claim}, {data}: {arm}, seed {seed}: {result['bits_per_byte'][-1]:.4f} bits per byte after {steps[arm]} steps, "
                  f"{sum(spent):.0f} processor seconds", flush=True)
        if seed > lab.SEEDS[0]:
            verdict = lab.judge(results, first, second, f"{text} ({data})")
            written = {"costs": costs, "steps": steps, "rates": rates, "rate": rate, "arms": results, "claim": verdict}
            (folder / "results.json").write_text(json.dumps(written, indent=1) + "\n")
    return curves


def draw(path, panels):
    """Means of the training losses over the processor time, and over a twentieth of the steps."""
    figure, axes = pyplot.subplots(1, len(panels), figsize=(6 * len(panels), 4), squeeze=False)
    for axis, (data, curves) in zip(axes[0], panels.items()):
        for arm, runs in curves.items():
            start, step = (statistics.mean(run[i] for run in runs) for i in (0, 1))
            means = [statistics.mean(losses) for losses in zip(*(run[2] for run in runs))]
            span = max(1, len(means) // 20)
            places = range(span, len(means) + 1, max(1, span // 4))
            axis.plot([start + (place - span / 2) * step for place in places],
                      [statistics.mean(means[place - span:place]) for place in places], label=arm, linewidth=1)
        axis.set(title=data, xlabel="processor seconds", ylabel="training loss, nats a byte", xlim=(0, None))
        axis.legend()
    figure.savefig(path)
    pyplot.close(figure)


def parse_options():
    parser = argparse.ArgumentParser(description="Hierarchical encoder-decoders.")
    parser.add_argument("--training")
    parser.add_argument("--held-out")
    parser.add_argument("--claims", nargs="+", choices=CLAIMS, default=list(CLAIMS))
    parser.add_argument("--data", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--seconds", type=float, default=90, help="processor time of a run")
    options = parser.parse_args()
    if bool(options.training) != bool(options.held_out):
        parser.error("expected --training and --held-out together")
    return options


def main():
    options = parse_options()
    FOLDER.mkdir(parents=True, exist_ok=True)
    texts = (options.training, options.held_out) if options.training else lab.text()
    files = {"text": [lab.Path(path) for path in texts], "pictures": pictures.make(FOLDER) if "pictures" in options.data else None}
    for claim in options.claims:
        panels = {data: compare(claim, data, options.seconds, *files[data]) for data in options.data}
        draw(FOLDER / claim / "losses.svg", panels)
    lab.report_time("hierarchical")


if __name__ == "__main__":
    main()
