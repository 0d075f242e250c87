#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hierarchical encoder-decoders (Mujika 2023): a transformer over chunks, and half of the training by an implicit embedding matrix.

Specs: `models/papers/haed-*`, every width but the embedding's scaled by 128/356, heads of 32. Texts of 512 bytes, four a step; pictures of
3,072 bytes, one a step. Weights of the transformers have 0.175 of the others' learning rate, as in the paper.

- transformer: HRED with transformer against HRED, at equal steps.
- implicit: phase 1 (the implicit embedding matrix) on the first half of the training data and phase 2 (end to end, from the weights of phase 1)
  on the second half, as many steps each, against end to end on all training data. Both arms get the same time.

Time is steps times the measured time of one: processor seconds on a CPU, with one thread; wall time on a GPU with nothing else running. All
steps are measured first, in three interleaved rounds. Each arm of each claim has the learning rate with the lowest mean training loss in the
last fifth of a run with a third of the steps and seed 0. Seeds 1 to 5 are the pairs.

Criterion, fixed before any run: that of lab.py. A finished run is not repeated, so an interrupted experiment continues.

Usage: hierarchical.py [--training FILE --held-out FILE] [--claims NAME...] [--data NAME...] [--seconds N] [--device cpu|cuda] [--jobs N]
Default: the text of scripts/text.sh, both claims, text and pictures, 90 seconds a run, on the CPU, one run at a time.
Needs the packages of lab.py and of pictures.py.
"""
import argparse
import functools
import itertools
import json
import resource
import shutil
import statistics
import threading
from concurrent.futures import ThreadPoolExecutor

import lab
import pictures
from matplotlib import pyplot

FOLDER = lab.BUILD / "experiments/hierarchical"
WIDTH, PAPER_WIDTH, EMBEDDING = 128, 356, 10
SIZES = {"text": {"context": 512, "batch": 4}, "pictures": {"context": 3072, "batch": 1}}
HELD_OUT_BYTES = {"text": 50_000, "pictures": 32 * 3072}
PAPER_RATE = 2e-3
RATES = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)
ROUNDS, SHORT, LONG = 3, 2, 8  # steps of the runs whose difference is the cost of a step on a CPU
CLAIMS = {"transformer": ("hred-transformer", "hred", "a transformer over chunks is better than an LSTM"),
          "implicit": ("iem-2", "iem-baseline", "half of the training by an implicit embedding matrix is better than none")}
PHASE_1 = "iem-1"
lock = threading.Lock()  # of files that several runs make; one compilation uses all cores


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
    for group in made["training"].get("groups", []):
        group["learning_rate"] *= rate / PAPER_RATE
    made["training"]["learning_rate"] = rate
    return made


def image_flags(data):
    return ("--images", f"{pictures.SIZE}x{pictures.SIZE}x3") if data == "pictures" else ()


def measure_step(artifact, training, data):
    """Seconds of a training step."""
    if lab.DEVICE == "cuda":
        return json.loads(lab.run("bench", artifact, "--device", "cuda", "--json"))["step_ms"] / 1000
    seconds = []
    for steps in (SHORT, LONG):
        out = artifact.parent / "run"
        shutil.rmtree(out, ignore_errors=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        lab.run("train", artifact, "--data", training, "--out", out, "--steps", steps, "--threads", 1, *image_flags(data))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return (seconds[1] - seconds[0]) / (LONG - SHORT)


def measure_costs(claim, data, training):
    """Seconds of a step by row. Nothing else may run."""
    path = FOLDER / claim / data / "costs.json"
    if path.exists():
        return json.loads(path.read_text())
    rows = [*CLAIMS[claim][:2], *([PHASE_1] if claim == "implicit" else [])]
    artifacts = {row: lab.compile_steps(FOLDER / claim / data / "costs" / row, spec(data, row, PAPER_RATE), LONG) for row in rows}
    found = {row: [] for row in rows}
    for _ in range(ROUNDS):
        for row in rows:
            found[row].append(measure_step(artifacts[row], training, data))
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


@functools.cache
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
    """Artifact, weights and losses by step of a run."""
    with lock:
        artifact = compile_row(folder, data, row, rate, steps)
    return artifact, *lab.train(artifact.parent, artifact, steps, seed, training, "--threads", 1, *image_flags(data), *more)


def train_arm(folder, data, arm, rate, steps, seed, training):
    """Artifact, weights, losses of the text or pictures by step, and losses of phase 1 by step."""
    if arm != "iem-2":
        return *train_row(folder, data, arm, rate, steps[arm], seed, training), []
    with lock:
        first, second = split(training, data)
    _, weights, before = train_row(folder, data, PHASE_1, rate, steps[PHASE_1], seed, first)
    found = train_row(folder, data, arm, rate, steps[arm], seed, second, "--weights", weights, "--match", "stages.[0-8].*")
    return *found, before


def choose_rates(pool, claim, data, steps, training):
    """The rate of each arm, and by arm and rate the mean training loss that decides; a function that waits for them."""
    folder = FOLDER / claim / data
    path = folder / "rates.json"
    short = {row: max(1, count // 3) for row, count in steps.items()}
    arms = CLAIMS[claim][:2]
    runs = {} if path.exists() else {
        (arm, rate): pool.submit(train_arm, folder / "rates", data, arm, rate, short, 0, training) for arm in arms for rate in RATES}

    def wait():
        if runs:
            means = {arm: {} for arm in arms}
            for (arm, rate), made in runs.items():
                losses = made.result()[2]
                means[arm][rate] = statistics.mean(losses[-max(1, len(losses) // 5):])
                print(f"hierarchical: {claim}, {data}: {arm}, rate {rate:g}: training loss {means[arm][rate]:.4f}", flush=True)
            path.write_text(json.dumps(means) + "\n")
        means = json.loads(path.read_text())
        return {arm: float(min(means[arm], key=means[arm].get)) for arm in arms}, means

    return wait


def score(data, artifact, weights, held_out):
    found = json.loads(lab.run("eval", artifact, "--weights", weights, "--data", held_out, "--tokens", HELD_OUT_BYTES[data], "--threads", 1,
                               "--json", "--device", lab.DEVICE, *image_flags(data)))
    return found["bits_per_dim" if data == "pictures" else "bits_per_byte"]


def train_and_score(folder, data, arm, rate, steps, seed, training, held_out):
    """Bits per byte, losses by step, and losses of phase 1 by step."""
    artifact, weights, losses, before = train_arm(folder, data, arm, rate, steps, seed, training)
    return score(data, artifact, weights, held_out), losses, before


def compare(claim, data, costs, steps, rates, means, runs):
    """Waits for the runs, by seed and arm; returns curves for `draw`."""
    first, second, text = CLAIMS[claim]
    print(f"hierarchical: {claim}, {data}: seconds of a step {costs}, steps {steps}, rates {rates}", flush=True)
    results = {arm: {"bits_per_byte": [], "phase_1": []} for arm in (first, second)}
    curves = {arm: [] for arm in results}
    for (seed, arm), made in runs.items():
        bits, losses, before = made.result()
        results[arm]["bits_per_byte"].append(bits)
        results[arm]["phase_1"].append(statistics.mean(before[-max(1, len(before) // 5):]) if before else None)
        curves[arm].append((len(before) * costs.get(PHASE_1, 0), costs[arm], losses))
        print(f"hierarchical: {claim}, {data}: {arm}, seed {seed}: {bits:.4f} bits per byte after {steps[arm]} steps", flush=True)
    verdict = lab.judge(results, first, second, f"{text} ({data})")
    written = {"costs": costs, "steps": steps, "means": means, "rates": rates, "arms": results, "claim": verdict}
    (FOLDER / claim / data / "results.json").write_text(json.dumps(written, indent=1) + "\n")
    return curves


def draw(path, panels):
    """Means of the training losses over the time of the runs, and over a twentieth of the steps."""
    figure, axes = pyplot.subplots(1, len(panels), figsize=(6 * len(panels), 4), squeeze=False)
    for axis, (data, curves) in zip(axes[0], panels.items()):
        for arm, runs in curves.items():
            start, step = (statistics.mean(run[i] for run in runs) for i in (0, 1))
            means = [statistics.mean(losses) for losses in zip(*(run[2] for run in runs))]
            span = max(1, len(means) // 20)
            places = range(span, len(means) + 1, max(1, span // 4))
            axis.plot([start + (place - span / 2) * step for place in places],
                      [statistics.mean(means[place - span:place]) for place in places], label=arm, linewidth=1)
        axis.set(title=data, xlabel="seconds", ylabel="training loss, nats a byte", xlim=(0, None))
        axis.legend()
    figure.savefig(path)
    pyplot.close(figure)


def parse_options():
    parser = argparse.ArgumentParser(description="Hierarchical encoder-decoders.")
    parser.add_argument("--training")
    parser.add_argument("--held-out")
    parser.add_argument("--claims", nargs="+", choices=CLAIMS, default=list(CLAIMS))
    parser.add_argument("--data", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--seconds", type=float, default=90, help="time of a run that is alone")
    parser.add_argument("--device", choices=["cpu", "cuda"], default=lab.DEVICE)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    options = parser.parse_args()
    if bool(options.training) != bool(options.held_out):
        parser.error("expected --training and --held-out together")
    return options


def main():
    global FOLDER
    options = parse_options()
    lab.DEVICE = options.device
    FOLDER.mkdir(parents=True, exist_ok=True)
    texts = (options.training, options.held_out) if options.training else lab.text()
    files = {"text": [lab.Path(path) for path in texts], "pictures": pictures.make(FOLDER) if "pictures" in options.data else None}
    FOLDER /= f"{options.device}-{options.seconds:g}"  # costs and rates are of one device and length
    FOLDER.mkdir(exist_ok=True)
    cases = list(itertools.product(options.claims, options.data))
    costs = {case: measure_costs(*case, files[case[1]][0]) for case in cases}
    steps = {case: choose_steps(case[0], costs[case], options.seconds) for case in cases}
    with ThreadPoolExecutor(options.jobs) as pool:
        waits = {case: choose_rates(pool, *case, steps[case], files[case[1]][0]) for case in cases}
        rates, runs = {}, {}
        for claim, data in cases:
            case = claim, data
            rates[case] = waits[case]()
            runs[case] = {(seed, arm): pool.submit(train_and_score, FOLDER / claim / data, data, arm, rates[case][0][arm], steps[case], seed,
                                                   *files[data])
                          for seed in lab.SEEDS for arm in CLAIMS[claim][:2]}
        curves = {case: compare(*case, costs[case], steps[case], *rates[case], runs[case]) for case in cases}
    for claim in options.claims:
        draw(FOLDER / claim / "losses.svg", {data: curves[claim, data] for data in options.data})
    lab.report_time("hierarchical")


if __name__ == "__main__":
    main()
