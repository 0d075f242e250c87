# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The families of models/small in PyTorch, as a careful author writes them: maps of one input are one matrix, a window of a few keys
is computed in blocks, rows that no key reaches are left out, and scores by distance are one product, shifted ("relative shift",
Dai et al. 2019). PyTorch's fused attention takes no bias that has a gradient, so those scores are softmaxed apart.

Written from docs/spec.md alone. Takes specs of one embedding, one composite stage (hourglass with attention resampling, top_down,
bottom_up, or layers with `scales`), norms and one untied head: pre-norm layers with layer norm, tanh GELU and causal masks.
"""
import math
import re

import torch
import torch.nn.functional as F

from model import training
from ops import Ops

SETTINGS = {"heads", "activation", "rotary", "relative", "scales"}


def levels_of(stage):
    return [tuple(map(int, word.split("@"))) for word in stage["hierarchy"].split()]


def cat(tensors, names, dimension=0):
    return torch.cat([torch.from_numpy(tensors[name]) for name in names], dimension).numpy()


class Families:
    """A spec's model. Weights are joined by `join` and given to `logits`; `first` is the first row that is scored."""

    def __init__(self, spec):
        embedding, body, *norms, head = spec["stages"]
        self.settings = spec["defaults"]
        known = {"hourglass": {"op", "hierarchy", "shorten", "upsample"}, "top_down": {"op", "hierarchy"},
                 "bottom_up": {"op", "hierarchy"}, "layers": {"op", "count"}}
        relative = self.settings.get("relative", "xl_shared")
        plain = [set(embedding) <= {"op", "positions"}, set(body) <= known.get(body["op"], set()), set(head) <= {"op", "first"},
                 set(self.settings) <= SETTINGS, self.settings.get("activation") == "gelu_tanh", relative == "xl_shared",
                 all(set(norm) == {"op"} and norm["op"] == "norm" for norm in norms), "precision" not in spec,
                 body.get("shorten", "attention") == body.get("upsample", "attention") == "attention"]
        if not all(plain):
            raise SystemExit("this spec uses what the peers do not implement; see benchmarks/peers/families.py, or compare with --pytorch exported")
        self.spec, self.body, self.norms = spec, body, len(norms)
        self.width, self.heads = spec["width"], self.settings["heads"]
        self.size = self.width // self.heads
        self.context, self.batch, self.training = spec["context"], spec["batch"], training(spec)
        self.first, self.head = head.get("first", 0), f"stages.{len(spec['stages']) - 1}."
        self.positions = embedding.get("positions", "none") == "learned"
        self.constants, self.matrices, self.over, self.filled = {}, set(), set(), set()
        if body["op"] == "hourglass" and len(levels_of(body)) > 1:
            (fine, _), (coarse, _), _ = levels_of(body)
            self.over = {f"stages.1.inside.{index}.attention." for index in (fine + 5, fine + coarse + 8)}

    # Weights.

    def join(self, tensors):
        """Maps of one input as one: qkv of a layer, kv of another stream; of groups of heads all queries and all outputs."""
        result = dict(tensors)

        def put(name, names, dimension=0):
            result[name] = cat(tensors, names, dimension)
            for part in names:
                result.pop(part, None)

        for name in tensors:
            if found := re.fullmatch(r"(.*attention\.)query\.weight", name):
                block, queries = found[1], [] if found[1] in self.over else ["query"]
                put(block + ("kv" if block in self.over else "qkv") + ".weight",
                    [f"{block}{part}.weight" for part in [*queries, "key", "value"]])
                biased = queries if block + "query.bias" in tensors else []
                put(block + ("qkv" if biased else "kv") + ".bias", [f"{block}{part}.bias" for part in [*biased, "key", "value"]])
            elif found := re.fullmatch(r"(.*attention\.)0\.query\.weight", name):
                block, count = found[1], sum(f"{found[1]}{i}.query.weight" in tensors for i in range(self.heads))
                own = [] if block + "0.over.norm.weight" in tensors else ["0.key", "0.value"]
                for kind in ("weight", "bias"):
                    put(f"{block}query.{kind}", [f"{block}{part}.{kind}" for part in [*(f"{i}.query" for i in range(count)), *own]])
                    for i in range(1 if own else 0, count):
                        put(f"{block}{i}.kv.{kind}", [f"{block}{i}.{part}.{kind}" for part in ("key", "value")])
                put(block + "output.weight", [f"{block}{i}.output.weight" for i in range(count)], 1)
        self.matrices = {name for name, value in result.items() if value.ndim == 2 and not name.startswith("stages.0.")}
        return result

    def decayed(self, name):
        return name in self.matrices

    @torch.no_grad()
    def given(self, w, tokens):
        """What `logits` takes beside the tokens: nothing. The first time it makes constants, before anything is compiled."""
        if not self.filled:
            self.filled.add(self.context)
            self.logits(Ops, w, tokens[:1])
        return ()

    def constant(self, key, make):
        """A tensor without a gradient that is made once."""
        if key not in self.constants:
            self.constants[key] = make()
        return self.constants[key]

    # Parts that all families share.

    def logits(self, ops, weights, tokens):
        x = weights["stages.0.token.weight"][tokens]
        if self.positions:
            x = x + weights["stages.0.position.weight"][: x.shape[1]]
        x = getattr(self, self.body["op"])(weights, x)
        for index in range(self.norms):
            x = self.norm(weights, f"stages.{index + 2}.", x)
        return F.linear(x, weights[self.head + "weight"])

    @staticmethod
    def norm(w, name, x):
        return Ops.norm(x, w[name + "weight"], w[name + "bias"])

    def split(self, x):
        """[B, N, heads * D] -> [B, heads, N, D]"""
        return x.view(x.shape[0], x.shape[1], -1, self.size).transpose(1, 2)

    @staticmethod
    def merge(x):
        return x.transpose(1, 2).flatten(2)

    def stack(self, w, prefix, indices, x, first=0, factor=1):
        """Layers and the norm behind them. Row 0 of x is the scale's row `first`."""
        *layers, last = indices
        for index in layers:
            x = self.layer(w, f"{prefix}{index}.", x, first, factor)
        return self.norm(w, f"{prefix}{last}.", x)

    def layer(self, w, name, x, first=0, factor=1):
        block = name + "attention."
        h = self.norm(w, block + "norm.", x)
        if "scales" in self.settings and self.body["op"] == "layers":
            mixed = self.retina(w, block, h)
        elif "relative" in self.settings:
            mixed = self.relative(w, block, h, factor)
        else:
            q, k, v = map(self.split, F.linear(h, w[block + "qkv.weight"], w[block + "qkv.bias"]).chunk(3, -1))
            if self.settings.get("rotary"):
                q, k = self.rotate(q, first), self.rotate(k, first)
            mixed = self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return self.finish(w, name, x, mixed)

    def finish(self, w, name, x, mixed):
        """A layer behind the mixing of values."""
        x = x + F.linear(mixed, w[name + "attention.output.weight"], w[name + "attention.output.bias"])
        block = name + "feed_forward."
        h = Ops.gelu(F.linear(self.norm(w, block + "norm.", x), w[block + "in.weight"], w[block + "in.bias"]))
        return x + F.linear(h, w[block + "out.weight"], w[block + "out.bias"])

    def rotate(self, x, first):
        """x [B, heads, N, D], whose row 0 has position `first`."""
        def turns():
            angle = torch.arange(first, first + x.shape[2])[:, None] * 10000.0 ** (-torch.arange(0, self.size, 2) / self.size)
            return angle.cos(), angle.sin()

        cos, sin = self.constant(("turns", first, x.shape[2]), turns)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    @staticmethod
    def means(x, factor):
        return x.unflatten(1, (-1, factor)).mean(2)

    # Scores by distance.

    def rows(self, w, block, count, step):
        """Rows by distance, the farthest first: [heads, count, D]."""
        def sinusoids():
            column = torch.arange(self.width)
            angle = step * torch.arange(count - 1, -1, -1).double()[:, None] / 10000.0 ** (2 * (column // 2) / self.width)
            return torch.where(column % 2 == 0, angle.sin(), angle.cos()).float()

        table = self.constant(("rows", count, step), sinusoids)
        return F.linear(table, w[block + "relative.weight"]).view(count, self.heads, self.size).transpose(0, 1)

    def later(self, queries, keys, step=1):
        return self.constant(("later", queries, keys, step),
                             lambda: torch.arange(keys)[None, :] > step * torch.arange(queries)[:, None])

    @staticmethod
    def shifted(x):
        """[..., P, P], column P - 1 - D of row p, to [..., P, P] with D = p - q; what is later than the query is anything."""
        count = x.shape[-1]
        padded = F.pad(x, (1, 0)).flatten(-2)
        return padded[..., count:].unflatten(-1, (count, count))

    def biases(self, w):
        return [w[f"stages.1.inside.0.attention.relative.{part}.bias"] for part in ("content", "position")]

    def mix(self, content, keys, values, by_distance, later):
        """softmax(content keys^T + by_distance) values; content is scaled already. [B, heads, P, ...]"""
        scores = torch.baddbmm(by_distance.flatten(0, 1), content.flatten(0, 1), keys.flatten(0, 1).transpose(1, 2))
        mixed = torch.bmm(scores.masked_fill_(later, -math.inf).softmax(-1), values.flatten(0, 1))
        return mixed.view(content.shape)

    def relative(self, w, block, h, factor):
        """Self-attention with Transformer-XL's terms."""
        u, v = self.biases(w)
        joined = F.linear(h, w[block + "qkv.weight"], torch.cat((u, w[block + "kv.bias"])))
        q, keys, values = joined.chunk(3, -1)
        q, scale = q / math.sqrt(self.size), 1 / math.sqrt(self.size)
        rows = self.rows(w, block, h.shape[1], factor)
        products = self.split(q + (v - u) * scale) @ rows.transpose(1, 2)
        mixed = self.mix(self.split(q), self.split(keys), self.split(values), self.shifted(products), self.later(h.shape[1], h.shape[1]))
        return self.merge(mixed)

    def queries_and_keys(self, w, block, x, over):
        """Of a layer between scales: scaled queries with u, with v, keys, values."""
        u, v = self.biases(w)
        q = F.linear(x, w[block + "query.weight"], u) / math.sqrt(self.size)
        keys, values = F.linear(over, w[block + "kv.weight"], w[block + "kv.bias"]).chunk(2, -1)
        return self.split(q), self.split(q + (v - u) / math.sqrt(self.size)), self.split(keys), self.split(values)

    def to_coarse(self, w, name, x, over, factor):
        """A layer of coarse queries over fine keys: D = factor p - q."""
        content, position, keys, values = self.queries_and_keys(w, name + "attention.", x, over)
        queries, count = x.shape[1], over.shape[1]
        products = position @ self.rows(w, name + "attention.", count, 1).transpose(1, 2)
        padded = F.pad(products, (factor, 0))
        # Keys after the last query's own are unused.
        used = count - factor + 1
        strides = (padded.stride(0), padded.stride(1), count, 1)
        by_distance = padded.as_strided((*padded.shape[:2], queries, used), strides, count + factor - 1)
        mixed = self.mix(content, keys[:, :, :used], values[:, :, :used], by_distance, self.later(queries, used, factor))
        return self.finish(w, name, x, self.merge(mixed))

    def to_fine(self, w, name, x, over, factor):
        """A layer of fine queries over coarse keys: queries of one place in their group meet the same rows by distance."""
        content, position, keys, values = self.queries_and_keys(w, name + "attention.", x, over)
        count = over.shape[1]

        def by_place(q):
            return q.unflatten(2, (count, factor)).transpose(2, 3)  # [B, heads, factor, count, D]

        # The farthest first: of `factor` neighbours the one of the last place.
        rows = self.rows(w, name + "attention.", count * factor, 1).unflatten(1, (count, factor)).flip(2).transpose(1, 2)
        products = self.shifted(by_place(position) @ rows.transpose(2, 3)).flatten(2, 3)
        later = self.constant(("places", count, factor), lambda: self.later(count, count).repeat(factor, 1))
        mixed = self.mix(by_place(content).flatten(2, 3), keys, values, products, later)
        mixed = mixed.unflatten(2, (factor, count)).transpose(2, 3).flatten(2, 3)
        return self.finish(w, name, x, self.merge(mixed))

    # The families.

    def hourglass(self, w, x):
        prefix, levels = "stages.1.inside.", levels_of(self.body)
        before = levels[0][0]
        x = self.stack(w, prefix, range(before + 1), x)
        if len(levels) == 1:
            return x
        (inner, factor), (after, _) = levels[1:]
        over = self.norm(w, f"{prefix}{before + 1}.", x)
        y = self.means(F.pad(over, (0, 0, factor - 1, 0))[:, : over.shape[1]], factor)
        y = self.norm(w, f"{prefix}{before + 4}.", y)
        y = self.to_coarse(w, f"{prefix}{before + 5}.", y, over, factor)
        up = before + 6 + inner + 1
        y = self.stack(w, prefix, range(before + 6, up), y, factor=factor)
        y = self.to_fine(w, f"{prefix}{up + 1}.", x, self.norm(w, f"{prefix}{up}.", y), factor)
        x = x + self.norm(w, f"{prefix}{up + 2}.", y)
        return self.stack(w, prefix, range(up + 4, up + 4 + after + 1), x)

    def top_down(self, w, e):
        """Rows before the first that a coarser one has are left out: zeros stand for their logits, which nobody reads."""
        prefix, index, levels, above = "stages.1.inside.", 0, levels_of(self.body), None
        for number, (layers, factor) in enumerate(levels):
            index += 2 if number else 0  # upsample, shift
            x, first = e, levels[0][1] // factor - 1
            if factor > 1:
                x, index = self.means(e, factor), index + 1
            x = x[:, first:]
            if number:
                name, repeat = f"{prefix}{index}.", levels[number - 1][1] // factor
                z = F.linear(above, w[name + "with.weight"]).repeat_interleave(repeat, 1)[:, : x.shape[1]]
                x, index = F.linear(x, w[name + "weight"], w[name + "bias"]) + z, index + 1
            above = self.stack(w, prefix, range(index, index + layers + 1), x, first)
            index += layers + 1
        return F.pad(above, (0, 0, self.first, 0))

    def bottom_up(self, w, e):
        prefix, index, levels, made = "stages.1.inside.", 0, levels_of(self.body), []
        x = e
        for (_, finer), (layers, factor) in zip(levels, levels[1:]):
            x = self.stack(w, prefix, range(index + 1, index + layers + 2), self.means(x, factor // finer))
            made.append((x, factor))
            index += layers + 2
        name = f"{prefix}{index}."
        block = name + "attention."
        queries = self.split(F.linear(self.norm(w, block + "norm.", e), w[block + "query.weight"], w[block + "query.bias"]))
        mixed = []
        for i, (y, factor) in enumerate(made):
            keys = F.linear(self.norm(w, f"{block}{i}.over.norm.", y), w[f"{block}{i}.kv.weight"], w[f"{block}{i}.kv.bias"])
            q = queries.chunk(len(made), 1)[i]
            mixed.append(self.window(q, keys, factor, 0, e.shape[1]))
        x = self.finish(w, name, e, torch.cat(mixed, -1))
        return self.stack(w, prefix, range(index + 1, index + levels[0][0] + 2), x)

    def layers(self, w, x):
        for index in range(self.body["count"]):
            x = self.layer(w, f"stages.1.inside.{index}.", x)
        return x

    def retina(self, w, block, h):
        """Groups of heads over means of groups of rows. The first group's factor is 1: its keys are one map with all queries."""
        scales = self.settings["scales"]
        part = self.width // len(scales)
        joined = F.linear(h, w[block + "query.weight"], w[block + "query.bias"])
        queries, own = self.split(joined[..., : self.width]), joined[..., self.width :]
        mixed = [self.near(queries[:, : part // self.size], own, scales[0]["tokens"])]
        for i, scale in enumerate(scales[1:], 1):
            keys = F.linear(self.means(h, scale["factor"]), w[f"{block}{i}.kv.weight"], w[f"{block}{i}.kv.bias"])
            q = queries[:, i * part // self.size : (i + 1) * part // self.size]
            mixed.append(self.window(q, keys, scale["factor"], *scale["tokens"]))
        return torch.cat(mixed, -1)

    def window(self, q, joined, factor, begin, end):
        """q [B, heads, N, D] over keys of `factor` tokens that end in [begin, end) before it. Rows without a key are zeros."""
        keys, values = map(self.split, joined.chunk(2, -1))
        first = begin + factor - 1

        def mask():
            p, last = torch.arange(first, q.shape[2])[:, None], factor * torch.arange(keys.shape[2])[None, :] + factor - 1
            return torch.where((p - end < last) & (last <= p - begin), 0.0, -math.inf)

        seen = self.constant(("window", q.shape[2], factor, begin, end), mask)
        mixed = F.scaled_dot_product_attention(q[:, :, first:], keys, values, attn_mask=seen)
        return F.pad(self.merge(mixed), (0, 0, first, 0))

    def near(self, q, joined, tokens):
        """A window [0, b) of the rows themselves: blocks of b queries over two blocks of keys each."""
        keys, values = map(self.split, joined.chunk(2, -1))
        batch, heads, count, size = q.shape
        block = tokens[1]
        if tokens[0] or count % block:
            return self.window(q, joined, 1, *tokens)

        def pairs(x):
            x = F.pad(x, (0, 0, block, 0)).unflatten(2, (-1, block))
            return torch.cat((x[:, :, :-1], x[:, :, 1:]), 3).flatten(1, 2)

        def mask():
            p, q = torch.arange(block)[:, None], torch.arange(-block, block)[None, :]
            inside = (p - block < q) & (q <= p)
            first = torch.arange(count // block)[:, None, None] == 0
            return torch.where(inside & ~(first & (q < 0)), 0.0, -math.inf).repeat(heads, 1, 1)

        seen = self.constant(("near", count, block, heads), mask)
        blocks = q.unflatten(2, (-1, block)).flatten(1, 2)
        mixed = F.scaled_dot_product_attention(blocks, pairs(keys), pairs(values), attn_mask=seen)
        return self.merge(mixed.view(batch, heads, count, size))
