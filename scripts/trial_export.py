#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares exported models with PyTorch: trial_export.py PROGRAM SPEC... (scripts/trial-export.sh describes it)."""
import copy
import importlib.util
import json
import keyword
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
from safetensors.torch import load_file, save_file

BOUND = 1e-5  # of the largest logit or gradient, or of a loss; sums of f32 in another order
BF16_BOUND = 2.0**-6  # a sum that rounds the other way changes a factor by 2^-8, in every layer
MASK = 2**64 - 1


def is_lines(spec):
    return any("context" in entry for entry in spec.get("inputs", {}).values())


def random_line(draw, least, most):
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(1, 5))) for _ in range(most)]
    return " ".join(words)[: draw.randint(least, most)]


def split_words(line):
    """The words of a line of bytes; whitespace ends a word."""
    words = [b""]
    for byte in line:
        words[-1] += bytes([byte])
        if byte in b" \t\n\v\f\r":
            words.append(b"")
    return [word for word in words if word]


def derive(kind, line):
    """The bits of a derived input with the rule "whitespace" (docs/running.md)."""
    bits = []
    for word in split_words(line):
        bits += [0] * (len(word) - 1) + [1] if kind == "word_end" else [int(len(word) > 1)] * len(word)
    return bits


def pad(rows):
    """[B, rows] from lists of different lengths, with -1 after the last number."""
    most = max(map(len, rows))
    return torch.tensor([list(row) + [-1] * (most - len(row)) for row in rows])


def to_argument(name):
    return f"x_{name}" if keyword.iskeyword(name) else name


def hold(spec):
    """The spec with the last values of the numbers that move in training, which `losses` has."""
    if isinstance(spec, dict):
        moves = {"from", "to", "steps"} == set(spec)
        return spec["to"] if moves else {key: hold(value) for key, value in spec.items()}
    return [hold(each) for each in spec] if isinstance(spec, list) else spec


class Lines:
    """Random lines for a model with named inputs: files for sluice, and tensors for PyTorch."""

    def __init__(self, spec, folder, name, count, seed):
        self.spec, self.draw, self.flags, self.tensors = spec, random.Random(seed), [], {}
        context, inputs = spec["context"], spec["inputs"]
        texts = [random_line(self.draw, 0, context - 1) for _ in range(count)]
        texts[1], texts[2] = "", random_line(self.draw, context, context)  # the second one's end has no room
        self.rows = [min(len(text) + 1, context) for text in texts]
        self.text = folder / f"{name}.text"
        self.text.write_text("\n".join(texts) + "\n")
        self.tokens = pad([(b"\n" + text.encode() + b"\n")[: context + 1] for text in texts])
        self.lines = {}
        for key, entry in inputs.items():
            if "context" in entry:
                most = entry["context"] - entry.get("end", False)
                lines = [random_line(self.draw, 1, most).encode() for _ in range(count)]
                lines[0], lines[3] = random_line(self.draw, most, most).encode(), b""
                self.lines[key] = lines
                self.add(folder / f"{name}.{key}", key, [line.decode() for line in lines])
                self.tensors[to_argument(key)] = pad([line + (b"\n" if entry.get("end") else b"") for line in lines])
        for key, entry in inputs.items():
            if entry.get("type") == "edges":
                self.add_edges(folder / f"{name}.{key}", key, entry)
            elif "on" in entry:
                self.add_tokens(folder / f"{name}.{key}", key, entry)

    def add(self, path, key, lines):
        path.write_text("\n".join(lines) + "\n")
        self.flags += ["--input", f"{key}={path}"]

    def add_tokens(self, path, key, entry):
        source = self.lines[entry["on"]]
        if "derived" in entry:
            ids = [derive(entry["derived"], line) for line in source]
        else:
            ids = [[self.draw.randrange(entry["vocabulary"]) for _ in line] for line in source]
            self.add(path, key, ["".join(map(str, line)) for line in ids])
        if self.spec["inputs"][entry["on"]].get("end"):
            ids = [line + [int(entry.get("derived") == "word_end")] for line in ids]
        self.tensors[to_argument(key)] = pad(ids)

    def add_edges(self, path, key, entry):
        on, inputs = entry["on"], self.spec["inputs"]
        if "on" in inputs[on]:  # words
            source = inputs[on]["on"]
            sizes, rows = [len(split_words(line)) for line in self.lines[source]], inputs[source]["context"]
        else:
            sizes, rows = [len(line) for line in self.lines[on]], self.tensors[to_argument(on)].shape[1]
        matrix, lines = torch.zeros(len(sizes), rows, rows, dtype=torch.bool), []
        for i, size in enumerate(sizes):
            pairs = [self.draw.sample(range(size), 2) for _ in range(self.draw.randint(0, 5))] if size > 1 else []
            lines.append(" ".join(f"{u}-{v}" for u, v in pairs))
            for u, v in pairs:
                matrix[i, u, v] = matrix[i, v, u] = True
        self.add(path, key, lines)
        self.tensors[to_argument(key)] = matrix


class Trial:
    def __init__(self, program, path, folder):
        self.program, self.path, self.folder = program, path, folder
        self.spec = json.loads(Path(path).read_text())
        self.worst = {}

    def sluice(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return done.stdout

    def note(self, what, found, wanted):
        """Records the largest difference, relative to the largest wanted number."""
        found, wanted = torch.as_tensor(found).detach().double(), torch.as_tensor(wanted, dtype=torch.float64)
        if found.shape != wanted.shape:
            raise RuntimeError(f"{what}: expected the shape {tuple(wanted.shape)}, found {tuple(found.shape)}")
        difference = ((found - wanted).abs().max() / wanted.abs().max()).item()
        self.worst[what] = max(self.worst.get(what, 0.0), difference if difference == difference else float("inf"))

    def load(self, run):
        out = self.folder / f"{run}-out"
        self.sluice("export", self.folder / "a.sla", "--weights", self.folder / run, "-o", out)
        location = importlib.util.spec_from_file_location("model", out / "model.py")
        module = importlib.util.module_from_spec(location)
        location.loader.exec_module(module)
        self.module, self.is_bf16 = module, hasattr(module, "bf16")
        return module.load()

    def find_buckets(self, model, tokens):
        """Returns the argument with the buckets of LSH attention, which the model computes in f64; {} without them."""
        if not hasattr(self.module, "hashed_buckets"):
            return {}
        compute, found = self.module.hashed_buckets, {}

        def record(x, rotations, hashes, stage, _):
            found[stage] = compute(x, rotations, hashes, stage, None)
            return found[stage]

        self.module.hashed_buckets = record
        if self.is_bf16:  # rounds numbers in f64, too
            rounded, self.module.bf16 = self.module.bf16, lambda x: x.to(torch.bfloat16).to(x.dtype)
        with torch.no_grad():
            copy.deepcopy(model).double().hidden(tokens)
        self.module.hashed_buckets = compute
        if self.is_bf16:
            self.module.bf16 = rounded
        return {"buckets": found}

    def logits(self, data, *flags):
        out = self.folder / "logits.npy"
        self.sluice("logits", self.folder / "a.sla", "--weights", self.folder / "run", "--data", data, *flags, "-o", out, "--force")
        return torch.from_numpy(numpy.load(out))

    def compare_losses(self, means, *flags):
        """Compares means by name with `sluice eval`, and returns the stride of its windows."""
        result = json.loads(self.sluice("eval", self.folder / "a.sla", "--weights", self.folder / "run", "--json", *flags))
        count = result.get("chunks", {}).get("next", result["tokens"])  # of a model that ends in a contrast
        wanted = {"next": result["nats"] / count, **result.get("losses", {})}
        for name, mean in means.items():
            self.note("loss", mean, wanted[name])
        return result["stride"]

    def run(self):
        self.sluice("compile", self.path, "-o", self.folder / "a.sla")
        (self.compare_lines if is_lines(self.spec) else self.compare_texts)()
        bound = BF16_BOUND if self.is_bf16 else BOUND
        return all(value <= bound for value in self.worst.values())

    def train(self, run, steps, *flags):
        flags = [*flags, *self.give_frozen()]
        self.sluice("train", self.folder / "a.sla", "--out", self.folder / run, "--steps", steps, "--seed", 1, *flags)

    def give_frozen(self):
        """Returns flags that give frozen stages random weights, which no training initializes."""
        stages = [f"stages.{i}." for i, stage in enumerate(self.spec["stages"]) if stage.get("frozen")]
        if not stages:
            return []
        draw, weights = torch.Generator().manual_seed(1), {}
        for entry in json.loads(self.sluice("inspect", self.folder / "a.sla", "--json"))["tensors"]:
            if entry["name"].startswith(tuple(stages)):
                gain = float(len(entry["shape"]) == 1)
                weights[entry["name"]] = gain + 0.3 * torch.randn(entry["shape"], generator=draw)
        save_file(weights, self.folder / "frozen.safetensors")
        globs = [flag for stage in stages if any(name.startswith(stage) for name in weights) for flag in ("--match", stage + "*")]
        return ["--weights", self.folder / "frozen.safetensors", *globs]

    def compare_lines(self):
        lines = Lines(self.spec, self.folder, "train", 40, 1)
        self.train("run", 12, "--data", lines.text, *lines.flags)
        model = self.load("run")
        # The texts have rows after their last token, and one has no token of an input.
        lines = Lines(self.spec, self.folder, "test", 9, 2)
        with torch.no_grad():
            found = model(lines.tokens[:, : self.spec["context"]], **lines.tensors)
            self.note("logits", torch.cat([rows[:count] for rows, count in zip(found, lines.rows)]), self.logits(lines.text, *lines.flags))
            _, means = model.losses(lines.tokens, **lines.tensors)
        self.compare_losses(means, "--data", lines.text, *lines.flags)

    def write_numbers(self, name, size, seed):
        """Returns the flags and the arrays of inputs of numbers."""
        draw, arrays = numpy.random.default_rng(seed), {}
        for key, entry in self.spec.get("inputs", {}).items():
            if entry.get("role") == "target":
                array = draw.random((size, self.spec["vocabulary"]), dtype=numpy.float32) ** 8
                arrays[key] = array / array.sum(1, keepdims=True)
            else:
                arrays[key] = draw.random(size, dtype=numpy.float32) + 0.5
            numpy.save(self.folder / f"{name}-{key}.npy", arrays[key])
        flags = {key: ("--input", f"{key}={self.folder / f'{name}-{key}.npy'}") for key in arrays}
        return flags, arrays

    def compare_texts(self):
        context, draw = self.spec["context"], random.Random(1)
        text = " ".join("".join(draw.choices("abcdefghij", k=draw.randint(1, 7))) for _ in range(9000)).encode()
        (self.folder / "text").write_bytes(text)
        flags, _ = self.write_numbers("text", len(text), 1)
        flags = [flag for pair in flags.values() for flag in pair]
        self.train("run", 12, "--data", self.folder / "text", *flags)
        model = self.load("run")
        has_logits = "forward" in type(model).__dict__
        for size in (context + 1, context - 1, context // 2 + 3):  # two lengths that no factor divides
            begin = draw.randrange(len(text) - size)
            data = self.folder / f"text-{size}"
            data.write_bytes(text[begin : begin + size])
            tokens = torch.tensor(list(text[begin : begin + size]))[None]
            flags, arrays = self.write_numbers("test", size, size)
            targets = {key: torch.from_numpy(array[None, :-1]) for key, array in arrays.items() if array.ndim == 2}
            with torch.no_grad():
                if has_logits and size <= context:
                    self.note("logits", model(tokens, **self.find_buckets(model, tokens))[0], self.logits(data))
                _, means = model.losses(tokens, **targets, **self.find_buckets(model, tokens[:, :-1]))
            stride = self.compare_losses(means, "--data", data, *(flag for key in targets for flag in flags[key]))
        if not has_logits:
            self.compare_batch(text, stride)
        if not any(key in json.dumps(self.spec) for key in ("inputs", "dropout", "label_smoothing", "extra_batches")):
            (self.folder / "constant.json").write_text(json.dumps(hold(self.spec)))
            self.sluice("compile", self.folder / "constant.json", "-o", self.folder / "a.sla", "--force")
            self.compare_gradients(text)

    def compare_batch(self, text, stride):
        """Compares the loss of a batch of windows that share their candidates."""
        context, windows = self.spec["context"], self.spec["batch"] - 1
        data = self.folder / "windows"
        data.write_bytes(text[: context + 1 + (windows - 1) * stride])
        rows = [list(text[i * stride : i * stride + context + 1]) for i in range(windows)]
        with torch.no_grad():
            _, means = self.load("run").losses(torch.tensor(rows))
        self.compare_losses(means, "--data", data)

    def compare_gradients(self, text):
        """Compares the gradient of the first step with Adam's first moment after it, (1 - beta) times the gradient."""
        context, batch = self.spec["context"], self.spec["batch"]
        data, seed = self.folder / "epoch", 1
        text = text[: (batch + 1) * context + 1]  # one batch is an epoch, so the order of its rows does not matter
        data.write_bytes(text)
        settings = ["--set", "training.clip=0", "--set", "training.weight_decay=0"]
        self.train("initial", 0, "--data", data, *settings)
        self.train("one", 1, "--data", data, *settings)
        start = mix((mix(seed ^ mix(0)) + 1) & MASK) % (context + 1)  # docs/running.md, the order of the data
        rows = [list(text[start + i * context : start + (i + 1) * context + 1]) for i in range(batch)]
        model = self.load("initial")
        rows = torch.tensor(rows)
        objective, _ = model.losses(rows, **self.find_buckets(model, rows[:, :-1]))
        objective.backward()
        moments = load_file(self.folder / "one/checkpoints/1/optimizer.safetensors")
        beta = self.spec["training"].get("betas", [0.9, 0.95])[0]
        weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        gradients = {name: weight.grad if weight.grad is not None else torch.zeros_like(weight) for name, weight in weights.items()}
        wanted = {name: moments[f"{name}.adam.m"] / (1 - beta) for name in gradients}
        self.note("gradients", *(torch.cat([part[name].flatten() for name in sorted(wanted)]) for part in (gradients, wanted)))


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def main():
    program, *specs = sys.argv[1:]
    failed = False
    for spec in specs:
        with tempfile.TemporaryDirectory() as folder:
            trial, name = Trial(program, spec, Path(folder)), Path(spec).stem
            try:
                verdict = "" if trial.run() else " FAILED"
            except Exception as error:  # of the exported model, too
                verdict = f" FAILED: {type(error).__name__} {error}"
            failed |= bool(verdict)
            print(f"{name}: {', '.join(f'{what} {value:.1e}' for what, value in trial.worst.items())}{verdict}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
