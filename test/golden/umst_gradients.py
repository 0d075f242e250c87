#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares loss and gradients of encoder-decoders of words with PyTorch in float64, for each variant of Li et al. (2022).

Usage: umst_gradients.py SLUICE [VARIANT ...]   all variants by default; exit 1 if a gradient differs by more than 1e-5 of the
                                                model's largest one, or a loss by more than 1e-5 of its value

The program trains one step in float32 on all lines, from weights that this script writes. Adam's `epsilon` is far above all
gradients, and the rate is so large that a weight changes by about 1,000 times its gradient: the gradient follows from the change.
This script computes words, classes and edges from the lines by itself.
"""
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

from draws import philox
from make_goldens import read_safetensors, write_safetensors
from model import Model, Stream

BOUND, EPSILON, RATE = 1e-5, 1e3, 1e6
WIDTH, CONTEXT, SEED, LINE_END = 32, 24, 7, 10
MASK = 2 ** 64 - 1

# Sources, their edges between words, and targets. With the line end they have 1, 2, CONTEXT, and more tokens, which are cut. Words
# have 1, 6 and up to 23 bytes, and no edge, one, several, an edge that is listed twice, or an edge to a word that is cut.
LINES = [
    ("", "", ""),
    ("a", "", "c"),
    (" ", "", "ab cz"),
    ("ab", "", "x yz"),
    ("abcdef", "", "zxzz  xzxbbzx yxzba"),
    ("a b", "0-1", "cbaxzyyax  yyxybxaz"),
    ("a bcdef ghijkl", "", ""),
    ("abcdefghijklmnopqrstuvw", "", "aaabbxaz c xzbxbyc abcd"),
    ("x yz abcdef g h ij kl m", "0-4 5-6 3-4 0-1 2-7", "a yc xzaycczbxcaaxz"),
    ("a  b", "1-2 2-1 0-2", "y"),
    ("one two six abcdef q", "3-1", "zb yxb xbyzb y"),
    ("a b c d e f g h i j k l", "8-10 3-10 6-7 1-9 0-6 10-8", "abba  y  axybzycc"),
    ("ab cd ef gh ij kl mn op qr st", "0-1 1-2 7-8 3-9 2-9 4-5", "zzx abcdefghijklmnopqrstuvwxyz"),
]

# Settings of the stage that is the encoder. Some variants also change the inputs: see build_inputs.
VARIANTS = {
    "plain": {"op": "layers"},
    "umst": {},
    "relative": {"vectors": 8},
    "no-class": {},
    "no-intra": {"intra": "none"},
    "no-inter": {"inter": "none"},
    "pooling": {"intra": "pooling", "inter": "pooling"},
    "gat": {"intra": "gat", "inter": "gat"},
    "shared-blocks": {"graph_maps": "layers"},
    "shared-graphs": {"graph_maps": "scales"},
    "shared-queries": {"shared_maps": True},
    "nearest": {"expand": "nearest"},
    "linear": {"expand": "linear"},
    "random-words": {"intra_edges": "pairs", "inter": "none"},
    "shuffled-words": {"inter": "none"},
    "random-phrases": {},
    "tnt": {"op": "tnt"},
    "tnt-shared": {"op": "tnt", "shared_layers": True},
    "multi-stage": {"op": "multi_stage", "layers": [2, 2, 2]},
    "code": {"mode": "reference-code"},
    "code-relative": {"mode": "reference-code", "vectors": 3, "shared_maps": True},
    "chain": {},
}
DECODER_LAYERS = {"plain": 2, "umst": 2}  # else 1


def build_inputs(variant):
    inputs, op = {"source": {"context": CONTEXT, "end": True}}, VARIANTS[variant].get("op", "umst")
    if variant not in ("plain", "no-class"):
        inputs["class"] = {"on": "source", "vocabulary": 2, "derived": "word_split", "rule": "whitespace"}
    if variant != "plain":
        derived = "shuffled_end" if variant == "shuffled-words" else "word_end"
        inputs["ends"] = {"on": "source", "derived": derived, "rule": "whitespace"}
    if op == "multi_stage" or (op == "umst" and VARIANTS[variant].get("inter") != "none"):
        patterns = {"chain": {"pattern": "chain"}, "random-phrases": {"pattern": "random"}}
        inputs["links"] = {"type": "edges", "on": "ends", **patterns.get(variant, {})}
    if variant == "random-words":
        inputs["pairs"] = {"type": "edges", "on": "source", "pattern": "half"}
    return inputs


def build_encoder(variant, inputs):
    stage = {"op": "umst", **VARIANTS[variant]}
    if stage["op"] != "multi_stage":
        stage["count"] = 2
    if "links" in inputs:
        stage["edges"] = "links"
    if variant == "plain":
        return [{**stage, "mask": "bidirectional"}, {"op": "norm", "to": "memory"}]
    words = {"op": "boundaries", "name": "words", "rule": "bits", "bits": "ends"}
    return [words, {**stage, "segments": "words", "to": "memory"}]


def build_decoder(layers):
    stages = []
    for layer in range(layers):
        own, query = f"own_{layer}", f"query_{layer}"
        stages += [{"op": "layer", "feed_forward": 0, "to": own}, {"op": "norm", "to": query},
                   {"op": "attention", "from": own, "query": query, "key": "memory", "value": "memory", "attention_norm": False},
                   {"op": "feed_forward"}]
    stages[0]["from"] = "target"
    return [*stages, {"op": "norm"}, {"op": "head", "share": "tokens", "label_smoothing": 0.1}]


def build_spec(variant):
    inputs = build_inputs(variant)
    embedding = {"op": "embedding", "scale": WIDTH ** 0.5, "deviation": WIDTH ** -0.5}
    tokens = {**embedding, "share": "tokens", "positions": "sinusoidal"}
    source = [{**tokens, "input": "source"}]
    if "class" in inputs:
        source = [{**embedding, "input": "class", "to": "classes"}, *source, {"op": "add", "with": "classes"}]
    return {
        "sluice": 1, "name": "gradients-" + variant, "vocabulary": 256, "context": CONTEXT, "batch": len(LINES), "width": WIDTH,
        "seed": SEED, "inputs": inputs, "defaults": {"heads": 2, "activation": "relu", "feed_forward": 48},
        "stages": [{**tokens, "to": "target"}, *source, *build_encoder(variant, inputs),
                   *build_decoder(DECODER_LAYERS.get(variant, 1))],
        "training": {"optimizer": "adam", "learning_rate": RATE, "epsilon": EPSILON, "weight_decay": 0, "clip": 0,
                     "schedule": {"kind": "constant", "warmup": 0}},
    }


# Words and edges of lines, from docs/running.md and docs/spec.md; the hashes are in Hash.h, SideStreams.cpp and Edges.cpp.

def mix(x):
    """The finalizer of SplitMix64."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def line_key(line):
    """The number that the seed and the tokens of a line determine."""
    key = mix(SEED)
    for token in line.encode():
        key = mix((key + token) & MASK)
    return key


def word_lengths(line):
    """Rows of the words of a line that is cut, without the line end; whitespace ends a word."""
    text, lengths, rows = line.encode()[:CONTEXT - 1], [], 0
    for index, byte in enumerate(text):
        rows += 1
        if byte in b" \t\v\f\r" or index + 1 == len(text):
            lengths.append(rows)
            rows = 0
    return lengths


def shuffle(lengths, key):
    lengths = list(lengths)
    for i in range(len(lengths), 1, -1):
        j = mix(key ^ mix(i)) % i
        lengths[i - 1], lengths[j] = lengths[j], lengths[i - 1]
    return lengths


def link(pairs, rows):
    """Edges as a matrix [rows, rows], without edges to rows that are cut."""
    linked = torch.zeros(rows, rows, dtype=torch.bool)
    for u, v in pairs:
        if max(u, v) < rows:
            linked[u, v] = linked[v, u] = True
    return linked


def link_words(pattern, line, edges, words):
    """Edges of `words` words, the last of which is the line end and has none."""
    count, key = words - 1, line_key(line)
    if pattern == "chain":
        pairs = [(v - 1, v) for v in range(1, count)]
    elif pattern == "random":
        pairs = [(mix(key ^ mix(v)) % v, v) for v in range(1, count)]
    else:
        pairs = [(u, v) for u, v in (map(int, pair.split("-")) for pair in edges.split()) if max(u, v) < count]
    return link(pairs, words)


def link_half(line, rows):
    key = (mix(line_key(line)) >> 33, 0)
    return link([(p, q) for q in range(rows) for p in range(q) if philox((p, q, 0, 0), key)[0] >= 2 ** 31], rows)


def pad(rows):
    return torch.tensor([row + [0] * (CONTEXT - len(row)) for row in rows])


class Reference(Model):
    """A Model of the stages of these specs, with edges of its own for each line."""

    def __init__(self, spec, make):
        super().__init__(spec, make)
        inputs, lengths = spec["inputs"], [word_lengths(source) for source, _, _ in LINES]
        cut = lengths
        if inputs.get("ends", {}).get("derived") == "shuffled_end":
            cut = [shuffle(own, line_key(source)) for own, (source, _, _) in zip(lengths, LINES)]
        sources = [list(source.encode()[:CONTEXT - 1]) + [LINE_END] for source, _, _ in LINES]
        counts = torch.tensor([len(source) for source in sources])
        ends = [[int(row + 1 == n) for n in own for row in range(n)] + [1] for own in cut]
        classes = [[int(n > 1) for n in own for _ in range(n)] + [0] for own in lengths]
        self.given = {"source": (pad(sources), counts), "ends": (pad(ends), counts), "class": (pad(classes), counts)}
        pattern = inputs.get("links", {}).get("pattern")
        self.links = [link_words(pattern, source, edges, len(own) + 1) for own, (source, edges, _) in zip(cut, LINES)]
        targets = [list(target.encode()[:CONTEXT]) for _, _, target in LINES]
        self.tokens = pad([([LINE_END] + target)[:CONTEXT] for target in targets])
        self.targets = pad([(target + [LINE_END])[:CONTEXT] for target in targets])
        self.scored = torch.arange(CONTEXT) < torch.tensor([min(len(target) + 1, CONTEXT) for target in targets])[:, None]
        self.turns, self.line = itertools.cycle(range(len(LINES))), 0  # the line whose encoder's layers are evaluated

    def loss(self):
        losses, _ = self.losses_of(self.spec["stages"][-1], self.logits(self.tokens))
        return losses[self.scored].mean()

    # Stages.

    def expand(self, prefix, stage):
        layer = {"op": "layer", "mask": "bidirectional"}
        if stage["op"] == "tnt":
            parts = []
            for pair in range(stage["count"]):
                share = {"share": f"{prefix}layer.{pair}"} if stage.get("shared_layers") else {}
                parts += [{**layer, **share, "within": stage["segments"]}, {**layer, **share}]
            self.expand_parts(prefix, [*parts, {"op": "norm"}], stage)
        elif stage["op"] == "multi_stage":
            rows, words, linked = ({**layer, "op": "layers", "count": count} for count in stage["layers"])
            parts = [rows, {"op": "shorten", "segments": stage["segments"]}, {**words, "to": ("stream", "words")}, {"op": "norm"},
                     {"op": "graph_convolution"}, {"op": "project", "activation": "relu"}, {"op": "dropout"},
                     {"op": "add", "with": ("stream", "words")}, linked, {"op": "norm"}]
            self.expand_parts(prefix, parts, stage)
        else:
            outer = self.written
            self.written = (prefix, stage) if "share" in stage else outer
            super().expand(prefix, stage)
            self.written = outer

    def declare(self, prefix, stage):
        if stage["op"] == "feed_forward":
            self.declare_feed_forward(prefix, self.settings(stage))
        elif stage["op"] == "attention":
            for which in ("query", "key", "value", "output"):
                self.linear_weights(f"{prefix}attention.{which}.", self.width, self.width, True)
        else:
            super().declare(prefix, stage)

    def declare_feed_forward(self, prefix, s):
        if s["feed_forward"] > 0:
            super().declare_feed_forward(prefix, s)

    def apply(self, prefix, stage, source, streams, tokens):
        op, s = stage["op"], self.settings(stage)
        own = prefix + ("feed_forward." if op == "feed_forward" else "attention.")
        if op == "dropout":
            return source
        if op not in ("attention", "feed_forward") and not (op == "layer" and s["feed_forward"] == 0):
            return super().apply(prefix, stage, source, streams, tokens)
        x = source.rows()
        if op == "attention":
            query, key = streams[stage["query"]].rows(), streams[stage["key"]]
            y = self.attention(own, query, key.rows(), {**s, "mask": "bidirectional"}, 1, 1, key.counts)
        else:
            y = self.norm(own + "norm.", x, s["norm"], s["epsilon"])
            y = self.feed_forward(own, y, s) if op == "feed_forward" else self.attention(own, y, y, s, 1, 1)
        return Stream(x + y, 1)

    def umst_line(self, prefix, stage, x, bits):
        self.line = next(self.turns)
        return super().umst_line(prefix, stage, x, bits)

    def word_edges(self, words):
        return self.links[self.line]

    def drawn_edges(self, rows):
        return link_half(LINES[self.line][0], rows)

    def graph_convolution(self, method, x, counts):
        if counts.tolist() != [len(linked) for linked in self.links]:
            raise ValueError("expected a graph convolution of words")
        matrices = [self.graph_matrices(linked, x)[0] for linked in self.links]
        return torch.stack([F.pad(p @ x[b, :len(p)], (0, 0, 0, x.shape[1] - len(p))) for b, p in enumerate(matrices)])


def run(program, *words):
    result = subprocess.run([program, *words], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, words[:2]))}: {result.stdout}{result.stderr}")


def train(program, folder, spec):
    """Returns weights, and the program's loss and gradients."""
    path, artifact = folder / "spec.json", folder / "model.sla"
    path.write_text(json.dumps(spec))
    for name, column in (("source", 0), ("links", 1), ("target", 2)):
        (folder / name).write_text("".join(line[column] + "\n" for line in LINES))
    run(program, "compile", path, "-o", artifact)
    data = ["--data", folder / "target", "--input", f"source={folder / 'source'}"]
    if "links" in spec["inputs"] and "pattern" not in spec["inputs"]["links"]:
        data += ["--input", f"links={folder / 'links'}"]
    run(program, "train", artifact, *data, "--steps", "0", "--out", folder / "begin")
    weights = read_safetensors(folder / "begin/checkpoints/0/weights.safetensors")
    random = np.random.default_rng(SEED)
    weights = {name: (weights[name] + random.normal(0, 0.1, weights[name].shape)).astype(np.float32) for name in sorted(weights)}
    write_safetensors(folder / "weights.safetensors", weights)
    run(program, "train", artifact, *data, "--weights", folder / "weights.safetensors", "--steps", "1", "--out", folder / "run")
    moved = read_safetensors(folder / "run/checkpoints/1/weights.safetensors")
    gradients = {}
    for name, weight in weights.items():
        share = (weight.astype(np.float64) - moved[name]) / RATE  # g / (|g| + EPSILON)
        gradients[name] = share * EPSILON / (1 - np.abs(share))
    return weights, json.loads((folder / "run/metrics.jsonl").read_text().splitlines()[0])["loss"], gradients


def compare(program, variant):
    """Returns the loss, its error, and the largest errors of gradients, relative to the largest gradient of their tensor and of
    the model, each with the name of its tensor."""
    spec = build_spec(variant)
    with tempfile.TemporaryDirectory() as folder:
        weights, found_loss, found = train(program, pathlib.Path(folder), spec)

    def make(name, shape, _):
        if weights[name].shape != tuple(shape):
            raise ValueError(f"{name}: expected {tuple(shape)}, found {weights[name].shape}")
        return torch.tensor(weights[name].astype(np.float64), requires_grad=True)

    model = Reference(spec, make)
    if set(weights) != set(model.weights):
        raise ValueError(f"{variant}: weights of one side alone: {sorted(set(weights) ^ set(model.weights))}")
    loss = model.loss()
    loss.backward()
    magnitudes = {name: weight.grad.abs().max().item() for name, weight in model.weights.items()}
    errors = {name: np.abs(weight.grad.numpy() - found[name]).max().item() for name, weight in model.weights.items()}
    largest = max(magnitudes.values())
    # A bias of keys has no gradient in theory: a softmax does not see it.
    tensor_error = max((errors[name] / magnitudes[name], name) for name in errors if magnitudes[name] > 1e-9 * largest)
    model_error = max((error / largest, name) for name, error in errors.items())
    return loss.item(), abs(loss.item() - found_loss), tensor_error, model_error


def main():
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK) or not set(sys.argv[2:]) <= set(VARIANTS):
        sys.exit(f"{__doc__}\nVariants: {' '.join(VARIANTS)}")
    program = pathlib.Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    print("                              error of gradients, relative to the largest of\n"
          "variant           loss   error  the model                                  the tensor")
    wrong = []
    for variant in sys.argv[2:] or VARIANTS:
        loss, loss_error, (tensor_error, tensor), (model_error, name) = compare(program, variant)
        if not (model_error <= BOUND and loss_error <= BOUND * loss):
            wrong.append(variant)
        print(f"{variant:<15} {loss:.4f} {loss_error:.1e}    {model_error:.1e} {name:<34} {tensor_error:.1e} {tensor}", flush=True)
    if wrong:
        sys.exit(f"more than {BOUND} apart: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
