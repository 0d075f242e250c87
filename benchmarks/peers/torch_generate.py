# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generation in PyTorch 2 with a cache, one row: what a careful author writes by hand for one hourglass. Keys and values of each
layer are kept, a coarse stack runs only when its group closes, and the prompt is read token by token.

Answers benchmarks/generate.py: a line of JSON for each line of JSON, {"first", "last"} -> {"tokens_per_s"}.
"""
import json
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from model import Model, turns
from ops import Ops

CHECKED = 1e-4  # the greatest difference of a logit from the whole forward pass's


class Stepper:
    """The model one token at a time."""

    def __init__(self, model, weights):
        self.model, self.weights = model, weights
        self.size = model.width // model.heads
        self.turns = [torch.from_numpy(part) for part in turns(model.context, self.size)]
        self.reset()

    def reset(self):
        self.caches, self.fine, self.coarse = {}, {}, {}

    def logits(self, token, position):
        x = self.run(self.model.steps, self.weights["stages.0.token.weight"][token][None], position, "")
        return F.linear(x, self.weights["stages.2.weight"])[0]

    def run(self, steps, x, position, level):
        """x [1, width], row `position` of the level's scale."""
        at = {what: index for index, (what, _, _) in enumerate(steps)}
        if "shorten" not in at:
            return self.stack(steps, x, position)
        x = self.stack(steps[: at["skip"]], x, position)
        skip, shift = x, steps[at["skip"]][2]
        factor = steps[at["shorten"]][2]
        # Group m holds rows m factor - shift up to m factor + factor - 1 - shift, zeros before the first.
        self.fine.setdefault(level, torch.zeros(factor, self.model.width))
        self.fine[level][position % factor] = x[0]
        if (position + shift + 1) % factor == 0:
            group = (position + shift + 1) // factor - 1
            inner = steps[at["shorten"] + 1 : at["upsample"]]
            rows = self.fine[level].mean(0, keepdim=True)
            if inner and inner[0][0] == "inside":
                inner = inner[0][2]
            self.coarse[level] = self.run(inner, rows, group, level + ".")
        x = self.coarse[level] + skip
        return self.stack(steps[at["add"] + 1 :], x, position)

    def stack(self, steps, x, position):
        w = self.weights
        for what, name, _ in steps:
            if what == "norm":
                x = Ops.norm(x, w[name + "weight"], w[name + "bias"])
            else:
                x = self.layer(name, x, position)
        return x

    def layer(self, name, x, position):
        w, heads, size = self.weights, self.model.heads, self.size
        block = name + "attention."
        if name not in self.caches:
            self.caches[name] = torch.zeros(2, 1, heads, self.model.context, size)
        h = Ops.norm(x, w[block + "norm.weight"], w[block + "norm.bias"])
        q, k, v = F.linear(h, w[block + "qkv.weight"], w[block + "qkv.bias"]).view(3, heads, size)
        cache = self.caches[name]
        cache[0, 0, :, position], cache[1, 0, :, position] = self.rotate(k, position), v
        keys, values = cache[:, :, :, : position + 1]
        mixed = F.scaled_dot_product_attention(self.rotate(q, position)[None, :, None], keys, values)
        x = x + F.linear(mixed.reshape(1, -1), w[block + "output.weight"], w[block + "output.bias"])
        block = name + "feed_forward."
        h = Ops.norm(x, w[block + "norm.weight"], w[block + "norm.bias"])
        h = Ops.gelu(F.linear(h, w[block + "in.weight"], w[block + "in.bias"]))
        return x + F.linear(h, w[block + "out.weight"], w[block + "out.bias"])

    def rotate(self, x, position):
        cos, sin = (part[position] for part in self.turns)
        even, odd = x[:, 0::2], x[:, 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(1)


def random_weights(names):
    torch.manual_seed(1)
    return {name: torch.randn(shape) * 0.05 + (1 if "norm.weight" in name else 0) for name, shape in names.items()}


def check(stepper, model):
    """Every logit of a short text is the whole forward pass's."""
    count = min(24, model.context)
    tokens = torch.arange(count) * 37 % model.spec["vocabulary"]
    for rows in {-(-count // factor) for factor in range(1, count + 1)}:
        Ops.tables[rows, stepper.size] = [torch.from_numpy(part) for part in turns(rows, stepper.size)]
    whole = model.logits(Ops, stepper.weights, tokens[None])[0]
    stepper.reset()
    worst = max((stepper.logits(int(token), at) - whole[at]).abs().max().item() for at, token in enumerate(tokens))
    if not worst <= CHECKED:
        raise SystemExit(f"PyTorch: expected a step's logits within {CHECKED} of the forward pass's, found {worst}")


def speed(stepper, vocabulary, first, last):
    """Tokens a second at positions first to last, after a prompt of `first` tokens; greedy."""
    stepper.reset()
    token = 0
    for position in range(first):
        stepper.logits(position * 37 % vocabulary, position)
    start = time.perf_counter()
    for position in range(first, last + 1):
        token = int(stepper.logits(token, position).argmax())
    return (last + 1 - first) / (time.perf_counter() - start)


@torch.inference_mode()
def main():
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(settings["threads"])
    model = Model(json.loads(Path(settings["spec"]).read_text()))
    stepper = Stepper(model, random_weights(model.shapes()))
    check(stepper, model)
    print(json.dumps({"version": torch.__version__}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        print(json.dumps({"tokens_per_s": speed(stepper, model.spec["vocabulary"], wanted["first"], wanted["last"])}), flush=True)


main()
