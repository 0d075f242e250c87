#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the golden results of the specs in this folder with PyTorch; see README.md for files and formats.

Usage: make_goldens.py [SPEC.json ...]            write expected/ (all specs of this folder by default)
       make_goldens.py --verify [SPEC.json ...]   compute again and compare with expected/; exit 1 if one differs
"""
import argparse
import fnmatch
import json
import math
import pathlib
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

from model import Model

STEPS = 10
MARGIN = 5e-4  # logits of predicted bits differ from 0 by at least this: far above the change of ten steps in float32
EPSILON = float(np.finfo(np.float32).eps)
DEVIATION = {"embedding": 0.3, "bias": 0.1, "gain": 0.1}
TRAINING_DEFAULTS = {
    "optimizer": "adamw", "learning_rate": 3e-4, "betas": [0.9, 0.95], "epsilon": 1e-8, "weight_decay": 0.1,
    "clip": 1.0,
}
SCHEDULE_DEFAULTS = {"kind": "cosine", "warmup": 100, "steps": 1000, "floor": 0.1}


def write_safetensors(path, tensors):
    """tensors: name -> numpy array of float32 or int32."""
    header, offset = {}, 0
    kinds = {np.dtype(np.float32): "F32", np.dtype(np.int32): "I32"}
    for name, value in tensors.items():
        header[name] = {"dtype": kinds[value.dtype], "shape": list(value.shape),
                        "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            file.write(np.ascontiguousarray(value).tobytes())


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    kinds = {"F32": np.float32, "I32": np.int32}
    result = {}
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        result[name] = np.frombuffer(data[begin:end], kinds[entry["dtype"]]).reshape(entry["shape"])
    return result


def make_inputs(spec):
    """float32 weights and int32 data, from the spec's seed: tokens [STEPS, B, N + 1]; with named inputs theirs
    [STEPS, B, M] and their counts, and how many rows of each text are scored. Gains and biases are random too, and
    embeddings larger than training starts with, so that no term of a gradient is lost in rounding."""
    random = np.random.default_rng(spec.get("seed", 0))

    def make(name, shape, kind):
        deviation = DEVIATION.get(kind) or 1 / math.sqrt(shape[-1])
        value = random.standard_normal(shape) * deviation + (1 if kind == "gain" else 0)
        return value.astype(np.float32)

    weights = Model(spec, make).weights
    shape = (STEPS, spec["batch"], spec["context"] + 1)
    data = {"tokens": random.integers(0, spec["vocabulary"], shape, dtype=np.int32)}
    own = {name: given for name, given in spec.get("inputs", {}).items() if "context" in given}
    for name, given in own.items():
        shape = (STEPS, spec["batch"], given["context"])
        data["given." + name] = random.integers(0, given["vocabulary"], shape, dtype=np.int32)
        data["count." + name] = random.integers(0, given["context"] + 1, shape[:2], dtype=np.int32)
    for name, given in spec.get("inputs", {}).items():
        if "on" in given and given.get("type") != "edges":  # tokens on another input's axis
            shape = data["given." + given["on"]].shape
            data["given." + name] = random.integers(0, given["vocabulary"], shape, dtype=np.int32)
            data["count." + name] = data["count." + given["on"]]
    if own:
        data["scored"] = random.integers(1, spec["context"] + 1, shape[:2], dtype=np.int32)
    return weights, data


def learning_rate(training, n):
    """Rate of step n, from 1."""
    schedule = {**SCHEDULE_DEFAULTS, **training.get("schedule", {})}
    warmup, factor = schedule["warmup"], 1.0
    if n <= warmup:
        factor = n / warmup
    elif schedule["kind"] == "cosine":
        u = min(1.0, (n - warmup) / (schedule["steps"] - warmup))
        factor = schedule["floor"] + (1 - schedule["floor"]) * (1 + math.cos(math.pi * u)) / 2
    elif schedule["kind"] == "inverse_root":
        factor = max(schedule["floor"], math.sqrt(max(1, warmup) / n))
    if "then" in schedule and n > schedule["steps"]:
        then, alone = schedule["then"], {key: value for key, value in schedule.items() if key != "then"}
        start = learning_rate({"learning_rate": 1, "schedule": alone}, schedule["steps"])
        u, low = min(1.0, (n - schedule["steps"]) / then["steps"]), then.get("floor", 0)
        factor = low + (start - low) * (1 + math.cos(math.pi * u)) / 2
    return factor * training["learning_rate"]


def losses_of(model, tokens):
    """tokens [B, N + 1] -> logits [B, N, V], losses [B, N] in nats and their mean: row t is scored against token t + 1.
    Rows before the head's `first` are not: zeros stand in their place."""
    head = model.spec["stages"][-1]
    first, model.targets = head.get("first", 0), tokens[:, 1:]
    logits = model.logits(tokens[:, :-1])
    losses, weights = model.losses_of(head, logits)
    mean = losses[:, first:][model.scored[:, first:]].sum() / weights[:, first:][model.scored[:, first:]].sum()
    return F.pad(logits[:, first:], (0, 0, first, 0)), F.pad(losses[:, first:], (first, 0)), mean


def make_optimizer(model, training):
    """Decay goes to matrices, and to the weights of groups that set it; PyTorch's AdamW and Adam are what docs/spec.md
    describes. `peak` of a group is its rate at the peak of the schedule."""
    by_settings = {}
    for name, weight in model.weights.items():
        group = next((g for g in training.get("groups", []) if fnmatch.fnmatchcase(name, g["match"])), {})
        usual = training["weight_decay"] if model.kinds[name] == "matrix" else 0.0
        settings = group.get("weight_decay", usual), group.get("learning_rate", training["learning_rate"])
        if model.trains(name):
            by_settings.setdefault(settings, []).append(weight)
    groups = [{"params": weights, "weight_decay": decay, "peak": peak} for (decay, peak), weights in by_settings.items()]
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[training["optimizer"]]
    return kind(groups, lr=1.0, betas=tuple(training["betas"]), eps=training["epsilon"])


def numbers_of(role, tokens, vocabulary):
    """Numbers for each token as all tests give them (setInputs of test/unit/Model/Harness.cpp), float32: weights 0, 1/2 and 1 by row
    and place; distributions that the whole text moves, shares of 1 to 7."""
    place = torch.arange(tokens.shape[1])
    if role == "weight":
        return ((torch.arange(tokens.shape[0])[:, None] + place) % 3 / 2).float()
    shares = 1 + (tokens.sum(1)[:, None, None] + place[:, None] + torch.arange(vocabulary)) % 7
    return shares.float() / shares.sum(2, keepdim=True)


def set_batch(model, batches, n):
    """Batch n's named inputs, and which rows of its texts count; gives its tokens."""
    tokens, inputs = batches["tokens"][n], model.spec.get("inputs", {})
    model.given = {name: (batches["given." + name][n], batches["count." + name][n]) for name in inputs if "given." + name in batches}
    model.numbers = {name: numbers_of(given["role"], tokens[:, :-1], model.vocabulary) for name, given in inputs.items() if "role" in given}
    model.scored = torch.ones(tokens.shape[0], tokens.shape[1] - 1, dtype=torch.bool)
    if "scored" in batches:
        model.scored = torch.arange(tokens.shape[1] - 1) < batches["scored"][n][:, None]
    return tokens


def compute(spec, weights, data, dtype):
    """Everything the goldens hold, computed in `dtype`: name -> float64 numpy array."""
    def load(name, shape, kind):
        return torch.tensor(weights[name], dtype=dtype).reshape(shape)

    training = {**TRAINING_DEFAULTS, **spec.get("training", {})}
    model, batches = Model(spec, load), {name: torch.tensor(x, dtype=torch.int64) for name, x in data.items()}
    for name, weight in model.weights.items():
        weight.requires_grad_(model.trains(name))
    optimizer = make_optimizer(model, training)
    results, curve = {}, {"loss": [], "grad_norm": [], "learning_rate": []}
    for n in range(1, STEPS + 1):
        model.update = n
        logits, losses, mean = losses_of(model, set_batch(model, batches, n - 1))
        others = model.others
        optimizer.zero_grad()
        (mean + others).backward()
        gradients = {name: w.grad if model.trains(name) else torch.zeros_like(w) for name, w in model.weights.items()}
        if n == 1:
            model.is_training = False
            logits, evaluated, _ = losses_of(model, set_batch(model, batches, 0))
            model.is_training = True
            results |= {"logits": logits, "losses": losses}
            if any({"prior", "target", "weights"} & stage.keys() for stage in spec["stages"]):
                results["evaluated"] = evaluated
            results |= {"gradient." + name: g.clone() for name, g in gradients.items()}
        norm = torch.sqrt(sum(g.square().sum() for g in gradients.values()))
        if training["clip"] > 0:
            for g in gradients.values():
                g.mul_(torch.clamp(training["clip"] / norm, max=1.0))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate({**training, "learning_rate": group["peak"]}, n)
        optimizer.step()
        for key, value in zip(curve, (mean + others, norm, learning_rate(training, n))):
            curve[key].append(float(value))
    results |= {"train." + key: torch.tensor(values, dtype=torch.float64) for key, values in curve.items()}
    results |= {"final." + name: w for name, w in model.weights.items()}
    if model.closest < MARGIN:
        raise SystemExit(f"expected logits of predicted bits at least {MARGIN} from 0, found {model.closest:.2g} in {dtype}: "
                         f"float32 might round it to another bit; take another \"seed\"")
    return {name: value.detach().double().numpy() for name, value in results.items()}


def make(path):
    """(weights, results, errors) of one spec file."""
    spec = json.loads(path.read_text())
    weights, data = make_inputs(spec)
    exact = compute(spec, weights, data, torch.float64)
    single = compute(spec, weights, data, torch.float32)
    errors = {name: {"error": float(np.abs(single[name] - exact[name]).max()),
                     "magnitude": float(np.abs(exact[name]).max())} for name in exact}
    results = {**data, **{name: value.astype(np.float32) for name, value in exact.items()}}
    return weights, results, errors


def differences(stem, weights, results, errors):
    """Lines that say where the files of expected/ differ from what was computed now."""
    found = []
    for kind, values in (("weights", weights), ("results", results)):
        stored = read_safetensors(f"{stem}.{kind}.safetensors")
        if stored.keys() != values.keys():
            found.append(f"{kind}: other names: {sorted(stored.keys() ^ values.keys())}")
            continue
        for name, value in values.items():
            # Both are float64 results rounded to float32: they may differ by one rounding, inputs not at all. Theoretical zeros
            # are noise, a small part of float32's.
            allowed = EPSILON * sum(errors[name].values()) if name in errors else 0
            if stored[name].shape != value.shape or np.abs(stored[name] - value).max() > allowed:
                found.append(f"{kind}: {name} differs")
    return found


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Make or verify the golden results of specs.")
    parser.add_argument("specs", nargs="*", type=pathlib.Path, help="spec files; all of this folder by default")
    parser.add_argument("--verify", action="store_true", help="compare with expected/ instead of writing it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    failed = False
    for path in options.specs or sorted(here.glob("*.json")):
        stem = here / "expected" / path.stem
        weights, results, errors = make(path)
        if options.verify:
            found = differences(stem, weights, results, errors)
            failed |= bool(found)
            print("\n".join([f"{path.name}: {line}" for line in found]) or f"{path.name}: same")
            continue
        stem.parent.mkdir(exist_ok=True)
        write_safetensors(f"{stem}.weights.safetensors", weights)
        write_safetensors(f"{stem}.results.safetensors", results)
        lines = (f'"{name}": {{"error": {e["error"]:.3g}, "magnitude": {e["magnitude"]:.3g}}}' for name, e in
                 errors.items())
        pathlib.Path(f"{stem}.errors.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{path.name}: {sum(w.size for w in weights.values())} parameters, loss "
              f"{results['train.loss'][0]:.4f} -> {results['train.loss'][-1]:.4f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
