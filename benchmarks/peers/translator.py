# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A training step of an encoder-decoder of lines in PyTorch 2, eager or compiled, for benchmarks/translators.py: fused attention and Adam,
one linear map where maps read the same rows. Written from docs/spec.md; takes what models/small/umst.json has, and the same with plain
layers in its encoder.

All lines have one length and one number of words, so nothing is masked. Sums over words' rows and over edges are made in one of two ways,
`dense`: products with matrices of each line, which are made before a step is timed; `index`: index_add and index_select.
"""
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from made_lines import lines_of_step
from model import load_checkpoint, peak_megabytes

BATCHES = 4  # the batches of the first steps again and again: the cost of a step does not depend on them


class Dense:
    """Matrices of each line: P_w between rows, P_p between words, and words by rows."""

    def __init__(self, words, heads):
        spread = F.one_hot(words).float()  # [B, L, U]
        sizes = spread.sum(1)
        self.rows = (spread @ spread.mT + torch.eye(words.shape[1])) / (spread @ sizes[..., None] + 1)
        linked = torch.eye(spread.shape[2]).repeat(len(words), 1, 1)
        line, word = torch.arange(len(words))[:, None], torch.arange(1, heads.shape[1] + 1)
        linked[line, word, heads] = 1
        linked[line, heads, word] = 1
        degree = linked.sum(2, keepdim=True)
        self.words = linked / (degree * degree.mT).sqrt()
        self.sums = spread.mT.contiguous()
        self.means = self.sums / sizes[..., None]
        self.spread = spread

    def tensors(self):
        return self.rows, self.words, self.sums, self.means, self.spread

    @staticmethod
    def over_rows(given, x):
        return given[0] @ x

    @staticmethod
    def over_words(given, x):
        return given[1] @ x

    @staticmethod
    def sum_words(given, x):
        return given[2] @ x

    @staticmethod
    def mean_words(given, x):
        return given[3] @ x

    @staticmethod
    def expand(given, x):
        return given[4] @ x


class Index:
    """Numbers of words and of their neighbours in the whole batch."""

    def __init__(self, words, heads):
        count = int(words.max()) + 1
        base = torch.arange(len(words))[:, None] * count
        self.word = (words + base).flatten()
        self.sizes = torch.bincount(self.word).float()
        late = (torch.arange(1, heads.shape[1] + 1) + base).flatten()
        early = (heads + base).flatten()
        self.near, self.far = torch.cat([late, early]), torch.cat([early, late])
        degree = 1 + torch.bincount(self.near, minlength=len(self.sizes)).float()
        self.scale = degree.rsqrt()[:, None]

    def tensors(self):
        sizes = self.sizes[:, None]
        return self.word, sizes, 1 / (sizes[self.word] + 1), self.near, self.far, self.scale

    @staticmethod
    def over_rows(given, x):
        rows = x.flatten(0, 1)
        sums = Index.add(given, rows)
        return ((rows + sums.index_select(0, given[0])) * given[2]).view_as(x)

    @staticmethod
    def add(given, rows):
        return rows.new_zeros(given[1].shape[0], rows.shape[1]).index_add(0, given[0], rows)

    @staticmethod
    def over_words(given, x):
        rows = x.flatten(0, 1) * given[5]
        return (rows.index_add(0, given[3], rows.index_select(0, given[4])) * given[5]).view_as(x)

    @staticmethod
    def sum_words(given, x):
        return Index.add(given, x.flatten(0, 1)).view(x.shape[0], -1, x.shape[2])

    @staticmethod
    def mean_words(given, x):
        return (Index.add(given, x.flatten(0, 1)) / given[1]).view(x.shape[0], -1, x.shape[2])

    @staticmethod
    def expand(given, x):
        return x.flatten(0, 1).index_select(0, given[0]).view(x.shape[0], -1, x.shape[2])


class Mixed(Dense):
    """Sums as products, copies by index."""

    def __init__(self, words, heads):
        super().__init__(words, heads)
        self.spread = words[..., None]

    @staticmethod
    def expand(given, x):
        return x.gather(1, given[4].expand(-1, -1, x.shape[2]))


WAYS = {"dense": Dense, "index": Index, "mixed": Mixed}


class Translator:
    def __init__(self, spec, way):
        self.spec, self.way = spec, way
        self.heads, width, context = spec["defaults"]["heads"], spec["width"], spec["context"]
        column, place = np.arange(width), np.arange(context)[:, None]
        angle = place / 10000.0 ** (2 * (column // 2) / width)
        self.places = torch.from_numpy(np.where(column % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32))
        self.smoothing = spec["stages"][-1]["label_smoothing"]

    def join(self, tensors):
        """Maps of the same rows as one: query, key and value; key and value of another stream; query and key of words."""
        joined = {}
        for name, value in tensors.items():
            found = re.fullmatch(r"stages\.(\d+)\.(.*)attention\.(words\.)?(query|key|value)\.(weight|bias)", name)
            if not found:
                joined[name] = value
                continue
            stage, _, words, part, _ = found.groups()
            is_cross = self.spec["stages"][int(stage)]["op"] == "attention"
            parts = ["query", "key"] if words else ["key", "value"] if is_cross else ["query", "key", "value"]
            if part == parts[0]:
                joined[name.replace(part, "joined")] = np.concatenate([tensors[name.replace(part, other)] for other in parts])
            elif part not in parts:
                joined[name] = value
        return joined

    def linear(self, name, x):
        return F.linear(x, self.w[name + "weight"], self.w[name + "bias"])

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.w[name + "weight"], self.w[name + "bias"], 1e-5)

    def attend(self, q, k, v, is_causal=False):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal).transpose(1, 2).flatten(2)

    def embed(self, stage, ids, name):
        x = F.embedding(ids, self.w[name]) * stage["scale"]
        return x + self.places[: ids.shape[1]] if "positions" in stage else x

    def feed_forward(self, name, x):
        return x + self.linear(name + "out.", F.relu(self.linear(name + "in.", self.norm(name + "norm.", x))))

    def attend_own(self, name, x, is_causal):
        q, k, v = self.linear(name + "joined.", self.norm(name + "norm.", x)).chunk(3, 2)
        return x + self.linear(name + "output.", self.attend(q, k, v, is_causal))

    def umst(self, prefix, stage, x, given):
        way = self.way
        for layer in range(stage["count"]):
            def name(part):
                return f"{prefix}inside.{15 * layer + part}."  # noqa: B023
            z = F.relu(self.linear(name(2), way.over_rows(given, self.norm(name(0), x))))
            rows = x + way.over_rows(given, z)
            words = way.mean_words(given, rows)
            words = words + F.relu(self.linear(name(10), way.over_words(given, self.norm(name(8), words))))
            attention = name(13) + "attention."
            q, k, v = self.linear(attention + "joined.", self.norm(attention + "norm.", rows)).chunk(3, 2)
            own, far = self.linear(attention + "words.joined.", self.norm(attention + "words.norm.", words)).chunk(2, 2)
            mixed = self.attend(q, k, v) + way.expand(given, self.attend(own, far, way.sum_words(given, v)))
            x = rows + self.linear(attention + "output.", 0.5 * mixed)
            x = self.feed_forward(name(14) + "feed_forward.", x)
        return self.norm(f"{prefix}inside.{15 * stage['count']}.", x)

    def loss(self, weights, source, target, *given):
        self.w, streams, x = weights, {}, None
        table = "stages.0.token.weight"
        words = None if not given else given[0]
        for index, stage in enumerate(self.spec["stages"][:-1]):
            prefix, op = f"stages.{index}.", stage["op"]
            x = streams.get(stage.get("from"), x)
            if op == "embedding":
                of = stage.get("input")
                ids = target[:, :-1] if of is None else source if of == "source" else words
                x = self.embed(stage, ids, prefix + "token.weight" if of == "class" else table)
            elif op == "add":
                x = x + streams[stage["with"]]
            elif op == "umst":
                x = self.umst(prefix, stage, x, given[1:])
            elif op == "layers":
                for layer in range(stage["count"]):
                    name = f"{prefix}inside.{layer}."
                    x = self.feed_forward(name + "feed_forward.", self.attend_own(name + "attention.", x, False))
            elif op == "layer":
                x = self.attend_own(prefix + "attention.", x, True)
            elif op == "norm":
                x = self.norm(prefix, x)
            elif op == "attention":
                name = prefix + "attention."
                k, v = self.linear(name + "joined.", streams[stage["key"]]).chunk(2, 2)
                mixed = self.attend(self.linear(name + "query.", streams[stage["query"]]), k, v)
                x = x + self.linear(name + "output.", mixed)
            elif op == "feed_forward":
                x = self.feed_forward(prefix + "feed_forward.", x)
            elif op != "boundaries":
                raise SystemExit(f"expected the stages of models/small/umst.json, found {op}")
            if "to" in stage:
                streams[stage["to"]] = x
        logits = F.linear(x.flatten(0, 1), self.w[table])
        return F.cross_entropy(logits, target[:, 1:].flatten(), label_smoothing=self.smoothing)


class Trainer:
    def __init__(self, settings, spec):
        torch.set_num_threads(settings["threads"])
        self.way = WAYS[settings["words"]]
        self.model = Translator(spec, self.way)
        weights, first, second = load_checkpoint(Path(settings["checkpoint"]), self.model.join)
        self.weights = {name: torch.from_numpy(value.copy()).requires_grad_() for name, value in weights.items()}
        training = spec["training"]
        self.rate, self.warmup = training["learning_rate"], training["schedule"]["warmup"]
        self.optimizer = torch.optim.Adam(self.weights.values(), betas=tuple(training["betas"]), eps=training["epsilon"], fused=True)
        for name, value in self.weights.items():
            self.optimizer.state[value] = {"step": torch.tensor(float(settings["step"])), "exp_avg": torch.from_numpy(first[name].copy()),
                                           "exp_avg_sq": torch.from_numpy(second[name].copy())}
        lines, batch = np.load(settings["lines"]), spec["batch"]
        self.batches = []
        for step in range(1, BATCHES + 1):
            chosen = lines_of_step(len(lines["source"]), batch, step)
            source, target, words, heads = (torch.from_numpy(lines[part][chosen]) for part in ("source", "target", "words", "heads"))
            given = []
            if "links" in spec["inputs"]:
                sizes = F.one_hot(words).sum(1).gather(1, words)
                given = [(sizes > 1).long(), *self.way(words, heads).tensors()]
            self.batches.append((source, target, *given))
        self.loss = torch.compile(self.model.loss, dynamic=False) if settings["compile"] else self.model.loss

    def step(self, number):
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * min(number / self.warmup, (self.warmup / number) ** 0.5)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.weights, *self.batches[(number - 1) % BATCHES])
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    settings = json.loads(sys.argv[1])
    imported = peak_megabytes()
    trainer = Trainer(settings, json.loads(Path(settings["spec"]).read_text()))
    print(json.dumps({"version": torch.__version__, "imported_mb": imported}), flush=True)
    number = settings["step"]
    for line in sys.stdin:
        seconds, losses = [], []
        for _ in range(json.loads(line)["steps"]):
            number += 1
            start = time.perf_counter()
            losses.append(trainer.step(number))
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "losses": losses, "peak_mb": peak_megabytes()}), flush=True)


main()
