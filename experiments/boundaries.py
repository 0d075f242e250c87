#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where segments end (Nawrot et al. 2023, table 1): whitespace, a tokenizer's pieces, spikes of an entropy, drawn bits; and every 2nd, 3rd,
4th and 6th byte.

All arms are one model, with a layer on the tokens, four on the segments and one more on the tokens; only the stage that cuts differs.
The paper compares at whatever factor a method has. Here each is compared with fixed segments at its own factor: on the straight line, over
segments a byte of held-out text, between the two fixed arms that enclose it, seed by seed.

A tokenizer's pieces are labelled so that a word's last piece ends with the whitespace after it. Drawn bits have no shift towards the prior.
Other settings are "unigram-letter", which ends it with the word's last letter, "unigram-code", the labels of the public code, and
"gumbel-logit", which adds the logit of the prior. They are compared with the method too, seed by seed.

Criterion, fixed before any run: that of `lab.compare`. A method whose segments are longer or shorter than those of all fixed arms, for
any seed, is not compared.

Drawn bits are rounded in evaluation, as the paper says; "gumbel drawn" are the same weights with bits drawn there too, as its code does.

Operations: those of the rows that segments have, so a method with few of them trains for more steps. How many a learned
method makes is known behind a run only. So a run with a seed of its own, 0, comes first and says it; results tell the operations that
were made.

Usage: boundaries.py [--training FILE --held-out FILE] [--methods NAME...] [--fixed FACTOR...] [--operations N]
Default: the text of scripts/text.sh, its first 1,200,000 bytes, all methods and factors, and as many operations a run as other experiments.
Needs the package sentencepiece beside those of lab.py.
"""
import argparse
import functools
import json
import subprocess
import sys

import numpy

import lab

DRAWN = " drawn"
METHODS = ("whitespace", "unigram", "entropy", "gumbel")
PAIRS = {"unigram-letter": "unigram", "unigram-code": "unigram", "gumbel-logit": "gumbel"}  # another setting of a method, compared with it
FOLDER = lab.BUILD / "experiments/boundaries"
PIECES = 10_000  # of the paper's English vocabularies
BYTES = 1_200_000
SPIKES = 0.25  # of rows, foreseen for the first run
HELD_OUT_TOKENS = 50_000
FIXED = (2, 3, 4, 6)
UNIGRAM, GUMBEL = {"rule": "labels", "predictor": 128}, {"predictor": 128, "prior": 0.2}
LEARNED = {"unigram": UNIGRAM, "unigram-letter": UNIGRAM, "unigram-code": UNIGRAM,
           "entropy": {"rule": "entropy", "loss": "next", "spike": 2, "predictor": 128},
           "gumbel": GUMBEL, "gumbel-logit": GUMBEL | {"prior_logit": True}}
LABELS = {"unigram": ("--word-end", "whitespace"), "unigram-letter": ("--word-end", "letter"), "unigram-code": ("--mode", "reference-code")}


def spec(boundaries):
    segments = {"segments": "words"}
    return lab.base([{"op": "embedding"}, {"op": "layer"}, {"op": "norm", "to": "fine"},
                     {"op": "boundaries", "name": "words"} | boundaries,
                     {"op": "shorten"} | segments, {"op": "shift", "by": 1, "start": "null"}, {"op": "layers", "count": 4}, {"op": "norm"},
                     {"op": "upsample", "by": 0} | segments, {"op": "add", "with": "fine"}, {"op": "layer"}, {"op": "norm"},
                     {"op": "head"}], defaults={"rotary": True})


def parse_options():
    parser = argparse.ArgumentParser(description="Where segments end.")
    parser.add_argument("--training")
    parser.add_argument("--held-out")
    parser.add_argument("--methods", nargs="+", choices=(*METHODS, *PAIRS), default=METHODS)
    parser.add_argument("--fixed", nargs="+", type=int, choices=FIXED, default=FIXED)
    parser.add_argument("--operations", type=float, default=lab.BUDGET)
    options = parser.parse_args()
    if bool(options.training) != bool(options.held_out):
        parser.error("expected --training and --held-out together")
    return options


def texts(options):
    training, held_out = (options.training, options.held_out) if options.training else lab.text()
    FOLDER.mkdir(parents=True, exist_ok=True)
    cut = FOLDER / "training.txt"
    with open(training, "rb") as file:
        cut.write_bytes(file.read(BYTES))
    return cut, held_out


def unigram_labels(training, name):
    """Path of an arm's labels: where the likeliest pieces of the training text end."""
    path, vocabulary = FOLDER / f"{name}.labels", FOLDER / "pieces"
    command = [sys.executable, lab.ROOT / "scripts/boundary_labels.py"]
    if not vocabulary.with_suffix(".vocab").exists():
        subprocess.run([*command, "train", "--size", str(PIECES), "--out", vocabulary, training], check=True, capture_output=True)
    if not path.exists():
        labels = subprocess.run([*command, "unigram", *LABELS[name], "--vocabulary", f"{vocabulary}.vocab", training],
                                check=True, capture_output=True)
        path.write_bytes(labels.stdout)
    return path


@functools.cache
def cost(key):
    """Operations of a training step by segments a token, of the stage that `key` is: quadratic, as attention is."""
    shares = (1 / 8, 1 / 4, 1 / 2)
    found = [lab.operations(lab.compile_steps(FOLDER / "costs", spec(json.loads(key) | {"capacity": share}), 100)) for share in shares]
    return numpy.polynomial.Polynomial.fit(shares, found, 2)


def operations(boundaries, share):
    # A rule costs nothing that `inspect` counts, so all of them cost the same.
    return float(cost(json.dumps(boundaries if "predictor" in boundaries else {"rule": "whitespace"}))(share))


def mean_share(out):
    """Segments a token over the steps of a run."""
    lines = (out / "metrics.jsonl").read_text().splitlines()
    return sum(json.loads(line)["losses"]["words.share"] for line in lines) / len(lines)


def compile_arm(name, boundaries, share, budget):
    """An artifact whose schedule ends with the budget where texts have that share of segments a token, and its steps."""
    steps = round(budget / operations(boundaries, share))
    return lab.compile_steps(FOLDER / name, spec(boundaries), steps), steps


def prepare(training, options):
    """Stage, artifact, steps and flags of training, by arm."""
    arms, budget = {}, options.operations
    for factor in sorted(options.fixed):
        stage = {"rule": "every", "factor": factor, "capacity": 1}
        arms[f"fixed-{factor}"] = (stage, *compile_arm(f"fixed-{factor}", stage, 1 / factor, budget), ())
    text = training.read_bytes()
    if "whitespace" in options.methods:
        share = sum(byte in b"\t\n\v\f\r " for byte in text) / len(text)
        arms["whitespace"] = ({"rule": "whitespace"}, *compile_arm("whitespace", {"rule": "whitespace"}, share, budget), ())
    for name, boundaries in LEARNED.items():
        if name not in options.methods:
            continue
        more, share = (), boundaries.get("prior", SPIKES)
        if name in LABELS:
            labels = unigram_labels(training, name)
            more, share = ("--labels", f"words={labels}"), labels.read_text().count("1") / len(text)
        artifact, steps = compile_arm(f"{name}-0", boundaries, share, budget)
        out, _ = lab.train(FOLDER / f"{name}-0", artifact, steps, 0, training, *more)
        print(f"boundaries: {name}: {share:.4f} segments a token foreseen, {mean_share(out):.4f} found", flush=True)
        arms[name] = (boundaries, *compile_arm(name, boundaries, mean_share(out), budget), more)
    return arms


def at_share(results, share, seed):
    """Bits per byte of fixed segments with that share of segments a token; None outside the fixed arms."""
    fixed = sorted((arm["share"][seed], arm["bits_per_byte"][seed]) for name, arm in results.items() if name[6:].isdigit())
    for (low, first), (high, second) in zip(fixed, fixed[1:]):
        if low <= share <= high:
            return first + (second - first) * (share - low) / (high - low)
    return None


def score(artifact, out, held_out, result):
    found = json.loads(lab.run("eval", artifact, "--weights", out, "--data", held_out, "--tokens", HELD_OUT_TOKENS, "--json"))
    result["share"].append(found["losses"]["words.share"])
    result["bits_per_byte"].append(found["bits_per_byte"])


def judge(results, seeds):
    """Claims of the seeds that all arms have trained with."""
    verdicts = []
    for name in list(results):
        if name.startswith("fixed"):
            continue
        line = [at_share(results, results[name]["share"][i], i) for i in range(seeds)]
        if None in line:
            print(f"boundaries: {name}: not compared, segments a byte: {results[name]['share']}", flush=True)
            continue
        results[f"fixed at {name}"] = {"bits_per_byte": line}
        verdicts.append(lab.judge(results, name, f"fixed at {name}", f"{name} is better than fixed segments of its length"))
    for other, name in PAIRS.items():
        for kind in ("", DRAWN):
            if name + kind in results and other + kind in results:
                verdicts.append(lab.judge(results, name + kind, other + kind, f"{name}{kind} is better than {other}{kind}"))
    return verdicts


def main():
    options = parse_options()
    training, held_out = texts(options)
    arms = prepare(training, options)
    results = {name: {"steps": steps, "operations": [], "share": [], "bits_per_byte": []} for name, (_, _, steps, _) in arms.items()}
    drawing, curves = {}, {}
    for name in arms:
        if name.startswith("gumbel"):
            results[name + DRAWN] = {"share": [], "bits_per_byte": []}
            drawing[name] = compile_arm(f"{name}-drawn", LEARNED[name] | {"mode": "reference-code"}, GUMBEL["prior"], options.operations)[0]
    for count, seed in enumerate(lab.SEEDS, 1):
        for name, (stage, artifact, steps, more) in arms.items():
            out, losses = lab.train(FOLDER / name, artifact, steps, seed, training, *more)
            score(artifact, out, held_out, results[name])
            if name in drawing:
                score(drawing[name], out, held_out, results[name + DRAWN])
            results[name]["operations"].append(steps * operations(stage, mean_share(out)))
            curves.setdefault(name, []).append(losses)
            print(f"boundaries: {name}, seed {seed}: {results[name]['bits_per_byte'][-1]:.4f} bits per byte at "
                  f"{results[name]['share'][-1]:.4f} segments a byte after {steps} steps", flush=True)
        if count > 1:
            written = {"arms": {name: dict(result) for name, result in results.items() if "share" in result}, "claims": judge(results, count)}
            (FOLDER / "results.json").write_text(json.dumps(written, indent=1) + "\n")
            lab.draw(FOLDER / "losses.svg", curves)
    lab.report_time("boundaries")


if __name__ == "__main__":
    main()
