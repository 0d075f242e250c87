# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the peers of benchmarks/compare.py share: the model of a spec over any array library, the order of training data,
the learning rate, and the loop that answers compare.py. Written from docs/spec.md and docs/running.md alone.

Takes specs of one embedding, one pre-norm hourglass (or plain stack) and one untied head: layer norm, causal, rotary, tanh GELU,
average and repeat, no dropout. Anything else is refused.
"""
import json
import math
import resource
import sys
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from order import MASK, mix, permute

SUPPORTED = {"heads", "activation", "rotary"}


def is_plain(spec):
    """Whether the spec is what `Model` takes."""
    if [stage["op"] for stage in spec["stages"]] != ["embedding", "hourglass", "head"]:
        return False
    embedding, body, head = spec["stages"]
    settings = spec["defaults"]
    return all([set(embedding) == {"op"}, set(body) == {"op", "hierarchy"}, set(head) == {"op"}, set(settings) == SUPPORTED,
                settings.get("activation") == "gelu_tanh", settings.get("rotary") is True, "precision" not in spec])


class Model:
    """The stages of a spec as a list of steps, and the logits that they compute."""

    first = 0  # the first row that is scored

    def __init__(self, spec):
        if not is_plain(spec):
            raise SystemExit("this spec uses what the peers do not implement; see benchmarks/peers/model.py, or compare with --pytorch exported")
        body, settings = spec["stages"][1], spec["defaults"]
        self.spec, self.width, self.heads = spec, spec["width"], settings["heads"]
        self.context, self.batch, self.training = spec["context"], spec["batch"], training(spec)
        levels = [tuple(map(int, word.split("@"))) for word in body["hierarchy"].split()]
        self.steps = self.expand("stages.1.", levels)

    def expand(self, prefix, levels):
        """Steps (what, name of weights, number) of one level; `levels` is [(layers, factor), ...]."""
        steps = []

        def add(what, number=0):
            steps.append((what, f"{prefix}inside.{len(steps)}.", number))

        def stack(count):
            for _ in range(count):
                add("layer")
            if count:
                add("norm")

        stack(levels[0][0])
        if len(levels) == 1:
            return steps
        factor = levels[1][1] // levels[0][1]
        add("skip", factor - 1)  # the stage `shift`
        add("shorten", factor)
        inner = levels[1:-1]
        if len(inner) == 1:
            stack(inner[0][0])
        else:
            steps.append(("inside", "", self.expand(f"{prefix}inside.{len(steps)}.", inner)))
        add("upsample", factor)
        add("add")
        stack(levels[-1][0])
        return steps

    @staticmethod
    def given(_weights, _tokens):
        """What `logits` takes beside the tokens, computed before."""
        return ()

    def logits(self, ops, weights, tokens):
        """tokens [B, N] -> [B, N, V]; `ops` is an array library's few functions."""
        x = weights["stages.0.token.weight"][tokens]
        x = self.run(self.steps, ops, weights, x)
        return ops.linear(x, weights["stages.2.weight"], None)

    def run(self, steps, ops, w, x):
        skip, shift, rows = None, 0, x.shape[1]
        for what, name, number in steps:
            if what == "layer":
                x = self.layer(name, ops, w, x)
            elif what == "norm":
                x = ops.norm(x, w[name + "weight"], w[name + "bias"])
            elif what == "skip":
                skip, shift = x, number
            elif what == "shorten":
                groups = -(-rows // number)
                x = ops.pad_front(x, shift)[:, : groups * number]
                x = x.reshape(x.shape[0], groups, number, self.width).mean(2)
            elif what == "upsample":
                x = ops.repeat(x, number)[:, :rows]
            elif what == "add":
                x = x + skip
            else:
                x = self.run(number, ops, w, x)
        return x

    def layer(self, name, ops, w, x):
        rows, length, size = x.shape[0], x.shape[1], self.width // self.heads
        block = name + "attention."
        h = ops.norm(x, w[block + "norm.weight"], w[block + "norm.bias"])
        h = ops.linear(h, w[block + "qkv.weight"], w[block + "qkv.bias"])
        h = h.reshape(rows, length, 3, self.heads, size)
        mixed = ops.attention(self.rotate(ops, h[:, :, 0]), self.rotate(ops, h[:, :, 1]), h[:, :, 2])
        mixed = mixed.reshape(rows, length, self.width)
        x = x + ops.linear(mixed, w[block + "output.weight"], w[block + "output.bias"])
        block = name + "feed_forward."
        h = ops.norm(x, w[block + "norm.weight"], w[block + "norm.bias"])
        h = ops.gelu(ops.linear(h, w[block + "in.weight"], w[block + "in.bias"]))
        return x + ops.linear(h, w[block + "out.weight"], w[block + "out.bias"])

    def rotate(self, ops, x):
        """x [B, N, heads, D]: the pair (2i, 2i + 1) at position p turns by p * 10000^(-2i / D)."""
        cos, sin = ops.turns(x.shape[1], x.shape[3])
        even, odd = x[..., 0::2], x[..., 1::2]
        return ops.stack_last(even * cos - odd * sin, even * sin + odd * cos).reshape(x.shape)

    def shapes(self):
        """Shape of every weight by name, query, key and value joined."""
        width, vocabulary = self.width, self.spec["vocabulary"]
        found = {"stages.0.token.weight": (vocabulary, width), "stages.2.weight": (vocabulary, width)}
        for what, name, _ in self.flat(self.steps):
            if what == "norm":
                found |= {name + "weight": (width,), name + "bias": (width,)}
            if what == "layer":
                linear = {"attention.qkv": (3 * width, width), "attention.output": (width, width),
                          "feed_forward.in": (4 * width, width), "feed_forward.out": (width, 4 * width)}
                for part, shape in linear.items():
                    found |= {f"{name}{part}.weight": shape, f"{name}{part}.bias": shape[:1]}
                for part in ("attention", "feed_forward"):
                    found |= {f"{name}{part}.norm.weight": (width,), f"{name}{part}.norm.bias": (width,)}
        return found

    @staticmethod
    def join(tensors):
        """Query, key and value as one linear map, as a tuned implementation keeps them."""
        joined = {}
        for name, value in tensors.items():
            if ".attention.key." in name or ".attention.value." in name:
                continue
            if ".attention.query." in name:
                parts = [tensors[name.replace("query", part)] for part in ("query", "key", "value")]
                name, value = name.replace("query", "qkv"), np.concatenate(parts)
            joined[name] = value
        return joined

    def decayed(self, name):
        """Weight decay applies to the matrices of linear maps."""
        return name.endswith(".weight") and "norm" not in name and name != "stages.0.token.weight" and \
            name not in {step[1] + "weight" for step in self.flat(self.steps) if step[0] == "norm"}

    def flat(self, steps):
        for step in steps:
            if step[0] == "inside":
                yield from self.flat(step[2])
            else:
                yield step


def turns(length, size):
    """cos and sin of rotary positions, [length, 1, size / 2]."""
    angle = np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
    return [part.astype(np.float32)[:, None, :] for part in (np.cos(angle), np.sin(angle))]


def load_checkpoint(folder, join):
    """Weights and Adam's moments of a checkpoint: three dictionaries by name of weight, joined."""
    moments = load_file(folder / "optimizer.safetensors")
    by_kind = [{name[: -len(kind)]: value for name, value in moments.items() if name.endswith(kind)} for kind in (".adam.m", ".adam.v")]
    return [join(part) for part in (load_file(folder / "weights.safetensors"), *by_kind)]


# The order of training data, as docs/running.md gives it.
def batch_of_step(data, spec, step):
    """[B, N + 1] of step `step`, counted from 1, of one file; the epoch must not have ended."""
    context, batch, seed = spec["context"], spec["batch"], spec.get("seed", 0)
    rows = (len(data) - 1) // context
    rows = rows - 1 if rows > 1 else rows
    key = mix(seed ^ mix(0))
    phase = mix(key + 1 & MASK) % (len(data) - 1 - rows * context + 1)
    starts = [phase + permute(index, rows, key) * context for index in range((step - 1) * batch, step * batch)]
    return np.stack([np.frombuffer(data[start : start + context + 1], np.uint8) for start in starts]).astype(np.int32)


def training(spec):
    """The spec's training settings, completed by the defaults of docs/spec.md."""
    defaults = {"optimizer": "adamw", "learning_rate": 3e-4, "betas": [0.9, 0.95], "epsilon": 1e-8, "weight_decay": 0.1, "clip": 1.0}
    settings = defaults | spec.get("training", {})
    schedule = {"kind": "cosine", "steps": 1000, "floor": 0.1} | settings.get("schedule", {})
    settings["schedule"] = {"warmup": min(100, schedule["steps"])} | schedule
    if settings["optimizer"] != "adamw" or schedule["kind"] != "cosine" or settings["clip"] <= 0:
        raise SystemExit("the peers implement AdamW, a cosine schedule and clipping; see benchmarks/peers/model.py, or compare with --pytorch exported")
    return settings


def learning_rate(training, step):
    schedule = training["schedule"]
    warmup, steps, floor = schedule["warmup"], schedule["steps"], schedule["floor"]
    if step <= warmup:
        return training["learning_rate"] * step / warmup
    part = min(1.0, (step - warmup) / (steps - warmup))
    return training["learning_rate"] * (floor + (1 - floor) * (1 + math.cos(math.pi * part)) / 2)


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def serve(make_trainer, make_model=Model):
    """Answers compare.py: a line of JSON for each line of JSON. make_trainer(model, checkpoint, threads) returns an object with
    `version` and step(tokens, number, rate) -> loss, which has done its work when it returns; make_model(spec) its model."""
    settings = json.loads(sys.argv[1])
    imported = peak_megabytes()
    spec = json.loads(Path(settings["spec"]).read_text())
    data = Path(settings["data"]).read_bytes()
    model = make_model(spec)
    trainer = make_trainer(model, load_checkpoint(Path(settings["checkpoint"]), model.join), settings["threads"])
    print(json.dumps({"version": trainer.version, "imported_mb": imported}), flush=True)
    step = settings["step"]
    for line in sys.stdin:
        seconds, losses = [], []
        for _ in range(json.loads(line)["steps"]):
            step += 1
            # The batches of the first steps again and again: the cost of a step does not depend on them.
            tokens = batch_of_step(data, spec, (step - 1) % 4 + 1)
            rate = learning_rate(model.training, step)
            start = time.perf_counter()
            losses.append(float(trainer.step(tokens, step, rate)))
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "losses": losses, "peak_mb": peak_megabytes()}), flush=True)
