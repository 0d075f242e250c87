# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""models/small/dynamic.json in PyTorch: layers on segments that white space ends (dynamic token pooling, Nawrot et al. 2023), post-norm
with Transformer-XL's terms. Rows of segments are as many as the longest text of the batch has; where `multiple`
says so, they are rounded up, so that a compiler meets few shapes.

Written from docs/spec.md alone. Takes embedding, layers, boundaries by white space, shorten, shift by 1 with a learned row, layers,
upsample by 0, add, layers and a head; or one stack of layers without segments (vanilla-12.json).
"""
import torch
import torch.nn.functional as F

from families import Families
from model import training
from ops import Ops

ENDS = (9, 10, 11, 12, 13, 32)


class Segments(Families):
    multiple = 1  # of rows

    def __init__(self, spec):
        settings = {"activation": "gelu", "placement": "post", "relative": "xl_shared"}
        given = dict(spec["defaults"])
        self.spec, self.training = spec, training(spec)
        self.width, self.heads = spec["width"], given.pop("heads")
        self.size = self.width // self.heads
        self.context, self.batch, self.first = spec["context"], spec["batch"], 0
        self.constants, self.matrices, self.over, self.filled = {}, set(), set(), set()
        ops = [stage["op"] for stage in spec["stages"]]
        cut = ["boundaries", "shorten", "shift", "layers", "upsample", "add", "layers"]
        stages = {op: stage for op, stage in zip(ops, spec["stages"])}
        plain = [given == settings, ops in (["embedding", "layers", *cut, "head"], ["embedding", "layers", "head"]),
                 "positions" not in stages["embedding"], stages["head"] == {"op": "head", "bias": True}, "precision" not in spec]
        self.has_segments = "shorten" in stages
        if self.has_segments:
            plain += [set(stages["boundaries"]) <= {"op", "name", "rule", "capacity"}, stages["boundaries"].get("rule") == "whitespace",
                      set(stages["shorten"]) == {"op", "segments"}, stages["shift"] == {"op": "shift", "by": 1, "start": "null"},
                      stages["upsample"].get("by") == 0]
        if not all(plain):
            raise SystemExit("this spec uses what the peers do not implement; see benchmarks/peers/segments.py, or compare with --pytorch exported")

    def biases(self, w):
        return [w[f"stages.1.inside.0.attention.relative.{part}.bias"] for part in ("content", "position")]

    def layer(self, w, name, x):
        """Post-norm: the norm is behind the sum."""
        block = name + "attention."
        mixed = self.relative(w, block, x, 1)
        sums = x + F.linear(mixed, w[block + "output.weight"], w[block + "output.bias"])
        x = self.norm(w, block + "norm.", sums)
        block = name + "feed_forward."
        h = F.gelu(F.linear(x, w[block + "in.weight"], w[block + "in.bias"]))
        return self.norm(w, block + "norm.", x + F.linear(h, w[block + "out.weight"], w[block + "out.bias"]))

    @torch.no_grad()
    def given(self, w, tokens):
        """Where segments end. A number of rows that is new makes its constants, as a compiler should meet neither."""
        if not self.has_segments:
            return super().given(w, tokens)
        cut = self.cut(tokens)
        if cut[2].shape[1] not in self.filled:
            self.filled.add(cut[2].shape[1])
            self.logits(Ops, w, tokens[:1], *[part[:1] for part in cut])
        return cut

    def cut(self, tokens):
        """Of each row t the number of bits before it and up to it, and of each segment what a row of it counts in its mean; one
        more than the most of a text."""
        bits = torch.isin(tokens, torch.tensor(ENDS))
        upto = bits.cumsum(1)
        rows = -(-(int(upto[:, -1].max()) + 1) // self.multiple) * self.multiple
        before = upto - bits.long()
        sizes = torch.zeros(tokens.shape[0], rows).scatter_add_(1, before, torch.ones(tokens.shape))
        closed = torch.arange(rows)[None, :] < upto[:, -1:]
        return before, upto, (closed / sizes.clamp(min=1))[..., None]

    def logits(self, ops, w, tokens, before=None, upto=None, share=None):
        x = fine = w["stages.0.token.weight"][tokens]
        for index, stage in enumerate(self.spec["stages"]):
            if stage["op"] == "layers":
                for layer in range(stage["count"]):
                    x = self.layer(w, f"stages.{index}.inside.{layer}.", x)
                fine = x if "to" in stage else fine
            elif stage["op"] == "shorten":
                sums = torch.zeros(x.shape[0], share.shape[1], self.width)
                x = share * sums.scatter_add(1, before[..., None].expand_as(x), x)
            elif stage["op"] == "shift":
                start = w[f"stages.{index}.start.weight"].expand(x.shape[0], 1, -1)
                x = torch.cat((start, x[:, :-1]), 1)
            elif stage["op"] == "upsample":
                x = x.gather(1, upto[..., None].expand(-1, -1, self.width))
            elif stage["op"] == "add":
                x = x + fine
        return F.linear(x, w[f"stages.{len(self.spec['stages']) - 1}.weight"], w[f"stages.{len(self.spec['stages']) - 1}.bias"])
