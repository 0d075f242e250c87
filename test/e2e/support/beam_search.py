#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares beam search of `sluice generate` with the rule, in float64, over models with random weights.

usage: beam_search.py SLUICE ARTIFACT FOLDER MODELS

ARTIFACT has an embedding, one layer and a head; FOLDER receives the weights of each model."""
import json
import math
import random
import struct
import subprocess
import sys

EPSILON = 1e-5


def dot(matrix, vector):
    return [sum(map(float.__mul__, row, vector)) for row in matrix]


def add(*vectors):
    return [sum(numbers) for numbers in zip(*vectors)]


class Model:
    """An embedding, one layer and a head. A state holds the keys and values of all tokens."""

    def __init__(self, shapes, heads, draw):
        self.heads = heads
        self.tensors = {}
        for name, shape in shapes.items():
            is_gain = len(shape) == 1 and name.endswith("weight")
            scale = 0.2 if len(shape) == 1 else 1.5 / math.sqrt(shape[1])
            numbers = [draw.gauss(1 if is_gain else 0, scale) for _ in range(math.prod(shape))]
            self.tensors[name] = struct.unpack(f"{len(numbers)}f", struct.pack(f"{len(numbers)}f", *numbers))
        self.shapes = shapes

    def save(self, path):
        header, data = {}, b""
        for name, numbers in self.tensors.items():
            block = struct.pack(f"<{len(numbers)}f", *numbers)
            header[name] = {"dtype": "F32", "shape": self.shapes[name], "data_offsets": [len(data), len(data) + len(block)]}
            data += block
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)

    def vector(self, name):
        return list(self.tensors[name])

    def matrix(self, name):
        width = self.shapes[name][1]
        numbers = self.vector(name)
        return [numbers[i:i + width] for i in range(0, len(numbers), width)]

    def norm(self, name, x):
        mean = sum(x) / len(x)
        scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + EPSILON)
        weight, bias = self.vector(name + ".weight"), self.vector(name + ".bias")
        return [(v - mean) * scale * w + b for v, w, b in zip(x, weight, bias)]

    def linear(self, name, x):
        return add(dot(self.matrix(name + ".weight"), x), self.vector(name + ".bias"))

    def step(self, state, token):
        """Returns the state with one more token, and the logarithms of the next token's probabilities."""
        x = self.matrix("stages.0.token.weight")[token]
        h = self.norm("stages.1.attention.norm", x)
        query, key, value = (self.linear(f"stages.1.attention.{part}", h) for part in ("query", "key", "value"))
        state = state + [(key, value)]
        width, mixed = len(query) // self.heads, []
        for head in range(self.heads):
            part = slice(head * width, (head + 1) * width)
            scores = [sum(map(float.__mul__, query[part], keys[part])) / math.sqrt(width) for keys, _ in state]
            powers = [math.exp(score - max(scores)) for score in scores]
            for column in range(part.start, part.stop):
                mixed.append(sum(p * values[column] for p, (_, values) in zip(powers, state)) / sum(powers))
        x = add(x, self.linear("stages.1.attention.output", mixed))
        h = self.linear("stages.1.feed_forward.in", self.norm("stages.1.feed_forward.norm", x))
        x = add(x, self.linear("stages.1.feed_forward.out", [max(0.0, v) for v in h]))
        logits = dot(self.matrix("stages.2.weight"), x)
        total = max(logits) + math.log(sum(math.exp(v - max(logits)) for v in logits))
        return state, [v - total for v in logits]


def repeats(ids, size):
    """Returns true if the last `size` ids occur before."""
    return size > 0 and any(ids[i:i + size] == ids[-size:] for i in range(len(ids) - size))


def search(model, prompt, options):
    """Returns the ids and the score of the best text, and the smallest difference that decided something."""
    state = []
    for token in prompt:
        state, nats = model.step(state, token)
    live, finished, margin = [([], 0.0, state, nats)], [], math.inf
    width, end = options["beam"], options["end"]
    for _ in range(options["max"]):
        pairs = []
        for number, (ids, total, _, nats) in enumerate(live):
            for token, one in enumerate(nats):
                is_early = token == end and len(ids) < options["min"]
                if not is_early and not repeats(ids + [token], options["repeat"]):
                    pairs.append((-(total + one), number, token))
        pairs.sort()
        margin = min([margin] + [b[0] - a[0] for a, b in zip(pairs[:2 * width], pairs[1:])])
        others = []
        for place, (minus, number, token) in enumerate(pairs[:2 * width]):
            ids = live[number][0] + [token]
            if token != end:
                others.append((ids, -minus, number))
            elif place < width:
                finished.append((-minus / len(ids) ** options["penalty"], ids))
        if others:
            live = [(ids, total, *model.step(live[number][2], ids[-1])) for ids, total, number in others[:width]]
        if len(finished) >= width or not others:
            break
    if not finished:
        ids, total = live[0][:2]
        finished = [(total / len(ids) ** options["penalty"], ids)]
    score, ids = max(finished, key=lambda each: each[0])  # the first of several
    margin = min([margin] + [score - other for other, text in finished if text is not ids])
    return ids, score, margin


def main():
    program, artifact, folder, models = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    facts = json.loads(subprocess.run([program, "inspect", artifact, "--json"], check=True, capture_output=True).stdout)
    shapes = {tensor["name"]: tensor["shape"] for tensor in facts["tensors"]}
    compared = finished = 0
    for seed in range(models):
        draw = random.Random(seed)
        model = Model(shapes, 2, draw)
        weights = f"{folder}/weights.safetensors"
        model.save(weights)
        options = {"beam": draw.randint(1, 6), "penalty": draw.choice([0, 0.6, 2]), "min": draw.randint(0, 3),
                   "max": draw.randint(4, 9), "repeat": draw.randint(0, 3), "end": draw.randrange(7)}
        prompt = [draw.randrange(7) for _ in range(draw.randint(1, 5))]
        ids, score, margin = search(model, prompt, options)
        if margin < 1e-5:  # f32 rounds logits of magnitude 10 by 2^-24 times 10 times the number of sums
            continue
        command = [program, "generate", artifact, "--weights", weights, "--prompt-tokens", " ".join(map(str, prompt)), "--json",
                   "--beam", options["beam"], "--length-penalty", options["penalty"], "--min-tokens", options["min"],
                   "--max-tokens", options["max"], "--no-repeat", options["repeat"], "--end-token", options["end"]]
        run = subprocess.run(list(map(str, command)), check=True, capture_output=True)
        found = json.loads(run.stdout)
        assert found["ids"] == ids, (seed, options, prompt, found, ids, score)
        assert found["tokens"] == len(ids) and found["stop"] == ("stop" if ids[-1] == options["end"] else "length"), found
        assert abs(found["score"] - score) < 1e-4, (found, score)
        compared += 1
        finished += ids[-1] == options["end"]
    print(f"{compared} of {models} models compared, {finished} finished")
    assert compared >= models * 9 // 10 and models // 4 <= finished < compared


if __name__ == "__main__":
    main()
